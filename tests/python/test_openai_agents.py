"""callgate.openai_agents: the shell tool's executor and the sandbox client."""
from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from agents import Agent, Model, ModelResponse, Runner, ShellTool, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio
from agents.sandbox.errors import ExecTimeoutError, WorkspaceArchiveReadError
from agents.sandbox.manifest import Manifest
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.tool import ShellActionRequest, ShellCallData, ShellCommandRequest
from callgate import Sandbox
from callgate.openai_agents import CallgateSandboxClient, CallgateSandboxSession, CallgateShellExecutor
from examples import run_examples
from hostile import Hostile
from openai.types.responses import ResponseFunctionShellToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_function_shell_tool_call import Action
from questions import HINT, Questions, Seen, alive, sleeper, until, with_time
from scripted import Script

set_tracing_disabled(True)


def request(*commands, timeout=None):
    action = ShellActionRequest(list(commands), int(timeout * 1000) if timeout else None)
    return ShellCommandRequest(None, ShellCallData("1", action))


class TestQuestions(Questions):
    apart = True

    async def ask(self, command, timeout=None):
        (one,) = (await CallgateShellExecutor()(request(command, timeout=timeout))).output
        return Seen(one.exit_code, one.stdout + one.stderr, one.status == "timeout", one.stdout)


class TestQuestionsOfTheSandboxClient(Questions):
    apart = True
    partial = False  # in the error's context only

    async def ask(self, command, timeout=None):
        client = CallgateSandboxClient()
        session = await client.create(manifest=Manifest(root=str(self.workdir)))
        try:
            await session.start()
            result = await session.exec("bash", "-c", command, shell=False, timeout=timeout)
        except ExecTimeoutError as error:
            return Seen(None, str(error.context), True, "")
        finally:
            await session.stop()
        out, err = (text.decode("utf-8", "replace") for text in (result.stdout, result.stderr))
        return Seen(result.exit_code, out + err, False, out)

    def test_death_by_signal(self):
        assert self.now("kill -9 $$").code == -9  # as the framework has it

    async def within(self, act):
        session = await CallgateSandboxClient().create(manifest=Manifest(root=str(self.workdir)))
        await session.start()
        try:
            return await act(session)
        finally:
            await session.stop()

    async def save(self, path, text):
        await self.within(lambda session: session.write(path, io.BytesIO(text.encode())))

    async def load(self, path):
        return (await self.within(lambda session: session.read(path))).read()


def test_commands_run_in_turn_and_a_timeout_ends_the_turn():
    output = asyncio.run(CallgateShellExecutor()(request("exit 3", "echo b"))).output
    assert [(one.exit_code, one.stdout, one.command) for one in output] == [(3, "", "exit 3"), (0, "b\n", "echo b")]
    output = with_time(lambda seconds: asyncio.run(CallgateShellExecutor()(request("echo a; sleep 99", "echo b", timeout=seconds))).output,
                       lambda told: told[0].stdout)
    assert [(one.status, one.stdout) for one in output] == [("timeout", "a\n")]
    def bounded(seconds):
        return asyncio.run(CallgateShellExecutor(timeout=seconds)(request("echo a; sleep 99", timeout=50))).output
    (output,) = with_time(bounded, lambda told: told[0].stdout)
    assert (output.status, output.stdout) == ("timeout", "a\n"), "the model's time is not longer than the user's"


def test_a_terminal_of_the_sandbox_client_is_supervised(workdir):
    async def work():
        client = CallgateSandboxClient()
        session = await client.create(manifest=Manifest(root=str(workdir)))
        await session.start()
        word = sleeper()
        update = await session.pty_exec_start(f"test -t 0 && echo term; cat /etc/shadow; setsid sleep {word}", tty=True, yield_time_s=1.5)
        text = update.output.decode()
        assert isinstance(session._inner, CallgateSandboxSession) and alive(word)
        await session.pty_terminate_all()
        state = session.state
        await session.stop()
        resumed = await client.resume(state)
        assert isinstance(resumed._inner, CallgateSandboxSession)
        return text, word
    text, word = asyncio.run(work())
    assert "term" in text and "Permission denied" in text
    asyncio.run(until(lambda: not alive(word), "what the terminal ran has ended"))


def test_exit_statuses_are_those_of_the_framework_with_and_without_a_terminal(workdir):
    """Control: its own client."""
    commands = ["exit 3", "exit 137", "kill -9 $$", "kill -TERM $$", "sh -c 'kill -9 $$'; exit $?", "no-such-program", "true"]

    async def work(client):
        session = await client.create(manifest=Manifest(root=str(workdir)))
        await session.start()
        seen = []
        for command in commands:
            seen.append((await session.exec("sh", "-c", command, shell=False)).exit_code)
            for tty in (False, True):
                update = await session.pty_exec_start(command, tty=tty, yield_time_s=30)
                seen.append((update.exit_code, update.output if command == "exit 3" else None))
        await session.stop()
        return seen
    own = asyncio.run(work(UnixLocalSandboxClient()))
    assert (-9, None) in own and -15 in own and (137, None) in own and (3, b"") in own
    assert asyncio.run(work(CallgateSandboxClient())) == own


@pytest.mark.parametrize("tty", [False, True])
def test_what_a_command_wrote_is_no_setting_of_callgates(tty, workdir, tmp_path):
    """The workspace is the commands' HOME, and a user's rules lie beneath his. Control: callgate started with that HOME."""
    (tmp_path / "secret").write_text("content")
    rules = json.dumps({"version": 1, "rules": [{"id": "own", "allow": "read", "path": f"{tmp_path}/secret"}]})

    async def work():
        session = await CallgateSandboxClient().create(manifest=Manifest(root=str(workdir)))
        await session.start()
        planted = await session.exec("sh", "-c", f"mkdir -p .config/callgate && echo '{rules}' > .config/callgate/rules.json", shell=False)
        assert planted.exit_code == 0
        update = await session.pty_exec_start(f"echo $HOME; cat {tmp_path}/secret", tty=tty, yield_time_s=30)
        await session.stop()
        return update.output.decode()
    text = asyncio.run(work())
    control = subprocess.run(Sandbox(workdir=workdir).wrap(["cat", tmp_path / "secret"]),
                             env={**os.environ, "HOME": str(workdir), "XDG_CONFIG_HOME": ""},  # it would stand before HOME
                             capture_output=True, text=True, check=False)
    assert control.stdout == "content", control
    assert "content" not in text and HINT in text and str(workdir) in text


def test_a_file_that_has_no_end_is_not_waited_for(workdir):
    async def work():
        session = await CallgateSandboxClient().create(manifest=Manifest(root=str(workdir)))
        await session.start()
        await session.exec("sh", "-c", "mkfifo fifo; echo x > file", shell=False)
        assert (await session.read(Path("file"))).read() == b"x\n", "twin"
        for act in (session.read(Path("fifo")), session.write(Path("fifo"), io.BytesIO(b"x"))):
            with pytest.raises(Exception, match=r"(?i)fifo|no regular file|failed"):
                await act
        await session.persist_workspace()
        await session.exec("truncate", "-s", "1T", "large", shell=False)
        with pytest.raises(WorkspaceArchiveReadError):
            await session.persist_workspace()
        await session.exec("rm", "large", shell=False)
        await session.stop()
    asyncio.run(work())


@pytest.mark.parametrize("tty", [False, True])
def test_the_end_of_a_command_at_a_terminal_has_the_hint(tty, workdir):
    """A success has one only if its program was told of the denial."""
    (workdir / "hidden").write_text("x")
    rules = {"version": 1, "extends": ["agent"], "rules": [
        {"id": "hide", "deny": "read", "path": str(workdir / "hidden"), "errno": "ENOENT"}]}

    async def work():
        session = await CallgateSandboxClient(rules=rules, memory="200M").create(manifest=Manifest(root=str(workdir)))
        await session.start()
        seen = []
        for command in ("cat hidden; echo on", "cat /etc/shadow; echo on", "cat hidden", "exec python3 -c 'x = b\"x\" * (600 << 20)'"):
            update = await session.pty_exec_start(command, tty=tty, yield_time_s=30)
            seen.append((update.exit_code, update.output.decode()))
        reports = os.listdir(session._inner._reports.name)
        await session.stop()
        return seen, reports
    (hidden, told, failed, large), reports = asyncio.run(work())
    assert hidden[0] == 0 and "callgate" not in hidden[1] and "on" in hidden[1]
    assert told[0] == 0 and HINT in told[1] and "/etc/shadow" in told[1].partition(HINT)[2]
    assert failed[0] == 1 and "hidden" in failed[1].partition(HINT)[2]
    assert large[0] == -9 and "more memory than it may" in large[1] and reports == []


def test_the_file_functions_of_a_session_keep_to_the_rules(workdir, tmp_path):
    """Control: the framework's own session reads a secret of the workspace and plants a hook. Twin: an ordinary file."""
    hook, secret = workdir / ".git/hooks/pre-commit", workdir / ".env"
    hook.parent.mkdir(parents=True)
    secret.write_text("TOKEN=1")
    (workdir / ".git/config").write_text("")

    async def work(client):
        session = await client.create(manifest=Manifest(root=str(workdir)))
        await session.start()
        seen = []
        for action in (lambda: session.read(Path(".env")), lambda: session.write(Path(".git/hooks/pre-commit"), io.BytesIO(b"planted")),
                       lambda: session.write(Path("notes/a.txt"), io.BytesIO(b"text")), lambda: session.read(Path("notes/a.txt")),
                       lambda: session.mkdir("made/deep", parents=True), lambda: session.mv("notes/a.txt", "made/b.txt"),
                       lambda: session.ls("made"), lambda: session.rm("made", recursive=True)):
            try:
                done = await action()
                seen.append(done.read() if hasattr(done, "read") else sorted(Path(one.path).name for one in done) if done else True)
            except Exception as error:
                seen.append(type(error).__name__)
        await session.stop()
        return seen
    ordinary = [True, b"text", True, True, ["b.txt", "deep"], True]
    assert asyncio.run(work(UnixLocalSandboxClient())) == [b"TOKEN=1", True, *ordinary]
    assert hook.read_text() == "planted"
    hook.unlink()
    held = asyncio.run(work(CallgateSandboxClient()))
    assert held[2:] == ordinary and b"TOKEN" not in str(held[0]).encode() and held[0] != b"TOKEN=1", held
    assert not hook.exists() and not (workdir / "made").exists() and not (workdir / "notes/a.txt").exists()


def test_a_link_that_an_earlier_command_planted_leads_the_file_functions_nowhere(workdir, tmp_path):
    outside = tmp_path / "profile"
    outside.write_text("# the user's")

    async def work():
        session = await CallgateSandboxClient().create(manifest=Manifest(root=str(workdir)))
        await session.start()
        planted = await session.exec("bash", "-c", f"ln -s {outside} link; ln -s {tmp_path} folder", shell=False)
        assert planted.exit_code == 0
        for action in (lambda: session.write(Path("link"), io.BytesIO(b"x")), lambda: session.write(Path("folder/new"), io.BytesIO(b"x")),
                       lambda: session.read(Path("link")), lambda: session.rm("folder/profile")):
            with pytest.raises(Exception):  # noqa: B017 (whatever the framework has for it)
                await action()
        await session.stop()
    asyncio.run(work())
    assert outside.read_text() == "# the user's" and sorted(tmp_path.iterdir()) == [outside]


def test_a_snapshot_holds_the_workspace_and_nothing_that_a_link_leads_to(workdir, tmp_path):
    """A command swaps a file for a link all the while. Twin: links within the workspace stay links."""
    (tmp_path / "secret").write_text("# the user's")
    (workdir / "kept").write_text("kept")
    (workdir / "inner").symlink_to(workdir / "kept")
    os.mkfifo(workdir / "pipe")

    async def work():
        session = await CallgateSandboxClient().create(manifest=Manifest(root=str(workdir)))
        await session.start()
        swap = f"echo own > a; ln -s {tmp_path}/secret b; touch going; while [ ! -e stop ]; do mv -fT a c; mv -fT b a; mv -fT c b; done"
        swapping = asyncio.ensure_future(session.exec("bash", "-c", swap, shell=False))
        await until(lambda: (workdir / "going").exists(), "it swaps")
        taken = []
        for _ in range(5):
            try:
                taken.append((await session._inner.persist_workspace()).read())
            except WorkspaceArchiveReadError:
                pass  # the name was gone, or led out: nothing was read
        (workdir / "stop").touch()
        await swapping
        for name in "abc":
            (workdir / name).unlink(missing_ok=True)
        taken.append((await session._inner.persist_workspace()).read())
        await session.stop()
        return taken
    *during, quiet = asyncio.run(work())
    assert not any(b"# the user's" in one for one in during)
    with tarfile.open(fileobj=io.BytesIO(quiet)) as tar:
        assert tar.extractfile("./kept").read() == b"kept" and tar.getmember("./inner").linkname == "kept"
        assert "./pipe" not in tar.getnames()


class Scripted(Model):
    def __init__(self, script, outcomes=False):
        self.script, self.outcomes = script, outcomes

    async def get_response(self, system_instructions, input, *_, **__):
        last = input[-1] if isinstance(input, list) else {}
        seen = last.get("output") if last.get("type") == "shell_call_output" else None
        text = seen if isinstance(seen, str) or seen is None else "".join(
            one["stdout"] + one["stderr"] + (str(one["outcome"]) if self.outcomes else "") for one in seen)
        command = self.script.next(text)
        number = str(len(self.script.read))
        if command:
            output = ResponseFunctionShellToolCall(id=number, call_id=number, action=Action(commands=[command]), status="completed",
                                                   type="shell_call")
        else:
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            output = ResponseOutputMessage(id=number, content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


class TestHostile(Hostile):
    def converse(self, script, workdir, timeout, **words):
        executor = CallgateShellExecutor(workdir=workdir, timeout=timeout, **words)
        agent = Agent("coder", model=Scripted(script, outcomes=True), tools=[ShellTool(executor=executor)])
        assert Runner.run_sync(agent, "go", max_turns=100).final_output == "done"


def test_an_agent_meets_a_denial_and_recovers(workdir, tmp_path):
    script = Script(tmp_path / "outside", workdir)
    agent = Agent("coder", model=Scripted(script), tools=[ShellTool(executor=CallgateShellExecutor())])
    assert Runner.run_sync(agent, "go").final_output == "done"
    script.check()


def entry(workdir, server):
    """The `mcp.json` of docs/frameworks.md, read as a client reads it."""
    line = ["run", "-q", "-p", "python", "-w", str(workdir), "-r", sys.prefix, "--", sys.executable, str(server)]
    (workdir / "mcp.json").write_text(json.dumps({"mcpServers": {"files": {"command": "callgate", "args": line}}}))
    return json.loads((workdir / "mcp.json").read_text())["mcpServers"]["files"]


def wrapped(workdir, server):
    command, *arguments = Sandbox(profile="python", workdir=workdir, read=[sys.prefix]).wrap([sys.executable, str(server)])
    return {"command": command, "args": arguments}


@pytest.mark.parametrize("line", [entry, wrapped])
def test_a_server_of_the_model_context_protocol_is_supervised(line, workdir, tmp_path):
    server = workdir / "server.py"
    server.write_text(Path(__file__).with_name("mcp_server.py").read_text())
    outside, inside = tmp_path / "outside", workdir / "inside"
    outside.write_text("secret")

    async def work(parameters):
        async with MCPServerStdio(parameters, client_session_timeout_seconds=60) as client:
            names = {tool.name for tool in await client.list_tools()}

            async def call(name, **arguments):
                return (await client.call_tool(name, arguments)).content[0].text
            return names, [await call("write", path=str(inside), text="text"), await call("read", path=str(inside)),
                           await call("write", path=str(outside), text="text"), await call("read", path="/etc/shadow")]

    bare = asyncio.run(work({"command": sys.executable, "args": [str(server)]}))
    assert bare[1][:3] == ["wrote 4", "text", "wrote 4"]
    outside.write_text("secret")
    inside.unlink()
    names, told = asyncio.run(work(line(workdir, server)))
    assert names == {"read", "write"}
    assert told == ["wrote 4", "text", "failed: Permission denied", "failed: Permission denied"]
    assert outside.read_text() == "secret" and inside.read_text() == "text"


def test_the_example_of_the_documentation(workdir):
    assert run_examples("frameworks.md", workdir, "OpenAI Agents SDK") == 1
