"""`callgate exec --http` behind SWE-ReX's own client, RemoteRuntime."""
from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from served import TOKEN, serving

pytest.importorskip("swerex")
import aiohttp
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.remote import RemoteRuntime


@pytest.fixture
def service(binary, workdir, monkeypatch):
    with serving(binary, workdir, monkeypatch) as address:
        yield address


@pytest.fixture
def run(service):
    def all_of(work):
        async def it():
            return await work(RemoteRuntime(host=service, auth_token=TOKEN))
        return asyncio.run(it())
    return all_of


def in_session(command: str, **more):
    return BashAction(command=command, **{"timeout": 30, **more})


def test_a_session(run):
    async def work(runtime):
        assert await runtime.is_alive()
        await runtime.create_session(CreateBashSessionRequest())
        with pytest.raises(SessionExistsError):
            await runtime.create_session(CreateBashSessionRequest())
        await runtime.run_in_session(in_session("x=42; cd /; alias greet='echo hello'"))
        assert (await runtime.run_in_session(in_session("echo $x $PWD\ngreet"))).output == "42 /\nhello\n"
        assert (await runtime.run_in_session(in_session("printf '\n  x'"))).output == "\n  x"
        assert (await runtime.run_in_session(in_session("cat <<EOF\na\nEOF\n(exit 7)", check="silent"))).exit_code == 7
        with pytest.raises(NonZeroExitCodeError, match="why: .*code 1"):
            await runtime.run_in_session(in_session("false", error_msg="why"))
        with pytest.raises(BashIncorrectSyntaxError) as wrong:
            await runtime.run_in_session(in_session("(a"))
        assert wrong.value.extra_info["bash_stderr"]
        big = await runtime.run_in_session(in_session("head -c 3000000 /dev/zero | tr '\\0' x; echo", timeout=60))
        assert big.output == "x" * 3_000_000 + "\n"
        with pytest.raises(CommandTimeoutError):
            await runtime.run_in_session(in_session("sleep 1000", timeout=0.2))
        await runtime.run_in_session(BashInterruptAction(timeout=5))
        assert (await runtime.run_in_session(in_session("echo on"))).output == "on\n"
        both = await asyncio.gather(*[runtime.run_in_session(in_session(f"echo {one}")) for one in range(5)])
        assert [one.output for one in both] == [f"{one}\n" for one in range(5)], "two runs at once wait for each other"
        await runtime.close_session(CloseBashSessionRequest())
        with pytest.raises(SessionDoesNotExistError):
            await runtime.run_in_session(in_session("true"))
    run(work)


def test_an_interactive_program(run):
    async def work(runtime):
        await runtime.create_session(CreateBashSessionRequest())
        told = await runtime.run_in_session(in_session("python3", is_interactive_command=True, expect=[">>> "]))
        assert told.expect_string == ">>> "
        told = await runtime.run_in_session(in_session("print('hello ' + 'world')", is_interactive_command=True, expect=[">>> "]))
        assert told.output == "hello world"
        await runtime.run_in_session(in_session("quit()\n", is_interactive_quit=True))
        assert (await runtime.run_in_session(in_session("echo back"))).output == "back\n"
        await runtime.close()
    run(work)


def test_the_shell_ends(run):
    async def work(runtime):
        await runtime.create_session(CreateBashSessionRequest())
        with pytest.raises(Exception, match="shell has ended"):
            await runtime.run_in_session(in_session("exit 3"))
        with pytest.raises((SessionDoesNotExistError, SwerexException)):
            while True:  # the job ends a moment after its answer
                await runtime.run_in_session(in_session("true"))
        await runtime.close()
    run(work)


def test_commands(run):
    async def work(runtime):
        told = await runtime.execute(Command(command=["echo", "-n", "a b"]))
        assert (told.stdout, told.stderr, told.exit_code) == ("a b", "", 0)
        told = await runtime.execute(Command(command="echo out; echo $A >&2; pwd; exit 3", shell=True, env={"A": "err"}, cwd="/"))
        assert (told.stdout, told.stderr, told.exit_code) == ("out\n/\n", "err\n", 3)
        told = await runtime.execute(Command(command="echo out; echo err >&2", shell=True, merge_output_streams=True))
        assert (told.stdout, told.stderr) == ("out\nerr\n", "")
        with pytest.raises(NonZeroExitCodeError):
            await runtime.execute(Command(command=["false"], check=True))
        with pytest.raises(CommandTimeoutError):
            await runtime.execute(Command(command="sleep 1000; true", shell=True, timeout=0.1))
        with pytest.raises(FileNotFoundError):
            await runtime.execute(Command(command=["no-such-program"]))
        assert "denied" in (await runtime.execute(Command(command="cat /etc/shadow", shell=True))).stderr
    run(work)


def test_files(run, workdir):
    async def work(runtime):
        await runtime.write_file(WriteFileRequest(path="deep/er/file", content="é\n" * 500_000))
        assert (await runtime.read_file(ReadFileRequest(path="deep/er/file"))).content == "é\n" * 500_000
        with pytest.raises(FileNotFoundError):
            await runtime.read_file(ReadFileRequest(path="none"))
        with pytest.raises(PermissionError):
            await runtime.read_file(ReadFileRequest(path="/etc/shadow"))
        with pytest.raises(PermissionError):
            await runtime.write_file(WriteFileRequest(path="/etc/planted", content=""))
        source = workdir / "source"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "bytes").write_bytes(bytes(range(256)) + b"\r\n--\r\n")
        await runtime.upload(UploadRequest(source_path=str(source), target_path="copy"))
        await runtime.upload(UploadRequest(source_path=str(source / "sub" / "bytes"), target_path="one/bytes"))
        for one in ("copy/sub/bytes", "one/bytes"):
            assert Path(one).read_bytes() == bytes(range(256)) + b"\r\n--\r\n"
    run(work)


def test_who_may_ask_and_reports(service):
    async def work():
        async with aiohttp.ClientSession() as session:
            async def post(path, body, **headers):
                async with session.post(service + path, json=body, headers=headers) as response:
                    return response.status, await response.json()
            assert (await post("/execute", {"command": ["true"]}))[0] == 401
            assert (await post("/execute", {"command": ["true"]}, **{"X-API-Key": "wrong"}))[0] == 401
            status, told = await post("/execute", {"command": ["cat", "/etc/shadow"]}, **{"X-API-Key": TOKEN})
            assert status == 200 and told["report"]["denials"], told
    asyncio.run(work())
    assert not (set(os.listdir()) - {"token"})
