"""callgate.smolagents: the stateful interpreter, and a CodeAgent."""
from __future__ import annotations

import asyncio

import pytest
from callgate.smolagents import CallgatePythonExecutor
from examples import run_examples
from questions import HINT, Questions, Seen, alive, sleeper, until
from scripted import Script
from smolagents import AgentError, CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole


class TestQuestions(Questions):
    """Each command is a step in a process of its own: what a step left running ends with the process."""

    asynchronous = concurrent = cancels = False

    async def ask(self, command, timeout=None):
        executor = CallgatePythonExecutor(workdir=self.workdir, timeout=timeout or 40)
        code = (f"import subprocess, sys\nr = subprocess.Popen(['bash', '-c', {command!r}], stdin=subprocess.DEVNULL)\nr.wait()\n"
                "128 - r.returncode if r.returncode < 0 else r.returncode")
        try:
            told = executor(code)
        except AgentError as error:
            return Seen(None, error.message, "timed out" in error.message)
        finally:
            executor.cleanup()
        return Seen(told.output, told.logs)

    def test_three_megabytes_of_output(self):
        seen = self.now("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
        assert seen.code == 0 and seen.text.endswith("x\nend\n") and len(seen.text) > 3_000_000

    def test_a_write_outside_is_denied_and_the_model_reads_why(self, tmp_path):
        seen = self.now(f"echo x > {tmp_path}/no; echo went on")
        assert not (tmp_path / "no").exists() and HINT in seen.text and "went on" in seen.text


def test_state_values_and_errors():
    executor = CallgatePythonExecutor()
    assert executor("x = 6\nprint('set')").logs == "set\n"
    told = executor("x * 7")
    assert (told.output, told.logs, told.is_final_answer) == (42, "", False)
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("1 / 0")
    executor.send_variables({"given": [1, {"a": "b"}]})
    assert executor("given").output == [1, {"a": "b"}]
    word = sleeper()
    executor(f"import subprocess; p = subprocess.Popen(['setsid', 'sleep', '{word}'])")
    asyncio.run(until(lambda: alive(word), "it sleeps"))
    executor.cleanup()
    assert not alive(word)


def test_a_step_that_takes_too_long_or_kills_its_interpreter_is_an_error_and_the_next_one_works():
    executor = CallgatePythonExecutor(timeout=0.7)
    with pytest.raises(AgentError, match="timed out after 0.7 seconds; its variables are lost"):
        executor("import time; time.sleep(60)")
    executor.timeout = 30
    with pytest.raises(AgentError, match="the interpreter"):
        executor("import os; os._exit(3)")
    assert executor("1 + 1").output == 2
    executor.cleanup()


class Scripted(Model):
    def __init__(self, script):
        super().__init__(model_id="scripted")
        self.script = script

    def generate(self, messages, **_):
        last = str(messages[-1].content)
        command = self.script.next(last.partition("Execution logs:")[2] if "Execution logs:" in last else None)
        code = (f"import subprocess\nprint(subprocess.run({command!r}, shell=True, capture_output=True, text=True).stdout)" if command
                else "final_answer(twice('done'))")
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on\n<code>\n{code}\n</code>")


@tool
def twice(text: str) -> str:
    """Says it twice.

    Args:
        text: what to say
    """
    return text + text


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    executor = CallgatePythonExecutor(workdir=workdir)
    agent = CodeAgent(tools=[twice], model=Scripted(script), executor=executor, verbosity_level=0)
    assert agent.run("go") == "donedone"
    executor.cleanup()
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "smolagents") == 1
