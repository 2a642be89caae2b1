"""callgate.crewai: both tools, and a crew's agent with a scripted model."""
from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from callgate import CallgateError  # noqa: E402
from callgate.crewai import CallgateExecTool, CallgatePythonTool  # noqa: E402
from crewai import Agent, Crew, Task  # noqa: E402
from crewai.llms.base_llm import BaseLLM  # noqa: E402
from examples import run_examples  # noqa: E402
from hostile import Hostile  # noqa: E402
from questions import HINT, Questions, Seen, with_time  # noqa: E402
from scripted import Script  # noqa: E402


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        told = await CallgateExecTool()._arun(command, timeout=timeout)
        late = bool(told["error"] and "timed out" in told["error"])
        return Seen(None if late else told["exit_code"], told["stdout"] + told["stderr"] + told.get("hint", ""), late, told["stdout"])


class TestQuestionsOfThePythonTool(TestQuestions):
    async def ask(self, command, timeout=None):
        told = await CallgatePythonTool()._arun(command, language="bash", timeout=timeout)
        late = bool(told["error"] and "timed out" in told["error"])
        return Seen(None if late else told["exit_code"], told["stdout"] + told["stderr"] + told.get("hint", ""), late, told["stdout"])


def test_settings_are_each_tools_own(workdir, tmp_path):
    (tmp_path / "data").write_text("data")
    reader = CallgateExecTool(execution_backend="callgate", sandbox_fs_read=[str(tmp_path)], sandbox_max_memory_mb=500)
    assert reader.run(command=f"cat {tmp_path}/data")["stdout"] == "data"
    assert HINT in CallgateExecTool().run(command=f"cat {tmp_path}/data")["hint"]
    assert CallgateExecTool().run(command="echo $A; pwd", envs={"A": "b"}, cwd="/usr")["stdout"] == "b\n/usr\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:  # a model's variable opens no way to the host that it names
        port = listener.getsockname()[1]
        reach = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
        told = CallgateExecTool(profile="python+net").run(command=reach, envs={"PIP_INDEX_URL": f"http://127.0.0.1:{port}/"})
        assert told["exit_code"] == 1 and HINT in told["hint"]
    with pytest.raises(CallgateError, match="docker"):
        CallgateExecTool(execution_backend="docker")
    def late(seconds):
        told = CallgateExecTool(timeout=seconds).run(command="echo a; sleep 99", timeout=50)
        assert f"timed out after {seconds:g} seconds" in told["error"]
        return told["stdout"]
    assert with_time(late, bool, 0.5) == "a\n"


def test_python():
    tool = CallgatePythonTool()
    assert tool.run(code="print(6*7)") == {"exit_code": 0, "stdout": "42\n", "stderr": "", "error": None}
    assert tool.run(code="echo $((6*7))", language="bash")["stdout"] == "42\n"
    assert asyncio.run(tool._arun(code="print(1)"))["stdout"] == "1\n"


class Model(BaseLLM):
    script: object = None

    def __init__(self, script):
        super().__init__(model="scripted")
        object.__setattr__(self, "script", script)

    def call(self, messages, *_, **__):
        last = next(one["content"] for one in reversed(messages) if one["role"] != "user")
        command = self.script.next(self.seen(last))
        if command is None:
            return "Thought: I now know the final answer\nFinal Answer: done"
        return f"Thought: go on\nAction: supervised_shell\nAction Input: {json.dumps({'command': command})}"

    def seen(self, last):
        return last.partition("Observation:")[2].partition("\n\n")[0] if last.startswith("Thought:") else None

    def supports_function_calling(self):
        return False

    def supports_stop_words(self):
        return False


class Whole(Model):
    def seen(self, last):
        return last.partition("Observation:")[2] if last.startswith("Thought:") else None


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        tool = CallgateExecTool(workdir=workdir, timeout=timeout, **words)
        agent = Agent(role="coder", goal="g", backstory="b", llm=Whole(script), tools=[tool], cache=False, max_iter=200)
        task = Task(description="go", expected_output="done", agent=agent)
        assert Crew(agents=[agent], tasks=[task]).kickoff().raw == "done"


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    script = Script(tmp_path / "outside", workdir)
    agent = Agent(role="coder", goal="g", backstory="b", llm=Model(script), tools=[CallgateExecTool()], cache=False)
    task = Task(description="go", expected_output="done", agent=agent)
    assert Crew(agents=[agent], tasks=[task]).kickoff().raw == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "CrewAI") == 1
