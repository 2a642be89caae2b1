"""callgate.deepagents: the standard suite for sandboxes, the questions, and a deep agent."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from callgate.code import interpreter_places
from callgate.deepagents import CallgateBackend
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from deepagents.backends.protocol import ExecuteResponse
from examples import run_examples
from hostile import Hostile
from langchain_scripted import Scripted
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests
from questions import LONG, Memory, Questions, Seen
from scripted import Script

# The framework's BaseSandbox itself fails these of its suite: glob gives full paths, and write replaces.
# The control below shows it without callgate.
OF_THE_FRAMEWORK = ("test_glob", "test_glob_basic_pattern", "test_glob_with_directories", "test_glob_hidden_files_explicitly",
                    "test_glob_with_character_class", "test_glob_with_question_mark", "test_write_existing_file_fails")


class Standard(SandboxIntegrationTests):
    """The suite's directory, /tmp/test_sandbox_ops by default, is put into a work directory of the test."""

    pytestmark = pytest.mark.asyncio
    backend = CallgateBackend

    @pytest.fixture(scope="class")
    def place(self):
        made = tempfile.mkdtemp(prefix="cg-deepagents-")
        type(self).sandbox_root_dir = f"{made}/test_sandbox_ops"
        yield made
        shutil.rmtree(made)

    @pytest.fixture(scope="class")
    def sandbox(self, place):
        """The suite runs a program named `python`: that of this environment. It wants more output than the framework's own
        backend keeps."""
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        yield self.backend(place, env={"PATH": path}, execute=interpreter_places(sys.executable), max_output_bytes=10 << 20)

    @pytest.fixture(autouse=True)
    def known(self, request):
        if request.node.originalname in OF_THE_FRAMEWORK:
            request.applymarker(pytest.mark.xfail(strict=True, reason="BaseSandbox of this version"))
        elif self.backend is not CallgateBackend or (not LONG and "large" in request.node.originalname):
            pytest.skip("long: ./dev test executors")


class TestStandard(Standard):
    pass


class Bare(CallgateBackend):
    """The same without callgate."""

    def execute(self, command, *, timeout=None):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return ExecuteResponse(output=done.stdout.decode("utf-8", "replace"), exit_code=done.returncode)


class TestControl(Standard):
    backend = Bare


class TestQuestions(Questions):
    async def ask(self, command, timeout=None):
        backend = CallgateBackend(self.workdir, max_output_bytes=4_000_000)
        if timeout is not None and timeout < 1:
            backend.sandbox = backend.sandbox.with_options(timeout=timeout)
            timeout = None
        result = await backend.aexecute(command, timeout=timeout)
        return Seen(None if result.exit_code == 124 else result.exit_code, result.output, result.exit_code == 124)

    async def save(self, path, text):
        """By both of its ways: the tool that the model has, and the upload."""
        backend = CallgateBackend(self.workdir)
        written = await backend.awrite(str(path), text)
        (uploaded,) = await backend.aupload_files([(str(path), text.encode())])
        return written, uploaded

    async def load(self, path):
        backend = CallgateBackend(self.workdir)
        (downloaded,) = await backend.adownload_files([str(path)])
        return await backend.aread(str(path)), downloaded


def test_a_fifo_is_not_waited_for(workdir):
    backend = CallgateBackend(workdir, timeout=None)
    backend.execute("mkfifo fifo; ln -s /dev/zero zero; echo x > file")
    for name in ("fifo", "zero"):
        (up,), (down,) = backend.upload_files([(f"{workdir}/{name}", b"x")]), backend.download_files([f"{workdir}/{name}"])
        assert "no regular file" in up.error and "no regular file" in down.error
    assert backend.download_files([f"{workdir}/file"])[0].content == b"x\n", "twin"


def test_bad_timeouts(workdir):
    with pytest.raises(ValueError, match="more than 0"):
        CallgateBackend(workdir, timeout=0)
    with pytest.raises(ValueError, match="more than 0"):
        CallgateBackend(workdir).execute("true", timeout=-1)


@pytest.mark.parametrize("end", ["", "; cat /etc/shadow", "; sleep 600"])
def test_the_bound_is_the_frameworks_own_and_holds_with_all_notes(end, workdir):
    """Control: the framework's own backend has the same bound. Twin: the file tools read more."""
    command = f"yes xxxxxxxxx | head -c 200000{end}"
    own = LocalShellBackend(workdir).execute("yes xxxxxxxxx | head -c 200000")
    assert own.truncated and 100_000 <= len(own.output) < 100_200
    with Memory() as memory:
        result = CallgateBackend(workdir, timeout=3 if "sleep" in end else 60).execute(command)
    text = result.output
    assert result.truncated and 90_000 < len(text.encode()) <= 100_000 and "only its beginning" in text, text[-400:]
    assert ("/etc/shadow" in text) == ("shadow" in end) and ("timed out after 3 seconds" in text) == ("sleep" in end)
    assert memory.grown <= (64 << 20) + 2 * 100_000
    assert len(CallgateBackend(workdir, max_output_bytes=1000).execute(command.replace("600", "0")).output.encode()) <= 1000
    (workdir / "large").write_text("".join(f"line {n}\n" for n in range(40_000)))
    assert len(CallgateBackend(workdir).read("large", limit=40_000).file_data["content"]) > 300_000


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        backend = CallgateBackend(workdir, timeout=int(timeout), **words)
        agent = create_deep_agent(model=Scripted(script=script, tool="execute"), backend=backend)
        agent.invoke({"messages": [("user", "go")]}, {"recursion_limit": 1000})


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    agent = create_deep_agent(model=Scripted(script=script, tool="execute"), backend=CallgateBackend(workdir))
    assert agent.invoke({"messages": [("user", "go")]})["messages"][-1].text == "done"
    script.check()


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "deepagents") == 1
