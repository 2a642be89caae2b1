"""Faults: the supervisor, the guardian or the command killed at random moments, stopped, out of descriptors.

Each round is a run of prog_fault that creates files in a contested directory without pause. Afterwards nothing of it
is alive, and every file that exists is named by a whole line of the log.
"""
from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
from faultbox import Watched, contested, reaper, report_of
from harness import SOAK

SUPERVISOR_KILLS = 200 if SOAK else 10
GROUP_KILLS = 200 if SOAK else 10
FIRST_NAMES = 200 if SOAK else 10
GUARDIAN_KILLS = 200 if SOAK else 10
TARGET_KILLS = 200 if SOAK else 10
BESIDE_OPENS = 20_000 if SOAK else 1_000
CROWD = 512  # the limit of blocked acts that the design states


def random_moment(most: float) -> None:
    """The fault's moment: the pause is the input of the test, nothing is waited for."""
    time.sleep(random.SystemRandom().uniform(0, most))


def clear(box) -> None:
    shutil.rmtree(box.tree)
    box.directory(box.tree)


def writer(box, threads: int = 2, daemon: bool = True, **keywords) -> Watched:
    clear(box)
    return Watched(box, [box.program("prog_fault"), "write", str(box.tree), str(threads), str(int(daemon))], **keywords)


def assert_all_recorded(run: Watched) -> int:
    unrecorded = run.unrecorded()
    assert not unrecorded, f"{len(unrecorded)} files without a record, e.g. {unrecorded[:3]}"
    return len(list(run.box.tree.iterdir()))


def first_effect(box) -> float:
    """How long a run takes here, in seconds, to its first file."""
    begun = time.monotonic()
    run = writer(box)
    run.lines(1)
    harness.until(lambda: any(box.tree.iterdir()), "a file")
    took = time.monotonic() - begun
    run.process.terminate()
    run.finish()
    return took


def supervisor_round(box, whole_group: bool, most: float) -> int:
    run = writer(box, start_new_session=whole_group)
    random_moment(most)
    if whole_group:
        harness.kill_group_of(run.pid)
    else:
        run.process.kill()
    result = run.finish()
    assert result.code == -signal.SIGKILL, result.describe()
    run.assert_nothing_left()
    if run.began():
        lost_is_reported(run)
    run.reap()
    return assert_all_recorded(run)


def lost_is_reported(run: Watched) -> None:
    harness.until(run.report.exists, "the guardian's report")
    assert report_of(run)["outcome"] == "supervisor_lost"


@pytest.mark.parametrize("whole_group", [False, True], ids=["alone", "group"])
def test_supervisor_killed(box, whole_group):
    with reaper():
        most = max(0.4, 4 * first_effect(box))
        files = [supervisor_round(box, whole_group, most) for _ in range(GROUP_KILLS if whole_group else SUPERVISOR_KILLS)]
    assert sum(files) > 0, "no round came as far as an effect: the moments were too early"


def test_a_group_that_is_killed_with_its_first_name_leaves_none(box):
    """On one processor callgate goes on after its fork, so the guardian may still be in the group that is killed."""
    everywhere = os.sched_getaffinity(0)
    with reaper():
        for _ in range(FIRST_NAMES):
            os.sched_setaffinity(0, {min(everywhere)})
            try:
                run = writer(box, start_new_session=True)
            finally:
                os.sched_setaffinity(0, everywhere)
            end = time.monotonic() + harness.DEADLINE
            while not any(run.tmp.iterdir()):  # without a pause: the moment is short
                assert time.monotonic() < end, "no name came"
            harness.kill_group_of(run.pid)
            assert run.finish().code == -signal.SIGKILL
            run.assert_nothing_left()
            run.reap()


def test_guardian_reports_the_lost_supervisor(box):
    with reaper():
        run = writer(box)
        run.lines(1)
        run.process.kill()
        run.finish()
        run.assert_nothing_left()
        lost_is_reported(run)
        run.reap()


def test_what_is_left_is_removed_although_the_supervisor_dies_after_its_command(box):
    """Killed while it writes its report, which nobody reads: the guardian removes objects and control groups in its place."""
    def existing(identifier: int) -> bool:
        return any(int(line.split()[1]) == identifier for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])

    def groups(run: str) -> list[Path]:
        return list(Path("/sys/fs/cgroup").rglob(f"callgate-{run}"))

    report = box.root / f"tmp{box.counter + 1}.report"
    os.mkfifo(report)
    box.own(report)
    unread = os.open(report, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(unread, b"x" * 4096):
            pass
    script = "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True); input()"
    with reaper():
        run = Watched(box, ["/usr/bin/python3", "-c", script], {"version": 1, "default": "allow", "rules": []}, ["--memory", "500M"])
        identifier = int(run.lines(1)[0])
        name = run.records()[0]["callgate"]["run"]
        assert existing(identifier) and (groups(name) or box.user.kind == "user"), "there is something to remove"
        run.send()
        harness.until(lambda: run.records()[-1]["event"]["action"] == "run.end", "the end is on record")
        assert run.process.poll() is None, "it waits for a reader of its report"
        run.process.kill()
        run.finish()
        run.assert_nothing_left()
        run.reap()
    os.close(unread)
    harness.until(lambda: not existing(identifier), "the object's end")
    harness.until(lambda: not groups(name), "the control group's end")


def guardian_round(box) -> int:
    run = writer(box)
    run.lines(1)
    guardian = run.guardian()
    random_moment(0.1)
    os.kill(guardian, signal.SIGKILL)
    result = run.finish()
    assert result.code > 0, f"callgate took the lost guardian for success\n{result.describe()}"
    assert b"guardian" in result.err, result.describe()
    assert not run.orphans(), "callgate left processes behind"
    run.assert_nothing_left()
    assert run.records()[-1]["event"]["action"] == "run.end", run.records()[-1]
    return assert_all_recorded(run)


def test_guardian_killed(box):
    with reaper():
        assert sum(guardian_round(box) for _ in range(GUARDIAN_KILLS)) > 0


def target_round(box, daemon: bool) -> int:
    run = writer(box, threads=4, daemon=daemon)
    target = int(run.lines(1)[0])
    random_moment(0.1)
    os.kill(target, signal.SIGKILL)
    result = run.finish()
    assert result.code == 128 + signal.SIGKILL, result.describe()
    assert not run.orphans(), "callgate left processes behind"
    run.assert_nothing_left()
    last = run.records()[-1]
    assert last["event"]["action"] == "run.end" and last["callgate"]["outcome"] == "signaled", last
    assert run.log.read_bytes().endswith(b"\n")
    assert report_of(run)["outcome"] == "signaled"
    return assert_all_recorded(run)


def test_target_killed(box):
    with reaper():
        assert sum(target_round(box, daemon=number % 4 == 0) for number in range(TARGET_KILLS)) > 0


def threads_of(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{one}" for one in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def state(task: str) -> str:
    with open(f"{task}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def in_open(task: str) -> bool:
    with open(f"{task}/syscall") as file:
        return file.read().split()[0] == "257"


def test_stopped_supervisor_stops_the_tree(box):
    run = writer(box, threads=4, daemon=True)
    run.lines(1)
    harness.until(lambda: len(list(box.tree.iterdir())) > 20, "some files")
    run.process.send_signal(signal.SIGSTOP)
    harness.until(lambda: all(state(one) == "T" for one in threads_of(run.pid)), "the supervisor's stop")
    writers = [one for one in harness.descendants(run.pid) if one != run.guardian()]
    assert writers
    harness.until(lambda: all(in_open(task) for pid in writers for task in threads_of(pid)), "every writer to wait for an answer")
    before = set(box.tree.iterdir())
    for _ in range(50):
        assert set(box.tree.iterdir()) == before, "a file was created while nobody could allow it"
        assert all(in_open(task) for pid in writers for task in threads_of(pid))
    run.process.send_signal(signal.SIGCONT)
    harness.until(lambda: len(list(box.tree.iterdir())) > len(before) + 20, "more files after SIGCONT")
    run.process.terminate()
    result = run.finish()
    assert result.code == 128 + signal.SIGTERM, result.describe()
    run.assert_nothing_left()
    assert_all_recorded(run)


def test_supervisor_without_descriptors(box):
    """Calls fail while there are none, nothing is allowed unseen, and all goes on when the limit is raised again."""
    file = box.file(box.tree / "file", b"x")
    run = Watched(box, [box.program("prog_fault"), "steady", str(file)])
    assert run.lines(1) == ["ok"]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for _ in range(3):
        harness.as_user(box.user, lambda: resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (0, hard)))
        assert run.lines(1) == ["failed"]
        harness.as_user(box.user, lambda: resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (soft, hard)))
        assert run.lines(1) == ["ok"]
    result = run.finish()
    assert result.code == 0, result.describe()
    run.assert_nothing_left()
    assert run.records()[-1]["event"]["action"] == "run.end"


def fifo(box):
    path = box.tree / "fifo"
    os.mkfifo(path, 0o644)
    box.own(path)
    return path


BOTH_WAYS = pytest.mark.parametrize("supervised", [False, True], ids=["bare", "supervised"])


@BOTH_WAYS
def test_fifo_delays_nobody_else(box, supervised):
    file = box.file(box.tree / "file", b"x")
    result = box.run([box.program("prog_fault"), "beside", str(fifo(box)), str(file), str(BESIDE_OPENS)], contested(box),
                     supervised=supervised)
    assert result.code == 0, result.describe()
    assert result.text == f"opened {BESIDE_OPENS} pending 1\nwriter 1 reader 1\n", result.describe()


@BOTH_WAYS
def test_fifo_is_interrupted_by_a_signal(box, supervised):
    result = box.run([box.program("prog_fault"), "alarm", str(fifo(box))], contested(box), supervised=supervised)
    assert result.text == "EINTR handled 1\nopened handled 2\n", result.describe()


@BOTH_WAYS
def test_fifo_reader_can_be_killed(box, supervised):
    result = box.run([box.program("prog_fault"), "kill", str(fifo(box))], contested(box), supervised=supervised)
    assert result.text == "signal 9\n", result.describe()


def with_open_files(box, open_files: str, args: list[str]) -> harness.Result:
    """A run of a callgate that may open so many files: soft and hard limit, as prlimit(1) takes them."""
    line, log = box.command(args, contested(box))
    line = ["prlimit", f"--nofile={open_files}", *line]
    result = box.wait(box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), line, b"", harness.DEADLINE)
    assert result.code == 0, result.describe()
    result.audit = harness.read_log(log)
    return result


def crowd(box, open_files: str) -> tuple[harness.Result, list[str]]:
    """The objects of a crowd of blocked acts, and the paths that were denied for overload."""
    file = box.file(box.tree / "file", b"x")
    result = with_open_files(box, open_files, [box.program("prog_fault"), "crowd", str(fifo(box)), str(file), str(CROWD)])
    denied = result.decisions(verdict="deny", decided_by="failure")
    assert all(one["callgate"]["reason"].startswith("overload") for one in denied), denied
    return result, [one["file"]["path"] for one in denied for _ in range(one["callgate"].get("count", 1))]


def test_one_blocked_act_too_many(box):
    """By the kernel's own limits, which a login shell has too: 1024, and 4096 for those who ask for it."""
    result, denied = crowd(box, "1024:4096")
    assert result.text == f"waiting {CROWD} opened 100\none more EAGAIN\nwaiting {CROWD} opened 100\n", result.describe()
    assert denied == [str(box.tree / "fifo")], denied


def test_blocked_acts_leave_descriptors_to_the_others(box):
    """If callgate may not open as many files as 512 blocked acts take, fewer block, and all else works."""
    result, denied = crowd(box, "400:400")
    waiting = int(result.text.split()[1])
    assert 50 < waiting < 200, result.describe()
    assert result.text == f"waiting {waiting} opened 100\none more EAGAIN\nwaiting {waiting} opened 100\n", result.describe()
    assert denied == [str(box.tree / "fifo")] * (CROWD + 1 - waiting), denied


def test_the_command_keeps_the_limit_that_callgate_raises_for_itself(box):
    result = with_open_files(box, "777:2000", ["/bin/bash", "-c", "ulimit -Sn; ulimit -Hn"])
    assert result.text == "777\n2000\n", result.describe()
