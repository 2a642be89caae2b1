"""Each fault is met, and none may leave anything behind."""
from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from callgate import CallgateError, CallgateNotFound, Sandbox
from questions import alive, sleeper, until


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def test_nothing_is_left_open_no_thread_no_file(workdir):
    Sandbox().run("true")
    threads, before = threading.active_count(), descriptors()
    for _ in range(3):
        Sandbox(on_ask=lambda _: True).run("cat /root/x; exit 1", input=b"1", timeout=50)
        asyncio.run(Sandbox(rules={"version": 1, "extends": ["agent"], "rules": []}).arun("true", input=b"1" * 100_000))
        Sandbox().run_code("bash", "true\n" * 50_000)
        Sandbox().audit("true")
        with pytest.raises(CallgateError):
            Sandbox(profile="nope").run("true")
        with pytest.raises(CallgateError):
            Sandbox(binary="/nope").audit("true")
        with pytest.raises(CallgateError):
            Sandbox(rules={"x": "y" * 200_000}, on_ask=print).run("true")
    assert descriptors() == before and not list(workdir.iterdir())
    asyncio.run(until(lambda: threading.active_count() == threads, "the answering threads have ended"))


def test_async_runs_make_no_thread():
    async def count():
        run = asyncio.ensure_future(Sandbox(on_ask=lambda _: True).arun("sleep 0.2"))
        await asyncio.sleep(0.1)
        found = threading.active_count()
        await run
        return found
    before = threading.active_count()
    assert asyncio.run(count()) == before


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_the_tree_ends_with_the_program_that_ran_it(how, workdir):
    word = sleeper()
    program = f"from callgate import Sandbox\nSandbox().run('setsid sleep {word} & touch up; sleep {word}')"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    asyncio.run(until(lambda: (workdir / "up").exists(), "the command runs"))
    process.send_signal(getattr(signal, how))
    _, told = process.communicate()
    assert process.returncode != 0 and (how != "SIGINT" or b"KeyboardInterrupt" in told)
    asyncio.run(until(lambda: not alive(word), "the tree has ended"))


@pytest.mark.parametrize("way", ["run", "arun"])
def test_a_killed_callgate_is_named_and_its_tree_ended(way):
    word = sleeper()

    def kill():
        end = time.monotonic() + 30
        while not alive(word) and time.monotonic() < end:
            time.sleep(0.01)
        for entry in os.listdir("/proc"):
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if b"run" in line and any(word.encode() in one for one in line) and int(parent) == os.getpid():
                os.kill(int(entry), signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(CallgateError, match="killed by signal 9") as caught:
        command = f"echo out; sleep {word}; true"
        _ = Sandbox().run(command) if way == "run" else asyncio.run(Sandbox().arun(command))
    thread.join()
    assert caught.value.result.stdout == b"out\n" and not alive(word)


def test_what_is_wrong_is_named(tmp_path, workdir, monkeypatch):
    old, other, broken = tmp_path / "old", tmp_path / "other", tmp_path / "broken"
    for path, text in ((old, "echo callgate 0.0.9; exit 125"), (other, "echo hello; exit 1"), (broken, "kill -9 $$")):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    for words, kind, told in [
        ({"profile": "pyhton"}, CallgateError, "unknown profile pyhton; did you mean python"),
        ({"rules": {"version": 1, "rulse": []}}, CallgateError, "rulse"),
        ({"rules": "/no/rules.json"}, CallgateError, "/no/rules.json"),
        ({"workdir": "/no/such"}, CallgateError, "/no/such"),
        ({"binary": "/no/callgate"}, CallgateNotFound, "/no/callgate"),
        ({"binary": "/etc/passwd"}, CallgateNotFound, "cannot be executed"),
        ({"binary": str(old)}, CallgateError, "too old: version 0.0.9"),
        ({"binary": str(other)}, CallgateError, "is not callgate"),
        ({"binary": str(broken)}, CallgateError, "signal 9"),
        ({"memory": "much"}, CallgateError, "much"),
    ]:
        with pytest.raises(kind, match=told):
            Sandbox(**words).run("true")
        with pytest.raises(kind, match=told):
            asyncio.run(Sandbox(**words).arun("true"))
    for words in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}):
        with pytest.raises(ValueError, match="more than 0 seconds"):
            Sandbox(**words)
    with pytest.raises(CallgateError, match="the command is empty"):
        Sandbox().run([])
    with pytest.raises(CallgateError, match="NUL byte"):
        Sandbox().run("a\0b")
    with pytest.raises(CallgateError, match="too long|Argument list"):
        Sandbox().run(["echo", "x" * 300_000])
    gone = tmp_path / "gone"
    gone.mkdir()
    sandbox = Sandbox(workdir=gone)
    assert sandbox.run("true").exit_code == 0
    gone.rmdir()
    with pytest.raises(CallgateError, match="gone"):
        sandbox.run("true")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CallgateNotFound, match="install the package's wheel"):
        Sandbox().run("true")


def test_no_home_and_no_state_are_needed(monkeypatch):
    for name in ("HOME", "XDG_STATE_HOME", "USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    assert Sandbox().run("echo $((2+3))").text == "5\n"


def test_doctor_and_the_other_verbs(binary):
    told = subprocess.run([sys.executable, "-m", "callgate", "doctor"], capture_output=True, text=True,
                          env={**os.environ, "CALLGATE": binary}, check=False)
    assert told.stdout.startswith("package   ") and f"program   {binary}, " in told.stdout and "andlock" in told.stdout
    told = subprocess.run([sys.executable, "-m", "callgate", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("callgate ")
    told = subprocess.run([sys.executable, "-m", "callgate", "doctor"], capture_output=True, text=True,
                          env={**os.environ, "PATH": "/nowhere", "CALLGATE": ""}, check=False)
    assert told.returncode == 125 and "was not found" in told.stderr
