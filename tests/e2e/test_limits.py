"""Limits of the whole tree: memory, processes, processor time, disk space, idleness. Each by a program that wants more,
and by one beside it that stays within."""
from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import bounds
import harness
from faultbox import Watched, reaper

BOMB_ROOM = 500  # processes, those of the test among them
CAP_DAC_OVERRIDE = 1 << 1
CAPABILITY_VERSION_3 = 0x20080522
PR_SET_SECUREBITS, SECBIT_NOROOT = 28, 1
# Children keep nothing open that somebody reads to its end.
FORKING = """
import os, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            os.close(1)
            time.sleep(600)
        made += 1
except OSError as error:
    print(made, error.errno)
"""
SHAPES = ["fork", "vfork", "threads", "double", "setsid"]


def rules(box: harness.Box):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})


def appetite(box: harness.Box, shape: str, *numbers, options) -> harness.Result:
    """Nothing of the tree is left, whatever the end."""
    marker = f"CG_MARK={box.root}"  # no other session has it
    result = box.run([box.program("prog_appetite"), shape, *map(str, numbers)], rules(box), options=[*options, "--env", marker])
    assert harness.marked(marker) == [], result.describe()
    return result


def ended(result: harness.Result, outcome: str, status: int) -> dict:
    assert result.report["outcome"] == outcome and result.code == status, result.describe()
    assert any(line.startswith("callgate: ended") for line in result.errors.splitlines()), result.describe()
    return result.report["limits"]


@pytest.mark.parametrize("children", [1, 40])
def test_a_tree_that_grows_is_ended_at_its_memory_limit(box, children):
    held = ended(appetite(box, "memory", children, 500, options=["--memory", "256M"]), "memory", 137)["memory"]
    assert held["limit"] == 256 << 20 and held["enforced_by"] in ("sampled", "cgroup")
    assert held["peak"] >= 256 << 20, held
    print(f"memory, {children} children, 500 MB/s: peak {held['peak'] / held['limit']:.2f} x the limit")


@pytest.mark.parametrize("shape", ["memfd", "segment"])
def test_memory_that_no_process_maps_counts(box, shape):
    within = appetite(box, shape, 64, options=["--memory", "512M", "--idle-timeout", "1s"])
    assert within.report["outcome"] == "idle_timeout" and within.text == "hidden\n", within.describe()
    ended(appetite(box, shape, 400, options=["--memory", "256M"]), "memory", 137)


def test_memory_that_processes_share_counts_once(box):
    result = appetite(box, "shared", 12, 64, options=["--memory", "256M"])
    assert result.code == 0 and result.text == "shared\n", result.describe()
    assert 64 << 20 < result.report["limits"]["memory"]["peak"] < 256 << 20, result.describe()


@pytest.fixture
def bounded():
    """A bomb that is not stopped in time takes a small machine along: it goes off where it cannot."""
    with bounds.at_most(BOMB_ROOM) as held:
        if held is None and not harness.SOAK:
            pytest.skip("bombs need a pids control group around them, which root can make where the controller is of version 1")
        yield held


@pytest.fixture
def around(bounded):
    """The group around the run, where there is one: callgate makes its own beneath."""
    if bounded is None:
        pytest.skip("no pids controller of version 1 that root can make groups in")
    return bounded


def groups_in(group: Path) -> list[str]:
    return [one.name for one in group.iterdir() if one.is_dir()]


def test_what_is_around_a_bomb_holds(bounded):
    """The control: a program without callgate cannot become more processes than there is room for."""
    bare = subprocess.run(["/usr/bin/python3", "-c", FORKING], stdout=subprocess.PIPE, text=True, check=True, timeout=harness.DEADLINE)
    made, error = map(int, bare.stdout.split())
    assert made < BOMB_ROOM and error == errno.EAGAIN


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bomb_of_any_shape_is_ended(bounded, box, shape):
    result = appetite(box, "bomb", shape, options=["--processes", "32", "--timeout", "60"])
    held = ended(result, "processes", 137)["processes"]
    assert held["limit"] == 32 and held["peak"] >= 32, result.describe()
    if bounded is None:
        return
    assert held["enforced_by"] == ("cgroup" if box.user.uid == 0 else "sampled"), result.describe()
    if box.user.uid == 0:
        assert held["peak"] == 32 and "max 0\n" in (bounded / "pids.events").read_text(), "it was the test's group that held it"
    assert groups_in(bounded) == []


def without_capabilities() -> None:
    """What root is then: its own files' modes hold it, also what it executes (capabilities(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0) == 0
    header, none = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capset(header, none) == 0


def capabilities(task: Path) -> tuple[str, int, int]:
    """Name, permitted, effective."""
    fields = dict(line.split(":\t") for line in (task / "status").read_text().splitlines() if ":\t" in line)
    return fields["Name"], int(fields["CapPrm"], 16), int(fields["CapEff"], 16)


def test_root_without_capabilities_makes_no_group_there(around, box):
    """The control of what follows: the mode alone keeps root out, so what callgate makes it makes before it drops them."""
    bare = subprocess.run(["/bin/mkdir", str(around / "by-hand")], preexec_fn=without_capabilities, stderr=subprocess.PIPE, check=False)
    assert bare.returncode == 1 and b"Permission denied" in bare.stderr and groups_in(around) == []
    as_root = [] if box.user.uid else ["--memory", "256M"]
    result = box.run(["/bin/sh", "-c", "sleep 0.1 & wait; echo done"], rules(box), options=["--processes", "16", *as_root])
    assert result.code == 0 and result.text == "done\n", result.describe()
    held = {one["enforced_by"] for one in result.report["limits"].values()}
    assert held == ({"sampled"} if box.user.uid else {"cgroup"}), result.describe()
    assert groups_in(around) == []


@pytest.mark.parametrize("who", ["supervisor", "guardian", "nobody"])
def test_the_group_goes_with_the_run_whoever_is_killed(around, box, who):
    if box.user.uid:
        pytest.skip("an ordinary user makes none here")
    with reaper():
        run = Watched(box, ["/bin/sh", "-c", "echo here; sleep 1000"], options=["--processes", "16"])
        assert run.lines(1) == ["here"] and len(groups_in(around)) == 1
        victim = {"supervisor": run.pid, "guardian": run.guardian()}.get(who)
        os.kill(victim or run.pid, signal.SIGKILL if victim else signal.SIGTERM)
        run.process.wait(timeout=harness.DEADLINE)
        harness.until(lambda: groups_in(around) == [], "the group is gone")
        run.assert_nothing_left()
        run.reap()


@pytest.mark.parametrize("options", [["--processes", "16"], ["--cpu", "10s"]], ids=["with a group", "without"])
def test_the_capability_that_removes_a_group_is_out_of_use_and_away_from_those_that_act(around, box, options):
    run = Watched(box, ["/bin/sh", "-c", "echo here; read line"], options=options)
    assert run.lines(1) == ["here"]
    kept = CAP_DAC_OVERRIDE if box.user.uid == 0 and "--processes" in options else 0
    tasks = [capabilities(task) for task in Path(f"/proc/{run.pid}/task").iterdir()]
    assert capabilities(Path(f"/proc/{run.pid}"))[1] == kept, tasks
    acting = [permitted for name, permitted, _ in tasks if name == "callgate-recv"]
    assert acting and not any(acting), tasks
    guardian = Path(f"/proc/{run.guardian()}")
    harness.until(lambda: capabilities(guardian)[1] == kept, f"what the guardian holds: {capabilities(guardian)}")
    assert not any(effective for _, _, effective in [*tasks, capabilities(guardian)]), tasks
    run.process.communicate(b"\n", timeout=harness.DEADLINE)
    assert groups_in(around) == []


def test_processes_within_the_limit_run(box):
    script = "for n in 1 2 3 4 5 6 7 8; do sleep 0.3 & done; wait; echo done"
    result = box.run(["/bin/sh", "-c", script], rules(box), options=["--processes", "16"])
    assert result.code == 0 and result.text == "done\n", result.describe()


@pytest.mark.parametrize(("children", "unseen"), [(1, 0), (6, 0), (2, 1)], ids=["one", "six", "short, not waited for"])
def test_processor_time_of_the_whole_tree_is_limited(box, children, unseen):
    result = appetite(box, "cpu", children, unseen, options=["--cpu", "1s", "--timeout", "120"])
    ended(result, "cpu", 152)


@pytest.mark.parametrize("unnamed", [0, 1], ids=["named", "unnamed"])
def test_what_is_added_to_the_work_directory_is_limited(box, unnamed):
    box.file(box.tree / "before", b"x" * (8 << 20))
    result = appetite(box, "disk", unnamed, options=["--disk", "32M", "--timeout", "120"])
    ended(result, "disk", 137)


def test_what_lay_there_before_does_not_count(box):
    box.file(box.tree / "before", b"x" * (8 << 20))
    result = box.run(["/bin/sh", "-c", "head -c 1000000 before > more; echo done"], rules(box), options=["--disk", "4M"])
    assert result.code == 0 and result.text == "done\n", result.describe()


def test_a_tree_that_does_nothing_is_ended_and_one_that_writes_is_not(box):
    ended(appetite(box, "idle", options=["--idle-timeout", "1s", "--timeout", "120"]), "idle_timeout", 124)
    busy = appetite(box, "ticking", options=["--idle-timeout", "1s", "--timeout", "3s"])
    assert busy.report["outcome"] == "timeout", busy.describe()


def test_limits_of_a_rule_set_hold_and_the_tighter_wins(box):
    stated = rules(box) | {"limits": {"processes": 64, "cpu": "1s", "memory": "1G"}}
    result = box.run([box.program("prog_appetite"), "cpu", "1", "0"], stated, options=["--processes", "5000", "--cpu", "1h"])
    assert result.report["outcome"] == "cpu" and result.report["limits"]["cpu"]["limit"] == 1000, result.describe()
    assert result.report["limits"]["processes"]["limit"] == 64, result.describe()


@pytest.mark.parametrize(("options", "said"), [
    (["--memory", "1Q"], "--memory 1Q: expected a size"), (["--memory", "-1"], "--memory -1: expected a size"),
    (["--memory", "0"], "--memory 0: expected a size"), (["--memory", "18446744073709551616"], "expected a size"),
    (["--memory", "900000G"], "this machine has"), (["--processes", "0"], "--processes 0: expected a whole number"),
    (["--cpu", "0"], "--cpu 0: expected a duration"), (["--disk", "1.5"], "--disk 1.5: expected a size"),
])
def test_a_limit_that_means_nothing_is_refused_by_name(box, options, said):
    result = box.run(["/bin/true"], rules(box), options=options)
    assert result.code == 125 and said in result.errors and len(result.errors.splitlines()) == 1, result.describe()


def test_nothing_is_sampled_where_no_limit_is_stated(box):
    """The report says what holds each limit; without one there is no thread for it."""
    line, _ = box.command(["/bin/sh", "-c", "read line"], rules(box))
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.until(lambda: harness.descendants(process.pid), "the command runs")
    names = {(task / "comm").read_text().strip() for task in Path(f"/proc/{process.pid}/task").iterdir()}
    assert "callgate-limits" not in names, names
    process.communicate(b"\n", timeout=harness.DEADLINE)
    result = box.run(["/bin/true"], rules(box))
    assert result.report["limits"] == {}, json.dumps(result.report)
