#!/usr/bin/python3
"""Records a real session on a terminal, for the README: a denied key, a question over a full-screen program, and the record.

usage: record.py CALLGATE CAST      writes CAST, in asciinema's format (version 2)

The session waits for what it expects on the screen, and ends with an error where that does not come. A person's pauses are
in the recording alone: they take no time here. A marker names each scene that is shown whole.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import secrets
import select
import shutil
import signal
import struct
import sys
import termios
import time
from typing import Iterator

import screen

SHOWN_HOME = "/home/you"

COLUMNS, ROWS = 110, 24
PATIENCE = 30.0


class Terminal:
    """A shell on a terminal of its own. What it writes is kept with its time."""

    def __init__(self, environment: dict[str, str], place: pathlib.Path) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(place)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "-i"], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.shown = screen.Screen(COLUMNS, ROWS, lambda answer: os.write(self.master, answer.encode()))
        self.events: list[tuple[float, str, str]] = []
        self.now = 0.0

    def read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        text = os.read(self.master, 65536).decode("utf-8", "replace")
        self.shown.feed(text)
        self.events.append((self.now, "o", text))
        return True

    def until(self, wanted: str) -> None:
        end = time.monotonic() + PATIENCE
        while not any(wanted in line for line in self.shown.lines()):
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                sys.exit(f"did not come: {wanted}; the last bytes: {''.join(text for _, _, text in self.events)[-400:]!r}\n" + "\n".join(self.shown.lines()))
        while self.read(0.3):  # the rest of what is drawn
            pass

    def pause(self, seconds: float, scene: str = "") -> None:
        """Time for whoever looks."""
        if scene:
            self.events.append((self.now, "m", scene))
        self.now += seconds

    def type(self, text: str) -> None:
        for one in text:
            os.write(self.master, one.encode())
            self.read(0.2)
            self.now += 0.045

    def enter(self) -> None:
        os.write(self.master, b"\r")
        self.now += 0.1


@contextlib.contextmanager
def short_home() -> Iterator[str]:
    """A directory whose name is as long as the one that is shown, so that no column moves."""
    name = "/tmp/y" + secrets.token_hex(2)[:len(SHOWN_HOME) - len("/tmp/y")]
    os.mkdir(name, 0o700)
    try:
        yield name
    finally:
        shutil.rmtree(name)


def play(terminal: Terminal) -> None:
    terminal.until("$")
    terminal.pause(0.6)
    terminal.type("callgate run -- cat ~/.ssh/id_ed25519")
    terminal.enter()
    terminal.until("rule base.keys")
    terminal.pause(2.5, "a denied key")
    terminal.type("callgate run -- vim -n -u NONE notes.txt")
    terminal.enter()
    terminal.until("Buy milk")
    terminal.pause(1.5)
    terminal.type(":read ~/letters/plan.txt")
    terminal.enter()
    terminal.until("[Enter] deny")
    terminal.until("> ")  # a key counts from here on
    terminal.pause(3.5, "a question")
    terminal.type("s")
    terminal.enter()
    terminal.until("Meet at noon")
    terminal.pause(2.0, "the program goes on")
    terminal.type(":quit!")
    terminal.enter()
    terminal.until("base.keys")
    terminal.pause(0.8)
    terminal.type("callgate audit show")
    terminal.enter()
    terminal.until("end of run")
    terminal.pause(5.0, "the record")


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    callgate, cast = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with short_home() as name:
        home = pathlib.Path(name)
        for file, text in {".ssh/id_ed25519": "a private key\n", "letters/plan.txt": "Meet at noon.\n", "project/notes.txt": "Buy milk.\n"}.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(text)
        environment = {"PATH": f"{callgate.parent}:/usr/bin:/bin", "HOME": name, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ "}
        terminal = Terminal(environment, home / "project")
        try:
            play(terminal)
        finally:
            os.kill(terminal.pid, signal.SIGHUP)
            os.close(terminal.master)
            os.waitpid(terminal.pid, 0)
        lines = [json.dumps({"version": 2, "width": COLUMNS, "height": ROWS, "title": "callgate"})]
        lines += [json.dumps([round(when, 3), kind, text.replace(name, SHOWN_HOME)], ensure_ascii=False) for when, kind, text in terminal.events]
        lines.append(json.dumps([round(terminal.now, 3), "o", ""]))
    cast.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
