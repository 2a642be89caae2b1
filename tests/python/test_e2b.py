"""`callgate exec --http` behind E2B's own clients: `e2b` and `e2b_code_interpreter`."""
from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from served import TOKEN, encrypted, serving

pytest.importorskip("e2b_code_interpreter")
from e2b import (
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    SandboxException,
    TimeoutException,
)
from e2b.exceptions import AuthenticationException
from e2b_code_interpreter import AsyncSandbox, Sandbox


@pytest.fixture
def service(binary, workdir, monkeypatch):
    for name in [name for name in os.environ if name.startswith("E2B_")]:
        monkeypatch.delenv(name)
    with serving(binary, workdir, monkeypatch) as address:
        yield address


@pytest.fixture
def url(service):
    return f"{service}/{TOKEN}"


@pytest.fixture
def sandbox(url):
    return Sandbox.create(debug=True, sandbox_url=url)


def test_over_tls(binary, workdir, monkeypatch):
    """It comes first: the client reads the authorities that it trusts once."""
    with serving(binary, workdir, monkeypatch, *encrypted(binary, workdir, monkeypatch)) as address:
        assert address.startswith("https://")
        sandbox = Sandbox.create(debug=True, sandbox_url=f"{address}/{TOKEN}")
        pieces = []
        assert sandbox.commands.run("head -c 300000 /dev/zero | tr '\\0' x", on_stdout=pieces.append).stdout == "x" * 300_000
        assert "".join(pieces) == "x" * 300_000 and sandbox.run_code("6 * 7").text == "42"
        reads = sandbox.commands.run("cat", background=True, stdin=True)
        reads.send_stdin("in\n")
        assert next(iter(reads)) == ("in\n", None, None)
        reads.close_stdin()
        assert reads.wait().exit_code == 0


def test_commands(sandbox):
    assert sandbox.is_running()
    told = sandbox.commands.run("echo out; echo $A >&2; pwd", envs={"A": "err"}, cwd="/")
    assert (told.stdout, told.stderr, told.exit_code) == ("out\n/\n", "err\n", 0)
    with pytest.raises(CommandExitException) as wrong:
        sandbox.commands.run("cat /etc/shadow; exit 3")
    assert wrong.value.exit_code == 3 and "denied" in wrong.value.stderr
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 1000", timeout=0.5)
    big = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout
    assert big == "x" * 3_000_000
    pieces = []
    sandbox.commands.run("printf '\\xff\\xc3'; printf '\\xa9'", on_stdout=pieces.append)
    assert "".join(pieces) == "\N{REPLACEMENT CHARACTER}é"


def test_a_command_in_the_background(sandbox):
    reads = sandbox.commands.run("read -r x; echo got $x; cat", background=True, stdin=True)
    assert [one.pid for one in sandbox.commands.list()] == [reads.pid]
    reads.send_stdin("a\n")
    assert next(iter(reads)) == ("got a\n", None, None)
    reads.send_stdin("b\n")
    reads.close_stdin()
    told = reads.wait()
    assert told.stdout.endswith("b\n") and told.exit_code == 0 and sandbox.commands.list() == []
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(reads.pid, "late")
    sleeps = sandbox.commands.run("sleep 1000", background=True)
    assert sleeps.kill() is True
    with pytest.raises(CommandExitException) as ended:
        sleeps.wait()
    assert "ended" in ended.value.error
    assert sleeps.kill() is False
    sandbox.commands.run("sleep 1000", background=True).disconnect()
    while sandbox.commands.list():  # it ends with its connection
        pass


def test_files(sandbox, workdir):
    assert sandbox.files.write("deep/er/file", "é\n" * 1000).path == str(workdir / "deep/er/file")
    assert sandbox.files.read("deep/er/file") == "é\n" * 1000
    every = bytes(range(256)) + b"\r\n--\r\n"
    sandbox.files.write_files([{"path": "many/a", "data": every}, {"path": 'many/"b', "data": ""}])
    assert bytes(sandbox.files.read("many/a", format="bytes")) == every and Path('many/"b').read_bytes() == b""
    sandbox.files.write("many/c", iter([every, b"end"]))
    assert b"".join(sandbox.files.read("many/c", format="stream")) == every + b"end"
    Path("many/link").symlink_to("a")
    assert [(one.name, one.type.value, one.size) for one in sandbox.files.list("many")] == [
        ('"b', "file", 0), ("a", "file", 262), ("c", "file", 265), ("link", "symlink", 1)]
    assert {one.name for one in sandbox.files.list(".", depth=2)} >= {"deep", "er", "a"}
    assert sandbox.files.exists("many/link") and not sandbox.files.exists("none")
    assert sandbox.files.make_dir("new/dir") is True and sandbox.files.make_dir("new/dir") is False
    assert sandbox.files.rename("many/a", "moved/here").path == str(workdir / "moved/here")
    assert sandbox.files.get_info("moved/here").permissions.startswith("-rw")
    sandbox.files.remove("many/link")
    sandbox.files.remove("many")
    sandbox.files.remove("many")
    assert not os.path.lexists("many") and Path("moved/here").read_bytes() == every
    for wrong, asked in ((FileNotFoundException, "none"), (InvalidArgumentException, "moved"), (InvalidArgumentException, "a\0b")):
        with pytest.raises(wrong):
            sandbox.files.read(asked)


def test_what_rules_deny(sandbox, workdir):
    Path("leads").symlink_to("/etc/shadow")
    files = sandbox.files
    for call in (lambda: files.read("/etc/shadow"), lambda: files.read("leads"), lambda: files.read("../../../../../../../etc/shadow"),
                 lambda: files.write("/etc/planted", ""), lambda: files.make_dir("/etc/planted"),
                 lambda: files.rename("leads", "/etc/planted"), lambda: files.remove("/etc/hostname")):
        with pytest.raises(SandboxException, match="(?i)denied"):
            call()
    assert sandbox.run_code("open('/etc/shadow')").error.name == "PermissionError"
    assert not os.path.lexists("/etc/planted")


def test_cells(sandbox):
    first = sandbox.run_code("import sys, os\nx = 41\nprint('out'); print('err', file=sys.stderr)\nx + 1")
    assert (first.text, first.logs.stdout, first.logs.stderr, first.error) == ("42", ["out\n"], ["err\n"], None)
    assert "".join(sandbox.run_code("os.system('echo sub'); print(x, end='')").logs.stdout) == "sub\n41"
    wrong = sandbox.run_code("def f():\n    1/0\nf()")
    assert wrong.error.name == "ZeroDivisionError" and "<cell 3>" in wrong.error.traceback and wrong.execution_count == 3
    assert sandbox.run_code("def (").error.name == "SyntaxError"
    assert sandbox.run_code("os.environ['Q']", envs={"Q": "set"}).text == "'set'"
    assert sandbox.run_code("'Q' in os.environ").text == "False"
    shown = sandbox.run_code("class H:\n    def _repr_html_(self): return '<b>'\ndisplay(H())\n"
                             "import asyncio\nawait asyncio.sleep(0, 'slept')")
    assert [(one.html, one.text) for one in shown.results][0][0] == "<b>" and shown.text == "'slept'"
    with pytest.raises(TimeoutException):
        sandbox.run_code("import time; time.sleep(1000)", timeout=0.5)
    assert sandbox.run_code("x").text == "41", "the cell was interrupted, and the context stays"
    assert sandbox.run_code("os._exit(1)").error.name == "ContextEnded"
    assert sandbox.run_code("'x' in dir()").text == "False"


def test_contexts(sandbox, workdir):
    sandbox.files.make_dir("place")
    one = sandbox.create_code_context(cwd="place")
    assert one.cwd == str(workdir / "place") and [each.id for each in sandbox.list_code_contexts()] == [one.id]
    sandbox.run_code("x = 1", context=one)
    assert sandbox.run_code("x", context=one).text == "1" and sandbox.run_code("x").error.name == "NameError"
    sandbox.remove_code_context(one)
    with pytest.raises(NotFoundException):
        sandbox.run_code("x", context=one)
    with pytest.raises(NotFoundException):
        sandbox.create_code_context(cwd="none")


def test_a_sandbox_of_its_own(url, service):
    one, two = (Sandbox.create(api_url=url, sandbox_url=url, api_key="any") for _ in range(2))
    sleeps = two.commands.run("sleep 1000", background=True)
    one.run_code("x = 1")
    assert one.kill() is True and two.kill(request_timeout=5) is True
    with pytest.raises(CommandExitException):
        sleeps.wait()
    while one.list_code_contexts():  # it ends a moment after its answer
        pass
    assert one.run_code("'x' in dir()").text == "False"
    with pytest.raises(SandboxException, match="envVars"):
        Sandbox.create(api_url=url, sandbox_url=url, api_key="any", envs={"A": "b"})
    with pytest.raises(AuthenticationException):
        Sandbox.create(debug=True, sandbox_url=service + "/wrong").commands.run("true")


def test_what_is_not_offered(sandbox):
    for call in (lambda: sandbox.pty.create(PtySize(80, 24)), lambda: sandbox.files.watch_dir("."), lambda: sandbox.commands.connect(1),
                 lambda: sandbox.commands.run("true", user="root"), lambda: sandbox.files.read("token", user="root"),
                 lambda: sandbox.files.write("x", "1", metadata={"a": "b"}), lambda: sandbox.files.write("x", "1", gzip=True),
                 lambda: sandbox.run_code("1", language="r"), lambda: sandbox.restart_code_context("default")):
        with pytest.raises(SandboxException, match="(?i)unimplemented|501"):
            call()


def test_the_client_that_waits_for_many(url):
    async def work():
        sandbox = await AsyncSandbox.create(debug=True, sandbox_url=url)
        told = await asyncio.gather(*(sandbox.commands.run(f"echo {one}") for one in range(8)), sandbox.run_code("6*7"))
        return [one.stdout for one in told[:-1]], told[-1].text
    assert asyncio.run(work()) == ([f"{one}\n" for one in range(8)], "42")
