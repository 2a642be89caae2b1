"""Findings of a hostile reading of the supervisor that are no attack on an object: crashes, and effects that programs would
notice."""

from __future__ import annotations

import ctypes
import os
import platform
import pty
import random
import socket
import subprocess
from pathlib import Path

import pytest

import harness

PYTHON = "/usr/bin/python3"


def python(box, text, rules=None, *arguments):
    return box.run([PYTHON, "-c", text, *[str(one) for one in arguments]], rules, supervised=rules is not None)


def tree_rules(box, *more):
    return harness.rule_set({"id": "tree", "allow": ["read", "write", "execute"], "path": f"{box.root}/**"}, *more)


BIND = """
import socket, sys
one = socket.socket()
try: one.bind(("127.0.0.1", int(sys.argv[1])))
except OSError as error: print(error)
"""


def test_a_port_that_is_denied_and_taken_is_said_to_be_taken(box):
    """Else a program that looks for a free port never ends."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(8)
        port = taken.getsockname()[1]
        bare, result = python(box, BIND, None, port), python(box, BIND, tree_rules(box), port)
    assert b"[Errno 98]" in bare.out and result.out == bare.out, result.describe()


DENIED_BINDS = """
import socket, sys
kind, port, rounds = getattr(socket, sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
bound = 0
for _ in range(rounds):
    one = socket.socket(socket.AF_INET, kind)
    try:
        one.bind(("127.0.0.1", port))
        bound += 1
    except OSError: pass
    one.close()
print("bound", bound)
"""


def unasked_port(kind: int) -> int:
    """A free port of those that the kernel gives to nobody who does not ask for it by its number."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(lowest - 10000, lowest), 100):
        with socket.socket(socket.AF_INET, kind) as free:
            try:
                free.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError("no port is free")


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_a_denied_bind_takes_the_port_for_no_moment(box, kind):
    """No outside process meets a port that callgate takes to ask whether it is in use."""
    port = unasked_port(getattr(socket, kind))
    udp = {"id": "udp", "allow": "connect", "address": "127.0.0.2", "port": 9, "protocol": "udp"}

    def met(line: list[str]) -> tuple[int, bytes]:
        """How often a bind from outside failed while the command ran, and what that printed."""
        process = box.start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        taken = 0
        while process.poll() is None:
            with socket.socket(socket.AF_INET, getattr(socket, kind)) as outside:
                try:
                    outside.bind(("127.0.0.1", port))
                except OSError:
                    taken += 1
        return taken, process.communicate()[0]

    command = [PYTHON, "-c", DENIED_BINDS, kind, str(port), "20000"]
    # On a busy machine the two may take turns: then the control needs more rounds to be met.
    taken, said = next((one for one in map(met, [command] * 20) if one[0] > 0), (0, b""))
    assert taken > 0 and said != b"bound 0\n", "the control takes no port"
    # Another program of the machine may have the port for a moment. Then twenty times as many binds decide.
    for command[-1] in ("1000", "20000"):
        seen = met(box.command(command, tree_rules(box, udp))[0])
        if seen[0] == 0:
            break
    assert seen == (0, b"bound 0\n")
    allowed = tree_rules(box, udp, {"id": "port", "allow": "bind", "port": port, "protocol": ["tcp", "udp"]})
    taken, said = met(box.command(command, allowed)[0])
    assert said != b"bound 0\n"


CONTROL_DATA = """
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
data = ctypes.create_string_buffer(b"x")
vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 1))
def send(control, size):
    buffer = ctypes.create_string_buffer(control, size)
    header = ctypes.create_string_buffer(struct.pack("QQQQQQQ", 0, 0, ctypes.addressof(vector), 1, ctypes.addressof(buffer), size, 0))
    result = libc.sendmsg(a.fileno(), header, 0)
    return result if result >= 0 else -ctypes.get_errno()
for count in (6, 100, 100000):
    for _ in range(100): result = send(struct.pack("QII", 16 + 4 * count, 1, 1) + struct.pack("i", 0), 24)
    print(result)
for _ in range(100): result = send(struct.pack("QII", 24, 99, 0) + bytes(8) + struct.pack("QII", 4096, 1, 2), 40)
print(result)
socket.send_fds(a, [b"twin"], [0])
print("descriptors", len(socket.recv_fds(b, 64, 4)[1]))
"""


def test_lengths_in_control_data_are_not_believed(box):
    """A datagram rule puts sendmsg on behalf: what it copies must not be walked beyond its end."""
    rules = tree_rules(box, {"id": "datagrams", "allow": "connect", "unix": f"{box.root}/**", "protocol": "datagram"})
    bare, result = python(box, CONTROL_DATA), python(box, CONTROL_DATA, rules)
    assert result.code == 0 and result.report["outcome"] == "exited", result.describe()
    assert result.out == bare.out, f"{bare.describe()}\n{result.describe()}"


REMOVALS = """
import os, subprocess
def attempt(path):
    try: os.rmdir(path)
    except OSError as error: print(error.errno)
attempt(os.getcwd()); attempt("/usr"); attempt("/usr/bin")
print(subprocess.run(["/usr/bin/true"]).returncode, subprocess.run(["./program"]).returncode)
"""


def test_a_removal_that_fails_takes_nothing_away(box):
    box.file(box.tree / "program", b"#!/bin/sh\nexit 7\n", 0o755)
    result = python(box, REMOVALS, tree_rules(box))
    assert result.out.endswith(b"0 7\n"), result.describe()


DYING = """
import os, signal, sys, time
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        while True:
            os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))
    os.kill(child, signal.SIGSTOP)  # it has run, or not: any moment will do
    os.kill(child, signal.SIGCONT)
    late = time.monotonic() + 0.01  # each yield may take long on a busy machine
    for _ in range(50):
        if time.monotonic() < late: os.sched_yield()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("survived")
"""


def test_callers_that_die_in_the_middle_of_a_call_end_nothing_else(box):
    rounds = 3000 if os.environ.get("CALLGATE_SOAK") == "1" else 300
    rules = tree_rules(box, {"id": "never", "deny": "read", "path": f"{box.tree}/**/.never"})
    result = python(box, DYING, rules, rounds)
    assert result.out == b"survived\n" and result.code == 0, result.describe()


MANAGER = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict(); shared["a"] = 1; print(dict(shared))
"""


def test_a_socket_that_was_bound_by_a_path_says_that_path(box):
    script = box.file(box.tree / "manager.py", MANAGER.encode())
    result = box.run([PYTHON, str(script)], options=["--workdir", str(box.tree)])
    assert result.out == b"{'a': 1}\n", result.describe()



ASKED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
outside = os.getppid() if len(sys.argv) < 2 else int(sys.argv[1])
print(os.getpriority(os.PRIO_PROCESS, outside), os.sched_getscheduler(outside), sorted(os.sched_getaffinity(outside)),
      os.sched_getparam(outside).sched_priority, os.getpgid(outside), os.getsid(outside), libc.syscall(252, 1, outside) >= 0)
"""


def test_what_any_user_may_ask_about_a_process_is_answered(box):
    """The kernel tells another user's processes' priorities too: nothing of it is refused for an outside process."""
    outside = box.start(["/bin/sleep", "1000"])
    bare, result = python(box, ASKED, None, outside.pid), python(box, ASKED, tree_rules(box), outside.pid)
    assert bare.code == 0 and result.out == bare.out, f"{bare.describe()}\n{result.describe()}"


IMPOSSIBLE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*arguments)
    print(result, ctypes.get_errno() if result < 0 else 0)
setpriority, ioprio_set, tgkill, tkill, prlimit, setscheduler = 141, 251, 234, 200, 302, 144
call(setpriority, 3, 1, 0); call(setpriority, 0, -5, 0); call(setpriority, 0, 2**31 - 1, 0); call(setpriority, 1, 2**31 - 1, 0)
call(ioprio_set, 4, 1, 2 << 13); call(ioprio_set, 1, 2**31 - 1, 2 << 13); call(ioprio_set, 2, 2**31 - 1, 2 << 13)
call(tgkill, -1, 1, 0); call(tkill, -1, 0); call(prlimit, -1, 7, 0, 0); call(prlimit, 2**31 - 1, 7, 0, 0); call(setscheduler, -1, 0, 0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of calls of x86_64")
def test_numbers_that_name_nobody_get_the_kernels_errno(box):
    bare, result = python(box, IMPOSSIBLE), python(box, IMPOSSIBLE, tree_rules(box))
    assert bare.code == 0 and result.out == bare.out, f"{bare.describe()}\n{result.describe()}"


SIBLING = """
import os, sys, time
reading, writing = os.pipe()
target = os.fork()
if target == 0:
    os.read(reading, 1)
    os._exit(0)
def attempt(path, who):
    try:
        os.close(os.open(path, os.O_RDWR)); print(who, "opened")
    except OSError as error: print(who, error.errno)
sibling = os.fork()
if sibling == 0:
    attempt(f"/proc/{target}/mem", "sibling"); attempt("/proc/self/mem", "itself"); attempt("/proc/thread-self/mem", "thread")
    sys.stdout.flush(); os._exit(0)
os.waitpid(sibling, 0)
attempt(f"/proc/{target}/mem", "parent")
os.write(writing, b"x")
"""
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@pytest.mark.parametrize("scope", ["0", "1"])
def test_memory_is_opened_for_whom_yama_lets(box, scope):
    """callgate is every process's ancestor: it may trace whom a sibling may not."""
    if not SCOPE.exists():
        pytest.skip("this kernel has no Yama")
    before = SCOPE.read_text().strip()
    if before != scope and not os.access(SCOPE, os.W_OK):
        pytest.skip("setting ptrace_scope needs root")
    rules = tree_rules(box, {"id": "memory", "allow": "modify", "path": "/proc/*/{mem,task/*/mem}"},
                       {"id": "contest", "deny": "read", "path": "/proc/*/pagemap"})
    try:
        if before != scope:
            SCOPE.write_text(scope)
        bare, result = python(box, SIBLING), python(box, SIBLING, rules)
    finally:
        if before != scope:
            SCOPE.write_text(before)
    wanted = b"sibling opened" if scope == "0" else b"sibling 13"
    capable = box.user.kind == "root"  # bare, to trace whom it likes; a run has no capability
    assert (b"sibling opened" if capable else wanted) in bare.out and b"parent opened" in bare.out, bare.describe()
    assert result.out == (bare.out.replace(b"sibling opened", wanted) if capable else bare.out), result.describe()


MODES = """
import os, pty, sys
master, slave = pty.openpty()
own = os.ttyname(slave)
os.chmod(own, 0o600); print(oct(os.stat(own).st_mode)); os.fchmod(slave, 0o622); print(oct(os.stat(slave).st_mode))
os.chown(own, os.getuid(), -1); os.utime(slave)
for one in sys.argv[1:]:
    try: os.chmod(one, 0o622); print("changed")
    except OSError as error: print(error.errno)
"""


def test_only_the_runs_own_terminals_get_other_modes(box):
    """Ruby's PTY.open and libraries beneath others give the slave a mode by its name."""
    master, slave = pty.openpty()
    try:
        if os.geteuid() == 0:
            os.fchown(slave, box.user.uid, -1)
        users = os.ttyname(slave)
        own = b"0o20600\n0o20622\n"
        bare = python(box, MODES, None, users)
        assert bare.out == own + b"changed\n", bare.describe()
        os.fchmod(slave, 0o600)
        result = box.run([PYTHON, "-c", MODES, users], options=["-p", "agent"], audit=False)
        assert result.out == own + b"13\n", result.describe()
        assert os.fstat(slave).st_mode & 0o777 == 0o600
    finally:
        os.close(master)
        os.close(slave)


INSTANCE = """
import fcntl, os, struct, sys
wanted, ptmx, there = int(sys.argv[1]), sys.argv[2], sys.argv[3]
masters = []
for _ in range(256):
    masters.append(os.open(ptmx, os.O_RDWR | os.O_NOCTTY))
    fcntl.ioctl(masters[-1], 0x40045431, struct.pack("i", 0))
    number, = struct.unpack("i", fcntl.ioctl(masters[-1], 0x80045430, bytes(4)))
    if number >= wanted: break
try:
    os.write(os.open(f"{there}/{wanted}", os.O_WRONLY | os.O_NOCTTY), b"written\\n"); print("reached")
except OSError as error: print(error.errno)
"""


def test_the_master_of_another_devpts_makes_no_terminal_the_runs_own(box):
    """A second instance counts its terminals from 0 too."""
    if os.geteuid() != 0 or box.user.kind != "root":
        pytest.skip("mounting needs root")
    other = box.directory(box.tree / "other")
    box.directory(other / "pts")
    master, slave = pty.openpty()
    try:
        number = int(os.ttyname(slave).rpartition("/")[2])
        mount = ["unshare", "-m", "sh", "-c", 'mount -t devpts -o newinstance,ptmxmode=0666 cg-test "$0" && exec "$@"', str(other / "pts")]
        rules = harness.rule_set({"id": "system", "allow": ["read", "execute"], "path": ["/usr/**", "/bin/**", "/lib/**", "/lib64/**", "/etc/**"]},
                                 {"id": "proc", "allow": "read", "path": "/proc/**"},
                                 {"id": "ptmx", "allow": ["read", "modify"], "path": str(other / "pts" / "ptmx")}, system=False)

        def attempt(there: Path, supervised: bool) -> bytes:
            line = [PYTHON, "-c", INSTANCE, str(number), str(other / "pts" / "ptmx"), str(there)]
            if supervised:
                line = box.command(line, rules)[0]
            return box.wait(box.start([*mount, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE), line, None, harness.DEADLINE).out

        users = Path(os.ttyname(slave)).parent
        assert attempt(users, False) == b"reached\n"
        assert attempt(users, True) == b"13\n"
        assert attempt(other / "pts", True) == b"reached\n"
    finally:
        os.close(master)
        os.close(slave)


DEEP = """
import os, sys
at = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(25):
    try: os.mkdir("d" * 200, dir_fd=at)
    except FileExistsError: pass
    at = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
def attempt(name, act):
    try: act(); print(name, "works")
    except OSError as error: print(name, error.errno)
one = os.open("file", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=at)
attempt("open", lambda: os.close(os.open("file", os.O_RDONLY, dir_fd=at)))
attempt("nofollow", lambda: os.close(os.open("file", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at)))
attempt("chmod", lambda: os.chmod("file", 0o640, dir_fd=at))
attempt("times", lambda: os.utime("file", (1, 1), dir_fd=at))
attempt("link", lambda: os.link("file", "other", src_dir_fd=at, dst_dir_fd=at))
attempt("rename", lambda: os.rename("other", "third", src_dir_fd=at, dst_dir_fd=at))
attempt("mkdir", lambda: os.mkdir("folder", dir_fd=at))
attempt("rmdir", lambda: os.rmdir("folder", dir_fd=at))
attempt("fchmod", lambda: os.fchmod(one, 0o600))
attempt("unlink", lambda: os.unlink("third", dir_fd=at))
"""


def test_names_longer_than_a_path_can_be_work_from_their_directory(box):
    """By a descriptor of its own such a file has no path: a listed difference (docs/differences.md)."""
    never = {"id": "never", "deny": ["read", "write"], "path": f"{box.tree}/**/.never"}
    bare, result = (python(box, DEEP, rules, box.directory(box.tree / name))
                    for name, rules in (("bare", None), ("held", tree_rules(box, never))))
    assert b"fchmod works" in bare.out and bare.out.count(b"works") == 10, bare.describe()
    assert result.out == bare.out.replace(b"fchmod works", b"fchmod 36"), result.describe()


LISTED = """
import ctypes, pathlib
print(sorted(line.split()[1] for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]))
"""


def test_system_v_objects_of_others_are_listed_as_to_any_user(box):
    """The contents of /proc/sysvipc are no secret of the user's (docs/threat-model.md); a rule can deny them."""
    place = Path("/proc/sysvipc/shm")
    if not place.exists():
        pytest.skip("this kernel has no System V objects")
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.shmget(0, 4096, 0o1600)  # IPC_PRIVATE, IPC_CREAT
    assert made >= 0
    try:
        bare, result = python(box, LISTED), python(box, LISTED, tree_rules(box))
        assert repr(str(made)).encode() in bare.out and repr(str(made)).encode() in result.out, result.describe()
        denied = python(box, LISTED, tree_rules(box, {"id": "objects", "deny": "read", "path": "/proc/sysvipc/**"}))
        assert b"PermissionError" in denied.err, denied.describe()
    finally:
        libc.shmctl(made, 0, None)  # IPC_RMID


REPLACED = "echo ready; read go; cat one && echo more >> one && truncate -s 4 one && cat one; echo $?"


def test_a_file_that_others_replace_during_the_run_is_still_allowed_by_its_name(box):
    """Landlock's grant stays with the old file: what the rules allow is then done by callgate, and on record."""
    rules = harness.rule_set({"id": "one", "allow": ["read", "modify"], "path": str(box.tree / "one")})
    line = ["/bin/sh", "-c", REPLACED]
    log = None
    for supervised in (False, True):
        box.file(box.tree / "one", b"old\n")
        box.file(box.tree / "new", b"new\n")
        if supervised:
            line, log = box.command(line, rules)
        process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        harness.read_until(process.stdout.fileno(), b"ready\n")
        (box.tree / "new").replace(box.tree / "one")
        said = process.communicate(b"go\n", harness.DEADLINE)[0]
        assert said == b"new\nnew\n0\n", said
    allowed = [one for one in harness.read_log(log) if one.get("callgate", {}).get("verdict") == "allow"]
    assert {one["file"]["path"] for one in allowed} == {str(box.tree / "one")}
