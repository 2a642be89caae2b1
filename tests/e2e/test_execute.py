"""Execution: judged before, and again on what then runs. Each denial has its control (bare, it runs) and its benign twin."""
from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from cases.case import ENOUGH_WINS, FACTORS, MILLISECONDS, RACE_ROUNDS, wins

ROUNDS = 2000 if harness.SOAK else 100
WAYS = ["fork", "vfork", "spawn", "thread", "double", "at", "empty", "fd", "nofollow", "pending", "noargs"]


class Yard:
    """A tree in which everything may be made and executed, except beneath `denied`: so execution is notify-only."""

    def __init__(self, box: harness.Box) -> None:
        self.box, self.root = box, box.tree / "yard"
        self.allowed, self.denied = box.directory(self.root) / "allowed", self.root / "deniedd"
        assert len(str(self.allowed)) == len(str(self.denied))
        for one in (self.allowed, self.denied):
            box.directory(one)
            self.program(one / "seen")

    def program(self, path: Path, name: str = "prog_seen") -> Path:
        return self.box.file(path, Path(self.box.program(name)).read_bytes(), 0o755)

    def script(self, path: Path, *lines: str) -> Path:
        return self.box.file(path, "\n".join([*lines, ""]).encode(), 0o755)

    def rules(self, *more: dict, default: str = "deny", **options) -> dict:
        return harness.rule_set(
            {"id": "programs", "allow": ["read", "execute"], "path": f"{self.box.stage.bin}/**"},
            {"id": "tree", "allow": ["read", "write", "execute"], "path": f"{self.root}/**"},
            {"id": "no", "deny": "execute", "path": f"{self.denied}/**", "reason": "not here"},
            *more, default=default, **options)

    def exec(self, *words: str | Path, rules: dict | None = None, supervised: bool = True, **options) -> harness.Result:
        return self.box.run([self.box.program("prog_exec"), *map(str, words)], rules or self.rules(), supervised=supervised, **options)


@pytest.fixture
def yard(box) -> Yard:
    return Yard(box)


def words(result: harness.Result) -> str:
    """The last line: what became of it."""
    return result.text.splitlines()[-1] if result.text.strip() else ""


# ---- what the rules say, in every way to execute ----


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_execute_is_judged_and_leaves_no_trace(yard, way):
    bare = yard.exec(way, yard.denied / "seen", "a", supervised=False)
    assert words(bare) == "exit 7", bare.describe()  # the control
    denied = yard.exec(way, yard.denied / "seen", "a")
    assert words(denied) == "errno EPERM", denied.describe()
    (record,) = denied.decisions(operation="execute", verdict="deny")[:1]
    assert record["rule"]["name"] == "no" and record["callgate"]["reason"] == "not here"
    twin = yard.exec(way, yard.allowed / "seen", "a")
    expected = yard.exec(way, yard.allowed / "seen", "a", supervised=False)
    # The C library of Debian 13 ignores two signals of its own there without clone3: docs/differences.md.
    ours, bare_text = (one.text.replace("SigIgn:\t0000000180000000", "SigIgn:\t0000000000000000") if way == "spawn" else one.text for one in (twin, expected))
    assert ours == bare_text and "TracerPid:\t0" in twin.text, f"{twin.describe()}\n{expected.describe()}"
    allowed = [one for one in twin.decisions(operation="execute", verdict="allow") if one["file"]["path"] == str(yard.allowed / "seen")]
    assert allowed and allowed[0]["callgate"]["mechanism"] == "continue", twin.describe()
    assert not [one for one in twin.audit if one["callgate"].get("of_sequence")] or way == "double", twin.describe()


@pytest.mark.parametrize("way", ["memfd", "memfdpath"])
def test_a_memfd_has_no_name_that_a_rule_could_allow(yard, way):
    assert words(yard.exec(way, yard.allowed / "seen", supervised=False)) == "exit 7"
    denied = yard.exec(way, yard.allowed / "seen")
    assert words(denied) == "errno EPERM", denied.describe()
    open_rules = yard.rules(default="allow")
    twin = yard.exec(way, yard.allowed / "seen", rules=open_rules)
    assert words(twin) == "exit 7", twin.describe()


def test_a_link_that_is_not_followed_fails_as_bare(yard):
    for supervised in (False, True):
        assert words(yard.exec("link", yard.allowed / "seen", supervised=supervised)) == "errno ELOOP"


def test_what_fails_natively_fails_the_same(yard):
    for argv in (False, True):
        more = [{"id": "words", "deny": "execute", "path": "**/nothing-like-it", "argv": ["*", "push", "**"]}] if argv else []
        places = [yard.box.directory(yard.root / f"errors{number}{argv}") for number in range(2)]
        bare = yard.exec("errors", places[0], supervised=False)
        result = yard.exec("errors", places[1], rules=yard.rules(*more))
        assert bare.code == 0 and len(bare.text.splitlines()) > 30, bare.describe()
        assert result.text.splitlines() == bare.text.splitlines(), result.describe()


def test_a_call_that_failed_after_it_was_allowed_is_on_record(yard):
    text = yard.script(yard.allowed / "text", "echo nothing")
    result = yard.exec("fork", text)
    assert words(result) == "errno ENOEXEC"
    (decided,) = [one for one in result.decisions(operation="execute", verdict="allow") if one["file"]["path"] == str(text)]
    second = [one for one in result.audit if one["event"]["action"] == "act.failed" and one["callgate"]["of_sequence"] == decided["event"]["sequence"]]
    assert [one["callgate"]["errno"] for one in second] == ["ENOEXEC"], result.describe()


# ---- arguments, the asking program, patterns, ask, kill ----


def pushing(yard: Yard, action: str = "deny") -> dict:
    return {"id": "push", action: "execute", "path": "**/seen", "argv": ["*", "push", "**"]}


def test_arguments_decide_element_by_element(yard):
    rules = yard.rules(pushing(yard), {"id": "three", "deny": "execute", "path": "**/seen", "argv": ["*", "a", "?"]})
    for given, denied in [(["push", yard.root], True), (["push"], True), (["pus", "h"], False), (["x", "push"], False),
                          (["a", "b"], True), (["a", "bb"], False), (["a", "b", "c"], False), ([], False)]:
        result = yard.exec("fork", yard.allowed / "seen", *given, rules=rules)
        assert words(result) == ("errno EPERM" if denied else "exit 7"), f"{given}\n{result.describe()}"
    assert not (yard.root / "executed").exists()
    result = yard.exec("fork", yard.allowed / "seen", "push", yard.root, "--token=abcdef0123456789", rules=rules)
    record = result.decisions(operation="execute", verdict="deny")[0]
    assert record["callgate"]["input"]["argv"][1:3] == ["push", str(yard.root)], record
    assert "abcdef0123456789" not in json.dumps(record)


def test_an_allow_by_arguments_allows_just_that(yard):
    only = {"id": "only", "allow": "execute", "path": f"{yard.box.tree}/tool", "argv": ["*", "quiet", "**"]}
    yard.program(yard.box.tree / "tool")
    rules = yard.rules(only)
    assert words(yard.exec("fork", yard.box.tree / "tool", "quiet", "more", rules=rules)) == "exit 0"
    denied = yard.exec("fork", yard.box.tree / "tool", "noise", rules=rules)
    assert words(denied) == "errno EPERM" and denied.decisions(operation="execute", decided_by="default"), denied.describe()


def test_long_arguments_are_judged_whole(yard):
    rules = yard.rules({"id": "last", "deny": "execute", "path": "**/seen", "argv": ["**", "secret"]})
    many = ["x" * 1000] * 1500
    denied = yard.box.run(["/bin/sh", "-c", 'exec "$@"', "sh", str(yard.allowed / "seen"), *many[:100], "secret"], rules)
    assert denied.code == 126 and denied.decisions(rule="last") or denied.decisions(verdict="deny"), denied.describe()
    allowed = yard.box.run([str(yard.allowed / "seen"), "quiet", *many], rules)
    assert allowed.code == 0, allowed.errors


def test_the_asking_program_decides(yard):
    asker = {"id": "asker", "deny": "execute", "path": f"{yard.allowed}/**", "program": "**/prog_exec"}
    denied = yard.exec("fork", yard.allowed / "seen", rules=yard.rules(asker))
    assert words(denied) == "errno EPERM", denied.describe()
    other = yard.box.run(["/bin/sh", "-c", f"{yard.allowed}/seen; exit $?"], yard.rules(asker))
    assert other.code == 7, other.describe()


def test_a_pattern_and_an_exception_allow_what_they_say(yard):
    yard.program(yard.box.tree / "one.run")
    yard.program(yard.box.tree / "one.txt")
    yard.program(yard.box.tree / "two.run")
    rules = yard.rules({"id": "some", "allow": ["read", "execute"], "path": f"{yard.box.tree}/*.run", "except": {"path": "**/two.*"}})
    assert words(yard.exec("fork", yard.box.tree / "one.run", rules=rules)) == "exit 7"
    for name in ("one.txt", "two.run"):
        assert words(yard.exec("fork", yard.box.tree / name, rules=rules)) == "errno EPERM"


def test_ask_denies_while_there_is_nobody_to_ask(yard):
    rules = yard.rules(pushing(yard, "ask"))
    result = yard.exec("fork", yard.allowed / "seen", "push", yard.root, rules=rules)
    assert words(result) == "errno EPERM" and not (yard.root / "executed").exists(), result.describe()
    assert result.decisions(operation="execute")[-1]["callgate"]["reason"] == "no one to ask"
    assert words(yard.exec("fork", yard.allowed / "seen", rules=rules)) == "exit 7"


def test_kill_ends_the_tree(yard):
    rules = yard.rules(pushing(yard, "kill"))
    result = yard.box.run(["/bin/sh", "-c", f"sleep 1000 & {yard.allowed}/seen push {yard.root}; sleep 1000"], rules)
    assert result.code == 137 and result.report["outcome"] == "killed_by_rule", result.describe()
    assert not (yard.root / "executed").exists()
    assert yard.box.run([str(yard.allowed / "seen")], rules).code == 7


def test_the_option_deny_denies_execution_too(yard):
    shutil.rmtree(yard.denied)
    rules = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{yard.box.stage.bin}/**"},
                             {"id": "tree", "allow": ["read", "write", "execute"], "path": f"{yard.root}/**"})
    options = ["-d", str(yard.allowed)]
    result = yard.exec("fork", yard.allowed / "seen", rules=rules, options=options)
    assert words(result) == "errno EPERM" and "in this version" not in result.errors, result.describe()
    assert words(yard.exec("fork", yard.allowed / "seen", rules=rules)) == "exit 7"
    other = yard.program(yard.root / "other")
    assert words(yard.exec("fork", other, rules=rules, options=options)) == "exit 7"


def test_the_command_itself_is_denied_with_rule_and_option_named(yard):
    result = yard.box.run([str(yard.denied / "seen")], yard.rules())
    assert result.code == 126 and result.report["outcome"] == "exec_failed", result.describe()
    first = result.errors.splitlines()[0]
    assert f"cannot run {yard.denied}/seen" in first and "rule no" in first and "not here" in first and "--except" not in first, result.describe()
    tool = yard.program(yard.box.tree / "tool")
    result = yard.box.run([str(tool)], yard.rules())
    first = result.errors.splitlines()[0]
    assert result.code == 126 and "the default" in first and f"--execute {tool}" in first, result.describe()


# ---- scripts and interpreters ----


def test_scripts_run_with_what_they_get_bare(yard):
    seen = yard.allowed / "seen"
    plain = yard.script(yard.allowed / "plain", f"#!{seen}")
    argument = yard.script(yard.allowed / "argument", f"#! {seen} one  two ")
    nested = yard.script(yard.allowed / "nested", f"#!{argument} three")
    environment = yard.script(yard.allowed / "environment", f"#!/usr/bin/env -S {seen} four")
    for rules in (yard.rules(), yard.rules(pushing(yard))):
        for script in (plain, argument, nested, environment):
            for way in ("fork", "at", "empty", "thread"):
                bare = yard.exec(way, script, "a", "b", supervised=False)
                result = yard.exec(way, script, "a", "b", rules=rules)
                assert bare.text == result.text and "exit 7" in bare.text, f"{result.describe()}\n{bare.describe()}"


def test_a_script_and_each_interpreter_are_judged(yard):
    denied = yard.denied / "seen"
    for number, (script, culprit) in enumerate([
            (yard.script(yard.denied / "script", f"#!{yard.allowed}/seen"), yard.denied / "script"),
            (yard.script(yard.allowed / "first", f"#!{denied}"), denied),
            (yard.script(yard.allowed / "second", f"#!{yard.allowed}/first"), denied)]):
        assert words(yard.exec("fork", script, supervised=False)) == "exit 7"
        result = yard.exec("fork", script)
        assert words(result) == "errno EPERM", f"{number}\n{result.describe()}"
        assert [one["file"]["path"] for one in result.decisions(operation="execute", verdict="deny")] == [str(culprit)]


def test_an_interpreter_is_judged_by_its_arguments(yard):
    script = yard.script(yard.allowed / "pusher", f"#!{yard.allowed}/seen push")
    assert words(yard.exec("fork", script, supervised=False, cwd=yard.root)) == "exit 42"
    result = yard.exec("fork", script, rules=yard.rules(pushing(yard)))
    assert words(result) == "errno EPERM", result.describe()


def test_an_interpreter_outside_the_allowed_is_denied_on_record_where_landlock_holds_all(yard):
    """No hierarchy is notify-only here: the calls are continued, and the interpreter is judged all the same."""
    outside = yard.program(yard.box.tree / "outside")
    script = yard.script(yard.allowed / "script", f"#!{outside}")
    rules = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{yard.box.stage.bin}/**"},
                             {"id": "tree", "allow": ["read", "execute"], "path": f"{yard.root}/**"})
    assert words(yard.exec("fork", script, supervised=False)) == "exit 7"
    result = yard.exec("fork", script, rules=rules)
    assert words(result) == "errno EPERM", result.describe()
    assert [one["file"]["path"] for one in result.decisions(operation="execute", verdict="deny")] == [str(outside)]
    twin = yard.exec("fork", yard.script(yard.allowed / "twin", f"#!{yard.allowed}/seen"), rules=rules)
    assert words(twin) == "exit 7" and not twin.decisions(operation="execute"), twin.describe()


@pytest.fixture
def binfmt_misc(yard):
    """The directory of binfmt_misc, mounted for this test alone: callgate and its command are in the same mount
    namespace."""
    if os.geteuid() != 0 or yard.box.user.uid != 0:
        pytest.skip("kinds of files are registered by root")
    libc, place = ctypes.CDLL(None, use_errno=True), Path("/proc/sys/fs/binfmt_misc")
    new_mounts, here = 0x20000, os.getcwd()
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(new_mounts) != 0:
            pytest.skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
        done = subprocess.run(f"mount --make-rprivate / && mount -t binfmt_misc cg-test {place}", shell=True, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"binfmt_misc cannot be mounted here: {done.stderr.decode().strip()}")
        yield place / "register"
    finally:
        libc.setns(before, new_mounts)
        os.close(before)
        os.chdir(here)


def test_a_file_kind_of_the_machine_is_judged_by_what_runs_it(yard, binfmt_misc):
    register = binfmt_misc
    name = f"cgtest{os.getpid()}"
    for runner, expected in ((yard.allowed / "seen", "exit 7"), (yard.denied / "seen", "signal 9")):
        register.write_text(f":{name}:M::\\x00callgate\\x01::{runner}:")
        try:
            strange = yard.box.file(yard.allowed / "strange", b"\0callgate\1", 0o755)
            assert words(yard.exec("fork", strange, supervised=False)) == "exit 7"
            result = yard.exec("fork", strange)
            assert words(result) == expected, result.describe()
            second = [one for one in result.audit if one["callgate"].get("of_sequence") and one["callgate"].get("verdict")]
            assert [one["file"]["path"] for one in second] == [str(runner)], result.describe()
        finally:
            (register.parent / name).write_text("-1")


# ---- who cannot be held, and who is disturbed ----


def test_who_cannot_be_held_is_denied_with_the_reason(yard):
    way = "traced"
    assert words(yard.exec(way, yard.allowed / "seen", supervised=False)) == "exit 7"
    assert words(yard.exec("undumpable", yard.allowed / "seen")) == "exit 7"  # it is so to others alone
    result = yard.exec(way, yard.allowed / "seen")
    assert words(result) == "errno EPERM", result.describe()
    (record,) = result.decisions(operation="execute", verdict="deny")
    assert record["callgate"]["decided_by"] == "failure"
    assert "debugger" in record["callgate"]["reason"], record
    # Debuggers work if no hierarchy is notify-only.
    calm = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": [f"{yard.box.stage.bin}/**", f"{yard.root}/**"]})
    assert words(yard.exec(way, yard.allowed / "seen", rules=calm)) == "exit 7"


def test_what_may_be_executed_but_not_read_is_denied_with_the_reason(yard):
    if yard.box.user.uid == 0:
        pytest.skip("root reads its own files")
    hidden = yard.program(yard.allowed / "hidden")
    hidden.chmod(0o111)
    assert words(yard.exec("fork", hidden, supervised=False)).startswith("exit")
    result = yard.exec("fork", hidden)
    assert words(result) == "errno EACCES", result.describe()
    assert "not read" in result.decisions(operation="execute", verdict="deny")[0]["callgate"]["reason"]


@pytest.mark.parametrize("disturbance", ["killed", "stopped"])
def test_a_signal_at_any_moment_leaves_nothing_behind(yard, disturbance):
    for supervised in (False, True):
        result = yard.exec(disturbance, str(ROUNDS), yard.allowed / "seen", "quiet", supervised=supervised)
        text = words(result).split()
        assert result.code == 0 and text[0] == "whole", result.describe()
        whole, killed, stopped = int(text[1]), int(text[3]), int(text[5])
        assert whole + killed == ROUNDS, result.describe()
        if disturbance == "stopped":
            assert whole == ROUNDS and stopped > 0, result.describe()
        else:
            assert killed > 0, result.describe()
        assert not result.decisions(mechanism="kill"), "what was killed by its parent is no mismatch"


def test_many_at_once(yard):
    script = "for i in $(seq 200); do " + f"{yard.allowed}/seen quiet & " + "done; wait; echo done"
    result = yard.box.run(["/bin/sh", "-c", script], yard.rules())
    assert result.code == 0 and result.text == "done\n", result.describe()
    allowed = [one for one in result.decisions(operation="execute", verdict="allow") if one["file"]["path"].endswith("/seen")]
    assert len(allowed) == 200


def test_the_supervisor_dies_while_a_program_is_held(yard):
    """At every moment, no program runs without a judgement, and no process is left."""
    marker = f"CG_MARK={yard.root}"
    for _ in range(10):
        line, _ = yard.box.command(["/bin/sh", "-c", f"while :; do {yard.allowed}/seen quiet; done"], yard.rules(), options=["--env", marker])
        process = yard.box.start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        harness.until(lambda: harness.marked(marker), "the loop runs")
        process.kill()
        process.wait()
        harness.until(lambda: not harness.marked(marker), "the tree is gone")


# ---- races: what is judged is allowed, what then runs is not ----

RACES = [("race", racer) for racer in ("thread", "clonevm", "shared", "vmwritev", "procmem", "othermem", "symlink", "leaf")]
RACES += [("exec", kind) for kind in ("argument", "list", "second", "thread", "vfork", "spawn", "script", "line", "relink")]


def race(yard: Yard, attack: str, kind: str, supervised: bool, budget: int) -> harness.Result:
    box, free = yard.box, yard.root / "free"
    memory = {"id": "memory", "allow": "modify", "path": "/proc/**"}  # writing its own memory is the target's right
    rules = yard.rules(memory, {"id": "push", "deny": "execute", "path": "**/word", "argv": ["**", "push", "*"]})
    shutil.rmtree(free, ignore_errors=True)
    box.directory(free)
    for side, victim in ((yard.allowed, "/usr/bin/true"), (yard.denied, box.program("prog_exit42"))):
        box.file(side / "victim", Path(victim).read_bytes(), 0o755)
    yard.program(yard.allowed / "word", "prog_word")
    yard.script(yard.allowed / "script", "#!/bin/sh", "exit 0")
    yard.script(yard.denied / "script", "#!/bin/sh", ': > "$1/executed"', "exit 42")
    program, first = ("attack_race", ["exec"]) if attack == "race" else ("attack_exec", [])
    line = [box.program(program), *first, kind, str(yard.allowed), str(yard.denied), str(free), str(budget), str(RACE_ROUNDS)]
    if attack == "race":
        line.append("0" if supervised else str(ENOUGH_WINS))  # 0: all rounds
    return box.run(line, rules, supervised=supervised)


@pytest.mark.race
@pytest.mark.parametrize("attack,kind", RACES)
def test_a_raced_execve_runs_nothing_that_was_not_judged(yard, attack, kind):
    executed = yard.root / "free" / "executed"
    for factor in FACTORS:
        control = race(yard, attack, kind, False, MILLISECONDS * factor)
        won, _ = wins(control)
        if won >= ENOUGH_WINS:
            break
    if won < ENOUGH_WINS:
        harness.not_in_container("the race is not won")
    assert won >= ENOUGH_WINS, f"the race is won too seldom to prove anything\n{control.describe()}"
    assert executed.exists(), control.describe()
    result = race(yard, attack, kind, True, MILLISECONDS * factor)
    claimed, twin = wins(result)
    assert claimed == 0 and not executed.exists(), result.describe()
    assert twin > 0, f"the allowed side was never reached\n{result.describe()}"
    # Each program that was caught in the act is on record, as a second record of the one that allowed.
    decisions = {one["event"]["sequence"]: one for one in result.decisions(operation="execute")}
    for second in (one for one in decisions.values() if one["callgate"].get("of_sequence")):
        assert second["callgate"]["mechanism"] == "kill" and second["callgate"]["verdict"] == "deny", second
        first = decisions[second["callgate"]["of_sequence"]]
        assert first["callgate"]["verdict"] == "allow" and first["process"]["pid"] == second["process"]["pid"]


@pytest.mark.race
@pytest.mark.parametrize("check,attack,kind", [("what-runs", "race", "thread"), ("what-runs-by-arguments", "exec", "argument"),
                                               ("what-runs-by-arguments", "exec", "script")])
def test_without_the_second_judgement_the_race_is_won(yard, check, attack, kind):
    yard.box.switch(check)
    result = race(yard, attack, kind, True, 8 * MILLISECONDS)
    won, _ = wins(result)
    assert won > 0 and (yard.root / "free" / "executed").exists(), result.describe()


def test_a_mismatch_is_killed_recorded_and_reported(yard):
    """A race that is won often: what is left behind shows it."""
    for _ in range(20):
        result = race(yard, "race", "thread", True, 2000)
        caught = [one for one in result.decisions(operation="execute", mechanism="kill") if one["callgate"].get("of_sequence")]
        if caught:
            break
    assert caught, result.describe()
    assert {one["file"]["path"] for one in caught} == {str(yard.denied / "victim")}
    assert all(one["callgate"]["decided_by"] == "failure" and "killed" in one["callgate"]["reason"] for one in caught)
    assert result.report["outcome"] == "exited", result.describe()  # that process only
    assert any("the process was killed" in line for line in result.errors.splitlines()), result.errors


# ---- what is not held: shown, so that nobody believes in it (docs/threat-model.md) ----


def test_not_held_a_copy_and_a_loader_run_what_is_denied_by_name(yard):
    denied = yard.denied / "seen"
    loader = next(Path(one) for one in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if Path(one).exists())
    copy = f"cp {denied} {yard.allowed}/copy && {yard.allowed}/copy; exit $?"
    assert yard.box.run([str(denied)], yard.rules()).code == 126
    assert yard.box.run(["/bin/sh", "-c", copy], yard.rules()).code == 7
    assert yard.box.run([str(loader), str(denied)], yard.rules()).code == 7
    # `deny read` too holds both.
    both = yard.rules({"id": "unread", "deny": ["read", "write"], "path": f"{yard.denied}/**"})
    (yard.allowed / "copy").unlink()
    assert yard.box.run(["/bin/sh", "-c", copy], both).code != 7
    assert yard.box.run([str(loader), str(denied)], both).code != 7


def test_not_held_a_script_is_text_that_its_interpreter_reads(yard):
    script = yard.script(yard.denied / "script", "#!/bin/sh", "exit 9")
    assert yard.box.run([str(script)], yard.rules()).code == 126
    assert yard.box.run(["/bin/sh", str(script)], yard.rules()).code == 9
    both = yard.rules({"id": "unread", "deny": ["read", "write"], "path": f"{yard.denied}/**"})
    assert yard.box.run(["/bin/sh", str(script)], both).code != 9


# ---- only contested executes pay ----


def test_a_denial_that_landlock_can_hold_makes_no_call_wait_twice(yard):
    """The denied program lies where nothing can be made: the grants leave it out, and calls are continued."""
    rules = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{yard.box.stage.bin}/**"},
                             {"id": "tree", "allow": ["read", "execute"], "path": f"{yard.root}/**"},
                             {"id": "no", "deny": "execute", "path": f"{yard.denied}/**"})
    file = yard.box.rules_file(rules)
    shown = subprocess.run([str(yard.box.stage.callgate), "plan", "--json", "-R", str(file)], capture_output=True, text=True,
                           cwd=yard.box.tree, env=yard.box.environment(), check=True, **yard.box.user.popen_identity())
    assert json.loads(shown.stdout)["notify_only_execute"] is False
    assert words(yard.exec("fork", yard.denied / "seen", rules=rules)) == "errno EPERM"
    twin = yard.exec("fork", yard.allowed / "seen", rules=rules)
    assert words(twin) == "exit 7" and not twin.decisions(operation="execute"), twin.describe()
    contested = yard.box.rules_file(yard.rules())
    shown = subprocess.run([str(yard.box.stage.callgate), "plan", "-R", str(contested)], capture_output=True, text=True,
                           cwd=yard.box.tree, env=yard.box.environment(), check=True, **yard.box.user.popen_identity())
    assert "decided twice" in shown.stdout
