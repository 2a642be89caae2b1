"""The log as it is written: to the system's log, and to a descriptor whose reader is slow, gone or not reading at all."""
from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import select
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

import harness

MAKER = "i=0; while [ $i -lt %d ]; do i=$((i+1)); true > %s/$i; done"
RFC5424 = re.compile(rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([!-~]{1,255}) callgate (\d+) audit - (.*)", re.DOTALL)
LOG_AUDIT = 13


def contested(box: harness.Box) -> dict:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "none", "deny": ["read", "write"], "path": "**/no-such-secret", "reason": "the test's"})


class Daemon:
    """A system log of the test's own: the socket, and `/dev` of a mount namespace in which it is /dev/log."""

    def __init__(self, box: harness.Box) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root mounts a /dev of its own")
        self.box, self.name = box, box.root / "log.socket"
        self.bind()

    def read(self) -> None:
        """From now on as a daemon does: what comes is read at once."""
        reading = self.socket

        def take() -> None:
            while message := reading.recv(1 << 21):
                self.seen.append(message)

        self.reader = threading.Thread(target=take, daemon=True)
        self.reader.start()

    def stop(self) -> None:
        """The server has read all that came until now; the socket is gone."""
        self.socket.shutdown(socket.SHUT_RD)
        self.reader.join(harness.DEADLINE)
        self.socket.close()

    def bind(self) -> None:
        self.seen: list[bytes] = []
        self.name.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.name))
        self.name.chmod(0o666)

    def within(self, line: list[str]) -> list[str]:
        """`line`, run by the box's user where /dev/log leads to the socket."""
        devices = "".join(f"touch $d/{one}; mount --bind /dev/{one} $d/{one}; " for one in ("null", "zero", "full", "random", "urandom", "tty"))
        script = f"set -e; d={self.box.root}/dev; mkdir -p $d; mount -t tmpfs none $d; {devices}" \
            f"ln -s {self.name} $d/log; ln -s /proc/self/fd $d/fd; mkdir $d/pts $d/shm; mount --rbind $d /dev; exec \"$@\""
        user = self.box.user
        drop = ["setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"] if user.uid != 0 else []
        return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *drop, *line]

    def start(self, line: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self.within(line), cwd=self.box.tree, env=self.box.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.box.running.append(process)
        return process

    def messages(self) -> list[bytes]:
        """The bytes that have arrived at a socket from which nobody reads."""
        found = []
        while select.select([self.socket], [], [], 0)[0]:
            found.append(self.socket.recv(1 << 21))
        return found


@pytest.fixture
def daemon(box):
    made = Daemon(box)
    yield made
    made.socket.close()


def test_each_record_reaches_the_system_log_as_rfc_5424_says(box, daemon):
    box.file(box.tree / "no-such-secret", b"x")
    line, log = box.command(["/bin/sh", "-c", f"cat {box.tree}/no-such-secret 2>/dev/null; mkdir {box.tree}/made"], contested(box), ["--syslog"])
    daemon.read()
    process = daemon.start(line)
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 0 and b"did not reach" not in err, err
    daemon.stop()
    messages = [RFC5424.fullmatch(one) for one in daemon.seen]
    assert all(messages)
    records = log.read_bytes().splitlines()
    assert [one.group(5) for one in messages] == records  # each record, whole, in order
    for message, record in zip(messages, map(json.loads, records)):
        facility, severity = divmod(int(message.group(1)), 8)
        denied = record["callgate"].get("verdict") == "deny"
        assert facility == LOG_AUDIT and severity == (4 if denied else 6)
        assert record["@timestamp"].startswith(message.group(2).decode()[:-1])
        assert message.group(3).decode() == socket.gethostname() and int(message.group(4)) > 1
    assert any(one["callgate"].get("verdict") == "deny" for one in map(json.loads, records))


def test_a_daemon_that_does_not_read_holds_nobody_up_and_what_is_lost_is_counted(box, daemon):
    """Its queue is full from the start: the run goes on, and how many records did not arrive is said and in the report."""
    report = box.root / "report.json"
    line, log = box.command(["/bin/sh", "-c", MAKER % (600, box.tree)], contested(box), ["--syslog", "--report", str(report)])
    process = daemon.start(line)
    _, err = process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 0, err
    records, arrived = len(log.read_bytes().splitlines()), len(daemon.messages())
    assert len(os.listdir(box.tree)) == 600 and records > 600
    said = re.search(rb"callgate: (\d+) records did not reach the system's log \((.+)\): the audit log has them", err)
    assert said and arrived > 0 and int(said.group(1)) == records - arrived, (err, records, arrived)
    assert said.group(0).decode().removeprefix("callgate: ") == json.loads(report.read_text())["error"]


def opened_for_writing(fifo: Path) -> int | None:
    """The run does not begin until somebody reads there. It waits, and does nothing else."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO
        return None


def test_a_daemon_that_is_started_anew_is_found_again(box, daemon):
    fifo = box.root / "go"
    os.mkfifo(fifo)
    box.own(fifo)
    line, log = box.command(["/bin/sh", "-c", f"mkdir {box.tree}/one; read x < {fifo}; mkdir {box.tree}/two"],
                            contested(box), ["--syslog", "-r", str(fifo)])
    daemon.read()
    process = daemon.start(line)
    writer = harness.until(lambda: opened_for_writing(fifo), "the first half")
    harness.until(lambda: len(daemon.seen) == len(log.read_bytes().splitlines()), "its records")
    daemon.stop()
    before = daemon.seen
    daemon.bind()
    daemon.read()
    os.write(writer, b"go\n")
    os.close(writer)
    _, err = process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 0 and b"did not reach" not in err, err
    daemon.stop()
    after = daemon.seen
    assert any(b'"action":"mkdir' in one and b"/tree/two" in one for one in after) and len(before) > 1
    assert [RFC5424.fullmatch(one).group(5) for one in before + after] == log.read_bytes().splitlines()  # type: ignore[union-attr]


def test_without_a_system_log_nothing_runs(box):
    if Path("/dev/log").exists():
        pytest.skip("this machine has a system log")
    mark = box.tree / "ran"
    result = box.run(["/bin/sh", "-c", f"> {mark}"], contested(box), options=["--syslog"])
    assert result.code == 125 and "cannot reach /dev/log" in result.errors and not mark.exists(), result.describe()
    both = box.run(["/bin/true"], contested(box), options=["--syslog", "--no-audit"], audit=False)
    assert both.code == 125 and "a copy of the audit log" in both.errors, both.describe()


def to_descriptor(box: harness.Box, writing: int, count: int, *options: str) -> subprocess.Popen[bytes]:
    line, _ = box.command(["/bin/sh", "-c", MAKER % (count, box.tree)], contested(box), ["--audit", f"fd:{writing}", *options], audit=False)
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(writing,))
    os.close(writing)
    return process


def made_and_recorded(box: harness.Box, text: bytes) -> tuple[set[str], set[str]]:
    records = [json.loads(line) for line in text.splitlines()]
    assert [one["event"]["sequence"] for one in records] == list(range(1, len(records) + 1))
    return {str(one) for one in box.tree.iterdir()}, {one["file"]["path"] for one in records if "file" in one}


@pytest.mark.parametrize("kind", ["pipe", "pipe that never blocks", "stream socket"])
def test_a_slow_reader_holds_the_run_up_and_misses_nothing(box, kind):
    """The test reads when the pipe is full and the run stands still; then everything arrives."""
    count = 600  # records of about 900 bytes: far more than a pipe holds
    if kind == "stream socket":
        ours, theirs = socket.socketpair()
        reading, writing = ours.detach(), theirs.detach()
    else:
        reading, writing = os.pipe()
        os.set_blocking(writing, kind == "pipe")
    process = to_descriptor(box, writing, count)
    seen = -1

    def stands_still() -> bool:
        nonlocal seen
        before, seen = seen, len(os.listdir(box.tree))
        time.sleep(0.1)
        return 0 < seen == before < count

    harness.until(stands_still, "the run stands still")
    with os.fdopen(reading, "rb") as stream:
        text = stream.read()
    _, err = process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 0, err
    made, recorded = made_and_recorded(box, text)
    assert len(made) == count and made <= recorded and b'"run.end"' in text


def test_without_its_reader_nothing_happens_any_more(box):
    """The reader goes away in the middle: what it got is all that took effect."""
    reading, writing = os.pipe()
    process = to_descriptor(box, writing, 3000)
    with os.fdopen(reading, "rb", buffering=0) as stream:
        text = b""
        while text.count(b"\n") < 50:
            text += stream.read(65536)
    out, err = process.communicate(timeout=harness.DEADLINE)
    made, recorded = made_and_recorded(box, text[:text.rfind(b"\n") + 1])
    # The rest that was in the pipe when its reader left: written, and never read.
    assert len(made) < 3000 and len(made - recorded) * 600 < 65536 + 4096, len(made - recorded)
    assert b"could not be recorded was denied" in err or b"could not be written" in err, err


def test_a_reader_that_stops_for_good_does_not_outlive_the_run_s_end(box):
    """The tree is ended by --timeout while a record waits: callgate ends too, and says that the log is not whole."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 8192)  # some ten records: soon full on a busy machine, too
    process = to_descriptor(box, writing, 100000, "--timeout", "1s")
    try:
        _, err = process.communicate(timeout=harness.DEADLINE)
        assert process.returncode == 124 and b"audit log could not be written" in err, (process.returncode, err)
        assert len(os.listdir(box.tree)) < 100000
    finally:
        os.close(reading)
