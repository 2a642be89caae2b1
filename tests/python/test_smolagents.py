"""callgate.smolagents: the stateful interpreter, and a CodeAgent."""
from __future__ import annotations

import asyncio
import os
import select
import sys

import pytest
from callgate.smolagents import CallgatePythonExecutor
from examples import run_examples
from hostile import Hostile
from questions import HINT, Memory, Questions, Seen, alive, sleeper, until
from scripted import Script
from smolagents import AgentError, CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole
from smolagents.serialization import SerializationError
from smolagents.utils import truncate_content


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
        executor = CallgatePythonExecutor(workdir=self.workdir, max_output=4_000_000)
        command = r"head -c 3000000 /dev/zero | tr '\0' x; echo; echo end"
        told = executor(f"import subprocess; subprocess.run({command!r}, shell=True).returncode")
        executor.cleanup()
        assert told.output == 0 and told.logs.endswith("x\nend\n") and len(told.logs) > 3_000_000

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


ENDS = {"timeout": ("import time; time.sleep(600)", "timed out after"), "exit": ("import os; os._exit(3)", "exit status 3"),
        "kill": ("import os; os.kill(os.getpid(), 9)", "exit status 137"),
        "parent": ("import os; os.kill(os.getppid(), 9)", "PermissionError"),
        "memory": ("x = b'x' * (500 << 20)", "used more memory than it may (200 MiB)"),
        "stop": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "timed out after")}


@pytest.mark.parametrize("end", ENDS)
def test_a_step_that_ends_the_process_leaves_tools_and_given_variables(end, workdir):
    """The agent answers in the step after it; without the tools it would have to go on until its last step."""
    code, why = ENDS[end]
    said = iter(["mine = 1", code, "final_answer(twice(word) + str('mine' in globals()))"])
    seen = []

    class Steps(Model):
        def generate(self, messages, **_):
            seen.append(str(messages[-1].content))
            now = next(said)
            executor.timeout = 2 if now == code and "timed" in why else 30
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on\n<code>\n{now}\n</code>")
    executor = CallgatePythonExecutor(workdir=workdir, timeout=30, memory="200M")
    agent = CodeAgent(tools=[twice], model=Steps(model_id="scripted"), executor=executor, verbosity_level=0, max_steps=4)
    answer = agent.run("go", additional_args={"word": "done"})
    executor.cleanup()
    assert answer == ("donedoneTrue" if end == "parent" else "donedoneFalse") and why in seen[-1], seen[-1]
    assert end == "parent" or "Variables that steps had set are lost" in seen[-1]


def test_what_a_new_process_is_given_is_given_once_and_may_end_it_too():
    executor = CallgatePythonExecutor(timeout=30)
    executor.send_variables({"a": 1})
    executor.send_variables({"b": 2})
    with pytest.raises(AgentError, match="exit status 3"):
        executor("import os; os._exit(3)")
    assert executor("a + b").output == 3
    executor._tools["import os; os._exit(4)"] = None
    with pytest.raises(AgentError, match="exit status 3"):
        executor("import os; os._exit(3)")
    with pytest.raises(AgentError, match="exit status 4"):
        executor("1")
    executor.cleanup()


@pytest.mark.parametrize("way", ["print('x' * 100_000_000)", "for n in range(1000): print('x' * 100_000)",
                                 "import os\nos.system('head -c 100000000 /dev/zero')", "'x' * 100_000_000",
                                 "raise ValueError('x' * 100_000_000)", "[[]] * 40_000_000"])
def test_what_a_step_tells_is_bounded(way):
    executor = CallgatePythonExecutor(timeout=120)
    assert executor("print(6 * 7)").logs == "42\n"
    with Memory() as memory:
        try:
            told = executor(way)
            text = told.logs + (truncate_content(str(told.output)) if told.output is not None else "")
        except AgentError as error:
            text = error.message
    assert len(text.encode()) <= 50_000 + 100 and ("only its beginning" in text or "characters" in text), text[-300:]
    assert memory.grown <= (64 << 20) + 2 * 50_000
    assert executor("6 * 7").output == 42
    executor.cleanup()
    small = CallgatePythonExecutor(max_output=1000)
    assert len(small("print('x' * 5000)").logs.encode()) <= 1000
    small.cleanup()


FRAME = "import json, os, sys, threading, time\nf = sys._getframe()\nwhile 'ANSWERS' not in f.f_globals: f = f.f_back\n" \
    "fd, step = f.f_globals['ANSWERS'], f.f_globals['job']['step']\n" \
    "def forged(n): return json.dumps({'step': n, 'value': 'forged', 'error': None}).encode()\n"
FORGED = {"a second answer": "os.write(fd, forged(step) + b'\\n')", "the next answer": "os.write(fd, forged(step + 1) + b'\\n')",
          "many answers": "os.write(fd, b'\\n'.join(forged(step + n) for n in range(9)) + b'\\n')",
          "another number": "os.write(fd, forged(step - 1) + b'\\n')", "no number": "os.write(fd, b'{}\\n')",
          "a list": "os.write(fd, b'[1]\\n')",
          "trailing bytes": "os.write(fd, forged(step) + b'\\nx')", "leading bytes": "os.write(fd, b'x')", "a NUL": "os.write(fd, b'\\0')",
          "an endless line": "while True: os.write(fd, b'x' * 65536)", "deep": "os.write(fd, b'[' * 200_000 + b'\\n')",
          "later": "threading.Thread(target=lambda: (time.sleep(0.2), os.write(fd, forged(step + 1) + b'\\n'))).start()",
          "a child": "os.set_inheritable(fd, True); os.spawnlp(os.P_WAIT, 'bash', 'bash', '-c', f'echo x >&{fd}')"}


@pytest.mark.parametrize("kind", FORGED)
def test_no_forged_answer_reaches_a_later_step(kind):
    executor = CallgatePythonExecutor(timeout=30)
    executor.send_variables({"given": 5})
    failures = []
    try:
        first = executor(FRAME + FORGED[kind] + "\n'true'").output
        assert first in ("forged", "true"), first
    except AgentError as error:
        failures.append(error.message)
    if kind == "later":
        asyncio.run(until(lambda: select.select([executor._session._answers], [], [], 0)[0], "the thread has written"))
    for n in range(6):
        try:
            assert executor(f"given + {n}").output == given_plus(n)
        except AgentError as error:
            failures.append(error.message)
    assert len(failures) == 1 and "the descriptor by which answers come" in failures[0], failures
    executor.cleanup()


PICKLED = "class Touch:\n def __reduce__(self): return (open, ({name!r}, 'w'))\n" \
          "class FinalAnswerException(Exception): pass\nimport base64, pickle\n" \
          "raise FinalAnswerException('pickle:' + base64.b64encode(pickle.dumps(Touch())).decode())"


class Trusting(CallgatePythonExecutor):
    """As it was before: the framework unpickles what a step answers."""

    def _deserialize_final_answer(self, encoded_value, allow_pickle=False):
        return super()._deserialize_final_answer(encoded_value, True)


def test_no_step_has_its_answer_unpickled(tmp_path):
    with pytest.raises(ValueError, match="would run its code outside the sandbox"):
        CallgatePythonExecutor(allow_pickle=True)
    name = tmp_path / "made by the host"
    step = PICKLED.format(name=str(name))
    executor = CallgatePythonExecutor(workdir=tmp_path, deny=name)
    executor.allow_pickle = True
    with pytest.raises(SerializationError):
        executor(step)
    assert not name.exists()
    executor.cleanup()
    trusting = Trusting(workdir=tmp_path, deny=name)
    trusting(step)
    assert name.exists()  # so the step would have done it
    trusting.cleanup()


def given_plus(n):
    return 5 + n


def test_output_may_hold_anything_and_commands_take_no_steps():
    executor = CallgatePythonExecutor(timeout=30)
    assert executor("x = 1\nprint('a\\0b')\nimport os\nos.write(1, b'\\0{\"step\": 3}\\n')").logs == 'a\0b\n\0{"step": 3}\n'
    assert executor("import subprocess\nsubprocess.run('cat; echo read', shell=True)\nx").output == 1  # of its stdin: no step
    assert executor("os.close(1); os.close(2)\nx").output == 1
    assert executor("if os.fork() == 0: x = 2\nx").output == 1 and executor("x").output == 1
    executor.cleanup()


def test_pip_is_that_of_the_interpreter(workdir):
    """Control: another pip is the first on PATH."""
    (workdir / "pip").write_text("#!/bin/sh\necho planted")
    (workdir / "pip").chmod(0o755)
    executor = CallgatePythonExecutor(workdir=workdir, env={"PATH": f"{workdir}:{os.environ['PATH']}"}, execute=[workdir])
    assert executor("!command pip --version").logs == "planted\n"
    assert f"from {sys.prefix}/lib" in executor("!pip --version\n1").logs
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


class Steps(Model):
    """Each command is a step; its answer is what the agent puts into its memory."""

    def __init__(self, script):
        super().__init__(model_id="scripted")
        self.script, self.begun = script, False

    def generate(self, messages, **_):
        text = "".join(part["text"] for part in messages[-1].content)
        command = self.script.next(text if self.begun else None)
        self.begun = True
        code = f"import subprocess\nsubprocess.run(['bash', '-c', {command!r}], stderr=subprocess.STDOUT).returncode" if command \
            else "final_answer(twice('done'))"
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on\n<code>\n{code}\n</code>")


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        executor = CallgatePythonExecutor(workdir=workdir, timeout=timeout, **words)
        agent = CodeAgent(tools=[twice], model=Steps(script), executor=executor, verbosity_level=0, max_steps=100)
        assert agent.run("go") == "donedone"
        executor.cleanup()


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    executor = CallgatePythonExecutor(workdir=workdir)
    agent = CodeAgent(tools=[twice], model=Scripted(script), executor=executor, verbosity_level=0)
    assert agent.run("go") == "donedone"
    executor.cleanup()
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "smolagents") == 1
