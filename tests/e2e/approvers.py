"""Clients that answer questions: one end of a `--ask fd:N` socketpair, and runs that have such an end."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import socket
import struct
import subprocess
import termios
import time
from typing import Any

import harness


class Executor:
    """Reads questions and writes answers, as a program does that runs callgate."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.buffer = b""
        self.seen: list[dict[str, Any]] = []
        self.early: list[dict[str, Any]] = []  # questions that came before the acknowledgement of an answer

    def descriptor(self) -> int:
        return self.theirs.fileno()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    def message(self, seconds: float = harness.DEADLINE) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.ours], [], [], left)[0], f"no message came after {self.seen[-5:]}"
            got = self.ours.recv(65536)
            assert got, f"the run closed its end after {self.seen[-5:]}"
            self.buffer += got
        line, _, self.buffer = self.buffer.partition(b"\n")
        found = json.loads(line)
        self.seen.append(found)
        return found

    def next(self, kind: str) -> dict[str, Any]:
        """The next message of this type; counts may come between."""
        if kind == "ask" and self.early:
            return self.early.pop(0)
        while True:
            found = self.message()
            if found["type"] == kind:
                return found
            assert found["type"] in ("hello", "count", "withdrawn", "ack", "ask"), found
            if found["type"] == "ask":
                self.early.append(found)

    def send(self, **message: Any) -> None:
        self.send_line(json.dumps({"v": 1, **message}).encode())

    def send_line(self, line: bytes) -> None:
        self.ours.sendall(line + b"\n")

    def decide(self, ask: dict[str, Any], verdict: str, scope: str = "once", **more: Any) -> dict[str, Any]:
        """Sends a decision and gives back its acknowledgement."""
        self.send(type="decision", id=ask["id"], key=ask["key"], verdict=verdict, scope=scope, **more)
        return self.next("ack")


class Asked:
    """A run whose questions come to an executor."""

    def __init__(self, box: harness.Box, args: list[str], rules: dict[str, Any], options: tuple[str, ...] = (),
                 env: dict[str, str] | None = None) -> None:
        self.box, self.executor = box, Executor()
        number = self.executor.descriptor()
        self.line, self.log = box.command(args, rules, ["--ask", f"fd:{number}", *options])
        self.process = box.start(self.line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 pass_fds=(number,), env=box.environment(env))
        self.executor.theirs.close()
        assert self.executor.message()["type"] == "hello"

    def ask(self) -> dict[str, Any]:
        return self.executor.next("ask")

    def decide(self, *words: Any, **more: Any) -> dict[str, Any]:
        return self.executor.decide(*words, **more)

    def end(self, stdin: bytes | None = None) -> harness.Result:
        result = self.box.wait(self.process, self.line, stdin, harness.DEADLINE)
        result.audit = harness.read_log(self.log)
        self.executor.ours.close()
        return result


def records(result: harness.Result, action: str) -> list[dict[str, Any]]:
    return [one for one in result.audit if one["event"]["action"] == action]


MARK = "> "


class Person:
    """`callgate approve` in a terminal of its own."""

    def __init__(self, box: harness.Box, *options: str, columns: int = 160, rows: int = 40, term: str = "xterm") -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**box.environment(runtime(box)), "TERM": term}
        try:
            self.process = box.start([str(box.callgate), "approve", *options], stdin=slave, stdout=slave, stderr=slave,
                                     env=environment, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        finally:
            os.close(slave)
        self.text = ""

    def sees(self, wanted: str) -> str:
        """Reads until `wanted` has come; what came up to it."""
        while wanted not in self.text:
            self.text += self.more()
        before, _, self.text = self.text.partition(wanted)
        return before + wanted

    def more(self, patient: bool = False) -> str:
        ready = select.select([self.master], [], [], harness.DEADLINE)[0]
        assert ready, f"nothing more came after {self.text!r}"
        try:
            return os.read(self.master, 65536).decode("utf-8", "backslashreplace")
        except OSError as ended:  # nobody holds the other side any more
            self.process.wait(harness.DEADLINE)
            if patient:
                return ""
            raise AssertionError(f"callgate approve ended after {self.text!r}") from ended

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def asked(self) -> str:
        """The output up to the mark, which appears when lines count."""
        return self.sees(MARK)

    def answers(self, line: str, seen: str | None = None) -> None:
        """Types a line at the mark; `seen`: what then appears."""
        self.type(line + "\n")
        if seen is not None:
            self.sees(seen)

    def close(self) -> None:
        os.close(self.master)


def runtime(box: harness.Box) -> dict[str, str]:
    """The directory of sockets that belongs to the box."""
    place = box.root / "runtime"
    if not place.exists():
        box.directory(place, 0o700)
    return {"XDG_RUNTIME_DIR": str(place), "XDG_CONFIG_HOME": str(box.home / ".config")}


class SocketRun:
    """A run whose questions go to its socket."""

    def __init__(self, box: harness.Box, args: list[str], rules: dict[str, Any], ask: str = "socket", timeout: str = "60s",
                 **more: Any) -> None:
        self.box = box
        self.line, self.log = box.command(args, rules, ["--ask", ask, "--ask-timeout", timeout])
        self.process = box.start(self.line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=box.environment(runtime(box)), **more)

    def name(self) -> str:
        """The run's name, when its socket is there."""
        place = self.box.root / "runtime" / "callgate"
        found = harness.until(lambda: sorted(place.glob("[!.]*.sock")) if place.exists() else [], "the run's socket")
        return found[0].stem

    def end(self, stdin: bytes | None = b"") -> harness.Result:
        result = self.box.wait(self.process, self.line, stdin, harness.DEADLINE)
        result.audit = harness.read_log(self.log)
        return result


def verb(box: harness.Box, *words: str) -> harness.Result:
    """Runs another verb of callgate, with the box's directories."""
    line = [str(box.callgate), *words]
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        env=box.environment(runtime(box)))
    return box.wait(process, line, None, harness.DEADLINE)
