"""Reading logs: long ones, by process tree, over several runs at once, with anything in them. Rules from them are added to
an existing rule set."""
from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import harness
from harness import audit

RECORDS = 10_000_000 if harness.SOAK else 500_000
MOST_MEMORY = 100 << 20
LONG_LINE = 100_000_000 if harness.SOAK else 5_000_000


def contested(box: harness.Box, *rules: dict) -> dict:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "none", "deny": ["read", "write"], "path": "**/no-such-secret"}, *rules)


# --- long logs --------------------------------------------------------------------------------------------------------


def measured(line: list[str], memory: int) -> tuple[str, float]:
    """Standard output and seconds of a command that gets no more memory than that. (Its ru_maxrss would be what started
    it: getrusage(2) counts from before the exec.)"""
    start = time.monotonic()
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)))
    assert done.returncode == 0, (line, done.stdout[-500:], done.stderr[-500:])
    return done.stdout, time.monotonic() - start


def test_a_long_log_is_read_in_little_memory(stage):
    """Every verb that goes through all of it. What it takes is printed; jq reads one segment, for comparison."""
    maker = stage.bin / "callgate_make_log"
    directory = stage.root / "long"
    directory.mkdir(mode=0o700)
    try:
        log = subprocess.run([maker, directory, str(RECORDS)], capture_output=True, text=True, check=True).stdout.strip()
        size = sum(one.stat().st_size for one in directory.iterdir())
        assert size > RECORDS * 500
        callgate, lines = str(stage.callgate), [f"{RECORDS} records, {size >> 20} MiB"]
        denied = (RECORDS + 42) // 50
        for verb, expected in (("verify", "whole: "), ("summary", rf"^{denied} .* base.keys$"), ("summary --by object", "package-"),
                               ("show --object no-such-object", "")):
            out, seconds = measured([callgate, "audit", *verb.split(), log], MOST_MEMORY)
            assert re.search(expected, out, re.MULTILINE), out[:500]
            lines.append(f"{verb:28}{size / seconds / 1e6:8.0f} MB/s  {RECORDS / seconds / 1e6:6.2f} M records/s")
        if shutil.which("jq") and harness.SOAK:
            _, seconds = measured(["sh", "-c", f"jq -c . {log} > /dev/null"], resource.RLIM_INFINITY)
            lines.append(f"{'jq -c .':28}{Path(log).stat().st_size / seconds / 1e6:8.0f} MB/s")
        print("\n".join(lines))
        if tables := os.environ.get("CALLGATE_TABLES"):
            Path(tables).mkdir(exist_ok=True)
            Path(tables, "reading.audit_reading.txt").write_text("\n".join(["--- reading a log", *lines, ""]))
    finally:
        shutil.rmtree(directory)


# --- one process and what it started --------------------------------------------------------------------------------------


def test_a_tree_of_processes_is_what_it_started_and_nothing_else(box):
    # A process that is in no record itself cannot join others to the tree: the inner one reads something.
    box.file(box.tree / "file")
    inner = f"mkdir {box.tree}/in; (read x < {box.tree}/file; mkdir {box.tree}/deeper; mkdir {box.tree}/deepest)"
    result = box.run(["/bin/sh", "-c", f"mkdir {box.tree}/before; sh -c '{inner}; true' & wait; mkdir {box.tree}/after"], contested(box))
    log = result.report["audit"]["file"]
    made = {Path(one["file"]["path"]).name: one for one in result.decisions(operation="create")}
    assert set(made) == {"before", "in", "deeper", "deepest", "after"}, result.describe()
    inner_shell = made["in"]["process"]["parent"]["pid"]

    def shown(root: str) -> set[str]:
        said = audit(box, "show", "--json", "--tree", root, "--operation", "create", log)
        assert said.code == 0, said.describe()
        return {Path(json.loads(line)["file"]["path"]).name for line in said.text.splitlines()}

    assert shown(str(inner_shell)) == {"in", "deeper", "deepest"}
    assert shown(str(made["before"]["process"]["pid"])) == {"before"}
    assert shown(str(made["before"]["process"]["parent"]["pid"])) == set(made)
    entity = made["in"]["process"]["entity_id"]
    assert shown(entity) == {"in"} and shown(entity.partition("@")[0] + "@1") == set()
    assert audit(box, "show", "--tree", "x", log).code == 125


# --- several runs -----------------------------------------------------------------------------------------------------------


def test_tail_goes_on_over_all_runs_and_ends_with_the_last(box):
    """Two runs at once, a third that begins meanwhile, and one that was killed long ago and would never end."""
    rules = box.rules_file(contested(box))
    fifos = [box.root / f"go{number}" for number in range(3)]
    for fifo in fifos:
        os.mkfifo(fifo)
        box.own(fifo)

    def start(number: int) -> subprocess.Popen[bytes]:
        script = f"mkdir {box.tree}/began{number}; read x < {fifos[number]}; mkdir {box.tree}/ended{number}"
        line, _ = box.command(["/bin/sh", "-c", script], None, ["-R", str(rules), "-r", str(fifos[number])], audit=False)
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        harness.until(lambda: (box.tree / f"began{number}").exists(), "the run has begun")
        return process

    killed = start(2)
    killed.kill()
    killed.wait()
    harness.until(lambda: not harness.marked(f"HOME={box.home}"), "the killed run's tree is gone")
    (box.tree / "began2").rmdir()
    runs = [start(0), start(1)]
    tail = box.start([str(box.stage.callgate), "audit", "tail", "-f", "--operation", "create"], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen = harness.read_until(tail.stdout.fileno(), b"began1")
    runs.append(start(2))
    seen += harness.read_until(tail.stdout.fileno(), b"began2") if b"began2" not in seen else b""
    for number in (1, 2, 0):
        fifos[number].write_text("go\n")
        _, err = runs[number].communicate(timeout=harness.DEADLINE)
        assert runs[number].returncode == 0, err
        if f"ended{number}".encode() not in seen:
            seen += harness.read_until(tail.stdout.fileno(), f"ended{number}".encode())
    rest, err = tail.communicate(timeout=harness.DEADLINE)
    rows = [line for line in (seen + rest).decode().splitlines() if "began" in line or "ended" in line]
    assert tail.returncode == 0 and len(rows) == 6, (rows, err)
    names = {line.split()[0] for line in rows}
    assert len(names) == 3, rows
    for name in names:  # each row says which run it is of
        assert len({re.search(r"(began|ended)(\d)", line).group(2) for line in rows if line.startswith(name)}) == 1, rows  # type: ignore[union-attr]


@pytest.mark.parametrize("before", ["no directory", "an old run"])
def test_tail_waits_for_the_next_run(box, before):
    if before == "an old run":
        assert box.run(["/bin/true"], audit=False).code == 0
    tail = box.start([str(box.stage.callgate), "audit", "tail", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    watched = lambda: any("inotify wd:" in Path(f"/proc/{tail.pid}/fdinfo/{one}").read_text() for one in os.listdir(f"/proc/{tail.pid}/fdinfo"))
    harness.until(watched, "tail watches the directory")
    assert tail.poll() is None
    for number in range(2):
        assert box.run(["/bin/mkdir", str(box.tree / f"made{number}")], contested(box), audit=False).code == 0
        if number == 0:
            out, err = tail.communicate(timeout=harness.DEADLINE)
    assert tail.returncode == 0 and "made0" in out.decode() and "made1" not in out.decode(), (out, err)


# --- additions to a rule set ----------------------------------------------------------------------------------------------------


MINE = """// The rules of this project.
{
  "version": 1,
  "default": "deny",
  "rules": [
    // What any program needs.
    { "id": "system", "allow": ["read", "execute"], "path": ["/usr/**", "/bin/**", "/lib/**", "/lib64/**", "/etc/**", "/proc/**"] },
    { "id": "devices", "allow": ["read", "modify"], "path": "/dev/null" },
    { "id": "suggested-write-1", "allow": "read", "path": "${workdir}/input/**" }  // taken earlier
    /* the last comment */
  ]
}
"""


def test_suggest_adds_to_a_rule_set_and_changes_nothing_that_stands_there(box):
    box.replays.leave_out("the test changes the rules of its run")
    rules = box.rules_file(MINE)
    box.file(box.tree / "input" / "a", b"1")
    key = box.file(box.home / ".ssh" / "id_ed25519", b"private")
    other = box.directory(box.root / "elsewhere")
    script = f"cat {box.tree}/input/a; cat {key}; echo x > {box.tree}/made; mv {box.tree}/made {other}/moved"
    options = ["-R", str(rules), "--workdir", str(box.tree)]
    audited = box.run(["/bin/sh", "-c", script], options=[*options, "--mode", "audit"])
    assert audited.code == 0, audited.describe()
    log = audited.report["audit"]["file"]
    added = box.run([str(box.stage.callgate), "audit", "suggest", "--into", rules.name, log], supervised=False, cwd=rules.parent)
    assert added.code == 0, added.describe()
    after, before = rules.read_text().splitlines(), MINE.splitlines()
    # Only additions, in order: what stood there is still there, but for the comma behind the last rule.
    rest = iter(after)
    assert all(any(line in (one, one.replace(" }  // taken", " },  // taken")) for line in rest) for one in before), "\n".join(after)
    plus = [line for line in added.text.splitlines() if line.startswith("+ ")]
    assert [line[2:] for line in plus if line[2:].strip().startswith('{"id"')] == [line for line in after if line.strip().startswith('{"id"')]
    ids = re.findall(r'"id":\s*"([^"]+)"', rules.read_text())
    assert len(ids) == len(set(ids)) and ids[:3] == ["system", "devices", "suggested-write-1"], ids
    assert not any("input" in line for line in plus if '{"id"' in line), added.describe()  # allowed already
    assert len(plus) == 1 + sum('{"id"' in line for line in plus), added.describe()  # and the comma
    assert str(key) in added.text and str(key) not in rules.read_text()
    enforced = box.run(["/bin/sh", "-c", script.replace(f"cat {key}; ", "")], options=options)
    assert enforced.code == 0 and not enforced.report["denials"], enforced.describe()
    assert b"private" not in box.run(["/bin/cat", str(key)], options=options).out
    text = rules.read_text()
    again = audit(box, "suggest", "--into", str(rules), log)
    assert again.code == 0 and "nothing to add" in again.text and rules.read_text() == text, again.describe()
    broken = box.rules_file("{ not a rule set")
    bad = audit(box, "suggest", "--into", str(broken), log)
    assert bad.code == 125 and "nothing was changed" in bad.errors and broken.read_text() == "{ not a rule set", bad.describe()


# --- anything in them -----------------------------------------------------------------------------------------------------------


OTHERS = json.dumps({"@timestamp": "2026-11-20T10:11:12.123Z", "ecs": {"version": "8.11.0"}, "log.level": "info", "message": "GET /",
                     "event": {"kind": "event", "action": "http", "sequence": 5}, "service": {"name": "shop"}}).encode()
FUTURE = b'{"@timestamp":"2026-11-20T10:11:12.123456789Z","event":{"action":"openat","sequence":3},"callgate":{"schema":"2.0","verdict":"deny"}}'
BAD = {
    "garbage": (b"\x00\x01\x02 not a record \xff", "not JSON"),
    "truncated UTF-8": (b'{"@timestamp":"2026-11-20T10:11:12.123456789Z","file":{"path":"/caf\xc3"}}', "not JSON"),
    "half a record": (b'{"@timestamp":"2026-11-20T10:11:12.123456789Z","ecs":{"ver', "not JSON"),
    "a very long line": (b'{"a":"' + b"x" * LONG_LINE + b'"}', "longer than a record can be"),
    "deep nesting": (b"[" * 200_000, "not JSON"),
    "another schema": (FUTURE, "schema 2.0, which this version does not know"),
    "somebody else's ECS": (OTHERS, "not a record of callgate"),
    "an empty line": (b"", "not JSON"),
    "a number": (b"17", "not a record of callgate"),
}


@pytest.fixture(scope="module")
def good(stage, users) -> tuple[bytes, list[str]]:
    """A log's bytes, and the objects that its records of mkdir name."""
    box = stage.box(users["user"])
    try:
        names = [f"{box.tree}/{name}" for name in ("one", "two", "three")]
        result = box.run(["/bin/sh", "-c", "; ".join(f"mkdir {name}" for name in names)], contested(box))
        return Path(result.report["audit"]["file"]).read_bytes(), names
    finally:
        box.close()


@pytest.mark.parametrize("kind", BAD)
def test_a_line_that_is_no_record_is_said_with_its_number_and_the_rest_is_read(box, good, kind):
    text, names = good
    bad, why = BAD[kind]
    lines = text.split(b"\n")
    log = box.file(box.root / "log.jsonl", b"\n".join([*lines[:3], bad, *lines[3:]]), 0o600)
    rules = str(box.rules_file(harness.rule_set()))
    for verb in (["show"], ["show", "--json"], ["summary", "--by", "object"], ["tail", "-n", "1000"], ["suggest"], ["replay", "--rules", rules],
                 *(["export", "--format", form] for form in ("ecs", "ocsf", "otlp-json", "csv"))):
        said = audit(box, *verb, str(log))
        assert said.code == 1 and f"{log}:4: " in said.errors and len(said.errors) < 2000, f"{verb}\n{said.describe()}"
        assert why in said.errors or verb[0] == "replay" and "not a record of callgate" in said.errors, f"{verb}\n{said.describe()}"
        if verb[0] not in ("suggest", "replay"):
            assert all(name in said.text for name in names), f"{verb}\n{said.describe()}"
    verified = audit(box, "verify", str(log))
    assert verified.code == 1 or kind == "half a record" and verified.code == 2, verified.describe()
    assert f"{log}:4: " in verified.text or kind == "half a record", verified.describe()
    explained = box.run([str(box.stage.callgate), "explain", "--from-log", "2", str(log), "-R", rules], supervised=False)
    assert explained.code == 0 and "record 2 of run" in explained.text, explained.describe()


def test_a_path_that_no_call_can_name_is_no_suggestion(box, good):
    """Its components would take a stack frame each. The other records of the log are suggested."""
    lines = good[0].split(b"\n")
    record = json.loads(lines[1])
    record["callgate"] |= {"verdict": "deny", "decided_by": "default", "operation": "read", "operations": ["read"], "mechanism": "errno"}
    written = [lines[0]]
    for path in ("/srv/plain", "/d" * 400_000):
        record["file"] = {"path": path}
        written.append(json.dumps(record).encode())
    log = box.file(box.root / "deep.jsonl", b"\n".join(written) + b"\n", 0o600)
    out, _ = measured([str(box.stage.callgate), "audit", "suggest", str(log)], MOST_MEMORY)
    body, _, comments = out.partition("\n//")
    assert [rule["path"] for rule in json.loads(body)["rules"]] == [["/srv/plain"]] and "Left out: 1 more call" in comments, out


def test_a_file_of_somebody_else_is_said_to_be_one(box):
    log = box.file(box.root / "app.jsonl", b"\n".join([OTHERS] * 5000) + b"\n", 0o600)
    said = audit(box, "show", str(log))
    assert said.code == 1 and said.errors.count("not a record of callgate") == 100, said.errors[:500]
    assert "and 4900 more lines that are no records" in said.errors
    verified = audit(box, "verify", str(log))
    assert verified.code == 1 and "no line of it is a record of callgate" in verified.text, verified.describe()
    for path in (box.root, Path("/dev/zero"), box.root / "none"):
        missing = audit(box, "show", str(path))
        assert missing.code == 125 and str(path) in missing.errors, missing.describe()
