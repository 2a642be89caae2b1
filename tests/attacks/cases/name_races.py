"""Names that move between decision and effect, and the many names of one object."""
from __future__ import annotations

import os
from pathlib import Path

import harness
from cases.case import Case
from cases.worlds.descriptors import Inherited, NotNamed, Received
from cases.worlds.execution import JudgedRace
from cases.worlds.listeners import RacedReach, UnixReach, tcp, udp
from cases.worlds.place import Door, ExecRace, Place, Race, contested
from cases.worlds.races import OtherObject, Planted, PlantedByAnotherRun, PlantedMeanwhile, PlantedRace

PARAGRAPH = "Races on names"
ABI = frozenset({"abi"})

# operation of attack_race.c: how the name moves
RACES = {
    "openat": ("symlink", "leaf", "exchange", "replace", "dup2", "close", "cwd"),
    "openat2": ("symlink",),
    "nofollow": ("symlink", "exchange"),
    "trunc": ("symlink", "leaf"),
    "trunc_nofollow": ("replace",),
    "creat": ("leaf", "cwd"),
    "truncate": ("leaf",),
    "unlink": ("symlink", "dup2", "cwd", "close"),
    "chmod": ("leaf", "exchange", "dup2"),
    "chown": ("symlink",),
    "setxattr": ("leaf", "exchange"),
    "setxattrat": ("symlink", "dup2"),
    "utimens": ("leaf", "cwd"),
    "mkdir": ("symlink", "exchange"),
    "mknod": ("symlink", "dup2"),
    "symlink": ("dup2",),
    "create": ("symlink", "exchange"),
    "link": ("symlink",),
    "linkfrom": ("symlink", "dup2"),
    "rename": ("symlink", "exchange", "cwd"),
    "renamefrom": ("symlink", "replace"),
    "swap": ("symlink",),
}
WITH_ABI = {"rename.exchange"}

# A descriptor's number gets another file while what it names is changed: reading is allowed, changing is not.
BY_NUMBER = ("fchmod", "fchown", "futimens", "fsetxattr")

NAMES = ("plain", "rdwr", "creat_flag", "nofollow", "nonblocking", "openat2", "empty_path", "empty_path_openat2", "in_root", "beneath", "no_symlinks", "symlink", "chain",
         "folder_link", "dotdot", "slashes", "relative", "proc_cwd", "proc_root", "thread_root", "task_root", "task_cwd", "child_root",
         "child_cwd", "proc_fd", "thread_fd", "dev_fd", "proc_fd_number", "stdin", "opath_folder", "fd_folder", "dev_fd_folder", "fd_up",
         "link_to_proc", "link_to_fd", "own_table", "own_cwd", "vfork")
RENAMES = ("hardlink", "hardlink_fd", "hardlink_empty", "rename", "exchange", "rename_folder", "exchange_folder", "rename_ancestor",
           "exchange_ancestor", "cwd_kept", "dirfd_kept")
NAMES_WITH_ABI = {"plain", "symlink", "proc_root", "hardlink", "rename", "rename_folder", "exchange", "rename_ancestor"}


def named_file(box: harness.Box, folder: Path, content: bytes) -> None:
    """The names that a listing would show."""
    box.file(folder / content.decode(), b"")


DEEP = 25  # directories of 200 bytes: beyond PATH_MAX


def deep_file(box: harness.Box, folder: Path, content: bytes) -> None:
    """A victim further down than a path can say."""
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEEP):
        os.mkdir("d" * 200, dir_fd=current)
        below = os.open("d" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=current)
        os.close(current)
        current = below
    with open(os.open("victim", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=current), "wb") as victim:
        victim.write(content)
    os.close(current)


def by_pattern(place: Place) -> dict[str, object]:
    """The object is denied by a pattern on its own name, wherever it lies."""
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{place.box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{place.root}/**"},
                            {"id": "pattern", "deny": "read", "path": f"{place.root}/**/.env"})


def tagged(mode: str) -> frozenset[str]:
    return ABI if mode in NAMES_WITH_ABI else frozenset()


CASES = [
    *(Case(f"race.{operation}.{racer}", Race(operation, racer), ABI if f"{operation}.{racer}" in WITH_ABI else frozenset())
      for operation, all_racers in RACES.items() for racer in all_racers),
    *(Case(f"race.{operation}.number", Race(operation, "files", verbs=("write",))) for operation in BY_NUMBER),
    # A tree in which every call is decided: all of these are performed on behalf.
    *(Case(f"race.contested.{operation}.{racer}", Race(operation, racer, more=contested))
      for operation, racer in (("openat", "symlink"), ("openat", "thread"), ("creat", "vanish"), ("truncate", "leaf"), ("rename", "exchange"))),
    Case("race.recorded.identity", OtherObject("identity", "own", more=contested)),
    Case("race.planted.directory", PlantedRace()),
    Case("race.planted.two_runs", PlantedByAnotherRun()),
    # These race an execve by a process that shares the caller's descriptors and working directory.
    *(Case(f"race.judged.{operation}.{racer}", JudgedRace(operation, racer))
      for operation, racer in (("execveat", "dup2"), ("execveat", "cwd"), ("exec", "cwd"))),
    Case("race.execveat.dup2", ExecRace("execveat", "dup2")),
    # A directory that is walked before its rename gets another entry; a file is a directory by then.
    *(Case(f"race.plant.{mode}", PlantedMeanwhile(mode, "sibling")) for mode in ("entries", "swap")),
    Case("race.unix.symlink", UnixReach("race_unix_link", raced=True)),
    # tcp to GOOD is allowed, udp to GOOD is not: the socket under the number changes while connect is judged
    Case("race.connect.socket", RacedReach("race_socket", lambda good, bad: [tcp(good), udp(bad)],
                                           lambda servers: [*servers.bad, servers.good[2]])),
    *(Case(f"name.{mode}", Door("attack_read", mode), tagged(mode)) for mode in NAMES),
    *(Case(f"name.{mode}", Door("attack_rename", mode), tagged(mode)) for mode in RENAMES),
    Case("name.list", Door("attack_read", "list", prepare=named_file)),
    Case("name.list_reopened", Door("attack_read", "list_reopened", prepare=named_file)),
    Case("name.deep", Door("attack_read", "deep", extra=str(DEEP), prepare=deep_file)),
    Case("name.link_gone", Door("attack_rename", "link_gone", leaf=".env", rules=by_pattern, twin_mode=("attack_change", "tmpfile_empty"))),
    Case("name.reopen_gone", Door("attack_rename", "reopen_gone", leaf=".env", rules=by_pattern, twin_mode=("attack_change", "tmpfile_empty"))),
    Case("name.planted", Planted()),
    Case("descriptor.inherited", Inherited()),
    Case("descriptor.not_named", NotNamed()),
    Case("descriptor.received", Received()),
    Case("descriptor.received_file", Received("received_file", os.O_PATH, of_file=True)),
]
