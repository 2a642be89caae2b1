"""Ways around that a hostile reading of the supervisor found: each with its control run, and its benign twin."""

from __future__ import annotations

import os
import socket
import threading

import pytest

import harness

PYTHON = "/usr/bin/python3"


def python(box, text, rules=None, *arguments):
    return box.run([PYTHON, "-c", text, *[str(one) for one in arguments]], rules, supervised=rules is not None)


def tree_rules(box, *more):
    return harness.rule_set({"id": "tree", "allow": ["read", "write", "execute"], "path": f"{box.root}/**"}, *more)


LINK = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(action):
    try: action()
    except OSError as error: print(error)
attempt(lambda: os.link(".env", "sub/.env"))
try: fd = os.open("sub/.env", os.O_PATH)
except OSError: fd = -1
attempt(lambda: os.unlink("sub/.env"))
libc.linkat(fd, b"", -100, b"plain", 0x1000)
attempt(lambda: print(open("plain").read()))
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"named")
print("twin", libc.linkat(fd, b"", -100, b"twin", 0x1000))
"""


def test_a_descriptor_without_a_known_name_gives_no_second_one(box):
    """An O_PATH descriptor on a link that is gone, while another, denied name of the object stands."""
    def tree():
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        box.directory(box.tree / "sub")
        box.file(box.tree / ".env", b"TOPSECRET")
    tree()
    assert b"TOPSECRET" in python(box, LINK).out
    tree()
    rules = tree_rules(box, {"id": "env", "deny": "read", "path": f"{box.tree}/**/.env"})
    result = python(box, LINK, rules)
    assert b"TOPSECRET" not in result.out and not (box.tree / "plain").exists(), result.describe()
    assert b"twin 0" in result.out and (box.tree / "twin").read_bytes() == b"named", result.describe()


BIND = """
import socket, sys
port = int(sys.argv[1])
def attempt(name, make):
    try:
        one = make(); one.listen(1); print(name, "LISTENS")
    except OSError as error: print(name, error)
def second():
    one = socket.socket(); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", port)); return one
attempt("shared", second)
def plain():
    one = socket.socket(); one.bind(("127.0.0.1", port)); return one
attempt("plain", plain)
"""


def test_a_port_that_is_taken_is_not_a_way_to_listen_there(box):
    """Some sockets may bind what another one may not: SO_REUSEPORT of the same user."""
    if box.user.uid != os.geteuid():
        pytest.skip("SO_REUSEPORT is shared within one user: the test's own")
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    taken.bind(("127.0.0.1", 0))
    taken.listen(8)
    port = taken.getsockname()[1]
    try:
        assert b"shared LISTENS" in python(box, BIND, None, port).out
        result = python(box, BIND, tree_rules(box), port)
        assert b"LISTENS" not in result.out, result.describe()
        assert b"plain [Errno 98]" in result.out, "a program that looks for a free port must see EADDRINUSE\n" + result.describe()
        allowed = python(box, BIND, tree_rules(box, {"id": "port", "allow": "bind", "port": port}), port)
        assert b"shared LISTENS" in allowed.out, allowed.describe()
    finally:
        taken.close()


ANYWHERE = """
import socket, sys
one = socket.socket(); one.settimeout(5)
one.bind(("127.0.0.2", 0))
try: one.connect(("0.0.0.0", int(sys.argv[1]))); print("CONNECTED", one.getpeername()[0])
except OSError as error: print(error)
"""


def test_the_unspecified_address_goes_where_it_was_judged_to_go(box):
    """The kernel connects 0.0.0.0 to the address that the socket is bound to."""
    seen = []
    other = socket.socket()
    other.bind(("127.0.0.2", 0))
    other.listen(8)
    port = other.getsockname()[1]
    here = socket.socket()
    here.bind(("127.0.0.1", port))
    here.listen(8)

    def count(listener, name):
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return
            seen.append(name)
    for listener, name in ((other, "other"), (here, "here")):
        threading.Thread(target=count, args=(listener, name), daemon=True).start()
    try:
        assert b"127.0.0.2" in python(box, ANYWHERE, None, port).out
        harness.until(lambda: "other" in seen, "the control reaches the other address")
        seen.clear()
        rules = tree_rules(box, {"id": "here", "allow": "connect", "address": "127.0.0.1", "port": port},
                           {"id": "source", "allow": "bind", "port": 0})
        result = python(box, ANYWHERE, rules, port)
        assert b"CONNECTED 127.0.0.1" in result.out, result.describe()
        harness.until(lambda: "here" in seen, "the allowed address is reached")
        assert "other" not in seen, result.describe()
    finally:
        for listener in (other, here):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


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

