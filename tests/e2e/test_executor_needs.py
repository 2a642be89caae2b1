"""The needs of executors of agents (docs/executors.md): they hold the pipes, the terminal and the pid of `callgate run`, and
kill it as they like. The profile is the default, `agent`."""
from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

import harness

MOMENTS = 400 if harness.SOAK else 20
STUBBORN = "trap '' TERM HUP INT; sleep 1000 & setsid -f sleep 1000; (setsid sh -c 'sleep 1000 & exit' &); echo ready; while :; do sleep 1; done"


def line(box: harness.Box, *command: str, options: list[str] = []) -> list[str]:
    return [str(box.callgate), "run", "-q", "--no-audit", *options, "--", *command]


def start(box: harness.Box, *command: str, options: list[str] = [], **keywords) -> subprocess.Popen[bytes]:
    keywords = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords}
    return box.start(line(box, *command, options=options), **keywords)


# ---- 1. SIGKILL of callgate ends the tree ----

@pytest.mark.parametrize("whole_group", [False, True])
def test_sigkill_ends_the_tree_and_closes_its_pipes(box, whole_group):
    """As subprocess.run(timeout) does, or os.killpg: nobody is left to clean up, and readers must see the end."""
    marker = f"CG_MARK={box.root}"
    process = start(box, "bash", "-c", STUBBORN, options=["--env", marker], start_new_session=True)
    harness.read_until(process.stdout.fileno(), b"ready")
    harness.until(lambda: len(harness.marked(marker)) >= 4, "the whole tree")
    harness.kill_group_of(process.pid) if whole_group else process.kill()
    assert process.stdout.read() == b""  # at the end of the last who held it
    assert process.wait(harness.DEADLINE) == -signal.SIGKILL and harness.marked(marker) == []


# Starts its arguments, and ends a moment after callgate has seen who its parent is: then it holds SIGTERM back.
PARENT = """
import re, signal, subprocess, sys, time
child = subprocess.Popen(sys.argv[2:])
held = 0
while not held >> signal.SIGTERM - 1 & 1:
    held = int(re.search(r"SigBlk:\\s*(\\w+)", open(f"/proc/{child.pid}/status").read())[1], 16)
time.sleep(float(sys.argv[1]))
"""


def test_the_end_of_the_parent_ends_the_tree_where_that_is_wanted(box):
    """--die-with-parent: also where the parent is gone before callgate has asked the kernel for it."""
    marker = f"CG_MARK={box.root}"
    for moment in range(MOMENTS):
        report = box.tree / f"report{moment}"
        command = line(box, "sleep", "1000", options=["--die-with-parent", "--env", marker, "--report", str(report)])
        parent = box.start(["/usr/bin/python3", "-c", PARENT, str(0.0007 * (moment % 20)), *command],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert parent.communicate(timeout=harness.DEADLINE) == (b"", b""), moment  # callgate itself has ended, too
        assert harness.marked(marker) == [], moment


# ---- 2. it returns when the command itself has ended ----

def test_it_returns_although_a_descendant_holds_the_output(box):
    marker = f"CG_MARK={box.root}"
    script = "(trap '' TERM HUP; setsid sleep 1000) & setsid -f sleep 1000; echo out; exit 3"
    process = start(box, "bash", "-c", script, options=["--env", marker])
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (process.returncode, out, err) == (3, b"out\n", b"") and harness.marked(marker) == []


def test_it_waits_where_that_is_wanted_and_says_when_the_command_has_ended(box):
    os.mkfifo(box.tree / "go")
    box.own(box.tree / "go")
    reading, writing = os.pipe()
    process = start(box, "bash", "-c", "(read word < go; echo $word) & exit 3",
                    options=["--background", "wait", "--status", f"fd:{writing}"], pass_fds=(writing,))
    os.close(writing)
    assert json.loads(harness.read_until(reading, b"\n")) == {"event": "command_ended", "exit_code": 3}
    assert process.poll() is None
    harness.as_user(box.user, lambda: (box.tree / "go").write_text("late\n"))
    assert process.communicate(timeout=harness.DEADLINE) == (b"late\n", b"") and process.returncode == 3
    assert os.read(reading, 100) == b""
    os.close(reading)


# ---- 3. byte-clean pipes ----

def test_a_session_over_pipes(box):
    """JSON-RPC as MCP servers speak it: line for line, any bytes, and the end of stdin is the end of the server."""
    server = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(b'got ' + line); sys.stdout.flush()\nsys.exit(7)"
    process = start(box, "python3", "-c", server, stdin=subprocess.PIPE)
    for message in (b'{"jsonrpc":"2.0","id":1}\n', bytes(range(256)).replace(b"\n", b"") + b"\n", b"\xff" * 70_000 + b"\n"):
        process.stdin.write(message)
        process.stdin.flush()
        assert harness.read_until(process.stdout.fileno(), message[-100:]).startswith(b"got " + message[:100])
    process.stdin.close()
    assert process.stdout.read() == b"" and process.wait(harness.DEADLINE) == 7 and process.stderr.read() == b""


@pytest.mark.parametrize("script, code", [
    ("cat /etc/shadow; echo > /denied; sleep 1000 & exit 0", 0), ("kill -SEGV $$", 139), ("sleep 1000", 124), ("exec {none}", 126)])
def test_quiet_means_that_nothing_of_callgates_is_written(box, script, code):
    none = box.file(box.tree / "none", b"no program")
    process = start(box, "bash", "-c", f"exec 2> /dev/null; {script.format(none=none)}", options=["--timeout", "1"])
    assert process.communicate(timeout=harness.DEADLINE) == (b"", b"") and process.returncode == code


# ---- 4. the terminal, signals and statuses ----

def on_a_terminal(box: harness.Box, *command: str, options: list[str] = []):
    """As the OpenAI SDK starts a shell: a session of its own, the pty its controlling terminal, then exec."""
    outer, inner = pty.openpty()
    if os.geteuid() == 0:
        os.fchown(inner, box.user.uid, box.user.gid)

    def become_leader() -> None:
        os.setsid()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

    # The terminal first: afterwards the process may not be root any more.
    process = subprocess.Popen(line(box, *command, options=options), stdin=inner, stdout=inner, stderr=inner, cwd=box.tree, env=box.environment(),
                               preexec_fn=become_leader, **box.user.popen_identity())
    box.running.append(process)
    os.close(inner)
    return process, outer


def test_a_controlling_terminal_is_handed_over(box):
    script = "test -t 0 && test -t 1 && : > /dev/tty && stty size && trap 'echo interrupted; exit 4' INT && echo ready; while :; do sleep 0.1; done"
    process, outer = on_a_terminal(box, "bash", "-c", script)
    try:
        termios.tcsetwinsize(outer, (33, 77)) if hasattr(termios, "tcsetwinsize") else None
        harness.read_until(outer, b"ready")
        os.write(outer, b"\x03")
        harness.read_until(outer, b"interrupted")
        assert process.wait(harness.DEADLINE) == 4
    finally:
        os.close(outer)


def in_foreground(pid: int) -> bool:
    """The groups of its terminal, which is the run's own if callgate asks on the caller's (proc_pid_stat(5): pgrp,
    tpgid)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[2] == fields[5]


@pytest.mark.parametrize("ask", ["auto", "never"])
def test_a_shell_with_job_control_on_the_terminal(box, ask):
    process, outer = on_a_terminal(box, "bash", "--norc", "--noprofile", "-i", options=["--ask", ask])
    try:
        os.write(outer, b"sleep 1000\n")
        sleeper = harness.until(lambda: [pid for pid in harness.descendants(process.pid)
                                         if harness.name_of(pid) == "sleep"], "sleep runs")[0]
        harness.until(lambda: in_foreground(sleeper), "sleep is in the foreground")
        os.write(outer, b"\x1a")
        harness.read_until(outer, b"Stopped")
        os.write(outer, b"fg\n")
        harness.until(lambda: in_foreground(sleeper), "sleep is in the foreground again")
        os.write(outer, b"\x03")
        harness.until(lambda: not harness.alive(sleeper), "sleep has ended")
        os.write(outer, b"exit 5\n")
        assert process.wait(harness.DEADLINE) == 5
    finally:
        os.close(outer)


def test_a_terminal_that_is_hung_up_ends_the_run(box):
    process, outer = on_a_terminal(box, "bash", "-c", "echo ready; while :; do sleep 0.1; done")
    harness.read_until(outer, b"ready")
    os.close(outer)
    assert process.wait(harness.DEADLINE) == 128 + signal.SIGHUP


@pytest.mark.parametrize("number, trap, code", [("TERM", "exit 9", 9), ("INT", "exit 9", 9), ("TERM", None, 143), ("INT", None, 130)])
def test_signals_are_passed_on(box, number, trap, code):
    # SIGINT is ignored by what a shell starts in the background, so this is a program that does not care. Python forgets
    # a signal that comes just before it falls asleep until it wakes.
    script = ("import os, signal, sys, time\n"
              f"{f'signal.signal(signal.SIG{number}, lambda *_: os._exit(9))' if trap else f'signal.signal(signal.SIG{number}, signal.SIG_DFL)'}\n"
              "print('ready', flush=True)\nwhile True: time.sleep(0.05)")
    process = start(box, "python3", "-c", script)
    harness.read_until(process.stdout.fileno(), b"ready")
    process.send_signal(getattr(signal, f"SIG{number}"))
    process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == code


# ---- 5. what programs find ----

def test_a_directory_that_is_not_there_is_not_there(box):
    """ENOENT outside the rules too, where the parent does not exist: programs tell the two apart."""
    script = ("import errno, os\n"
              "for what in (lambda: open('/nonexistent_dir/f', 'w'), lambda: os.mkdir('/nonexistent_dir/d'), lambda: open('/nonexistent_dir/f'),\n"
              "             lambda: os.rename('x', '/nonexistent_dir/x'), lambda: open('{outside}/none/f', 'w'), lambda: open('{outside}/f', 'w')):\n"
              "    try: what()\n"
              "    except OSError as error: print(errno.errorcode[error.errno])\n").format(outside=box.directory(box.root / "outside"))
    box.file(box.tree / "x")
    bare = box.run(["/usr/bin/python3", "-c", script.rpartition(", lambda")[0] + "):\n" + script.partition("):\n")[2]], supervised=False)
    assert bare.out == b"ENOENT\n" * 5, bare.describe()
    process = start(box, "python3", "-c", script)
    assert process.communicate(timeout=harness.DEADLINE) == (b"ENOENT\n" * 5 + b"EACCES\n", b"")


def make_environment(box: harness.Box, python: Path) -> Path:
    made = box.run([str(python), "-m", "venv", "--without-pip", str(box.tree / ".venv")], supervised=False)
    assert made.code == 0, made.describe()
    box.file(box.tree / ".venv/bin/tool", f"#!{box.tree}/.venv/bin/python\nimport sys; print(sys.prefix, sys.base_prefix)\n".encode(), 0o755)
    return box.tree / ".venv/bin"


@pytest.mark.parametrize("where", ["system", "home"])
def test_a_virtual_environment_in_the_work_directory_runs(box, where):
    """Its interpreter is a link to another, which may be the system's or one that uv or pyenv put into the home."""
    python, base = Path("/usr/bin/python3"), "/usr"
    if where == "home":
        real = python.resolve()
        base = f"{box.home}/.local/share/uv/python/cpython"
        python = box.file(Path(base, "bin", real.name), real.read_bytes(), 0o755)
        box.directory(Path(base, "lib"))
        harness.as_user(box.user, lambda: os.symlink(f"/usr/lib/{real.name}", f"{base}/lib/{real.name}"))
    bin = make_environment(box, python)
    for command in ([str(bin / "python"), "-c", "import sys, json; print(sys.prefix, sys.base_prefix)"], [str(bin / "tool")],
                    ["bash", "-c", f"PATH={bin}:$PATH; tool"]):
        bare = box.run(command, supervised=False)
        assert bare.text == f"{box.tree}/.venv {base}\n", bare.describe()
        process = start(box, *command)
        assert process.communicate(timeout=harness.DEADLINE) == (bare.out, b""), command
    # and a process list, for those who look for what they started
    process = start(box, "bash", "-c", "ps -o comm= -p $$; :")
    assert process.communicate(timeout=harness.DEADLINE) == (b"bash\n", b"")


# ---- 6. large things ----

def test_arguments_of_a_mebibyte_and_a_stdin_of_fifty(box):
    arguments = ["x" * 131_071] * 8
    # The shell waits for wc: a process that is left running is ended with the command.
    script = 'echo $# ${#1}; exec 3> >(wc -c >&2); counter=$!; tee /dev/fd/3 | md5sum; exec 3>&-; wait $counter'
    process = start(box, "bash", "-c", script, "bash", *arguments, stdin=subprocess.PIPE)
    data = os.urandom(1 << 20) * 50
    out, err = process.communicate(data, harness.DEADLINE)
    assert out.decode().split() == ["8", "131071", hashlib.md5(data).hexdigest(), "-"] and err == b"52428800\n", (out, err)
    assert process.returncode == 0
    logged = box.run(["bash", "-c", "echo $#", "bash", *arguments], audit=True)
    assert logged.out == b"8\n" and logged.audit[0]["event"]["action"] == "run.start", logged.out


# ---- 7. the report comes whatever ends the run ----

def reported(box: harness.Box, script: str, end, options: list[str] = [], ready: bytes = b"ready") -> dict:
    """The report of a run that is ended by `end(process)` after it was denied something."""
    reading, writing = os.pipe()
    process = start(box, "bash", "-c", f"cat /etc/shadow 2> /dev/null; {script}", pass_fds=(writing,), start_new_session=True,
                    options=["--report", f"fd:{writing}", *options])
    os.close(writing)
    harness.read_until(process.stdout.fileno(), ready)
    end(process)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    process.communicate(timeout=harness.DEADLINE)
    report = json.loads(text)
    assert text.count(b"\n") == 1, text
    report["status"] = process.returncode
    return report


def kill_guardian(process):
    os.kill(next(pid for pid in harness.children(process.pid) if harness.name_of(pid) == "callgate-guard"), signal.SIGKILL)


@pytest.mark.parametrize("script, end, options, status, outcome", [
    ("echo ready; exit 3", lambda process: None, [], 3, "exited"),
    ("echo ready; kill -SEGV $$", lambda process: None, [], 139, "signaled"),
    (STUBBORN, lambda process: None, ["--timeout", str(0.3 * harness.PATIENCE), "--grace", "0.1"], 124, "timeout"),
    (STUBBORN, lambda process: process.terminate(), ["--grace", "0.1"], 143, "cancelled"),
    (STUBBORN, lambda process: process.send_signal(signal.SIGHUP), ["--grace", "0.1"], 129, "cancelled"),
    ("echo ready; exec sleep 1000", lambda process: process.send_signal(signal.SIGINT), [], 130, "cancelled"),
    (STUBBORN, kill_guardian, [], 125, "cancelled"),
], ids=["exit", "signal", "timeout", "SIGTERM", "SIGHUP", "SIGINT", "guardian killed"])
def test_the_report_comes_with_the_denials_whatever_ends_the_run(box, script, end, options, status, outcome):
    report = reported(box, script, end, options)
    assert (report["status"], report["outcome"]) == (status, outcome), report
    assert [one["object"] for one in report["denials"]] == ["/etc/shadow"], report


def test_the_report_comes_where_nobody_reads_the_output(box):
    report = reported(box, "while echo ready; do :; done", lambda process: (process.stdout.close(), setattr(process, "stdout", None)))
    assert report["outcome"] in ("exited", "signaled") and report["status"] in (1, 141), report


def test_the_report_says_that_the_supervisor_was_lost(box):
    for end in (lambda process: process.kill(), lambda process: harness.kill_group_of(process.pid)):
        report = reported(box, STUBBORN, end)
        assert (report["status"], report["outcome"]) == (-signal.SIGKILL, "supervisor_lost"), report


def whole_run(box: harness.Box) -> float:
    """The seconds that an empty run takes here: the longest of three."""
    took = []
    for _ in range(3):
        begun = time.monotonic()
        assert start(box, "true").wait(harness.DEADLINE) == 0
        took.append(time.monotonic() - begun)
    return max(took)


def test_a_run_that_is_ended_while_it_begins_has_its_report_too(box):
    """SIGTERM at any moment: there is a report, or callgate was not yet callgate and died of the signal."""
    written, whole = 0, whole_run(box)
    for moment in range(MOMENTS):
        reading, writing = os.pipe()
        process = start(box, "sleep", "1000", pass_fds=(writing,), options=["--report", f"fd:{writing}"])
        os.close(writing)
        time.sleep(2 * whole * moment / MOMENTS)  # no condition is waited for: the moment is what varies
        process.terminate()
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        process.communicate(timeout=harness.DEADLINE)
        if text:
            assert (json.loads(text)["outcome"], process.returncode) == ("cancelled", 143), (moment, text)
            written += 1
        else:
            assert process.returncode == -signal.SIGTERM, moment
    assert written > 0, "no run came so far"


# ---- 8. many at once, and places that are not there ----

def test_eight_at_once_wait_for_nothing_of_each_other(box):
    """All eight are under way before any may end: nothing is held by one for its time. With logs, in one directory."""
    command = [str(box.callgate), "run", "-q", "--", "bash", "-c", "echo ready; while [ ! -e go ]; do sleep 0.02; done"]
    running = [box.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
    for process in running:
        harness.read_until(process.stdout.fileno(), b"ready\n")
    box.file(box.tree / "go")
    assert {process.wait(harness.DEADLINE) for process in running} == {0}
    assert len(list((box.state / "callgate").glob("*.jsonl"))) == 8


@pytest.mark.parametrize("unset", [["HOME"], ["HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "USER", "LOGNAME", "PATH"]])
def test_no_place_of_callgates_own_is_needed(box, unset):
    env = {name: value for name, value in box.environment().items() if name not in unset}
    process = start(box, "/bin/bash", "-c", "cat /etc/shadow 2> /dev/null; echo $HOME out", env=env, options=["--report", str(box.tree / "report")])
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (process.returncode, out.split()[-1:], err) == (0, [b"out"], b"")
    report = json.loads((box.tree / "report").read_text())
    assert report["audit"] is None and [one["object"] for one in report["denials"]] == ["/etc/shadow"], report
    assert sorted(one.name for one in box.state.rglob("*") if not one.is_dir()) in ([], ["link-roots", "name-lock", "pointer-roots"])
