"""callgate.pydantic_ai: Pydantic AI's own conformance suite, the questions, and an agent."""
from __future__ import annotations

import asyncio
import shutil

import pytest
from callgate.pydantic_ai import CallgateSandbox, CallgateWorkspaceBackend
from examples import run_examples
from hostile import Hostile
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits
from pydantic_ai.workspaces import Workspace, WorkspaceError, WorkspaceOutputLimitError, WorkspaceTimeoutError
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from questions import LONG, Questions, Seen
from scripted import Script


class TestConformance(WorkspaceBackendSuite):
    @pytest.mark.skipif(not LONG, reason="long: ./dev test executors")
    async def test_large_file_round_trip(self, backend):
        await super().test_large_file_round_trip(backend)

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture
    def backend(self, tmp_path):
        made = CallgateWorkspaceBackend(tmp_path)
        yield made
        made.close()

    @pytest.fixture
    def destructive_backend(self, tmp_path_factory):
        """Not `fresh_backend`: a directory that is there is never made at the first use, so its ref is there, too."""
        made = []

        def fresh():
            made.append(CallgateWorkspaceBackend(tmp_path_factory.mktemp("fresh")))
            return made[-1]
        yield fresh
        for one in made:
            one.close()

    @pytest.fixture
    def attach_backend(self):
        made = []

        def attach(ref):
            made.append(CallgateWorkspaceBackend(ref.id))
            return made[-1]
        yield attach
        for one in made:
            one.close()

    @pytest.fixture
    def destroy_environment(self):
        async def destroy(backend):
            shutil.rmtree(await backend.working_dir())
        return destroy


class TestQuestions(Questions):
    apart = True
    keeps_background = True

    async def ask(self, command, timeout=None):
        self.backend = CallgateWorkspaceBackend(self.workdir)
        try:
            result = await self.backend.run(["bash", "-c", command], timeout=timeout)
        except WorkspaceTimeoutError as error:
            return Seen(None, error.stdout + error.stderr, True, error.stdout)
        return Seen(result.exit_code, result.stdout + result.stderr, False, result.stdout)

    async def save(self, path, text):
        await Workspace(CallgateWorkspaceBackend(self.workdir)).write_bytes(str(path), text.encode())

    async def load(self, path):
        return await Workspace(CallgateWorkspaceBackend(self.workdir)).read_bytes(str(path))

    def end(self):
        self.backend.close()


def test_what_is_left_running_goes_on_supervised(workdir, tmp_path):
    backend = CallgateWorkspaceBackend(workdir)

    async def both():
        first = f"cat /etc/shadow; (until [ -e go ]; do sleep 0.02; done; touch {tmp_path}/no; touch yes) >/dev/null 2>&1 & exit 4"
        result = await backend.run(first, shell=True)
        assert result.exit_code == 4
        await backend.run(["touch", "go"])
        await backend.run("until [ -e yes ]; do sleep 0.02; done", shell=True, timeout=30)
    asyncio.run(both())
    assert not (tmp_path / "no").exists()
    backend.close()


def test_too_much_output_is_an_error_with_its_beginning(workdir):
    with pytest.raises(WorkspaceOutputLimitError) as caught:
        asyncio.run(CallgateWorkspaceBackend(workdir, max_output=1000).run("yes | head -c 5000", shell=True))
    assert caught.value.limit == 1000 and caught.value.stdout.startswith("y\ny\n")


def test_files_are_under_the_rules_too(workdir, tmp_path):
    workspace = Workspace(CallgateWorkspaceBackend(workdir))

    async def files():
        await workspace.write_bytes(f"{workdir}/a/b", b"\x00content")
        assert await workspace.read_bytes(f"{workdir}/a/b") == b"\x00content"
        (tmp_path / "closed").write_text("x")
        with pytest.raises(WorkspaceError, match=f"policy denied: read {tmp_path}/closed"):
            await workspace.read_bytes(f"{tmp_path}/closed")
        with pytest.raises((WorkspaceError, OSError)):
            await workspace.write_bytes("/etc/cg-test", b"x")
    asyncio.run(files())


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        def model(messages, info):
            last = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
            command = script.next(last[0] if last else None)
            return ModelResponse(parts=[ToolCallPart("shell", {"command": command}) if command else TextPart("done")])
        capability = CallgateSandbox(workdir, **words)
        agent = Agent(FunctionModel(model), capabilities=[capability])

        def cut(said):  # by the tool, whose author the framework leaves that to
            return said.stdout[:40_000] + said.stderr[-40_000:]

        @agent.tool
        async def shell(ctx: RunContext, command: str) -> str:
            try:
                result = await ctx.workspace.run(command, shell=True, timeout=timeout)
            except (WorkspaceTimeoutError, WorkspaceOutputLimitError) as error:
                return f"{error}\n{cut(error)}"
            return f"{cut(result)}exit status {result.exit_code}"
        assert agent.run_sync("go", usage_limits=UsageLimits(request_limit=None)).output == "done"
        capability.close()


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)

    def model(messages, info):
        last = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        command = script.next(last[0] if last else None)
        return ModelResponse(parts=[ToolCallPart("shell", {"command": command}) if command else TextPart("done")])
    capability = CallgateSandbox(workdir)
    agent = Agent(FunctionModel(model), capabilities=[capability])

    @agent.tool
    async def shell(ctx: RunContext, command: str) -> str:
        result = await ctx.workspace.run(command, shell=True)
        return result.stdout + result.stderr
    assert agent.run_sync("go").output == "done"
    capability.close()
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "Pydantic AI") == 1
