"""Limits that the kernel holds where a control group of version 2 is delegated.

Needs both controllers in version 2, and root to hand a subtree to the user: ./dev test kernels has that.
"""
from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import harness
from delegated import mounted, subtree
from faultbox import Watched, reaper
from test_limits import appetite, ended, rules

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or mounted() is None,
                                reason="no memory controller in version 2 of control groups here, or not root: ./dev test kernels")
ROOM = 300  # processes, those of the test among them


@pytest.fixture
def group(user):
    with subtree(user, ROOM) as made:
        yield made


def left(group: Path) -> list[str]:
    return [one.name for one in group.iterdir() if one.is_dir() and one.name != "inside"]


@pytest.mark.parametrize("children", [1, 40])
def test_memory_is_held_at_the_limit(group, box, children):
    held = ended(appetite(box, "memory", children, 500, options=["--memory", "128M"]), "memory", 137)["memory"]
    assert held["enforced_by"] == "cgroup" and held["peak"] <= held["limit"] == 128 << 20, held
    assert left(group) == []


def test_memory_within_the_limit_is_had(group, box):
    result = appetite(box, "shared", 12, 32, options=["--memory", "256M"])
    assert result.code == 0 and result.text == "shared\n", result.describe()
    held = result.report["limits"]["memory"]
    assert held["enforced_by"] == "cgroup" and 32 << 20 <= held["peak"] < 256 << 20, held
    assert left(group) == []


@pytest.mark.parametrize("shape", ["fork", "threads", "setsid"])
def test_a_bomb_stays_within_its_number(group, box, shape):
    held = ended(appetite(box, "bomb", shape, options=["--processes", "32", "--timeout", "60"]), "processes", 137)["processes"]
    assert held["enforced_by"] == "cgroup" and held["limit"] == held["peak"] == 32, held
    assert left(group) == []


def test_a_tree_that_forks_all_the_time_is_ended_as_a_whole(group, box):
    result = box.run(["/bin/sh", "-c", "f() { while :; do (f &) ; done; }; f"], rules(box),
                     options=["--processes", "200", "--timeout", "1s", "--grace", "100ms"])
    assert result.report["outcome"] in ("timeout", "processes"), result.describe()
    assert left(group) == []


def test_the_run_alone_is_moved_and_into_a_group_beside_its_caller(group, box):
    run = Watched(box, ["/bin/sh", "-c", "cat /proc/self/cgroup; read line"], options=["--memory", "128M", "--processes", "16"])
    line = next(one for one in run.lines(Path("/proc/self/cgroup").read_text().count("\n")) if one.startswith("0::"))
    own = line[3:].rpartition("/")
    assert own[0].endswith(group.name) and own[2].startswith("callgate-"), line
    assert left(group) == [own[2]]
    made = group / own[2]
    assert (made / "memory.max").read_text() == f"{128 << 20}\n" and (made / "pids.max").read_text() == "16\n"
    assert (made / "memory.oom.group").read_text() == "1\n"
    members = {int(one) for one in (group / "inside" / "cgroup.procs").read_text().split()}
    assert {os.getpid(), run.pid, run.guardian()} <= members
    run.process.communicate(b"\n", timeout=harness.DEADLINE)
    assert left(group) == []


def test_the_guardian_removes_the_group_of_a_lost_supervisor(group, box):
    with reaper():
        run = Watched(box, ["/bin/sh", "-c", "echo here; sleep 1000"], options=["--memory", "128M"])
        assert run.lines(1) == ["here"] and len(left(group)) == 1
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        harness.until(lambda: left(group) == [], "the group is gone")
        run.assert_nothing_left()
        run.reap()


def test_no_group_is_made_beside_one_that_has_a_limit_itself(group, box):
    """The run would leave what holds its caller."""
    (group / "inside" / "pids.max").write_text("250")
    result = box.run(["/bin/true"], rules(box), options=["--memory", "128M", "--processes", "16"])
    assert {one["enforced_by"] for one in result.report["limits"].values()} == {"sampled"}, result.describe()


def test_where_nothing_is_delegated_limits_are_sampled(user, box):
    if user.uid == 0:
        pytest.skip("to root everything is open")
    with subtree(user, ROOM, owned=False):
        held = ended(appetite(box, "memory", 4, 200, options=["--memory", "128M"]), "memory", 137)["memory"]
    assert held["enforced_by"] == "sampled", held
