"""Answers from another terminal (`callgate approve`), by a program, and the verbs that look at runs."""
from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest

import harness
from approvers import Person, SocketRun, records, runtime, verb
from outer import Outer
from test_approval import Room, room  # noqa: F401 (a fixture)


def run_in(room: Room, script: str, **more) -> SocketRun:
    return SocketRun(room.box, ["/bin/sh", "-c", script], room.rules(), **more)


def test_a_question_is_shown_and_answered_in_another_terminal(room):
    run = run_in(room, f"cat {room.file}")
    person = Person(room.box)
    shown = person.asked()
    assert "wants to   read" in shown and f"object     {room.file}   (13 bytes)" in shown, shown
    assert "reason: look first" in shown and f"beneath    {room.asked}" in shown
    person.answers("a")
    result = run.end()
    assert result.text == "asked content", result.describe()
    (answered,) = records(result, "prompt.answered")
    assert answered["callgate"]["decided_by"] == "person"
    assert answered["callgate"]["answered_by"] == {"uid": room.box.user.uid, "pid": person.process.pid, "channel": "socket"}


def test_a_run_that_waits_for_an_approver_says_so_on_its_terminal_once(room):
    other = room.box.file(room.asked / "other", b"other content")
    line, _ = room.box.command(["/bin/sh", "-c", f"cat {room.file}; cat {other}; echo; echo end"], room.rules(), ["--ask", "socket"])
    outer = Outer(room.box, line)
    said = outer.sees("waits for an answer; give it in another terminal with: callgate approve ")
    person = Person(room.box)
    person.asked()
    person.answers("a")
    person.asked()  # an approver is there now
    person.answers("a")
    said += outer.sees("end\r\n")
    assert "asked content" in said and "other content" in said and said.count("waits for an answer") == 1, said
    assert outer.end() == 0


def test_an_approver_without_questions_says_that_it_waits(room):
    person = Person(room.box)
    person.sees("callgate: waiting for questions of all runs; Ctrl-C ends this")
    run = run_in(room, f"cat {room.file}")
    person.asked()
    person.answers("a")
    assert run.end().text == "asked content"


LETTERS = [  # what is typed, what the answer is, whether the file is read (twice)
    ("a", ("allow", "once"), "asked content"), ("s", ("allow", "object"), "asked contentasked content"),
    ("t", ("allow", "tree"), "asked contentasked content"), ("", ("deny", "once"), ""), ("\x1b", ("deny", "once"), ""),
    ("d", ("deny", "object"), ""), ("D", ("deny", "run"), ""),
]


@pytest.fixture
def deep(room) -> list:
    """Files whose questions offer the levels `asked/reg/index` and those above it."""
    return [room.box.file(room.asked / "reg" / "index" / "a", b"[a]"), room.box.file(room.asked / "reg" / "b", b"[b]"),
            room.box.file(room.asked / "c", b"[c]")]


def test_u_widens_what_is_allowed_by_one_directory_and_t_allows_what_is_shown(room, deep):
    run = run_in(room, f"cat {' '.join(map(str, deep))}; echo x > {deep[1]}; echo $?")
    person = Person(room.box)
    assert f"beneath    {deep[0].parent}\r\n" in person.asked()
    person.answers("u", "callgate  question")
    assert f"beneath    {deep[1].parent}\r\n" in person.asked()
    person.answers("t")
    shown = person.asked()  # the file above it is a question of its own
    assert f"object     {deep[2]} " in shown, shown
    person.answers("")
    shown = person.asked()  # and so is writing beneath it
    assert "wants to   modify" in shown and f"object     {deep[1]} " in shown, shown
    person.answers("")
    result = run.end()
    assert result.text.startswith("[a][b]") and "[c]" not in result.text and not result.text.endswith("\n0\n"), result.describe()
    (tree,) = [one["callgate"] for one in records(result, "prompt.answered") if one["callgate"]["scope"] == "tree"]
    assert tree["object"] == str(deep[1].parent) and "operations" not in tree
    assert deep[1].read_bytes() == b"[b]"


def test_w_allows_reading_and_writing_for_the_program_that_asks(room, deep):
    script = room.box.file(room.free / "script", f"read line < {deep[0]}; echo $line; echo changed > {deep[0]}\n"
                                                 f"echo x > {deep[0].parent}/new; echo $?\n".encode())
    run = run_in(room, f". {script}")
    person = Person(room.box)
    person.asked()
    person.answers("w", "callgate  question")
    assert f"beneath    {deep[0].parent}   (read and write)" in person.asked()
    person.answers("t")
    result = run.end()
    assert result.text == "[a]\n0\n" and len(records(result, "prompt.shown")) == 1, result.describe()
    (answered,) = records(result, "prompt.answered")
    assert set(answered["callgate"]["operations"]) == {"read", "modify", "create", "delete", "metadata"}
    assert deep[0].read_bytes() == b"changed\n"


@pytest.mark.parametrize("line, answer, out", LETTERS, ids=["a", "s", "t", "enter", "esc", "d", "D"])
def test_every_letter_does_what_it_says(room, line, answer, out):
    run = run_in(room, f"cat {room.file}; cat {room.file}")
    person = Person(room.box)
    person.asked()
    person.answers(line, "question 1" if answer[1] == "once" else None)
    if answer[1] == "once":
        person.asked()
        person.answers("")
    result = run.end()
    assert result.text == out, result.describe()
    first = records(result, "prompt.answered")[0]["callgate"]
    assert (first["answer"], first["scope"]) == answer
    assert len(records(result, "prompt.shown")) == (2 if answer[1] == "once" else 1)


def test_what_was_typed_before_a_prompt_or_too_soon_is_no_answer(room):
    person = Person(room.box)
    person.type("a\na")  # a whole line, and a half one
    run = run_in(room, f"cat {room.file}; echo $?")
    shown = person.sees("k kill")
    person.type("a\n")
    shown += person.sees("(typed too early: ignored)")
    assert "> " not in shown.partition("k kill")[2]  # the mark that says that lines count
    person.asked()
    person.answers("")
    result = run.end()
    assert result.text == "1\n", result.describe()
    assert [one["callgate"]["answer"] for one in records(result, "prompt.answered")] == ["deny"]


def test_what_is_pasted_or_sent_by_the_terminal_is_no_answer(room):
    run = run_in(room, f"cat {room.file}; echo $?")
    person = Person(room.box)
    person.asked()
    for typed in ["\x1b[200~a\n\x1b[201~\n", "\x1b[200~x\na\na\x1b[201~\n", "\x1b[?62;c\n", "aa\n", "yes\n", "A\n"]:
        person.type(typed)
        person.sees("ignored)" if typed.startswith("\x1b[2") else "not understood")
    person.type("z\n")  # what is left of a paste, too
    person.sees("not understood")
    person.answers("")
    result = run.end()
    assert result.text == "1\n" and len(records(result, "prompt.answered")) == 1, result.describe()


def test_the_end_of_input_denies(room):
    run = run_in(room, f"cat {room.file}; echo $?")
    person = Person(room.box)
    person.asked()
    person.type("\x04")
    assert run.end().text == "1\n"
    assert person.process.wait(harness.DEADLINE) == 0


def test_details_show_what_was_hidden_before_it_can_be_allowed(room):
    name = room.asked / ("n" * 200)
    room.box.file(name, b"long")
    run = run_in(room, f"cat {name}")
    person = Person(room.box, columns=80, rows=16)
    shown = person.asked()
    assert "bytes].." in shown and "allow once" not in shown and "v first" in shown, shown
    person.answers("a", "not understood")
    person.answers("v", "n" * 60)
    person.asked()
    person.answers("a")
    assert run.end().text == "long"


def test_a_long_name_is_shown_whole_where_the_screen_has_room(room):
    name = room.asked / ("é" * 20 + "n" * 200)
    room.box.file(name, b"long")
    run = run_in(room, f"cat {name}")
    person = Person(room.box, columns=80)
    shown = person.asked()
    assert shown.count("n") > 200 and shown.count("é") == 20 and "allow once" in shown, shown
    person.answers("a")
    assert run.end().text == "long"


def test_hostile_names_are_shown_as_printable_ascii(room):
    name = room.asked / "x\x1b[2J\r\n┃ object     /harmless‮gpj"
    room.box.file(name, b"hostile")
    run = SocketRun(room.box, ["/bin/cat", str(name)], room.rules())
    person = Person(room.box, columns=200)
    shown = person.asked()
    assert r"x\x1b[2J\x0d\x0a\xe2\x94\x83 object     /harmless\xe2\x80\xaegpj" in shown, shown
    assert "\x1b[2J" not in shown and "‮" not in shown
    person.answers("")
    assert run.end().text == ""


def test_two_approvers_the_first_counts_and_one_that_dies_leaves_the_question(room):
    run = run_in(room, f"cat {room.file}")
    first, second = Person(room.box), Person(room.box)
    first.asked()
    second.asked()
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    third = Person(room.box)
    third.asked()
    second.answers("a")
    third.sees("it is not asked any more")
    assert run.end().text == "asked content"


@pytest.mark.parametrize("said", ["", "half a line"])
def test_an_approver_that_is_killed_in_the_middle_of_an_answer_answers_nothing(room, said):
    """It is killed in the middle of its line, or of its message. The next approver gets the same question."""
    run = run_in(room, f"cat {room.file}")
    if said:
        if room.box.user.uid != os.getuid():
            pytest.skip("connects as who runs the tests")
        client = connect(room, run.name())
        token = (room.box.root / "runtime" / "callgate" / f"{run.name()}.token").read_text()
        client.sendall(json.dumps({"v": 1, "type": "auth", "token": token}).encode() + b"\n")
        messages = client.makefile()
        ask = next(one for one in map(json.loads, messages) if one["type"] == "ask")
        answer = json.dumps({"v": 1, "type": "decision", "id": ask["id"], "key": ask["key"], "verdict": "allow", "scope": "once"})
        client.sendall(answer.encode())  # without its newline
        messages.close()
        client.close()
    else:
        first = Person(room.box)
        first.asked()
        first.type("a")  # without Enter
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    second = Person(room.box)
    second.asked()
    second.answers("")
    result = run.end()
    assert result.text == "" and [one["callgate"]["answer"] for one in records(result, "prompt.answered")] == ["deny"]


def test_one_answer_one_run_and_the_bell(room):
    run = run_in(room, f"cat {room.file}; cat {room.file}")
    person = Person(room.box, "--once", "--notify", "--run", run.name())
    shown = person.asked()
    assert "\a\x1b]2;callgate: 1 waiting\a" in shown
    person.answers("a")
    assert person.process.wait(harness.DEADLINE) == 0
    other = Person(room.box, run.name())
    other.asked()
    other.answers("a")
    assert other.process.wait(harness.DEADLINE) == 0  # its run has ended
    assert run.end().text == "asked contentasked content"
    assert verb(room.box, "approve", "nobody").code == 125


def test_without_a_channel_nobody_is_asked_and_with_a_waiting_approver_auto_asks(room):
    alone = run_in(room, f"cat {room.file}; echo $?", ask="auto").end()
    assert alone.text == "1\n" and alone.decisions(verdict="deny")[0]["callgate"]["reason"] == "no one to ask"
    person = Person(room.box)
    harness.until(lambda: (room.box.root / "runtime/callgate/approvers").exists(), "the approver waits")
    run = run_in(room, f"cat {room.file}", ask="auto")
    person.asked()
    person.answers("a")
    assert run.end().text == "asked content"
    never = run_in(room, f"cat {room.file}; echo $?", ask="never").end()
    assert never.text == "1\n"


def test_a_rule_is_proposed_and_taken_over_with_comments_and_order(room):
    box = room.box
    config = box.directory(box.directory(box.home / ".config") / "callgate")
    kept = '// mine\n{\n  "version": 1,\n  "rules": [\n    {"id": "first", "deny": "read", "path": "/nowhere"} // why\n  ]\n}\n'
    box.file(config / "rules.json", kept.encode())
    run = run_in(room, f"cat {room.file}")
    person = Person(box)
    person.asked()
    person.answers("r", "proposed as")
    person.answers("a")
    assert run.end().text == "asked content"
    listed = verb(box, "rules", "pending")
    name = listed.text.split()[0]
    assert str(room.file) in listed.text, listed.describe()
    taken = verb(box, "rules", "accept", name)
    assert taken.code == 0 and "\n+     {" in taken.text and str(room.file) in taken.text, taken.describe()
    after = (config / "rules.json").read_text()
    assert after.startswith('// mine\n{\n  "version": 1,\n  "rules": [\n    {"id": "first"') and "// why" in after
    assert verb(box, "check", str(config / "rules.json")).code == 0
    listed = verb(box, "rules", "pending")
    assert listed.text == "" and listed.errors.startswith("callgate: no pending rules"), listed.describe()
    assert verb(box, "rules", "drop", name).code == 125
    assert verb(box, "rules", "accept", "../rules").code == 125


def test_own_rules_are_listed_and_taken_out(box):
    config = box.directory(box.directory(box.home / ".config") / "callgate")
    listed = verb(box, "rules", "list")
    assert listed.text == "" and listed.errors == f"callgate: no rules of your own in {config}/rules.json\n", listed.describe()
    assert "does not exist" in verb(box, "rules", "remove", "second").errors
    secret = box.file(box.tree / "secret", b"content")
    text = '// mine\n{\n  "version": 1,\n  "rules": [\n    {"id": "first", "deny": "read", "path": "/nowhere"}, // why\n' \
        f'    {{"id": "second",\n     "deny": "read", "path": "{secret}"}},\n    {{"deny": "read", "path": "/else"}}\n  ]\n}}\n'
    box.file(config / "rules.json", text.encode())
    listed = verb(box, "rules", "list")
    assert listed.text == '  '.join(["first", '{"id": "first", "deny": "read", "path": "/nowhere"}\nsecond',
                                     f'{{"id": "second", "deny": "read", "path": "{secret}"}}\n#3', '{"deny": "read", "path": "/else"}\n'])
    read = lambda: box.run(["/bin/cat", str(secret)], options=["-p", "agent", "-q"])
    assert read().code == 1
    wrong = verb(box, "rules", "remove", "secnd")
    assert wrong.code == 125 and "did you mean second" in wrong.errors and (config / "rules.json").read_text() == text
    gone = verb(box, "rules", "remove", "second")
    assert gone.code == 0 and '\n-     {"id": "second",' in gone.text and "+ " not in gone.text, gone.describe()
    assert read().text == "content"
    last = verb(box, "rules", "remove", "#2")
    assert last.code == 0, last.describe()
    assert (config / "rules.json").read_text() == \
        '// mine\n{\n  "version": 1,\n  "rules": [\n    {"id": "first", "deny": "read", "path": "/nowhere"} // why\n  ]\n}\n'


# ---- by a program ----


def policy(room: Room, *lines: str) -> str:
    return str(room.box.file(room.box.root / "policy", "\n".join(["#!/usr/bin/python3", *lines, ""]).encode(), 0o755))


DECIDE = ["import json, sys", "ask = json.load(sys.stdin)"]


@pytest.mark.parametrize("lines, out", [
    ([*DECIDE, "print(json.dumps({'verdict': 'allow' if ask['object']['path'].endswith('/file') else 'deny'}))"], "asked content0\n"),
    ([*DECIDE, "print(json.dumps({'verdict': 'deny', 'reason': 'no'}))"], "1\n"),
    (["print('allow')"], "1\n"), (["print('{}')"], "1\n"), (["pass"], "1\n"),
    (["print('{\"verdict\": \"allow\"}', flush=True)", "raise SystemExit(1)"], "1\n"),
    (["import os", "while True: os.write(1, b'x' * 65536)"], "1\n"),
    (["import os", "print('{\"verdict\": \"allow\"}', flush=True)", "os.close(1)", "sum(range(10**7))"], "asked content0\n"),
], ids=["allow", "deny", "word", "empty", "silent", "failed", "endless", "closed"])
def test_a_program_decides_and_what_is_not_understood_denies(room, lines, out):
    program = policy(room, *lines)
    run = run_in(room, f"cat {room.file}; echo $?")
    decider = room.box.start([str(room.box.callgate), "approve", "--exec", program, "--once"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=room.box.environment(runtime(room.box)))
    result = run.end()
    assert result.text == out, result.describe()
    decider.communicate(timeout=harness.DEADLINE)
    assert decider.returncode == 0


def test_a_program_that_is_silent_denies_in_time(room):
    program = policy(room, "import signal", "signal.pause()")
    box = room.box
    line, log = box.command(["/bin/sh", "-c", f"cat {room.file}; echo $?"], room.rules(), ["--ask", "socket", "--ask-timeout", "1s"])
    decider = box.start([str(box.callgate), "approve", "--exec", program], stdin=subprocess.DEVNULL, env=box.environment(runtime(box)))
    process = box.start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=box.environment(runtime(box)))
    assert process.communicate(timeout=harness.DEADLINE)[0] == b"1\n"
    decider.send_signal(signal.SIGTERM)
    assert decider.wait(harness.DEADLINE) == 0


def test_a_program_that_closes_its_output_and_stays_keeps_nobody_waiting(room):
    program = policy(room, "import os, signal, sys", "print('{\"verdict\": \"allow\"}', flush=True)", "os.close(1)",
                     f"open({str(room.box.root / 'closed')!r}, 'w')", "signal.pause()")
    box = room.box
    run = run_in(room, f"cat {room.file}; echo $?")
    approve = [str(box.callgate), "approve", "--exec"]
    decider = box.start([*approve, program], stdin=subprocess.DEVNULL, env=box.environment(runtime(box)))
    (stays,) = harness.until(lambda: (box.root / "closed").exists() and harness.children(decider.pid), "the program has answered")
    decider.send_signal(signal.SIGTERM)
    assert decider.wait(harness.DEADLINE) == 0 and not harness.alive(stays)
    allows = policy(room, "print('{\"verdict\": \"allow\"}')")
    decider = box.start([*approve, allows, "--once"], stdin=subprocess.DEVNULL, env=box.environment(runtime(box)))
    result = run.end()
    assert result.text == "asked content0\n", result.describe()
    assert decider.wait(harness.DEADLINE) == 0


# ---- other verbs ----


def test_runs_are_listed_and_stopped_and_grants_listed_and_revoked(room):
    box = room.box
    run = run_in(room, f"read go; cat {room.file}; cat {room.file}; read go; cat {room.file}; read end; echo not reached")
    name = run.name()
    (listed,) = json.loads(verb(box, "ps", "--json").text)
    assert listed["run"] == name and listed["questions"] == 0 and listed["command"][0] == "/bin/sh"
    person = Person(box)
    harness.until(lambda: (box.root / "runtime/callgate/approvers").exists(), "the approver waits")
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    person.asked()
    assert json.loads(verb(box, "ps", "--json").text)[0]["questions"] == 1
    assert name in verb(box, "ps").text
    person.answers("s")
    (grant,) = harness.until(lambda: json.loads(verb(box, "grants", "--json").text), "the grant")
    assert grant["run"] == name and grant["text"] == f"read {room.file}" and grant["channel"] == "socket"
    assert str(room.file) in verb(box, "grants", name).text
    assert verb(box, "revoke", name, "99").code == 1
    assert verb(box, "revoke", name, str(grant["grant"])).code == 0
    run.process.stdin.write(b"\n")
    run.process.stdin.flush()
    person.asked()  # it is asked again
    person.answers("")
    assert verb(box, "stop", name).code == 0
    result = run.end(None)
    assert "not reached" not in result.text and result.code == 143, result.describe()
    assert len(records(result, "grant.revoked")) == 1
    assert verb(box, "ps").text == "" and verb(box, "stop", name).code == 125
    assert not list((box.root / "runtime/callgate").glob(f"{name}.*"))  # nothing is left


# ---- who may not answer ----


def connect(room: Room, run: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    os.chdir(room.box.root / "runtime" / "callgate")
    client.connect(f"{run}.sock")
    return client


def said(client: socket.socket) -> bytes:
    client.settimeout(harness.DEADLINE)
    everything = b""
    try:
        while got := client.recv(65536):
            everything += got
    except ConnectionResetError:
        pass
    return everything


@pytest.mark.parametrize("line", [b'{"v":1,"type":"auth","token":"0"}', b'{"v":1,"type":"decision","id":1}', b"x" * 200_000, b""])
def test_who_has_not_the_token_sees_and_answers_nothing(room, line):
    if room.box.user.uid != os.getuid():
        pytest.skip("connects as who runs the tests")
    run = run_in(room, f"cat {room.file}; echo $?")
    with connect(room, run.name()) as client:
        try:
            client.sendall(line + b"\n")
        except BrokenPipeError:
            pass
        heard = said(client)
    assert b'"ask"' not in heard and b"error" in heard
    person = Person(room.box)
    person.asked()
    person.answers("")
    assert run.end().text == "1\n"


def test_another_user_is_turned_away_also_where_the_directory_lets_it_in(room, users):
    if os.getuid() != 0 or room.box.user.uid != 0:
        pytest.skip("needs two users")
    other = users["user"]
    run = run_in(room, f"cat {room.file}; echo $?")
    name = run.name()
    place = room.box.root / "runtime"
    sneaking, path = place / "callgate", place
    path.chmod(0o755)
    sneaking.chmod(0o755)
    (sneaking / f"{name}.sock").chmod(0o777)
    code = ("import socket,sys\nc=socket.socket(socket.AF_UNIX)\nc.connect(sys.argv[1])\n"
            "c.settimeout(30)\nprint(repr(c.recv(100)))\n")
    heard = subprocess.run(["/usr/bin/python3", "-c", code, str(sneaking / f"{name}.sock")], user=other.uid, group=other.gid,
                           extra_groups=[], capture_output=True, timeout=harness.DEADLINE, cwd="/")
    sneaking.chmod(0o700)
    assert heard.stdout == b"b''\n", heard
    person = Person(room.box)
    person.asked()
    person.answers("")
    assert run.end().text == "1\n"


ASK_ITSELF = """
import json, os, socket, sys
place, run, how = sys.argv[1:4]
try:
    os.chdir(place)
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"{place}/{run}.sock" if how == "absolute" else f"{run}.sock")
    token = open(f"{place}/{run}.token").read()
    client.sendall(json.dumps({"v": 1, "type": "auth", "token": token}).encode() + b"\\n")
    print("connected", client.recv(4096)[:20])
except OSError as error:
    print("refused", error.errno is not None)
"""


@pytest.mark.parametrize("how", ["absolute", "relative"])
def test_the_run_cannot_reach_its_own_socket(room, how):
    """Also where the rules allow everything; from outside, the same program connects."""
    box = room.box
    program = box.file(room.free / "itself.py", ASK_ITSELF.encode())
    place = box.root / "runtime" / "callgate"
    everything = {"version": 1, "default": "allow", "rules": []}
    run = SocketRun(box, ["/bin/sh", "-c", f"read run; exec /usr/bin/python3 {program} {place} $run {how}"], everything)
    name = run.name()
    bare = box.start(["/usr/bin/python3", str(program), str(place), name, how], stdout=subprocess.PIPE,
                     env=box.environment(runtime(box)))
    assert bare.communicate(timeout=harness.DEADLINE)[0].startswith(b"connected")  # the control
    result = run.end(name.encode() + b"\n")
    assert result.text == "refused True\n", result.describe()
