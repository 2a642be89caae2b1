"""callgate.minisweagent: the environment, by its dotted name too, and the default agent."""
from __future__ import annotations

import json

import pytest
from callgate.minisweagent import CallgateEnvironment
from examples import run_examples
from hostile import Hostile
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.exceptions import Submitted
from questions import Questions, Seen, with_time
from scripted import Script


class TestQuestions(Questions):
    asynchronous = False

    async def ask(self, command, timeout=None):
        told = CallgateEnvironment(cwd=str(self.workdir)).execute({"command": f"exec bash -c {quoted(command)}"}, timeout=timeout)
        late = told.get("extra", {}).get("exception_type") == "TimeoutExpired"
        return Seen(None if late else told["returncode"], told["output"], late)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def test_what_the_framework_asks_of_an_environment(workdir, monkeypatch):
    monkeypatch.setenv("CG_API_KEY", "the-secret")
    environment = get_environment({"environment_class": "callgate.minisweagent.CallgateEnvironment", "cwd": str(workdir),
                                   "env": {"A": "b"}, "timeout": 9, "memory": "500M"})
    told = environment.execute({"command": "echo $A; echo err >&2; exit 4"})
    assert told == {"output": "b\nerr\n", "returncode": 4, "exception_info": ""}
    told = with_time(lambda seconds: environment.execute({"command": "echo part; sleep 99"}, timeout=seconds), lambda told: told["output"])
    assert told["returncode"] == -1 and "timed out" in told["exception_info"] and told["output"] == "part\n"
    assert "the-secret" not in json.dumps(environment.get_template_vars(task="t")) and environment.get_template_vars()["system"] == "Linux"
    assert environment.serialize()["info"]["config"]["environment_type"] == "callgate.minisweagent.CallgateEnvironment"
    with pytest.raises(Submitted):
        environment.execute({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"})
    wrong = CallgateEnvironment(cwd=str(workdir), profile="nope").execute({"command": "true"})
    assert wrong["returncode"] == -1 and "unknown profile" in wrong["exception_info"]


class Model:
    """Gives the script's commands as actions."""

    def __init__(self, script):
        self.script, self.config, self.told = script, {}, None

    def query(self, messages, **_):
        command = self.script.next(self.told) or "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"
        return {"role": "assistant", "content": command, "extra": {"actions": [{"command": command}], "cost": 0.0}}

    def format_message(self, **more):
        return more

    def format_observation_messages(self, message, outputs, template_vars=None):
        self.told = f"<returncode>{outputs[0]['returncode']}</returncode>{outputs[0]['output']}{outputs[0]['exception_info']}"
        return [{"role": "user", "content": self.told}]

    def get_template_vars(self, **_):
        return {}

    def serialize(self):
        return {}


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        environment = CallgateEnvironment(cwd=str(workdir), timeout=int(timeout), **words)
        agent = DefaultAgent(Model(script), environment, system_template="s", instance_template="{{task}}")
        assert agent.run("go")["submission"].strip() == "done"


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    agent = DefaultAgent(Model(script), CallgateEnvironment(cwd=str(workdir)), system_template="s", instance_template="{{task}}")
    assert agent.run("go")["submission"].strip() == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "mini-swe-agent") == 1
