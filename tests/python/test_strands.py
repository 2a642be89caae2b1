"""callgate.strands: the sandbox with its stream, and an agent."""
from __future__ import annotations

import asyncio

import pytest
from callgate.strands import CallgateSandbox
from examples import run_examples
from hostile import Hostile
from questions import Questions, Seen
from scripted import Script
from strands import Agent, tool
from strands.models import Model
from strands.sandbox.types import StreamChunk


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        try:
            result = await CallgateSandbox(self.workdir).execute(command, timeout=timeout)
        except TimeoutError as error:
            return Seen(None, error.result.stdout + error.result.stderr, True)
        return Seen(result.exit_code, result.stdout + result.stderr, False, result.stdout)

    async def save(self, path, text):
        await CallgateSandbox(self.workdir).write_file(str(path), text.encode())

    async def load(self, path):
        return await CallgateSandbox(self.workdir).read_file(str(path))


def test_pieces_come_as_they_are_written(workdir):
    async def work():
        pieces = []
        async for piece in CallgateSandbox(workdir).execute_streaming("echo a; until [ -e go ]; do sleep 0.02; done; echo b >&2"):
            if isinstance(piece, StreamChunk):
                pieces.append((piece.stream_type, piece.data))
                (workdir / "go").touch()
        return pieces, piece.exit_code
    assert asyncio.run(work()) == ([("stdout", "a\n"), ("stderr", "b\n")], 0)


def test_code_and_files(workdir, tmp_path):
    async def work():
        sandbox = CallgateSandbox(workdir)
        assert (await sandbox.execute_code("print(6*7)", "python3")).stdout == "42\n"
        await sandbox.write_file(f"{workdir}/d/x", b"\x00y")
        assert await sandbox.read_file(f"{workdir}/d/x") == b"\x00y"
        assert [one.name for one in await sandbox.list_files(str(workdir / "d"))] == ["x"]
        await sandbox.remove_file(f"{workdir}/d/x")
        with pytest.raises(OSError, match="policy denied"):
            await sandbox.write_file(f"{tmp_path}/no", b"x")
    asyncio.run(work())
    assert not (tmp_path / "no").exists()


class Scripted(Model):
    def __init__(self, script):
        self.script = script

    def update_config(self, **_): ...
    def get_config(self): return {}
    async def structured_output(self, *_, **__): yield {}

    async def stream(self, messages, *_, **__):
        results = [part["toolResult"] for part in messages[-1]["content"] if "toolResult" in part]
        command = self.script.next(results[-1]["content"][0]["text"] if results else None)
        yield {"messageStart": {"role": "assistant"}}
        if command:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "shell", "toolUseId": str(len(self.script.read))}}}}
            import json
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"command": command})}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if command else "end_turn"}}


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        sandbox = CallgateSandbox(workdir, **words)

        @tool
        async def shell(command: str) -> str:
            """Runs a command."""
            result = await sandbox.execute(command, timeout=timeout)
            return f"{result.stdout}{result.stderr}exit status {result.exit_code}"
        agent = Agent(model=Scripted(script), tools=[shell], sandbox=sandbox, callback_handler=None)
        assert str(agent("go")).strip() == "done"


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    sandbox = CallgateSandbox(workdir)

    @tool
    async def shell(command: str) -> str:
        """Runs a command."""
        result = await sandbox.execute(command)
        return result.stdout + result.stderr
    agent = Agent(model=Scripted(script), tools=[shell], sandbox=sandbox, callback_handler=None)
    assert str(agent("go")).strip() == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "Strands Agents") == 1
