"""Faults of the target's own making and of the machine's: signals, descriptors, blackholes, fork bombs, a full disk.

A bare run stands beside wherever one can: the program must have seen the same.
"""
from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from faultbox import Watched, contested, reaper, report_of
from harness import SOAK

STORM_ROUNDS = 8_000 if SOAK else 400
BLACKHOLE_OPENS = 20_000 if SOAK else 1_000
BOMB_PROCESSES = 250

BOTH_WAYS = pytest.mark.parametrize("supervised", [False, True], ids=["bare", "supervised"])


@contextlib.contextmanager
def welcoming() -> Iterator[int]:
    """The port of a loopback listener that takes every caller."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(harness.DEADLINE)


@contextlib.contextmanager
def blackhole() -> Iterator[int]:
    """The port of a loopback listener whose queue is full: the kernel drops what else knocks."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = server.getsockname()
        stack.enter_context(socket.create_connection(address))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield address[1]


def network(box, port: int):
    return contested(box, {"id": "peer", "allow": "connect", "address": "127.0.0.1", "port": port})


@pytest.mark.parametrize("restart", [0, 1], ids=["interrupting", "restarting"])
def test_signal_storm(box, restart):
    """With SA_RESTART nothing shows. Without it the kernel may end a contested call with EINTR before callgate has received
    it. Then there was no effect, and the program's second attempt finds what a bare run finds."""
    file = box.file(box.tree / "file", b"x")
    seen = []
    with welcoming() as port:
        for supervised in (False, True):
            place = box.directory(box.tree / f"storm{int(supervised)}")
            seen.append(box.run([box.program("prog_fault_storm"), "signals", str(file), str(place), str(port), str(STORM_ROUNDS),
                                 str(restart)], network(box, port), supervised=supervised))
    bare, held = seen
    assert bare.code == 0, bare.describe()
    assert held.code == 0 and held.text == bare.text, f"{held.describe()}\n--- bare\n{bare.describe()}"


def test_no_descriptor_left_in_the_target(box):
    """The target's limit is the target's answer: EMFILE, at the same count, and the lowest number afterwards."""
    file = box.file(box.tree / "file", b"x")
    bare, held = (box.run([box.program("prog_fault_storm"), "emfile", str(file)], contested(box), supervised=supervised)
                  for supervised in (False, True))
    assert bare.text.startswith("EMFILE after ") and bare.text.endswith("again 1\n"), bare.describe()
    assert held.text == bare.text, f"{held.describe()}\n--- bare\n{bare.describe()}"


@BOTH_WAYS
def test_blackholed_connect_delays_nobody_else(box, supervised):
    file = box.file(box.tree / "file", b"x")
    with blackhole() as port:
        result = box.run([box.program("prog_fault_storm"), "blackhole", str(file), "127.0.0.1", str(port), str(BLACKHOLE_OPENS)],
                         network(box, port), supervised=supervised)
    assert result.code == 0, result.describe()
    assert result.text == f"opened {BLACKHOLE_OPENS} pending 1\nsecond EINTR handled 1 pending 1\n", result.describe()


def test_fork_bomb_ends_with_the_timeout(box):
    with reaper():
        run = Watched(box, [box.program("prog_fault_storm"), "bomb", str(BOMB_PROCESSES)], options=["--timeout", f"{2 * harness.PATIENCE}s"])
        assert run.lines(2) == ["lit", "spread"]
        result = run.finish()
        assert result.code == 124, result.describe()
        assert not run.orphans(), "callgate left processes behind"
        run.assert_nothing_left()
    assert report_of(run)["outcome"] == "timeout"
    assert run.records()[-1]["event"]["action"] == "run.end"


def denied_and_said(run: Watched, why: bytes) -> None:
    """Calls that cannot be recorded are denied, to the end of the run, and callgate says why."""
    assert run.lines(1) == ["failed"]
    result = run.finish()
    assert result.code == 123 and result.out == b"", result.describe()
    assert why in result.err, result.describe()
    assert run.log.read_bytes(), "the log is gone"


@contextlib.contextmanager
def small_disk(box) -> Iterator[Path]:
    place = box.directory(box.root / "small")
    options = f"size=256k,uid={box.user.uid},gid={box.user.gid},mode=700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "callgate-test", str(place)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_log_on_a_full_disk(box):
    file = box.file(box.tree / "file", b"x")
    with small_disk(box) as place:
        run = Watched(box, [box.program("prog_fault"), "steady", str(file)], log=place / "log.jsonl")
        assert run.lines(1) == ["ok"]
        denied_and_said(run, b"No space left on device")


def test_log_at_its_largest_size(box):
    file = box.file(box.tree / "file", b"x")
    run = Watched(box, [box.program("prog_fault"), "steady", str(file)])
    assert run.lines(1) == ["ok"]
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = run.log.stat().st_size
    harness.as_user(box.user, lambda: resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (size, hard)))
    denied_and_said(run, b"File too large")
