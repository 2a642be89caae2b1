"""Programs that rule their terminal, relayed: what a person sees is what they see bare, questions in between or not."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import harness
from outer import Tmux
from test_approval import Room, room  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


def needs(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def rules(room: Room) -> dict:
    """The machine is read as it is, but for what is asked."""
    return {"version": 1, "default": "allow", "rules": [
        {"id": "question", "ask": ["read", "write"], "path": f"{room.asked}/**"}]}


def in_foreground(pid: int, name: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    state, _, group, _, _, foreground = fields.rpartition(")")[2].split()[:6]
    return f"({name})" in fields and state == "S" and group == foreground


class Both:
    """The same program bare and relayed, each in a tmux; keys go to both."""

    def __init__(self, room: Room, *words: str, term: str = "", **more) -> None:
        line, self.log = room.box.command(list(words), rules(room), ["-q", "--ask", "tty"])
        self.bare, self.relayed = (Tmux(room.box, one, term=term, **more) for one in (list(words), line))

    def type(self, *keys: str) -> None:
        for one in (self.bare, self.relayed):
            one.type(*keys)

    def resize(self, columns: int, rows: int) -> None:
        for one in (self.bare, self.relayed):
            one.resize(columns, rows)

    def same(self, wanted: str) -> str:
        """Both screens, when they hold `wanted`: they become equal."""
        bare = self.bare.sees(wanted)
        return self.relayed.until(lambda screen: wanted in screen and screen == self.bare.screen(),
                                  f"the screen that is seen bare:\n{bare}")

    def runs(self, name: str) -> None:
        """Until a process called so is in the foreground of both."""
        for one in (self.bare, self.relayed):
            shell = int(one.do("display-message", "-p", "#{pane_pid}"))
            harness.until(lambda: any(in_foreground(pid, name) for pid in [shell, *harness.descendants(shell)]), f"{name} runs")

    def ask(self, *keys: str, answer: str = "s") -> None:
        """Keys that make the relayed one ask a question, and its answer: programs open a file more than once."""
        self.type(*keys)
        self.relayed.prompted()
        self.relayed.type(answer, "Enter")

    def close(self) -> None:
        self.bare.close()
        self.relayed.close()


@pytest.fixture
def both(room):
    made = []

    def make(*words: str, **more) -> Both:
        made.append(Both(room, *words, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


TERMS = ["", "linux", *(["xterm-256color", "vt220"] if harness.SOAK else [])]  # "": what tmux calls itself


@pytest.mark.parametrize("term", TERMS)
def test_vim_looks_and_writes_as_bare(room, both, term):
    needs("vim")
    work = room.box.file(room.free / "text", b"one\ntwo\nthree\n")
    pair = both("vim", "-u", "NONE", "-i", "NONE", "-n", "-N", str(work), term=term)
    pair.same("three")
    pair.type("Ofirst line", "Escape")
    pair.same("first line")
    pair.ask(f":r {room.file}", "Enter")
    pair.same("asked content")
    pair.resize(70, 20)
    pair.same("asked content")
    pair.type("dd")
    pair.same("first line\none\ntwo")
    pair.relayed.type(":wq", "Enter")
    harness.until(lambda: harness.read_log(pair.log)[-1]["event"]["action"] == "run.end", "the end")
    assert work.read_bytes() == b"first line\none\ntwo\nthree\n"


@pytest.mark.parametrize("term", TERMS)
def test_less_scrolls_as_bare(room, both, term):
    text = room.box.file(room.free / "text", "".join(f"line {n}\n" for n in range(1, 501)).encode())
    pair = both("less", str(text), term=term)
    pair.same("line 29")
    pair.type("Space")
    pair.same("line 58")
    pair.ask(f":e {room.file}", "Enter")
    pair.relayed.sees("asked content")
    pair.type("C-l")  # told to draw again, it says less in its last line
    pair.same("asked content")
    pair.type(":p", "Enter")
    pair.same("line 58")
    pair.type("g")
    pair.same("line 29")
    pair.resize(60, 10)
    pair.same("line 9")
    pair.type("G")
    pair.same("line 500")
    pair.type("g", "/line 77", "Enter")
    pair.same("line 77")


def test_less_of_a_pipe_reads_its_keys(room, both):
    pair = both("/bin/sh", "-c", "seq 500 | less")
    pair.same("29")
    pair.type("Space")
    pair.same("58")
    pair.type("q")


@pytest.mark.parametrize("term", TERMS)
def test_python_edits_lines_and_asks_in_between(room, both, term):
    pair = both("/usr/bin/python3", "-q", term=term)
    pair.same(">>>")
    pair.type("6 * 7x", "BSpace", "Enter")
    pair.same("42")
    pair.ask(f"open('{room.file}').read()", "Enter")
    pair.same("'asked content'")
    pair.type("Up", "Up", "Home", "-", "Enter")
    pair.same("-42")
    pair.type("1/0", "Enter")
    pair.same("ZeroDivisionError")
    pair.type("import time; print(6 * 9); time.sleep(600)", "Enter")
    pair.same("\n54\n")
    pair.type("C-c")
    pair.same("KeyboardInterrupt")


@pytest.mark.parametrize("term", TERMS)
def test_a_shell_controls_its_jobs_as_bare(room, both, term):
    pair = both("/bin/bash", "--norc", "--noprofile", "-i", term=term)
    pair.same("bash-")
    pair.type("sleep 600", "Enter")
    pair.runs("sleep")
    pair.type("C-z")
    pair.same("Stopped")
    pair.type("clear; jobs | wc -l", "Enter")
    pair.same("1\n")
    pair.type("fg", "Enter")
    pair.same("sleep 600\n")
    pair.runs("sleep")
    pair.type("C-c")
    pair.same("^C")
    pair.ask(f"clear; cat {room.file}", "Enter")
    pair.same("asked content")


def test_htop_fills_the_screen_whatever_its_size_and_ends(room, both):
    """Its numbers change from moment to moment: only what does not is looked at."""
    needs("htop")
    pair = both("htop", "-d", "10")
    for columns, rows in ((100, 30), (120, 40), (80, 20)):
        pair.resize(columns, rows)
        for one in (pair.bare, pair.relayed):
            one.until(lambda screen: "F10Quit" in screen.split("\n")[rows - 1] and "Load average" in screen and
                      re.search(r"^ *Mem\[", screen, re.MULTILINE), f"its meters, and its keys in line {rows}")

    def ended() -> bool:  # what is typed while it starts it throws away
        pair.relayed.type("q")
        return harness.read_log(pair.log)[-1]["event"]["action"] == "run.end"

    harness.until(ended, "the end")
