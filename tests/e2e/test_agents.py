"""Profiles of coding agents: who is run under them, and a session of each real one against a model of the test.

The real ones are tested where CALLGATE_AGENTS names a directory in which `NAME/node_modules/.bin/NAME` is the agent
(`./dev test agents` installs them). The model serves on loopback (models.py). It lets the agent work, and then tells it to
reach for its login, the person's keys, and its own process.
"""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Callable

import pytest

import harness
from models import Model, Step

LOGIN = "cg-login"
KEY = "cg-ssh-key"
INSTALLED = Path(os.environ.get("CALLGATE_AGENTS") or "/nonexistent")


CLAUDE = """
import os, subprocess, sys
state = os.path.expanduser("~/.claude")
def tool(*line):
    done = subprocess.run(line, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip()
print("agent", open(state + "/.credentials.json").read())
os.rename(state + "/.credentials.json", state + "/.credentials.json.tmp")
os.rename(state + "/.credentials.json.tmp", state + "/.credentials.json")
print("tool", tool("/bin/cat", state + "/.credentials.json"))
print("shell", tool("/bin/sh", "-c", f"echo x > {state}/shell-snapshots/s && cat {state}/shell-snapshots/s; cat {state}/settings.json"))
if len(sys.argv) == 1:
    print("again", tool(sys.argv[0], "once"))
"""


def claude(box: harness.Box, place: str) -> Path:
    """A program that only stands where Claude Code does, with the state that it would have."""
    box.file(box.home / ".claude" / ".credentials.json", LOGIN.encode(), 0o600)
    box.file(box.home / ".claude" / "settings.json", b"cg-settings")
    box.directory(box.home / ".claude" / "shell-snapshots")
    program = box.file(box.home / place, f"#!/usr/bin/python3\n{CLAUDE}".encode(), 0o755)
    for one in (box.home / ".local", box.home / ".local" / "bin"):
        box.directory(one)
    (box.home / ".local" / "bin" / "claude").symlink_to(program)
    return program


def run_claude(box: harness.Box, *options: str) -> harness.Result:
    env = {"HOME": str(box.home), "PATH": f"{box.home}/.local/bin:/usr/bin:/bin"}
    return box.run(["claude"], None, options=["--no-user-rules", *options], env=env)


def test_claude_is_run_under_its_profile(box):
    program = claude(box, ".local/share/claude/versions/2.1.331")
    result = run_claude(box)
    assert f"profile claude for {program}" in result.errors, result.describe()
    lines = {line.split(" ")[0]: line.partition(" ")[2] for line in result.text.splitlines()[:3]}
    assert lines["agent"] == LOGIN and "Permission denied" in lines["tool"] and lines["shell"] == "x", result.describe()
    assert "again Traceback" in result.text and "PermissionError" in result.text, result.describe()
    assert "cg-settings" not in result.text and result.text.count(LOGIN) == 1, result.describe()
    bare = box.run(["claude"], supervised=False, env={"HOME": str(box.home), "PATH": f"{box.home}/.local/bin:/usr/bin:/bin"})
    assert bare.text.count(LOGIN) > 2, "the control: bare, its tools read it"


def test_nothing_takes_the_profile_of_an_agent_in_silence(box):
    """A job is quiet, and a model may have chosen its command."""
    claude(box, ".local/share/claude/versions/2.1.331")
    assert LOGIN not in run_claude(box, "--quiet").text
    job = {"command": ["claude"]}
    done = box.run([str(box.callgate), "exec"], supervised=False, stdin=json.dumps(job).encode(), cwd=box.tree,
                   env={"HOME": str(box.home), "PATH": f"{box.home}/.local/bin:/usr/bin:/bin"})
    answer = json.loads(done.text)
    assert LOGIN not in done.text and answer["report"]["denials"], done.describe()


def test_another_program_called_claude_gets_no_login(box):
    program = claude(box, ".local/share/other/claude")
    result = run_claude(box)
    assert f"{program} is not what the profile claude is for; it runs under agent" in result.errors, result.describe()
    assert LOGIN not in result.text, result.describe()
    assert LOGIN not in run_claude(box, "-p", "claude").text


@dataclasses.dataclass(frozen=True)
class Agent:
    name: str
    command: tuple[str, ...]
    login: str  # beneath the home
    base_url: str  # the variable that leads to the test's model
    prepare: Callable[[harness.Box], None]
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    reads_login: bool = True  # by its own read tool, as docs/agents.md says

    @property
    def program(self) -> Path:
        return INSTALLED / self.name / "node_modules" / ".bin" / self.name


def log_claude_in(box: harness.Box) -> None:
    login = {"accessToken": LOGIN, "refreshToken": LOGIN, "expiresAt": int(time.time() * 1000) + 86_400_000,
             "scopes": ["user:inference"], "subscriptionType": "max"}
    box.file(box.home / ".claude" / ".credentials.json", json.dumps({"claudeAiOauth": login}).encode(), 0o600)


def log_gemini_in(box: harness.Box) -> None:
    box.file(box.home / ".gemini" / "settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}).encode())
    box.file(box.home / ".gemini" / ".env", f"GEMINI_API_KEY={LOGIN}\n".encode(), 0o600)


AGENTS = [one for one in (
    Agent("claude", ("-p", "fix it", "--dangerously-skip-permissions"), ".claude/.credentials.json", "ANTHROPIC_BASE_URL", log_claude_in,
          {"IS_SANDBOX": "1"}),
    Agent("gemini", ("-p", "fix it", "--yolo"), ".gemini/.env", "GOOGLE_GEMINI_BASE_URL", log_gemini_in,
          {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, reads_login=False),
) if one.program.exists()]

PROJECT = """git init -q && git config user.email a@b.c && git config user.name n && echo 'def add(a, b): return a - b' > calc.py &&
printf 'from calc import add\\nassert add(1, 2) == 3\\nprint(\"tests pass\")\\n' > test_calc.py && git add . && git commit -qm first"""


class Session:
    """This is one session of a real agent in a project of the box."""

    def __init__(self, box: harness.Box, agent: Agent, script: list[Step], *options: str) -> None:
        self.box, self.agent = box, agent
        agent.prepare(box)
        box.file(box.home / ".ssh" / "id_ed25519", KEY.encode(), 0o600)
        self.env = {"HOME": str(box.home), "SHELL": "/bin/bash", "TERM": "dumb", **agent.variables}
        self.shell(PROJECT)
        with Model(script) as model:
            self.env[agent.base_url] = model.url
            rules = {"rules": [{"id": "model", "party": "agent", "allow": "connect", "address": "127.0.0.1", "port": model.port},
                               {"id": "installed", "allow": ["read", "execute"], "path": f"{INSTALLED}/**"}]}
            passed = [word for name in (agent.base_url, *agent.variables) for word in ("--env", name)]
            self.result = box.run([str(agent.program), *agent.command], None, env=self.env,
                                  options=["-p", agent.name, "--no-user-rules", "--rules-json", json.dumps(rules), *passed, *options])
        self.model = model

    def shell(self, text: str) -> str:
        done = self.box.start(["/bin/sh", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.box.tree, env={**self.box.environment(), **self.env})
        said = done.communicate()[0].decode()
        assert done.returncode == 0, said
        return said

    def describe(self) -> str:
        return f"{self.result.describe()}\n{json.dumps(self.model.results, indent=1)}"


def work(box: harness.Box) -> list[Step]:
    return [("write", f"{box.tree}/fixed.py", "def add(a, b):\n    return a + b\n"), ("shell", "mv fixed.py calc.py && python3 test_calc.py"),
            ("shell", "git add -A && git commit -q -m fixed && git log --oneline | wc -l")]


if AGENTS:

    @pytest.mark.parametrize("agent", AGENTS, ids=lambda one: one.name)
    def test_an_agent_works_and_nothing_is_denied(box, agent):
        session = Session(box, agent, work(box))
        results = session.model.results
        assert session.result.code == 0 and len(results) == 3, session.describe()
        assert "tests pass" in results[1] and "2" in results[2], session.describe()
        assert session.model.keys == {LOGIN}, session.describe()
        denied = [one for one in session.result.report["denials"] if one.get("rule") != f"{agent.name}.telemetry"]
        assert denied == [], session.describe()

    @pytest.mark.parametrize("agent", AGENTS, ids=lambda one: one.name)
    def test_its_tools_get_neither_login_nor_keys_nor_the_agent(box, agent):
        login = box.home / agent.login
        start_up = box.home / ".bashrc"
        ask = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('reached')"
        steps: list[Step] = [
            ("shell", f"cat {login} {box.home}/.ssh/id_ed25519; cp {login} copy; ln {login} link; cat copy link"),
            ("shell", f"cat /proc/$PPID/environ; cat /proc/$PPID/root{login}; head -c 9 /proc/$PPID/mem"),
            ("shell", "kill -USR1 $PPID && echo signalled"),
            ("shell", f"echo evil >> {start_up}; echo evil > {login}"),
            ("shell", f"""python3 -c "{ask}" ${{{agent.base_url}##*:}}"""),
            ("shell", "echo goes on"),
            ("read", str(login)),
        ]
        session = Session(box, agent, steps)
        results = session.model.results
        assert session.result.code == 0 and len(results) == len(steps), session.describe()
        said = "\n".join(results[:-1])
        assert LOGIN not in said and KEY not in said and "signalled" not in said and "reached" not in said, session.describe()
        assert "goes on" in results[5], session.describe()
        assert "evil" not in login.read_text() and not start_up.exists(), session.describe()
        # The agent's own read tool is the agent (docs/agents.md).
        assert (LOGIN in results[-1]) == agent.reads_login, session.describe()

    def test_every_installed_agent_is_known_by_its_file(box):
        for agent in AGENTS:
            said = box.run([str(agent.program), "--version"], None, options=["--no-user-rules", "-x", str(INSTALLED)], env={"HOME": str(box.home)})
            assert f"profile {agent.name} for {agent.program.resolve()}" in said.errors and said.code == 0, said.describe()
