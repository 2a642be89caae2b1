"""callgate.google_adk: environment and code executor, and an agent that runs its code."""
from __future__ import annotations

import asyncio
import math

import pytest
from callgate.google_adk import CallgateCodeExecutor, CallgateEnvironment
from examples import run_examples
from google.adk.agents import LlmAgent
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File
from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from hostile import Hostile
from questions import HINT, Questions, Seen, with_time
from scripted import Script


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        environment = CallgateEnvironment(working_dir=self.workdir)
        await environment.initialize()
        result = await environment.execute(command, timeout=timeout)
        await environment.close()
        return Seen(None if result.timed_out else result.exit_code, result.stdout + result.stderr, result.timed_out, result.stdout)

    async def save(self, path, text):
        await CallgateEnvironment(working_dir=self.workdir).write_file(path, text)

    async def load(self, path):
        return await CallgateEnvironment(working_dir=self.workdir).read_file(path)


class TestQuestionsOfTheCodeExecutor(Questions):
    """Python that becomes bash. The interface is synchronous, and takes stderr for a failure."""

    asynchronous = concurrent = cancels = False
    apart = True

    async def ask(self, command, timeout=None):
        code = f"import os\nos.execvp('bash', ['bash', '-c', {command!r}])"
        told = execute(CallgateCodeExecutor(timeout_seconds=math.ceil(timeout) if timeout else None), code)
        late = "Code execution timed out" in told.stderr
        return Seen(None if late else told.exit_code, told.stdout + told.stderr, late, told.stdout)


def test_files_and_the_temporary_directory(tmp_path):
    async def work():
        environment = CallgateEnvironment(env_vars={"A": "b"})
        await environment.initialize()
        place = environment.working_dir
        await environment.write_file("d/x", b"\x00y")
        assert await environment.read_file(place / "d/x") == b"\x00y" and (await environment.execute("echo $A")).stdout == "b\n"
        with pytest.raises(FileNotFoundError):
            await environment.read_file("none")
        (tmp_path / "closed").write_text("x")
        with pytest.raises(PermissionError, match="policy denied"):
            await environment.read_file(tmp_path / "closed")
        with pytest.raises(PermissionError):
            await environment.write_file(tmp_path / "no", "x")
        # A command made a FIFO, a link to a device and a file without an end in sight.
        await environment.execute("mkfifo fifo; ln -s /dev/zero zero; truncate -s 1T large")
        for name in ("fifo", "zero"):
            with pytest.raises(PermissionError, match="no regular file"):
                await environment.read_file(name)
            with pytest.raises(PermissionError, match="no regular file"):
                await environment.write_file(name, "x")
        with pytest.raises(OSError, match="larger than"):
            await environment.read_file("large")
        await environment.close()
        assert not place.exists() and not (tmp_path / "no").exists()
    asyncio.run(work())


def execute(executor, code):
    return executor.execute_code(None, CodeExecutionInput(code=code))


def test_code(tmp_path):
    executor = CallgateCodeExecutor(timeout_seconds=20, memory="1G")
    good = execute(executor, "import sys; print(6*7); print('w', file=sys.stderr)")
    assert (good.stdout, good.stderr) == ("42\n", "")  # stderr means failure there
    bad = execute(executor, "raise ValueError('x')")
    assert "ValueError: x" in bad.stderr and bad.exit_code == 1
    denied = execute(executor, f"open('{tmp_path}/no', 'w')")
    assert HINT in denied.stderr
    caught = execute(executor, f"try: open('{tmp_path}/no', 'w')\nexcept OSError: print('caught')")
    assert caught.stderr == "" and caught.stdout.startswith("caught\n") and HINT in caught.stdout
    def late(seconds):
        told = execute(CallgateCodeExecutor(timeout_seconds=int(seconds)), "import time; print('so far', flush=True); time.sleep(99)")
        assert f"Code execution timed out after {seconds} seconds." in told.stderr
        return told.stdout
    assert with_time(late, bool, 1) == "so far\n"


def test_what_would_have_no_effect_is_refused():
    """As the framework's own local executor does it. Twin: the values that say nothing."""
    for name in ("stateful", "optimize_data_file"):
        with pytest.raises(ValueError, match=f"Cannot set `{name}=True`"):
            UnsafeLocalCodeExecutor(**{name: True})
        with pytest.raises(ValueError, match=f"{name}=True has no effect"):
            CallgateCodeExecutor(**{name: True})
        executor = CallgateCodeExecutor(**{name: False})
        with pytest.raises(ValueError, match="frozen"):
            setattr(executor, name, True)
    given = CodeExecutionInput(code="print(1)", input_files=[File(name="data.csv", content="a")])
    with pytest.raises(ValueError, match="takes no input files"):
        executor.execute_code(None, given)
    given.input_files = []
    assert executor.execute_code(None, given).stdout == "1\n"


def test_a_hint_stands_behind_a_success_only_if_the_program_was_told(workdir):
    """The framework shows it as what the code printed."""
    (workdir / "hidden").write_text("x")
    rules = {"version": 1, "extends": ["agent"], "rules": [
        {"id": "hide", "deny": "read", "path": str(workdir / "hidden"), "errno": "ENOENT"}]}
    executor = CallgateCodeExecutor(rules=rules)
    code = "import os\ntry: open({!r})\nexcept OSError: print('went on')"
    assert execute(executor, code.format("hidden")).stdout == "went on\n"
    assert HINT in execute(executor, code.format("/etc/shadow")).stdout
    assert "hidden" in execute(executor, "open('hidden')").stderr.partition(HINT)[2]


class Scripted(BaseLlm):
    script: object

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        text = last.text if last.text and "```tool_output" in last.text else None
        if last.code_execution_result:
            text = last.code_execution_result.output
        command = self.script.next(text)
        code = f"```python\nimport subprocess\nprint(subprocess.run({command!r}, shell=True, capture_output=True, text=True).stdout)\n```"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=code if command else "done")]))


class Blocks(BaseLlm):
    script: object

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        text = last.code_execution_result.output if last.code_execution_result else None
        if last.text and "```tool_output" in last.text:
            text = last.text
        command = self.script.next(text)
        run = f"subprocess.run(['bash', '-c', {command!r}], stderr=subprocess.STDOUT)"
        code = f"```python\nimport subprocess, sys\nsys.exit({run}.returncode)\n```"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=code if command else "done")]))


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        executor = CallgateCodeExecutor(workdir=workdir, timeout_seconds=int(timeout), error_retry_attempts=1000, **words)
        agent = LlmAgent(name="coder", model=Blocks(model="scripted", script=script), code_executor=executor)

        async def talk():
            runner = InMemoryRunner(agent=agent, app_name="t")
            session = await runner.session_service.create_session(app_name="t", user_id="u")
            said = types.Content(role="user", parts=[types.Part(text="go")])
            async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=said):
                pass
        asyncio.run(talk())


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    agent = LlmAgent(name="coder", model=Scripted(model="scripted", script=script), code_executor=CallgateCodeExecutor())

    async def talk():
        runner = InMemoryRunner(agent=agent, app_name="t")
        session = await runner.session_service.create_session(app_name="t", user_id="u")
        said = types.Content(role="user", parts=[types.Part(text="go")])
        events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=said)]
        return events[-1].content.parts[0].text
    assert asyncio.run(talk()) == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "Google ADK") == 1
