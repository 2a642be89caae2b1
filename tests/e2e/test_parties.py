"""Rules that tell an agent from its tools: who is the agent, and what the log and `explain` say of it.

Attacks on the border between the two are in tests/attacks/cases/parties.py.
"""
from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
import nameworld
import test_names

LOGIN = "cg-login"
# Reads its login, then lets a tool try, then shows that it still may.
AGENT = """
import subprocess, sys
def read():
    try:
        return open(sys.argv[1]).read()
    except OSError as error:
        return error.strerror
print("agent", read(), flush=True)
tool = subprocess.run(["/bin/cat", sys.argv[1]], capture_output=True, text=True)
print("tool", tool.stdout or "refused", flush=True)
print("agent", read(), flush=True)
"""


class World:
    def __init__(self, box: harness.Box) -> None:
        self.box = box
        self.login = box.file(box.home / ".agent" / "login", LOGIN.encode())
        self.program = box.file(box.home / "apps" / "agent", f"#!/usr/bin/env python3\n{AGENT}".encode(), 0o755)

    def rules(self, *more: dict[str, Any], agent: str = "", **members: Any) -> dict[str, Any]:
        return harness.rule_set(
            {"id": "tree", "allow": ["read", "write", "execute"], "path": f"{self.box.tree}/**"},
            {"id": "apps", "allow": ["read", "execute"], "path": f"{self.box.home}/apps/**"},
            {"id": "python", "allow": ["read", "execute"], "path": f"{Path(sys.executable).resolve().parents[1]}/**"},
            {"id": "login", "allow": "read", "path": str(self.login), "party": "agent"}, *more, agent=agent or str(self.program), **members)

    def run(self, rules: dict[str, Any], program: Path | None = None, **more: Any) -> harness.Result:
        return self.box.run([str(program or self.program), str(self.login)], rules, **more)


@pytest.fixture
def world(box) -> World:
    return World(box)


def verdicts(result: harness.Result, path: Path) -> list[tuple[str, str]]:
    return [(one["callgate"]["party"], one["callgate"]["verdict"]) for one in result.decisions() if one.get("file", {}).get("path") == str(path)]


@pytest.mark.parametrize("line", ["/usr/bin/env python3", "/usr/bin/env -S python3 -B", "/usr/bin/python3"])
def test_a_script_is_the_agent_and_what_it_starts_is_not(world, line):
    world.program.write_text(f"#!{line}\n{AGENT}")
    result = world.run(world.rules())
    assert result.text.splitlines() == [f"agent {LOGIN}", "tool refused", f"agent {LOGIN}"], result.describe()
    assert verdicts(result, world.login) == [("agent", "allow"), ("tools", "deny"), ("agent", "allow")], result.audit
    assert "party" not in json.dumps(world.run(harness.rule_set(default="allow")).audit), "a run without such rules has no parties"


def test_a_program_that_only_bears_the_name_is_no_agent(world):
    other = world.box.file(world.box.home / "apps" / "other" / "agent", world.program.read_bytes(), 0o755)
    result = world.run(world.rules(), other)
    assert LOGIN not in result.text and {one for one, _ in verdicts(result, world.login)} == {"tools"}, result.describe()
    assert f"{other} is not the agent that these rules are for" in result.errors, result.describe()


def test_a_tool_may_look_whether_the_agent_lives(world):
    """Shells that an agent starts end what they run if it is gone (`kill -0`). Every other signal is refused."""
    world.program.write_text("#!/usr/bin/python3\nimport subprocess\nsubprocess.run(['/bin/sh', '-c', "
                             "'kill -0 $PPID && echo lives; kill -CONT $PPID || echo refused'])\n")
    result = world.run(world.rules())
    assert result.text == "lives\nrefused\n", result.describe()


def test_a_link_to_the_program_starts_the_agent(world):
    link = world.box.home / "apps" / "by-link"
    link.symlink_to(world.program)
    assert f"agent {LOGIN}" in world.run(world.rules(), link).text


def test_an_agent_that_its_tools_could_write_is_an_error(world):
    program = world.box.file(world.box.tree / "agent", world.program.read_bytes(), 0o755)
    result = world.run(world.rules(agent=str(program)), program)
    assert result.code == 125 and f"the agent {program} may be written in this run" in result.errors, result.describe()


def test_an_interpreter_that_the_tools_could_write_is_no_agent(world):
    """The first python3 on PATH lies in the work directory: whoever wrote it there does not get the login."""
    world.box.file(world.box.tree / "python3", b'#!/bin/sh\nread -r line < "$2"; echo "$line"\n', 0o755)
    path = f"{world.box.tree}:/usr/bin:/bin"
    bare = world.box.run([str(world.program), str(world.login)], supervised=False, env={"PATH": path})
    assert LOGIN in bare.text, bare.describe()
    result = world.run(world.rules(), env={"PATH": path})
    assert LOGIN not in result.text, result.describe()


def test_a_shell_that_starts_the_agent_makes_it_a_tool(world):
    for shell in ("exec", ""):
        result = world.box.run(["/bin/sh", "-c", f"{shell} {world.program} {world.login}"], world.rules())
        assert LOGIN not in result.text, result.describe()


def test_explain_and_plan_show_both_parties(world):
    rules = str(world.box.rules_file(world.rules()))
    callgate = str(world.box.callgate)
    said = world.box.run([callgate, "explain", "-R", rules, "read", str(world.login)], supervised=False)
    assert said.text.startswith("deny read") and "this is for the tools; for the agent: allow by login" in said.text, said.describe()
    answer = json.loads(world.box.run([callgate, "explain", "--json", "-R", rules, "read", str(world.login)], supervised=False).text)
    assert answer["party"] == "tools" and answer["other_party"]["verdict"] == "allow" and answer["other_party"]["rule"]["id"] == "login", answer
    assert ("login", "party") in [(one["rule"]["id"], one["misses_by"]) for one in answer["near"]], answer
    plan = world.box.run([callgate, "plan", "-R", rules], supervised=False)
    assert "party agent" in plan.text and "callgate-parties" in plan.text, plan.describe()


KEYS = """
import os, subprocess, sys
if len(sys.argv) > 1:
    os.environ["LOADED_KEY"] = sys.argv[1]
print("agent", os.environ.get("OWN_KEY"), flush=True)
for line in (["/bin/sh", "-c", "echo tool $OWN_KEY$LOADED_KEY; echo other $OWN_KEYS; OWN_KEY=mine sh -c 'echo own $OWN_KEY'"], ["/usr/bin/env"]):
    done = subprocess.run(line, capture_output=True, text=True)
    print(done.stdout, done.stderr, flush=True)
"""


def test_a_variable_of_the_agent_alone_reaches_nothing_that_it_executes(world):
    """It is passed without an option. What a tool sets itself stays, and so do variables that only begin alike."""
    world.program.write_text(f"#!/usr/bin/python3\n{KEYS}")
    held = {"OWN_KEY": "cg-key", "OWN_KEYS": "others", "MORE_KEY": "cg-more"}
    rules = world.rules(environment={"agent": ["OWN_KEY", "LOADED_KEY"], "pass": "OWN_KEYS"})
    bare = world.box.run([str(world.program), "cg-loaded"], supervised=False, env=held)
    assert "tool cg-keycg-loaded" in bare.text and "OWN_KEY=cg-key" in bare.text, bare.describe()
    result = world.box.run([str(world.program), "cg-loaded"], rules, env=held, options=["-v"])
    lines = result.text.splitlines()
    assert lines[:4] == ["agent cg-key", "tool", "other others", "own mine"], result.describe()
    assert not re.search("cg-key|cg-loaded|^OWN_KEY=", result.text.partition("own mine")[2], re.M) and "OWN_KEYS=others" in lines, result.describe()
    assert "OWN_KEY: the agent has it, and what it executes does not" in result.errors, result.describe()
    environment = result.report["environment"]
    assert environment["agents_own"] == ["OWN_KEY"] and environment["held_back"] == ["MORE_KEY"], environment
    withheld = [(one["file"]["path"], one["callgate"]["reason"]) for one in result.decisions(verdict="allow") if "as only the agent has it" in (one["callgate"]["reason"] or "")]
    assert {reason for _, reason in withheld} == {"not passed on, as only the agent has it: OWN_KEY, LOADED_KEY"} and len(withheld) == 2, withheld
    other = world.box.run(["/usr/bin/env"], rules, env=held)
    assert "OWN_KEY=" not in other.text and other.report["environment"]["agents_own"] == [], other.describe()


# A tool that is written in the agent's language: it gives what it executes a key of its own, and a server's socket.
SAME_LANGUAGE = """
import os, socket, subprocess, sys
os.environ["OWN_KEY"] = "for the test"
server = socket.create_server(("127.0.0.1", 0))
look = "import os, socket, sys; print(os.environ.get('OWN_KEY'), socket.socket(fileno=int(sys.argv[1])).getsockname()[1])"
line = [sys.executable, "-c", look, str(server.fileno())]
try:
    done = subprocess.run(line, pass_fds=[server.fileno()], capture_output=True, text=True)
    print(done.stdout.strip() == f"for the test {server.getsockname()[1]}", done.stderr, flush=True)
except OSError as error:
    print(False, error, flush=True)
"""


def test_a_tool_in_the_agents_language_is_no_agent(world):
    """The agent's child, which has executed nothing, is held: it gives on neither its key nor a socket. What runs the same interpreter is not."""
    tool = world.box.file(world.box.tree / "tool.py", SAME_LANGUAGE.encode())
    world.program.write_text(f"#!/usr/bin/python3\n{SAME_LANGUAGE}\nsubprocess.run([sys.executable, {str(tool)!r}])\n")
    own = {"id": "own", "allow": ["connect", "bind"], "address": "127.0.0.1", "server": "run"}
    result = world.box.run([str(world.program)], world.rules(own, environment={"agent": "OWN_KEY"}), env={"OWN_KEY": "cg-key"})
    lines = result.text.splitlines()
    assert lines[0].startswith("False") and lines[-1].startswith("True"), result.describe()
    assert "the agent's descriptor" in result.errors, result.describe()


def test_plan_and_explain_show_variables_of_the_agent_alone(world):
    rules = str(world.box.rules_file(world.rules(environment={"agent": "OWN_KEY"})))
    callgate = str(world.box.callgate)
    plan = world.box.run([callgate, "plan", "-R", rules], supervised=False)
    assert "Variables that the agent has, and nothing that it executes:\n  OWN_KEY\n" in plan.text, plan.describe()
    assert json.loads(world.box.run([callgate, "plan", "--json", "-R", rules], supervised=False).text)["agents_own"] == ["OWN_KEY"]
    said = world.box.run([callgate, "explain", "-R", rules, "execute", "/usr/bin/env"], supervised=False)
    assert "what the agent executes does not get OWN_KEY" in said.text, said.describe()
    alone = world.box.run([callgate, "check", str(world.box.rules_file(harness.rule_set(environment={"agent": "OWN_KEY"})))], supervised=False)
    assert alone.code != 0 and 'OWN_KEY is for the agent alone, but no rule has "party"' in alone.text + alone.errors, alone.describe()


def test_a_word_that_is_no_party_is_an_error(world):
    rules = str(world.box.rules_file(world.rules({"id": "x", "allow": "read", "path": "/x", "party": "tool"})))
    said = world.box.run([str(world.box.callgate), "check", rules], supervised=False)
    assert said.code != 0 and 'unknown party "tool": did you mean "tools"?' in said.text + said.errors, said.describe()


def test_a_list_of_processes_has_no_line_and_a_look_at_the_agent_has_one(world):
    """ps looks at the environment of each process. Both are denied and on record."""
    world.program.write_text("#!/usr/bin/python3\nimport os, subprocess\nos.environ['HELD'] = 'x'\nfor line in (['/usr/bin/ps', 'axeww'], "
                             "['/bin/cat', f'/proc/{os.getpid()}/environ']): subprocess.run(line, stdout=subprocess.DEVNULL)\n")
    proc = {"id": "processes", "allow": "read", "path": "/proc/**"}
    result = world.run(world.rules(proc))
    denied = {one["process"]["executable"].rpartition("/")[2] for one in result.decisions(verdict="deny") if one["file"]["path"].endswith("/environ")}
    assert denied == {"ps", "cat"}, result.describe()
    assert {one["program"] for one in result.report["denials"]} == {"/usr/bin/cat"} and result.report["quiet_denials"] > 0, result.describe()


def test_suggested_rules_are_for_the_party_that_needs_them(world):
    """The agent needs one file, and its tool another one too. Examples speak of tools."""
    data = world.box.file(world.box.home / "data.csv", b"x")
    seen = world.run(world.rules(default="deny"), stdin=b"")
    assert seen.text.splitlines() == [f"agent {LOGIN}", "tool refused", f"agent {LOGIN}"], seen.describe()
    both = world.box.run([str(world.program), str(data)], world.rules(default="deny"))
    for result, parties in ((seen, ["tools"]), (both, ["agent", "tools"])):
        text = harness.audit(world.box, "suggest", str(result.report["audit"]["file"])).text
        wanted = "login" if result is seen else "data.csv"
        assert sorted(re.findall(r'"party": ?"(\w+)"[^\n]*' + wanted, text)) == parties, text
        assert f'"read ~/{wanted}"' not in text or "tools" in parties, text


# The agent has a socket for its own look-ups. A tool asks from that address, then by itself.
ASKS = """
import socket, subprocess, sys
def query(name):
    return b"\\0\\7\\1\\0\\0\\1" + bytes(6) + b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\\0\\0\\1\\0\\1"
def ask(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(20)
        one.sendto(query(name), ("127.0.0.1", 53))
        assert one.recv(512)
if sys.argv[1] != "tool":
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    ask("agent.files.example.net")
    subprocess.run(["/usr/bin/python3", __file__, "tool", str(own.getsockname()[1])], check=True)
else:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.2", int(sys.argv[2])))
        other.sendmsg([query("sent.files.example.net")], [(socket.IPPROTO_IP, 8, bytes(4) + socket.inet_aton("127.0.0.1") + bytes(4))],
                      0, ("127.0.0.1", 53))
    ask("tool.files.example.net")
"""


@pytest.fixture(scope="module")
def names():
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    made = nameworld.World(room=True)
    yield made
    made.close()


def test_a_tool_looks_no_name_up_as_the_agent(names, box, world):
    test_names.enter(box, names)
    world.program.write_text(f"#!/usr/bin/python3\n{ASKS}")
    host = {"id": "model", "allow": "connect", "host": "*.files.example.net"}
    for only in ({"party": "agent"}, {}):
        result = world.run(world.rules({**host, **only}))
        assert names.names() == {"agent.files.example.net"} | (set() if only else {"tool.files.example.net", "sent.files.example.net"}), result.describe()
        looked = [(one["callgate"]["party"], one["callgate"]["verdict"]) for one in result.decisions() if one["event"]["action"] == "lookup"]
        assert sorted(looked) == [("agent", "allow"), *[("tools", "deny" if only else "allow")] * 2], result.describe()
        names.seen()
