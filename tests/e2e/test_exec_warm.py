"""The run that `callgate exec --serve` starts before its job. It does one job and knows nothing of others. The job's rules are
those of the machine as it is when the job comes. The run ends with its server."""
from __future__ import annotations

import datetime
import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from jobs import Server, bash, ended, with_time

RECEIVES = {"47", "212"}  # recvmsg(2) of x86, of arm64
SUPERVISOR = "cut -d' ' -f6 /proc/$$/stat"  # leads the session of its command
WHO = f"echo $PPID $$ $({SUPERVISOR}) $TMPDIR"


def runs_for_later(server: Server) -> list[int]:
    """Children of the server that were started before their job, whether that has come or not."""
    found = []
    for child in harness.children(server.process.pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [b"run-warm"]:
            found.append(child)
    return found


def is_waiting(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0] in RECEIVES and not harness.children(pid)
    except OSError:
        return False


def waiting(server: Server) -> int | None:
    """The run that waits for its job, if there is one."""
    return next(filter(is_waiting, runs_for_later(server)), None)


def ready(server: Server) -> int:
    return harness.until(lambda: waiting(server), "a run waits")


def who(answer: dict) -> dict[str, str]:
    """For the answer of a job that ran WHO: guardian, command, session (the supervisor's number), private directory."""
    names = ["guardian", "command", "session", "tmp"]
    return dict(zip(names, answer["output"].split(), strict=True))


def by_the_run_that_waits(server: Server, job: dict) -> tuple[bool, str]:
    """Whether that run did this job, and what the job wrote."""
    run = ready(server)
    answer = server.do({**job, "code": f"{SUPERVISOR}; {job['code']}"})
    assert answer["exit_code"] == 0, answer
    supervisor, _, rest = answer["output"].partition("\n")
    return int(supervisor) == run, rest


def taken(server: Server, job: dict) -> str:
    """Gives the job to the run that waits, and returns its output. Fails if another run did it."""
    done, text = by_the_run_that_waits(server, job)
    assert done, f"not by the run that waited: {job}"
    return text


def refused(server: Server, job: dict) -> str:
    """Returns the output of a job that the run that waits must not do."""
    done, text = by_the_run_that_waits(server, job)
    assert not done, job
    return text


def serve(box: harness.Box) -> Server:
    """A server whose runs have their private directories where no others are."""
    return Server(box, env=box.environment({"TMPDIR": str(box.directory(box.root / "tmp"))}))


def directories(box: harness.Box) -> set[str]:
    return set(os.listdir(box.root / "tmp"))


@pytest.fixture
def server(box):
    with ended(serve(box)) as made:
        yield made


def test_the_run_that_waits_does_the_next_job(server):
    server.do(bash(0, WHO))
    for key in range(1, 6):
        run = ready(server)
        assert len(taken(server, bash(key, WHO)).split()) == 4 and waiting(server) != run


def test_a_run_waits_also_when_the_server_hears_of_begin_and_end_at_once(server):
    """The server is stopped once the run has its job, and goes on when all of the run has ended."""
    server.do(bash(0, "true"))
    for key in range(1, 9):
        run = ready(server)
        server.send(bash(key, "true"))
        harness.until(lambda: not is_waiting(run), "the run has its job")
        server.process.send_signal(signal.SIGSTOP)
        harness.until(lambda: not harness.alive(run), "the run has ended")
        server.process.send_signal(signal.SIGCONT)
        assert server.answer(key)["exit_code"] == 0


def test_each_job_has_a_run_of_its_own(box):
    """No guardian, session, run, log or private directory serves two, and nothing is found in a private directory; each log
    begins when its job came."""
    server = Server(box, audit=True)
    seen, came = [], []
    for key in range(4):
        if key > 0:
            ready(server)  # it is older than its job
        came.append(datetime.datetime.now(datetime.timezone.utc))
        seen.append(server.do(bash(key, WHO)))
        kept = "stat -c %a $TMPDIR; ls -A $TMPDIR; echo kept > $TMPDIR/kept; mkdir $TMPDIR/directory"
        assert taken(server, bash(f"{key}: a directory", kept)) == "700\n"
    assert server.close() == (0, b"")
    assert not any(harness.alive(int(who(one)["session"])) for one in seen), "they end before their server does"
    for name in ("guardian", "command", "session", "tmp"):
        assert len({who(one)[name] for one in seen}) == 4, (name, seen)
    assert len({one["report"]["run"] for one in seen}) == 4
    logs = [one["report"]["audit"]["file"] for one in seen]
    assert len(set(logs)) == 4 and len(list((box.state / "callgate").glob("*.jsonl"))) >= 8
    for key, log in enumerate(logs):
        first = harness.read_log(Path(log))[0]
        begun = datetime.datetime.fromisoformat(first["@timestamp"].replace("Z", "+00:00"))
        assert begun >= came[key].replace(microsecond=came[key].microsecond // 1000 * 1000), (first, came[key])
        assert first["callgate"]["command"][:2] == ["bash", "-c"] and str(first["process"]["pid"]) == who(seen[key])["session"]


def memory(pid: int) -> bytes:
    """All that root can read of a process's memory, with its environment and its words."""
    found = [Path(f"/proc/{pid}/environ").read_bytes(), Path(f"/proc/{pid}/cmdline").read_bytes()]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *rest = line.split()
            if "r" not in rights or rest[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            begin, end = (int(one, 16) for one in span.split("-"))
            file.seek(begin)
            try:
                found.append(file.read(end - begin) or b"")
            except OSError:
                continue  # beyond the end of a file
    return b"\n".join(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the memory of a supervisor")
def test_it_holds_nothing_of_another_job(server):
    os.mkfifo(server.box.tree / "fifo")
    server.box.own(server.box.tree / "fifo")
    begun = server.box.file(server.box.tree / "begun", b"")
    secrets = {name: f"secret-{name}-{os.urandom(8).hex()}" for name in ("code", "env", "stdin")}
    server.do({**bash(0, f": {secrets['code']}; cat"), "stdin": secrets["stdin"], "env": {"SECRET": secrets["env"]}})
    server.do({**bash(1, f": {secrets['code']}; cat"), "stdin": secrets["stdin"], "env": {"SECRET": secrets["env"]}})
    server.send({**bash("running", f": {secrets['code']}; echo now > begun; read -t 60 line < fifo"), "stdin": secrets["stdin"],
                 "env": {"SECRET": secrets["env"]}})
    harness.until(begun.read_bytes, "the job begins")
    server.do({**bash("another", "true"), "stdin": "x"})
    run = ready(server)
    held = memory(run)
    assert len(held) > 10_000 and [name for name, text in secrets.items() if text.encode() in held] == []
    running = [one for one in harness.descendants(server.process.pid)
               if Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"bash\0")]
    assert secrets["code"].encode() in memory(running[0]) and secrets["env"].encode() in memory(running[0]), "the control"

    def objects(pids: list[int]) -> set[str]:
        links = {os.readlink(one) for pid in pids for one in Path(f"/proc/{pid}/fd").iterdir()}
        return {one for one in links if one.startswith(("pipe:", "socket:", "/memfd:"))}
    assert len(objects([run])) == 1 and not objects([run]) & objects(running), "its socket alone"
    assert objects(running) & objects([server.process.pid]), "the control: the server holds the other ends"
    harness.as_user(server.box.user, lambda: (server.box.tree / "fifo").write_text("over\n"))
    assert server.answer("running")["exit_code"] == 0


def test_one_that_dies_is_replaced(server):
    server.do(bash(0, WHO))
    before = ready(server)
    os.kill(before, signal.SIGKILL)
    harness.until(lambda: (found := waiting(server)) and found != before, "another waits")
    harness.until(lambda: not Path(f"/proc/{before}").exists(), "it is reaped")
    assert directories(server.box) == set() and taken(server, bash(1, "echo done")) == "done\n"


def test_one_that_cannot_live_is_not_started_for_ever(server):
    """Each is killed as it comes: after some of them none comes any more, and jobs are done all the same."""
    server.do(bash(0, WHO))
    killed = 0
    while True:
        found = []
        harness.until(lambda: found.append(waiting(server)) or found[-1] or not harness.children(server.process.pid), "one waits, or none comes")
        if not found[-1]:
            break
        os.kill(found[-1], signal.SIGKILL)
        harness.until(lambda: not harness.alive(found[-1]), "it ends")
        killed += 1
        assert killed < 20
    assert killed >= 2 and server.do(bash(1, "echo done"))["output"] == "done\n"
    assert taken(server, bash(2, "echo done")) == "done\n", "the next job starts anew"


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGKILL", "SIGKILL to the whole group"])
def test_it_goes_with_its_server(box, how):
    server = serve(box)
    for key in range(4):
        server.do(bash(key, WHO))
        run = ready(server)
    harness.until(lambda: harness.children(server.process.pid) == [run] and directories(box) == set(), "nothing else is at work")
    if how == "end of stdin":
        assert server.close() == (0, b"")
    elif how == "SIGTERM":
        server.process.terminate()
        assert server.wait() == (0, b"")
    elif how == "SIGKILL":
        server.process.kill()
    else:
        harness.kill_group_of(server.process.pid)
    if how in ("end of stdin", "SIGTERM"):
        assert not harness.alive(run), "at once"
    harness.until(lambda: not harness.alive(run), "it ends")


def work_done(pids: list[int]) -> dict[int, list[str]]:
    """For each thread: whether it waits (S), how often it waited, how long it ran."""
    found = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found[int(task.name)] = [status["State"][0], status["voluntary_ctxt_switches"],
                                     *(task / "stat").read_text().rpartition(")")[2].split()[11:13]]
    return found


def test_an_idle_server_does_nothing(box, server):
    """Another server does jobs meanwhile: the idle one is looked at for as long as that takes."""
    with ended(Server(box)) as busy:
        server.do(bash(0, WHO))
        pids = [server.process.pid, ready(server)]
        harness.until(lambda: harness.children(server.process.pid) == pids[1:], "the job's run is reaped")
        looks = [work_done(pids)]
        # On a busy machine a thread may want to run for all these looks, and get no processor.
        harness.until(lambda: looks.append(work_done(pids)) or len(looks) > 20 and looks[-1] == looks[-20]
                      and all(state == "S" for state, *_ in looks[-1].values()), "it comes to rest")
        before = {"idle": work_done(pids), "busy": work_done([busy.process.pid])}
        for key in range(40):
            busy.do(bash(key, "true"))
        assert work_done(pids) == before["idle"] and len(before["idle"]) >= 3
        assert work_done([busy.process.pid]) != before["busy"], "the control"


def test_it_does_a_job_of_any_kind(server):
    """Rules, places, inputs and outputs come with the job, as limits and variables do."""
    box = server.box
    for name in ("one", "other"):
        box.file(box.root / name / "file", name.encode())
    one = str(box.root / "one")
    server.do(bash(0, "true"))
    assert taken(server, bash("workdir", "pwd", workdir=one)) == f"{one}\n"
    assert taken(server, bash("cwd", "pwd", cwd="/usr")) == "/usr\n"
    read = f"cat {one}/file 2>/dev/null || echo denied"
    assert taken(server, bash("deny", read, read=[one], deny=[f"{one}/file"])) == "denied\n"
    assert taken(server, bash("no deny", read, read=[one])) == "one", "the control"
    assert taken(server, bash("read", f"cat {box.root}/other/file", read=[str(box.root / "other")])) == "other"
    assert taken(server, bash("merge", "echo error >&2", merge_stderr=True)) == "error\n"
    assert taken(server, bash("stdin", "cat", stdin="text")) == "text"
    assert taken(server, bash("profiles", "echo done", profiles=["python"])) == "done\n"
    deny = {"id": "file", "deny": "read", "path": f"{one}/file"}
    for count in (1, 2000):  # rules that an argument holds, and rules that come by a descriptor
        rules = {"version": 1, "extends": ["agent"], "rules": [{**deny, "id": f"file-{n}"} for n in range(count)]}
        assert taken(server, bash(f"{count} rules", f"cat {one}/file 2>&1 | grep -c denied", rules=rules, read=[one])) == "1\n"
    assert taken(server, bash("long code", "echo done\n" + "#" * 90_000)) == "done\n"
    assert taken(server, bash("code by a descriptor", "echo done\n" + "#" * 200_000)) == "done\n"


def test_a_job_that_is_too_long_for_its_message_has_a_new_run(server):
    server.do(bash(0, "true"))
    run = ready(server)
    assert refused(server, bash(1, "echo ${#A}", env={"A": "x" * 120_000})) == "120000\n"
    assert waiting(server) == run and taken(server, bash(2, "echo done")) == "done\n", "it waits for the next"


def test_limits_and_variables_come_with_the_job(server):
    server.do(bash(0, "true", env={"A": "first"}, open_files=100))
    assert taken(server, bash(1, 'echo "<$A$B>"; ulimit -n', env={"B": "second"}, open_files=50)) == "<second>\n50\n"
    ready(server)
    answer = with_time(lambda seconds: server.do(bash(f"late {seconds}", "echo begun; sleep 1000", timeout=seconds)), lambda answer: answer["output"])
    assert (answer["output"], answer["report"]["outcome"], answer["exit_code"]) == ("begun\n", "timeout", 124), answer
    longer = answer["report"]["duration_ms"] / 1000 + 0.1
    assert taken(server, bash(3, f'echo "<$A$B>"; sleep {longer}')) == "<>\n", "neither variables nor the timeout are left"


def test_each_kind_of_input_is_what_a_new_run_has(server):
    kind = "readlink /proc/self/fd/0 | tr -d '0-9'; cat"
    for key in range(3):
        assert server.do(bash(f"none {key}", kind))["output"] == "/dev/null\n"
    for key in range(3):
        assert server.do(bash(f"text {key}", kind, stdin=f"text {key}"))["output"] == f"pipe:[]\ntext {key}"


def change_rules(box: harness.Box) -> None:
    box.file(box.root / "own.json", json.dumps({"version": 1, "extends": ["agent"], "rules": [
        {"id": "new", "deny": "read", "path": str(box.tree / "file")}]}).encode())


def replace_work_directory(box: harness.Box) -> None:
    shutil.rmtree(box.tree)
    box.directory(box.tree)
    box.file(box.tree / "file", b"new\n")


def replace_granted_directory(box: harness.Box) -> None:
    (box.root / "granted").rename(box.root / "aside")
    box.file(box.root / "granted" / "file", b"new\n")


def turn_link(box: harness.Box) -> None:
    (box.root / "link").unlink()
    (box.root / "link").symlink_to(box.root / "second")


def accept_rules(box: harness.Box) -> None:
    box.file(box.home / ".config/callgate/rules.json", json.dumps({"version": 1, "rules": [
        {"id": "accepted", "deny": "read", "path": str(box.tree / "file")}]}).encode())


def make_secret(box: harness.Box) -> None:
    box.file(box.tree / ".env", b"secret\n")


def make_ordinary_file(box: harness.Box) -> None:
    box.file(box.tree / "env", b"ordinary\n")


def make_rule_object(box: harness.Box) -> None:
    box.file(box.tree / "later" / "file", b"closed\n")


def make_other_object(box: harness.Box) -> None:
    box.file(box.tree / "other" / "file", b"open\n")


# For each change: the file that a job reads, its text before, the change, its text afterwards, options. Each object that a rule closes has as its control
# one of another name, which the same change makes readable.
CHANGES = {
    "a rule file": ("tree/file", "old\n", change_rules, "", ["-R", "{root}/own.json"]),
    "the work directory": ("tree/file", "old\n", replace_work_directory, "new\n", ["--workdir", "{root}/tree"]),
    "a granted directory": ("granted/file", "old\n", replace_granted_directory, "new\n", ["-r", "{root}/granted"]),
    "a link that a rule follows": ("second/file", "", turn_link, "second\n", ["-r", "{root}/link"]),
    "rules that the user accepted": ("tree/file", "old\n", accept_rules, "", []),
    "a .env": ("tree/.env", "", make_secret, "", []),
    "a .env, the control": ("tree/env", "", make_ordinary_file, "ordinary\n", []),
    "the object of a rule": ("tree/later/file", "", make_rule_object, "", ["-R", "{root}/later.json"]),
    "the object of a rule, the control": ("tree/other/file", "", make_other_object, "open\n", ["-R", "{root}/later.json"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_meanwhile_holds_for_the_next_job(box, what):
    """The run that waits was started before the change, and works out its rules after it."""
    name, before, change, after, options = CHANGES[what]
    if change in (change_rules, accept_rules):
        box.replays.leave_out("the test changes the rules of its jobs")
    for path, text in (("tree/file", "old\n"), ("granted/file", "old\n"), ("first/file", "first\n"), ("second/file", "second\n")):
        box.file(box.root / path, text.encode())
    box.file(box.root / "own.json", b'{"version": 1, "extends": ["agent"], "rules": []}')
    box.file(box.root / "later.json", json.dumps({"version": 1, "extends": ["agent"], "rules": [
        {"id": "later", "deny": "read", "path": f"{box.tree}/later/**"}]}).encode())
    (box.root / "link").symlink_to(box.root / "first")
    with ended(Server(box, *[one.format(root=box.root) for one in options])) as server:
        code = f"cat {box.root / name} 2>/dev/null; true"
        server.do(bash("begin", code))
        for key in range(2):
            assert taken(server, bash(key, code)) == before, "the control: nothing has changed"
        ready(server)
        change(box)
        assert taken(server, bash("changed", code)) == after
        assert taken(server, bash("again", code)) == after, "as it is now"


def test_hooks_of_a_repository_that_a_job_made_are_closed_to_the_next(box):
    """No rule is about a directory that is not there; once it is, later jobs may not write its hooks."""
    with ended(Server(box)) as server:
        server.do(bash("begin", "true"))
        write = "(echo code > .git/hooks/pre-commit) 2> denied && echo written || echo denied; (echo note > .git/note) && echo written"
        assert taken(server, bash("before", "ls -A")) == ""
        box.directory(box.directory(box.tree / ".git") / "hooks")
        assert taken(server, bash("after", write)) == "denied\nwritten\n", "with its control"
        assert not (box.tree / ".git/hooks/pre-commit").exists()


def test_jobs_that_last_leave_runs_for_others(server):
    for key in range(6):
        server.do(bash(f"before {key}", "true"))
        server.send(bash(key, f": > begun-{key}; while [ ! -e over ]; do sleep 0.05; done; ls -A $TMPDIR"))
        harness.until((server.box.tree / f"begun-{key}").exists, "it begins")
    assert taken(server, bash("beside", "echo done")) == "done\n"
    server.box.file(server.box.tree / "over", b"")
    assert [server.answer(key)["output"] for key in range(6)] == [""] * 6
    assert taken(server, bash("after", "echo done")) == "done\n"


def test_at_most_one_waits(server):
    """Jobs that come together have runs of their own, and leave one that waits."""
    for turn in range(3):
        server.send(*[bash(f"{turn}: {key}", "true") for key in range(8)])
        assert all(server.answer(f"{turn}: {key}")["exit_code"] == 0 for key in range(8))
        run = ready(server)
        harness.until(lambda: harness.children(server.process.pid) == [run], "one is left")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may lower the score of another process")
def test_who_supervises_a_job_is_out_of_its_reach(box):
    """The rules let it write in /proc; those that close callgate's own process name the one that supervises."""
    server = Server(box, "-w", "/proc")
    code = ('for pid in $$ $PPID $(cut -d" " -f6 /proc/$$/stat); do (echo 1 > /proc/$pid/oom_score_adj) 2> denied && echo written'
            ' || echo denied; done')
    for key in range(5):
        assert server.do(bash(key, code))["output"].split() == ["written", "denied", "denied"], "itself; guardian; supervisor"
        ready(server)


def test_jobs_that_change_their_work_directory_have_a_run_that_waits(server):
    """Rules about files in the work directory are worked out for the files that are there."""
    for key in range(3):
        server.do(bash(key, f": > made-{key}"))
    for key in range(3, 8):
        assert taken(server, bash(key, f": > made-{key}; echo done")) == "done\n"


def test_a_work_directory_that_vanished_is_named(server):
    place = server.box.directory(server.box.root / "place")
    for key in range(3):
        assert server.do(bash(key, "pwd", workdir=str(place)))["output"] == f"{place}\n"
        ready(server)
    place.rmdir()
    answer = server.do(bash(3, "pwd", workdir=str(place)))
    assert str(place) in answer["error"] and "exit_code" not in answer, answer


def test_a_job_with_names_of_hosts_is_done_by_the_run_that_waits(box):
    """Names are looked up once the job is there: before, the run asks nobody."""
    with ended(Server(box, "-c", "localhost:9")) as server:
        server.do(bash(0, WHO))
        assert harness.children(ready(server)) == [], "no getent"
        assert taken(server, bash(1, "echo done")) == "done\n"


def test_what_a_process_inherits_is_that_of_the_server_now(server):
    """Limits, priorities and processors that somebody gives to the server."""
    code = "echo $(ulimit -Sn) $(nice) $(taskset -p $$ | sed 's/.*: //')"
    pid, one = server.process.pid, min(os.sched_getaffinity(0))
    changes = {0: (lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (777, 888)), "777"),
               1: (lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + 3), "3"),
               2: (lambda: os.sched_setaffinity(pid, {one}), f"{1 << one:x}")}
    if os.sched_getaffinity(0) == {one}:
        del changes[2]  # a machine of one processor has no other set of them
    before = server.do(bash("before", code))["output"].split()
    changes[1] = (changes[1][0], str(int(before[1]) + 3))
    for key, (change, after) in changes.items():
        ready(server)
        harness.as_user(server.box.user, change)
        assert refused(server, bash(key, code)).split()[key] == after
    same = taken(server, bash("same", code)).split()
    assert {key: same[key] for key in changes} == {key: after for key, (_, after) in changes.items()}, "as it is now"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root moves processes between control groups")
def test_a_job_is_in_the_control_group_that_the_server_is_in_now(server):
    tops = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] in ("cgroup", "cgroup2")]
    groups = [top / f"callgate-test-{os.getpid()}" for top in tops if {"pids.max", "cgroup.controllers"} & set(os.listdir(top))
              or "pids" in top.name.split(",")]
    if not groups:
        pytest.skip("no control groups are mounted here")
    group = groups[0]
    server.do(bash(0, "cat /proc/self/cgroup", read=["/proc"]))
    ready(server)
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(server.process.pid))
        text = refused(server, bash(1, "cat /proc/self/cgroup", read=["/proc"]))
        assert any(line.endswith(group.name) for line in text.splitlines()), text
        assert server.close() == (0, b"")
    finally:
        if server.process.poll() is None:
            server.process.kill()
        harness.until(lambda: (group / "cgroup.procs").read_text() == "", "the group is empty")
        group.rmdir()


def test_it_is_out_of_reach_of_jobs(server):
    """Bare, a process of the same user reaches another."""
    server.do(bash("begin", WHO))
    server.send(bash("attacker", "while [ ! -e pids ]; do sleep 0.05; done; exec /usr/bin/python3 attack.py", read=["/proc"]))
    server.do(bash("another", WHO))
    reach = ("import os, signal, sys\n"
             "for pid in map(int, open('pids').read().split()):\n"
             "    for what in (lambda: os.open(f'/proc/{pid}/fd/0', os.O_RDONLY), lambda: os.open(f'/proc/{pid}/mem', os.O_RDONLY),\n"
             "                 lambda: open(f'/proc/{pid}/environ').read(), lambda: os.kill(pid, signal.SIGKILL)):\n"
             "        try: what(); print('reached')\n"
             "        except OSError as error: print('denied')\n")
    box = server.box
    box.file(box.tree / "attack.py", reach.encode())
    run = ready(server)
    box.file(box.tree / "pids.new", str(run).encode())
    (box.tree / "pids.new").rename(box.tree / "pids")
    answer = server.answer("attacker")
    assert answer["output"] == "denied\n" * 4, answer
    assert waiting(server) == run
    with subprocess.Popen(["/bin/sleep", "1000"], **box.user.popen_identity()) as bare:
        box.file(box.tree / "pids", str(bare.pid).encode())
        control = box.run(["/usr/bin/python3", "attack.py"], supervised=False)
        assert control.out == b"reached\n" * 4, control.describe()


def test_it_is_no_run_yet(box):
    """`callgate ps` shows what runs."""
    server = Server(box, "--ask", "socket")
    server.do(bash(0, WHO))
    run = ready(server)

    def listed() -> list[str]:
        shown = box.run([str(box.callgate), "ps"], supervised=False)
        assert shown.code == 0, shown.describe()
        return [line.split()[1] for line in shown.text.splitlines()[1:]]
    assert str(run) not in listed()
    server.send(bash(1, ": > begun; sleep 1000"))
    harness.until((box.tree / "begun").exists, "the job begins")
    assert str(run) in listed(), "the control"
    server.send({"cancel": 1, "now": True})
    assert server.answer(1)["report"]["outcome"] == "cancelled"


def test_it_is_nothing_for_a_user_to_start(box):
    wrong = box.run([str(box.callgate), "run-warm"], supervised=False)
    assert wrong.code == 125 and b"callgate run" in wrong.err and wrong.out == b"", wrong.describe()
