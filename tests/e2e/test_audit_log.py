"""The log as evidence: its chain, what verify says of it, what is left after a crash, and the way from it to rules."""
from __future__ import annotations

import dataclasses
import json
import shlex
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import harness
from harness import audit
from toolchains import PATIENCE, Place, Program, Server, cleaned, free_port, require, timed

KILLS = 250 if harness.SOAK else 13  # for each of the two users


def contested(box: harness.Box) -> dict:
    """Everything in the tree is decided and performed by the supervisor, and on record."""
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "none", "deny": ["read", "write"], "path": "**/no-such-secret"})


def log_of(result: harness.Result) -> Path:
    return Path(result.report["audit"]["file"])


def test_verify_tells_a_whole_log_from_one_that_was_changed_or_cut(box):
    result = box.run(["/bin/sh", "-c", f"for i in 1 2 3 4 5; do > {box.tree}/$i; done"], contested(box))
    log, head = log_of(result), result.report["audit"]["head"]
    assert head.startswith("sha256:") and len(head) == 71, result.describe()
    assert result.audit[-1]["integrity"]["hash"] == head.removeprefix("sha256:")
    whole = audit(box, "verify", "--head", head, str(log))
    assert whole.code == 0 and "whole" in whole.text and head in whole.text, whole.describe()
    lines = log.read_bytes().splitlines(keepends=True)

    def verdict(lines: list[bytes], *options: str) -> tuple[int, str]:
        log.write_bytes(b"".join(lines))
        found = audit(box, "verify", *options, str(log))
        return found.code, found.text

    changed = lines.copy()
    changed[3] = changed[3].replace(b'"verdict":"allow"', b'"verdict":"deny" ')
    assert changed != lines
    assert verdict(changed)[0] == 1 and "record 4 was changed" in verdict(changed)[1]
    assert "record 5 follows records that were removed" in verdict(lines[:3] + lines[4:])[1]
    code, text = verdict(lines[:-1])
    assert code == 2 and "without an end on record" in text
    assert verdict(lines[:-1], "--head", head)[0] == 1
    report = json.loads(audit(box, "verify", "--json", str(log)).text)
    assert report["result"] == "incomplete" and report["records"] == len(lines) - 1
    assert verdict(lines)[0] == 0
    assert audit(box, "verify", "--head", "nonsense", str(log)).code == 125


def test_a_signed_log_is_verified_by_its_key_which_the_run_cannot_read(box):
    require("openssl")
    secret, public, other = (box.tree / name for name in ("key.pem", "public.pem", "other.pem"))
    for command in (["genpkey", "-algorithm", "ed25519", "-out", str(secret)], ["pkey", "-in", str(secret), "-pubout", "-out", str(public)],
                    ["genpkey", "-algorithm", "ed25519", "-out", str(other)]):
        assert box.run(["/usr/bin/openssl", *command], supervised=False).code == 0
    result = box.run(["/bin/cat", str(secret), str(public)], contested(box), options=["--sign-key", str(secret)])
    assert b"PUBLIC" in result.out and b"PRIVATE" not in result.out, result.describe()
    log = str(log_of(result))
    assert audit(box, "verify", "--key", str(public), log).code == 0
    by_another = audit(box, "verify", "--key", str(other), log)
    assert by_another.code == 1 and "not signed by the key" in by_another.text
    bad = box.run(["/bin/true"], contested(box), options=["--sign-key", "/etc/hostname"])
    assert bad.code == 125 and "Ed25519" in bad.errors


def test_after_a_kill_at_any_moment_nothing_happened_that_is_not_on_record(box):
    """The supervisor is killed while its target makes files as fast as it can. Each file is on record, and the rest of the
    log is whole."""
    maker = "i=0; while :; do i=$((i+1)); > %s/$i; done"
    randomly = random.Random(box.user.uid)
    made_in_all = 0
    for kill in range(KILLS):
        place = box.directory(box.tree / f"kill{kill}")
        line, log = box.command(["/bin/sh", "-c", maker % place], contested(box))
        process = box.start(line)
        harness.until(lambda: any(place.iterdir()), "the first file")
        until = time.monotonic() + randomly.random() * 0.02
        while time.monotonic() < until:
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        harness.until(lambda: not harness.marked(f"HOME={box.home}"), "the tree is gone")
        made = {str(one) for one in place.iterdir()}
        recorded = {one["file"]["path"] for one in harness.read_log(log) if "file" in one}
        assert made <= recorded, sorted(made - recorded)
        found = audit(box, "verify", str(log))
        assert found.code == 2, found.describe()
        made_in_all += len(made)
    assert made_in_all > KILLS


def test_a_torn_log_goes_on_with_the_torn_line_set_aside(box):
    log = box.state / "one.jsonl"
    allowed = contested(box)

    def run() -> harness.Result:
        return box.run(["/bin/sh", "-c", f"> {box.tree}/file"], allowed, options=["--audit", str(log)], audit=False)

    assert run().code == 0
    whole = log.read_bytes()
    box.file(log, whole + b'{"@timestamp":"2026', 0o600)
    assert run().code == 0
    records = harness.read_log(log)
    assert any(one["event"]["action"] == "recovered" for one in records)
    assert Path(f"{log}.torn").read_bytes().endswith(b'{"@timestamp":"2026')
    found = audit(box, "verify", str(log))
    assert found.code == 0 and "2 runs" in found.text, found.describe()


def test_two_runs_never_share_a_file(box):
    log = box.state / "shared.jsonl"
    first, _ = box.command(["/bin/cat"], contested(box), ["--audit", str(log)], audit=False)
    process = box.start(first, stdin=subprocess.PIPE)
    harness.until(lambda: log.exists() and log.stat().st_size > 0, "the first run's log")
    second = box.run(["/bin/true"], contested(box), options=["--audit", str(log)], audit=False)
    process.communicate(b"")
    assert second.code == 125 and str(log) in second.errors, second.describe()
    assert audit(box, "verify", str(log)).code == 0


def test_prune_removes_the_logs_of_runs_that_are_long_over(box):
    for _ in range(3):
        assert box.run(["/bin/true"], contested(box), audit=False).code == 0
    logs = sorted((box.state / "callgate").glob("*.jsonl"))
    assert len(logs) == 3
    old = time.time() - 40 * 86400
    os.utime(logs[0], (old, old))
    kept = audit(box, "prune", "--keep", "50d")
    assert kept.code == 0 and "removed 0 logs" in kept.text and len(list((box.state / "callgate").glob("*.jsonl"))) == 3
    pruned = audit(box, "prune", "--keep", "30d")
    assert "removed 1 log " in pruned.text and not logs[0].exists() and logs[1].exists() and logs[2].exists(), pruned.describe()
    assert audit(box, "prune").code == 125 and audit(box, "prune", "--keep", "soon").code == 125


@dataclasses.dataclass(frozen=True)
class Case:
    """A program of the loop. A person allows some things by himself, since they are never proposed: `own`, places in the
    home's dot directories; `lists_home`, the names in the home. `server`: it gets the port of a server of the test's,
    `port`: a free one."""

    program: Program
    own: tuple[str, ...] = ()
    lists_home: bool = False
    server: bool = False
    port: bool = False

    def __str__(self) -> str:
        return self.program.name


LOOP = [
    Case(Program("git", ("git",))),
    Case(Program("make", ("gcc", "make", "ar"))),
    Case(Program("sqlite", ("sqlite3",))),
    Case(Program("tar", ("tar", "xz", "diff"))),
    Case(Program("curl", ("curl", "cmp")), server=True),
    Case(Program("redis", ("redis-server", "redis-cli", "redis-benchmark")), port=True),
]
if harness.SOAK:
    LOOP += [
        Case(Program("python", ("python3",))),
        Case(Program("pip", ("python3", "pip")), lists_home=True),
        Case(Program("cargo", ("cargo", "rustc")), own=(".cargo",)),
        Case(Program("cmake", ("cmake", "ctest", "ninja", "g++"))),
        Case(Program("npm", ("node", "npm")), own=(".npm",)),
        Case(Program("npm-test", ("node", "npm"), rewrites=((r"\b(duration_ms:?) [\d.]+", r"\1 TIME"),)), own=(".npm",)),
        Case(Program("unittest", ("/usr/bin/python3", "/usr/lib/python3/dist-packages/pytest"))),
        Case(Program("deb", ("dpkg-deb", "ar", "tar", "diff"))),
        Case(Program("rsync", ("rsync", "diff", "setfacl", "/usr/bin/python3"))),
        Case(Program("go", ("go",)), own=(".cache", "go", ".config")),
    ]


def another_action_is_denied(box: harness.Box, place: Place, rules: Path) -> None:
    key = box.file(box.home / ".ssh" / "id_ed25519", b"private")
    read = ["bash", "-c", f"echo $(<{key})"]  # by the program that ran before
    control = box.run(read, supervised=False)
    assert control.out == b"private\n", control.describe()
    other = box.run(read, options=["-R", str(rules)], cwd=place.work)
    assert b"private" not in other.out, other.describe()
    (denied,) = [one for one in other.report["denials"] if one["object"] == str(key)]
    assert denied["operation"] == "read", other.describe()


def loop(box: harness.Box, case: Case, arguments: Sequence[str]) -> None:
    """audit → suggest → check → enforce, from rules that allow nothing but what any program needs."""
    place, program = Place(box), case.program
    command = ["bash", "run.sh", *arguments]
    bare, _ = timed(place, program, command, supervised=False)
    assert bare.code == program.status, bare.describe()
    own = ["-r", str(box.home / ".gitconfig")]  # a dot file in home is never proposed
    own += [word for name in case.own for word in ("-w", str(box.home / name))]
    if case.lists_home:
        own += ["--rules-json", json.dumps({"version": 1, "rules": [{"id": "home", "allow": "read", "path": "~"}]})]
    audited, _ = timed(place, program, command, options=["-p", "base", *own, "--default", "deny", "--mode", "audit"],
                       timeout=PATIENCE)
    assert audited.code == bare.code and audited.report["counts"]["would_deny"] > 20, audited.describe()
    assert f"callgate audit suggest {log_of(audited)} > rules.json" in audited.errors
    suggested = audit(box, "suggest", str(log_of(audited)))
    assert suggested.code == 0, suggested.describe()
    rules = box.rules_file(suggested.text)
    checked = box.run([str(box.stage.callgate), "check", "--workdir", str(place.work), str(rules)], supervised=False)
    assert checked.code == 0, checked.describe() + suggested.text[:4000]
    enforced, _ = timed(place, program, command, options=["-R", str(rules), *own], timeout=PATIENCE)
    assert enforced.code == bare.code, enforced.describe()
    assert cleaned(enforced.out, *program.rewrites) == cleaned(bare.out, *program.rewrites), enforced.describe()
    assert enforced.report["denials"] == [], json.dumps(enforced.report["denials"], indent=1)
    another_action_is_denied(box, place, rules)


@pytest.mark.parametrize("case", LOOP, ids=str)
def test_what_an_audit_suggests_lets_the_same_program_run_and_nothing_else(box, case):
    require("bash", *case.program.needs)
    if case.server:
        with Server() as server:
            return loop(box, case, [str(server.port)])
    return loop(box, case, [str(free_port())] if case.port else [])


def test_secrets_and_private_places_are_not_proposed(box):
    secret = box.file(box.home / ".ssh" / "id_ed25519", b"private")
    dot = box.file(box.home / ".config" / "thing" / "settings", b"x")
    deep = box.file(box.home / ".tool" / "registry" / "index" / "a", b"x")
    top = box.file(box.home / ".tool" / "token", b"x")
    plain = box.file(box.home / "notes" / "a[1]*.txt", b"x")
    command = f"cat {secret} {dot} {deep} {top} '{plain}' > /dev/null; ls {box.home} > /dev/null; " \
        "python3 -c 'import socket; s = socket.socket(); s.setblocking(False); s.connect_ex((\"10.1.2.3\", 80))'"
    result = box.run(["/bin/sh", "-c", command], options=["--mode", "audit"])
    suggested = audit(box, "suggest", str(log_of(result)))
    rules = json.loads(suggested.text.partition("\n//")[0])
    patterns = [pattern for rule in rules["rules"] for pattern in rule.get("path", [])]
    assert any("a\\[1\\]\\*.txt" in pattern for pattern in patterns), suggested.text
    assert not any(".ssh" in one or ".config" in one or one in ("~", "~/**", "**", "/**") for one in patterns), patterns
    for_a_person = suggested.text.partition("\n//")[2]
    for pattern in ("~/.config/thing/**", "~/.tool/registry/**", "~/.tool/token"):
        (line,) = [one for one in for_a_person.splitlines() if f'"path":"{pattern}"' in one.replace(" ", "")]
        assert json.loads(line.removeprefix("//"))["allow"] == ["read"], line
    (denied,) = [one for one in for_a_person.splitlines() if f"read {secret} " in one]
    excepted = shlex.split(denied.partition("an exception would be ")[2])
    assert excepted[0] == "--except" and excepted[1].endswith(f"={secret}"), denied
    again = box.run(["/bin/cat", str(secret)], options=excepted + ["--read", str(secret)])
    assert again.text == "private", again.describe()
    for named in (str(secret), str(dot), "the home itself", "10.1.2.3:80 (seen 1 time): a private address"):
        assert named in for_a_person, suggested.text


def test_replay_finds_no_difference_under_the_same_rules_and_names_what_others_change(box):
    inside = box.file(box.tree / "file", b"1")
    same = contested(box)
    rules = box.rules_file(same)
    command = f"cat {inside} /etc/shadow > {box.tree}/new; mv {box.tree}/new {box.tree}/moved; chmod 600 {box.tree}/moved; rm {box.tree}/moved"
    for mode in ("enforce", "audit"):
        result = box.run(["/bin/sh", "-c", command], options=["-R", str(rules), "--mode", mode, "--record", "all"])
        assert len(result.decisions()) > 5, result.describe()
        again = audit(box, "replay", "--rules", str(rules), str(log_of(result)))
        assert again.code == 0 and " 0 verdicts would change" in again.text, again.describe()
        same_rules = dict(same, rules=[one for one in same["rules"] if one["id"] != "tree"])
        other = audit(box, "replay", "--json", "--rules", str(box.rules_file(same_rules)), str(log_of(result)))
        found = json.loads(other.text)
        assert other.code == 1 and found["changed"] >= 3, other.describe()
        assert {(one["was"], one["would_be"]) for one in found["changes"]} == {("allow", "deny")}
        assert any(one["object"] == str(inside) and one["operation"] == "read" for one in found["changes"])
    assert audit(box, "replay", str(log_of(result))).code == 125


def test_replay_follows_links_as_they_led_then(box):
    """In a rule's path and in an option's: turned since, they would allow another file, and no longer the one that was read."""
    for name in ("old", "new", "other"):
        box.file(box.root / name / "file", b"x")
    links = [box.root / "by-rule", box.root / "by-option"]
    for link in links:
        harness.as_user(box.user, lambda: link.symlink_to(box.root / "old"))
    rules = box.rules_file(harness.rule_set({"id": "linked", "allow": "read", "path": f"{links[0]}/**"},
                                            {"id": "contested", "deny": "read", "path": "**/no-such-secret"}))
    other = box.rules_file(harness.rule_set({"id": "contested", "deny": "read", "path": "**/no-such-secret"}))
    script = f"cat {box.root}/old/file; cat {box.root}/new/file"
    runs = [(["--rules", str(rules)], box.run(["/bin/sh", "-c", script], options=["-R", str(rules)])),
            (["--rules", str(other), "--read", str(links[1])], box.run(["/bin/sh", "-c", script], options=["-R", str(other), "-r", str(links[1])]))]
    for link in links:
        link.unlink()
        harness.as_user(box.user, lambda: link.symlink_to(box.root / "new"))
    for options, result in runs:
        assert result.out == b"x" and len(result.report["denials"]) == 1, result.describe()
        again = audit(box, "replay", "--json", *options, str(log_of(result)))
        found = json.loads(again.text)
        assert again.code == 0 and found["changed"] == 0 and found["same_rules"] and found["requests"] >= 2, again.describe()
        # A log that does not say where they led is judged by where they lead now.
        records = [json.loads(line) for line in log_of(result).read_text().splitlines()]
        assert any(one["target"] == str(box.root / "old") for one in records[0]["callgate"].pop("links"))
        older = box.file(box.state / "older.jsonl", "".join(json.dumps(one) + "\n" for one in records).encode(), 0o600)
        assert audit(box, "replay", *options, str(older)).code == 1
