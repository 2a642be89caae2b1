"""The look of a refused network call: the kernel's own checks first, nothing left behind, the rest of a call as native."""
from __future__ import annotations

import json
import socket

import pytest

import harness

PYTHON = "/usr/bin/python3"

# A raw call, whatever Python thinks of its arguments: errno, or 0.
RAW = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def raw(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result >= 0 else -ctypes.get_errno()
def inet(host, port, family=socket.AF_INET):
    return struct.pack("=H", family) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
def inet6(host, port):
    return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
def unix(path):
    return struct.pack("=H", socket.AF_UNIX) + path + b"\\0"
"""


def python(box, text, rules=None, *arguments):
    return box.run([PYTHON, "-c", RAW + text, *[str(one) for one in arguments]], rules, supervised=rules is not None)


def rules(box, *more):
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


# These calls fail before a verdict: GOOD is where the set-up connects, BAD is denied by the rules.
EARLIER = """
good, bad, bad_udp = map(int, sys.argv[1:])
kept = []
def made(*what):
    kept.append(socket.socket(*what))
    return kept[-1]
def stream(family=socket.AF_INET): return made(family)
def datagram(family=socket.AF_INET): return made(family, socket.SOCK_DGRAM)
def row(name, result): print(name, result)
one = stream(); one.connect(("127.0.0.1", good))
row("connected", raw("connect", one.fileno(), inet("127.0.0.1", bad), 16))
row("listening", (lambda s: (s.bind(("127.0.0.1", 0)), s.listen(), raw("connect", s.fileno(), inet("127.0.0.1", bad), 16))[2])(stream()))
row("inet6 address on inet", raw("connect", stream().fileno(), inet6("::1", bad), 28))
row("inet address on inet6", raw("connect", stream(socket.AF_INET6).fileno(), inet("127.0.0.1", bad), 16))
row("inet address on inet6, long", raw("connect", stream(socket.AF_INET6).fileno(), inet("127.0.0.1", bad) + bytes(12), 28))
row("inet6 address on udp", raw("connect", datagram().fileno(), inet6("::1", bad), 28))
only = datagram(socket.AF_INET6); only.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
row("inet address on inet6 only", raw("connect", only.fileno(), inet("127.0.0.1", bad), 16))
def send(s, address, data=b"x", flags=0): return raw("sendto", s.fileno(), data, len(data), flags, address, len(address))
row("send port 0", send(datagram(), inet("127.9.9.9", 0)))
row("send inet6 port 0", send(datagram(socket.AF_INET6), inet6("::1", 0)))
row("send too much", send(datagram(), inet("127.0.0.1", bad), bytes(70000)))
row("send inet6 too much", send(datagram(socket.AF_INET6), inet6("::1", bad), bytes(70000)))
row("send out of band", send(datagram(), inet("127.0.0.1", bad), b"x", socket.MSG_OOB))
row("send inet6 address on inet", send(datagram(), inet6("::1", bad)))
row("send inet address on inet6 only", send(only, inet("127.0.0.1", bad)))
row("bind taken", raw("bind", stream().fileno(), inet("127.0.0.1", bad), 16))
row("bind taken udp", raw("bind", datagram().fileno(), inet("127.0.0.1", bad_udp), 16))
row("bind foreign", raw("bind", stream().fileno(), inet("192.0.2.1", bad), 16))
row("bind inet6 on inet", raw("bind", stream().fileno(), inet6("::1", bad), 28))
row("bind inet on inet6", raw("bind", stream(socket.AF_INET6).fileno(), inet("127.0.0.9", bad), 16))
twice = stream(); twice.bind(("127.0.0.1", 0))
row("bind twice", raw("bind", twice.fileno(), inet("127.0.0.9", bad), 16))
row("bind twice, taken", raw("bind", twice.fileno(), inet("127.0.0.1", bad), 16))
row("listen on udp", raw("listen", datagram().fileno(), 1))
row("unix connect to no socket", raw("connect", made(socket.AF_UNIX).fileno(), unix(b"regular"), 10))
row("unix connect to what cannot be written", raw("connect", made(socket.AF_UNIX).fileno(), unix(b"/etc/passwd"), 14))
row("unix connect to nothing", raw("connect", made(socket.AF_UNIX).fileno(), unix(b"missing"), 10))
"""


def test_the_kernels_own_refusals_come_before_a_verdict(box):
    box.file(box.tree / "regular", b"no socket")
    with socket.socket() as good, socket.socket() as bad, socket.socket(type=socket.SOCK_DGRAM) as udp:
        for one in (good, bad, udp):
            one.bind(("127.0.0.1", 0))
        good.listen(8)
        bad.listen(8)
        numbers = [one.getsockname()[1] for one in (good, bad, udp)]
        bare = python(box, EARLIER, None, *numbers)
        assert bare.code == 0 and len(bare.text.splitlines()) >= 25, bare.describe()
        wanted = rules(box, {"id": "good", "allow": "connect", "address": "127.0.0.1", "port": numbers[0]},
                       {"id": "any", "allow": "bind", "address": "127.0.0.1", "port": 0}, {"id": "udp", "allow": "connect", "address": "192.0.2.9", "protocol": "udp"})
        result = python(box, EARLIER, wanted, *numbers)
    assert result.out == bare.out, f"{bare.text}\n{result.describe()}"
    # and what gets as far meets the verdict: the control of all of it
    late = """
bad, one, two, three = int(sys.argv[1]), socket.socket(), socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
print(raw("connect", one.fileno(), inet("127.0.0.1", bad), 16), raw("bind", two.fileno(), inet("127.0.0.9", bad), 16),
      raw("sendto", three.fileno(), b"x", 1, 0, inet("127.0.0.1", bad), 16))
"""
    result = python(box, late, {**wanted, "rules": [*wanted["rules"], {"id": "no", "deny": ["connect", "bind"], "address": "127.0.0.0/8", "errno": "ENETDOWN"}]}, numbers[1])
    assert result.text == "-100 -100 -100\n", result.describe()


# sendmmsg of datagrams, each to its own address; what came of it, and the lengths that were written.
SEVERAL = """
def several(fd, addresses):
    keep, headers = [], b""
    for index, address in enumerate(addresses):
        name, data = ctypes.create_string_buffer(address, len(address)), ctypes.create_string_buffer(b"x" * (index + 1), index + 1)
        part = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), index + 1), 16)
        keep += [name, data, part]
        headers += struct.pack("QIIQQQQIIII", ctypes.addressof(name), len(address), 0, ctypes.addressof(part), 1, 0, 0, 0, 0, 77, 0)
    block = ctypes.create_string_buffer(headers, len(headers))
    result = raw("sendmmsg", fd, block, len(addresses), 0)
    return result, [struct.unpack_from("I", block.raw, 64 * index + 56)[0] for index in range(len(addresses))]
if sys.argv[1] == "udp":
    one = socket.socket(type=socket.SOCK_DGRAM)
    good, bad = inet("127.0.0.1", int(sys.argv[2])), inet("127.0.0.1", int(sys.argv[3]))
else:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    good, bad = unix(sys.argv[2].encode()), unix(sys.argv[3].encode())
    if sys.argv[2].startswith("@"):
        good, bad = [one.replace(b"@", b"\\0", 1)[:-1] for one in (good, bad)]
for addresses in ([good, good, good], [good, bad, good], [bad, good], [good, good, bad]):
    print(*several(one.fileno(), addresses))
"""


@pytest.mark.parametrize("kind", ["udp", "path", "abstract"])
def test_a_refused_element_ends_sendmmsg_where_it_stands(box, kind):
    def receivers():
        pair = [socket.socket(socket.AF_INET if kind == "udp" else socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        names = []
        for index, one in enumerate(pair):
            if kind == "udp":
                one.bind(("127.0.0.1", 0))
                names.append(str(one.getsockname()[1]))
            elif kind == "path":
                path = box.tree / f"{('good', 'bad')[index]}"
                path.unlink(missing_ok=True)
                one.bind(str(path))
                path.chmod(0o777)
                names.append(str(path))
            else:
                names.append(f"@cg-{box.root.name}-{('good', 'bad')[index]}")
                one.bind("\0" + names[-1][1:])
        return pair, names

    def seen(one):
        count = 0
        one.setblocking(False)
        while True:
            try:
                one.recv(100)
            except BlockingIOError:
                one.close()
                return count
            count += 1

    pair, names = receivers()
    bare = python(box, SEVERAL, None, kind, *names)
    assert bare.text == "3 [1, 2, 3]\n3 [1, 2, 3]\n2 [1, 2]\n3 [1, 2, 3]\n", bare.describe()
    assert [seen(one) for one in pair] == [8, 3], "the control reaches both"
    pair, names = receivers()
    allowed = {"udp": {"address": "127.0.0.1", "port": int(names[0]) if kind == "udp" else 0, "protocol": "udp"}}.get(
        kind, {"unix": names[0], "protocol": "datagram"})
    result = python(box, SEVERAL, rules(box, {"id": "good", "allow": "connect", **allowed}), kind, *names)
    assert result.text == "3 [1, 2, 3]\n1 [1, 77]\n-111 [77, 77]\n2 [1, 2, 77]\n".replace("[1, 77]", "[1, 77, 77]"), result.describe()
    assert [seen(one) for one in pair] == [6, 0], result.describe()
    assert len(result.decisions(verdict="deny")) == 3, "a refused element is on record, sent ones before it or not"


AGAIN = """
one = socket.socket(); one.bind(("127.0.0.1", 0)); port = one.getsockname()[1]; one.close()
taken = 0
def bound():
    global taken
    one = socket.socket()
    try: one.bind(("127.0.0.1", port))
    except OSError: taken += 1
    return one
for _ in range(int(sys.argv[1])):
    one = bound(); one.close()
    one = bound(); one.listen(); one.close()
    one = bound(); raw("connect", one.fileno(), inet("127.0.0.1", 1), 16); one.close()
print("taken", taken)
"""


def test_a_port_is_free_as_soon_as_its_socket_is_closed(box):
    """callgate's copies of sockets are gone before the answer: allowed binds, refused connects."""
    rounds = 5000 if harness.SOAK else 250
    assert python(box, AGAIN, None, rounds).text == "taken 0\n"
    wanted = rules(box, {"id": "here", "allow": "bind", "address": "127.0.0.1"}, {"id": "not", "deny": "bind", "address": "127.0.0.9"})
    result = python(box, AGAIN, wanted, rounds)
    assert result.text == "taken 0\n", result.describe()


# The kernel sends from the pages themselves, later: they must not be pages of callgate's, which hold something else by then.
ZERO = """
libc.sendto.argtypes = None
one = socket.socket(type=socket.SOCK_DGRAM)
to = ("127.0.0.1", int(sys.argv[1]))
plain = one.sendto(b"plain", socket.MSG_ZEROCOPY if hasattr(socket, "MSG_ZEROCOPY") else 0x4000000, to)
one.setsockopt(socket.SOL_SOCKET, 60, 1)
try: print(plain, one.sendto(b"x" * 60000, 0x4000000, to))
except OSError as error: print(plain, error.errno)
print(one.sendto(b"copied", to))
"""


def test_a_send_without_copying_is_not_made_from_callgates_memory(box):
    with socket.socket(type=socket.SOCK_DGRAM) as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
        assert python(box, ZERO, None, port).text == "5 60000\n6\n"
        result = python(box, ZERO, rules(box, {"id": "udp", "allow": "connect", "address": "127.0.0.1", "protocol": "udp"}), port)
        assert result.text == "5 105\n6\n", "ENOBUFS: programs send with a copy then\n" + result.describe()


OWN = """
import os, socket, sys
port, outside = int(sys.argv[1]), sys.argv[3]; os.chdir(sys.argv[2])
def datagram(family): return socket.socket(family, socket.SOCK_DGRAM)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    one = datagram(family); one.connect((host, port)); one.send(b"x")
    print(datagram(family).sendmsg([b"xy"], [], 0, (host, port)), one.getpeername()[1] == port)
    one = datagram(family); one.bind((host, 0)); print(one.sendto(b"x", (host, port)))
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    server, client = socket.socket(socket.AF_UNIX, kind), socket.socket(socket.AF_UNIX, kind)
    server.bind(f"{kind:d}")
    if kind != socket.SOCK_DGRAM: server.listen()
    client.connect(f"{kind:d}"); client.send(b"x")
    print((server if kind == socket.SOCK_DGRAM else server.accept()[0]).recv(9))
server = datagram(socket.AF_UNIX); server.bind("answers"); client = datagram(socket.AF_UNIX); client.bind("asks")
client.sendto(b"1", "answers"); server.sendto(b"2", server.recvfrom(9)[1]); print(client.recvfrom(9)[0])
print(datagram(socket.AF_UNIX).sendto(b"x", outside))
"""


def test_what_the_kernel_can_hold_is_left_to_it_and_works_as_bare(box):
    """UDP by port, and unix sockets in whole directories."""
    top, outside = box.directory(box.tree / "sockets"), box.directory(box.tree / "outside")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        server.bind(("127.0.0.1", 0))
        other.bind(str(outside / "s"))
        box.own(outside / "s")
        port = server.getsockname()[1]
        arguments = (port, top, outside / "s")
        bare = python(box, OWN, None, *arguments)
        for one in top.iterdir():
            one.unlink()
        names = [f"{top}/**", f"{outside}/**"]
        held = rules(box, {"id": "udp", "allow": "connect", "port": port, "protocol": "udp"},
                     {"id": "source", "allow": "bind", "port": 0, "protocol": "udp"},
                     {"id": "own", "allow": ["connect", "bind"], "unix": names, "protocol": ["stream", "datagram"]})
        result = box.run([PYTHON, "-c", RAW + OWN, *map(str, arguments)], held, options=["--record", "minimal"])
    assert bare.code == 0 and (result.code, result.out) == (0, bare.out), f"{bare.describe()}\n{result.describe()}"
    shown = box.run([str(box.callgate), "plan", "--json", "--record", "minimal", "-R", str(box.rules_file(held))], supervised=False)
    plan = json.loads(shown.text)
    called = {one["call"] for one in plan["notified_calls"]}
    udp, sockets = harness.LANDLOCK_ABI >= 10, harness.LANDLOCK_ABI >= 9
    assert (plan["udp_connect_ports"], plan["udp_bind_ports"]) == (([str(port)], ["0"]) if udp else ([], [])), shown.describe()
    assert plan["sockets_held"] == sockets and ("sendmsg" not in called) == udp and "bind" in called
    assert sum(one["operations"] == "connect" for one in plan["grants"]) == (2 if sockets else 0)


# Connects that hang, as nobody accepts, while other threads start programs: each blocks SIGCHLD for a moment.
HANGING = """
import os, socket, sys, threading
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
fillers = [socket.socket() for _ in range(4)]
for one in fillers:
    one.setblocking(False)
    one.connect_ex(server.getsockname())
wrong, open_sockets = set(), []
def connects():
    one = socket.socket()
    open_sockets.append(one)
    try:
        one.connect(server.getsockname())
    except OSError as error:
        wrong.add(error.errno)
def spawns():
    for _ in range(int(sys.argv[1])):
        for child in [os.posix_spawn("/bin/true", ["true"], {}) for _ in range(4)]:
            os.waitpid(child, 0)
connecting = [threading.Thread(target=connects) for _ in range(6)]
spawning = [threading.Thread(target=spawns) for _ in range(3)]
for one in connecting + spawning:
    one.start()
for one in spawning:
    one.join()
left = threading.Thread(target=lambda: [one.join() for one in connecting], daemon=True)
left.start()
server.settimeout(0.1)
while left.is_alive():
    try:
        open_sockets.append(server.accept()[0])
    except TimeoutError:
        pass
print(sorted(wrong))
"""


@pytest.mark.skipif(harness.PATIENCE > 1, reason="the kernel gives such connects up before an emulated processor is done")
def test_a_signal_that_another_thread_takes_ends_no_hanging_connect(box):
    """The kernel's number for a call that it will make again (ERESTARTSYS, 512) must not reach the program."""
    rounds = 1000 if harness.SOAK else 250
    line = [PYTHON, "-c", HANGING, str(rounds)]
    assert box.run(line, supervised=False).text == "[]\n"
    result = box.run(line, rules(box, {"id": "loopback", "allow": ["connect", "bind"], "address": "127.0.0.0/8"}))
    assert result.text == "[]\n", result.describe()
