"""Sockets of the desktop and the host: by path and by abstract name, denied by rules or by a shipped profile."""
from __future__ import annotations

import socket

from cases.case import Case
from cases.worlds.desktop import Desktop, Passed
from cases.worlds.listeners import UnixReach
from cases.worlds.work_sockets import WorkSocket

MINIMAL = ("--record", "minimal")
PARAGRAPH = "Sockets of the desktop and the host"

# The names on which services listen; the shipped profiles deny them.
SERVICES = {
    "gpg_agent": "{home}/.gnupg/S.gpg-agent",
    "ssh_agent": "/tmp/ssh-{unique}/agent.1",
    "docker_home": "{home}/.docker/run/docker.sock",
    "docker": "/run/docker/{unique}.sock",
    "dbus_session": "/run/user/{unique}/bus",
    "dbus_abstract": "@/tmp/dbus-{unique}",
    "x11": "/tmp/.X11-unix/X-{unique}",
    "x11_abstract": "@/tmp/.X11-unix/X-{unique}",
    "wayland": "/run/user/{unique}/wayland-0",
    "systemd": "/run/user/{unique}/systemd/private",
    "keyring": "/run/user/{unique}/keyring/control",
    "tmux": "/tmp/tmux-{unique}/default",
    "callgate": "/run/user/{unique}/callgate/run.sock",
}

CASES = [
    *(Case(f"unix.{mode.removeprefix('unix_')}", UnixReach(mode))
      for mode in ("unix", "unix_relative", "unix_symlink", "unix_hardlink", "unix_proc_fd")),
    # From ABI 9 Landlock holds these, and no call is decided.
    *(Case(f"unix.held_{mode}", UnixReach(f"unix_{mode}" if mode != "plain" else "unix", options=MINIMAL))
      for mode in ("plain", "symlink", "hardlink", "proc_fd")),
    Case("unix.held_datagram", UnixReach("unix_datagram", socket.SOCK_DGRAM, datagrams=True, options=MINIMAL)),
    Case("unix.held_denied", UnixReach("unix", options=MINIMAL, denied_inside=True)),
    Case("unix.abstract", UnixReach("unix", abstract=True)),
    Case("unix.datagram_without_rule", UnixReach("unix_datagram", socket.SOCK_DGRAM, twin_mode="unix")),
    Case("unix.pair_without_rule", UnixReach("unix_pair_datagram", socket.SOCK_DGRAM, twin_mode="unix")),
    Case("unix.datagram", UnixReach("unix_datagram", socket.SOCK_DGRAM, datagrams=True)),
    *(Case(f"service.in_workdir_{way}", WorkSocket(way)) for way in (
        "plain", "relative", "proc_root", "proc_fd", "link", "renamed", "hard_link", "beside", "replaced", "exchanged", "child", "again", "raced")),
    *(Case(f"service.{service}", Desktop(name)) for service, name in SERVICES.items()),
    Case("service.passed_descriptor", Passed()),
    Case("unix.pair", UnixReach("unix_pair_datagram", socket.SOCK_DGRAM, datagrams=True)),
]
