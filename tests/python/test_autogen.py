"""callgate.autogen: what the local executor's own tests ask of it, the questions, dumping and loading, and real agents."""
from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import venv
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.agents._code_executor_agent import ApprovalResponse
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, ComponentModel
from autogen_core.code_executor import (
    Alias,
    CodeBlock,
    CodeExecutor,
    FunctionWithRequirements,
    ImportFromModule,
    with_requirements,
)
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage
from autogen_ext.tools.code_execution import PythonCodeExecutionTool
from callgate import CallgateError
from callgate.autogen import CallgateCommandLineCodeExecutor as Executor
from examples import run_examples
from hostile import Hostile
from questions import HINT, Questions, Seen, alive, sleeper, until, with_time
from scripted import Script


def execute(executor, *blocks, token=None):
    return asyncio.run(executor.execute_code_blocks([CodeBlock(code, language) for language, code in blocks],
                                                    token or CancellationToken()))


class TestQuestions(Questions):
    async def ask(self, command, timeout=None):
        executor = Executor(work_dir=self.workdir / ".", timeout=60)
        executor.timeout = timeout or 60
        token = CancellationToken()
        result = await executor.execute_code_blocks([CodeBlock(command, "bash")], token)
        return Seen(None if result.exit_code == 124 else result.exit_code, result.output, result.exit_code == 124)

    @pytest.fixture(autouse=True)
    def not_here(self, workdir, tmp_path, monkeypatch):
        """The work directory must not be the current one, or there is a warning."""
        monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_python_and_shell_blocks(workdir):
    executor = Executor(work_dir=workdir)
    assert execute(executor, ("python", "import sys; print('hello world!')")).output == "hello world!\n"
    assert execute(executor, ("py", "a=100; b=200; print(a+b)"), ("bash", "echo 3")).output == "300\n3\n"
    result = execute(executor, ("python", "print(1); raise ValueError('x')"), ("bash", "echo never"))
    assert result.exit_code == 1 and "ValueError: x" in result.output and "never" not in result.output
    assert result.output.endswith("1\n")  # stderr comes first
    assert not list(workdir.iterdir())
    assert execute(executor, ("cobol", "x")).output == "\nunknown language cobol"
    assert execute(executor, ("python", "import sys; print(sys.prefix)")).output == f"{sys.prefix}\n"


def test_a_wrong_path_says_that_there_is_none(workdir):
    result = execute(Executor(work_dir=workdir), ("python", "with open('/nonexistent_dir/f', 'w') as f: f.write('x')"))
    assert result.exit_code != 0 and "No such file or directory" in result.output


def test_timeout_and_cancelling(workdir):
    late = ("python", "import time; print('so far', flush=True); time.sleep(60)")
    result = with_time(lambda seconds: execute(Executor(work_dir=workdir, timeout=int(seconds)), late),
                       lambda told: "so far" in told.output, 1)
    assert result.exit_code == 124 and result.output.endswith("\nTimeout") and "so far" in result.output and result.code_file
    word = sleeper()

    async def cancel():
        token = CancellationToken()
        run = asyncio.ensure_future(Executor(work_dir=workdir).execute_code_blocks([CodeBlock(f"setsid sleep {word}", "sh")], token))
        await until(lambda: alive(word), "it sleeps")
        token.cancel()
        return await run
    result = asyncio.run(cancel())
    assert (result.exit_code, result.output) == (125, "\nCancelled") and not alive(word)


def test_file_names(workdir, caplog, monkeypatch):
    executor = Executor(work_dir=workdir, cleanup_temp_files=False)
    result = execute(executor, ("python", "# filename: test.py\nprint('hi')"))
    assert (result.exit_code, result.output, result.code_file) == (0, "hi\n", str(workdir / "test.py")) and (workdir / "test.py").exists()
    assert execute(executor, ("python", "# filename: /tmp/test.py\nprint(1)")).output == "Filename is not in the workspace"
    assert execute(executor, ("bash", "echo 1")).code_file.startswith(str(workdir / "tmp_code_"))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError("Mocked OSError")))
    with caplog.at_level(logging.ERROR):
        assert execute(Executor(work_dir=workdir), ("bash", "echo 1")).output == "1\n"
    assert "Failed to delete temporary file" in caplog.text


def block_name(code, ending="py"):
    """The name that the framework gives a block's file: anybody can foretell it."""
    return f"tmp_code_{hashlib.sha256(code.encode()).hexdigest()}.{ending}"


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_a_name_that_an_earlier_block_planted_leads_nowhere(workdir, tmp_path, kind):
    """Control: a program that opens the name writes through it. The framework's own executor does."""
    outside = tmp_path / "profile"
    outside.write_text("# the user's\n")
    code = "print('next')"
    plant = {"link": f"ln -s {outside} {block_name(code)}", "hard link": f"echo old > mine; ln mine {block_name(code)}",
             "fifo": f"mkfifo {block_name(code)}"}[kind]
    executor = Executor(work_dir=workdir)
    if kind == "link":
        assert execute(executor, ("sh", plant)).exit_code == 0
        (workdir / block_name(code)).write_text("control")
        assert outside.read_text() == "control"
        outside.write_text("# the user's\n")
        (workdir / block_name(code)).unlink()
    result = execute(executor, ("sh", plant), ("python", code))
    assert (result.exit_code, result.output) == (0, "next\n"), result
    assert outside.read_text() == "# the user's\n"
    assert not (workdir / block_name(code)).exists() and (kind != "hard link" or (workdir / "mine").read_text() == "old\n")


def test_a_name_that_the_model_chose_is_written_under_the_rules(workdir, tmp_path):
    """An earlier block leaves a link; what it leads to is neither written nor removed. Twin: a link within the directory."""
    outside = tmp_path / "profile.py"
    outside.write_text("# the user's\n")
    executor = Executor(work_dir=workdir)
    links = f"ln -s {outside} settings.py; ln -s {tmp_path} folder; echo > real.py; ln -s real.py inner.py"
    assert execute(executor, ("sh", links)).exit_code == 0
    for name in ("settings.py", "folder/profile.py", "folder/new.py"):
        result = execute(executor, ("python", f"# filename: {name}\nprint('hi')"))
        assert result.exit_code != 0 and HINT in result.output, result
    assert outside.read_text() == "# the user's\n" and sorted(tmp_path.iterdir()) == [outside]
    assert execute(executor, ("python", "# filename: inner.py\nprint('hi')")).output == "hi\n"


def increment(number: int) -> int:
    return number + 1


def test_a_link_at_the_functions_module_is_replaced(workdir, tmp_path):
    outside = tmp_path / "profile"
    outside.write_text("# the user's\n")
    assert execute(Executor(work_dir=workdir), ("sh", f"ln -s {outside} functions.py")).exit_code == 0
    result = execute(Executor(work_dir=workdir, functions=[increment]), ("python", "from functions import increment\nprint(increment(2))"))
    assert result.output == "3\n" and outside.read_text() == "# the user's\n", result


def test_a_link_in_place_of_the_work_directory_is_refused(workdir, tmp_path):
    """The host itself, here, puts it there: the directory was resolved before."""
    place = workdir / "place"
    executor = Executor(work_dir=place)
    assert execute(executor, ("sh", "echo 1")).output == "1\n"
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(OSError):
        execute(executor, ("python", "print(1)"))
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_and_warnings(workdir, tmp_path):
    with pytest.raises(ValueError, match="Timeout must be greater than or equal to 1."):
        Executor(timeout=0)
    with pytest.raises(ValueError, match="Module name must be a valid Python identifier"):
        Executor(functions_module="a b")
    with pytest.warns(DeprecationWarning, match="Using the current directory as work_dir is deprecated."):
        Executor(work_dir=tmp_path)
    with pytest.warns(UserWarning, match="No action is taken"):
        asyncio.run(Executor().restart())
    with pytest.raises(CallgateError, match="unknown profile"):
        execute(Executor(work_dir=workdir, profile="nope"), ("bash", "true"))

    async def life():
        async with Executor() as executor:
            place = executor.work_dir
            assert place.is_dir()
        return place
    assert not asyncio.run(life()).exists()


def test_a_virtual_environment_in_the_work_directory(workdir):
    builder = venv.EnvBuilder(with_pip=False, symlinks=True)
    place = workdir / "env"
    builder.create(place)
    context = builder.ensure_directories(place)
    executor = Executor(work_dir=workdir, virtual_env_context=context)
    assert execute(executor, ("python", "import sys; print(sys.prefix)")).output.strip() == str(place)
    assert execute(executor, ("bash", "command -v python")).output.strip() == f"{place}/bin/python"


def test_words_of_the_sandbox_and_those_proposed(workdir, tmp_path):
    (tmp_path / "data").write_text("data")
    executor = Executor(work_dir=workdir, fs_read=[tmp_path / "data"], fs_write=[tmp_path / "out"], max_memory_mb=500, max_procs=50)
    assert execute(executor, ("bash", f"cat {tmp_path}/data")).output == "data"
    assert execute(Executor(work_dir=workdir), ("bash", f"cat {tmp_path}/data")).exit_code == 1
    assert execute(Executor(work_dir=workdir, read=[tmp_path], fs_read=[workdir]), ("bash", f"cat {tmp_path}/data")).exit_code == 0


def add_two_numbers(a: int, b: int) -> int:
    """Add two numbers together."""
    return a + b


@with_requirements(global_imports=["json", Alias("os", "o"), ImportFromModule("math", ["sqrt"])])
def root_in_json(number: float) -> str:
    return json.dumps(sqrt(number)) + o.sep  # noqa: F821


@with_requirements(python_packages=["no-such-package-for-callgate-tests"])
def needs_a_package() -> None: ...


def test_user_defined_functions(workdir):
    executor = Executor(work_dir=workdir, functions=[add_two_numbers, root_in_json])
    assert execute(executor, ("python", "from functions import add_two_numbers\nprint(add_two_numbers(1, 2))")).output == "3\n"
    assert execute(executor, ("python", "from functions import root_in_json\nprint(root_in_json(4))")).output == "2.0/\n"
    text = FunctionWithRequirements.from_str("def twice(x):\n    \"\"\"Doubles.\"\"\"\n    return 2 * x")
    mine = Executor(work_dir=workdir, functions=[text], functions_module="mine")
    assert execute(mine, ("python", "from mine import twice\nprint(twice(4))")).output == "8\n"
    assert "module called `mine`" in mine.format_functions_for_prompt()
    prompt = executor.format_functions_for_prompt("$functions").replace("'int'", "int")
    assert 'def add_two_numbers(a: int, b: int) -> int:\n    """Add two numbers together."""\n    ...' in prompt
    broken = FunctionWithRequirements.from_str("def broken():\n    return 1", global_imports=["no_such_module_at_all"])
    with pytest.raises(ValueError, match=r"(?s)Functions failed to load: .*no_such_module_at_all"):
        execute(Executor(work_dir=workdir, functions=[broken]), ("python", "print(1)"))
    with pytest.raises(ValueError, match="Pip install failed"):
        execute(Executor(work_dir=workdir, functions=[needs_a_package], env={"PIP_NO_INDEX": "1"}), ("python", "print(1)"))


def test_dump_and_load(workdir):
    dumped = Executor(work_dir=workdir, timeout=7, fs_read=["/srv"], memory="500M").dump_component()
    assert isinstance(dumped, ComponentModel) and dumped.provider == "callgate.autogen.CallgateCommandLineCodeExecutor"
    loaded = CodeExecutor.load_component(dumped.model_dump())
    assert isinstance(loaded, Executor) and loaded.timeout == 7 and loaded._sandbox.given.read == ["/srv"]
    assert execute(loaded, ("bash", "echo 1")).output == "1\n"
    with pytest.raises(ValueError, match="cannot be dumped"):
        Executor(work_dir=workdir, on_ask=print).dump_component()


class Model(ChatCompletionClient):
    """Writes the script's commands as blocks of bash."""

    def __init__(self, script):
        self.script = script

    async def create(self, messages, **_):
        told = str(messages[-1].content) if messages[-1].source == "runner" else None
        command = self.script.next(told)
        text = f"```bash\n{command}\n```" if command else "TERMINATE"
        return CreateResult(finish_reason="stop", content=text, usage=RequestUsage(0, 0), cached=False)

    async def create_stream(self, messages, **more):
        yield await self.create(messages, **more)

    async def close(self): ...
    def actual_usage(self): return RequestUsage(0, 0)
    def total_usage(self): return RequestUsage(0, 0)
    def count_tokens(self, messages, **_): return 0
    def remaining_tokens(self, messages, **_): return 1000
    model_info = capabilities = ModelInfo(vision=False, function_calling=False, json_output=False, family="unknown",
                                          structured_output=False)


def test_a_team_of_an_assistant_and_a_code_executor_agent(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    writer = AssistantAgent("writer", Model(script))
    runner = CodeExecutorAgent("runner", Executor(work_dir=workdir), supported_languages=["bash"], approval_func=approve)
    team = RoundRobinGroupChat([writer, runner], termination_condition=TextMentionTermination("TERMINATE"), max_turns=9)
    assert asyncio.run(team.run(task="go")).messages[-1].content == "TERMINATE"
    script.check()


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        executor = Executor(work_dir=workdir, timeout=int(timeout), **words)
        runner = CodeExecutorAgent("runner", executor, supported_languages=["bash"], approval_func=approve)
        team = RoundRobinGroupChat([AssistantAgent("writer", Model(script)), runner], max_turns=1000,
                                   termination_condition=TextMentionTermination("TERMINATE", sources=["writer"]))
        assert asyncio.run(team.run(task="go")).messages[-1].content == "TERMINATE"


def approve(_):
    return ApprovalResponse(approved=True, reason="the sandbox decides")


def test_the_tool_of_autogen_ext(workdir, tmp_path):
    tool = PythonCodeExecutionTool(Executor(work_dir=workdir))

    def use(code):
        return asyncio.run(tool.run_json({"code": code}, CancellationToken()))
    assert (use("print(6*7)").success, use("print(6*7)").output) == (True, "42\n")
    denied = use(f"open('{tmp_path}/no', 'w')")
    assert not denied.success and "PermissionError" in denied.output and HINT in denied.output


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "AutoGen") == 1
