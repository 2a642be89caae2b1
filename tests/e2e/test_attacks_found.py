"""What a hostile reading of the supervisor found and is no attack on an object: crashes, and what programs would notice."""

from __future__ import annotations

import os
import socket

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
    for _ in range(50): os.sched_yield()
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

