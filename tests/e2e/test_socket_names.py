"""Unix sockets have the names that programs gave them, and lie where it was decided, whoever swaps names meanwhile."""
from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess

import pytest

import harness

PYTHON = "/usr/bin/python3"
OWN_DATAGRAMS = harness.LANDLOCK_ABI >= 9  # the kernel tells the run's own sockets from others
ENOUGH = 500 if harness.SOAK else 20  # of sockets at either place, or refused there

# For each way to name a socket: what a server and its client see of the name.
NAMED = """
import os, socket, stat, sys
top = sys.argv[1]
os.makedirs(f"{top}/app/run"); os.symlink(f"{top}/app", f"{top}/link"); os.chdir(f"{top}/app")
deep = f"{top}/" + "d" * (100 - len(top)); os.mkdir(deep)
here = os.open(".", os.O_PATH)
os.umask(0o27)
def show(name):
    listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listener.bind(name); listener.listen(); client.connect(name)
    server, _ = listener.accept()
    status = os.stat(name)
    seen = [listener.getsockname(), server.getsockname(), client.getpeername()]
    print(name.replace(top, "TOP"), *["same" if one == name else one for one in seen], stat.filemode(status.st_mode), status.st_uid, status.st_gid)
for name in sys.argv[2:]:
    try:
        show(name.replace("TOP", top).replace("HERE", str(here)).replace("DEEP", deep))
    except OSError as error:
        print(name, error.strerror)
    os.chdir(f"{top}/app")
os.chdir(f"{top}/app/run"); show("after")
"""
NAMES = ["plain", "./dot", "run/relative", "../app/up", "TOP/app/absolute", "TOP/link/through", "TOP//app///slashes", "DEEP/12345",
         "DEEP/123456", "none/x", "plain", "TOP/app/plain", "run/", "TOP/app/", "new/"]
IN_PROC = ["/proc/self/fd/HERE/a", "/proc/self/cwd/b"]


def test_both_sides_see_the_name_that_was_given(box):
    """As bare; but a name by /proc/self means callgate to callgate, and there the last component is seen."""
    bare = box.run([PYTHON, "-c", NAMED, str(box.tree / "bare"), *NAMES, *IN_PROC], supervised=False)
    assert bare.code == 0 and bare.text.count("same same same") == 11, bare.describe()
    top = box.tree / "held"
    result = box.run([PYTHON, "-c", NAMED, str(top), *NAMES, *IN_PROC])
    expected = bare.text.replace("/fd/3/a same same same", "/fd/3/a same a a").replace("/cwd/b same same same", "/cwd/b same b b")
    assert result.text == expected, result.describe()


BY_NUMBER = """
import os, signal, socket
os.makedirs("app/sub")
os.chdir("app")
os.mkfifo("sub/fifo")
top = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
waiting = []
for _ in range(16):
    waiting.append(os.fork())
    if waiting[-1] == 0:
        os.chdir("sub")
        os.open("fifo", os.O_WRONLY)
failed = set()
for _ in range(5):
    for number in range(3, 150):
        os.dup2(top, number)
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.bind(f"/proc/self/fd/{number}/socket")
                os.unlink("socket")
            except OSError as error:
                failed.add(error.strerror)
for child in waiting:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(sorted(failed), os.listdir("sub"))
"""


def test_a_number_in_proc_self_fd_is_never_callgates_own(box):
    """callgate holds the directory of each child that waits, at a number of its own. Landlock would let it bind there."""
    assert box.run([PYTHON, "-c", BY_NUMBER], supervised=False, cwd=box.directory(box.tree / "bare")).text == "[] ['fifo']\n"
    result = box.run([PYTHON, "-c", BY_NUMBER], cwd=box.directory(box.tree / "held"))
    assert result.text == "[] ['fifo']\n", result.describe()


def test_beside_a_place_that_is_closed_to_sockets_peers_see_the_last_component(box):
    result = box.run([PYTHON, "-c", NAMED, str(box.tree / "top"), "plain", "TOP/app/absolute"],
                     options=["--deny", str(box.tree / "top/app/closed")])
    assert [line.split(" ")[:4] for line in result.text.splitlines()] == [
        ["plain", "same", "same", "same"], ["TOP/app/absolute", "same", "absolute", "absolute"], ["after", "same", "same", "same"]]


SWAPS = """
import ctypes, os, sys
swap = ctypes.CDLL(None).renameat2
link, other = (os.fsencode(one) for one in sys.argv[1:3])
print("ready", flush=True)
while True:
    swap(-100, link, -100, other, 2)
"""
BINDS = """
import errno, os, socket, sys
top, second, enough = sys.argv[1], sys.argv[2], int(sys.argv[3])
number = bound = away = here = 0
while number < 5000 and (bound < enough or away < enough or here == 0):
    number += 1
    one = socket.socket(socket.AF_UNIX)
    try:
        one.bind(f"{top}/link/s{number}")
        print(f"s{number}")
        bound += 1
        there = os.path.exists(f"{top}/{second}/s{number}")
        away += there
        here += not there
    except OSError as error:
        if error.errno != errno.EACCES: raise
        away += 1
        try:
            one.listen()
        except OSError:
            continue  # it was never bound
        for directory in ("a", "a/sub", "closed"):
            try:
                socket.socket(socket.AF_UNIX).connect(f"{top}/{directory}/s{number}")
                print("reached", directory)
            except OSError: pass
"""
ATTACKS = {  # the second place to which the link leads, the rules, and whether no socket may come there
    "outside": ("closed", [], True),
    "beneath": ("a/sub", [{"id": "no", "deny": "bind", "unix": "{tree}/a/sub/**"}], True),
    "there": ("a/sub", [], False),
}


def swapped(box: harness.Box, name: str, supervised: bool = True) -> tuple[harness.Result, set[str], set[str]]:
    """Binds through a link that somebody outside swaps all the time. What was bound at the first place, and at the second."""
    second, more, _ = ATTACKS[name]
    for directory in ("a", "a/sub", "closed"):
        box.directory(box.tree / directory)
    (box.tree / "link").symlink_to("a")
    (box.tree / "other").symlink_to(second)
    rules = harness.rule_set({"id": "files", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                             {"id": "places", "allow": ["bind", "connect"], "unix": f"{box.tree}/a/**"},
                             *({**one, "unix": one["unix"].format(tree=box.tree)} for one in more))
    racer = box.start([PYTHON, "-c", SWAPS, str(box.tree / "link"), str(box.tree / "other")], stdout=-1)
    assert racer.stdout and racer.stdout.readline() == b"ready\n"
    result = box.run([PYTHON, "-c", BINDS, str(box.tree), second, str(ENOUGH)], rules, options=["-q"], supervised=supervised)
    racer.kill()
    assert result.code == 0, result.describe()
    found = [{one.name for one in (box.tree / place).iterdir() if stat.S_ISSOCK(one.lstat().st_mode)} for place in ("a", second)]
    return result, *found


@pytest.mark.parametrize("name", ATTACKS)
def test_a_swapped_link_leads_no_socket_elsewhere(box, name):
    result, first, second = swapped(box, name)
    assert "reached" not in result.text and first, result.describe()
    bound = set(result.text.split())
    assert bound, result.describe()
    if ATTACKS[name][2]:
        assert not second and bound <= first, (second, result.describe())
        return
    for one in result.decisions(verdict="allow"):  # each socket that the run has lies where it was decided
        place = harness.Path(one.get("destination", {}).get("address", ""))
        if place.name in bound:
            assert stat.S_ISSOCK(place.lstat().st_mode), place


@pytest.mark.parametrize("name", ["outside", "beneath"])
def test_bare_the_swapped_link_leads_sockets_there(box, name):
    assert swapped(box, name, supervised=False)[2]


# Go's own TestUnixgramServer and its like: a server answers to the address that a datagram came from. A connected pair of sockets as well.
DATAGRAMS = """
import os, socket, sys
top = sys.argv[1]
os.makedirs(f"{top}/app"); os.chdir(f"{top}/app"); os.symlink(f"{top}/app", f"{top}/link")
def made(name):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); one.settimeout(30)
    if name: one.bind(name)
    return one
def shown(name): return name and str(name).replace(top, "TOP")
for served, named in (("server", "client"), (f"{top}/app/server2", f"{top}/app/client2"), ("./server3", f"{top}/link/client3"), ("../app/server4", None)):
    server, client = made(served), made(named)
    client.sendto(b"1", served)
    print(shown(served), *map(shown, server.recvfrom(9)))
    client.sendmsg([b"2", b"2"], [], 0, served)
    print(*map(shown, server.recvmsg(9)[::3]))
    client.connect(served); client.send(b"3")
    print(shown(client.getpeername()), *map(shown, server.recvfrom(9)))
    if named:
        server.sendto(b"4", named)
        print(*map(shown, client.recvfrom(9)))
        server.connect(named); server.send(b"5")
        print(client.recv(9), shown(server.getpeername()))
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.send(b"ab"); one.send(b"cd"); print(other.recv(1), other.recv(9), one.getsockname(), other.getpeername())
os.unlink(f"{top}/app/server")
try: made(None).sendto(b"x", "server")
except OSError as error: print(error.strerror)
try: made(None).sendto(b"x", f"{top}/none")
except OSError as error: print(error.strerror)
"""


@pytest.mark.parametrize("options", [["-p", "dgram"]] + ([[]] if OWN_DATAGRAMS else []), ids=lambda one: "".join(one) or "agent")
def test_datagram_servers_answer_to_the_senders_address(box, options):
    bare = box.run([PYTHON, "-c", DATAGRAMS, str(box.tree / "bare")], supervised=False)
    assert bare.code == 0 and bare.text.count("\n") == 21, bare.describe()
    held = box.run([PYTHON, "-c", DATAGRAMS, str(box.tree / "held")], options=options)
    assert held.text == bare.text and held.code == 0 and not held.errors, held.describe()


# Messages to the run's own servers, and in every way that is known to servers of an outside process: in the work directory, elsewhere, abstract.
MESSAGES = """
import ctypes, os, socket, sys
inside, outside, name = sys.argv[1:4]
def made(): return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def tell(what, call):
    try: print(what, call())
    except OSError as error: print(what, error.strerror)
def message(address, sender=None): return lambda: (sender or made()).sendmsg([b"x", b"y"], [], 0, address)
def many(address):
    libc = ctypes.CDLL(None, use_errno=True)
    name = socket.AF_UNIX.to_bytes(2, "little") + os.fsencode(address) + b"\\0"
    class Header(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("length", ctypes.c_uint)] + [(one, ctypes.c_size_t) for one in ("io", "ios", "control", "controls", "flags", "done")]
    sender = made()
    sent = libc.sendmmsg(sender.fileno(), (Header * 1)(Header(name, len(name), 0, 0, 0, 0, 0, 0)), 1, 0)
    if sent < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return sent
own = made(); own.settimeout(30); own.bind("own")
tell("own", message("own")); tell("own again", lambda: many("own")); print(own.recv(9), own.recv(9))
os.rename("own", "moved"); tell("moved", message("moved")); print(own.recv(9))
child = made(); child.settimeout(30); child.bind("child")
if os.fork() == 0:
    child.close(); tell("from a child", message("child")); sys.stdout.flush(); os._exit(0)
os.wait(); print(child.recv(9))
os.symlink(inside, "to-inside"); os.symlink(outside, "to-outside"); os.symlink(os.path.dirname(outside), "directory")
where = os.open(os.path.dirname(outside), os.O_PATH | os.O_DIRECTORY)
last = os.path.basename(outside)
tell("inside", message(inside)); tell("inside relative", message(os.path.basename(inside)))
tell("a link to inside", message("to-inside"))
tell("inside by sendmmsg", lambda: many(inside))
os.rename(os.path.basename(inside), "renamed"); tell("inside renamed", message("renamed")); os.rename("renamed", os.path.basename(inside))
tell("outside", message(outside)); tell("a link", message("to-outside")); tell("through a link", message(f"directory/{last}"))
tell("by a descriptor", message(f"/proc/self/fd/{where}/{last}")); tell("by sendmmsg", lambda: many(outside))
tell("abstract", message(b"\\0" + name.encode()))
taken = made(); tell("of a pair", message(outside, socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]))
"""
OUTSIDERS = 12  # messages of that program to servers that are not the run's


def received(one: socket.socket) -> int:
    count = 0
    while True:
        try:
            one.recv(9, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.skipif(not OWN_DATAGRAMS, reason="Landlock knows unix sockets from ABI 9 on")
def test_messages_reach_the_runs_own_servers_alone(box):
    outside = box.root / "outside"
    outside.mkdir(mode=0o777)
    name = f"messages-{os.getpid()}-{os.urandom(4).hex()}"
    servers = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
    for server, address in zip(servers, (str(box.tree / "inside"), str(outside / "server"), "\0" + name)):
        server.bind(address)
    for address in (box.tree / "inside", outside / "server"):
        address.chmod(0o777)
    words = [PYTHON, "-c", MESSAGES, str(box.tree / "inside"), str(outside / "server"), name]
    bare = box.run(words, supervised=False)
    lines = bare.text.splitlines()
    assert bare.code == 0 and lines[-OUTSIDERS:] == [f"{one.rsplit(' ', 1)[0]} {1 if 'sendmmsg' in one else 2}" for one in lines[-OUTSIDERS:]], bare.describe()
    assert [received(server) for server in servers] == [5, 6, 1], bare.describe()
    for left in ("moved", "child", "to-inside", "to-outside", "directory"):
        (box.tree / left).unlink()
    held = box.run(words)
    assert held.code == 0 and held.text.splitlines()[:-OUTSIDERS] == lines[:-OUTSIDERS], held.describe()
    assert [received(server) for server in servers] == [0, 0, 0], held.describe()
    assert all(one.endswith(("Permission denied", "Operation not permitted")) for one in held.text.splitlines()[-OUTSIDERS:]), held.describe()
    # sendto names its receiver in an argument, so it is decided and on record.
    sends = "import socket, sys; one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n" \
            "for name in sys.argv[1:]:\n try: print(one.sendto(b'x', name))\n except OSError as error: print(error.strerror)"
    sent = box.run([PYTHON, "-c", sends, str(box.tree / "inside"), str(outside / "server")])
    assert sent.text == 2 * "Connection refused\n" and [received(server) for server in servers] == [0, 0, 0], sent.describe()
    assert [one["rule"] for one in sent.report["denials"]] == ["callgate-others-sockets", "default"], sent.describe()
    plan = json.loads(box.run([str(box.callgate), "plan", "--json"], supervised=False, cwd=box.tree).text)
    called = {one["call"] for one in plan["notified_calls"]}
    assert plan["messages_held"] and not called & {"sendmsg", "sendmmsg"} and {"sendto", "connect", "bind"} <= called, sorted(called)


# A run's own UDP sockets reach each other and the run's name server alone, where `-p dgram` has sends decided as well.
UDP = """
import socket, struct
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server, client = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    server.settimeout(30); server.bind((host, 0))
    client.sendto(b"1", server.getsockname()); print(server.recv(9))
    client.sendmsg([b"2", b"2"], [], 0, server.getsockname()); data, name = server.recvfrom(9); print(data, name[0])
    client.settimeout(30); server.sendto(b"3", name); print(client.recv(9))
    client.connect(server.getsockname()); client.send(b"4"); print(server.recv(9))
"""
ASKS = """
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); resolver.settimeout(30)
resolver.sendto(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + b"\\x07nowhere\\x07invalid\\0\\0\\1\\0\\1", ("127.0.0.53", 53))
print(struct.unpack(">H", resolver.recv(512)[:2]))
"""


@pytest.mark.parametrize("options", [[], ["-p", "dgram"]], ids=["not-decided", "decided"])
def test_udp_of_the_run_itself_works_where_sends_are_decided(box, options):
    bare = box.run([PYTHON, "-c", UDP], supervised=False)
    assert bare.code == 0 and bare.text.count("\n") == 8, bare.describe()
    held = box.run([PYTHON, "-c", UDP + ASKS], options=options)
    assert held.code == 0 and held.text == bare.text + "(7,)\n", held.describe()


PAIR = """
import array, errno, os, socket
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.send(b"first"); one.send(b"second"); one.sendmsg([b"th", b"ird"]); one.send(b"")
print([other.recv(n) for n in (9, 3, 9, 9)], os.get_inheritable(one.fileno()), one.getblocking())
def passed(fd): return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
other.sendmsg([b"x"], passed(1)); print(len(one.recvmsg(9, 99)[1]))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
kept, numbers = (ctypes.c_int * 2)(7, 7), os.listdir("/proc/self/fd")
for kind, protocol, where in ((2, 0, None), (2, 5, kept), (2 | 0x100, 0, kept), (2 | 0o4000, 1, kept)):
    print(libc.socketpair(1, kind, protocol, where), errno.errorcode.get(ctypes.get_errno()))
print(len(os.listdir("/proc/self/fd")) - len(numbers), os.get_blocking(kept[0]), os.get_inheritable(kept[1]))
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
except OSError as error: print(error.strerror)
"""


def test_a_pair_of_datagram_sockets_works_always(box):
    bare, held = box.run([PYTHON, "-c", PAIR], supervised=False), box.run([PYTHON, "-c", PAIR])
    assert bare.code == 0 and held.code == 0, held.describe()
    doctor = box.run([str(box.callgate), "doctor"], supervised=False)
    if OWN_DATAGRAMS:
        assert held.text == bare.text and not held.errors and "unix datagrams      between processes of the run" in doctor.text, held.describe()
        return
    assert held.text == bare.text + "Protocol not supported\n", held.describe()
    assert "-p dgram" not in held.errors, held.describe()
    failed = box.run([PYTHON, "-c", PAIR + "raise SystemExit(1)\n"])
    assert failed.code == 1 and failed.errors.count("-p dgram opens those of the run") == 1, failed.describe()
    assert "unix datagrams      closed without -p dgram" in doctor.text


if harness.SOAK:
    @pytest.mark.skipif(shutil.which("go", path=f"/usr/local/go/bin:{os.environ['PATH']}") is None, reason="go is not here")
    def test_gos_own_tests_of_unix_sockets_pass_as_bare(box):
        """Abstract names are asked under the profile, so a rule opens them here."""
        go = shutil.which("go", path=f"/usr/local/go/bin:{os.environ['PATH']}")
        sources = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip() + "/src/net"
        build = {"GOCACHE": str(box.root / "cache"), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        tests = str(box.root / "net.test")
        made = box.run([go, "test", "-c", "-o", tests, "."], supervised=False, env=build, cwd=harness.Path(sources))
        assert made.code == 0, made.describe()
        words = [tests, "-test.short", "-test.run=Unix", "-test.v"]
        rules = {"version": 1, "extends": ["dgram"], "rules": [
            {"id": "abstract", "allow": ["connect", "bind"], "unix": "@*", "protocol": ["stream", "datagram"]},
            {"id": "temporary", "allow": ["connect", "bind"], "unix": "/tmp/**", "protocol": ["stream", "datagram"]}]}
        bare, held = box.run(words, supervised=False), box.run(words, rules, options=["-x", tests])
        def passed(result: harness.Result) -> set[str]:
            return set(re.findall(r"--- PASS: (\S+)", result.text))
        assert bare.code == held.code == 0 and len(passed(bare)) > 20 and passed(held) == passed(bare), held.describe()
