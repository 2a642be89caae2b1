"""`--ask auto` where a person sits: the terminal asks, in a pipe, in the background and around stops, too."""
from __future__ import annotations

import os
import re
import shlex
import signal

import harness
from approvers import Person, runtime
from outer import PROMPT, Outer, shell
from test_approval import Room, room  # noqa: F401 (a fixture)


def line_of(room: Room, *words: str, rules: dict | None = None, options: tuple[str, ...] = ()) -> tuple[str, object]:
    line, log = room.box.command(list(words), rules or room.rules(), ["-q", *options])
    return shlex.join(line), log


def script(room: Room, text: str, **more) -> tuple[str, object]:
    return line_of(room, "/bin/bash", "--norc", "-c", text, **more)


def answers(log) -> list[tuple[str, str]]:
    return [(one["callgate"]["answer"], one["callgate"]["answered_by"]["channel"]) for one in harness.read_log(log)
            if one["event"]["action"] == "prompt.answered"]


def test_where_there_is_a_terminal_it_asks(room):
    line, log = room.box.command(["/bin/cat", str(room.file)], room.rules())
    outer = Outer(room.box, line)
    outer.prompted()
    outer.type("a\r")
    outer.sees("asked content")
    outer.end()
    assert answers(log) == [("allow", "tty")]


def test_where_the_rules_ask_nothing_the_commands_terminal_is_another_one_too(room):
    rules = harness.rule_set({"id": "terminals", "allow": ["read", "write"], "path": ["/dev/pts/**", "/dev/tty"]})
    for ask in ("auto", "never", "socket"):
        line, _ = room.box.command(["/bin/sh", "-c", "tty; : > /dev/tty && echo opened; read outer; cat < $outer || echo closed"], rules,
                                   ["--ask", ask])
        outer = Outer(room.box, line)
        own = outer.sees("\r\n")
        assert own.startswith("/dev/pts/") and own != outer.name + "\r\n"
        outer.sees("opened")
        outer.type(outer.name + "\n")
        outer.sees("closed")
        outer.end()


def test_without_a_terminal_among_its_descriptors_the_command_has_none(room):
    rules = harness.rule_set({"id": "terminals", "allow": ["read", "write"], "path": ["/dev/pts/**", "/dev/tty"]})
    line, _ = room.box.command(["/bin/sh", "-c", ": < /dev/tty"], rules, ["-q"])
    outer = Outer(room.box, ["/bin/sh", "-c", f"{shlex.join(line)} </dev/null 2>{room.free}/said | cat; : < /dev/tty && echo bare"])
    outer.sees("bare")
    outer.end()
    assert "No such device" in (room.free / "said").read_text()


def test_of_audit_mode_nobody_is_asked(room):
    line, log = room.box.command(["/bin/cat", str(room.file)], room.rules(), ["--mode", "audit"])
    outer = Outer(room.box, line)
    outer.sees("asked content")
    outer.end()
    assert answers(log) == []


def test_another_terminal_than_the_persons_stays_as_it_is(room):
    master, slave = os.openpty()
    line, _ = room.box.command(["/bin/sh", "-c", f"cat {room.file}; tty >&2"], room.rules())
    outer = Outer(room.box, line, stdout=slave)
    os.close(slave)
    outer.prompted()
    outer.type("a\r")
    outer.end()
    assert os.read(master, 100) == b"asked content"
    os.close(master)


def test_in_a_pipe_the_prompt_uses_the_terminal(room):
    line, log = script(room, f"cat; cat {room.file}; echo; echo end")
    outer = shell(room.box)
    outer.type(f"echo from the pipe | {line} | tr a-z A-Z\n")
    outer.sees("wants to")
    outer.sees("> ")  # the mark; tr, which callgate does not know of, may write just before it
    outer.type("a\r")
    outer.sees("ASKED CONTENT")
    outer.sees("END")
    assert b"FROM THE PIPE" in outer.all
    outer.sees(PROMPT)
    assert answers(log) == [("allow", "tty")]


def test_a_pipes_keys_are_for_the_command_that_reads_them(room):
    """As long as this one does not want the terminal, another of the pipe has it."""
    line, _ = script(room, f"echo ready >&2; read word < {room.free}/fifo; echo $word")
    fifo = room.free / "fifo"
    os.mkfifo(fifo)
    room.box.own(fifo)
    outer = shell(room.box)
    outer.type(f"{line} | {{ read -r key </dev/tty; echo \"key $key\"; echo go > {fifo}; cat; }}\n")
    outer.sees("ready\r")
    outer.type("pressed\n")
    outer.sees("key pressed")
    outer.sees("go\r\n")
    outer.sees(PROMPT)


def test_a_command_of_a_pipe_that_wants_the_terminal_gets_it(room):
    line, _ = script(room, "read -r -p 'name? ' name </dev/tty; stty -a </dev/tty | grep -o -w isig; echo \"is $name\"")
    outer = shell(room.box)
    outer.type(f"echo | {line} | cat\n")
    outer.sees("name? ")
    outer.type("somebody\n")
    outer.sees("isig")
    outer.sees("is somebody")
    outer.sees(PROMPT)
    outer.type("stty -a | grep -o -w icanon\n")
    outer.sees("\nicanon")


def test_keys_that_make_signals_reach_a_command_in_a_pipe(room):
    line, _ = script(room, "trap 'echo interrupted >&2; exit 5' INT; echo ready >&2; while :; do sleep 0.05; done")
    outer = shell(room.box)
    outer.type(f"{line} | cat\n")
    outer.sees("ready\r")
    outer.type("\x03")
    outer.sees("interrupted")
    outer.sees(PROMPT)
    outer.type("echo codes ${PIPESTATUS[*]}\n")
    outer.sees("codes 5 130")


def test_a_pipe_stops_and_goes_on_as_one_job(room):
    for wanted in ("", "read -r word </dev/tty; echo \"word $word\" >&2; "):  # with the terminal relayed, and not
        line, _ = script(room, wanted + "echo ready >&2; while ! [ -e gone ]; do sleep 0.05; done; echo end")
        outer = shell(room.box)
        outer.type(f"{line} | cat\n")
        if wanted:
            outer.type("typed\n")
            outer.sees("word typed")
        outer.sees("ready\r")
        outer.type("\x1a")
        outer.sees("Stopped")
        outer.sees(PROMPT)
        (room.box.tree / "gone").touch()
        outer.type("fg\n")
        outer.sees("end\r\n")
        outer.sees(PROMPT)
        (room.box.tree / "gone").unlink()
        outer.close()


def test_in_the_background_a_question_waits_for_the_foreground(room):
    line, log = line_of(room, "/bin/cat", str(room.file))
    outer = shell(room.box)
    outer.type(f"{line} &\n")
    outer.sees("asks a question: bring it to the foreground (fg)")
    outer.type("echo the shell $((1 + 1)) has it\n")
    outer.sees("the shell 2 has it")
    outer.sees(PROMPT)
    outer.type("fg\n")
    outer.prompted()
    outer.type("a\r")
    outer.sees("asked content")
    outer.sees(PROMPT)
    assert answers(log) == [("allow", "tty")]


def test_in_the_background_another_approver_can_answer(room):
    line, log = line_of(room, "/bin/cat", str(room.file))
    outer = shell(room.box)
    outer.type(f"{line} &\n")
    outer.sees("asks a question")
    person = Person(room.box)
    person.asked()
    person.answers("a")
    outer.sees("asked content")
    harness.until(lambda: answers(log) == [("allow", "socket")], "the answer on record")


def test_who_reads_the_terminal_in_the_background_waits_for_the_foreground(room):
    line, _ = line_of(room, "/bin/cat")
    outer = shell(room.box, term="dumb")
    outer.type(f"{line} &\n")
    outer.sees("wants the terminal: bring it to the foreground (fg)")
    outer.type("jobs; echo the shell $((1 + 1)) has it\n")
    assert "Running" in outer.sees("the shell 2 has it")
    outer.sees(PROMPT)
    outer.type("fg\n")
    outer.type("a line\n")
    outer.sees("a line\r\na line\r\n")
    outer.type("\x04")
    outer.sees(PROMPT)


def test_where_no_shell_could_continue_it_nothing_stops(room):
    line, _ = room.box.command(["/bin/bash", "--norc", "-c", "echo ready; read -r word; echo \"got $word\""], room.rules())
    outer = Outer(room.box, line)  # leads the session: an orphaned group
    outer.sees("ready")
    outer.type("\x1a")
    outer.type("word\n")
    outer.sees("got word")
    assert outer.end() == 0


def test_at_a_prompt_a_stop_gives_the_screen_back_and_the_question_comes_again(room):
    line, log = script(room, f"echo before; cat {room.file}; echo after $?")
    outer = shell(room.box)
    outer.type(line + "\n")
    outer.prompted()
    outer.type("\x1a")
    assert "\x1b[?1049l" in outer.sees("Stopped")
    outer.sees(PROMPT)
    outer.type("stty -a | grep -o -w icanon\n")
    outer.sees("\nicanon")
    outer.type("fg\n")
    outer.prompted()
    outer.type("a\r")
    outer.sees("after 0")
    outer.sees(PROMPT)
    assert answers(log) == [("allow", "tty")]


def test_callgate_stopped_by_itself_at_a_prompt_asks_anew(room):
    line, log = script(room, f"cat {room.file}; echo; echo after $?")
    outer = shell(room.box)
    outer.type(line + "\n")
    outer.prompted()
    (run,) = [pid for pid in harness.children(outer.process.pid)]
    os.kill(run, signal.SIGSTOP)
    outer.sees("Stopped")
    outer.sees(PROMPT)
    outer.type("stty sane; fg\n")
    outer.prompted()
    outer.type("a\r")
    outer.sees("after 0")
    assert answers(log) == [("allow", "tty")]


def test_a_prompt_follows_the_size(room):
    name = room.box.file(room.asked / ("n" * 60), b"long")
    line, log = script(room, f"cat {name}")
    outer = shell(room.box)
    outer.type(line + "\n")
    wide = outer.prompted()
    assert str(name) in wide and "a allow once" in wide
    outer.resize(20, 60)
    narrow = re.split("\x1b\\[2J\x1b\\[[0-9]+;1H", outer.prompted())[-1]  # what was shown whole is shown whole again
    assert str(name) not in narrow and "a allow once" in narrow
    lines = narrow.split("\r\n")
    assert str(name) in "".join(line[13:] for line in lines) and max(map(len, lines)) <= 60
    outer.resize(40, 150)
    assert str(name) in outer.prompted()
    outer.type("a\r")
    outer.sees("long")
    outer.sees(PROMPT)
    assert answers(log) == [("allow", "tty")]


def test_when_the_terminal_goes_another_approver_is_asked(room):
    line, log = room.box.command(["/bin/bash", "--norc", "-c", f"trap '' HUP; > {room.free}/begun; while [ -e {room.free}/file ]; do sleep 0.02; done; "
                                  f"cat {room.file} > {room.free}/read"], room.rules(), ["--grace", "60s"])
    outer = Outer(room.box, ["/bin/bash", "--norc", "-c", "trap '' HUP; " + shlex.join(line) + " & wait"])
    person = Person(room.box)
    harness.until(lambda: (room.box.root / "runtime/callgate").exists() and
                  list((room.box.root / "runtime/callgate").glob("[!.]*.sock")), "the run's socket")
    harness.until((room.free / "begun").exists, "the command, which now survives the terminal's end")
    outer.close()
    (room.free / "file").unlink()
    person.asked()
    person.answers("a")
    harness.until(lambda: (room.free / "read").exists() and (room.free / "read").read_bytes() == b"asked content", "the answer")
    harness.until(lambda: ("allow", "socket") in answers(log), "the answer on record")
