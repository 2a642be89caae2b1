"""`callgate request` and `callgate mcp`: a program of a run asks for access, and learns what the rules say."""
from __future__ import annotations

import json
from typing import Any

import pytest

import harness
from approvers import Asked


def rules(box: harness.Box, *more: dict[str, Any]) -> dict[str, Any]:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "self", "allow": ["read", "execute"], "path": str(box.callgate)}, *more)


def call(number: int, tool: str, **arguments: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def served(box: harness.Box, rule_set: dict[str, Any], *messages: Any) -> tuple[harness.Result, list[dict[str, Any]]]:
    """The answers of a server in a run, and the run."""
    lines = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in messages)
    result = box.run([str(box.callgate), "mcp"], rule_set, stdin=lines.encode())
    return result, [json.loads(line) for line in result.text.splitlines()]


def told(answer: dict[str, Any]) -> tuple[str, bool]:
    return answer["result"]["content"][0]["text"], answer["result"]["isError"]


def test_a_client_finds_three_tools(box):
    result, answers = served(box, rules(box),
                             {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
                             {"jsonrpc": "2.0", "method": "notifications/initialized"},
                             {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}, {"jsonrpc": "2.0", "id": 3, "method": "ping"},
                             "no json", {"jsonrpc": "2.0", "id": 4, "method": "nothing"}, call(5, "nothing"), call(6, "explain", operation="read"))
    assert result.code == 0 and len(answers) == 7, result.describe()
    first = answers[0]["result"]
    assert first["protocolVersion"] == "2025-03-26" and first["serverInfo"]["name"] == "callgate" and "request_access" in first["instructions"]
    assert [(one["name"], sorted(one["inputSchema"].get("required", []))) for one in answers[1]["result"]["tools"]] == [
        ("request_access", ["object", "operation", "reason"]), ("explain", ["object", "operation"]), ("denials", [])]
    assert answers[1]["id"] == "two" and answers[2]["result"] == {}, answers
    assert [(one["id"], one["error"]["code"]) for one in answers[3:]] == [(None, -32700), (4, -32601), (5, -32602), (6, -32602)]


def test_the_rules_are_explained_and_denials_listed(box):
    key = box.file(box.directory(box.home / ".ssh") / "id_ed25519", b"key")
    inside = box.file(box.tree / "notes", b"x")
    closed = {"id": "keys", "deny": "read", "path": f"{box.home}/.ssh/**", "reason": "private keys"}
    result, answers = served(box, rules(box, closed), call(1, "denials"), call(2, "explain", operation="read", object=str(key)),
                             call(3, "explain", operation="read", object=str(inside)),
                             call(4, "explain", operation="connect", object="192.0.2.1:443"), call(5, "explain", operation="read", object="no path"),
                             call(6, "request_access", operation="read", object=str(key), reason="to look"),
                             call(7, "request_access", operation="read", object=str(inside), reason="to look"), call(8, "denials"))
    assert [told(one) for one in answers[:4]] == [
        ("Nothing was refused.", False), (f"deny: read {key}\nrule: keys\nreason: private keys", False),
        (f"allow: read {inside}\nrule: tree", False), ("deny: connect 192.0.2.1:443", False)], result.describe()
    assert told(answers[4])[1], answers[4]
    text, failed = told(answers[5])
    assert failed and text.startswith(f"refused: read {key}: Permission denied\n") and "private keys" in text, text
    assert told(answers[6]) == (f"granted: read {inside}\n", False), answers[6]
    assert f'denied: read "{key}" by' in told(answers[7])[0], answers[7]


@pytest.mark.parametrize("verdict", ["allow", "deny"])
def test_the_person_is_asked_and_reads_the_reason(box, verdict):
    """The question is the usual one. What it says of the asking process holds the reason."""
    wanted = box.file(box.home / "data.csv", b"x")
    ask = {"id": "home", "ask": "read", "path": f"{box.home}/*"}
    run = Asked(box, [str(box.callgate), "mcp"], rules(box, ask))
    run.process.stdin.write(json.dumps(call(1, "request_access", operation="read", object=str(wanted), reason="the tests need it")).encode() + b"\n")
    run.process.stdin.close()
    question = run.executor.next("ask")
    assert question["process"]["argv"][1:4] == ["request", "--reason", "the tests need it"], question
    run.executor.decide(question, verdict)
    text, failed = told(json.loads(run.process.stdout.read()))
    run.process.stdout.close()
    run.process.stderr.close()
    assert run.process.wait(harness.DEADLINE) == 0
    run.executor.close()
    assert (text.startswith("granted: read") and not failed) if verdict == "allow" else (text.startswith("refused: read") and failed), text


def test_an_answer_to_a_request_is_for_every_program(box):
    """The twin: a program that only has such an argument asks for itself."""
    wanted, other = (box.file(box.home / name, name.encode() + b"\n") for name in ("wanted", "other"))
    ask = {"id": "home", "ask": "read", "path": f"{box.home}/*"}
    script = f'"$0" request read {wanted}; cat {wanted}; cat request {other} 2>/dev/null; head -n 1 {other} 2>/dev/null || echo refused'
    run = Asked(box, ["/bin/sh", "-c", script, str(box.callgate)], rules(box, ask))
    first = run.ask()
    assert first["any_program"] and run.decide(first, "allow", "object")["applied"], first
    for program, verdict in (("cat", "allow"), ("head", "deny")):
        question = run.ask()
        assert question["process"]["program"].endswith(f"/{program}") and "any_program" not in question, question
        run.decide(question, verdict, "object")
    assert run.end().text == f"granted: read {wanted}\nwanted\nother\nrefused\n"


def test_an_execution_is_asked_for_and_nothing_is_executed(box):
    tool = box.file(box.tree / "tool", b"#!/bin/sh\necho ran $1 | tee -a count\n", 0o755)
    run = Asked(box, ["/bin/sh", "-c", '"$0" request -- execute ./tool -x; ./tool -x; "$0" request execute /nonexistent-cg', str(box.callgate)],
                rules(box, {"id": "tool", "ask": "execute", "path": str(tool)}))
    question = run.ask()
    assert question["operation"] == "execute" and question["arguments"] == ["./tool", "-x"] and not (box.tree / "count").exists(), question
    run.decide(question, "allow", "object")
    result = run.end()
    assert result.text.splitlines()[:2] == ["granted: execute ./tool -x", "ran -x"], result.describe()
    assert "refused: execute /nonexistent-cg: " in result.text and (box.tree / "count").read_text() == "ran -x\n", result.describe()


def test_access_is_asked_for_from_a_shell(box):
    new = box.tree / "new"
    script = (f'"$0" request --reason x write {new} && test -e {new}; "$0" request read /nonexistent-cg; "$0" request chew {new}; echo $?; '
              '"$0" request connect [::1]:9; "$0" request connect 192.0.2.1:53/udp; echo $?')
    result = box.run(["/bin/sh", "-c", script, str(box.callgate)], rules(box))
    assert f"granted: write {new}\n" in result.text and "refused: read /nonexistent-cg: " in result.text, result.describe()
    assert result.text.count("125\n") == 2 and "expected read, write, execute or connect" in result.errors, result.describe()
    assert "refused: connect [::1]:9: " in result.text and 'connect "[::1]:9"' in result.text, result.describe()
    assert "request connect 192.0.2.1:53/udp: expected HOST:PORT" in result.errors, result.describe()


def test_a_request_that_the_default_refuses_says_why_and_is_in_the_footer(box):
    """The twin: another verb of callgate looks at the file, and nobody is told."""
    wanted = box.file(box.home / "wanted", b"x")
    script = f'"$0" check {wanted}; "$0" request --reason x read {wanted}'
    result = box.run(["/bin/sh", "-c", script, str(box.callgate)], options=["--ask", "never", "-x", str(box.callgate)])
    assert result.code == 1 and f"refused: read {wanted}: Permission denied\n[callgate] " in result.text, result.describe()
    assert f'denied: read "{wanted}" by "callgate" (default: no one to ask)' in result.text, result.describe()
    assert f"callgate:   read {wanted} ×1  default (no one to ask)  allow with: --read {wanted}\n" in result.errors, result.describe()
    assert len(result.decisions(verdict="deny")) == 2, result.describe()


def test_a_client_that_passes_no_variables_is_served(box):
    """Clients start servers with a few variables of their own."""
    closed = box.file(box.home / "closed", b"x")
    lines = "".join(json.dumps(one) + "\n" for one in (call(1, "request_access", operation="read", object=str(closed), reason="x"), call(2, "denials")))
    rule = {"id": "closed", "deny": "read", "path": str(closed)}
    result = box.run(["/usr/bin/env", "-i", str(box.callgate), "mcp"], rules(box, rule), stdin=lines.encode())
    answers = [told(json.loads(line)) for line in result.text.splitlines()]
    assert answers[0][1] and answers[0][0].startswith(f"refused: read {closed}: ") and f'denied: read "{closed}"' in answers[1][0], result.describe()


def test_a_message_that_is_too_long_is_refused_and_the_next_one_answered(box):
    long = call(1, "explain", operation="read", object="/" + "x" * (1 << 21))
    result, answers = served(box, rules(box), long, call(2, "denials"))
    assert [(one["id"], one.get("error", {}).get("message")) for one in answers] == [(None, "a message has at most 1 MiB"), (2, None)], \
        result.describe()


@pytest.mark.parametrize("verb", [["mcp"], ["request", "read", "/etc/hosts"]])
def test_outside_a_run_there_is_nobody_to_ask(box, verb):
    result = box.run([str(box.callgate), *verb], supervised=False, stdin=b"")
    assert result.code == 125 and "is for programs within a run" in result.errors, result.describe()
