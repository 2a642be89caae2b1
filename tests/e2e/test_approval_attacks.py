"""Attacks on answers: by the run that is asked about, by another run, by what was typed for another question."""
from __future__ import annotations

import os
import random
import re
import stat
from pathlib import Path

import pytest

import harness
from approvers import Asked, Person, SocketRun, records, runtime, verb
from test_answers_on_record import replay
from test_approval import Room, room  # noqa: F401 (a fixture)
from test_ask_tty import answers, start

ROUNDS = 200 if harness.SOAK else 8


# ---- what a grant does not cover gets no name that it covers ----

MOVES = {
    "a link": "ln {secret}/letter {open}/taken", "a symbolic link to follow": "ln -s {secret}/letter {tree}/free/l; ln -L {tree}/free/l {open}/taken",
    "a rename": "mv {secret}/letter {open}/taken", "a rename onto": "mv -f {secret}/letter {open}/file",
    "a directory": "mv {secret} {open}/taken",
    "an exchange": "/usr/bin/python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"{secret}\", -100, b\"{open}\", 2)'",
}


class Granted:
    """`open` may be read by cat as a whole, by an answer; `secret` beside it was never asked about. Both may be written."""

    def __init__(self, room: Room, move: str) -> None:
        self.room, box = room, room.box
        self.open, self.secret = box.directory(room.asked / "open"), box.directory(room.asked / "secret")
        box.file(self.open / "file", b"open content\n")
        box.file(self.secret / "letter", b"secret content\n")
        self.rules = room.rules({"id": "writes", "allow": "write", "path": f"{room.asked}/**"},
                                {"id": "python", "allow": ["read", "execute"], "path": "/usr/**"}, operations=("read",))
        self.line = f"cat {self.open}/file; {move.format(open=self.open, secret=self.secret, tree=box.tree)}; " \
                    f"cat {self.open}/taken {self.open}/taken/letter {self.open}/letter {self.open}/file"

    def start(self) -> Asked:
        run = self.room.sh(self.line, rules=self.rules)
        run.decide(run.ask(), "allow", "tree")
        return run


@pytest.mark.parametrize("move", MOVES)
def test_what_gets_a_name_beneath_a_grant_is_asked_about_by_itself(room, move):
    granted = Granted(room, MOVES[move])
    run = granted.start()
    ask = run.ask()
    assert "create" in ask["operations"] and ask["scopes"] == ["once"], ask
    assert str(granted.secret) in str(ask["source"] if "link" in move else ask["object"]["path"] + ask["second_path"])
    run.decide(ask, "deny")
    result = run.end()
    assert result.text.startswith("open content\n") and "secret content" not in result.text, result.describe()
    assert (granted.secret / "letter").read_bytes() == b"secret content\n"
    bare = room.box.run(["/bin/sh", "-c", granted.line], supervised=False)
    assert "secret content" in bare.text, bare.describe()  # the control


def test_what_is_allowed_a_name_beneath_a_grant_gets_it(room):
    granted = Granted(room, MOVES["a link"])
    run = granted.start()
    ask = run.ask()
    assert ask["source"] == str(granted.secret / "letter") and ask["object"]["path"] == str(granted.open / "taken")
    assert ask["object"]["exists"] is False
    run.decide(ask, "allow")
    result = run.end()
    assert "secret content\n" in result.text, result.describe()
    assert replay(room, granted.rules, run.log)[0].code == 0


def test_beneath_a_grant_things_move_unasked(room):
    run = Granted(room, "ln {open}/file {open}/second; mv {open}/second {open}/taken").start()
    result = run.end()
    assert result.text == "open content\n" * 3, result.describe()
    assert len(records(result, "prompt.shown")) == 1


def test_a_granted_directory_is_what_it_is_resolved_to(room):
    granted = Granted(room, "true")
    os.symlink(granted.secret / "letter", granted.open / "symlink")
    run = room.sh(f"cat {granted.open}/file; cat {granted.open}/../secret/letter; cat {granted.open}/symlink; "
                  f"cd {granted.open}; cat ../open/file", rules=granted.rules)
    run.decide(run.ask(), "allow", "tree")
    for _ in range(2):
        ask = run.ask()
        assert ask["object"]["path"] == str(granted.secret / "letter")
        run.decide(ask, "deny")
    result = run.end()
    assert result.text == "open content\n" * 2, result.describe()


def test_a_program_that_was_replaced_is_asked_about_again(room):
    """The grant is for the name: what takes it is asked about when it does."""
    box = room.box
    program = box.file(room.asked / "program", Path(box.program("prog_word")).read_bytes(), 0o755)
    other = box.file(room.asked / "other", b"#!/bin/sh\necho replaced\n", 0o755)
    rules = room.rules({"id": "run", "ask": "execute", "path": f"{room.asked}/**"},
                       {"id": "files", "allow": ["read", "write"], "path": f"{room.asked}/**"}, operations=("metadata",))
    rules["rules"] = [one for one in rules["rules"] if one["id"] != "question"]
    line = f"{program} one; mv -f {other} {program}; {program} one"
    run = room.sh(line, rules=rules)
    run.decide(run.ask(), "allow", "object")
    ask = run.ask()
    assert ask["second_path"] == str(program) and ask["scopes"] == ["once"]
    run.decide(ask, "deny")
    result = run.end()
    bare = box.run([str(program), "one"], supervised=False)
    assert result.text == bare.text * 2, result.describe()
    assert box.run(["/bin/sh", "-c", line], supervised=False).text == bare.text + "replaced\n"  # the control


def test_no_call_goes_by_a_grant_after_it_was_taken_back(room):
    files = [room.box.file(room.asked / f"f{index}", b"line\n") for index in range(ROUNDS + 1)]
    rules = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{room.box.stage.bin}/**"},
                             *[{"id": f"q{index}", "ask": "read", "path": str(one)} for index, one in enumerate(files)])
    loop = 'for f; do while read -r line < "$f"; do :; done; done; echo end'
    run = room.run("/bin/bash", "-c", loop, "bash", *map(str, files), rules=rules)
    randomly = random.Random(room.box.user.uid)
    ask = run.ask()
    for one in files[:-1]:
        assert ask["object"]["path"] == str(one)
        run.decide(ask, "allow", "object")
        run.executor.send(type="grants")
        (grant,) = run.executor.next("grants")["grants"]
        used = randomly.randrange(200)
        harness.until(lambda: run.log.read_bytes().count(b'"decided_by":"grant"') >= used, "the grant is used")
        run.executor.send(type="revoke", grant=grant["grant"])
        assert run.executor.next("ack")["applied"] is True
        ask = run.ask()
        if ask["object"]["path"] == str(one):  # else it was met on its way: a denial, on record, without a question
            run.decide(ask, "deny")
            ask = run.ask()
    run.decide(ask, "deny")
    result = run.end()
    assert result.text == "end\n", result.describe()
    revoked = {one["callgate"]["grant"]: one["event"]["sequence"] for one in records(result, "grant.revoked")}
    uses = result.decisions(decided_by="grant")
    assert len(revoked) == ROUNDS and len(uses) > ROUNDS
    assert all(one["event"]["sequence"] < revoked[one["callgate"]["grant"]] for one in uses)
    said, found = replay(room, rules, run.log)
    assert said.code == 0 and found["contradicted"] == 0, said.describe()


# ---- who answers ----


def test_a_run_that_asks_much_does_not_keep_another_ones_question(room):
    box = room.box
    names = [box.file(room.asked / f"n{index}") for index in range(8)]
    flood = SocketRun(box, [box.program("prog_asker"), "different", "8", str(room.asked)],
                      harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                                       {"id": "flood", "ask": "read", "path": f"{room.asked}/**"}))
    for index, name in enumerate(names):
        name.rename(room.asked / str(index))
    name = flood.name()
    person = Person(box, "--notify")
    person.asked()
    other = SocketRun(box, ["/bin/cat", str(room.file)], room.rules())
    place = box.root / "runtime" / "callgate"
    harness.until(lambda: len(list(place.glob("[!.]*.sock"))) == 2, "the other run's socket")
    harness.until(lambda: [one for one in verb(box, "ps").text.splitlines() if str(room.file) in one and name not in one], "it is listed")
    person.sees("callgate: 9 waiting")  # all of the flood's, and the other run's
    person.answers("")
    shown = person.asked()
    assert str(room.file) in shown and f"run {name}" not in shown, shown
    person.answers("a")
    assert other.end().text == "asked content"
    assert verb(box, "stop", name).code == 0
    flood.end()


@pytest.mark.parametrize("channel", ["tty", "socket"])
def test_a_line_answers_one_question_and_never_the_next(room, channel):
    room.box.file(room.asked / "other", b"other content")
    script = f"cat {room.file}; echo; cat {room.asked}/other; echo after"
    if channel == "tty":
        outer = start(room, script)
        outer.prompted()
        outer.type("a\ra\ra\r")
        second = outer.prompted()
        outer.type("\r")
        outer.sees("after")
        outer.end()
        assert answers(outer) == [("allow", "tty"), ("deny", "tty")]
    else:
        run = SocketRun(room.box, ["/bin/sh", "-c", script], room.rules())
        person = Person(room.box)
        person.asked()
        person.type("a\na\na\n")
        second = person.asked()
        person.answers("")
        assert run.end().text == "asked content\nafter\n"
    assert f"object     {room.asked}/other" in second, second


def test_names_of_programs_and_arguments_are_shown_as_what_they_are(room):
    box = room.box
    hostile = "c\x1b]0;title\x07\r\u202e"
    program = box.file(room.free / hostile, Path("/bin/cat").read_bytes(), 0o755)
    rules = room.rules({"id": "run", "ask": "execute", "path": f"{room.asked}/**"}, {"id": "own", "allow": ["read", "execute"], "path": "/usr/**"})
    asked = box.file(room.asked / "program", Path(box.program("prog_word")).read_bytes(), 0o755)
    run = SocketRun(box, ["/bin/bash", "-c", f"(exec -a $'\\e[2Jargv' '{program}' {room.file}); env '{asked}' 'one two' three '' $'\\e[2J'"], rules)
    person = Person(box, columns=200)
    shown = person.asked()
    assert r"c\x1b]0;title\x07\x0d\xe2\x80\xae" in shown, shown
    person.answers("v")
    shown += person.asked()
    assert r"\x1b[2Jargv" in shown, shown
    person.answers("")
    arguments = person.asked()
    assert r"'one two' three '' \x1b[2J" in arguments, arguments
    person.answers("")
    run.end()
    both = shown + arguments
    assert not re.search("\x1b\\]|\x1b\\[2J|\x07|\u202e", both), both


def test_the_token_is_in_one_private_file_and_nowhere_else(room):
    run = SocketRun(room.box, ["/bin/sh", "-c", "sleep 1000"], room.rules())
    name = run.name()
    place = Path(runtime(room.box)["XDG_RUNTIME_DIR"]) / "callgate"
    token = (place / f"{name}.token").read_bytes()
    assert len(token) == 32
    assert stat.S_IMODE(place.stat().st_mode) == 0o700 and stat.S_IMODE((place / f"{name}.token").stat().st_mode) == 0o600
    processes = harness.until(lambda: (found := harness.descendants(run.process.pid)) and len(found) > 1 and found, "the run's processes")
    for pid in [run.process.pid, *processes]:
        for what in ("environ", "cmdline"):
            assert token not in Path(f"/proc/{pid}/{what}").read_bytes(), (pid, what)
    assert verb(room.box, "stop", name).code == 0
    run.end()


@pytest.mark.parametrize("planted", ["fifo", "symbolic link", "directory"])
def test_what_stands_at_the_place_of_a_proposed_rule_is_left_alone(room, planted):
    """Only the person could have put it there; nothing waits for it, or writes through it."""
    box = room.box
    pending = box.directory(box.directory(box.directory(box.home / ".config") / "callgate") / "pending", 0o700)
    aim = box.file(box.root / "aim", b"aim")
    run = SocketRun(box, ["/bin/sh", "-c", f"cat {room.file}; echo end"], room.rules())
    name = pending / f"{run.name()}-1"
    if planted == "fifo":
        os.mkfifo(name)
    elif planted == "directory":
        name.mkdir()
    else:
        name.symlink_to(aim)
    person = Person(box)
    person.asked()
    person.answers("r", "no rule can be proposed")
    person.answers("")
    assert run.end().text == "end\n" and aim.read_bytes() == b"aim"
