"""Questions and their answers, over `--ask fd:N`: what is asked, what an answer does, and what can never be answered."""
from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

import harness
from approvers import Asked, Executor, records, runtime

SWAPS = 1000 if harness.SOAK else 50
MANY = 10_000 if harness.SOAK else 500
ASKERS = 500 if harness.SOAK else 40
LINE = 1_000_000_000 if harness.SOAK else 50_000_000


class Room:
    """A tree with `free` (allowed), `asked` (asked) and `shut` (denied inside `asked`)."""

    def __init__(self, box: harness.Box) -> None:
        self.box = box
        self.free, self.asked = box.directory(box.tree / "free"), box.directory(box.tree / "asked")
        self.shut = box.directory(self.asked / "shut")
        self.file = box.file(self.asked / "file", b"asked content")
        box.file(self.free / "file", b"free content")
        box.file(self.shut / "file", b"shut content")

    def rules(self, *more: dict, operations=("read", "write"), **options) -> dict:
        return harness.rule_set(
            {"id": "programs", "allow": ["read", "execute"], "path": f"{self.box.stage.bin}/**"},
            {"id": "free", "allow": ["read", "write", "execute"], "path": f"{self.free}/**"},
            {"id": "tree", "allow": "read", "path": str(self.box.tree)},
            {"id": "question", "ask": list(operations), "path": f"{self.asked}/**", "reason": "look first"},
            {"id": "shut", "deny": ["read", "write"], "path": f"{self.shut}/**"},
            *more, **options)

    def run(self, *args: str, rules: dict | None = None, options: tuple[str, ...] = ()) -> Asked:
        return Asked(self.box, list(args), rules or self.rules(), options)

    def sh(self, script: str, **more) -> Asked:
        return self.run("/bin/sh", "-c", script, **more)


@pytest.fixture
def room(box) -> Room:
    return Room(box)


@pytest.mark.parametrize("width", [{"tree": "/"}, {"tree": "/tmp"}, {"tree": "asked"}, {"tree": "/etc/ssh"}, {"tree": "HOME"},
                                   {"scope": "object", "read_and_write": True}, {"scope": "once", "tree": "ASKED"}],
                         ids=["root", "shared", "name", "elsewhere", "home", "object", "once"])
def test_an_answer_is_never_wider_than_what_was_offered(room, width):
    inside = room.box.file(room.box.home / "docs" / "inside" / "file", b"inside")
    rules = room.rules({"id": "home", "ask": ["read", "write"], "path": f"{room.box.home}/docs/**"})
    run = room.run("/bin/cat", str(inside), rules=rules)
    ask = run.ask()
    assert ask["tree"] == str(inside.parent) and ask["widest"] == str(inside.parent.parent) and ask["read_and_write"] is True
    places = {"HOME": str(room.box.home), "ASKED": ask["tree"]}
    width = {key: places.get(value, value) for key, value in width.items()}
    assert run.decide(ask, "allow", width.pop("scope", "tree"), **width)["applied"] is False
    result = run.end()
    assert result.text == "" and result.code == 1, result.describe()


def test_an_answer_reaches_the_offered_directory_that_it_names(room):
    inside = room.box.file(room.box.home / "docs" / "inside" / "file", b"inside")
    above = room.box.file(room.box.home / "docs" / "above", b"above")
    rules = room.rules({"id": "home", "ask": ["read", "write"], "path": f"{room.box.home}/docs/**"})
    run = room.run("/bin/cat", str(inside), str(above), rules=rules)
    ask = run.ask()
    assert run.decide(ask, "allow", "tree", tree=ask["widest"], read_and_write=True)["applied"] is True
    assert run.end().text == "insideabove"


def test_an_allowed_call_goes_on_and_the_next_one_is_asked_again(room):
    run = room.sh(f"cat {room.file}; echo; cat {room.file}; echo $?")
    first = run.ask()
    assert first["object"] == {"kind": "file", "path": str(room.file), "path_b64": None, "exists": True,
                               "directory": False, "size": 13}
    assert first["operation"] == "read" and first["operations"] == ["read"] and first["rule"] == "question"
    assert first["reason"] == "look first" and first["scopes"] == ["once", "object", "tree"]
    assert first["tree"] == str(room.asked) and first["process"]["program"].endswith("/cat")
    assert first["process"]["argv"] == ["cat", str(room.file)]
    assert first["process"]["ancestors"][0]["program"].endswith(("sh", "dash", "bash"))
    assert run.decide(first, "allow") == {"v": 1, "type": "ack", "id": first["id"], "applied": True}
    second = run.ask()
    assert second["id"] != first["id"] and second["key"] == first["key"]
    run.decide(second, "deny")
    result = run.end()
    assert result.text == "asked content\n1\n", result.describe()
    allowed = result.decisions(verdict="allow", decided_by="program")
    denied = result.decisions(verdict="deny", decided_by="program")
    assert [one["callgate"]["question"] for one in allowed + denied] == [first["id"], second["id"]]
    # On record first: shown, answered, decided, in this order.
    (shown, _), (answered, refused) = records(result, "prompt.shown"), records(result, "prompt.answered")
    order = [one["event"]["sequence"] for one in (shown, answered, allowed[0])]
    assert order == sorted(order)
    assert answered["callgate"]["answered_by"] == {"uid": os.getuid(),
                                                   "pid": os.getpid(), "channel": "fd"}
    assert answered["callgate"]["scope"] == "once" and refused["callgate"]["answer"] == "deny"
    assert answered["event"]["duration"] > 0


def test_a_grant_of_an_object_answers_for_it_and_for_nothing_else(room):
    room.box.file(room.asked / "other", b"other content")
    run = room.sh(f"cat {room.file} {room.file} {room.asked}/other; head -c 5 {room.file}")
    run.decide(run.ask(), "allow", "object")
    other = run.ask()
    assert other["object"]["path"] == str(room.asked / "other")
    run.decide(other, "deny")
    by_head = run.ask()  # another program
    assert by_head["object"]["path"] == str(room.file) and by_head["process"]["program"].endswith("/head")
    run.decide(by_head, "deny")
    result = run.end()
    assert result.text == "asked contentasked content", result.describe()
    assert len(result.decisions(verdict="allow", decided_by="grant")) == 1


def test_a_grant_of_a_directory_answers_beneath_it_but_never_a_rule_that_denies(room):
    room.box.file(room.box.directory(room.asked / "deep") / "file", b"deep content")
    run = room.sh(f"cat {room.file} {room.asked}/deep/file {room.shut}/file")
    run.decide(run.ask(), "allow", "tree")
    result = run.end()
    assert result.text == "asked contentdeep content", result.describe()
    (denied,) = result.decisions(verdict="deny")
    assert denied["rule"]["name"] == "shut" and denied["callgate"]["decided_by"] == "rule"


def test_a_denial_for_the_run_is_not_asked_again(room):
    run = room.sh(f"cat {room.file}; cat {room.file}; echo end")
    run.decide(run.ask(), "deny", "object")
    result = run.end()
    assert result.text == "end\n" and len(records(result, "prompt.shown")) == 1, result.describe()


def test_nobody_answering_denies_in_time(room):
    run = room.sh(f"cat {room.file}; echo $?", options=("--ask-timeout", "300ms"))
    ask = run.ask()
    assert ask["deadline_ms"] <= 300
    assert run.executor.next("withdrawn")["id"] == ask["id"]
    result = run.end()
    assert result.text == "1\n" and result.decisions(verdict="deny", decided_by="timeout"), result.describe()


def test_an_executor_that_goes_away_denies_what_waits_and_what_comes(room):
    run = room.sh(f"cat {room.file}; cat {room.file}; echo end")
    run.ask()
    run.executor.ours.close()
    result = run.end()
    assert result.text == "end\n", result.describe()
    assert len(result.decisions(verdict="deny")) == 2


@pytest.mark.parametrize("answer, why", [
    ({"verdict": "perhaps"}, "unknown verdict"),
    ({"verdict": "allow", "scope": "everything"}, "unknown scope"),
    ({"verdict": "allow", "key": "sha256:00"}, "another question"),
    ({"verdict": "allow", "scope": 7}, "unknown scope"),
    ({}, "unknown verdict"),
])
def test_an_answer_that_is_not_understood_denies(room, answer, why):
    run = room.sh(f"cat {room.file}; echo $?")
    ask = run.ask()
    run.executor.send(type="decision", id=ask["id"], **{"key": ask["key"], **answer})
    ack = run.executor.next("ack")
    assert ack["applied"] is False and (why in ack["why"] or "key" in ack["why"])
    result = run.end()
    assert result.text == "1\n", result.describe()


def test_late_and_repeated_answers_change_nothing(room):
    run = room.sh(f"cat {room.file}; echo; cat {room.file}; echo $?")
    first = run.ask()
    run.decide(first, "allow")
    second = run.ask()
    assert run.decide(first, "allow")["applied"] is False  # of a question that is answered
    for line in (b"", b"nonsense", b"[]", b'{"v":2}', b'{"v":1,"type":"decision","id":-1}', b"[" * 5000, b"\xff\xfe"):
        run.executor.send_line(line)
        assert run.executor.next("ack")["applied"] is False
    run.decide(second, "deny")
    result = run.end()
    assert result.text == "asked content\n1\n", result.describe()


def resident(pid: int) -> int:
    """Bytes; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def test_a_line_without_end_closes_the_channel_and_takes_no_memory(room):
    run = room.sh(f"cat {room.file}; echo $?; read end")
    run.ask()
    before, largest, sent = resident(run.process.pid), 0, 0
    try:
        while sent < LINE:
            sent += run.executor.ours.send(b"x" * 65536)
            largest = max(largest, resident(run.process.pid))
    except OSError:
        pass  # it was closed meanwhile
    else:
        pytest.fail(f"all {LINE} bytes were taken")
    assert run.process.stdout.readline() == b"1\n"  # what was asked is denied
    assert max(largest, resident(run.process.pid)) - before < 16 << 20
    result = run.end(b"\n")
    assert result.code == 0 and not result.decisions(verdict="allow", decided_by="program"), result.describe()


def most_resident(pid: int) -> int:
    """Bytes that it ever held."""
    return 1024 * int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])


# The most that the supervisor may grow by while thousands ask.
GROWTH = 24 << 20


def test_equal_questions_are_one(room):
    run = room.sh(f"read go; {room.box.program('prog_asker')} same {MANY} {room.file}; read end", options=("--ask-timeout", "900s"))
    before = most_resident(run.process.pid)
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    ask = run.ask()
    count = ask["count"]
    while count < MANY:
        count = run.executor.next("count")["count"]
    run.decide(ask, "allow", "object")
    assert run.process.stdout.readline() == f"opened {MANY} refused 0\n".encode()
    assert most_resident(run.process.pid) - before < GROWTH
    result = run.end(b"\n")
    (answered,) = records(result, "prompt.answered")
    assert answered["callgate"]["callers"] == MANY and len(records(result, "prompt.shown")) == 1
    assert len(result.decisions(verdict="allow", decided_by="program")) == MANY


def test_different_questions_are_limited_and_the_rest_is_denied_on_record(room):
    for index in range(MANY):
        (room.asked / str(index)).write_bytes(b"")
    run = room.sh(f"read go; {room.box.program('prog_asker')} different {MANY} {room.asked}; read end")
    before = most_resident(run.process.pid)
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    asks = [run.ask() for _ in range(10)]  # in a minute, of one rule
    overload = "too many questions in a minute"
    harness.until(lambda: run.log.read_text().count(overload) == MANY - 10, "the rest is denied")  # an answer makes room
    for ask in asks:
        run.decide(ask, "allow")
    assert run.process.stdout.readline() == f"opened 10 refused {MANY - 10}\n".encode()
    assert most_resident(run.process.pid) - before < GROWTH
    result = run.end(b"\n")
    assert len(records(result, "prompt.shown")) == len(records(result, "prompt.answered")) == 10
    reasons = [one["callgate"]["reason"] for one in result.decisions(verdict="deny", decided_by="failure")]
    assert reasons == [overload] * (MANY - 10)


def test_who_answers_gets_every_question(room):
    many = 25  # more than a rule may ask in a minute without answers
    for index in range(many):
        room.box.file(room.asked / str(index))
    run = room.sh(f'for f in {room.asked}/?*; do read -r line < "$f"; done; echo end')
    for _ in range(many + 2):  # and the directory, and the file that is there
        run.decide(run.ask(), "allow")
    result = run.end()
    assert result.text == "end\n", result.describe()
    assert len(records(result, "prompt.shown")) == many + 2
    assert not result.decisions(verdict="deny", decided_by="failure")


def test_no_more_than_33_questions_wait(room):
    rules = [{"id": f"q{index}", "ask": "read", "path": str(room.asked / str(index))} for index in range(40)]
    for index in range(40):
        room.box.file(room.asked / str(index))
    run = room.run(room.box.program("prog_asker"), "different", "40", str(room.asked),
                   rules=harness.rule_set({"id": "programs", "allow": ["read", "execute"],
                                           "path": f"{room.box.stage.bin}/**"}, *rules))
    asks = [run.ask() for _ in range(33)]
    overload = "too many questions wait for an answer"
    harness.until(lambda: run.log.read_text().count(overload) == 7, "seven are denied while the others wait")
    for ask in asks:
        run.decide(ask, "deny")
    result = run.end()
    assert result.text == "opened 0 refused 40\n", result.describe()
    assert len(records(result, "prompt.shown")) == 33


def test_askers_that_die_withdraw_their_questions(room):
    run = room.sh(f"{room.box.program('prog_asker')} children {ASKERS} {room.file}; read end")
    ask = run.ask()
    count = ask["count"]
    while count < ASKERS:
        count = run.executor.next("count")["count"]
    pids = [int(word) for word in run.process.stdout.readline().split()]
    for pid in pids:
        os.kill(pid, 9)
    assert run.executor.next("withdrawn")["id"] == ask["id"]
    assert run.decide(ask, "allow")["applied"] is False
    result = run.end(b"\n")
    assert len(records(result, "prompt.withdrawn")) == 1 and not result.decisions(verdict="allow", decided_by="program")


def test_a_signal_interrupts_a_call_that_waits_for_an_answer(room):
    run = room.sh(f"{room.box.program('prog_asker')} alarm {room.file}; read end")
    ask = run.ask()
    assert run.executor.next("withdrawn")["id"] == ask["id"]
    assert run.end(b"\n").text == "errno EINTR\n"


def test_what_a_rule_decides_is_not_held_by_an_open_question(room):
    run = room.run(room.box.program("prog_asker"), "busy", str(room.free / "file"), str(room.file),
                   rules=room.rules({"id": "contests", "deny": "read", "path": f"{room.free}/**/.env"}))
    ask = run.ask()
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    assert run.process.stdout.readline() == b"free 200\n"  # and the question is still open
    assert run.decide(ask, "deny")["applied"] is True
    run.end()


# ---- what was shown is what happens ----


def flipped(room: Room, target: Path) -> harness.Result:
    """A question about `file`, whose name in memory is then changed to `target`; and it is allowed."""
    run = room.run(room.box.program("prog_asker"), "flip", str(room.file), str(target))
    ask = run.ask()
    assert ask["object"]["path"] == str(room.file)
    run.process.stdin.write(b"now\n")
    run.process.stdin.flush()
    assert run.process.stdout.readline() == b"flipped\n"
    run.decide(ask, "allow")
    return run.end()


def test_a_name_that_becomes_another_while_it_is_asked_about_is_not_opened(room):
    result = flipped(room, room.box.file(room.asked / "other", b"other content"))
    assert result.text == "errno EACCES\n", result.describe()
    (denied,) = result.decisions(verdict="deny")
    assert denied["callgate"]["reason"] == "it has changed since it was asked about"


def test_a_name_that_becomes_a_denied_one_while_it_is_asked_about_is_denied_by_its_rule(room):
    result = flipped(room, room.shut / "file")
    assert result.text == "errno EACCES\n" and result.decisions(verdict="deny")[0]["rule"]["name"] == "shut", result.describe()


def swap_file(room: Room, name: Path, index: int) -> None:
    os.replace(room.box.file(room.box.tree / f"new{index}", b"SWAPPED"), name)


def swap_parent(room: Room, name: Path, index: int) -> None:
    fresh = room.box.directory(room.box.tree / f"dir{index}")
    room.box.file(fresh / name.name, b"SWAPPED")
    os.rename(name.parent, room.box.tree / f"old{index}")
    os.rename(fresh, name.parent)


def swap_link(room: Room, name: Path, index: int) -> None:
    room.box.file(room.box.tree / f"target{index}", b"SWAPPED")
    os.unlink(name)
    os.symlink(room.box.tree / f"target{index}", name)


@pytest.mark.parametrize("swap", [swap_file, swap_parent, swap_link])
def test_an_object_that_is_replaced_while_it_is_asked_about_is_not_opened(room, swap):
    names = [room.box.file(room.box.directory(room.asked / f"d{index}") / "file", b"shown") for index in range(SWAPS)]
    rules = [{"id": f"q{index}", "ask": "read", "path": f"{name.parent}/**"} for index, name in enumerate(names)]
    run = room.run("/bin/sh", "-c", 'for name; do cat "$name"; echo; done', "sh", *map(str, names),
                   rules=harness.rule_set(*rules))
    for index, name in enumerate(names):
        ask = run.ask()
        assert ask["object"]["path"] == str(name)
        swapped = index % 10 != 0  # the twin: nothing is done to it
        if swapped:
            swap(room, name, index)
        run.decide(ask, "allow")
    result = run.end()
    assert result.text == "".join("shown\n" if index % 10 == 0 else "\n" for index in range(SWAPS)), result.describe()


def test_a_file_that_must_be_new_is_asked_about_as_new(room):
    run = room.sh(f"echo text > {room.asked}/made; echo $?")
    ask = run.ask()
    assert ask["operations"] == ["create"] and ask["object"]["exists"] is False
    run.decide(ask, "allow")
    result = run.end()
    assert result.text == "0\n" and (room.asked / "made").read_bytes() == b"text\n", result.describe()


@pytest.mark.parametrize("script, operations, effect", [
    ("rm {}/file", ["delete"], lambda room: not room.file.exists()),
    ("mkdir {}/made", ["create"], lambda room: (room.asked / "made").is_dir()),
    ("chmod 600 {}/file", ["metadata"], lambda room: room.file.stat().st_mode & 0o777 == 0o600),
    ("mv {}/file {}/moved", ["create", "delete"], lambda room: (room.asked / "moved").exists() and not room.file.exists()),
    ("ln -s x {}/link", ["create"], lambda room: (room.asked / "link").is_symlink()),
    ("truncate -s 3 {}/file", ["modify"], lambda room: room.file.stat().st_size == 3),
])
def test_every_kind_of_change_is_asked_and_done_or_not(room, script, operations, effect):
    line = script.format(room.asked, room.asked) + "; echo end"
    rules = room.rules(operations=["write"])
    denied = room.sh(line, rules=rules)
    ask = denied.ask()
    assert ask["operations"] == operations
    denied.decide(ask, "deny", "object")
    assert denied.end().text == "end\n" and not effect(room)
    allowed = room.sh(line, rules=rules)
    allowed.decide(allowed.ask(), "allow", "object")
    result = allowed.end()
    assert effect(room), result.describe()


def test_execution_is_asked_with_its_arguments(room):
    program = room.box.file(room.asked / "program", Path(room.box.program("prog_word")).read_bytes(), 0o755)
    rules = room.rules({"id": "run", "ask": "execute", "path": f"{room.asked}/**"},
                       {"id": "see", "allow": "read", "path": str(program)}, operations=["write"])
    run = room.sh(f"{program} one; {program} one; {program} two; echo end", rules=rules)
    ask = run.ask()
    assert ask["operation"] == "execute" and ask["arguments"] == [str(program), "one"]
    run.decide(ask, "allow", "object")
    other = run.ask()
    assert other["arguments"] == [str(program), "two"]
    run.decide(other, "deny")
    result = run.end()
    bare = room.box.run([str(program), "one"], supervised=False)
    assert result.text == bare.text * 2 + "end\n", result.describe()


def test_a_connection_is_asked_and_made_or_the_listener_sees_nothing(room):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        rules = room.rules({"id": "net", "ask": "connect", "address": "127.0.0.1", "port": port})
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected; echo end"
        denied = room.run("/bin/bash", "-c", script, rules=rules)
        ask = denied.ask()
        assert ask["object"]["address"] == f"127.0.0.1:{port}" and ask["scopes"] == ["once", "object"]
        denied.decide(ask, "deny")
        assert denied.end().text == "end\n"
        with pytest.raises(BlockingIOError):
            server.accept()
        allowed = room.run("/bin/bash", "-c", script, rules=rules)
        allowed.decide(allowed.ask(), "allow")
        assert allowed.end().text == "connected\nend\n"
        server.settimeout(harness.DEADLINE)
        server.accept()[0].close()


def test_an_answer_can_end_the_run(room):
    run = room.sh(f"cat {room.file}; while :; do :; done")
    run.decide(run.ask(), "kill")
    result = run.end()
    (answered,) = records(result, "prompt.answered")  # the call itself may have ended with its caller before it was decided
    assert result.code == 137 and answered["callgate"]["answer"] == "kill", result.describe()


def test_nothing_wider_than_offered_is_taken(room):
    name = room.box.file(room.box.home / "file", b"at home")
    rules = room.rules({"id": "home", "ask": "read", "path": f"{room.box.home}/**"})
    run = room.sh(f"cat {name}; echo $?", rules=rules)
    ask = run.ask()
    assert ask["scopes"] == ["once", "object"]
    assert run.decide(ask, "allow", "tree")["applied"] is False
    assert run.end().text == "1\n"


def test_the_command_does_not_hold_the_descriptor_that_answers(room):
    run = room.sh("ls -l /proc/self/fd | grep -c socket: ; true")
    result = run.end(b"")
    assert result.text == "0\n", result.describe()


@pytest.mark.parametrize("options, message", [
    (["--ask", "fd:99"], "not open"), (["--ask", "fd:1"], "expected"), (["--ask", "fd:x"], "expected"),
    (["--ask", "sokcet"], "did you mean socket"), (["--ask-timeout", "soon"], "expected a duration"),
])
def test_wrong_channels_are_said_before_anything_runs(box, options, message):
    result = box.run(["/bin/true"], harness.rule_set(), options=options)
    assert result.code == 125 and message in result.errors, result.describe()


def test_a_descriptor_that_the_command_would_get_is_refused(box):
    executor = Executor()
    number = executor.descriptor()
    result = box.run(["/bin/true"], harness.rule_set(), options=["--ask", f"fd:{number}", "--pass-fd", str(number)],
                     pass_fds=(number,))
    executor.close()
    assert result.code == 125 and "let the command answer itself" in result.errors, result.describe()


PAGE = Path(__file__).parents[2] / "docs" / "approvals.md"


def test_the_example_of_the_documentation_answers(room):
    """As it stands there: what is read is allowed, what is written is not."""
    (example,) = [one for one in PAGE.read_text().split("```python\n")[1:] if "socketpair" in one]
    code = example.partition("```")[0]
    assert len(code.splitlines()) <= 30
    box = room.box
    work = box.directory(box.home / "work")
    letter = box.file(box.home / "letter", b"dear")
    box.file(work / "tool.py", f"import pathlib; p = pathlib.Path({str(letter)!r}); print(p.read_text(), flush=True); p.write_text('')".encode())
    program = box.file(work / "policy.py", code.encode())
    environment = box.environment(runtime(box))
    environment["PATH"] = f"{box.callgate.parent}:/usr/bin:/bin"
    process = box.start(["/usr/bin/python3", str(program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        cwd=work, env=environment)
    said = box.wait(process, ["policy.py"], None, harness.DEADLINE)
    assert said.text == "dear\n" and "Permission" in said.errors and said.code == 1, said.describe()
    assert letter.read_bytes() == b"dear"


SCHEMA = Path(__file__).parents[2] / "docs" / "approval.schema.json"


def test_every_message_is_as_the_schema_says(room):
    known = json.loads(SCHEMA.read_text())["$defs"]
    run = room.sh(f"cat {room.file}; cat {room.file}; mv {room.file} {room.asked}/moved; echo x > {room.asked}/new; read end")
    for _ in range(2):
        run.decide(run.ask(), "allow", "object" if _ else "once")
    run.executor.send(type="grants")
    run.executor.next("grants")
    run.executor.send(type="status")
    run.executor.next("status")
    run.executor.send_line(b"nonsense")
    run.decide(run.ask(), "deny")
    run.decide(run.ask(), "deny")
    run.end(b"\n")
    seen = run.executor.seen
    assert {one["type"] for one in seen} >= {"hello", "ask", "ack", "grants", "status"}
    for message in seen:
        shape = known[message["type"]]
        assert set(shape["required"]) <= set(message) <= set(shape["properties"]), message
    for ask in (one for one in seen if one["type"] == "ask"):
        (kind,) = [one for one in known["object"]["oneOf"] if one["properties"]["kind"]["const"] == ask["object"]["kind"]]
        assert set(kind["required"]) <= set(ask["object"]) <= set(kind["properties"])
        assert set(known["process"]["required"]) == set(ask["process"])
