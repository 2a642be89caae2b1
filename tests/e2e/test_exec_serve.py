"""`callgate exec --serve`: many jobs at once over one pipe, answered by id; none waits for another."""
from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

import harness
from jobs import Server, bash, check, ended, with_time

JOBS = 400 if harness.SOAK else 20


@pytest.fixture
def server(box):
    with ended(Server(box)) as made:
        yield made


STUBBORN = "trap '' TERM; setsid -f sleep 1000; : > {name}; while :; do sleep 1; done"


def begin(server: Server, key, **more) -> None:
    """A job that ignores SIGTERM has begun."""
    name = f"begun-{key}"
    server.send(bash(key, STUBBORN.format(name=name), env={"CG_MARK": str(server.box.root)}, **more))
    harness.until((server.box.tree / name).exists, f"job {key} begins")


def test_many_jobs_are_answered_each_with_its_own(server):
    server.send(*[bash(key, f"echo {key}; echo {key} >&2; exit {key % 100}") for key in range(JOBS)])
    for key in range(JOBS):
        answer = server.answer(key)
        assert (answer["output"], answer["error"], answer["exit_code"]) == (f"{key}\n", f"{key}\n", key % 100), answer
    assert server.close() == (0, b"") and len(server.order) == JOBS


def test_a_job_waits_for_no_other(server):
    """The first can only end when the second has: through a FIFO."""
    os.mkfifo(server.box.tree / "fifo")
    server.box.own(server.box.tree / "fifo")
    server.send(bash("first", "read line < fifo; echo $line"), bash("second", "echo through > fifo"))
    assert server.answer("first")["output"] == "through\n"
    assert server.answer("second")["exit_code"] == 0


def test_jobs_wait_their_turn_where_only_so_many_may_run(box):
    server = Server(box, "--jobs", "1")
    server.send(bash(1, "sleep 0.3; echo $(( $(cat count) + 1 )) > count; cat count"), *[
        bash(key, "echo $(( $(cat count) + 1 )) > count; cat count") for key in (2, 3, 4)])
    box.file(box.tree / "count", b"0\n")
    assert [server.answer(key)["output"] for key in (1, 2, 3, 4)] == ["1\n", "2\n", "3\n", "4\n"]
    assert server.order == [1, 2, 3, 4]


LISTEN = ("import socket; s = socket.socket(socket.AF_UNIX); s.bind('one.sock'); s.listen(); open('begun', 'w').close(); open('end').read(); "
          "s.setblocking(False); print(s.accept())")
CONNECT = "import socket; print(socket.socket(socket.AF_UNIX).connect_ex('NAME'))"
TWIN = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('two.sock'); s.listen(); " + CONNECT.replace("NAME", "two.sock")


def test_a_job_forks_whatever_other_jobs_have_forked(box):
    """The kernel counts all tasks of a user together. Twin: beyond the limit of its own a job is ended."""
    fork = """
import os, signal, sys, time
name, wanted, others, lasting = sys.argv[1], *map(int, sys.argv[2:])
open(name + ".begun", "w").close()
while sum(one.endswith(".forked") for one in os.listdir(".")) < others: time.sleep(0.01)
for _ in range(wanted):
    if os.fork() == 0: signal.pause()
open(name + ".forked", "w").close()
while lasting and not os.path.exists("last.forked"): time.sleep(0.01)
"""
    server = Server(box, "--processes", "40", "--jobs", "5")

    def send(name: str, wanted: int, others: int, lasting: int) -> None:
        server.send({"id": name, "command": ["/usr/bin/python3", "-c", fork, name, str(wanted), str(others), str(lasting)]})

    send("last", 30, 4, 0)
    harness.until((box.tree / "last.begun").exists, "the job that forks last has begun")
    for number in range(4):
        send(f"other{number}", 35, 0, 1)
    answers = [server.answer(name) for name in ("last", *(f"other{number}" for number in range(4)))]
    assert {(one["exit_code"], one["error"], one["report"]["outcome"]) for one in answers} == {(0, "", "exited")}, answers
    send("many", 1000, 0, 0)
    assert server.answer("many")["report"]["outcome"] == "processes"
    assert server.close() == (0, b"")


def test_a_job_reaches_no_socket_of_another_job(box):
    """Control: with a rule that names the socket, the other job's is reached. Twin: a job reaches its own."""
    named = box.rules_file({"version": 1, "rules": [{"id": "named", "allow": "connect", "unix": f"{box.tree}/one.sock"}]})
    for options, reached in (([], False), (["--rules", str(named), "-p", "agent"], True)):
        for name in ("one.sock", "two.sock", "begun", "end"):
            (box.tree / name).unlink(missing_ok=True)
        os.mkfifo(box.tree / "end")
        box.own(box.tree / "end")
        with ended(Server(box, *options)) as server:
            server.send(bash("service", f'python3 -c "{LISTEN}"'))
            harness.until((box.tree / "begun").exists, "the service listens")
            server.send(bash("other", f'python3 -c "{CONNECT.replace("NAME", "one.sock")}"'), bash("own", f'python3 -c "{TWIN}"'))
            other, own = server.answer("other"), server.answer("own")
            server.send(bash("end", "echo > end"))
            service = server.answer("service")
        assert own["output"] == "0\n", own
        assert other["output"] == f"{0 if reached else errno.ECONNREFUSED}\n", other
        assert (service["exit_code"] == 0) == reached, service
        assert reached or "callgate-others-sockets" in json.dumps(other["report"]), other


def test_a_cancelled_job_ends_with_its_tree_and_the_others_go_on(server):
    begin(server, "stubborn", grace=0.2)
    begin(server, "hard", grace=1000)
    os.mkfifo(server.box.tree / "fifo")
    server.box.own(server.box.tree / "fifo")
    server.send(bash("other", "echo begun; cat fifo"), {"cancel": "stubborn"}, {"cancel": "hard", "now": True}, {"cancel": "unknown"})
    assert server.answer(("cancel", "stubborn"))["found"] is True
    assert server.answer(("cancel", "unknown"))["found"] is False
    for key in ("stubborn", "hard"):
        answer = server.answer(key)
        assert (answer["exit_code"], answer["report"]["outcome"]) == (143, "cancelled"), answer
    assert harness.marked(f"CG_MARK={server.box.root}") == []
    harness.as_user(server.box.user, lambda: (server.box.tree / "fifo").write_text("end\n"))
    assert server.answer("other")["output"] == "begun\nend\n"


def test_a_job_does_not_outlive_the_servers_time_by_a_grace_of_its_own(box):
    """Twin: a shorter one holds. Control: where the server states no time, a job's own grace holds beyond the usual one."""
    with ended(Server(box, "--timeout", str(0.3 * harness.PATIENCE))) as server:
        for key, grace in (("long", 1000), ("short", 0.1)):
            server.send(bash(key, STUBBORN.format(name=key), grace=grace, env={"CG_MARK": str(box.root)}))
            answer = server.answer(key)
            assert (answer["exit_code"], answer["report"]["outcome"]) == (124, "timeout"), answer
        assert harness.marked(f"CG_MARK={box.root}") == []
    with ended(Server(box)) as server:
        deaf = "trap ': > told' TERM; : > begun; until [ -e told ]; do sleep 0.1; done; sleep 3; : > after; sleep 1000"
        server.send(bash("own", deaf, grace=1000))
        harness.until((box.tree / "begun").exists, "it begins")
        server.send({"cancel": "own"})
        harness.until((box.tree / "after").exists, "it goes on after SIGTERM")
        server.send({"cancel": "own", "now": True})
        assert server.answer("own")["report"]["outcome"] == "cancelled"


def test_a_job_that_is_cancelled_as_it_begins_is_answered(server):
    """At any moment of its start."""
    for key in range(JOBS):
        server.send(bash(key, "sleep 1000"))
        time.sleep(0.0005 * (key % 20))  # no condition is waited for: the moment is what varies
        server.send({"cancel": key})
        answer = server.answer(key)
        assert (answer["exit_code"], answer["report"]["outcome"]) == (143, "cancelled"), answer


def test_a_job_that_waits_can_be_cancelled(box):
    server = Server(box, "--jobs", "1")
    begin(server, 1, grace=0.2)
    server.send(bash(2, "echo never"), {"cancel": 2})
    assert "cancelled before" in server.answer(2)["error"]
    server.send({"cancel": 1, "now": True}, bash(3, "echo 3"))
    assert server.answer(1)["exit_code"] == 143 and server.answer(3)["output"] == "3\n"


def test_lines_that_are_no_jobs_are_answered_and_harm_nobody(server):
    server.send(b"nonsense\n", b'{"code":"1"}\n', b"\n", b'{"id":5,"code":3}\n', b'{"id":{},"code":"1"}\n', b'{"cancel":[]}\n',
                b"\xff\xfe\n", b"[" * 100_000 + b"\n", bash("good", "echo good"))
    assert server.answer("good")["output"] == "good\n"
    assert [one["error"].split(":")[0] for one in server.answers[None]] == [
        "the job is no JSON", "id", "id", "id", "the job is no JSON", "the job is nested too deeply"], server.answers
    assert "expected a text" in server.answer(5)["error"]
    server.send(b"not ended by a newline")
    assert server.close() == (0, b"") and len(server.answers[None]) == 7


def test_an_id_that_is_in_use_is_refused(server):
    os.mkfifo(server.box.tree / "fifo")
    server.box.own(server.box.tree / "fifo")
    server.send(bash("a", "cat fifo"), bash("a", "echo second"))
    assert "has not ended" in server.answer("a")["error"]
    harness.as_user(server.box.user, lambda: (server.box.tree / "fifo").write_text("first\n"))
    assert server.answer("a", 2)["output"] == "first\n"
    server.send(bash("a", "echo third"))
    assert server.answer("a", 3)["output"] == "third\n"


def test_a_large_job_and_a_large_answer_delay_nobody(server):
    data = "é" * 2_000_000
    server.send({"id": "large", "command": ["/bin/cat"], "stdin": data}, bash("small", "echo small"))
    assert server.answer("small")["output"] == "small\n" and server.answer("large")["output"] == data


def test_jobs_from_a_file_with_the_answers_in_a_file(box):
    jobs = box.file(box.root / "jobs", b"".join(json.dumps(bash(key, f"echo {key}")).encode() + b"\n" for key in range(5)))
    answers = box.file(box.root / "answers")
    with jobs.open("rb") as reading, answers.open("wb") as writing:
        process = box.start([str(box.callgate), "exec", "--serve", "--no-audit"], stdin=reading, stdout=writing, stderr=subprocess.PIPE)
        assert process.communicate(timeout=harness.DEADLINE)[1] == b"" and process.returncode == 0
    assert sorted(check(json.loads(line))["output"] for line in answers.read_text().splitlines()) == [f"{key}\n" for key in range(5)]


def test_pieces_of_output_come_before_the_answer(box):
    """The second is written only when the first has been read. What is not kept is not sent either."""
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    process = bare_server(box, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(bash(1, "echo one; read -r x < fifo; echo two-three >&2", stream=True, max_output=5)).encode() + b"\n")
    process.stdin.close()
    assert json.loads(process.stdout.readline()) == {"id": 1, "stream": "output", "text": "one\n"}
    harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("on\n"))
    assert json.loads(process.stdout.readline()) == {"id": 1, "stream": "error", "text": "two-t"}
    answer = check(json.loads(process.stdout.readline()))
    assert (answer["output"], answer["error"], answer["error_bytes"]) == ("one\n", "two-t", 10)
    assert process.wait(harness.DEADLINE) == 0 and process.stderr.read() == b""


def test_input_reaches_a_job_that_runs(server):
    """Each line is answered once. A job that reads nothing keeps nobody waiting, and holds 16 MiB at most."""
    def told(key, count: int = 1) -> dict:
        return server.answer(("input", key), count)

    server.send(bash(1, "read -r a; read -r b; cat; echo $a-$b", stdin="one\n", stdin_open=True), {"input": 1, "text": "two\nth"},
                {"input": 1, "base64": "cmVlCg==", "end": True}, {"input": 1, "id": "l", "text": "late"})
    assert server.answer(1)["output"] == "three\none-two\n"
    assert sorted((one.get("written", False), one.get("id")) for one in server.answers["input", 1]) == [(False, "l"), (True, None), (True, None)]
    server.send(bash(2, ": > begun; sleep 1000", stdin_open=True, grace=0.1))
    server.send(*[{"input": 2, "text": "x" * (10 << 20)}] * 2, {"input": 2, "text": "x"}, bash(3, "exec <&-; echo on", stdin_open=True))
    server.send({"cancel": 2, "now": True}, {"input": 7, "text": "x"}, bash(4, "cat >&2"), {"input": 4, "text": "x"}, {"input": 4}, {"input": 4, "text": "", "base64": ""})
    assert server.answer(2)["report"]["outcome"] == "cancelled"
    assert sorted("16 MiB" in told(2, count).get("error", "") for count in (1, 2, 3)) == [False, False, True]
    assert all("16 MiB" in one["error"] or "has ended" in one["error"] for one in server.answers["input", 2])
    assert "no job" in told(7)["error"] and "stdin_open" in told(4)["error"]
    assert {server.answer(None, count)["error"].split(":")[0] for count in (1, 2)} <= {"text", "base64"}
    assert server.answer(3)["output"] == "on\n"
    server.send(bash(5, "cat", stdin_open=True))
    assert server.close() == (0, b"") and server.answer(5)["exit_code"] == 0, "the end of the server's input is the end of the job's"


def test_output_that_only_streams_has_no_bound(box):
    """A reader that stalls holds up the job: what it left behind is little, whatever it could have written in that time."""
    process = bare_server(box, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    mark = f"CG_MARK={box.root}"

    def begin(job: dict) -> None:
        process.stdin.write(json.dumps({"stream": "only", **job}).encode() + b"\n")
        process.stdin.flush()

    def read(key: int) -> tuple[int, dict]:
        count = 0
        for line in process.stdout:
            answer = json.loads(line)
            if "stream" not in answer:
                return count, check(answer)
            count += len(answer["text"]) if answer["id"] == key else 0

    begin(bash(1, "head -c 30000000 /dev/zero | tr '\\0' x; echo err >&2"))
    count, answer = read(1)
    assert count == 30_000_004 and (answer["output"], answer["error"], answer["exit_code"]) == ("", "", 0), answer

    def unread(seconds: float) -> tuple[int, dict]:
        begin(bash(2, "exec yes", timeout=seconds, grace=0.1, env={"CG_MARK": str(box.root)}))
        harness.until(lambda: select.select([process.stdout], [], [], 0)[0], "the job's output or its answer")
        harness.until(lambda: harness.marked(mark) == [], "the job ends")
        return read(2)
    count, answer = with_time(unread, lambda told: told[0])
    assert 0 < count < 16 << 20 and answer["report"]["outcome"] == "timeout", count
    process.stdin.close()
    assert process.wait(harness.DEADLINE) == 0 and process.stderr.read() == b""


def bare_server(box: harness.Box, **streams) -> subprocess.Popen:
    return box.start([str(box.callgate), "exec", "--serve", "--no-audit"], stderr=subprocess.PIPE, **streams)


def test_requests_come_in_any_pieces(box):
    """Jobs arrive as several in one piece, one byte by byte, a large one in pieces, and one behind it. The test uses a pipe
    and a socket."""
    lines = [json.dumps(bash(key, f"echo {key}")).encode() + b"\n" for key in range(6)]
    large = json.dumps(bash("large", "echo large # " + "x" * 300_000)).encode() + b"\n"
    pieces = [lines[0], lines[1] + lines[2] + lines[3][:7], lines[3][7:], *(bytes([one]) for one in lines[4]),
              *(large[at:at + 50_000] for at in range(0, len(large), 50_000)), lines[5]]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        over_socket = bare_server(box, stdin=theirs, stdout=theirs)
        theirs.close()
        over_pipe = bare_server(box, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for piece in pieces:
            ours.sendall(piece)
            over_pipe.stdin.write(piece)
            over_pipe.stdin.flush()
        ours.shutdown(socket.SHUT_WR)
        over_pipe.stdin.close()
        for process, answers in ((over_socket, ours.makefile("rb")), (over_pipe, over_pipe.stdout)):
            outputs = sorted(check(json.loads(line))["output"] for line in answers)
            assert outputs == [*(f"{key}\n" for key in range(6)), "large\n"], outputs
            assert process.wait(harness.DEADLINE) == 0 and process.stderr.read() == b""


def test_answers_wait_for_a_reader_who_takes_his_time(box):
    """More than a pipe holds, and nobody reads: none is lost, torn or out of turn."""
    process = bare_server(box, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    names = [f"unknown-{key}" for key in range(3000)]
    for name in names:
        process.stdin.write(json.dumps({"id": name, "language": "none", "code": ""}).encode() + b"\n")
    process.stdin.close()
    held = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
    harness.until(lambda: struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4))[0] > held - 4096, "the pipe is full")
    answers = [check(json.loads(line)) for line in process.stdout]
    assert [one["id"] for one in answers] == names and all("language" in one["error"] for one in answers)
    assert sum(len(json.dumps(one)) for one in answers) > 2 * held
    assert process.wait(harness.DEADLINE) == 0 and process.stderr.read() == b""


def test_the_end_of_stdin_lets_jobs_finish(server):
    server.send(bash(1, ": > begun; sleep 0.5; echo done"))
    harness.until((server.box.tree / "begun").exists, "the job begins")
    assert server.close() == (0, b"")
    assert server.answer(1)["output"] == "done\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_every_tree_and_every_job_is_answered(box, number):
    server = Server(box, "--jobs", "2")
    for key in (1, 2):
        begin(server, key, grace=0.2)
    server.send(bash(3, "echo never"), {"cancel": "x"})
    server.answer(("cancel", "x"))  # all lines were read
    server.process.send_signal(number)
    assert server.wait() == (0, b"")
    assert [server.answer(key)["report"]["outcome"] for key in (1, 2)] == ["cancelled", "cancelled"]
    assert "ended by SIG" in server.answer(3)["error"]
    assert harness.marked(f"CG_MARK={box.root}") == []


@pytest.mark.parametrize("whole_group", [False, True])
def test_sigkill_ends_every_tree(server, whole_group):
    for key in (1, 2):
        begin(server, key, grace=1000)
    marker = f"CG_MARK={server.box.root}"
    assert len(harness.marked(marker)) >= 4
    harness.kill_group_of(server.process.pid) if whole_group else server.process.kill()
    harness.until(lambda: harness.marked(marker) == [], "every tree has ended")


def test_when_nobody_reads_the_answers_every_tree_ends(box):
    reading, writing = os.pipe()
    process = box.start([str(box.callgate), "exec", "--serve", "--no-audit"], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    process.stdin.write(json.dumps(bash(1, STUBBORN.format(name="begun"), grace=1000, env={"CG_MARK": str(box.root)})).encode() + b"\n")
    process.stdin.flush()
    harness.until((box.tree / "begun").exists, "the job begins")
    os.close(reading)
    assert process.wait(harness.DEADLINE) == 125
    assert harness.marked(f"CG_MARK={box.root}") == [] and b"nobody reads" in process.stderr.read()


def test_jobs_are_kept_from_each_other(server):
    """Their processes, their descriptors, their outputs: bare, one user's processes reach each other."""
    server.send(bash("victim", "echo $$ > pid; mv pid victim; while [ ! -e over ]; do sleep 0.05; done; echo unharmed"))
    pid = int(harness.until(lambda: (server.box.tree / "victim").exists() and (server.box.tree / "victim").read_text(), "the victim begins"))
    reach = ("import os, signal\n"
             "for what in (lambda: os.open('/proc/{pid}/fd/1', os.O_WRONLY), lambda: os.open('/proc/{pid}/mem', os.O_RDONLY),\n"
             "             lambda: os.kill({pid}, signal.SIGKILL)):\n"
             "    try: what(); print('reached')\n"
             "    except OSError as error: print('denied', error.errno)\n")
    own_pipe = "import os, sys; os.dup2(os.pipe()[1], 1); os.write(2, b'ready'); sys.stdin.read()"
    with subprocess.Popen(["/usr/bin/python3", "-c", own_pipe], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          **server.box.user.popen_identity()) as bare:
        assert bare.stderr.read(5) == b"ready"
        control = server.box.run(["/usr/bin/python3", "-c", reach.format(pid=bare.pid)], supervised=False)
        assert control.out == b"reached\n" * 3, control.describe()
    answer = server.do({"id": "attacker", "code": reach.format(pid=pid), "read": ["/proc"]})
    assert answer["output"] == "denied 13\ndenied 13\ndenied 1\n", answer
    server.send(bash("over", ": > over"))
    assert server.answer("victim")["output"] == "unharmed\n"
    own = server.do({"id": "descriptors", "code": "import os; print(sorted(os.listdir('/proc/self/fd'))[:-1])", "stdin": "x"})
    assert own["output"] == "['0', '1', '2']\n", own
