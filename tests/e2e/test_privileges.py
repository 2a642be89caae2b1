"""Privileges and inheritance of a command: privileges are taken, everything else is as its caller gave it.

A command is looked at from outside, in /proc, beside a bare one that the same caller started the same way.
"""
from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import children

GROUPS = [7, 20]  # supplementary ones that a caller may have
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb")
# Says what only the process itself can: PR_GET_DUMPABLE, its umask, its priorities. Then waits to be looked at.
SELF = """
import ctypes, os, sys
mask = os.umask(0)
os.umask(mask)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), oct(mask), os.getpriority(os.PRIO_PROCESS, 0), flush=True)
sys.stdin.readline()
"""


def as_caller() -> None:
    """The state that a caller may have set: masks, dispositions, priorities, limits."""
    os.umask(0o027)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGWINCH, signal.SIG_IGN)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, 700))
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 21))


class Looked:
    """A command at rest, as /proc shows it."""

    def __init__(self, box: harness.Box, line: list[str], supervised: bool) -> None:
        identity = box.user.popen_identity()
        if identity:
            identity["extra_groups"] = GROUPS
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=box.tree,
                                        env=box.environment(), preexec_fn=as_caller, **identity)
        box.running.append(self.process)
        self.said = harness.read_until(self.process.stdout.fileno(), b"\n").decode()
        self.pid = self.process.pid
        if supervised:
            self.pid = children(children(self.pid)[0])[0]  # the guardian's only child
        self.status = fields(self.pid)
        self.limits = {line[:26].strip(): line[26:].split()[:2] for line in Path(f"/proc/{self.pid}/limits").read_text().splitlines()[1:]}
        self.oom = int(Path(f"/proc/{self.pid}/oom_score_adj").read_text())
        self.nice = os.getpriority(os.PRIO_PROCESS, self.pid)
        self.io = subprocess.run(["ionice", "-p", str(self.pid)], capture_output=True, text=True, check=True).stdout.strip()
        self.caller = fields(self.process.pid)

    def end(self) -> str:
        out, err = self.process.communicate(b"\n", timeout=harness.DEADLINE)
        assert self.process.returncode == 0, (out, err)
        return err.decode()


def fields(pid: int) -> dict[str, Any]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in lines)}


def look(box: harness.Box, supervised: bool = True, options: list[str] = ()) -> Looked:  # type: ignore[assignment]
    bare = ["/usr/bin/python3", "-c", SELF]
    return Looked(box, box.command(bare, harness.rule_set(), list(options))[0] if supervised else bare, supervised)


def test_privileges_are_gone_and_the_rest_is_the_callers(box):
    bare, under = look(box, supervised=False), look(box)
    assert under.status["NoNewPrivs"] == "1" and under.status["Seccomp"] == "2" and bare.status["NoNewPrivs"] == "0"
    assert {under.status[name] for name in CAPABILITY_SETS} == {"0" * 16}, under.status
    if box.user.uid == 0:
        assert int(bare.status["CapEff"], 16) != 0 and under.status["CapBnd"] == "0" * 16
    if os.geteuid() == 0:
        assert under.status["Groups"].split() == [str(one) for one in GROUPS]
    for name in ("Groups", "Uid", "Gid", "SigBlk", "SigIgn", "Umask"):
        assert under.status[name] == bare.status[name], name
    assert under.said == bare.said and under.said.split()[0] == "1", "dumpable, umask, priority"
    assert (under.nice, under.io) == (bare.nice, bare.io) and under.nice == os.getpriority(os.PRIO_PROCESS, 0) + 3
    # No core dumps, unless the command asks for them: its hard limit is the caller's.
    assert bare.limits.pop("Max core file size") == [str(1 << 20), str(1 << 21)]
    assert under.limits.pop("Max core file size") == ["0", str(1 << 21)]
    assert under.limits == bare.limits and under.limits["Max open files"] == ["500", "700"]
    assert under.oom == min(bare.oom + 500, 1000)
    for one in (bare, under):
        one.end()


def test_capabilities_stay_where_that_is_wanted_and_the_report_says_so(box):
    report = box.root / "report"
    under = look(box, options=["--keep-capabilities", "--report", str(report)])
    for name in (*CAPABILITY_SETS, "CapBnd"):
        assert under.status[name] == under.caller[name], name
    assert (int(under.status["CapEff"], 16) != 0) == (box.user.uid == 0) and under.status["NoNewPrivs"] == "1"
    under.end()
    assert '"degraded":["capabilities"]' in report.read_text().replace(" ", "")
    plain = box.run(["/bin/true"], harness.rule_set())
    assert plain.report["effective"]["degraded"] == [], plain.describe()


@pytest.mark.parametrize(("options", "nice", "io"), [
    (["--nice", "4"], 4, None), (["--ionice", "best-effort:6"], 0, "best-effort: prio 6"), (["--ionice", "idle"], 0, "idle")])
def test_priorities_are_given_to_the_command_and_not_to_callgate(box, options, nice, io):
    plain, under = look(box), look(box, options=options)
    assert under.nice == plain.nice + nice and under.io == (io or plain.io)
    assert os.getpriority(os.PRIO_PROCESS, under.process.pid) == plain.nice, "callgate itself is not slowed down"
    for one in (plain, under):
        one.end()


def test_a_priority_that_cannot_be_had_is_named(box):
    result = box.run(["/bin/true"], harness.rule_set(), options=["--nice", "-5"])
    assert result.code == 125 and "--nice" in result.errors and len(result.errors.splitlines()) == 1, result.describe()


@pytest.mark.parametrize("dumped", [False, True], ids=["as it is", "asked for"])
def test_a_core_is_dumped_only_where_the_command_asks_for_it(box, dumped):
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("cores do not go to the working directory here")
    rules = harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})
    result = box.run(["/bin/sh", "-c", f"{'ulimit -c unlimited; ' if dumped else ''}kill -SEGV $$"], rules)
    assert (result.code, result.report["outcome"], result.report["signal"]) == (139, "signaled", signal.SIGSEGV), result.describe()
    assert [one.name.partition(".")[0] for one in box.tree.iterdir()] == (["core"] if dumped else [])


def test_a_command_that_stopped_and_was_continued_ends_as_it_ends(box):
    """callgate stops with it, as its caller expects of a job, and goes on with it."""
    line, _ = box.command(["/bin/sh", "-c", "kill -STOP $$; echo on; exit 5"], harness.rule_set(), ["--report", str(box.root / "report")])
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command = harness.until(lambda: [one for one in harness.descendants(process.pid) if harness.state(one) == "T"], "the command has stopped")
    os.kill(process.pid, signal.SIGCONT)  # callgate passes it on; the command may have ended by the next line
    with contextlib.suppress(ProcessLookupError):
        os.kill(command[0], signal.SIGCONT)
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (process.returncode, out, err) == (5, b"on\n", b"")
    assert '"outcome":"exited"' in (box.root / "report").read_text().replace(" ", "")
