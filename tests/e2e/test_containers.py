"""Runs inside a container without added capabilities: under a filter that imitates the published default profiles.

No engine runs here: prog_container.c has what the profiles of Docker and podman refuse, and their default capabilities.
"""
from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import cases
import harness
from cases.case import run_case

PYTHON = "/usr/bin/python3"
DOCKER = "docker"
PODMAN = "podman,+landlock_create_ruleset,+landlock_add_rule,+landlock_restrict_self"
TRACES = "+cap_sys_ptrace"  # the capability itself
ADDED = "+pidfd_getfd,+ptrace,+process_vm_readv,+process_vm_writev,+kcmp"  # what --cap-add SYS_PTRACE opens
BOTH = pytest.mark.parametrize("profile", [DOCKER, PODMAN], ids=["docker", "podman"])


def contained(box: harness.Box, profile: str, args: list[str], rules=None, options=()) -> harness.Result:
    """`callgate run` in such a container, or with no rules the bare command: the control."""
    inside = [box.program("prog_container"), profile]
    if rules is None:
        return box.run([*inside, *args], supervised=False)
    box.counter += 1
    report = box.state / f"report{box.counter}.json"
    line, log = box.command(args, rules, [*options, "--report", str(report)])
    process = box.start([*inside, *line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    result = box.wait(process, line, b"", harness.DEADLINE)
    if report.exists():
        result.report = json.loads(report.read_text())
        harness.check_report(result.report)
    result.audit = harness.read_log(log)
    return result


def doctor(box: harness.Box, profile: str) -> tuple[int, dict]:
    done = box.run([box.program("prog_container"), profile, str(box.callgate), "doctor", "--json"], supervised=False)
    return done.code, json.loads(done.text)


def missing(found: dict) -> dict[str, str]:
    return {one["name"]: one["help"] for one in found["features"] if not one["present"]}


TRIED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {"pidfd_getfd": (438, -1, 0, 0), "process_vm_readv": (310, os.getpid(), 0, 0, 0, 0, 0), "ptrace": (101, 0x4206, 0, 0, 0),
         "keyctl": (250, 0, -2, 0), "landlock_create_ruleset": (444, 0, 0, 1), "add_key": (248, 0, 0, 0, 0, 0),
         "unshare": (272, 0x10000000), "clone3": (435, 0, 0), "newest": (462, 0, 0, 0)}
for name, call in CALLS.items():
    ctypes.set_errno(0)
    libc.syscall(*call)
    print(name, ctypes.get_errno())
"""


@pytest.mark.parametrize(("profile", "refused"), [
    (DOCKER, {"pidfd_getfd": 1, "keyctl": 1, "add_key": 1, "unshare": 1, "clone3": 38, "newest": 1}),
    ("podman", {"process_vm_readv": 1, "ptrace": 1, "landlock_create_ruleset": 38, "add_key": 38, "newest": 38}),
], ids=["docker", "podman"])
def test_what_is_imitated_refuses_what_the_published_profiles_refuse(box, profile, refused):
    """The control of all that follows."""
    found = dict(line.split() for line in contained(box, profile, [PYTHON, "-c", TRIED]).text.splitlines())
    assert {name: int(found[name]) for name in refused} == refused, found
    free = set(found) - set(refused) - {"unshare"}  # that one needs a capability, too
    assert all(int(found[name]) not in (1, 38) for name in free), found


def tree_rules(box: harness.Box, *more):
    """Reads and writes inside the tree are decided one by one, executions by Landlock alone."""
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "secret", "deny": ["read", "write"], "path": f"{box.tree}/**/*.key"}, *more)


@BOTH
def test_reads_and_writes_are_decided_one_by_one(box, profile):
    box.file(box.tree / "plain", b"plain text\n")
    box.file(box.tree / "a.key", b"key\n")
    script = "cat plain; cat a.key; echo more > new; cat new; echo more > b.key; cat plain | cat; echo done"
    control = contained(box, profile, ["/bin/sh", "-c", script])
    assert control.text == "plain text\nkey\nmore\nplain text\ndone\n" and (box.tree / "b.key").exists(), control.describe()
    (box.tree / "b.key").unlink()
    result = contained(box, profile, ["/bin/sh", "-c", script], tree_rules(box), ["--record", "all"])
    assert result.code == 0 and result.text == "plain text\nmore\nplain text\ndone\n", result.describe()
    assert not (box.tree / "b.key").exists()
    assert {one["object"] for one in result.report["denials"]} == {str(box.tree / "a.key"), str(box.tree / "b.key")}
    assert "container" not in result.errors, result.describe()  # nothing was missing


EXECUTED = "{good}; echo $?; {bad}; echo $?"


def execute_rules(box: harness.Box):
    """The allowed program lies beside a denied one: Landlock alone would let both run."""
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.tree}/**"},
                            {"id": "not that", "deny": "execute", "path": f"{box.tree}/**/bad*"})


def programs(box: harness.Box) -> str:
    for name in ("good", "bad"):
        box.file(box.tree / name, Path(box.program("prog_word")).read_bytes(), 0o755)
    return EXECUTED.format(good=box.tree / "good", bad=box.tree / "bad")


def test_executions_are_held_by_ptrace_where_a_profile_lets_it_through(box):
    script = programs(box)
    control = contained(box, DOCKER, ["/bin/sh", "-c", script])
    assert control.text == "7\n7\n", control.describe()
    for profile in (DOCKER, f"{PODMAN},{ADDED}"):
        result = contained(box, profile, ["/bin/sh", "-c", script], execute_rules(box))
        assert result.code == 0 and result.text == "7\n126\n", result.describe()
        assert [one["object"] for one in result.report["denials"]] == [str(box.tree / "bad")], result.describe()


def test_rules_that_need_ptrace_do_not_start_where_it_is_refused(box):
    programs(box)
    result = contained(box, PODMAN, ["/bin/sh", "-c", f"echo ran > {box.tree}/ran"], execute_rules(box))
    assert result.code == 125 and not (box.tree / "ran").exists(), result.describe()
    assert "refuses ptrace" in result.errors and "--cap-add SYS_PTRACE" in result.errors, result.describe()
    assert len(result.errors.splitlines()) == 1 and result.report["outcome"] == "setup_error", result.describe()


@contextlib.contextmanager
def listeners():
    """Two ports on loopback: one that is allowed, one that is not."""
    with socket.socket() as good, socket.socket() as bad:
        for one in (good, bad):
            one.bind(("127.0.0.1", 0))
            one.listen(64)
        yield good.getsockname()[1], bad.getsockname()[1]


# In the first thread, and in one that clone3's refusal makes the C library start by clone.
CONNECT = """
import socket, sys, threading
def attempt(port):
    with socket.socket() as one:
        try: one.connect(("127.0.0.1", port)); print("connected")
        except OSError as error: print(error.errno)
def all_of_them():
    for port in sys.argv[1:]: attempt(int(port))
all_of_them()
thread = threading.Thread(target=all_of_them); thread.start(); thread.join()
"""


def network_rules(box: harness.Box, port: int):
    return tree_rules(box, {"id": "good", "allow": "connect", "address": "127.0.0.1", "port": port})


@pytest.mark.parametrize("profile", [DOCKER, PODMAN, f"{DOCKER},{ADDED}"], ids=["docker", "podman", "docker --cap-add SYS_PTRACE"])
def test_connects_are_decided_one_by_one(box, profile):
    with listeners() as (good, bad):
        line = [PYTHON, "-c", CONNECT, str(good), str(bad)]
        assert contained(box, profile, line).text == "connected\n" * 4
        result = contained(box, profile, line, network_rules(box, good))
        assert result.code == 0, result.describe()
        assert result.report["effective"]["degraded"] == (["descriptor-copy"] if profile == DOCKER else []), result.describe()
        first = "connected\n111\n"
        # Before Linux 6.9 whose descriptors a thread has is told by kcmp alone, which podman's profile refuses.
        if profile != DOCKER and "thread-descriptors" in missing(doctor(box, profile)[1]):
            assert result.text == first + "1\n1\n" and "see callgate doctor" in result.errors, result.describe()
        else:
            assert result.text == first * 2 and "container" not in result.errors, result.describe()


def test_where_pidfd_getfd_is_refused_it_is_on_record_and_may_be_required(box):
    result = contained(box, DOCKER, ["/bin/true"], tree_rules(box))
    assert result.code == 0 and result.errors == "" and result.report["effective"]["degraded"] == ["descriptor-copy"], result.describe()
    assert result.audit[0]["callgate"]["degraded"] == ["descriptor-copy"], result.describe()
    sure = contained(box, DOCKER, ["/bin/true"], tree_rules(box), ["--require", "descriptor-copy"])
    assert sure.code == 125 and "--cap-add SYS_PTRACE" in sure.errors, sure.describe()


# A socket that is connected has no copy, and neither has one that callgate did not make.
CALLS_AGAIN = """
import os, socket, sys
good, end = int(sys.argv[1]), ("127.0.0.1", int(sys.argv[1]))
def said(what, *words):
    try: print(what.__name__, what(*words))
    except OSError as error: print(what.__name__, error.errno)
def tcp(): return socket.socket()
one = tcp(); one.connect(end); said(one.connect, end); said(one.bind, ("127.0.0.1", 0)); said(one.listen)
one = tcp(); one.setblocking(False); print([one.connect_ex(end) for _ in range(3)])
one = tcp(); print(one.connect_ex(("127.0.0.1", 1)), one.connect_ex(end))  # refused by nobody, and then connected
server = tcp(); server.bind(("127.0.0.1", 0)); server.listen(1); server.listen(5); said(server.bind, ("127.0.0.1", 0)); said(server.connect, end)
caller = tcp(); caller.connect(server.getsockname())
taken, _ = server.accept(); taken.sendall(b"x"); taken.close(); print(caller.recv(1), caller.recv(1))
port = server.getsockname(); server.close(); print(tcp().connect_ex(port))
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):  # a port is free as soon as its socket is closed, whoever had it
    for _ in range(20):
        one = socket.socket(type=kind); one.bind(("127.0.0.1", 0)); port = one.getsockname(); one.close()
        one = socket.socket(type=kind); one.bind(port)
udp = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
udp[0].bind(("127.0.0.1", 0)); udp[1].connect(("127.0.0.1", 1)); udp[1].connect(udp[0].getsockname()); udp[1].send(b"a")
udp[1].sendto(b"b", udp[0].getsockname()); print(udp[0].recv(1), udp[0].recv(1))
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); held = []
try:
    while True: held.append(tcp())
except OSError as error: print(error.errno, os.open("/dev/null", os.O_RDONLY) if len(held) < 40 else "full")
"""


# A connect that waits for room in a queue: the kernel asks again after a second.
LATER = """
import select
server = tcp(); server.bind(("127.0.0.1", 0)); server.listen(0); end = server.getsockname(); callers = [tcp() for _ in range(3)]
for one in callers: one.setblocking(False); one.connect_ex(end)
print([one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] for one in callers], callers[-1].connect_ex(end))
taken = [server.accept()[0]]; select.select([], callers[-1:], [])
print(callers[-1].connect_ex(end), callers[-1].connect_ex(end))
for one in callers: one.close()
print([one.recv(1) for one in taken + [server.accept()[0] for _ in range(2)]])
"""


def test_sockets_work_as_bare_where_callgate_makes_them(box):
    """By Docker's profile no descriptor can be copied from the run."""
    with listeners() as (good, _):
        line = [PYTHON, "-c", CALLS_AGAIN.replace("import resource", f"{LATER if harness.SOAK else ''}import resource"), str(good)]
        free = {"id": "loopback", "allow": ["connect", "bind"], "address": "127.0.0.0/8", "port": "0-65535"}
        udp = free | {"id": "udp", "protocol": "udp"}
        bare = contained(box, DOCKER, line)
        assert bare.code == 0 and len(bare.text.splitlines()) >= 10, bare.describe()
        result = contained(box, DOCKER, line, network_rules(box, good) | {"rules": [*network_rules(box, good)["rules"], free, udp]})
        assert result.text == bare.text, f"{bare.text}\n{result.describe()}"
        assert result.report["denials"] == [], result.describe()


# An inherited socket, one that was accepted, and a connect that dissolves: none has a copy.
WITHOUT_COPY = """
import ctypes, os, socket, sys
end = ("127.0.0.1", int(sys.argv[1])); libc = ctypes.CDLL(None, use_errno=True)
print("inherited", socket.socket(fileno=int(sys.argv[2])).connect_ex(end))
near, far = socket.socketpair()
if os.fork() == 0:  # one that callgate made, from another process of the run
    with socket.socket() as one: socket.send_fds(near, [b"x"], [one.fileno()])
    os._exit(0)
os.wait()
print("passed", socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]).connect_ex(end))
server = socket.create_server(("127.0.0.1", 0)); caller = socket.create_connection(server.getsockname()); taken, _ = server.accept()
for name, one in (("accepted", taken), ("connected", caller)):
    print(name, libc.connect(one.fileno(), bytes(16), 16), ctypes.get_errno())
"""


def test_a_socket_without_a_copy_is_refused_on_record(box):
    box.contain(DOCKER)
    free = {"id": "loopback", "allow": ["connect", "bind"], "address": "127.0.0.0/8", "port": "0-65535"}
    for rules, said in ((None, ["inherited 0", "passed 0", "accepted 0 0", "connected 0 0"]),
                        (tree_rules(box, free), ["inherited 1", "passed 0", "accepted -1 1", "connected -1 1"])):
        with listeners() as (good, _), socket.socket() as one:
            number = one.fileno()
            result = box.run([PYTHON, "-c", WITHOUT_COPY, str(good), str(number)], rules, supervised=rules is not None,
                             options=["--pass-fd", str(number)], pass_fds=(number,))
        assert result.text.splitlines() == said, result.describe()
    assert "callgate has no copy" in result.errors and sum(one["count"] for one in result.report["denials"]) == 3, result.describe()


MANY = """
import socket
held = []
try:
    while len(held) < 200: held.append(socket.socket())
except OSError as error: print(error.errno, len(held))
for one in held: one.close()
print(len([socket.socket() for _ in range(100)]))
"""


def test_more_sockets_than_callgate_may_copy_are_refused_on_record(box):
    box.within = ["/bin/sh", "-c", 'ulimit -n 256; exec "$@"', "sh", box.program("prog_container"), DOCKER]
    assert box.run([PYTHON, "-c", MANY], supervised=False).text == "100\n"
    result = box.run([PYTHON, "-c", MANY], tree_rules(box))
    assert result.text == "24 128\n100\n" and "overload" in result.errors, result.describe()


SHORT = """
import socket, sys
end = ("127.0.0.1", int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    with socket.socket() as one:
        one.connect(end); one.sendall(b"x")
        assert one.recv(1) == b"x"
"""


def test_short_connections_end_as_early_as_bare(box):
    """The server waits for the end of each before the next one."""
    count = 10_000 if harness.SOAK else 500
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = []

        def serve() -> None:
            for _ in range(count):
                taken, _ = server.accept()
                with taken:
                    taken.sendall(taken.recv(1))
                    ends.append(taken.recv(1))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        result = contained(box, DOCKER, [PYTHON, "-c", SHORT, str(port), str(count)], network_rules(box, port))
        assert result.code == 0, result.describe()
        thread.join(harness.DEADLINE)
        assert ends == [b""] * count, f"{len(ends)} ended"


# The sends of the pair are refused, and so is the redirection of a stream: neither has a copy.
WITHOUT_TWIN = {"net.unspec", "unix.pair"}
# These are one of each kind: a socket that is raced, one that is passed, a number that leads elsewhere, and a change by descriptor.
SAMPLE = ("net.passed", "net.number_again", "race.connect.socket", "door.reader_fchmod")
CORPUS = [case for case in cases.select(["net.*", "unix.*", "server.*", "race.connect*", "race.chmod.*", "door.reader_f*", "door.bind*"])
          if harness.SOAK or case.name in SAMPLE]


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_attacks_are_held_in_a_container(stage, user, case):
    # test_attacks.py has the controls.
    result = run_case(case, stage, user, runs=("held",) if case.name in WITHOUT_TWIN else ("held", "twin"), container=DOCKER)
    if result.impossible is not None:
        pytest.skip(f"{case.name}: {result.impossible}")
    assert result.good, result.explain()


KEPT = """
import os
for number in range(3, 64):
    try: print(os.readlink(f"/proc/self/fd/{number}"))
    except OSError: pass
try: os.wait()
except ChildProcessError: print("alone")
"""


def test_the_listener_comes_by_a_socket_and_nobody_else_keeps_it(box):
    """By Docker's profile it cannot be taken: the command has none of what carried it, and no child or zombie."""
    own = {"id": "own", "allow": "read", "path": "/proc/**"}
    for result in (box.run([PYTHON, "-c", KEPT], tree_rules(box, own)), contained(box, DOCKER, [PYTHON, "-c", KEPT], tree_rules(box, own))):
        assert result.code == 0 and result.text == "alone\n", result.describe()


@pytest.mark.parametrize("call", ["seccomp", "landlock_create_ruleset", "openat2", "close_range", "pidfd_open", "pidfd_send_signal", "prlimit64"])
def test_a_profile_without_what_callgate_needs_is_named_and_nothing_runs(box, call):
    result = contained(box, f"{DOCKER},-{call}", ["/bin/sh", "-c", f"echo ran > {box.tree}/ran"], tree_rules(box))
    assert result.code == 125 and not (box.tree / "ran").exists(), result.describe()
    assert call.removesuffix("64") in result.errors and "--security-opt seccomp=" in result.errors, result.describe()
    assert len(result.errors.splitlines()) == 1, result.describe()
    code, found = doctor(box, f"{DOCKER},-{call}")
    assert code == 1 and not found["works"] and found["obstacle"] in result.errors, found


def test_nested_runs_do_not_start_where_their_processes_could_not_be_known(box):
    """Else each call of the outer run would be denied from then on. The control: the same container without that refusal."""
    own = [{"id": "self", "allow": ["read", "execute"], "path": str(box.callgate)}, {"id": "tmp", "allow": ["read", "write"], "path": "${tmp}/**"}]
    inner = f"{box.callgate} run -q --no-user-rules --rules-json '{json.dumps(tree_rules(box))}' -- /bin/echo inner"
    for profile, said in ((DOCKER, "inner\n0\nouter\n"), (f"{DOCKER},-prlimit_others", "125\nouter\n")):
        box.file(box.tree / "notes", b"outer\n")
        result = contained(box, profile, ["/bin/sh", "-c", f"{inner}; echo $?; cat notes"], tree_rules(box, *own))
        assert result.text == said and ("refuses prlimit, by which" in result.errors) == (said[0] == "1"), result.describe()
    assert "nested-runs" in missing(doctor(box, f"{DOCKER},-prlimit_others")[1])


def test_a_profile_from_before_landlock_is_named(box):
    result = contained(box, "podman", ["/bin/true"], tree_rules(box))
    assert result.code == 125 and "refuses landlock_create_ruleset" in result.errors, result.describe()


def test_doctor_says_what_a_profile_refuses_and_what_would_help(box):
    ptrace = "start the container with --cap-add SYS_PTRACE"
    for profile, lacking in ((DOCKER, {"descriptor-copy", "keyrings", "names-by-udp"}), (PODMAN, {"exec-watch", "memory-calls"})):
        code, found = doctor(box, profile)
        native = missing(json.loads(box.run([str(box.callgate), "doctor", "--json"], supervised=False).text))
        assert code == 0 and found["works"], found
        lacks = {name: text for name, text in missing(found).items() if name not in native}
        if "pidfd-thread" in native:  # before Linux 6.9, where kcmp stands in for it
            lacking = lacking | {"thread-descriptors"}
        assert set(lacks) == lacking, lacks
        assert all(text == ptrace for name, text in lacks.items() if name not in ("keyrings", "names-by-udp")), lacks
        text = box.run([box.program("prog_container"), profile, str(box.callgate), "doctor"], supervised=False).text
        assert "a filter is around this process" in text and ptrace in text, text


MEMORY = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
area = mmap.mmap(-1, 2 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
path = os.fsencode(os.path.abspath("plain")) + b"\\0"
def attempt(name, address):
    ctypes.set_errno(0)
    fd = libc.open(ctypes.c_void_p(address), 0)
    print(name, fd >= 0, ctypes.get_errno())
edge = start + mmap.PAGESIZE
ctypes.memmove(edge - len(path), path, len(path))
assert libc.mprotect(ctypes.c_void_p(edge), mmap.PAGESIZE, 0) == 0
attempt("up to the edge", edge - len(path))
ctypes.memmove(edge - 3, b"abc", 3)
attempt("without an end", edge - 3)
attempt("what cannot be read", edge)
attempt("nothing", 8)
"""


def test_memory_that_is_read_by_its_file_is_read_as_the_kernel_reads_it(box):
    """By podman's profile process_vm_readv is refused."""
    box.file(box.tree / "plain", b"text")
    native = box.run([PYTHON, "-c", MEMORY], supervised=False)
    result = contained(box, PODMAN, [PYTHON, "-c", MEMORY], tree_rules(box))
    assert result.text == native.text and result.text.splitlines()[0] == "up to the edge True 0", result.describe()
    assert result.text.splitlines()[1:] == [f"{one} False 14" for one in ("without an end", "what cannot be read", "nothing")]


MADE = """
import os, socket, subprocess, sys, threading
def make(mask):
    code = f'''
import os, socket
os.umask({mask})
for n in range(20):
    os.mkdir("d{mask}-%d" % n); open("f{mask}-%d" % n, "x").close()
    with socket.socket(socket.AF_UNIX) as one: one.bind("s{mask}-%d" % n)
'''
    return subprocess.Popen([sys.executable, "-c", code])
running = [make(mask) for mask in (0, 0o27, 0o777)]
assert all(one.wait() == 0 for one in running)
for name in sorted(os.listdir()): print(name, oct(os.lstat(name).st_mode))
"""


def test_what_several_make_at_once_has_the_umask_of_each(box):
    """By Docker's profile callgate's threads have one umask and one working directory between them."""
    native, inside = box.directory(box.tree / "native"), box.directory(box.tree / "inside")
    bare = box.run([PYTHON, "-c", MADE], supervised=False, cwd=native)
    assert bare.code == 0 and bare.text.count("\n") == 180, bare.describe()
    own = tree_rules(box, {"id": "sockets", "allow": "bind", "unix": f"{box.tree}/**"})
    result = contained(box, f"{DOCKER},{ADDED}", ["/bin/sh", "-c", f'cd {inside} && exec "$0" "$@"', PYTHON, "-c", MADE], own)
    assert result.code == 0 and result.text == bare.text, result.describe()
