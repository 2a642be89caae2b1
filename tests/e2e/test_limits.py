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


def rules(box: harness.Box, *more: dict):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


def appetite(box: harness.Box, shape: str, *numbers, options) -> harness.Result:
    """The whole tree is gone, whatever the end."""
    marker = f"CG_MARK={box.root}"  # no other session has it
    result = box.run([box.program("prog_appetite"), shape, *map(str, numbers)], rules(box), options=[*options, "--env", marker])
    assert harness.marked(marker) == [], result.describe()
    return result


def ended(result: harness.Result, outcome: str, status: int) -> dict:
    assert result.report["outcome"] == outcome and result.code == status, result.describe()
    assert any(line.startswith("callgate: ended") for line in result.errors.splitlines()), result.describe()
    return result.report["limits"]


def memory_groups() -> bool:
    """Whether there is a memory controller of version 1, in which root can make groups."""
    mounts = [line.split(" - ")[1].split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return any(one[0] == "cgroup" and "memory" in one[-1].split(",") for one in mounts)


@pytest.mark.parametrize("children, rate", [(1, 500), (40, 500), (1, 1_000_000)])
def test_a_tree_that_grows_is_ended_at_its_memory_limit(box, children, rate):
    held = ended(appetite(box, "memory", children, rate, options=["--memory", "256M"]), "memory", 137)["memory"]
    assert held["limit"] == 256 << 20 and held["enforced_by"] in ("sampled", "cgroup")
    assert held["peak"] >= 256 << 20, held
    if box.user.uid == 0 and memory_groups():
        assert held["enforced_by"] == "cgroup"
    if held["enforced_by"] == "cgroup":
        # The kernel holds it at every instant; its counter of the most may be a few pages, charged at once, above.
        assert held["peak"] <= held["limit"] + (64 << 12), held
    print(f"memory, {children} children, {rate} MB/s: peak {held['peak'] / held['limit']:.2f} x the limit")


def test_the_peak_that_is_reported_is_what_a_tree_had(box):
    """Also of processes that leave callgate no processor for a reading. What else is measured here is the page cache, and Python."""
    with bounds.around("memory") as group:
        if group is None:
            pytest.skip("no memory controller of version 1 that root can make groups in")
        most = group / "memory.max_usage_in_bytes"
        most.write_text("0")
        before = int((group / "memory.usage_in_bytes").read_text())
        held = ended(appetite(box, "memory", 64, 1_000_000, options=["--memory", "256M"]), "memory", 137)["memory"]
        had = int(most.read_text()) - before
    print(f"memory, 64 children: peak {had / held['limit']:.2f} x the limit, reported {held['peak'] / held['limit']:.2f}")
    assert held["peak"] >= 0.9 * had - (16 << 20), (held, had)


def test_no_process_goes_on_without_the_one_that_took_too_much(box):
    """A group of version 1 kills one process. Its parent would then report an ordinary end, and nobody knew of the limit."""
    take = "python3 -c 'x = b\"x\" * (600 << 20)'; echo went on > later"
    ended(box.run(["/bin/sh", "-c", take], {"rules": []}, options=["-p", "agent", "--memory", "200M"]), "memory", 137)
    assert not (box.tree / "later").exists()
    twin = box.run(["/bin/sh", "-c", take.replace("600", "60")], {"rules": []}, options=["-p", "agent", "--memory", "200M"])
    assert twin.code == 0 and (box.tree / "later").read_text() == "went on\n", twin.describe()


@pytest.mark.parametrize("shape", ["memfd", "segment"])
def test_memory_that_no_process_maps_counts(box, shape):
    within = appetite(box, shape, 64, options=["--memory", "512M", "--idle-timeout", "1s"])
    assert within.report["outcome"] == "idle_timeout" and within.text == "hidden\n", within.describe()
    ended(appetite(box, shape, 400, options=["--memory", "256M"]), "memory", 137)


def test_names_that_callgate_makes_in_memory_count(box):
    """Their memory is not the control group's, where there is one."""
    place = rules(box, {"id": "shared-memory", "allow": ["read", "write"], "path": ["/dev/shm/psm_*", "/dev/shm/psm_*/**"]})
    line = [box.program("prog_appetite"), "links"]
    within = box.run([*line, "16"], place, options=["--memory", "64M"])
    assert within.code == 0 and within.text == "made\n", within.describe()
    held = ended(box.run([*line, "600"], place, options=["--memory", "64M"]), "memory", 137)["memory"]
    assert held["peak"] > held["limit"], held


def test_memory_that_processes_share_counts_once(box):
    result = appetite(box, "shared", 12, 64, options=["--memory", "256M"])
    assert result.code == 0 and result.text == "shared\n", result.describe()
    assert 64 << 20 < result.report["limits"]["memory"]["peak"] < 256 << 20, result.describe()


def test_memory_that_a_process_lends_by_vfork_counts_once(box):
    """Python and others start programs so: until the child executes one, the kernel shows all memory of its parent as the child's."""
    result = appetite(box, "lent", 64, options=["--memory", "100M"])
    assert result.code == 0 and result.text == "lent\n", result.describe()
    ended(appetite(box, "memory", 2, 500, options=["--memory", "100M"]), "memory", 137)


def test_memory_is_read_whatever_descriptors_the_calls_of_the_tree_take(box):
    """Datagrams that wait to be sent hold all that callgate may open."""
    box.within = ["prlimit", "--nofile=4096:4096", *box.within]
    program = [box.program("prog_appetite"), "passed"]
    bare = box.start([*box.within, *program, "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    harness.read_until(bare.stdout.fileno(), b"hidden")
    bare.kill()
    options = ["-p", "dgram", "-x", program[0], "--memory", "256M"]
    ended(box.run([*program, "1000"], options=[*options, "--timeout", "20s"]), "memory", 137)
    told = box.state / "report.json"
    line, _ = box.command([*program, "64"], options=[*options, "--report", str(told)])
    twin = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    harness.read_until(twin.stdout.fileno(), b"hidden")
    twin.terminate()
    twin.communicate(timeout=harness.DEADLINE)
    report = json.loads(told.read_text())
    assert report["outcome"] == "cancelled" and 0 < report["limits"]["memory"]["peak"] < 256 << 20, report


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
    """Root is then held by its own files' modes, also for what it executes (capabilities(7))."""
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


def test_processor_time_is_read_in_time_among_thousands_that_have_ended(box):
    """Each makes a reading longer, and a long reading is made less often. The limit comes first."""
    result = box.run([box.program("prog_appetite"), "ended", "3000", "30"], rules(box), options=["--cpu", "10s"])
    ended(result, "cpu", 152)
    few = box.run([box.program("prog_appetite"), "ended", "3000", "2"], rules(box), options=["--cpu", "60s"])
    assert few.code == 0 and few.text == "used\n", few.describe()


@pytest.mark.parametrize("kind", ["named", "unnamed"])
def test_what_is_added_to_the_work_directory_is_limited(box, kind):
    box.file(box.tree / "before", b"x" * (8 << 20))
    result = appetite(box, "disk", kind, options=["--disk", "32M", "--timeout", "120"])
    ended(result, "disk", 137)


def test_what_is_added_to_the_run_s_private_directory_counts_too(box):
    tmp = {"id": "tmp", "allow": ["read", "write"], "path": "${tmp}/**"}
    own = rules(box)
    result = box.run(["/bin/sh", "-c", "head -c 100M /dev/zero > $TMPDIR/big; sleep 1000"], own | {"rules": [*own["rules"], tmp]},
                     options=["--disk", "32M", "--timeout", "120"])
    ended(result, "disk", 137)
    assert not any(box.tree.iterdir()), result.describe()


def test_what_lay_there_before_does_not_count(box):
    box.file(box.tree / "before", b"x" * (8 << 20))
    result = box.run(["/bin/sh", "-c", "head -c 1000000 before > more; echo done"], rules(box), options=["--disk", "4M"])
    assert result.code == 0 and result.text == "done\n", result.describe()


def test_a_tree_that_does_nothing_is_ended_and_one_that_writes_is_not(box):
    ended(appetite(box, "idle", options=["--idle-timeout", "1s", "--timeout", "120"]), "idle_timeout", 124)
    for busy in (["ticking"], ["cpu", 1, 0]):  # writes, and hardly computes; computes, and writes nothing
        result = appetite(box, *busy, options=["--idle-timeout", "1s", "--timeout", "2s"])
        assert result.report["outcome"] == "timeout", result.describe()


def test_limits_of_a_rule_set_hold_and_the_tighter_wins(box):
    stated = rules(box) | {"limits": {"processes": 64, "cpu": "1s", "memory": "1G"}}
    result = box.run([box.program("prog_appetite"), "cpu", "1", "0"], stated, options=["--processes", "5000", "--cpu", "1h"])
    assert result.report["outcome"] == "cpu" and result.report["limits"]["cpu"]["limit"] == 1000, result.describe()
    assert result.report["limits"]["processes"]["limit"] == 64, result.describe()


SIZE, COUNT = "a size above 0 such as 100M or 2G (K, M, G, T; alone: bytes)", "a whole number above 0 such as 256"
DURATION = "a duration above 0 such as 90, 1500ms, 30s, 2m or 1h"
FORMS = {"memory": SIZE, "file-size": SIZE, "disk": SIZE, "processes": COUNT, "open-files": COUNT,
         "cpu": DURATION, "timeout": DURATION, "idle-timeout": DURATION, "grace": DURATION}
MEANINGLESS = ["1Q", "-1", "0", "18446744073709551616", "", "nan", "1e3", " 1"]
# More than there is, of those that the machine or callgate's own limits bound.
TOO_MUCH = {"memory": ("900000G", "that this machine has"), "disk": ("9000000T", "of the disk that the work directory is on"),
            "processes": ("99999999", "that this machine has"),
            "open-files": ("4000000000", "(ulimit -Hn)"), "file-size": ("2M", "(ulimit -Hf, there in KiB)")}


@pytest.mark.parametrize("option", FORMS)
def test_a_limit_that_means_nothing_is_refused_by_name_with_the_forms_that_mean_something(box, option):
    ran = box.tree / "ran"

    def refused(value: str, said: str) -> None:
        line, _ = box.command(["/bin/touch", str(ran)], rules(box), [f"--{option}", value])
        result = box.run(["/bin/sh", "-c", 'ulimit -f 1024; exec "$@"', "sh", *line], supervised=False)
        assert result.code == 125 and result.errors.startswith(f"callgate: --{option} {value}: expected "), result.describe()
        assert said in result.errors and len(result.errors.splitlines()) == 1 and not ran.exists(), result.describe()

    for value in MEANINGLESS:
        refused(value, FORMS[option])
    if option in TOO_MUCH:
        refused(*TOO_MUCH[option])


def test_a_rule_set_may_state_more_than_its_user_has(box):
    """It was written for another machine: the user's own limit is the tighter one."""
    stated = rules(box) | {"limits": {"open_files": 1 << 40, "file_size": "1T", "cpu": "10h", "processes": 1 << 30}}
    line, _ = box.command(["/bin/sh", "-c", "ulimit -Hn; ulimit -Hf; ulimit -Ht"], stated)
    result = box.run(["/bin/sh", "-c", 'ulimit -n 400; ulimit -f 2048; ulimit -t 3000; exec "$@"', "sh", *line], supervised=False)
    assert result.code == 0 and result.text.split() == ["400", "2048", "3000"], result.describe()


def test_open_files_and_their_size_are_limited_for_each_process(box):
    script = ("import errno, os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopened = []\ntry:\n while True: opened.append(os.open('.', os.O_RDONLY))\n"
              "except OSError as error: print(len(opened) + 3, error.errno == errno.EMFILE)\n"
              "for one in opened: os.close(one)\nwith open('big', 'wb', buffering=0) as file:\n try:\n  while True: file.write(b'x' * 65536)\n"
              " except OSError as error: print(file.tell(), error.errno == errno.EFBIG)\n")
    result = box.run(["/usr/bin/python3", "-c", script], rules(box), options=["--open-files", "20", "--file-size", "1M"])
    assert result.code == 0 and result.text == f"20 True\n{1 << 20} True\n", result.describe()
    assert {name: one["enforced_by"] for name, one in result.report["limits"].items()} == {"open_files": "rlimit", "file_size": "rlimit"}
    died = box.run(["/bin/sh", "-c", "exec head -c 3000000 /dev/zero > big"], rules(box), options=["--file-size", "1M"])
    assert died.code == 128 + signal.SIGXFSZ and (box.tree / "big").stat().st_size == 1 << 20, died.describe()


def test_beneath_the_limit_of_processes_a_user_has_a_net_and_root_has_not(box):
    """RLIMIT_NPROC: the user's threads at the start and the limit, with a reserve; the kernel does not count root's."""
    script = ["/bin/bash", "-c", "ulimit -u"]
    own = box.run(script, supervised=False).text
    held = box.run(script, rules(box), options=["--processes", "32"]).text
    if box.user.uid == 0:
        assert held == own
    else:  # only callgate, its guardian and remains of the test before run as the test's user
        assert 32 + 16 + 2 <= int(held) <= 32 + 16 + 30, held


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
