"""Measures questions: opens that a rule decides while one waits, its withdrawal, and the relay of a terminal."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import signal
import socket
import subprocess
import termios
import time

from place import Failure, Place

PATIENCE = 60.0


class Asked:
    """A run of `script` (by sh), whose questions come here. On stdin it waits for a line."""

    def __init__(self, place: Place, script: str) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(PATIENCE)
        rules = place.rule_set("asking", [*place.contesting(),
                                          {"id": "question", "ask": "read", "path": "${workdir}/asked"}])
        (place.work / "asked").touch()
        line = place.supervised(rules, "--ask", f"fd:{theirs.fileno()}", "--no-audit")
        self.process = subprocess.Popen([*map(str, line), "/bin/sh", "-c", script], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.work,
                                        env=place.environment(place.home), pass_fds=(theirs.fileno(),))
        theirs.close()
        self.messages = self.ours.makefile()

    def until(self, kind: str) -> dict:
        for line in self.messages:
            message = json.loads(line)
            if message["type"] == kind:
                return message
        raise Failure(f"the run ended before `{kind}`: {self.process.communicate()[1]}")

    def go(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> str:
        out, errors = self.process.communicate(timeout=PATIENCE)
        self.ours.close()
        if self.process.returncode != 0:
            raise Failure(f"exit {self.process.returncode}: {errors}")
        return out


class Asking:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.text = place.root / "text"

    def opens(self, count: int, asked: bool) -> float:
        """Nanoseconds per contested open, while a question waits or not."""
        beside = f"cat {shlex.quote(str(self.place.work))}/asked" if asked else "sleep 1000"
        run = Asked(self.place, f"{beside} >/dev/null & read go; {self.place.target} read {count} {self.place.contested}")
        run.until("ask" if asked else "hello")
        run.go()
        return float(run.end())

    def withdrawal(self) -> float:
        """Nanoseconds from the asker's death until its question is withdrawn."""
        run = Asked(self.place, "cat asked & echo $!; read go")
        run.until("ask")
        asker = int(run.process.stdout.readline())
        began = time.monotonic_ns()
        os.kill(asker, signal.SIGKILL)
        run.until("withdrawn")
        took = time.monotonic_ns() - began
        run.go()
        run.end()
        return took

    def relayed(self, megabytes: int, by_script: bool) -> float:
        """Nanoseconds per megabyte of lines that a command writes to its terminal, until they are read here."""
        if not self.text.exists() or self.text.stat().st_size < megabytes << 20:
            self.text.write_bytes((b"x" * 79 + b"\n") * ((megabytes << 20) // 80 + 1))
        rules = self.place.rule_set("relay", [{"id": "text", "allow": "read", "path": str(self.text)},
                                              {"id": "question", "ask": "read", "path": "${workdir}/asked"}])
        command = ["/bin/cat", str(self.text)]
        line = (["script", "-qec", shlex.join(command), "/dev/null"] if by_script else
                [*map(str, self.place.supervised(rules, "--ask", "tty", "--no-audit")), *command])
        return read_all(line, self.place, self.text.stat().st_size) / megabytes


def read_all(line: list[str], place: Place, size: int) -> float:
    """Runs `line` on a terminal of its own and reads what appears: nanoseconds. Each newline comes as two bytes."""
    master, slave = pty.openpty()
    began = time.monotonic_ns()
    process = subprocess.Popen(line, stdin=slave, stdout=slave, stderr=slave, cwd=place.work, start_new_session=True,
                               env={**place.environment(place.home), "TERM": "xterm"},
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    seen = 0
    try:
        while select.select([master], [], [], PATIENCE)[0]:
            text = os.read(master, 1 << 16)
            seen += len(text)
            if b"\x1b[6n" in text:  # callgate asks where the cursor is
                os.write(master, b"\x1b[1;1R")
    except OSError:
        pass  # EIO: nobody holds the other side any more
    took = time.monotonic_ns() - began
    os.close(master)
    if process.wait(PATIENCE) != 0 or seen < size + size // 80:
        raise Failure(f"exit {process.returncode}, {seen} bytes of {size + size // 80}: {shlex.join(line)}")
    return took
