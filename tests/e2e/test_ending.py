"""The end of a tree of processes that are hard to end. It is the same whichever way callgate is told to end it.

prog_stubborn has the shapes: deaf to signals, in a session of its own, forked twice, stopped, held by a tracer. Others wait
for a child without end, write into a full pipe, or fork faster than one can look.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import pytest

import bounds
import harness

SHAPES = ["deaf", "setsid", "daemon", "stopped", "traced", "vforked", "writing", "forking"]
ROOM = 300  # processes, those of the test among them: of one that forks without end
SAID = b"partial\nready\n"
# The cause of the run's end, its exit status, and the outcome in the report.
ENDS = {"timeout": (124, "timeout"), "SIGTERM": (143, "cancelled"), "SIGHUP": (129, "cancelled"),
        "its parent's end": (143, "cancelled"), "its terminal's end": (129, "cancelled")}
# Starts its arguments and waits to be killed.
PARENT = "import subprocess, sys\nsubprocess.Popen(sys.argv[1:])\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def bounded():
    with bounds.at_most(ROOM):
        yield


def rules(box: harness.Box):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})


def start(box: harness.Box, line: list[str], end: str, **keywords) -> tuple[subprocess.Popen, int]:
    """The process, and where its output is read."""
    if end != "its terminal's end":
        if end == "its parent's end":
            line = ["/usr/bin/python3", "-c", PARENT, *line]
        process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)
        return process, process.stdout.fileno()
    outer, inner = pty.openpty()
    settings = termios.tcgetattr(inner)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(inner, termios.TCSANOW, settings)
    process = box.start(line, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **keywords)
    os.close(inner)
    return process, outer


def strike(process: subprocess.Popen, end: str, outer: int) -> None:
    if end == "its terminal's end":
        os.close(outer)
    elif end == "its parent's end":
        process.kill()
    elif end != "timeout":
        process.send_signal(getattr(signal, end))


def state_of(pid: int) -> str:
    """"" of one that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_without_callgate_they_outlive_what_ends_others(box):
    """The control: SIGTERM to every one of them, and all are still there."""
    marker = f"CG_MARK={box.root}"
    name, _, value = marker.partition("=")
    # Shapes that fork are left out: a test could not count them, or end them by number.
    process = box.start([box.program("prog_stubborn"), *SHAPES[:-1]], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                        env=box.environment({name: value}))
    try:
        assert harness.read_until(process.stdout.fileno(), SAID) == SAID
        tree = harness.marked(marker)
        assert len(tree) >= len(SHAPES)
        for pid in tree:
            os.kill(pid, signal.SIGTERM)
        os.kill(process.pid, 0)
        assert set(harness.marked(marker)) == set(tree)
    finally:
        for pid in harness.marked(marker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        harness.until(lambda: not harness.marked(marker), "their end")


@pytest.mark.parametrize("end", ENDS)
def test_all_of_them_are_ended_and_what_they_said_was_delivered(box, end):
    marker, report = f"CG_MARK={box.root}", box.root / "report"
    options = ["--grace", "200ms", "--env", marker, "--report", str(report), "--ask", "never",
               *(["--timeout", "3s"] if end == "timeout" else []), *(["--die-with-parent"] if end == "its parent's end" else [])]
    line, _ = box.command([box.program("prog_stubborn"), *SHAPES], rules(box), options)
    process, reading = start(box, line, end)
    if end == "timeout":  # it may come before all are there, on a machine that is busy
        assert process.stdout.read() in (SAID, SAID[:SAID.index(b"\n") + 1])
    else:
        assert harness.read_until(reading, SAID) == SAID
        assert {"T", "t"} <= {state_of(pid) for pid in harness.marked(marker)}, "one has stopped, one was stopped by its tracer"
        strike(process, end, reading)
    if end != "its terminal's end":
        assert process.stdout.read() == b"", "who holds the output was not ended"
    process.wait(harness.DEADLINE)
    harness.until(lambda: not harness.marked(marker), f"the tree's end; alive: {harness.marked(marker)}")
    harness.until(report.exists, "the report")
    said = json.loads(report.read_text())
    code, outcome = ENDS[end]
    assert said["outcome"] == outcome, said
    if end != "its parent's end":  # nobody is left to wait for callgate
        assert process.returncode == code
