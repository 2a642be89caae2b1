"""The shared part of the load and fault tests: a contested directory, a run that can be watched, and what must be gone after
it."""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness import Box

PR_SET_CHILD_SUBREAPER = 36


def contested(box: Box, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The tree is readable, writable and executable; a glob denies names in it, so every call there waits for an answer."""
    own = [
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "no", "deny": ["read", "write"], "path": f"{box.tree}/**/*.no"},
        {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
    ]
    return harness.rule_set(*own, *rules, **more)


@contextlib.contextmanager
def reaper() -> Iterator[None]:
    """Processes that a run leaves behind become children of this process, where they are seen, and are reaped at the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Watched:
    """A run of a program under the rules of `contested`, with its log, report, private tmp and a marker of its own."""

    def __init__(self, box: Box, args: list[str], rules: dict[str, Any] | None = None, options: list[str] = (),  # type: ignore[assignment]
                 log: Path | None = None, runtime: Path | None = None, **keywords: Any) -> None:
        self.box = box
        self.before = set(harness.children(os.getpid()))
        box.counter += 1
        self.marker = f"CG_MARK={uuid.uuid4().hex}"
        self.tmp = box.directory(box.root / f"tmp{box.counter}", 0o700)
        self.report = box.root / f"tmp{box.counter}.report"
        named = [] if log is None else ["--audit", str(log)]
        line, made = box.command(args, rules or contested(box),
                                 ["--env", self.marker, "--report", str(self.report), *named, *options], audit=log is None)
        self.log = log or made or Path()
        name, _, value = self.marker.partition("=")
        places = {"TMPDIR": str(self.tmp), **({"XDG_RUNTIME_DIR": str(runtime)} if runtime else {})}
        self.process = box.start(line, env=box.environment({name: value, **places}), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self, count: int, seconds: float = harness.DEADLINE) -> list[str]:
        """The next lines of the program's output."""
        return [read_line(self.process, seconds) for _ in range(count)]

    def send(self, text: bytes = b"\n") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def finish(self, seconds: float = harness.DEADLINE) -> harness.Result:
        return self.box.wait(self.process, ["watched"], b"", seconds)

    def guardian(self) -> int:
        """callgate's only child."""
        found = harness.children(self.pid)
        assert len(found) == 1, f"callgate has the children {found}"
        return found[0]

    def records(self) -> list[dict[str, Any]]:
        return harness.read_log(self.log)

    def unrecorded(self) -> list[str]:
        """Files of the tree that no whole line of the log speaks of."""
        known = {one["file"]["path"] for one in self.records() if "file" in one}
        return [str(path) for path in self.box.tree.iterdir() if path.name[0] in "td" and "-" in path.name
                and str(path) not in known]

    def assert_nothing_left(self) -> None:
        """No process of the run lives or waits to be reaped, and its private directory is gone."""
        harness.until(lambda: not harness.marked(self.marker), f"the tree's end; alive: {harness.marked(self.marker)}")
        harness.until(lambda: not list(self.tmp.iterdir()), f"the private directory's end: {list(self.tmp.iterdir())}")

    def began(self) -> bool:
        """Whether a decision is on record, so that the command surely ran."""
        return any("verdict" in one.get("callgate", {}) for one in self.records())

    def orphans(self) -> set[int]:
        """Processes, dead or alive, that the run left to this process (inside `reaper`)."""
        return set(harness.children(os.getpid())) - self.before - {self.pid}

    def reap(self) -> None:
        for pid in self.orphans():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def read_line(process: subprocess.Popen[bytes], seconds: float) -> str:
    assert process.stdout is not None
    text = b""
    while not text.endswith(b"\n"):
        ready = select.select([process.stdout], [], [], seconds)[0]
        piece = os.read(process.stdout.fileno(), 1) if ready else b""
        if not piece:
            process.kill()
            _, errors = process.communicate()
            raise AssertionError(f"no line came; so far {text!r}; stderr: {errors.decode(errors='replace')[-2000:]}")
        text += piece
    return text.decode().rstrip("\n")


def report_of(run: Watched) -> dict[str, Any]:
    return json.loads(run.report.read_text())
