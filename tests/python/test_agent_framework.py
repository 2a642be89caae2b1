"""callgate.agent_framework: the shell executor, and an agent whose tool it is."""
from __future__ import annotations

import asyncio

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message
from agent_framework_tools.shell import LocalShellTool, ShellExecutor
from callgate import Sandbox
from callgate.agent_framework import CallgateShellExecutor
from examples import run_examples
from hostile import Hostile
from questions import Questions, Seen
from scripted import Script


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        async with CallgateShellExecutor(workdir=self.workdir) as executor:
            result = await executor.run(command, timeout=timeout)
        return Seen(None if result.timed_out else result.exit_code, result.stdout + result.stderr, result.timed_out, result.stdout)


def test_the_interface():
    executor = CallgateShellExecutor(approval_mode="never_require")
    assert all(hasattr(executor, name) for name in vars(ShellExecutor) if not name.startswith("_")) and callable(executor.as_function)
    made = executor.as_function()
    assert (made.name, made.kind) == ("run_shell", "shell")
    assert asyncio.run(CallgateShellExecutor(max_output_bytes=10).run("echo 0123456789abc")).truncated


def test_the_frameworks_own_shell_by_its_setting(workdir, tmp_path):
    async def work():
        shell = Sandbox(workdir=workdir).wrap(["bash"])
        async with LocalShellTool(shell=shell, mode="persistent", workdir=str(workdir), approval_mode="never_require",
                                  acknowledge_unsafe=True) as tool:
            await tool.run("x=7")
            return await tool.run(f"echo $x; echo y > {tmp_path}/no")
    result = asyncio.run(work())
    assert result.stdout.strip() == "7" and "Permission denied" in result.stderr + result.stdout and not (tmp_path / "no").exists()


class Client(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, script):
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages, stream, options, **_):
        async def respond():
            results = [one for one in messages[-1].contents if one.type == "function_result"]
            command = self.script.next(str(results[-1].result) if results else None)
            if command is None:
                return ChatResponse(messages=[Message("assistant", ["done"])])
            call = Content.from_function_call(f"call{len(self.script.read)}", "run_shell", arguments={"command": command})
            return ChatResponse(messages=[Message("assistant", [call])])
        return respond()


class TestHostile(Hostile):
    bound = 2 * 65536 + 200  # the framework's own, of each stream, and what it adds

    def converse(self, script, workdir, timeout, **words):
        tool = CallgateShellExecutor(workdir=workdir, timeout=timeout, approval_mode="never_require", **words).as_function()
        client = Client(script)
        client.function_invocation_configuration["max_iterations"] = 100
        assert asyncio.run(Agent(client=client, tools=[tool]).run("go")).text == "done"


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    tool = CallgateShellExecutor(approval_mode="never_require").as_function()
    assert asyncio.run(Agent(client=Client(script), tools=[tool]).run("go")).text == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "Microsoft Agent Framework") == 1


