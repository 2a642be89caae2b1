"""A file of each format, as version 0.1.0 wrote it, is read by the readers of today: a changed format fails here.

The files are in tests/testdata/formats. A run of `rules.json` left `log.jsonl`, `report.json` and `approval.txt`;
`callgate exec` gave `answer.json` for `job.json`. `commands.txt` has commands with their output. A change that fails here
also breaks the files of users. A new version of a format gets new files, and these stay. The folder 0.2.0 has what that version
added.
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

PROJECT = "/home/u/project"  # the work directory of the run on record
# Members whose values differ between runs and hosts. Their types are compared.
VARYING = {"run", "pid", "start", "program", "key", "deadline_ms", "age_ms", "allowed", "denied", "uid", "duration_ms", "cpu_ms",
           "max_rss_kb", "bytes_written", "notifications", "continued", "answered", "landlock_abi", "rules_sha256", "degraded", "file", "head",
           "@timestamp", "sequence", "duration", "entity_id", "executable", "inode", "device", "previous", "hash"}


def text(name: str) -> str:
    return (FORMATS / name).read_text()


def parsed(name: str) -> Any:
    return json.loads(text(name))


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


def on_record() -> list[dict[str, Any]]:
    return [json.loads(line) for line in text("log.jsonl").splitlines()]


def transcript() -> list[tuple[str, dict[str, Any]]]:
    """The lines of the approval transcript: `<` came from the run, `>` went to it."""
    return [(line[0], json.loads(line[2:])) for line in text("approval.txt").splitlines()]


@pytest.fixture
def project(box) -> harness.Box:
    """The project of the run on record, and the checked-in files beside it: other users cannot read the sources."""
    for name, content in {"notes": "hello\n", "private/a": "secret\n", "private/README": "readme\n"}.items():
        box.file(box.tree / name, content.encode())
    box.directory(box.tree / "out")
    for one in filter(Path.is_file, FORMATS.iterdir()):
        box.file(box.tree / one.name, one.read_bytes(), 0o600)
    return box


def answered(box: harness.Box, words: list[str]) -> str:
    """The output and the exit status of `callgate WORDS`, with the paths of the run on record."""
    done = box.run([str(box.callgate), *words], supervised=False)
    return (done.text + done.errors).replace(str(box.tree), PROJECT) + f"exit {done.code}\n"


def test_commands_read_rules_and_log_as_they_did(project):
    expected = re.split(r"^\$ callgate (.*)\n", text("commands.txt"), flags=re.MULTILINE)[1:]
    for words, output in zip(expected[::2], expected[1::2]):
        assert answered(project, words.split()) == output, words
    assert len(expected) == 2 * 15
    assert answered(project, ["audit", "show", "--json", "log.jsonl"]) == text("log.jsonl") + "exit 0\n"


def test_a_rule_file_is_good_and_holds_in_a_run(project):
    """The warnings of `check` follow the shipped profiles, so their words are not compared."""
    lines = answered(project, ["check", "rules.json"]).splitlines()
    assert re.fullmatch(r"rules\.json: good, 11 rules, \d+ warnings", lines[-2]) and lines[-1] == "exit 0", lines
    assert not [line for line in lines[:-2] if ": warning: " not in line], lines
    result = project.run(["/bin/sh", "-c", "echo $CI $LANG; ulimit -n; cat private/a"], text("rules.json"))
    (denied,) = result.report["denials"]
    assert result.text == "1 C.UTF-8\n1024\n" and result.report["limits"] == parsed("report.json")["limits"], result.describe()
    assert local(denied, project) == neutral(parsed("report.json")["denials"][0])


def test_rule_files_of_each_later_version_are_good(project):
    versions = sorted(one.name for one in FORMATS.iterdir() if one.is_dir())
    assert versions == ["0.2.0"]
    for version in versions:
        project.file(project.tree / "later.json", (FORMATS / version / "rules.json").read_bytes())
        lines = answered(project, ["check", "later.json"]).splitlines()
        assert re.fullmatch(r"later\.json: good, \d+ rules(, \d+ warnings?)?", lines[-2]) and lines[-1] == "exit 0", lines
        jsonschema.validate(json.loads((FORMATS / version / "rules.json").read_text()), json.loads((TOP / "rules/rules.schema.json").read_text()),
                            jsonschema.Draft202012Validator)


def test_records_and_report_are_as_their_schemas_say():
    records = on_record()
    for one in records:
        validate(one, "supervisor/audit/audit.schema.json")
    report = parsed("report.json")
    validate(report, "docs/report.schema.json")
    assert report["counts"] == records[-1]["callgate"]["counts"] and report["audit"]["records"] == len(records)
    assert report["run"] == records[-1]["callgate"]["run"] and report["outcome"] == records[-1]["callgate"]["outcome"]


def test_the_python_package_reads_the_denials_of_a_report():
    denials = [Denial.from_report(one) for one in parsed("report.json")["denials"]]
    first = denials[0]
    assert first == Denial("read", f"{PROJECT}/private/a", "private", "not for this task", "/usr/bin/cat", first.pid, "ENOENT", 1,
                           "") and first.pid > 0
    assert [(one.operation, one.object, one.rule, one.errno, one.count, one.option) for one in denials[1:]] == [
        ("read", f"{PROJECT}/out/x", "output", "EACCES", 2, ""), ("read", "/dev/tty", "default", "EACCES", 1, "--write /dev/tty"),
        ("connect", "127.0.0.1:81", "default", "ECONNREFUSED", 1, "--connect 127.0.0.1:81")]
    assert f"read {PROJECT}/private/a (not for this task); read {PROJECT}/out/x (look first);" in hint(denials)


def test_the_python_package_takes_questions_and_gives_the_answers_on_record():
    channel, questions, sent = Channel(), {}, 0
    try:
        for direction, message in transcript():
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


def test_a_run_has_the_conversation_on_record(project):
    """The answers on record are sent to a run of today. Its messages and the records of them are those on record."""
    run = Asked(project, parsed("report.json")["command"], text("rules.json"))
    keys: dict[str, str] = {}
    for number, (direction, message) in enumerate(transcript()):
        if direction == ">":
            if "key" in message:
                message["key"] = keys.get(message["key"], message["key"])
            run.executor.send_line(json.dumps(message).encode())
            continue
        came = run.executor.message() if number else run.executor.seen[0]
        validate(came, "docs/approval.schema.json")
        for added_since in ("again", "widest", "widest_b64", "read_and_write"):
            came.pop(added_since, None)
        assert local(came, project) == neutral(message)
        if "key" in message:
            keys[message["key"]] = came["key"]
    result = run.end()
    logs = [[one for one in log if re.match("prompt|grant", one["event"]["action"])] for log in (result.audit, on_record())]
    # The last record depends on what the stopped run sees first: its caller's death, or the end of the channel.
    assert local(logs[0][:8], project) == neutral(logs[1][:8]) and len(logs[1]) == 9
    assert result.code == 143 and result.text == "hello\nreadme\n", result.describe()


def test_a_job_gets_the_answer_on_record(project):
    job, expected = parsed("job.json"), parsed("answer.json")
    validate(job, "docs/exec.schema.json", "job")
    done = project.run([str(project.callgate), "exec"], supervised=False, stdin=text("job.json").encode())
    assert done.code == 0 and done.err == b"", done.describe()
    answer = json.loads(done.text)
    for one in (answer, expected):
        validate(one, "docs/exec.schema.json", "answer")
        harness.check_report(one["report"])
    expected["report"] |= {"refused": [], "quiet_denials": 0}  # added since
    added = {name: answer["report"]["environment"].pop(name) for name in ("not_passed", "exposed")}
    assert added["exposed"] == [], added
    assert local(answer, project) == neutral(expected)
