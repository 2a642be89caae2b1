"""A file of each format, as each release wrote it, is read by the readers of today: a changed format fails here.

The files are in tests/testdata/formats, those of 0.2.0 in a folder of that name. A run left `log.jsonl`, `report.json` and
`approval.txt`; its rules are `rules.json`, since 0.2.0 `run.json`. `callgate exec` gave `answer.json` for `job.json`.
`commands.txt` has commands with the output of that release. A change that fails here also breaks the files of users. A new
version of a format gets new files, and these stay. `0.2.0/rules.json` has what that version added to rule sets.
"""
from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness
from approvers import Asked

TOP = Path(__file__).parents[2]
FORMATS = TOP / "tests" / "testdata" / "formats"
sys.path.append(str(TOP / "python"))

from callgate.question import Answer, Channel, Question  # noqa: E402
from callgate.result import Denial, hint  # noqa: E402

RUN_RULES = {"0.1.0": "rules.json", "0.2.0": "run.json"}  # each release, and the rules of its run
CHANNEL_ADDED = {"0.1.0": {"again", "widest", "widest_b64", "read_and_write"}, "0.2.0": {"widest", "widest_b64", "read_and_write"}}
REPORT_ADDED = {"0.1.0": {"refused": [], "quiet_denials": 0}, "0.2.0": {"quiet_denials": 0}}
PROJECT = "/home/u/project"  # the work directory of the run on record
# Members whose values differ between runs and hosts. Their types are compared.
VARYING = {"run", "pid", "start", "program", "key", "deadline_ms", "age_ms", "allowed", "denied", "uid", "duration_ms", "cpu_ms",
           "max_rss_kb", "bytes_written", "notifications", "continued", "answered", "landlock_abi", "rules_sha256", "degraded", "file", "head",
           "@timestamp", "sequence", "duration", "entity_id", "executable", "inode", "device", "previous", "hash"}


class Release:
    """The files of one release."""

    def __init__(self, version: str) -> None:
        self.version, self.rules = version, RUN_RULES[version]
        self.place = FORMATS if version == "0.1.0" else FORMATS / version

    def text(self, name: str) -> str:
        return (self.place / name).read_text()

    def parsed(self, name: str) -> Any:
        return json.loads(self.text(name))

    def on_record(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text("log.jsonl").splitlines()]

    def transcript(self) -> list[tuple[str, dict[str, Any]]]:
        """The lines of the approval transcript: `<` came from the run, `>` went to it."""
        return [(line[0], json.loads(line[2:])) for line in self.text("approval.txt").splitlines()]


@pytest.fixture(params=RUN_RULES)
def release(request) -> Release:
    return Release(request.param)


def neutral(value: Any, name: str = "") -> Any:
    """Replaces each value of a varying member by the name of its type."""
    if name in VARYING:
        return type(value).__name__
    if isinstance(value, dict):
        return {key: neutral(one, key) for key, one in value.items()}
    return [neutral(one) for one in value] if isinstance(value, list) else value


def local(value: Any, box: harness.Box) -> Any:
    """The same for a value of a run of today, with the work directory of the run on record."""
    return json.loads(json.dumps(neutral(value)).replace(str(box.tree), PROJECT))


def validate(value: Any, schema: str, definition: str = "") -> None:
    """Fails for a value that the schema, or that definition of it, does not allow."""
    rules = json.loads((TOP / schema).read_text())
    if definition:
        rules = {"$defs": rules["$defs"], "$ref": f"#/$defs/{definition}"}
    jsonschema.validate(value, rules, jsonschema.Draft202012Validator)


@pytest.fixture
def project(box, release) -> harness.Box:
    """The project of the run on record, and the checked-in files beside it: other users cannot read the sources."""
    settings = "registry=https://packages.example.org/\n//packages.example.org/:_authToken=secret\n"
    for name, content in {"notes": "hello\n", "private/a": "secret\n", "private/README": "readme\n", "conf/.npmrc": settings}.items():
        box.file(box.tree / name, content.encode())
    box.directory(box.tree / "out")
    for one in filter(Path.is_file, release.place.iterdir()):
        box.file(box.tree / one.name, one.read_bytes(), 0o600)
    return box


def answered(box: harness.Box, words: list[str]) -> str:
    """The output and the exit status of `callgate WORDS`, with the paths of the run on record."""
    done = box.run([str(box.callgate), *words], supervised=False)
    return (done.text + done.errors).replace(str(box.tree), PROJECT) + f"exit {done.code}\n"


def test_commands_read_rules_and_log_as_they_did(project, release):
    expected = re.split(r"^\$ callgate (.*)\n", release.text("commands.txt"), flags=re.MULTILINE)[1:]
    for words, output in zip(expected[::2], expected[1::2]):
        assert answered(project, words.split()) == output, words
    assert len(expected) >= 2 * 15
    assert answered(project, ["audit", "show", "--json", "log.jsonl"]) == release.text("log.jsonl") + "exit 0\n"


def test_a_rule_file_is_good_and_holds_in_a_run(project, release):
    """The warnings of `check` follow the shipped profiles, so their words are not compared."""
    lines = answered(project, ["check", release.rules]).splitlines()
    assert re.fullmatch(rf"{release.rules}: good, \d+ rules, \d+ warnings", lines[-2]) and lines[-1] == "exit 0", lines
    assert not [line for line in lines[:-2] if ": warning: " not in line], lines
    result = project.run(["/bin/sh", "-c", "echo $CI $LANG; ulimit -n; cat private/a"], release.text(release.rules))
    (denied,) = result.report["denials"]
    assert result.text == "1 C.UTF-8\n1024\n" and result.report["limits"] == release.parsed("report.json")["limits"], result.describe()
    assert local(denied, project) == neutral(release.parsed("report.json")["denials"][0])


def test_rule_files_of_each_later_version_are_good(box):
    versions = sorted(one.name for one in FORMATS.iterdir() if one.is_dir())
    assert ["0.1.0", *versions] == list(RUN_RULES)
    for version in versions:
        rules = (FORMATS / version / "rules.json").read_bytes()
        box.file(box.tree / "later.json", rules)
        lines = answered(box, ["check", "later.json"]).splitlines()
        assert re.fullmatch(r"later\.json: good, \d+ rules(, \d+ warnings?)?", lines[-2]) and lines[-1] == "exit 0", lines
        jsonschema.validate(json.loads(rules), json.loads((TOP / "rules/rules.schema.json").read_text()), jsonschema.Draft202012Validator)


def test_records_and_report_are_as_their_schemas_say(release):
    records, report = release.on_record(), release.parsed("report.json")
    for one in records:
        validate(one, "supervisor/audit/audit.schema.json")
    assert records[0]["callgate"]["version"] == release.version
    validate(report, "docs/report.schema.json")
    assert report["counts"] == records[-1]["callgate"]["counts"] and report["audit"]["records"] == len(records)
    assert report["run"] == records[-1]["callgate"]["run"] and report["outcome"] == records[-1]["callgate"]["outcome"]


def test_the_python_package_reads_the_denials_of_a_report(release):
    denials = [Denial.from_report(one) for one in release.parsed("report.json")["denials"]]
    first = denials[0]
    assert first == Denial("read", f"{PROJECT}/private/a", "private", "not for this task", "/usr/bin/cat", first.pid, "ENOENT", 1,
                           "") and first.pid > 0
    connects = {"0.1.0": [("connect", "127.0.0.1:81", "default", "ECONNREFUSED", 1, "--connect 127.0.0.1:81")],
                "0.2.0": [("connect", "127.0.0.1:81", "own", "ECONNREFUSED", 1, ""), ("connect", "a.example.org", "default", "ENOENT", 1, "--connect a.example.org")]}
    assert [(one.operation, one.object, one.rule, one.errno, one.count, one.option) for one in denials[1:]] == [
        ("read", f"{PROJECT}/out/x", "output", "EACCES", 2, ""), ("read", "/dev/tty", "default", "EACCES", 1, "--write /dev/tty"),
        *connects[release.version]]
    assert f"read {PROJECT}/private/a (not for this task); read {PROJECT}/out/x (look first);" in hint(denials)


def test_the_python_package_takes_questions_and_gives_the_answers_on_record(release):
    channel, questions, sent = Channel(), {}, 0
    try:
        for direction, message in release.transcript():
            validate(message, "docs/approval.schema.json")
            if direction == "<":
                channel.theirs.sendall(json.dumps(message).encode() + b"\n")
                questions.update({one.id: one for one in channel.receive()[0]})
            elif message["type"] == "decision" and message["key"] == questions[message["id"]].key:
                channel.answer(questions[message["id"]], Answer(message["verdict"], message["scope"], message.get("reason", "")))
                assert json.loads(channel.theirs.recv(65536)) == message
                sent += 1
    finally:
        channel.close()
    second = questions[2]
    assert second == Question(2, second.key, "read", ("read",), f"{PROJECT}/out/x", "/usr/bin/cat", ("cat", "out/x"), second.pid,
                              "output", "look first", ("once", "object", "tree"), second.deadline_ms)
    assert sorted(questions) == [1, 2, 3, 4] and sent == 2 and second.pid > 0 and second.deadline_ms > 0


def test_a_run_has_the_conversation_on_record(project, release):
    """The answers on record are sent to a run of today. Its messages and the records of them are those on record."""
    run = Asked(project, release.parsed("report.json")["command"], release.text(release.rules))
    keys: dict[str, str] = {}
    for number, (direction, message) in enumerate(release.transcript()):
        if direction == ">":
            if "key" in message:
                message["key"] = keys.get(message["key"], message["key"])
            run.executor.send_line(json.dumps(message).encode())
            continue
        came = run.executor.message() if number else run.executor.seen[0]
        validate(came, "docs/approval.schema.json")
        for added_since in CHANNEL_ADDED[release.version]:
            came.pop(added_since, None)
        assert local(came, project) == neutral(message)
        if "key" in message:
            keys[message["key"]] = came["key"]
    result = run.end()
    logs = [[one for one in log if re.match("prompt|grant", one["event"]["action"])] for log in (result.audit, release.on_record())]
    # The last record depends on what the stopped run sees first: its caller's death, or the end of the channel.
    assert local(logs[0][:8], project) == neutral(logs[1][:8]) and len(logs[1]) == 9
    read = {"0.1.0": "", "0.2.0": "registry = https://packages.example.org/\n"}[release.version]
    assert result.code == 143 and result.text == "hello\nreadme\n" + read, result.describe()


def test_a_job_gets_the_answer_on_record(project, release):
    job, expected = release.parsed("job.json"), release.parsed("answer.json")
    validate(job, "docs/exec.schema.json", "job")
    done = project.run([str(project.callgate), "exec"], supervised=False, stdin=release.text("job.json").encode())
    assert done.code == 0 and done.err == b"", done.describe()
    answer = json.loads(done.text)
    for one in (answer, expected):
        validate(one, "docs/exec.schema.json", "answer")
        harness.check_report(one["report"])
        for varying in ("not_passed", "exposed", "agents_own"):  # since 0.2.0
            assert not one["report"]["environment"].pop(varying, []) or varying == "not_passed", one
    expected["report"] |= REPORT_ADDED[release.version]
    assert local(answer, project) == neutral(expected)
