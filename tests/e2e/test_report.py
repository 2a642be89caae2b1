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


def leave_link(box: harness.Box, name: str, target: Path) -> Path:
    """A supervised command leaves a link in the work directory, where the next run's caller names a file."""
    line, _ = box.command(["/bin/ln", "-s", str(target), name], rules(box))
    left = box.run(line, supervised=False)
    assert left.code == 0 and (box.tree / name).is_symlink(), left.describe()
    return box.tree / name


@pytest.mark.parametrize("form", ["absolute", "relative"])
def test_a_link_that_an_earlier_run_left_is_replaced(box, form):
    """Control: a program that opens the name writes through the link. Twin: the report is there."""
    outside = box.file(box.home / ".profile", b"# the user's\n")
    link = leave_link(box, "report.json", outside)
    harness.as_user(box.user, lambda: link.write_bytes(b"control\n"))
    assert outside.read_bytes() == b"control\n", "the link leads nowhere"
    result = run_with(box, link if form == "absolute" else "report.json")
    assert result.code == 3 and outside.read_bytes() == b"control\n", result.describe()
    assert not link.is_symlink() and outcome(link) == "exited"


def test_a_link_that_an_earlier_run_left_at_the_logs_name_is_refused(box):
    outside = box.file(box.home / "notes", b"{}\n", 0o600)
    box.replays.leave_out("a link stands where the log would be")
    link = leave_link(box, "log.jsonl", outside)
    line = [str(box.callgate), "run", "--audit", str(link), "--", "/bin/sh", "-c", "echo > ran"]
    result = box.run(line, supervised=False)
    assert result.code == 125 and str(link) in result.errors, result.describe()
    assert outside.read_bytes() == b"{}\n" and not (box.tree / "ran").exists()


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_a_page_replaces_a_link_that_a_run_left(box, option):
    outside = box.file(box.home / ".profile", b"# the user's\n")
    link = leave_link(box, "page", outside)
    result = box.run(["/bin/true"], rules(box))
    log = result.report["audit"]["file"]
    made = box.run([str(box.callgate), "audit", "report", f"{option}={link}", log], supervised=False)
    assert made.code == 0 and outside.read_bytes() == b"# the user's\n", made.describe()
    assert not link.is_symlink() and link.stat().st_size > 0


def test_a_link_of_another_user_in_a_shared_directory_is_refused(box):
    if os.geteuid() != 0:
        pytest.skip("only root makes another user's link")
    shared = box.directory(box.root / "shared")
    shared.chmod(0o1777)
    outside = box.file(box.home / ".profile", b"# the user's\n")
    link = shared / "report.json"
    link.symlink_to(outside)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    result = run_with(box, link, f"echo ran > {box.tree}/ran")
    assert result.code == 125 and str(link) in result.errors, result.describe()
    assert outside.read_bytes() == b"# the user's\n" and not (box.tree / "ran").exists()


def test_the_report_is_closed_to_the_run(box):
    """Control: a file beside it can be written. The run neither reads, writes, removes nor makes the report."""
    old = box.file(box.tree / "report.json", b"old\n")
    script = "cat report.json; echo forged > report.json; rm report.json; mv report.json away; ln -s /etc/passwd report.json; echo > beside; exit 0"
    result = run_with(box, old, script)
    assert (box.tree / "beside").exists() and "old" not in result.text, result.describe()
    report = json.loads(old.read_text())
    assert report["outcome"] == "exited" and report["denials"], result.describe()
    assert {one["rule"] for one in report["denials"]} == {"callgate-audit"}, report["denials"]


@pytest.mark.parametrize("name", ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"])
def test_names_of_descriptors_are_written_as_they_are(box, name):
    """The command may go on writing to the same descriptor."""
    result = run_with(box, name, "echo mine > /dev/stderr; exit 0")
    assert result.code == 0 and "mine" in result.errors and '"outcome": "exited"' in result.errors.replace('":"', '": "'), result.describe()


@pytest.mark.parametrize("option", ["--report", "--audit"])
def test_a_device_is_written_as_it_is_and_stays_open_to_the_run(box, option):
    line = [str(box.callgate), "run", "-R", str(box.rules_file(rules(box))), option, "/dev/null", "--", "/bin/sh", "-c", "echo > /dev/null"]
    result = box.run(line, supervised=False)
    assert result.code == 0 and "denied" not in result.errors, result.describe()


@pytest.mark.parametrize("script, code", [("exit 0", 123), ("exit 3", 3)])
def test_a_report_that_cannot_be_written_is_said_and_is_no_success(box, script, code):
    result = run_with(box, "/dev/full", script)
    assert result.code == code and "the report could not be written" in result.errors, result.describe()


def test_no_name_beside_the_report_can_be_foretold(box):
    """Control: names made from the process id stand in the way of a predictable one."""
    for number in range(1, 1 << 15, 97):
        (box.root / f".callgate-report-{number}").touch()
    assert run_with(box, box.root / "report").code == 3
    assert outcome(box.root / "report") == "exited"


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


@pytest.mark.parametrize("named", [False, True], ids=["control", "named"])
def test_a_directory_of_the_report_that_the_command_swaps_leads_it_nowhere_else(box, named):
    """The directory is held from the start, and no link gets its name. Control: one that no report goes to is swapped."""
    box.directory(box.root / "elsewhere")
    out = box.directory(box.tree / "out")
    report = (out if named else box.root) / "report"
    result = run_with(box, report, f"rmdir {out} && ln -s {box.root}/elsewhere {out}; true")
    assert out.is_symlink() != named and list((box.root / "elsewhere").iterdir()) == [], result.describe()
    if named:
        assert result.code == 123 and "the report could not be written" in result.errors, result.describe()
    else:
        assert result.code == 0 and outcome(report) == "exited", result.describe()


def test_a_link_at_a_rule_file_is_refused(box):
    """`rules accept` and `suggest --into` write no file that a link leads to."""
    outside = box.file(box.home / "other.json", b'{"version": 1, "rules": []}\n')
    result = box.run(["/bin/cat", str(box.file(box.root / "wanted"))], rules(box), options=["--mode", "audit"])
    log = result.report["audit"]["file"]
    link = leave_link(box, "rules.json", outside)
    line = [str(box.callgate), "audit", "suggest", "--into", str(link), log]
    refused = box.run(line, supervised=False)
    assert refused.code == 125 and str(outside) in refused.errors and link.is_symlink(), refused.describe()
    assert outside.read_bytes() == b'{"version": 1, "rules": []}\n'
    line[4] = str(outside)
    assert box.run(line, supervised=False).code == 0 and b"wanted" in outside.read_bytes()


@pytest.mark.parametrize("planted", [True, False], ids=["planted", "twin"])
def test_a_link_of_another_user_at_the_sockets_directory_is_refused(box, planted):
    """The sockets of a user without a runtime directory lie in /tmp, beneath a name that everybody knows."""
    if os.geteuid() != 0:
        pytest.skip("only root makes another user's link")
    mine = box.directory(box.home / "mine", 0o700)
    name, user = f"/tmp/callgate-{box.user.uid}", box.user
    plant = f"ln -s {mine} {name} && chown -h 65534:65534 {name} && " if planted else ""
    # A /tmp of its own, with this test's files in it, and no runtime directories.
    script = f"mount -t tmpfs -o mode=1777 none /mnt && mkdir /mnt/{box.stage.root.name} && " \
        f"mount --rbind {box.stage.root} /mnt/{box.stage.root.name} && mount --rbind /mnt /tmp && mount -t tmpfs none /run/user && " \
        f"{plant}cd {box.tree} || exit 99; \"$@\""
    drop = ["setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"] if user.uid != 0 else []
    line, _ = box.command(["/bin/sh", "-c", f"ls {mine}; stat -c %a {name}"], rules(box), ["--ask", "socket"])
    found = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *drop, *line],
                           env=box.environment(), capture_output=True, timeout=harness.DEADLINE, check=False)
    assert found.returncode != 99, found.stderr
    assert list(mine.iterdir()) == [], found.stderr
    if planted:
        assert found.returncode == 125 and name.encode() in found.stderr, found.stderr
    else:
        assert found.returncode == 0 and found.stdout == b"700\n", found


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
