"""`--ask tty`: the command has a terminal of its own, and questions are asked on the person's, between its bytes."""
from __future__ import annotations

import os
import shlex

import pytest

import harness
from approvers import Person
from outer import PROMPT, Outer, Tmux, shell
from test_approval import Room, room  # noqa: F401 (a fixture)


def start(room: Room, script: str, rules: dict | None = None, options: tuple[str, ...] = (), ask: str = "tty",
          **more) -> Outer:
    line, log = room.box.command(["/bin/bash", "--norc", "-c", script], rules or room.rules(), ["--ask", ask, *options])
    outer = Outer(room.box, line, **more)
    outer.log = log
    return outer


def answers(outer: Outer) -> list[tuple[str, str]]:
    return [(one["callgate"]["answer"], one["callgate"]["answered_by"]["channel"]) for one in harness.read_log(outer.log)
            if one["event"]["action"] == "prompt.answered"]


@pytest.mark.parametrize("keys, answer, out", [
    ("a\r", "allow", "asked content"), ("\r", "deny", ""), ("\x04", "deny", ""), ("\x03", "deny", ""), ("\x1b", "deny", ""),
], ids=["a", "enter", "end", "interrupt", "esc"])
def test_a_question_is_asked_and_answered_on_the_terminal(room, keys, answer, out):
    outer = start(room, f"echo before; cat {room.file}; echo after $?")
    shown = outer.prompted()
    assert f"object     {room.file}   (13 bytes)" in shown and "\x1b[?1049h" in shown
    outer.type(keys)
    rest = outer.sees("after")
    assert "\x1b[?1049l" in rest and (out in rest.partition("\x1b[?1049l")[2])
    outer.end()
    assert answers(outer) == [(answer, "tty")] and b"before\r\n" in outer.all


def test_a_question_that_the_screen_does_not_hold_can_only_be_denied_there(room):
    """A screen does not show what left it at its top. A larger one lets the same question be allowed."""
    deep = room.box.file(room.asked.joinpath(*["x" * 200] * 12, "file"), b"deep content")
    outer = start(room, f"cat {deep}; echo after $?", rows=24, columns=80)
    assert "more is hidden: v first" in outer.prompted()
    outer.type("v\r")
    shown = outer.prompted()
    assert "too long for this screen" in shown and "allow once" not in shown, shown
    outer.type("a\r")
    assert "deep content" not in outer.sees("not understood; Enter denies")
    outer.resize(150, 80)
    assert "a allow once" in outer.prompted()
    outer.type("a\r")
    assert "deep content" in outer.sees("after 0")
    outer.end()
    assert answers(outer) == [("allow", "tty")]


def test_what_was_typed_before_belongs_to_the_command_and_too_soon_to_nobody(room):
    outer = start(room, f"read line; cat {room.file}; echo got \"$line\"; read -t 1 rest; echo rest \"$rest\"")
    outer.type("a\n")
    shown = outer.sees("k kill")
    assert "question" in shown and "H> " not in shown
    outer.type("a\r")  # in the guard time
    outer.prompted()
    outer.type("\r")
    outer.sees("got a\r\n")
    outer.sees("rest \r\n")
    outer.end()
    assert answers(outer) == [("deny", "tty")]


def test_what_is_typed_too_late_reaches_nobody(room):
    """The question is answered elsewhere while the person types for it."""
    outer = start(room, f"cat {room.file}; read line; echo got \"$line\"", ask="auto")
    outer.prompted()
    outer.type("x")
    outer.sees("x")  # the line is begun
    person = Person(room.box)
    person.asked()
    person.answers("a")
    told = outer.sees("that question is over, answered elsewhere or denied; your line is dropped up to Enter")
    if "asked content" not in told:  # the command may be quicker
        outer.sees("asked content")
    outer.type("y\rnext\r")
    outer.sees("got next\r\n")
    outer.end()
    assert [answer for answer, channel in answers(outer) if channel == "socket"] == ["allow"]


@pytest.mark.parametrize("typed", ["\x1b[200~a\r\x1b[201~", "\x1b[200~x\ra\ra\x1b[201~", "\x1b[?62;1;2c", "\x1b]11;rgb:00/00/00\x07",
                                   "\x1b[<0;1;1M", "\x1bOA", "\x1ba", "\x1b[24;80R", "\x1bP1$r0 q\x1b\\", "\x1b_Ga;OK\x1b\\"])
def test_what_is_pasted_or_said_by_the_terminal_is_no_answer(room, typed):
    outer = start(room, f"cat {room.file}; echo after $?")
    outer.prompted()
    outer.type(typed)
    outer.type("z")
    outer.sees("z")  # the question is still there
    outer.type("\x7f\r")
    outer.sees("after 1\r\n")
    outer.end()
    assert answers(outer) == [("deny", "tty")]


def test_the_command_can_neither_draw_over_a_prompt_nor_read_its_keys(room):
    script = (f"(while sleep 0.02; do printf 'FORGED '; done) & cat {room.file}; kill $!; read -t 1 stolen; echo; echo stolen \"$stolen\"")
    outer = start(room, script)
    outer.sees("\x1b[?1049h")
    outer.prompted()
    outer.type("a\r")
    during = outer.sees("\x1b[?1049l")
    assert "FORGED" not in during
    assert "asked content" in outer.sees("stolen \r\n")
    outer.end()


@pytest.mark.parametrize("who", ["tty", "auto"])
def test_the_commands_terminal_is_another_one_and_the_persons_is_closed_to_it(room, who):
    outer = start(room, "tty; read outer; echo x > $outer; echo status $?; echo own > $(tty); echo own $?; "
                        "echo y > /dev/tty; echo tty $?; exit 3", ask=who)
    outer.sees("/dev/pts/")
    outer.type(outer.name + "\n")
    text = outer.sees("status 1")
    assert "Permission denied" in text and not text.startswith(outer.name.removeprefix("/dev/pts/") + "\r"), text
    outer.sees("own 0")
    outer.sees("tty 0")
    assert outer.end() == 3


def test_a_descriptor_of_the_persons_terminal_is_never_passed_on_beside_a_prompt(room):
    def outer(ask: str) -> Outer:
        line, log = room.box.command(["/bin/bash", "--norc", "-c", f"cat {room.file} 2>/dev/null; tty <&7; echo end"], room.rules(),
                                     ["-q", "--ask", ask, "--pass-fd", "7"])
        made = Outer(room.box, ["/bin/bash", "--norc", "-c", shlex.join(line) + " 7<>/dev/tty"])
        made.log = log
        return made

    refused = outer("tty")
    refused.sees("--pass-fd 7 is the terminal that you are asked on")
    assert refused.end() == 125
    unasked = outer("auto")  # then the terminal is no channel
    assert "/dev/tty" in unasked.sees("end")
    unasked.end()
    assert answers(unasked) == []


def test_its_size_follows(room):
    outer = start(room, "stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done")
    assert "40 150" in outer.sees("ready")
    outer.resize(30, 100)
    outer.sees("30 100")
    outer.end()


def test_bytes_pass_unchanged_both_ways(room):
    everything = bytes(range(256))
    program = room.box.file(room.free / "all.py", b"import os, tty\ntty.setraw(0)\nos.write(1, b'ready')\ngot = b''\n"
                            b"while len(got) < 256: got += os.read(0, 256)\nos.write(1, b'<' + got + b'>')\n")
    outer = start(room, f"exec /usr/bin/python3 {program}")
    outer.sees("ready")
    os.write(outer.master, everything)
    outer.end()
    assert b"<" + everything + b">" in outer.all


def test_interrupts_reach_the_command(room):
    outer = start(room, "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    outer.sees("ready\r\n")
    outer.type("\x03")
    outer.sees("interrupted")
    assert outer.end() == 5


def test_stop_and_continue_as_without_callgate(room):
    line, _ = room.box.command(["/bin/cat"], room.rules(), ["--ask", "tty"])
    outer = shell(room.box, term="dumb")
    outer.type(shlex.join(line) + "\n")
    outer.type("one\n")
    outer.sees("one\r\none\r\n")
    outer.type("\x1a")
    outer.sees("Stopped")
    outer.sees(PROMPT)
    outer.type("stty -a | grep -o ' icanon'; fg\n")  # the terminal was given back
    outer.sees(" icanon")
    outer.type("two\n")
    outer.sees("two\r\ntwo\r\n")
    outer.type("\x04")
    outer.sees(PROMPT)
    outer.type("exit\n")
    outer.end()


def test_a_terminal_that_goes_away_denies(room):
    outer = start(room, f"trap '' HUP; cat {room.file} > {room.free}/read; echo $? > {room.free}/status; sleep 60")
    outer.sees("H> ")
    outer.close()
    outer.process.wait(harness.DEADLINE)
    assert ("allow", "tty") not in answers(outer)
    assert (room.free / "read").read_bytes() == b""


def test_without_a_terminal_it_cannot_be_had(box):
    result = box.run(["/bin/true"], harness.rule_set(), options=["--ask", "tty"])
    if "no terminal to ask on" not in result.errors:
        pytest.skip("the tests themselves have a terminal")
    assert result.code == 125


def test_only_what_is_a_terminal_becomes_the_commands(room):
    reading, writing = os.pipe()
    outer = start(room, f"[ -t 0 ] && [ ! -t 1 ] && [ -t 2 ] && cat {room.file}", stdout=writing)
    os.close(writing)
    outer.prompted()
    outer.type("a\r")
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"asked content"
    outer.end()


@pytest.mark.parametrize("term", ["linux", "dumb"])
def test_where_there_is_one_screen_only_the_command_is_told_to_draw_again(room, term):
    script = f"trap 'echo again' WINCH; cat {room.file}; sleep 0.1; echo end"
    outer = start(room, script, term=term)
    shown = outer.prompted()
    assert "\x1b[?1049" not in shown and "+ callgate" in shown
    outer.type("a\r")
    outer.sees("again")
    outer.sees("end")
    outer.end()


@pytest.mark.skipif(not os.path.exists("/usr/bin/tmux"), reason="tmux is not installed")
def test_the_command_types_no_answer_by_tmux(room):
    script = (f"cat {room.file} & while ! [ -e {room.free}/go ]; do sleep 0.05; done; "
              f"tmux -S $SOCKET send-keys -t s a Enter; echo $? > {room.free}/typed; wait; echo done; read")
    line, log = room.box.command(["/bin/bash", "--norc", "-c", script], room.rules(), ["--ask", "tty", "--keep-env"])
    tmux = Tmux(room.box, ["env", f"SOCKET={Tmux.next_socket(room.box)}", *line])
    try:
        tmux.prompted()
        (room.free / "go").touch()
        typed = room.free / "typed"
        harness.until(lambda: typed.exists() and typed.read_text() != "", "the command has tried to type")
        assert typed.read_text() == "1\n"
        assert "question" in tmux.prompted() and "done" not in tmux.screen()
        (denied,) = [one for one in harness.read_log(log)
                     if one["event"]["action"] == "connect" and one["callgate"]["verdict"] == "deny"]
        assert str(tmux.socket) in str(denied), denied
        tmux.do("send-keys", "-t", "s", "a", "Enter")  # from outside the same line answers
        assert "asked content" in tmux.sees("done")
        tmux.type("Enter")
        harness.until(lambda: harness.read_log(log)[-1]["event"]["action"] == "run.end", "the end")
    finally:
        tmux.close()


@pytest.mark.skipif(not os.path.exists("/usr/bin/tmux"), reason="tmux is not installed")
def test_in_tmux_the_screen_is_afterwards_what_it_was(room):
    line, log = room.box.command(["/bin/bash", "--norc", "-c", f"seq 30; read; cat {room.file} >/dev/null; echo; echo done; read"],
                                 room.rules(), ["--ask", "tty"])
    tmux = Tmux(room.box, line, rows=40)
    try:
        tmux.sees("\n30\n")
        tmux.type("Enter")
        shown = tmux.prompted()
        assert "\n30\n" not in shown and str(room.file) in shown
        tmux.type("a", "Enter")
        after = tmux.sees("done")
        assert "\n30\n" in after and "question" not in after
        tmux.type("Enter")
        harness.until(lambda: harness.read_log(log)[-1]["event"]["action"] == "run.end", "the end")
    finally:
        tmux.close()
