"""callgate.inspect_ai: inspect's own check of sandboxes, the questions, and a task with a scripted model."""
from __future__ import annotations

import asyncio
import json

import pytest
from callgate import Sandbox
from callgate.inspect_ai import CallgateSandboxEnvironment
from examples import run_examples
from hostile import Hostile
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import OutputLimitExceededError
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from questions import Questions, Seen
from scripted import Script


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def sandbox_env(request):
    """Some checks write beneath /tmp, so this sandbox may; commands as another user are refused, as by the local sandbox."""
    if request.node.originalname == "test_exec_as_user":
        request.applymarker(pytest.mark.xfail(strict=True, reason="callgate runs commands as the user of the program"))
    made = CallgateSandboxEnvironment(Sandbox(write=["/tmp"]))
    yield made
    made.directory.cleanup()




for _name in [name for name in globals() if name.startswith("test_")]:
    globals()[_name] = pytest.mark.anyio(globals()[_name])


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        environment = CallgateSandboxEnvironment()
        environment.sandbox = environment.sandbox.with_options(workdir=self.workdir)
        try:
            result = await environment.exec(["bash", "-c", command], timeout=timeout)
        except TimeoutError as error:
            return Seen(None, error.truncated_output, True)
        return Seen(result.returncode, result.stdout + result.stderr, False, result.stdout)

    def environment(self):
        made = CallgateSandboxEnvironment()
        made.sandbox = made.sandbox.with_options(workdir=self.workdir)
        return made

    async def save(self, path, text):
        await self.environment().write_file(str(path), text)

    async def load(self, path):
        return await self.environment().read_file(str(path))


def test_a_rule_set_of_the_task(tmp_path):
    (tmp_path / "data").write_text("data")
    rules = tmp_path / "rules.json"
    allow = {"id": "d", "allow": "read", "path": str(tmp_path / "data")}
    rules.write_text(json.dumps({"version": 1, "extends": ["agent"], "rules": [allow]}))

    async def work():
        made = await CallgateSandboxEnvironment.sample_init("t", str(rules), {})
        told = await made["default"].exec(["cat", str(tmp_path / "data")])
        await CallgateSandboxEnvironment.sample_cleanup("t", None, made, False)
        return told.stdout
    assert asyncio.run(work()) == "data"


def test_a_fifo_is_not_waited_for():
    async def work():
        made = CallgateSandboxEnvironment()
        await made.exec(["sh", "-c", "mkfifo fifo; ln -s /dev/zero zero; echo x > file"])
        assert await made.read_file("file") == "x\n", "twin"
        for name in ("fifo", "zero"):
            with pytest.raises(OSError, match="no regular file"):
                await made.read_file(name)
            with pytest.raises(OSError, match="no regular file"):
                await made.write_file(name, "x")
        made.directory.cleanup()
    asyncio.run(work())


def test_an_error_for_long_output_is_short_and_tells_of_denials(workdir):
    made = CallgateSandboxEnvironment(Sandbox())
    command = "cat /etc/shadow; head -c {size} /dev/zero | tr '\\0' x; {then}"
    with pytest.raises(OutputLimitExceededError) as limited:
        asyncio.run(made.exec(["bash", "-c", command.format(size=20_000_000, then="exit 1")]))
    with pytest.raises(TimeoutError) as late:
        asyncio.run(made.exec(["bash", "-c", command.format(size=5_000_000, then="sleep 60")], timeout=2))
    made.directory.cleanup()
    for error in (limited.value, late.value):
        assert error.truncated_output.startswith("xxx") and len(error.truncated_output.encode()) <= 1 << 20
        assert "The sandbox policy denied: read /etc/shadow" in error.truncated_output[-1000:]


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.setattr("tiktoken.get_encoding", lambda _: Words())  # the real one is fetched over the network
    script = Script(tmp_path / "outside", workdir)
    monkeypatch.setattr(CallgateSandboxEnvironment, "__init__", in_workdir(workdir))

    def answer(messages, *_):
        last = messages[-1].text if messages[-1].role == "tool" else None
        command = script.next(last)
        if command is None:
            return ModelOutput.from_content("scripted", "done")
        return ModelOutput.for_tool_call("scripted", "bash", {"command": command})
    model = get_model("mockllm/model", custom_outputs=answer)
    task = Task(dataset=[Sample(input="go")], solver=[use_tools(bash(timeout=30)), generate()], sandbox="callgate")
    (log,) = eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    script.check()


class TestHostile(Hostile):
    kept = 10 << 20

    @pytest.fixture(autouse=True)
    def settings(self, monkeypatch, tmp_path):
        monkeypatch.setenv("INSPECT_DISPLAY", "none")
        monkeypatch.setattr("tiktoken.get_encoding", lambda _: Words())
        self.logs = str(tmp_path / "logs")

    def converse(self, script, workdir, timeout, **words):
        def answer(messages, *_):
            last = messages[-1]
            told = f"{last.error.message if last.error else ''}{last.text}" if last.role == "tool" else None
            command = script.next(told)
            if command is None:
                return ModelOutput.from_content("scripted", "done")
            return ModelOutput.for_tool_call("scripted", "bash", {"command": command})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CallgateSandboxEnvironment, "__init__", in_workdir(workdir, **words))
            task = Task(dataset=[Sample(input="go")], solver=[use_tools(bash(timeout=int(timeout))), generate()], sandbox="callgate")
            (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=answer), log_dir=self.logs, display="none")
        assert log.status == "success", log.error


class Words:
    def encode(self, text, **_):
        return text.split()


def in_workdir(workdir, **words):
    original = CallgateSandboxEnvironment.__init__

    def init(self, sandbox=None):
        original(self, sandbox)
        self.sandbox = self.sandbox.with_options(workdir=workdir, **words)
    return init


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "inspect-ai") == 1
