"""Answers as evidence: a log with its grants, replayed, gives the same verdicts; one that was tampered with does not."""
from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness
from approvers import Asked, records
from test_approval import Room, room  # noqa: F401 (a fixture)

SCHEMA = json.loads((Path(__file__).parents[2] / "supervisor" / "audit" / "audit.schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(SCHEMA)
RECORDS = jsonschema.Draft202012Validator(SCHEMA)
Records = list[dict[str, Any]]


def replay(room: Room, rules: dict, log: Path) -> tuple[harness.Result, dict[str, Any]]:
    found = room.box.run([str(room.box.stage.callgate), "audit", "replay", "--json", "--rules", str(room.box.rules_file(rules)), str(log)],
                         supervised=False)
    assert found.code in (0, 1), found.describe()
    return found, json.loads(found.text)


class Answered:
    """A run that was answered once, for an object, a directory, a host, a program and an interpreter, with a grant that
    is taken back."""

    def __init__(self, room: Room) -> None:
        self.room = room
        box = room.box
        other, hostile, odd = (box.file(room.asked / name, b"content\n") for name in ("other", "x\x1b[2J\u202e", "odd \udcff"))  # no UTF-8
        box.file(box.directory(room.asked / "deep") / "file", b"deep\n")
        tools = box.directory(box.tree / "tools")
        program = box.file(tools / "program", Path(box.program("prog_word")).read_bytes(), 0o755)
        script = box.file(room.free / "script", f"#!{program}\n".encode(), 0o755)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.rules = room.rules({"id": "run", "ask": "execute", "path": f"{tools}/**"},
                                    {"id": "see", "allow": "read", "path": f"{tools}/**"},
                                    {"id": "net", "ask": "connect", "address": "127.0.0.1", "port": port})
            lines = [f"cat {room.file} {room.file}",  # once, then for this object
                     f"cat {room.file}", f"cat {shlex.quote(str(hostile))}", f"cat {other}",  # everything beneath
                     f"cat {room.asked}/deep/file {shlex.quote(str(odd))}",
                     f"echo x > {room.asked}/made; mv {room.asked}/made {room.asked}/moved; mv {room.asked}/moved {room.asked}/made",
                     f"(exec 3<>/dev/tcp/127.0.0.1/{port}); (exec 3<>/dev/tcp/127.0.0.1/{port})",
                     f"{program} one; {program} one", f"{script}; {script}",
                     "read go", f"cat {room.asked}/other; cat {room.asked}/deep/file", "read end"]
            run = Asked(box, ["/bin/bash", "-c", "\n".join(lines)], self.rules)
            run.decide(run.ask(), "allow")
            run.decide(run.ask(), "allow", "object")
            run.decide(run.ask(), "allow", "tree")  # x…
            for operation in ("create", "create", "create", "connect", "execute", "execute"):
                ask = run.ask()
                assert operation in ask["operations"], ask
                run.decide(ask, "allow", "object" if "object" in ask["scopes"] else "once")  # a move back is for once
            run.process.stdin.write(b"\n")
            run.process.stdin.flush()
            run.executor.send(type="grants")
            (tree,) = [one for one in run.executor.next("grants")["grants"] if one["scope"] == "tree"]
            run.executor.send(type="revoke", grant=tree["grant"])
            assert run.executor.next("ack")["applied"] is True
            run.process.stdin.write(b"\n")
            run.process.stdin.flush()
            for _ in range(2):  # asked again
                run.decide(run.ask(), "deny", "object")
            result = run.end(b"\n")
        assert result.code == 0, result.describe()
        self.records, self.result = result.audit, result
        self.log = run.log


@pytest.fixture
def answered(room) -> Answered:
    return Answered(room)


def test_a_question_of_a_party_is_the_one_that_was_answered(room):
    """The record of a question does not say which party asked."""
    for agent in ("/**/bash", "/**/cat"):  # what cat asks is of the tools, and of the agent
        rules = {**room.rules({"id": "login", "deny": "read", "path": f"{room.box.home}/login", "party": "tools"}), "agent": agent}
        run = Asked(room.box, ["/bin/bash", "-c", f"cat {room.file}; cat {room.file}; true"], rules)
        run.decide(run.ask(), "allow", "object")
        result = run.end()
        assert result.text == "asked content" * 2, result.describe()
        said, found = replay(room, rules, run.log)
        assert said.code == 0 and found["answered"] == 2 and found["contradicted"] == 0, said.describe()


def test_a_denial_of_all_questions_holds_until_it_is_taken_back(room):
    """An earlier grant stays; questions that wait are denied too."""
    other = room.box.file(room.asked / "other", b"other content")
    late = room.box.file(room.asked / "late")
    run = room.sh(f"cat {room.file} {other} {late}; cat {room.file}; cat {late} & cat {other}; wait; read go; cat {other}; read end; cat {other}")
    run.decide(run.ask(), "allow", "object")
    run.decide(run.ask(), "deny")
    refused = run.decide(ask := run.ask(), "allow", "run")
    assert refused["applied"] is False and ask["object"]["path"] == str(late)
    asked = {one["object"]["path"]: one for one in (run.ask(), run.ask())}
    assert set(asked) == {str(other), str(late)} and asked[str(other)]["again"] is True
    run.decide(asked[str(other)], "deny", "run")
    run.executor.send(type="grants")
    grants = run.executor.next("grants")["grants"]
    assert [(one["action"], one["scope"]) for one in grants] == [("allow", "object"), ("deny", "run")]
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    harness.until(lambda: run.log.read_text().count('"decided_by":"grant"') >= 2, "a grant denies")
    run.executor.send(type="revoke", grant=grants[1]["grant"])
    assert run.executor.next("ack")["applied"] is True
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    run.decide(run.ask(), "allow")
    result = run.end()
    assert result.text == "asked contentasked contentother content", result.describe()
    said, found = replay(room, room.rules(), run.log)
    assert said.code == 0 and found["contradicted"] == 0, said.describe()


def test_a_log_with_its_grants_gives_the_same_verdicts_when_it_is_replayed(answered):
    by = {kind: len(answered.result.decisions(decided_by=kind)) for kind in ("program", "grant")}
    assert by["program"] >= 11 and by["grant"] >= 6, answered.result.describe()
    assert len(records(answered.result, "grant.revoked")) == 1
    said, found = replay(answered.room, answered.rules, answered.log)
    assert said.code == 0 and found["contradictions"] == [] and found["changes"] == [], said.describe()
    assert found["answered"] == by["program"] + by["grant"]
    # Each part of an execution has its own record of what allowed it.
    parts = [one for one in answered.records if "interpreter_of" in one["callgate"]]
    assert [one["callgate"]["decided_by"] for one in parts] == ["program", "grant"], parts
    for one in answered.records:
        RECORDS.validate(one)


def test_other_rules_are_replayed_over_answers(answered):
    rules = dict(answered.rules)
    rules["rules"] = [dict(one) for one in rules["rules"]]
    (question,) = [one for one in rules["rules"] if one["id"] == "question"]
    question["deny"] = question.pop("ask")
    said, found = replay(answered.room, rules, answered.log)
    assert said.code == 1 and found["contradictions"] == [], said.describe()
    changed = {(one["was"], one["would_be"], one["rule"]) for one in found["changes"]}
    assert changed == {("allow", "deny", "question")}, said.describe()
    question["allow"] = question.pop("deny")  # and what was denied by an answer
    said, found = replay(answered.room, rules, answered.log)
    assert {(one["was"], one["would_be"]) for one in found["changes"]} == {("deny", "allow")}, said.describe()


def decision(all_records: Records, **wanted: str) -> dict[str, Any]:
    """The last one like this."""
    return [one for one in all_records if all(one["callgate"].get(name) == value for name, value in wanted.items())][-1]


def by_grant(all_records: Records) -> dict[str, Any]:
    return [one for one in all_records if one["callgate"].get("decided_by") == "grant" and one["event"]["action"] == "openat" and "object_b64" not in one["callgate"]][-1]


def cut(all_records: Records, action: str) -> None:
    all_records[:] = [one for one in all_records if one["event"]["action"] != action]


def of_another_object(all_records: Records) -> None:
    by_grant(all_records)["file"]["path"] = "/etc/passwd"


def of_another_program(all_records: Records) -> None:
    by_grant(all_records)["process"]["executable"] = "/usr/bin/tac"


def of_another_operation(all_records: Records) -> None:
    by_grant(all_records)["callgate"]["operations"] = ["read", "modify"]


def never_given(all_records: Records) -> None:
    by_grant(all_records)["callgate"]["grant"] = 77


def used_after_it_was_taken_back(all_records: Records) -> None:
    revoked = next(one for one in all_records if one["event"]["action"] == "grant.revoked")
    use = next(one for one in all_records if one["callgate"].get("decided_by") == "grant"
               and one["callgate"]["grant"] == revoked["callgate"]["grant"])
    all_records.remove(revoked)
    all_records.insert(all_records.index(use), revoked)


def answered_otherwise(all_records: Records) -> None:
    first = next(one for one in all_records if one["event"]["action"] == "prompt.answered")
    first["callgate"]["answer"] = "deny"


def never_asked(all_records: Records) -> None:
    cut(all_records, "prompt.shown")


def never_answered(all_records: Records) -> None:
    cut(all_records, "prompt.answered")


def allowed_once_and_used_twice(all_records: Records) -> None:
    once = next(one for one in all_records if one["callgate"].get("decided_by") == "program" and "verdict" in one["callgate"]
                and "grant" not in one["callgate"])
    again = json.loads(json.dumps(once))
    again["process"]["entity_id"] = "1@1"
    all_records.insert(all_records.index(once) + 1, again)


def another_than_was_asked(all_records: Records) -> None:
    once = next(one for one in all_records if one["callgate"].get("decided_by") == "program" and "verdict" in one["callgate"])
    once["file"]["path"] = "/etc/passwd"


def wider_than_was_shown(all_records: Records) -> None:
    tree = next(one for one in all_records if one["event"]["action"] == "prompt.answered" and one["callgate"]["scope"] == "tree")
    tree["callgate"]["object"] = "/"


def shown_otherwise(all_records: Records) -> None:
    shown = next(one for one in all_records if one["event"]["action"] == "prompt.shown")
    shown["file"]["path"] = "/etc/passwd"


TAMPERED: list[tuple[Callable[[Records], None], str]] = [
    (of_another_object, "which is for: "), (of_another_program, "which is for: "), (of_another_operation, "which is for: "),
    (never_given, "by grant 77, which was never given"), (used_after_it_was_taken_back, "which was taken back in record "),
    (answered_otherwise, "is no answer that question 1 got"), (never_asked, "no record says that question 1 was asked"),
    (never_answered, "is no answer that question 1 got"), (allowed_once_and_used_twice, "question 1 was not allowed so often"),
    (another_than_was_asked, "it is not what question 1 was about"), (wider_than_was_shown, "is of a directory that was not shown"),
    (shown_otherwise, "question 1 is not the one that its key is of"),
]


def test_what_the_log_itself_does_not_bear_out_is_named(answered):
    """The chain aside, which would tell of each of these too."""
    for tamper, why in TAMPERED:
        changed = json.loads(json.dumps(answered.records))
        tamper(changed)
        log = answered.room.box.file(answered.room.box.state / f"{tamper.__name__}.jsonl",
                                     "".join(json.dumps(one) + "\n" for one in changed).encode(), 0o600)
        said, found = replay(answered.room, answered.rules, log)
        assert said.code == 1 and any(why in one["why"] for one in found["contradictions"]), f"{tamper.__name__}\n{said.describe()}"
        (first, *_) = [one for one in found["contradictions"] if why in one["why"]]
        assert changed[first["line"] - 1]["event"]["sequence"] == first["sequence"] and first["file"] == str(log)
        text = answered.room.box.run([str(answered.room.box.stage.callgate), "audit", "replay", "--rules",
                                      str(answered.room.box.rules_file(answered.rules)), str(log)], supervised=False)
        assert text.code == 1 and f"{log}:{first['line']}: record {first['sequence']}: " in text.text, text.describe()
