"""The supervisor killed, its log attacked, its disk full: the tree ends, nothing unlogged took effect."""
from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import harness
from attackbox import SECRET

ROUNDS = 200 if harness.SOAK else 12


def contested(box: harness.Box, *more):
    return harness.rule_set(
        {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "never", "deny": ["read", "write"], "path": f"{box.tree}/**/.never*"},
        *more)


def started(box: harness.Box, args: list[str], marker: str, **keywords):
    line, log = box.command(args, contested(box), ["--env", f"CG_MARK={marker}"])
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)
    harness.read_until(process.stdout.fileno(), b"ready")
    return process, log


def guardian_of(process) -> int:
    return harness.until(lambda: harness.children(process.pid), "the guardian is there")[0]


@pytest.mark.parametrize("whom", ["supervisor", "guardian", "group", "session"])
def test_the_tree_ends_with_whoever_is_killed(box, table, whom):
    """`group`: SIGKILL to callgate's whole process group, as `kill -9 -PGID` does. `session`: that, with the target's too."""
    marker = f"{box.root.name}-{whom}"
    bare = box.start(["env", f"CG_MARK={marker}-bare", box.program("prog_tree"), str(box.tree), "wait"], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, start_new_session=True)
    harness.read_until(bare.stdout.fileno(), b"ready")
    bare.kill()
    bare.wait()
    survivors = harness.marked(f"CG_MARK={marker}-bare")
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert len(survivors) >= 5, "the control left nothing behind: the tree is not hard to end"

    process, _ = started(box, [box.program("prog_tree"), str(box.tree), "wait"], marker, start_new_session=True)
    guardian = guardian_of(process)
    tree = harness.marked(f"CG_MARK={marker}")
    assert len(tree) >= 6
    if whom == "supervisor":
        process.kill()
    elif whom == "guardian":
        os.kill(guardian, signal.SIGKILL)
    else:
        harness.kill_group_of(process.pid)
        if whom == "session":
            for pid in tree[:2]:
                harness.kill_group_of(pid)
    process.wait(harness.DEADLINE)
    harness.until(lambda: not harness.marked(f"CG_MARK={marker}"), "the whole tree has ended", 20)
    harness.until(lambda: not Path(f"/proc/{guardian}").exists(), "the guardian has ended and was reaped", 20)
    harness.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tree), "no zombie is left", 20)
    table.append((box.user.kind, f"supervisor: SIGKILL to {whom}", f"{len(survivors)} survived", "0 survived", "-"))


def test_every_effect_has_its_record_whenever_the_supervisor_dies(box, table):
    effects = 0
    chance = random.Random(7)
    for turn in range(ROUNDS):
        folder = box.directory(box.tree / f"turn{turn}")
        marker = f"{box.root.name}-{turn}"
        process, log = started(box, [box.program("prog_writer"), str(folder), "0"], marker)
        wanted = chance.randrange(1, 400)
        harness.until(lambda: len(os.listdir(folder)) >= wanted, "the writer works")
        process.kill()
        process.wait()
        harness.until(lambda: not harness.marked(f"CG_MARK={marker}"), "the tree has ended", 20)
        made = sorted(os.listdir(folder))
        recorded = {one["file"]["path"] for one in harness.read_log(log) if one.get("callgate", {}).get("verdict") == "allow" and "file" in one}
        missing = [name for name in made if str(folder / name) not in recorded]
        assert not missing, f"{len(missing)} of {len(made)} files have no record: {missing[:5]}"
        effects += len(made)
    table.append((box.user.kind, "supervisor: killed while writing", "-", f"{effects} recorded", "-"))


def test_nothing_proceeds_while_the_supervisor_is_stopped(box):
    folder = box.directory(box.tree / "stopped")
    process, _ = started(box, [box.program("prog_writer"), str(folder), "0"], box.root.name)
    os.kill(process.pid, signal.SIGSTOP)
    harness.until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "callgate is stopped")
    before = len(os.listdir(folder))
    end = time.monotonic() + 0.3  # an observation window, not a wait: nothing may happen in it
    while time.monotonic() < end:
        assert len(os.listdir(folder)) <= before + 1, "a contested call took effect without its supervisor"
    os.kill(process.pid, signal.SIGCONT)
    harness.until(lambda: len(os.listdir(folder)) > before + 1, "it goes on")
    process.terminate()
    process.wait(harness.DEADLINE)


LOG_DOORS = ["plain", "hardlink", "hardlink_fd", "symlink", "proc_fd", "proc_root", "folder_link", "relative", "open_trunc", "creat", "append",
             "truncate", "unlink", "unlinkat", "rename", "rename_away", "rename_onto", "exchange", "rename_folder", "exchange_folder",
             "rename_ancestor", "exchange_ancestor", "cwd_kept", "chmod", "chmod_fd", "chown", "utimensat"]


@pytest.mark.parametrize("door", LOG_DOORS)
def test_the_log_is_out_of_reach_though_the_rules_allow_its_place(box, table, door):
    log = box.directory(box.directory(box.directory(box.tree / "upper") / "logs") / "inner") / "run.jsonl"
    free = box.directory(box.tree / "free")
    line = [box.program("attack_door"), door, str(log), str(free)]
    box.file(log, b'{"a":"line"}\n', 0o600)
    control = box.run(line, supervised=False)
    assert control.code == 0, f"the control did not reach the file\n{control.describe()}"
    for path in (box.tree / "upper", box.tree / "upper-moved", box.tree / "upper" / "logs-moved", free):
        subprocess.run(["rm", "-rf", str(path)], check=True)
    box.directory(box.directory(box.directory(box.tree / "upper") / "logs") / "inner")
    box.directory(free)
    result = box.run(line, harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}),
                     options=["--audit", str(log)], audit=False)
    table.append((box.user.kind, f"log {door}", "reached", f"exit {result.code}", "-"))
    assert result.code == 1, result.describe()
    assert b"run.start" not in result.out and b"@timestamp" not in result.out, result.describe()
    assert log.exists(), f"the log is gone\n{result.describe()}"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600 and log.stat().st_nlink == 1
    lines = [json.loads(one) for one in log.read_bytes().splitlines()]
    assert [one["event"]["sequence"] for one in lines] == list(range(lines[0]["event"]["sequence"], lines[0]["event"]["sequence"] + len(lines)))
    assert lines[0]["event"]["action"] == "run.start" and lines[-1]["event"]["action"] == "run.end"


def test_the_state_directory_is_out_of_reach_though_the_rules_allow_home(box):
    state = box.directory(box.tree / "state")
    script = (f"ls -R {state}; cat {state}/callgate/*; rm -rf {state}/callgate; mv {state} {box.tree}/gone; : > {state}/callgate/new; "
              f"mkdir {state}/callgate/x; ls {box.tree}/gone")
    result = box.run(["/bin/sh", "-c", script], contested(box), env={"XDG_STATE_HOME": str(state)}, audit=False)
    assert result.report, result.describe()
    log = Path(result.report["audit"]["file"])
    assert log.exists() and log.parent == state / "callgate", result.describe()
    assert b"run.start" not in result.out, result.describe()
    assert sorted(os.listdir(state / "callgate")) == [log.name]
    assert len(harness.read_log(log)) == result.report["audit"]["records"]


def test_a_link_planted_at_the_logs_place_is_not_followed(box):
    target = box.file(box.root / "elsewhere", b"untouched")
    link = box.tree / "log"
    link.symlink_to(target)
    box.own(link)
    result = box.run(["/bin/sh", "-c", f"echo ran > {box.tree}/ran"], contested(box), options=["--audit", str(link)], audit=False)
    assert result.code == 125 and target.read_bytes() == b"untouched" and not (box.tree / "ran").exists(), result.describe()


@pytest.mark.parametrize("how", ["limit", "full"])
def test_what_cannot_be_recorded_is_denied_and_said(box, table, how):
    """`limit`: RLIMIT_FSIZE stops the log; `full`: its file system is full. Not one file without its record."""
    folder = box.directory(box.tree / "made")
    line, log = box.command([box.program("prog_writer"), str(folder), "5000"], contested(box))
    mounted = None
    if how == "limit":
        line = ["prlimit", f"--fsize={64 * 1024}", *line]
    else:
        if os.geteuid() != 0:
            pytest.skip("mounting a small file system needs root")
        mounted = str(box.state)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=64k,mode=0700,uid={box.user.uid},gid={box.user.gid}", "cg-test", mounted],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=harness.DEADLINE)
        records = {one["file"]["path"] for one in harness.read_log(log) if "file" in one}
        made = os.listdir(folder)
    finally:
        if mounted:
            subprocess.run(["umount", mounted], check=True)
    table.append((box.user.kind, f"log: {how}", "-", f"{len(made)} recorded", "-"))
    assert b"refused" in out, (out, err)
    assert process.returncode == 3, (process.returncode, err)
    assert [name for name in made if str(folder / name) not in records] == [], "an effect without its record"
    assert 0 < len(made) < 5000
    assert b"audit" in err or b"log" in err, err


def test_the_environ_that_a_process_reads_of_itself_is_its_own(box):
    """/proc/self is the caller's, never the supervisor's, by every way of naming it."""
    own = "VISIBLE=42"
    script = "for f in /proc/self/environ /proc/thread-self/environ /proc/self/../self/environ /proc/self/task/../environ; do tr '\\0' '\\n' < $f; done"
    rules = contested(box, {"id": "contest-proc", "deny": "read", "path": "/proc/*/never"})
    result = box.run(["/bin/sh", "-c", script], rules, options=["--env", own], env={"SECRET_OF_THE_SUPERVISOR": SECRET.decode()})
    assert result.out.decode().count(own) == 4, result.describe()
    assert SECRET not in result.out, result.describe()
