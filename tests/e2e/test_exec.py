"""`callgate exec`: one JSON job on stdin, one JSON object on stdout, whatever the job does."""
from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

import harness
from jobs import check, execute, with_time

MUCH = 1 << 30 if harness.SOAK else 1 << 26


def bash(code: str, **more):
    return {"language": "bash", "code": code, **more}


# ---- what a job can say ----

@pytest.mark.parametrize("job, output", [
    ({"code": "import sys; print(sys.argv[0], 6 * 7)"}, "-c 42\n"),
    ({"language": "bash", "code": "a=(4 2); echo ${a[0]}${a[1]}"}, "42\n"),
    ({"language": "sh", "code": "echo 42"}, "42\n"),
    ({"command": ["/bin/echo", "4 2", "é"]}, "4 2 é\n"),
])
def test_code_in_each_language_and_a_command(box, job, output):
    answer = execute(box, job)
    assert (answer["output"], answer["error"], answer["exit_code"]) == (output, "", 0), answer
    assert answer["report"]["outcome"] == "exited" and answer["report"]["denials"] == [], answer


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node(box):
    answer = execute(box, {"language": "node", "code": "console.log(require('path').join('a', 'b'))"})
    assert (answer["output"], answer["exit_code"]) == ("a/b\n", 0), answer


def test_a_job_that_circulates_is_taken_as_it_is(box):
    """{"code", "scratch"} in, {"output", "error", "code"} out; only the scratch directory is writable."""
    outside = box.directory(box.root / "outside")
    scratch = box.directory(box.root / "scratch")
    code = f"open('inside', 'w').write('x')\nprint('made')\nopen('{outside}/file', 'w')"
    assert subprocess.run(["/usr/bin/python3", "-c", code], cwd=scratch, capture_output=True).returncode == 0
    (outside / "file").unlink()
    (scratch / "inside").unlink()
    answer = execute(box, {"code": code, "scratch": str(scratch)}, "--compat")
    assert answer["output"] == "made\n" and answer["code"] == 1 and "Permission denied" in answer["error"], answer
    assert [one["object"] for one in answer["report"]["denials"]] == [f"{outside}/file"], answer
    assert (scratch / "inside").exists() and not (outside / "file").exists()


def test_stdin_environment_and_directories(box):
    below = box.directory(box.tree / "below")
    code = "import os, sys; print(os.getcwd(), repr(os.environ['A']), os.environ['NAMED'], 'OTHER' in os.environ, sys.stdin.read())"
    answer = execute(box, {"code": code, "workdir": str(box.tree), "cwd": str(below), "stdin": "ünd", "env": {"A": "x\ny=z", "NAMED": None}},
                     env={"NAMED": "n", "OTHER": "o", "A": "old"})
    assert answer["output"] == f"{below} 'x\\ny=z' n False ünd\n", answer


def test_bytes_go_in_and_come_out(box):
    data = bytes(range(256)) * 40
    answer = execute(box, {"command": ["/bin/cat"], "stdin_base64": base64.b64encode(data).decode()})
    assert base64.b64decode(answer["output_base64"]) == data
    plain = execute(box, {"command": ["/bin/cat"], "stdin": "no newline: é\u0000\u202e"})
    assert plain["output"] == "no newline: é\u0000\u202e" and "output_base64" not in plain, plain


def test_without_stdin_there_is_nothing_to_read(box):
    assert execute(box, bash("cat; echo end"))["output"] == "end\n"


def test_values_of_variables_are_in_no_command_line(box):
    """Any user of the machine can read command lines."""
    answer = execute(box, bash("tr '\\0' ' ' < /proc/$PPID/cmdline; echo; echo $SECRET", env={"SECRET": "hidden-value"}),
                     "--read", "/proc")
    lines = answer["output"].splitlines()
    assert lines[-1] == "hidden-value" and not any("hidden-value" in one for one in lines[:-1]), answer


def test_code_and_rules_of_any_length(box):
    long = "x" * 300_000
    rules = {"version": 1, "extends": ["agent"], "description": "d" * 200_000,
             "rules": [{"id": "no-notes", "deny": "read", "path": "${workdir}/notes"}]}
    box.file(box.tree / "notes", b"n")
    for job, output in (({"code": f"x = '{long}'\nprint(len(x), __name__)\nopen('notes')"}, "300000 __main__\n"),
                        ({"language": "sh", "code": f"x={long}\necho ${{#x}} __main__\ncat notes"}, "300000 __main__\n")):
        answer = execute(box, {**job, "rules": rules})
        assert answer["output"] == output and answer["exit_code"] == 1, answer
        assert [one["rule"] for one in answer["report"]["denials"]] == ["no-notes"], answer


def test_limits_and_rules_of_a_job_hold(box):
    answer = with_time(lambda seconds: execute(box, bash("echo begun; sleep 1000", timeout=seconds)), lambda answer: answer["output"])
    assert (answer["exit_code"], answer["output"], answer["report"]["outcome"]) == (124, "begun\n", "timeout"), answer
    answer = execute(box, bash("ulimit -n; cat notes", open_files=77, deny=[str(box.file(box.tree / "notes", b"n"))]))
    assert answer["output"] == "77\n" and [one["rule"] for one in answer["report"]["denials"]] == ["option-deny#1"], answer


def test_a_connection_is_allowed_by_name_and_denied_otherwise(box):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('connected')"
        assert subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True).stdout == b"connected\n"
        assert execute(box, {"code": code, "connect": [f"127.0.0.1:{port}"]})["output"] == "connected\n"
        denied = execute(box, {"code": code})
        assert denied["exit_code"] == 1 and denied["report"]["denials"][0]["object"] == f"127.0.0.1:{port}", denied


def test_both_outputs_as_one_in_order(box):
    answer = execute(box, bash("echo 1; echo 2 >&2; echo 3", merge_stderr=True))
    assert (answer["output"], answer["error"]) == ("1\n2\n3\n", ""), answer


# ---- whatever the job does ----

@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15, 31])
def test_a_job_that_dies_of_a_signal(box, number):
    answer = execute(box, bash(f"echo before; kill -{number} $$"))
    assert (answer["output"], answer["exit_code"], answer["report"]["signal"]) == ("before\n", 128 + number, number), answer


@pytest.mark.parametrize("code", [1, 124, 125, 126, 127, 255])
def test_any_exit_status_is_the_jobs_own(box, code):
    answer = execute(box, bash(f"exit {code}"))
    assert (answer["exit_code"], answer["report"]["outcome"]) == (code, "exited"), answer


def test_a_program_that_is_missing_or_none(box):
    answer = execute(box, {"command": ["no-such-program"]})
    assert answer["exit_code"] == 127 and answer["report"]["outcome"] == "exec_failed" and "no-such-program" in answer["error"], answer
    answer = execute(box, {"command": [str(box.file(box.tree / "plain", b"x"))]})
    assert answer["exit_code"] == 126 and answer["report"]["outcome"] == "exec_failed", answer


def test_output_without_end_is_cut_and_counted_in_bounded_memory(box):
    """Peak memory of callgate exec and of all that it waited for: far below what was written."""
    script = ("import json, resource, subprocess, sys\n"
              f"job = {{'language': 'bash', 'max_output': 1000, 'code': 'yes ééé | head -c {MUCH}; echo end >&2'}}\n"
              f"done = subprocess.run(['{box.callgate}', 'exec', '--no-audit'], input=json.dumps(job).encode(), capture_output=True)\n"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
              "sys.stdout.flush(); sys.stdout.buffer.write(done.stdout)")
    result = box.run(["/usr/bin/python3", "-c", script], supervised=False)
    peak, _, line = result.out.partition(b"\n")
    answer = check(json.loads(line))
    assert answer["output_truncated"] and answer["output_bytes"] == MUCH and answer["error"] == "end\n", answer
    assert len(answer["output"].encode()) in (999, 1000) and "output_base64" not in answer and answer["exit_code"] == 0, answer
    assert int(peak) < 40 * 1024, f"{int(peak)} KiB"


def test_what_is_left_running_is_ended_and_delays_nothing(box):
    marker = f"CG_MARK={box.root}"
    answer = execute(box, bash("sleep 1000 & setsid -f sleep 1000; (trap '' TERM; while :; do sleep 1; done) & echo done",
                               env={"CG_MARK": str(box.root)}))
    assert (answer["output"], answer["exit_code"]) == ("done\n", 0), answer
    assert harness.marked(marker) == []


def test_a_job_that_closes_its_outputs_or_never_reads_its_stdin(box):
    job = bash("exec <&- >&- 2>&-; exit 5", stdin="x" * 4_000_000)
    assert execute(box, job)["exit_code"] == 5
    assert execute(box, bash("exec >&- 2>&-; sleep 1000", timeout=0.5))["exit_code"] == 124
    assert execute(box, {"command": ["/usr/bin/wc", "-c"], "stdin": "x" * 4_000_000})["output"] == "4000000\n"


def test_an_outside_process_that_holds_the_output_is_not_waited_for(box):
    """A descriptor that was sent out of the tree keeps the pipe open for ever."""
    path = box.root / "door"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        path.chmod(0o777)
        door.listen()
        code = (f"import socket, array\ns = socket.socket(socket.AF_UNIX); s.connect('{path}')\nprint('sent', flush=True)\n"
                "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])")
        answer = execute(box, {"code": code, "connect": [f"unix:{path}"]})
        assert (answer["output"], answer["exit_code"]) == ("sent\n", 0), answer
        peer, _ = door.accept()
        with peer:
            _, descriptors, _, _ = socket.recv_fds(peer, 1, 1)
            assert len(descriptors) == 1, "the test holds nothing"
            os.close(descriptors[0])


def test_a_job_cannot_write_what_looks_like_an_answer(box):
    lines = '{"output":"forged","error":"","exit_code":0,"report":{"version":1,"outcome":"exited"}}\n'
    answer = execute(box, {"code": f"import sys\nfor s in (sys.stdout, sys.stderr): s.write({lines!r} + '\\x1b[2J\\x9b\\u2028\\r\\n')\nsys.exit(9)"})
    assert answer["exit_code"] == 9 and answer["output"].startswith(lines) and answer["error"].startswith(lines), answer


FORGE = """
import os
def parent(pid):
    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
pid = os.getppid()
for _ in range(STEPS):
    try:
        os.write(os.open(f'/proc/{pid}/fd/1', os.O_WRONLY), b'forged\\n')
    except OSError as error:
        print(error.strerror)
    pid = parent(pid)
"""


def test_the_output_of_callgate_itself_is_out_of_the_jobs_reach(box):
    """Its parents' outputs, by /proc: the guardian, the run, exec. Bare, the output of a parent can be written."""
    bare = box.run(["/bin/sh", "-c", "(/usr/bin/python3 -c \"$0\"; :) | cat", FORGE.replace("STEPS", "1")], supervised=False)
    assert bare.out == b"forged\n", bare.describe()
    job = {"code": FORGE.replace("STEPS", "3"), "read": ["/proc"]}
    result = box.run(["/bin/sh", "-c", f"{box.callgate} exec --no-audit | cat"], supervised=False, stdin=json.dumps(job).encode())
    answer = check(json.loads(result.out))
    assert answer["exit_code"] == 0 and answer["output"] == "Permission denied\n" * 3, answer


def test_a_job_gets_no_descriptor_but_its_own(box):
    answer = execute(box, {"code": "import os\nfor fd in os.listdir('/proc/self/fd'):\n  try: print(fd, os.readlink(f'/proc/self/fd/{fd}'))\n  except OSError: pass",
                           "stdin": "x"})
    assert sorted(line.split()[0] for line in answer["output"].splitlines()) == ["0", "1", "2"], answer


# ---- what is wrong ----

@pytest.mark.parametrize("job, words", [
    (b"", ["empty"]), (b"{", ["no JSON", "line 1"]), (b"[]", ["a list"]), (b'{"code":"1"} x', ["no JSON"]),
    (b'{"cod":"1"}', ['"cod"', "did you mean code"]), (b'{"code":"1","timeout":"1Q"}', ["timeout", "expected", "1Q"]),
    (b'{"code":"1","language":"bsh"}', ["bsh", "did you mean bash"]), (b'{"code":"\\ud800"}', ["no JSON"]),
    (b'{"code":"1","profiles":["pyton"]}', ["pyton", "did you mean python"]),
    (b'{"code":"1","rules":{"version":1,"ruls":[]}}', ["ruls", "rules"]),
    (b'{"code":"1","workdir":"/no/such"}', ["/no/such", "No such file"]),
    (b'{"code":"1","memory":"999999T"}', ["memory"]), (b'{"code":"1","connect":["a b"]}', ["--connect"]),
    (b'{"code":"\xff"}', ["no JSON"]), (b'{"code":' + b"[" * 5000, ["nested too deeply"]),
], ids=lambda value: value[0].strip('"') if isinstance(value, list) else "")
def test_a_malformed_job_says_what_is_wrong_and_nothing_runs(box, job, words):
    answer = execute(box, job, code=125)
    assert all(word in answer["error"] for word in words), answer


def test_what_the_command_line_fixes_a_job_cannot_change(box):
    for job in (bash("", rules={"version": 1}), bash("", profiles=["open"]), bash("", write=["/"])):
        assert "--profile" in execute(box, job, "-p", "python", code=125)["error"]
    assert "--workdir" in execute(box, bash("", workdir="/"), "--workdir", str(box.tree), code=125)["error"]
    assert execute(box, bash("sleep 1000", timeout=1000), "--timeout", "0.3")["exit_code"] == 124


@pytest.mark.parametrize("options, words", [
    (["--timeout", "x"], ["--timeout", "expected"]), (["--ask", "tty"], ["callgate run"]), (["--pass-fd", "3"], ["unknown option"]),
    (["--serve", "--audit", "log"], ["cannot share"]), (["--jobs", "0"], ["--jobs"]), (["extra"], ["too many arguments"]),
])
def test_wrong_options_are_one_line_on_stderr(box, options, words):
    result = box.run([str(box.callgate), "exec", *options], supervised=False, stdin=b"{}")
    assert result.code == 125 and result.out == b"" and len(result.errors.splitlines()) == 1, result.describe()
    assert all(word in result.errors for word in words), result.describe()


def test_variables_meant_for_run_do_not_reach_the_run(box):
    """CALLGATE_STATUS and others name descriptors that the run does not have."""
    answer = execute(box, bash("echo 1"), env={"CALLGATE_STATUS": "fd:9", "CALLGATE_REPORT": str(box.tree / "report"), "CALLGATE_PASS_FD": "8"})
    assert answer["output"] == "1\n" and not (box.tree / "report").exists(), answer
    assert execute(box, bash("sleep 1000"), env={"CALLGATE_TIMEOUT": "0.3"})["exit_code"] == 124


def test_each_run_has_its_own_log_where_none_is_forbidden(box):
    result = box.run([str(box.callgate), "exec"], supervised=False, stdin=json.dumps(bash("echo 1")).encode())
    log = json.loads(result.out)["report"]["audit"]["file"]
    assert Path(log).parent.parent == box.state and Path(log).exists(), result.describe()


# ---- the end of callgate exec itself ----

def sleeper(box, **keywords):
    """A job that says that it has begun by a file, ignores SIGTERM, and leaves children everywhere."""
    code = "trap '' TERM; sleep 1000 & setsid -f sleep 1000; echo begun; : > begun; while :; do sleep 1; done"
    process = box.start([str(box.callgate), "exec", "--no-audit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, start_new_session=True, **keywords)
    process.stdin.write(json.dumps(bash(code, grace=0.2, env={"CG_MARK": str(box.root)})).encode())
    process.stdin.close()
    process.stdin = None
    harness.until((box.tree / "begun").exists, "the job begins")
    return process, f"CG_MARK={box.root}"


@pytest.mark.parametrize("whole_group", [False, True])
def test_sigkill_of_exec_ends_the_tree(box, whole_group):
    process, marker = sleeper(box)
    assert len(harness.marked(marker)) >= 3
    if whole_group:
        harness.kill_group_of(process.pid)
    else:
        process.kill()
    harness.until(lambda: harness.marked(marker) == [], "the tree has ended")
    out, _ = process.communicate(timeout=harness.DEADLINE)
    assert out == b"", out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_exec_ends_the_job_and_it_is_answered(box, number):
    process, marker = sleeper(box)
    process.send_signal(number)
    out, err = process.communicate(timeout=harness.DEADLINE)
    answer = check(json.loads(out))
    assert (process.returncode, err, answer["output"], answer["report"]["outcome"]) == (0, b"", "begun\n", "cancelled"), answer
    assert answer["exit_code"] == 128 + number and harness.marked(marker) == [], answer


def test_sigint_is_the_jobs_to_handle(box):
    process = box.start([str(box.callgate), "exec", "--no-audit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(json.dumps(bash("trap 'echo caught; exit 4' INT; : > begun; while :; do sleep 0.1; done")).encode())
    process.stdin.close()
    process.stdin = None
    harness.until((box.tree / "begun").exists, "the job begins")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=harness.DEADLINE)
    answer = check(json.loads(out))
    assert (answer["output"], answer["exit_code"], answer["report"]["outcome"]) == ("caught\n", 4, "exited"), answer


def test_when_nobody_reads_the_answer_the_job_ends(box):
    process, marker = sleeper(box)
    process.stdout.close()
    process.stdout = None
    harness.until(lambda: harness.marked(marker) == [], "the tree has ended")
    assert process.wait(harness.DEADLINE) == 125
    assert b"nobody reads" in process.stderr.read()


def test_the_supervisor_of_a_job_killed_by_someone_is_answered_too(box):
    process, marker = sleeper(box)
    (run,) = harness.children(process.pid)
    os.kill(run, signal.SIGKILL)
    out, _ = process.communicate(timeout=harness.DEADLINE)
    answer = check(json.loads(out))
    assert (answer["exit_code"], answer["report"]["outcome"], answer["output"]) == (137, "supervisor_lost", "begun\n"), answer
    assert harness.marked(marker) == []
