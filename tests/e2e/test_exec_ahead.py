"""The run that `callgate exec --serve` has before its job. It does the next job of that kind and nothing else, and knows
nothing of other jobs. It sees the host as it is now, and ends with its server. Zygotes fork such runs."""
from __future__ import annotations

import datetime
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from jobs import Server, bash, ended

POLLS = {"7", "73", "271"}  # poll(2), ppoll(2) of arm64, of x86
WHO = "echo $PPID $$ $(cut -d' ' -f6 /proc/$$/stat) $TMPDIR"


def idle(server: Server) -> Iterator[tuple[int, list[int]]]:
    """A process that waits for a message, with its descendants."""
    for child in harness.children(server.process.pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            waits = Path(f"/proc/{child}/syscall").read_text().split()[0] in POLLS
        except OSError:
            continue
        if words[1:2] == [b"run-ahead"] and waits:
            yield child, harness.descendants(child)


def waiting(server: Server) -> list[int]:
    """The run that waits: supervisor, guardian, agent; nothing where there is none."""
    return next(([child, *others] for child, others in idle(server) if len(others) == 2), [])


def zygotes(server: Server) -> list[int]:
    """Whether the process has forked a run already, or is about to."""
    return [child for child, others in idle(server) if not others]


def ready(server: Server) -> list[int]:
    return harness.until(lambda: waiting(server), "a run waits")


def who(answer: dict) -> dict[str, str]:
    """The processes of a job that ran WHO, its session (which its supervisor leads), and its directory."""
    names = ["guardian", "command", "session", "tmp"]
    return dict(zip(names, answer["output"].split(), strict=True))


def by_the_one_that_waits(server: Server, job: dict) -> tuple[bool, str]:
    """Whether it did this job, and what else that wrote."""
    family = ready(server)
    answer = server.do({**job, "code": f"echo $PPID; {job['code']}"})
    assert answer["exit_code"] == 0, answer
    guardian, _, rest = answer["output"].partition("\n")
    return int(guardian) == family[1], rest


def taken(server: Server, job: dict) -> str:
    """The output of a job that a waiting run did. A few are tried: a user that is added in this moment changes /etc, which
    the rules depend on."""
    for attempt in range(5):
        done, text = by_the_one_that_waits(server, {**job, "id": f"{job['id']}, {attempt}"})
        if done:
            return text
    raise AssertionError(f"not by a run that waited: {job}")


def refused(server: Server, job: dict) -> str:
    done, text = by_the_one_that_waits(server, job)
    assert not done, job
    return text


def serve(box: harness.Box) -> Server:
    """A server whose runs have their directories in a place of their own."""
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
        family = ready(server)
        made = taken(server, bash(key, "echo $$ $(cut -d' ' -f6 /proc/$$/stat)"))
        assert waiting(server) != family and len(made.split()) == 2


def test_each_job_has_a_run_of_its_own(box):
    """No guardian, session, run or log serves two, and nothing is found in a private directory; each log begins when its
    job came."""
    server = Server(box, audit=True)
    seen, came = [], []
    for key in range(4):
        if key > 0:
            ready(server)
            time.sleep(0.01)  # what waits is older than its job
        came.append(datetime.datetime.now(datetime.timezone.utc))
        seen.append(server.do(bash(key, WHO)))
        kept = "stat -c %a $TMPDIR; ls -A $TMPDIR; echo kept > $TMPDIR/kept; mkdir $TMPDIR/directory"
        assert taken(server, bash(f"{key}: a directory", kept)) == "700\n"
    assert server.close() == (0, b"")
    assert not any(harness.alive(int(who(one)["session"])) for one in seen), "they end before their server does"
    for name in ("guardian", "command", "session"):
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the memory of the guardian")
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
    family = ready(server)
    harness.until(lambda: zygotes(server), "a zygote waits")
    for pid in [*family, *zygotes(server)]:
        held = memory(pid)
        assert len(held) > 10_000 and [name for name, text in secrets.items() if text.encode() in held] == [], pid
    running = [one for one in harness.descendants(server.process.pid)
               if Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"bash\0")]
    assert secrets["code"].encode() in memory(running[0]) and secrets["env"].encode() in memory(running[0]), "the control"

    def objects(pids: list[int]) -> set[str]:
        links = set()
        for one in (one for pid in pids for one in Path(f"/proc/{pid}/fd").iterdir()):
            links.add(os.readlink(one))
        return {one for one in links if one.startswith(("pipe:", "socket:", "/memfd:"))}
    assert objects(family) and objects(running) and not objects(family + zygotes(server)) & objects(running)
    assert objects(family) & objects([server.process.pid]), "the control: the server holds the other ends"
    harness.as_user(server.box.user, lambda: (server.box.tree / "fifo").write_text("over\n"))
    assert server.answer("running")["exit_code"] == 0


@pytest.mark.parametrize("which", ["supervisor", "guardian", "agent"])
def test_one_that_dies_is_replaced(server, which):
    server.do(bash(0, WHO))
    before = ready(server)
    made = directories(server.box)
    os.kill(before[("supervisor", "guardian", "agent").index(which)], signal.SIGKILL)
    after = harness.until(lambda: (found := waiting(server)) and not set(found) & set(before) and found, "another waits")
    harness.until(lambda: not any(harness.alive(pid) for pid in before), "nothing of it is left")
    if which != "guardian":  # which is what would have removed it
        harness.until(lambda: len(directories(server.box) & made) < len(made), "its directory is gone")
    assert taken(server, bash(1, "echo done")) == "done\n"


def test_one_that_cannot_live_is_not_started_for_ever(server):
    """Each is killed as it comes: after some of them none comes any more, and jobs are done all the same."""
    server.do(bash(0, WHO))
    killed = 0
    while True:
        found = []
        harness.until(lambda: found.append(waiting(server)) or found[-1] or not harness.children(server.process.pid), "one waits, or none comes")
        if not found[-1]:
            break
        os.kill(found[-1][0], signal.SIGKILL)
        harness.until(lambda: not harness.alive(found[-1][0]), "it ends")
        killed += 1
        assert killed < 20
    assert killed >= 2 and server.do(bash(1, "echo done"))["output"] == "done\n"
    assert taken(server, bash(2, "echo done")) == "done\n", "the next job starts anew"


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGKILL", "SIGKILL to the whole group"])
def test_it_goes_with_its_server(box, how):
    server = serve(box)
    for key in range(4):
        server.do(bash(key, WHO))
        family = ready(server)
    harness.until(lambda: len(zygotes(server)) == 2 and len(directories(box)) == 1, "nothing else is at work")
    family += zygotes(server)
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
        assert not any(harness.alive(pid) for pid in family) and directories(box) == set(), "at once"
    harness.until(lambda: not any(harness.alive(pid) for pid in family), "all of it ends")
    harness.until(lambda: directories(box) == set(), "its directory is removed")


def work_done(pids: list[int]) -> dict[int, list[str]]:
    """For each thread: how often it waited, how long it ran."""
    found = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found[int(task.name)] = [status["voluntary_ctxt_switches"], *(task / "stat").read_text().rpartition(")")[2].split()[11:13]]
    return found


def test_an_idle_server_does_nothing(server):
    server.do(bash(0, WHO))
    pids = [server.process.pid, *ready(server)]

    def settled() -> bool:
        before = work_done(pids)
        time.sleep(0.2)
        return work_done(pids) == before

    harness.until(settled, "the server has done what it began")
    before = work_done(pids)
    time.sleep(1)
    assert work_done(pids) == before and len(before) >= 5


def test_it_does_no_job_of_another_kind(server):
    """Rules, places and outputs of a job are its own. Its limits and variables may come late."""
    box = server.box
    for name in ("one", "other"):
        box.file(box.root / name / "file", name.encode())
    server.do(bash(0, "true"))
    taken(server, bash(1, "true", env={"A": "1"}, timeout=30, memory="1G", max_output=1000))
    for key, more in enumerate(({"workdir": str(box.root / "one")}, {"cwd": "/usr"}, {"profiles": ["python"]}, {"deny": ["/usr/share"]},
                                {"read": [str(box.root / "other")]}, {"merge_stderr": True}, {"stdin": "x"},
                                {"rules": {"version": 1, "extends": ["agent"], "rules": []}})):
        refused(server, bash(f"unlike {key}", "true", **more))
        server.do(bash(f"like {key}", "true"))
        server.do(bash(f"again {key}", "true"))
    taken(server, bash("same", "true"))


def test_limits_and_variables_come_with_the_job(server):
    server.do(bash(0, "true", env={"A": "first"}, open_files=100))
    assert taken(server, bash(1, 'echo "<$A$B>"; ulimit -n', env={"B": "second"}, open_files=50)) == "<second>\n50\n"
    ready(server)
    answer = server.do(bash(2, "echo begun; sleep 1000", timeout=0.3))
    assert (answer["output"], answer["report"]["outcome"], answer["exit_code"]) == ("begun\n", "timeout", 124), answer
    assert taken(server, bash(3, 'echo "<$A$B>"; sleep 0.4')) == "<>\n", "neither variables nor the timeout are left"


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


# A job's rules, its place before, the change, and its place afterwards.
CHANGES = {
    "a rule file": ("tree/file", "old\n", change_rules, "", ["-R", "{root}/own.json"]),
    "the work directory": ("tree/file", "old\n", replace_work_directory, "new\n", ["--workdir", "{root}/tree"]),
    "a granted directory": ("granted/file", "old\n", replace_granted_directory, "new\n", ["-r", "{root}/granted"]),
    "a link that a rule follows": ("second/file", "", turn_link, "second\n", ["-r", "{root}/link"]),
    "rules that the user accepted": ("tree/file", "old\n", accept_rules, "", []),
}


@pytest.mark.parametrize("jobs", [1, 4], ids=["a first run", "a later run of its zygote"])
@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_meanwhile_holds_for_the_next_job(box, what, jobs):
    """A zygote's first run has looked at the machine itself; the zygote is told what changes for those after it."""
    name, before, change, after, options = CHANGES[what]
    if change in (change_rules, accept_rules):
        box.replays.leave_out("the test changes the rules of its jobs")
    for path, text in (("tree/file", "old\n"), ("granted/file", "old\n"), ("first/file", "first\n"), ("second/file", "second\n")):
        box.file(box.root / path, text.encode())
    box.file(box.root / "own.json", b'{"version": 1, "extends": ["agent"], "rules": []}')
    (box.root / "link").symlink_to(box.root / "first")
    server = Server(box, *[one.format(root=box.root) for one in options])
    code = f"cat {box.root / name} 2>&1 | grep -v denied"
    server.do(bash("begin", code))
    for key in range(jobs):
        assert taken(server, bash(key, f"{code}; true")) == before, "the control: nothing has changed"
    ready(server)
    change(box)
    assert refused(server, bash("changed", f"{code}; true")) == after
    assert taken(server, bash("again", f"{code}; true")) == after, "as it is now"


def test_jobs_of_one_kind_need_few_zygotes(server):
    server.do(bash("begin", "true"))
    for key in range(30):
        taken(server, bash(key, "true"))
    known = set(zygotes(server))
    for key in range(30, 40):
        taken(server, bash(key, "true"))
    assert set(zygotes(server)) == known and len(known) == 2


def test_jobs_that_last_leave_runs_for_others(server):
    """Each long job has its zygote's directory; there are as many as are needed, up to a bound."""
    for key in range(6):
        server.do(bash(f"before {key}", "true"))
        server.send(bash(key, f": > begun-{key}; while [ ! -e over ]; do sleep 0.05; done; ls -A $TMPDIR"))
        harness.until((server.box.tree / f"begun-{key}").exists, "it begins")
    assert server.do(bash("beside", "echo done"))["output"] == "done\n"
    assert len(zygotes(server)) <= 4
    server.box.file(server.box.tree / "over", b"")
    assert [server.answer(key)["output"] for key in range(6)] == [""] * 6
    assert taken(server, bash("after", "echo done")) == "done\n"


def test_a_zygote_that_dies_is_replaced(server):
    for key in range(3):
        server.do(bash(key, WHO))
        ready(server)
    gone = harness.until(lambda: zygotes(server), "a zygote waits")
    for pid in gone:
        os.kill(pid, signal.SIGKILL)
    for key in range(3, 8):
        assert server.do(bash(key, "echo done"))["output"] == "done\n"
    assert taken(server, bash(8, "echo done")) == "done\n"
    harness.until(lambda: not any(harness.alive(pid) for pid in gone), "they are reaped")


def test_a_directory_planted_under_a_known_name_is_nobody_s(server):
    """Each job knows the name that a later one's private directory would have."""
    box = server.box
    names = set()
    for key in range(4):
        ready(server) if key else None
        names.add(who(server.do(bash(key, WHO)))["tmp"])
    ready(server)
    planted = [Path(name) for name in names if not Path(name).exists()]
    for path in planted:
        box.directory(path)
        box.file(path / "planted", b"")
    assert planted
    for key in range(4, 12):
        answer = server.do(bash(key, "echo $TMPDIR; ls -A $TMPDIR"))
        assert answer["exit_code"] == 0 and answer["output"].splitlines()[0] not in map(str, planted), answer
        assert len(answer["output"].splitlines()) == 1, "it is empty"
    assert taken(server, bash("after", "echo done")) == "done\n"
    assert all(os.listdir(path) == ["planted"] for path in planted)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may lower the score of another process")
def test_who_supervises_a_job_is_out_of_its_reach(box):
    """The rules let it write in /proc; they were worked out in another process than the one that supervises."""
    server = Server(box, "-w", "/proc")
    code = ('for pid in $$ $PPID $(cut -d" " -f6 /proc/$$/stat); do (echo 1 > /proc/$pid/oom_score_adj) 2> denied && echo written'
            ' || echo denied; done')
    for key in range(5):
        assert server.do(bash(key, code))["output"].split() == ["written", "denied", "denied"], "itself; guardian; supervisor"
        ready(server)


def test_jobs_that_change_what_was_looked_at_have_one_all_the_same(server):
    """Rules about files in the work directory are worked out for the files that are there."""
    for key in range(3):
        server.do(bash(key, f": > made-{key}"))
        ready(server)
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


def test_names_of_hosts_are_looked_up_for_each_job(box):
    server = Server(box, "-c", "localhost:9")
    for key in range(3):
        server.do(bash(key, WHO))
        harness.until(lambda: harness.children(server.process.pid) == [], "what was started ahead has ended")


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
    family = ready(server)
    reached = [*family, *harness.until(lambda: zygotes(server), "a zygote waits")]
    box.file(box.tree / "pids.new", " ".join(map(str, reached)).encode())
    (box.tree / "pids.new").rename(box.tree / "pids")
    answer = server.answer("attacker")
    assert answer["output"] == "denied\n" * 4 * len(reached) and len(reached) >= 4, answer
    assert waiting(server) == family
    with subprocess.Popen(["/bin/sleep", "1000"], **box.user.popen_identity()) as bare:
        box.file(box.tree / "pids", str(bare.pid).encode())
        control = box.run(["/usr/bin/python3", "attack.py"], supervised=False)
        assert control.out == b"reached\n" * 4, control.describe()


def test_it_is_no_run_yet(box):
    """`callgate ps` shows what runs."""
    server = Server(box, "--ask", "socket")
    server.do(bash(0, WHO))
    family = ready(server)

    def listed() -> list[str]:
        shown = box.run([str(box.callgate), "ps"], supervised=False)
        assert shown.code == 0, shown.describe()
        return [line.split()[1] for line in shown.text.splitlines()[1:]]
    assert str(family[0]) not in listed()
    server.send(bash(1, ": > begun; sleep 1000"))
    harness.until((box.tree / "begun").exists, "the job begins")
    assert str(family[0]) in listed(), "the control"
    server.send({"cancel": 1, "now": True})
    assert server.answer(1)["report"]["outcome"] == "cancelled"


def test_it_is_nothing_for_a_user_to_start(box):
    wrong = box.run([str(box.callgate), "run-ahead", "--no-audit"], supervised=False)
    assert wrong.code == 125 and b"callgate run" in wrong.err and wrong.out == b"", wrong.describe()
