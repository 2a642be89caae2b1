"""An agent that may read its login, and a tool that it starts, which may not (programs/prog_agent.c)."""
from __future__ import annotations

import dataclasses
import os
import re
import socket
import threading
from pathlib import Path
from typing import Any, Callable

import harness
from cases.case import ALLOWED, SECRET, Attack, Outcome, Scene, check, possible


class Agent:
    """The agent's login lies in the home; the tools may read and write the tree."""

    def __init__(self, box: harness.Box) -> None:
        self.box = box
        self.program = box.program("prog_agent")
        self.login = box.file(box.directory(box.home / ".agent") / "login", SECRET)
        self.allowed = box.file(box.tree / "allowed", ALLOWED)

    def rules(self, *more: dict[str, Any], parties: bool = True, by_denial: bool = False) -> dict[str, Any]:
        state = f"{self.login.parent}/**"
        own = ([{"id": "state", "allow": ["read", "write"], "path": state}, {"id": "login", "deny": ["read", "write"], "path": state, "party": "tools"}]
               if by_denial else [{"id": "state", "allow": ["read", "write"], "path": state, "party": "agent"}])
        if not parties:
            own = [{"id": "state", "allow": "read", "path": state}]
        agent: dict[str, Any] = {"agent": self.program} if parties else {}
        return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{self.box.stage.bin}/**"},
                                {"id": "tree", "allow": ["read", "write", "execute"], "path": f"{self.box.tree}/**"},
                                {"id": "memory", "allow": "modify", "path": ["/proc/*/{mem,oom_score_adj}", "/proc/*/task/*/mem"]}, *own, *more, **agent)

    def line(self, how: str, *command: str) -> list[str]:
        return [self.program, str(self.login), how, *command]

    def said(self, result: harness.Result) -> str:
        found = re.search(r"agent: (.*)", result.text)
        return found.group(1) if found else ""


@dataclasses.dataclass(frozen=True)
class Reach(Attack):
    """`attack_outside MODE` at the agent, by a tool. `closed`: to all tools, on their own children as well."""

    mode: str
    goal: str = "look"  # or "touch"
    number: str = "FD"
    closed: bool = False
    twin_mode: str = ""

    def attack(self, scene: Scene) -> list[str]:
        return [scene.box.program("attack_outside"), self.mode, "PID", "ADDRESS", self.number]

    def reached(self, agent: Agent, result: harness.Result) -> bool:
        if self.goal == "look":
            return SECRET in result.out
        quiet = rf"signals 0 memory 83 nice {os.nice(0)} limit (?!64 )\d+ oom 0 login read"  # 83: the secret's first byte
        return re.fullmatch(quiet, agent.said(result)) is None

    def control(self, scene: Scene) -> Outcome:
        agent = Agent(scene.box)
        result = possible(scene.bare(agent.line("child", *self.attack(scene)), env={"HIDDEN": SECRET.decode()}))
        return check({"the control did not reach its goal": not self.reached(agent, result)}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        agent = Agent(scene.box)
        result = scene.supervised(agent.line("child", *self.attack(scene)), agent.rules(), ["--env", "HIDDEN=" + SECRET.decode()])
        return check({"the agent was reached": self.reached(agent, result), "the agent may not read its login": "login read" not in agent.said(result)},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        agent = Agent(scene.box)
        own = [scene.box.program("attack_outside"), self.twin_mode or self.mode, "child", "0", self.number.replace("FD", "3")]
        result = scene.supervised(agent.line("child", *own), agent.rules(parties=not self.closed))
        return check({"the same on an own child does not work": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Variable(Attack):
    """A tool that looks for the agent's key in the environment that it inherits. Twin: for a variable that is not the agent's alone."""

    how: str
    command: Callable[[harness.Box, Agent, str], list[str]]  # the tool's command for the name of a variable
    ends: bool = False  # the agent itself executes, so it says nothing at the end

    def play(self, scene: Scene, supervised: bool, name: str = "CG_KEY") -> tuple[Agent, harness.Result]:
        agent = Agent(scene.box)
        line = agent.line(self.how, *self.command(scene.box, agent, name))
        variables = {"CG_KEY": SECRET.decode(), "CG_OPEN": ALLOWED.decode()}
        if not supervised:
            return agent, possible(scene.bare(line, env=variables))
        options = [word for one, value in variables.items() for word in ("--env", f"{one}={value}")]
        return agent, scene.supervised(line, {**agent.rules(), "environment": {"agent": "CG_KEY"}}, options)

    def control(self, scene: Scene) -> Outcome:
        _, result = self.play(scene, False)
        return check({"the control did not find the key": SECRET not in result.out}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        agent, result = self.play(scene, True)
        return check({"the key was found": SECRET in result.out, "the agent did not begin": not began(agent, result),
                      "the agent may not read its login": not self.ends and "login read" not in agent.said(result)}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        _, result = self.play(scene, True, "CG_OPEN")
        return check({"the other variable is not there": ALLOWED not in result.out}, "works", result.describe())


def began(agent: Agent, result: harness.Result) -> bool:
    """Whether the agent itself has read its login."""
    return any(one["file"]["path"] == str(agent.login) for one in result.decisions(party="agent", verdict="allow") if "file" in one)


Make = Callable[[harness.Box, Agent, Path], list[str]]  # the tool's command for a file


@dataclasses.dataclass(frozen=True)
class Read(Attack):
    """A tool that reads the login. Twin: the same way to an allowed file."""

    how: str
    command: Make
    by_denial: bool = False
    prepare: Callable[[harness.Box, Agent, Path], None] | None = None
    ends: bool = False  # the agent itself executes, so it says nothing at the end

    def play(self, scene: Scene, supervised: bool, twin: bool = False) -> tuple[Agent, harness.Result]:
        agent = Agent(scene.box)
        file = agent.allowed if twin else agent.login
        if self.prepare is not None:
            self.prepare(scene.box, agent, file)
        line = [agent.program, str(file) if twin else str(agent.login), self.how, *self.command(scene.box, agent, file)]
        result = scene.supervised(line, agent.rules(by_denial=self.by_denial)) if supervised else possible(scene.bare(line))
        return agent, result

    def control(self, scene: Scene) -> Outcome:
        _, result = self.play(scene, False)
        return check({"the control did not read the login": SECRET not in result.out}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        agent, result = self.play(scene, True)
        return check({"the login was read": SECRET in result.out,
                      "the agent may not read its login": not self.ends and "login read" not in agent.said(result),
                      "the agent did not begin": not began(agent, result)}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        _, result = self.play(scene, True, twin=True)
        return check({"an allowed file is not read": ALLOWED not in result.out}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Connect(Attack):
    """A tool that connects to the agent's model. Twin: to a port that the tools may connect to."""

    def play(self, scene: Scene, supervised: bool, twin: bool = False) -> tuple[bytes, harness.Result]:
        agent = Agent(scene.box)
        with socket.create_server(("127.0.0.1", 0)) as server:
            seen: list[bytes] = []

            def serve() -> None:
                peer, _ = server.accept()
                with peer:
                    seen.append(peer.recv(64))

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            port = server.getsockname()[1]
            code = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.send(b'came'); s.close()"
            rule = {"id": "model", "allow": "connect", "address": "127.0.0.1", "port": port, **({} if twin else {"party": "agent"})}
            line = agent.line("child", "/usr/bin/python3", "-c", code)
            result = scene.supervised(line, agent.rules(rule)) if supervised else scene.bare(line)
            if supervised and not twin:
                with socket.create_connection(("127.0.0.1", port)):
                    pass  # so that `serve` ends: it has seen nothing then
            thread.join(harness.DEADLINE)
        return b"".join(seen), result

    def control(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, False)
        return check({"the control did not connect": seen != b"came"}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, True)
        return check({"the model's server was reached": seen != b""}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, True, twin=True)
        return check({"an allowed server is not reached": seen != b"came"}, "works", result.describe())
