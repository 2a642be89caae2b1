"""However a run ends, nothing of it is left: random ends, one after the other, and many runs at once.

An end has two sides. The program does something: exits, dies of a signal, waits, fills memory. Meanwhile something happens
to it: a timeout, SIGTERM, the supervisor killed, the guardian, both. Afterwards no process, file, control group, shared
object or socket exists that was not there before. The report, if one could be written, tells what happened.
"""
from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import harness
from faultbox import Watched, reaper, report_of
from harness import SOAK

ENDS = 1000 if SOAK else 50
AT_ONCE = 200 if SOAK else 24
HELD_UP = 400 if SOAK else 20
GROUPS = Path("/sys/fs/cgroup")


def shared_objects() -> set[str]:
    """System V objects, and control groups of callgate."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            found.add(f"{kind} {words[1]}")
    if GROUPS.is_dir():
        found |= {f"group {path}" for path in GROUPS.glob("**/callgate-*")}
    return found


def left_in(box: harness.Box) -> set[str]:
    runtime = box.root / "runtime"
    sockets = {f"socket {one.name}" for one in runtime.glob("**/*") if not one.is_dir()}
    return shared_objects() | sockets


# The act of the program, and the outcomes that its own end gives.
PROGRAMS = {
    "exits": ("exit 0", "exited"),
    "fails": ("exit 77", "exited"),
    "dies": ("kill -SEGV $$", "signaled"),
    "leaves children": ("sleep 1000 & setsid sleep 1000 & (sleep 1000 &) & exit 3", "exited"),
    "waits": ("sleep 1000", None),
    "ignores SIGTERM": ("trap '' TERM HUP; while :; do sleep 1000; done", None),
    "forks": ("while :; do /bin/true; done", None),
    "writes": ("i=0; while :; do echo x > file$i; i=$((i+1)); done", None),
}
# The event from outside, and the outcomes that follow if the program does not end by itself.
EVENTS = {
    "nothing": {"cancelled"},  # it is told to end at last
    "timeout": {"timeout"},
    "sigterm": {"cancelled"},
    "supervisor killed": {"supervisor_lost"},
    "guardian killed": {"signaled", "exited", "setup_error", "supervisor_lost", "guardian_lost", "killed"},
    "memory": {"memory"},
}


def start(box: harness.Box, script: str, event: str) -> Watched:
    options = ["--grace", "200ms"]
    if event == "timeout":
        options += ["--timeout", "200ms"]
    if event == "memory":
        options += ["--memory", "64M"]
        script = f"{box.program('prog_appetite')} memory 2 200 & {script}"
    return Watched(box, ["/bin/sh", "-c", script], options=options, runtime=box.root / "runtime")


def strike(run: Watched, event: str) -> bool:
    """The event, at a random moment: the pause is the input of the test, nothing is waited for. Whether it met anybody."""
    time.sleep(random.SystemRandom().uniform(0, 0.15))
    if event == "sigterm":
        run.process.send_signal(signal.SIGTERM)
    elif event == "supervisor killed":
        run.process.kill()
    elif event == "guardian killed":
        guardians = harness.children(run.pid)
        for guardian in guardians:
            with contextlib.suppress(ProcessLookupError):
                os.kill(guardian, signal.SIGKILL)
        return bool(guardians)
    return event != "nothing"


def one_end(box: harness.Box, program: str, event: str) -> str:
    script, own = PROGRAMS[program]
    run = start(box, script, event)
    struck = strike(run, event)
    if not struck and own is None:
        run.process.send_signal(signal.SIGTERM)
    try:
        result = run.finish()
    except AssertionError as failure:
        raise AssertionError(f"{program}, {event}") from failure
    run.assert_nothing_left()
    said = check_report(run, result, EVENTS[event] | ({own} if own else set()), event)
    run.reap()
    return said


def check_report(run: Watched, result: harness.Result, possible: set[str], event: str) -> str:
    lost = result.code == -signal.SIGKILL
    if lost and not run.began() or result.code == -signal.SIGTERM:
        return "ended before it began"  # there is nobody yet to write a report
    harness.until(run.report.exists, f"the report\n{result.describe()}")
    report = report_of(run)
    harness.check_report(report)
    outcome = report["outcome"]
    assert lost == (outcome == "supervisor_lost"), result.describe()
    if event != "guardian killed":
        assert outcome in possible or (event != "nothing" and outcome in ("exited", "signaled", "cancelled")), \
            f"{outcome}, expected one of {possible}\n{result.describe()}"
    expected = {"exited": report["exit_code"], "signaled": 128 + (report["signal"] or 0), "timeout": 124, "memory": 137}
    if outcome in expected and event != "guardian killed":
        assert result.code == expected[outcome], f"{outcome}: {result.describe()}"
    return outcome


def test_nothing_is_left_whatever_the_end(box):
    box.directory(box.root / "runtime", 0o700)
    before = left_in(box)
    choose = random.SystemRandom()
    seen: dict[str, int] = {}
    with reaper():
        for _ in range(ENDS):
            event = choose.choice(list(EVENTS))
            outcome = one_end(box, choose.choice(list(PROGRAMS)), event)
            seen[outcome] = seen.get(outcome, 0) + 1
    harness.until(lambda: left_in(box) <= before, f"left: {left_in(box) - before}")
    print(f"ends: {seen}")


def test_guardian_and_supervisor_killed_at_once_leave_nothing_that_can_act(box):
    """No process is left to end the tree. The rest is confined, and every notified call fails; the control: callgate
    lives."""
    box.file(box.tree / "allowed", b"read me\n")
    script = f"while :; do if cat {box.tree}/allowed >/dev/null 2>&1; then echo yes; else echo no; fi; sleep 0.02; done"
    with reaper():
        run = Watched(box, ["/bin/sh", "-c", script], options=["--record", "all"])
        assert run.lines(1) == ["yes"]
        tree = harness.marked(run.marker)
        shell = next(pid for pid in tree if b"while" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid not in (run.pid, run.guardian()))
        guardian = run.guardian()
        for pid in (run.pid, guardian):
            os.kill(pid, signal.SIGSTOP)
        for pid in (guardian, run.pid):
            os.kill(pid, signal.SIGKILL)
        harness.until(lambda: not harness.alive(run.pid) and not harness.alive(guardian), "their end")

        def tell(signal_number: int) -> bool:
            for pid in {*harness.marked(run.marker), *run.orphans()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            return not any(harness.alive(pid) for pid in run.orphans())
        tell(signal.SIGCONT)  # the one that stops last may have stopped the tree as well
        try:
            answers = [run.lines(1)[0] for _ in range(200)]
        except AssertionError:
            answers = ["no"]  # the shell itself could not go on
        assert answers[-1] == "no", answers[-5:]
        harness.until(lambda: tell(signal.SIGKILL) and not harness.alive(shell), "the shell's end")
        run.process.wait()
        run.reap()


def test_many_runs_at_once_do_not_meet(box):
    """Each has its own name, log, temporary directory and report; all work at the same time."""
    gate = box.root / "gate"
    script = f'echo "$TMPDIR"; echo x > "$TMPDIR/own"; until [ -e {gate} ]; do sleep 0.05; done; cat "$TMPDIR/own"; exit 7'
    rules = harness.rule_set({"id": "own", "allow": ["read", "write"], "path": "${tmp}/**"},
                             {"id": "gate", "allow": "read", "path": str(gate)})
    file = box.rules_file(rules)
    runs = []
    for number in range(AT_ONCE):
        runs.append(box.start([str(box.callgate), "run", "-R", str(file), "--report", str(box.root / f"report{number}"),
                               "--", "/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    places = [harness.read_until(run.stdout.fileno(), b"\n").decode().strip() for run in runs]
    assert len(set(places)) == AT_ONCE and all(Path(one).is_dir() for one in places)
    box.file(gate)
    reports = []
    for number, run in enumerate(runs):
        out, err = run.communicate(timeout=harness.DEADLINE)
        assert run.returncode == 7 and out == b"x\n", err.decode()
        reports.append(json.loads((box.root / f"report{number}").read_text()))
    assert len({one["run"] for one in reports}) == AT_ONCE
    logs = {one["audit"]["file"] for one in reports}
    assert len(logs) == AT_ONCE and all(Path(one).is_file() for one in logs)
    for one in reports:
        checked = subprocess.run([str(box.callgate), "audit", "verify", one["audit"]["file"]], capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr.decode()
    assert not any(Path(one).exists() for one in places)


def stopped_at_start(box: harness.Box, *options: str) -> tuple[subprocess.Popen, int, int]:
    """A run, its guardian, and the process that becomes the command and has not yet. First and last are stopped."""
    line = [str(box.callgate), "run", "-R", str(box.rules_file(harness.rule_set())), *options, "--", "/bin/sh", "-c", "exit 7"]

    def guarded(run: subprocess.Popen) -> tuple[int, int] | None:
        return next(((one, agent) for one in harness.children(run.pid) if harness.name_of(one) == "callgate-guard" for agent in harness.children(one)), None)

    def once() -> tuple[subprocess.Popen, int, int] | None:
        run = box.start(line, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.until(lambda: guarded(run) or run.poll() is not None, "a guardian and an agent")
        tree = guarded(run)
        for pid in [run.pid, *(tree or ())[1:]]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        with contextlib.suppress(OSError):
            if tree and harness.state(tree[1]) == "T" and os.readlink(f"/proc/{tree[1]}/exe") == os.readlink(f"/proc/{run.pid}/exe"):
                return run, *tree
        for pid in [*harness.descendants(run.pid), run.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        assert run.wait(harness.DEADLINE) == 7
        return None

    return harness.until(once, "a run is stopped as it starts")


def test_a_run_that_stopped_with_its_agent_goes_on_with_it(box):
    """Somebody stops the process that becomes the command, before it has, and continues that process alone. Only where the
    guardian saw the stop has the run stopped, too: it is tried until that was so. On an idle machine that is rare."""
    for _ in range(8):
        box.start(["/bin/sh", "-c", "while :; do :; done"])

    def once() -> bool:
        run, _, agent = stopped_at_start(box)
        os.kill(run.pid, signal.SIGCONT)
        looks: list[str] = []

        def rests() -> bool:
            """It has stopped, or has done nothing between 40 looks."""
            looks.append(Path(f"/proc/{run.pid}/status").read_text())
            return harness.state(run.pid) == "T" or looks[-40:].count(looks[-1]) == 40
        harness.until(rests, "the run rests")
        stopped = harness.state(run.pid) == "T"
        with contextlib.suppress(ProcessLookupError):  # the run has gone on by itself, and ended
            os.kill(agent, signal.SIGCONT)
        assert run.wait(harness.DEADLINE) == 7
        return stopped

    harness.until(once, "a run stops with its agent")


def test_a_guardian_killed_as_the_run_starts_leaves_nothing(box):
    """The process that becomes the command hangs, and so holds its control group."""
    before = shared_objects()
    run, guardian, agent = stopped_at_start(box, "--processes", "16")
    os.kill(guardian, signal.SIGKILL)
    harness.until(lambda: not harness.alive(guardian), "the guardian's end")
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait(harness.DEADLINE) == 125 and not harness.alive(agent)
    harness.until(lambda: shared_objects() <= before, "nothing is left")


def test_a_run_that_hangs_at_any_moment_of_its_start_holds_up_no_other(box):
    """Runs share directories for logs, sockets and private files, and no lock. While one is stopped anywhere, the next
    begins, ends and is listed. The stopped one then goes on."""
    runtime = box.directory(box.root / "runtime", 0o700)
    environment = box.environment({"XDG_RUNTIME_DIR": str(runtime)})
    line = [str(box.callgate), "run", "-R", str(box.rules_file(harness.rule_set())), "--", "/bin/sh", "-c", "exit 7"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment}
    choose = random.SystemRandom()
    moments: set[str] = set()
    for _ in range(HELD_UP):
        first = box.start(line, **quiet)
        time.sleep(choose.uniform(0, 0.015))  # the input of the test: nothing is waited for
        stopped = [first.pid, *(harness.descendants(first.pid) if choose.random() < 0.5 else [])]
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        moments.add(how_far(first.pid))
        second = box.start(line, **quiet)
        out, err = second.communicate(timeout=harness.DEADLINE)
        assert (second.returncode, out, err) == (7, b"", b""), err.decode()
        listed = box.run([str(box.callgate), "ps"], supervised=False, env={"XDG_RUNTIME_DIR": str(runtime)})
        assert listed.code == 0, listed.describe()
        assert first.poll() is not None or harness.alive(first.pid)
        for pid in reversed(stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        out, err = first.communicate(timeout=harness.DEADLINE)
        assert (first.returncode, out, err) == (7, b"", b""), err.decode()
    print(f"stopped while there were: {sorted(moments)}")


def how_far(pid: int) -> str:
    """The number of processes, and of its own threads, that a stopped run has made already."""
    with contextlib.suppress(OSError):
        return f"{len(harness.descendants(pid))} processes, {len(os.listdir(f'/proc/{pid}/task'))} threads"
    return "gone"
