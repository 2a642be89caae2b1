"""In xterm a prompt takes the screen, and afterwards every pixel is as it was."""
from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest

import harness
from approvers import runtime
from test_approval import Room, room  # noqa: F401 (a fixture)

TOOLS = ("xterm", "Xvfb", "import")
pytestmark = pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}")


@pytest.fixture(scope="module")
def display():
    """A screen that nobody sees; who knows its number may draw on it."""
    reading, writing = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(writing), "-ac", "-nolisten", "tcp", "-screen", "0", "1000x700x24"],
                              pass_fds=(writing,), stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        number = pipe.readline().strip()
    assert number, "Xvfb has not started"
    yield f":{number}"
    server.terminate()
    server.wait(harness.DEADLINE)


def picture(display: str) -> bytes:
    return subprocess.run(["import", "-display", display, "-window", "root", "ppm:-"], capture_output=True, check=True,
                          timeout=harness.DEADLINE).stdout


def test_a_prompt_leaves_the_screen_as_it_was(room, display):
    ready, go = room.free / "ready", room.free / "go"
    script = (f"printf '\\033[?25l'; seq 20; : > {ready}; while ! [ -e {go} ]; do sleep 0.05; done; "
              f"cat {room.file} 2>/dev/null; sleep 600")
    line, log = room.box.command(["/bin/bash", "--norc", "-c", script], room.rules(), ["-q", "--ask", "tty", "--ask-timeout", "4s"])
    environment = {**room.box.environment(runtime(room.box)), "DISPLAY": display}
    terminal = room.box.start(["xterm", "-geometry", "120x30+0+0", "-e", shlex.join(line)], env=environment,
                              stderr=subprocess.DEVNULL)

    def recorded(action: str) -> list[dict]:
        return [one for one in harness.read_log(log) if one["event"]["action"] == action]

    harness.until(ready.exists, "the command's output")
    seen = [b""]

    def still() -> bool:
        seen.append(picture(display))
        return seen[-1] == seen[-2] and len(set(seen[-1])) > 1

    harness.until(still, "a screen that has been drawn")
    go.touch()
    harness.until(lambda: recorded("prompt.shown") and picture(display) != seen[-1], "the prompt")
    harness.until(lambda: recorded("prompt.answered"), "that nobody answers")
    assert recorded("prompt.answered")[0]["callgate"]["answer"] == "deny"
    harness.until(lambda: picture(display) == seen[-1], "the screen as it was")
    terminal.terminate()
    terminal.wait(harness.DEADLINE)


REACH = r"""
import socket, sys
for name in ("/tmp/.X11-unix/X" + sys.argv[1], "\0/tmp/.X11-unix/X" + sys.argv[1]):
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(name)
        print("reached")
    except OSError as error:
        print(error.errno)
"""


def test_the_command_reaches_no_screen_to_type_at(room, display):
    """A program that reaches the screen's server can type into every window."""
    line = ["/usr/bin/python3", "-c", REACH, display[1:]]
    bare = room.box.run(line, supervised=False).out.split()
    assert b"reached" in bare, bare
    held = room.box.run(line, room.rules())
    assert held.out.split() == [b"111" if one == b"reached" else one for one in bare], held.describe()
