"""`callgate exec --serve` and `--http` under a mixed load, while somebody kills at random. The victims are processes of jobs,
supervisors, guardians, clients' connections, the front and the service itself, which is started again. Each job has one
answer at most, and one without an exit code did not run. No job runs twice. Afterwards nothing is left.

The seed is printed; CALLGATE_KILLS_SEED=N tries it again. It gives the jobs, the victims and the signals, not their timing.
"""
from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import harness
from jobs import check

JOBS = 2_400 if harness.SOAK else 120
KILLS = 600 if harness.SOAK else 30
ENDS = 100 if harness.SOAK else 5  # of KILLS: of the service or its front
ROUNDS = 15 if harness.SOAK else 1  # of each load, with a seed of its own
CLIENTS, AT_ONCE = 8, 5
MARK = "CG_MARK"
UNREAD = b"callgate: the answers could not be written: nobody reads standard output\n"


class Kind(NamedTuple):
    """A kind of job. `right` says whether the answer is that of a job that nobody disturbed."""

    job: Callable[[int], dict[str, Any]]
    right: Callable[[int, dict[str, Any]], bool]
    act: str = ""  # of the client, once the job has begun


def bash(code: str, **more: Any) -> Callable[[int], dict[str, Any]]:
    """In `code`, N stands for the number. The job first writes that it ran."""
    return lambda number: {"language": "bash", "code": f"echo >> ran/{number}; " + code.replace("N", str(number)), **more}


def said(number: int, answer: dict[str, Any]) -> bool:
    return (answer["output"], answer["error"], answer["exit_code"]) == (f"{number}\n", "", 0)


# It keeps its sockets in a process that left its session and ignores SIGTERM.
LISTEN = """import os, signal, socket
open('ran/{0}', 'a').write('\\n')
held = [socket.create_server(('127.0.0.1', 0)), socket.socket(socket.AF_UNIX)]
held[1].bind(os.environ['TMPDIR'] + '/s')
held[1].listen()
open('sockets/{0}', 'w').write(' '.join(str(os.fstat(one.fileno()).st_ino) for one in held))
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0: signal.pause()
    os._exit(0)
print({0})"""

KINDS = {
    "short": Kind(bash("echo N"), said),
    "status": Kind(bash("exit $((N % 100))"), lambda number, answer: answer["exit_code"] == number % 100),
    "python": Kind(lambda number: {"code": f"open('ran/{number}', 'a').write('\\n'); print({number})"}, said),
    "output": Kind(bash("head -c 300000 /dev/zero | tr '\\0' x; echo N >&2"),
                   lambda number, answer: (answer["output"], answer["error"]) == ("x" * 300_000, f"{number}\n")),
    "stdin": Kind(bash("cat; echo N", stdin="é" * 50_000), lambda number, answer: answer["output"] == "é" * 50_000 + f"{number}\n"),
    "flood": Kind(bash("exec yes", timeout=0.3, grace=0.1, max_output=1000),
                  lambda number, answer: answer["output"] == "y\n" * 500 and answer["report"]["outcome"] == "timeout"),
    "late": Kind(bash("setsid -f sleep 1000; sleep 1000", timeout=0.3, grace=0.1),
                 lambda number, answer: (answer["report"]["outcome"], answer["exit_code"]) == ("timeout", 124)),
    "input": Kind(bash("echo begun; cat", stream=True, stdin_open=True), lambda number, answer: answer["output"] == "begun\ninput\n", "input"),
    "cancelled": Kind(bash("setsid -f sleep 1000; echo begun; sleep 1000", stream=True, grace=0.2),
                      lambda number, answer: (answer["output"], answer["report"]["outcome"]) == ("begun\n", "cancelled"), "cancel"),
    "daemons": Kind(bash("for one in 1 2 3; do setsid -f sleep 1000; done; sleep 1000 & echo N", processes=64), said),
    "listener": Kind(lambda number: {"code": LISTEN.format(number)}, said),
    "denied": Kind(bash("cat /etc/shadow; echo N", memory="500M"),
                   lambda number, answer: answer["output"] == f"{number}\n" and any("/etc/shadow" in one["object"] for one in answer["report"]["denials"])),
}


class Told(NamedTuple):
    """It is what a client knows about its job."""

    answer: dict[str, Any] | None  # None: nothing
    service: "Serve | Http"
    left: bool = False  # the client went away itself


class Serve:
    """`callgate exec --serve`: all clients share its stdin and stdout."""

    ENDS = ("SIGKILL", "SIGTERM", "end of stdin", "end of stdout", "SIGSTOP")
    front = 0

    def __init__(self, box: harness.Box, environment: dict[str, str], _before: object) -> None:
        ours, theirs = socket.socketpair()
        self.box, self.stdout, self.end = box, ours, ""
        self.gate, self.writing = threading.Lock(), threading.Lock()  # of new jobs, of all lines
        self.waiting: dict[int, tuple[Kind, queue.Queue]] = {}
        self.sent: set[int] = set()
        self.strays: list[Any] = []
        self.barrier = threading.Event()
        self.process = box.start([str(box.callgate), "exec", "--serve", "--jobs", str(AT_ONCE)], stdin=subprocess.PIPE, stdout=theirs,
                                 stderr=subprocess.PIPE, env=environment)
        theirs.close()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.stdout.makefile("rb"):
            answer = json.loads(line) if line.endswith(b"\n") else None  # the end may come in the middle
            if answer == {"cancel": "barrier", "found": False}:
                self.barrier.set()
            elif answer and "cancel" not in answer:
                key = answer.get("input", answer.get("id"))
                if key in self.waiting:
                    self.waiting[key][1].put(answer)
                elif "input" not in answer:  # that one came too late for a job that was killed
                    self.strays.append(answer)
        self.end = self.end or "by itself"
        for _, lines in list(self.waiting.values()):
            lines.put(None)

    def _write(self, line: dict[str, Any]) -> bool:
        with self.writing, contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
            return True
        return False

    def run(self, number: int, kind: Kind, job: dict[str, Any]) -> Told | None:
        """The result is None if the job was not sent."""
        lines: queue.Queue = queue.Queue()
        with self.gate:
            if self.end:
                return None
            self.waiting[number] = kind, lines
            self.sent.add(number)
            self._write({"id": number, **job})
        if self.end and not self.reader.is_alive():
            lines.put(None)  # it ended before it knew of us
        acted = False
        while True:
            answer = lines.get(timeout=harness.DEADLINE)
            if answer and "stream" in answer and not acted:
                acted = True
                self._write({"cancel": number} if kind.act == "cancel" else {"input": number, "text": "input\n", "end": True})
            if answer is None or not {"stream", "input"} & set(answer):
                del self.waiting[number]
                return Told(answer and check(answer), self)

    def connections(self) -> list[int]:
        return []

    def strike(self, how: str) -> None:
        """Ends the service in one way, or stops it for a moment."""
        if how == "SIGSTOP":
            return pause(self.process.pid)
        with self.gate:
            if how == "SIGTERM":
                self._write({"cancel": "barrier"})  # all lines before it were read
                assert self.barrier.wait(harness.DEADLINE), "the service answers"
            elif how == "end of stdin":
                harness.until(lambda: not any(kind.act for kind, _ in list(self.waiting.values())), "nobody has more to say")
            self.end = how
            if how == "end of stdin":
                self.process.stdin.close()
            elif how == "end of stdout":
                self.stdout.shutdown(socket.SHUT_RDWR)
            else:
                self.process.send_signal(getattr(signal, how))
        complaint = self.process.stderr.read()
        status = self.process.wait(harness.DEADLINE)
        self.reader.join(harness.DEADLINE)
        wanted = {"SIGKILL": (-9, b""), "end of stdout": (125, UNREAD)}.get(how, (0, b""))
        assert (status, complaint) == wanted and not self.strays, (how, status, complaint, self.strays)

    def unanswered(self, number: int, ran: bool) -> bool:
        """Whether the end of the service can be why a job has no answer."""
        return self.end in ("SIGKILL", "end of stdout") or (self.end == "SIGTERM" and number not in self.sent and not ran)


class Http:
    """`callgate exec --http`: each job has a connection of its own."""

    ENDS = ("SIGKILL", "SIGTERM", "SIGKILL of the front", "SIGTERM of the front", "SIGSTOP", "SIGSTOP of the front")

    def __init__(self, box: harness.Box, environment: dict[str, str], before: "Http | None") -> None:
        self.box, self.end, self.strays = box, "", []
        self.path = box.root / "service.sock"
        self.open: dict[int, socket.socket] = {}

        def served() -> bool:
            """The front of the service before may not have ended yet."""
            self.process = box.start([str(box.callgate), "exec", "--http", f"unix:{self.path}", "--jobs", str(AT_ONCE), "--drain", "1"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
            line = self.process.stderr.readline()
            assert b"serving jobs at" in line or (before and b"another process serves there" in line), line
            return b"serving jobs at" in line

        harness.until(served, "the service starts")
        self.front = harness.until(lambda: next((one for one in harness.children(self.process.pid) if b"http-front" in cmdline(one)), 0), "a front")

    def _send(self, line: socket.socket, path: str, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        line.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     f"Content-Length: {len(text)}\r\n\r\n".encode() + text)

    def _connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(harness.DEADLINE)
        line.connect(str(self.path))
        return line

    def run(self, number: int, kind: Kind, job: dict[str, Any]) -> Told | None:
        """The result is None if nobody took the connection."""
        if self.end:
            return None
        try:
            line = self._connect()
        except OSError:
            return None
        text = b""
        with line:
            self.open[number] = line
            with contextlib.suppress(ConnectionError):
                self._send(line, "/v1/jobs", {"id": number, **job})
                acted = False
                while piece := line.recv(65536):
                    text += piece
                    if kind.act and not acted and b"event: output" in text:
                        acted = True
                        if kind.act == "cancel":
                            self.open.pop(number, None)  # it may have been cut just now
                            return Told(None, self, True)
                        self._input(text)
            left = self.open.pop(number, None) is None
        return Told(self._answer(text, number), self, left)

    def _input(self, text: bytes) -> None:
        path = re.search(rb'"input":"([^"]*)"', text)[1].decode()
        with contextlib.suppress(OSError), self._connect() as other:
            self._send(other, path, {"text": "input\n", "end": True})
            while other.recv(65536):
                pass

    def _answer(self, text: bytes, number: int) -> dict[str, Any] | None:
        """The one answer, or None where it is not whole."""
        head, _, body = text.partition(b"\r\n\r\n")
        if b"event-stream" in head:
            events = body.split(b"\n\n")
            answers = [one for one in events[:-1] if one.startswith(b"event: answer\n")]
            assert len(answers) <= 1 and (not answers or (events[-2:] == [answers[0], b""])), text[-3000:]
            return check(json.loads(answers[0].partition(b"data: ")[2])) if answers else None
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        if not length or len(body) < int(length[1]):
            return None
        assert len(body) == int(length[1]), f"more than one answer to job {number}: {text[-3000:]!r}"
        return {**check(json.loads(body)), "status": int(head.split()[1])}

    def connections(self) -> list[int]:
        return list(self.open)

    def cut(self, number: int) -> bool:
        line = self.open.pop(number, None)
        if line is None:
            return False
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        return True

    def strike(self, how: str) -> None:
        number, _, front = how.partition(" of the ")
        victim = self.front if front else self.process.pid
        if number == "SIGSTOP":
            return pause(victim)
        self.end = how
        os.kill(victim, getattr(signal, number))
        complaint = self.process.stderr.read()
        status = self.process.wait(harness.DEADLINE)
        if front:
            assert status == 125 and b"the front of --http has ended by itself" in complaint, (status, complaint)
        else:
            assert (status, complaint) == ((-9, b"") if number == "SIGKILL" else (0, b"")), (how, status, complaint)

    def unanswered(self, _number: int, ran: bool) -> bool:
        return (self.end != "SIGTERM" and self.end != "") or (self.end == "SIGTERM" and not ran)


def pause(pid: int) -> None:
    """Stops a process for a moment."""
    with contextlib.suppress(ProcessLookupError):
        one = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(one, signal.SIGSTOP)
            time.sleep(random.uniform(0, 0.05))  # no condition is waited for: the moment is what varies
            signal.pidfd_send_signal(one, signal.SIGCONT)
        finally:
            os.close(one)


def job_of(pid: int) -> int | None:
    """The number of the job that a process or one of its descendants belongs to."""
    for one in (pid, *harness.descendants(pid)):
        with contextlib.suppress(OSError):
            found = re.search(rb"(?:^|\0)CG_JOB=(\d+)\0", Path(f"/proc/{one}/environ").read_bytes())
            if found:
                return int(found[1])
    return None


class Load:
    """All clients, and the one who kills."""

    def __init__(self, box: harness.Box, way: type, seed: int) -> None:
        self.box, self.way, self.random = box, way, random.Random(seed)
        self.environment = box.environment({MARK: str(box.root), "TMPDIR": str(box.directory(box.root / "tmp")),
                                            "XDG_RUNTIME_DIR": str(box.directory(box.root / "run", 0o700))})
        # The front gets only this variable.
        self.environment["PATH"] += f":{box.root}/none"
        for name in ("ran", "sockets"):
            box.directory(box.tree / name)
        names = list(KINDS)
        self.kinds = [self.random.choice(names) for _ in range(JOBS)]
        self.numbers = iter(range(JOBS))
        self.taking = threading.Lock()
        self.told: dict[int, Told] = {}
        self.hit: dict[int, list[str]] = collections.defaultdict(list)
        self.loose = 0  # supervisors that were hit while nobody could see their job
        self.cut: set[int] = set()
        self.struck: list[int] = []  # supervisors of which one process was killed
        self.counts: collections.Counter = collections.Counter()
        self.failure: list[BaseException] = []
        self.service = way(box, self.environment, None)

    def client(self) -> None:
        try:
            for number in iter(self._next, None):
                kind = KINDS[self.kinds[number]]
                job = {**kind.job(number), "env": {"CG_JOB": str(number)}}
                self.told[number] = harness.until(lambda kind=kind, job=job, number=number: self.send(number, kind, job), f"job {number} is sent")
        except BaseException as error:  # the main thread says so
            self.failure.append(error)

    def send(self, number: int, kind: Kind, job: dict[str, Any]) -> Told | None:
        service = self.service
        status = service.process.poll()  # read first
        assert status is None or service.end, f"the service ended by itself: {status}"
        return service.run(number, kind, job)

    def _next(self) -> int | None:
        with self.taking:
            return None if self.failure else next(self.numbers, None)

    def run(self) -> None:
        clients = [threading.Thread(target=self.client, daemon=True) for _ in range(CLIENTS)]
        for one in clients:
            one.start()
        ends = itertools.cycle(self.random.sample(self.way.ENDS, len(self.way.ENDS)))
        for turn in range(KILLS):
            harness.until(lambda turn=turn: len(self.told) > turn * JOBS // KILLS or self.failure, "jobs have ended")
            if self.failure:
                break
            self.end(next(ends)) if turn % (KILLS // ENDS) == 0 else self.strike()
        for one in clients:
            one.join(harness.DEADLINE)
        assert not self.failure, self.failure[0]
        assert not any(one.is_alive() for one in clients), "a client still waits"
        self.service.strike(self.way.ENDS[2] if self.way is Serve else "SIGTERM")

    def end(self, how: str) -> None:
        """The service ends, and is started again. Nobody promises anything if guardian and supervisor die at once."""
        self.counts[f"service: {how}"] += 1
        harness.until(lambda: not any(map(harness.alive, self.struck)), "trees of those that were killed have ended")
        before = self.service
        before.strike(how)
        if before.end:
            self.service = self.way(self.box, self.environment, before)

    def strike(self) -> None:
        """Somebody who is there."""
        supervisors = [one for one in harness.children(self.service.process.pid) if one != self.service.front]
        choices: list[tuple[str, int, int]] = [("supervisor", one, one) for one in supervisors]
        for supervisor in supervisors:
            guardians = harness.children(supervisor)
            choices += [("guardian", one, supervisor) for one in guardians]
            choices += [("process", one, supervisor) for guardian in guardians for one in harness.descendants(guardian)]
        self.struck = [one for one in self.struck if harness.alive(one)]  # another process may get a number later
        choices = [one for one in choices if one[2] not in self.struck]
        choices += [("connection", one, 0) for one in self.service.connections()]
        roles = sorted({one[0] for one in choices})
        if not roles:
            return
        role = self.random.choice(roles)
        _, victim, supervisor = self.random.choice([one for one in choices if one[0] == role])
        if role == "connection":
            if self.service.cut(victim):
                self.cut.add(victim)
                self.counts[role] += 1
            return
        number = self.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
        job = job_of(supervisor)
        with contextlib.suppress(ProcessLookupError):
            one = os.pidfd_open(victim)
            try:
                if victim not in harness.descendants(self.service.process.pid):
                    return
                self.counts[f"{role}: {number.name}"] += 1
                if number == signal.SIGSTOP:
                    return pause(victim)
                if role != "process" and number == signal.SIGKILL:
                    self.struck.append(supervisor)
                if job is None:
                    self.loose += 1
                else:
                    self.hit[job].append(f"{role}: {number.name}")
                signal.pidfd_send_signal(one, number)
            finally:
                os.close(one)

    def judge(self) -> None:
        disturbed = []
        for number, (answer, service, left) in sorted(self.told.items()):
            kind, path = self.kinds[number], self.box.tree / f"ran/{number}"
            ran = path.stat().st_size if path.exists() else 0
            about = f"job {number} ({kind}), hit by {self.hit.get(number)}, service ended by {service.end}, ran {ran}: {answer}"[:3000]
            assert ran <= 1, f"ran twice: {about}"
            if answer is None:
                assert left or number in self.cut or service.unanswered(number, ran > 0), f"no answer: {about}"
            elif "exit_code" not in answer:
                assert ran == 0 or answer.get("status") == 502, f"said not to have run: {about}"
                self.counts["did not run"] += 1
                # A front that sees its server's end before its own says so.
                ended = service.end == "SIGKILL" and answer.get("status") == 502
                if not ended and not service.end.startswith("SIGTERM"):
                    disturbed.append(about)
            elif KINDS[kind].right(number, answer):
                # On a busy machine its time may be over before its first line.
                assert ran == 1 or answer["report"]["outcome"] == "timeout", f"did not run: {about}"
                self.counts["right"] += 1
            else:
                self.counts[answer["report"]["outcome"]] += 1
                if service.end != "SIGTERM" and number not in self.hit:
                    disturbed.append(about)
        assert len(self.told) == JOBS and len(disturbed) <= self.loose, "\n".join(map(str, [self.loose, self.counts, *disturbed]))

    def left(self) -> Iterator[tuple[str, Callable[[], list]]]:
        """Each of these must be gone."""
        yield "processes", lambda: harness.marked(f"{MARK}={self.box.root}") + harness.marked(f"PATH={self.environment['PATH']}")
        yield "private directories", lambda: os.listdir(self.box.root / "tmp")
        yield "sockets of runs", lambda: [str(one) for one in (self.box.root / "run").rglob("*") if not one.is_dir()]
        inodes = {int(one) for file in (self.box.tree / "sockets").iterdir() for one in file.read_text().split()}
        yield "listeners", lambda: sorted(inodes & sockets())
        runs = {one.stem.rpartition("-")[2] for one in self.box.state.rglob("*.jsonl")}
        yield "control groups", lambda: [str(one) for one in Path("/sys/fs/cgroup").rglob("callgate-*") if one.name[9:] in runs]
        yield "the service's socket", lambda: [one for one in [self.box.root / "service.sock"] if one.exists()]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def sockets() -> set[int]:
    """Inodes of all sockets of this network namespace."""
    found = set()
    for name, column in (("tcp", 9), ("unix", 6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            found.add(int(line.split()[column]))
    return found


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("way", [Serve, Http], ids=["serve", "http"])
def test_each_job_is_answered_once_and_nothing_is_left_whoever_is_killed(box, way, round_, measured):
    seed = int(os.environ.get("CALLGATE_KILLS_SEED") or random.SystemRandom().randrange(10**9))
    print(f"CALLGATE_KILLS_SEED={seed}")
    began = time.monotonic()
    load = Load(box, way, seed)
    load.run()
    for what, now in load.left():
        harness.until(lambda now=now: not now(), f"gone: {what}: {now()}")
    load.judge()
    counts = ", ".join(f"{count} {what}" for what, count in sorted(load.counts.items()))
    measured.append(f"{way.__name__} as {box.user.kind}, seed {seed}: {JOBS} jobs in {time.monotonic() - began:.0f} s; {counts}")
