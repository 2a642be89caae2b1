"""`--report`: what it says is what its schema says (every run of every test is checked), and it is written whole or not."""
from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

import harness
from faultbox import Watched, reaper


def rules(box: harness.Box, *more):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


def run_with(box: harness.Box, report: Path | str, script: str = "exit 3", **keywords) -> harness.Result:
    line, _ = box.command(["/bin/sh", "-c", script], rules(box), ["--report", str(report)])
    return box.run(line, supervised=False, **keywords)


def outcome(path: Path) -> str:
    report = json.loads(path.read_text())
    harness.check_report(report)
    return report["outcome"]


def started(box: harness.Box, report: Path) -> subprocess.Popen[bytes]:
    """A run of cat that goes on: it has read and written one byte."""
    line, _ = box.command(["/bin/cat"], rules(box), ["--report", str(report)])
    run = box.start(line, stdin=-1, stdout=-1, stderr=-1)
    run.stdin.write(b"x")
    run.stdin.flush()
    harness.read_until(run.stdout.fileno(), b"x")
    return run


def test_a_file_is_replaced_and_keeps_its_mode(box):
    made = box.root / "made"
    run_with(box, made)
    assert outcome(made) == "exited" and stat.S_IMODE(made.stat().st_mode) == 0o644
    old = box.file(box.root / "old", b"what was there\n", 0o600)
    held = old.open("rb")
    run_with(box, old)
    assert outcome(old) == "exited" and stat.S_IMODE(old.stat().st_mode) == 0o600
    with held:
        assert held.read() == b"what was there\n", "the old file was written in place"
    assert [one.name for one in box.root.iterdir() if one.name.startswith(".")] == []


def test_until_the_end_nothing_of_a_new_report_is_there(box):
    path = box.root / "report"
    run = started(box, path)
    assert not path.exists()
    run.stdin.close()
    assert run.wait(harness.DEADLINE) == 0
    assert outcome(path) == "exited"


def test_a_link_is_followed_and_stays(box):
    target = box.file(box.root / "target", b"old")
    link = box.root / "link"
    harness.as_user(box.user, lambda: link.symlink_to(target))
    run_with(box, link)
    assert link.is_symlink() and outcome(target) == "exited"


def test_what_cannot_be_replaced_is_written_in_place(box):
    """A pipe, a file with another name beside it, and as root one in a directory of somebody else's."""
    fifo = box.root / "fifo"
    os.mkfifo(fifo)
    box.own(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    run_with(box, fifo)
    assert json.loads(os.read(reader, 65536))["outcome"] == "exited"
    os.close(reader)
    one = box.file(box.root / "one", b"old and longer than nothing")
    os.link(one, box.root / "other")
    run_with(box, one)
    assert outcome(box.root / "other") == "exited"
    if box.user.kind == "root":
        foreign = box.directory(box.root / "foreign")
        os.chown(foreign, 65534, 65534)
        run_with(box, foreign / "report")
        assert outcome(foreign / "report") == "exited"


@pytest.mark.parametrize("place", ["missing directory", "directory", "not writable"])
def test_a_place_that_cannot_be_written_is_said_before_anything_runs(box, place):
    path = {"missing directory": box.root / "none" / "report", "directory": box.root, "not writable": Path("/sys/report")}[place]
    result = run_with(box, path, f"echo ran > {box.tree}/ran")
    assert result.code == 125 and str(path) in result.errors and not (box.tree / "ran").exists(), result.describe()


@pytest.mark.parametrize("swapped", [False, True], ids=["control", "swapped"])
def test_a_directory_that_the_command_swaps_leads_the_report_nowhere_else(box, swapped):
    """The command may write the directory that the report goes to, and puts a link to another in its place."""
    box.directory(box.root / "elsewhere")
    out = box.directory(box.tree / "out")
    script = f"mv {out} {box.tree}/moved && ln -s {box.root}/elsewhere {out}" if swapped else "true"
    result = run_with(box, out / "report", script)
    assert result.code == 0, result.describe()
    assert outcome((box.tree / "moved" if swapped else out) / "report") == "exited"
    assert list((box.root / "elsewhere").iterdir()) == []


def test_the_guardian_writes_it_whole_where_callgate_is_lost(box):
    with reaper():
        run = Watched(box, [box.program("prog_fault"), "write", str(box.tree), "1", "0"])
        run.lines(1)
        run.process.kill()
        run.finish()
        run.assert_nothing_left()
        harness.until(run.report.exists, "the guardian's report")
        assert outcome(run.report) == "supervisor_lost"
        run.reap()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_is_written_where_callgate_is_told_to_end(box, number):
    path = box.root / "report"
    run = started(box, path)
    run.send_signal(number)
    assert run.wait(harness.DEADLINE) == 128 + number
    assert outcome(path) == "cancelled"


def test_variables_that_hold_a_credential_are_named_and_their_values_are_not(box):
    extra = {"AWS_SECRET_ACCESS_KEY": "cg-value", "PROXY": "http://u:cg-value@h/", "PLAIN_THING": "plain", "GITHUB_TOKEN": "cg-value"}
    result = box.run(["/usr/bin/env"], rules(box), env=extra, options=["--keep-env", "--env", "GITHUB_TOKEN"])
    held = result.report["environment"]["held_back"]
    assert sorted(held) == ["AWS_SECRET_ACCESS_KEY", "PROXY"], result.describe()
    assert "GITHUB_TOKEN=cg-value" in result.text and "cg-value" not in json.dumps(result.report)


def test_usage_counts_what_was_done(box):
    result = box.run(["/bin/sh", "-c", f"cat {box.root}/none; dd if=/dev/zero of=big bs=1M count=8 conv=fsync 2>/dev/null; cat big >/dev/null"],
                     rules(box, {"id": "contested", "deny": "read", "path": f"{box.tree}/never"}))
    usage = result.report["usage"]
    assert usage["bytes_written"] >= 8 << 20 or os.statvfs(box.tree).f_files == 0, result.describe()
    tiers = usage["notifications_by_tier"]
    assert tiers["continued"] + tiers["answered"] == usage["notifications"] and tiers["answered"] > 0, usage
