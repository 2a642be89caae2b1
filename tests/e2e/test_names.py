"""Hosts by name: what is allowed resolves for unmodified programs, and no other name leaves the machine.

The network is the test's own (nameworld.py). A query "has left" if it arrived at its name server. Four worlds: with a room (UDP
sockets from a namespace) or without, with IPv6 or without.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import executors
import harness
import jobs
import nameworld
from approvers import Asked
from nameworld import OTHER4, OWN4, OWN6, PORT, WEB4, WEB6, World

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")

PYTHON = "/usr/bin/python3"
ALLOWED = ("-c", f"www.example.org:{PORT}", "-c", f"*.files.example.net:{PORT}")
RANDOM_NAMES = 10_000 if harness.SOAK else 500
LOOK_UPS = 10_000 if harness.SOAK else 500
CONNECTIONS = 10_000 if harness.SOAK else 500
QUESTION_SECONDS = 8 if harness.SOAK else 1


@pytest.fixture(scope="module", params=["room", "room, IPv4", "no room", "no room, IPv4"])
def world(request):
    made = World(room=not request.param.startswith("no"), six="IPv4" not in request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def roomy():
    made = World()
    yield made
    made.close()


def enter(box, world) -> None:
    """From here on the box's processes start inside of the world."""
    def start(line, **keywords):
        keywords.setdefault("cwd", box.tree)
        keywords["env"] = keywords.get("env") or box.environment()
        box.noted = box.replays.note([str(word) for word in line], keywords["cwd"], keywords["env"])
        identity = ["setpriv", f"--reuid={box.user.uid}", f"--regid={box.user.gid}", "--clear-groups"] if box.user.uid else []
        process = subprocess.Popen([*world.prefix, "env", "-C", str(keywords.pop("cwd")), *identity, *line], **keywords)
        box.running.append(process)
        return process
    box.start = start
    world.seen()


def rules(*more, **options):
    return harness.rule_set({"id": "tools", "allow": ["read", "execute"], "path": "/**"}, *more, **options)


def ahead(world) -> set[str]:
    """Names that rules allow literally are looked up for the hosts file that programs are handed without a room."""
    return set() if world.room else {"www.example.org"}


def fetch(name: str) -> str:
    return f"http://{name}:{PORT}/"


SOCKET = "import socket,sys; print([a[4][0] for a in socket.getaddrinfo(sys.argv[1], 80, 0, socket.SOCK_STREAM)])"
URL = "import urllib.request as u,sys; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
NODE = ("fetch(process.argv[1]).then(r => r.text()).then(t => console.log(t), e => { console.error(e.cause); process.exit(1) })")
NODE_RESOLVE = "require('dns').resolve4(process.argv[1], (e, a) => { console.log(a || e); process.exit(e ? 1 : 0) })"

# A client by name: the program that must be there, and its line for a name.
CLIENTS = {
    "curl": ("curl", lambda name: ["curl", "-sS", "-m", "20", fetch(name)]),
    "wget": ("wget", lambda name: ["wget", "-q", "-O-", "-T", "20", "-t", "1", fetch(name)]),
    "python": (PYTHON, lambda name: [PYTHON, "-c", URL, fetch(name)]),
    "node": ("node", lambda name: ["node", "-e", NODE, fetch(name)]),
    "perl": ("perl", lambda name: ["perl", "-MIO::Socket::INET", "-e",
                                   f"$s = IO::Socket::INET->new(PeerAddr => '{name}', PeerPort => {PORT}) or die $@; "
                                   "print $s \"GET / HTTP/1.0\\r\\n\\r\\n\"; print <$s>"]),
    "git": ("git", lambda name: ["git", "-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=20", "ls-remote", fetch(name)]),
    "bash": ("bash", lambda name: ["bash", "-c", f"exec 3<>/dev/tcp/{name}/{PORT} && echo -e 'GET / HTTP/1.0\\r\\n\\r' >&3 && cat <&3"]),
}
RESOLVERS = {
    "getent": ("getent", lambda name: ["getent", "ahosts", name]),
    "node resolve4": ("node", lambda name: ["node", "-e", NODE_RESOLVE, name]),
    "python socket": (PYTHON, lambda name: [PYTHON, "-c", SOCKET, name]),
}


def node_asks_by_tcp() -> bool:
    """c-ares reads `use-vc` in RES_OPTIONS from 1.28 on. Clients that do not find no names where the run has no room of its own."""
    shown = subprocess.run(["node", "-p", "process.versions.ares"], capture_output=True, text=True, check=False).stdout if shutil.which("node") else ""
    return tuple(int(number) for number in shown.split(".")[:2] if number.isdigit()) >= (1, 28)


def client_line(clients: dict, client: str):
    """Makes a client's command from a name; skips the test where the client is missing."""
    program, line = clients[client]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    return line


def reached(result) -> bool:
    # git reaches the server, which is none of git's.
    return b"reached" in result.out or b"not valid: is this a git repository" in result.err


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_is_enough_and_no_other_name_leaves(box, world, client):
    line = client_line(CLIENTS, client)
    enter(box, world)
    bare = box.run(line("evil.example.com"), supervised=False)
    assert reached(bare) and "evil.example.com" in world.names(), bare.describe()
    for name in ("www.example.org", "a.files.example.net"):
        done = box.run(line(name), rules(), options=ALLOWED)
        assert reached(done), done.describe()
        assert world.names() - ahead(world) == {name} - ahead(world), done.describe()
    for name in ("evil.example.com", "files.example.net", "api.example.org"):
        done = box.run(line(name), rules(), options=ALLOWED)
        assert not reached(done) and world.names() <= ahead(world), done.describe()
        assert f"name denied: {name} (" in done.errors and f"allow with --connect {name}" in done.errors, done.describe()
        looked_up = [one for one in done.decisions(verdict="deny") if one["event"]["action"] == "lookup"]
        assert {one["dns"]["question"]["name"] for one in looked_up} == {name}, done.describe()
        assert looked_up[0]["process"]["executable"].startswith("/"), looked_up


@pytest.mark.parametrize("client", RESOLVERS)
def test_resolvers_get_what_the_server_says(box, world, client):
    line = client_line(RESOLVERS, client)
    if client == "node resolve4" and not world.room and not node_asks_by_tcp():
        pytest.skip("node's c-ares is older than 1.28, and asks by UDP")
    enter(box, world)
    done = box.run(line("www.example.org"), rules(), options=ALLOWED)
    assert WEB4.encode() in done.out, done.describe()
    if client != "node resolve4":
        assert (WEB6.encode() in done.out) == world.six, done.describe()
    done = box.run(line("evil.example.com"), rules(), options=ALLOWED)
    assert OTHER4.encode() not in done.out and done.code != 0, done.describe()
    assert world.names() == {"www.example.org"}


def test_a_denied_name_does_not_leave(box, roomy):
    enter(box, roomy)
    done = box.run(["getent", "hosts", "evil.example.com"], rules(), options=ALLOWED)
    assert done.code != 0 and roomy.seen() == [], done.describe()


def test_a_rule_for_every_port_opens_no_name_server(box, roomy):
    """A query over TCP goes to the run's own name server, although connects to all ports are allowed."""
    enter(box, roomy)
    ask = ("import socket,struct; m = struct.pack('>HHHHHH', 1, 256, 1, 0, 0, 0) + b'\\4evil\\7example\\3com\\0' + struct.pack('>HH', 1, 1); "
           "s = socket.create_connection(('198.51.100.53', 53)); s.settimeout(20); s.sendall(struct.pack('>H', len(m)) + m); print(s.recv(100)[5] & 15)")
    ports = {"id": "ports", "allow": "connect", "port": "1-65535"}
    deny = {"id": "no", "deny": "connect", "host": "evil.example.com"}
    bare = box.run([PYTHON, "-c", ask], supervised=False)
    assert bare.text == "0\n" and roomy.names() == {"evil.example.com"}, bare.describe()
    done = box.run([PYTHON, "-c", ask], rules(ports, deny))
    assert done.text == "3\n" and roomy.seen() == [], done.describe()
    servers = {"id": "servers", "allow": "connect", "address": "198.51.100.53", "port": 53}
    direct = box.run([PYTHON, "-c", ask], rules(servers, deny))
    assert direct.text == "0\n" and roomy.names() == {"evil.example.com"}, direct.describe()


def test_the_order_of_addresses_is_the_native_one(box, roomy):
    enter(box, roomy)
    line = RESOLVERS["python socket"][1]("www.example.org")
    assert box.run(line, rules(), options=ALLOWED).out == box.run(line, supervised=False).out


def test_addresses_of_the_hosts_file_need_no_server(box, world):
    enter(box, world)
    done = box.run(CLIENTS["curl"][1]("pinned.example.org"), rules(), options=("-c", f"pinned.example.org:{PORT}"))
    assert reached(done) and world.seen() == [], done.describe()
    done = box.run(["curl", "-sS", "-m", "9", f"http://localhost:{PORT}/"], rules(), options=("-c", f"localhost:{PORT}"))
    assert reached(done) and world.seen() == [], done.describe()
    done = box.run(["curl", "-sS", "-m", "9", f"http://127.0.0.1:{PORT}/"], rules(), options=("-c", f"pinned.example.org:{PORT}"))
    assert not reached(done), done.describe()


# Every name, type and trick that a raw client can send, by UDP and TCP, to any server.
RAW = """
import os, random, socket, struct, sys
count, place = int(sys.argv[1]), random.Random(7)
def packed(labels): return b"".join(bytes([len(one)]) + one for one in labels) + b"\\0"
def query(labels, kind, extra=b"", classes=1):
    return struct.pack(">HHHHHH", place.randrange(65536), 0x100, 1, 0, 0, 1 if extra else 0) + packed(labels) + struct.pack(">HH", kind, classes) + extra
EDNS = b"\\0" + struct.pack(">HHIH", 41, 4096, 0, 24) + struct.pack(">HH", 65001, 20) + b"secret-secret-secret"
def messages():
    for n in range(count):
        labels = [bytes(place.choice(b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEF_-") for _ in range(place.randrange(1, 63))) for _ in range(place.randrange(1, 4))]
        zone = place.choice([b"example.com", b"example.org", b"com", b"evil.test"]).split(b".")
        yield query(labels + zone, place.choice([1, 2, 5, 6, 10, 12, 13, 15, 16, 28, 33, 35, 41, 43, 52, 64, 65, 99, 255, 256, place.randrange(65536)]), place.choice([b"", EDNS]), place.choice([1, 1, 1, 3, 255]))
    for allowed in (b"www.example.org", b"WwW.eXaMpLe.OrG"):
        for kind in (0, 10, 64, 65, 99, 255, 256, 65535):
            yield query(allowed.split(b"."), kind, EDNS)
sent = 0
for family, server in ((socket.AF_INET, "198.51.100.53"), (socket.AF_INET, "203.0.113.99"), (socket.AF_INET6, "2001:db8:53::53")):
    try:
        udp = socket.socket(family, socket.SOCK_DGRAM)
        for message in messages():
            udp.sendto(message, (server, 53)); sent += 1
    except OSError as why: print(why)
for server in ("198.51.100.53", "203.0.113.99"):
    tcp = socket.create_connection((server, 53))
    tcp.settimeout(20)
    for number, message in enumerate(messages()):
        tcp.sendall(struct.pack(">H", len(message)) + message); sent += 1
        length = struct.unpack(">H", tcp.recv(2, socket.MSG_WAITALL))[0]
        tcp.recv(length, socket.MSG_WAITALL)
print("sent", sent)
"""


def test_random_names_of_all_types_do_not_leave(box, world):
    enter(box, world)
    done = box.run([PYTHON, "-c", RAW, str(RANDOM_NAMES)], rules(), options=ALLOWED, timeout=300)
    assert b"sent" in done.out, done.describe()
    assert world.names() <= ahead(world), done.describe()


CONNECT = """
import socket, sys
def attempt(name):
    try: found = sorted({a[4][0] for a in socket.getaddrinfo(name, %d, 0, socket.SOCK_STREAM)})
    except OSError as why: return f"no address: {why}"
    for one in found:
        try:
            socket.create_connection((one, %d), 9).close()
            return f"connected to {one} of {len(found)}"
        except OSError as why: last = f"not connected to {one}: {why}"
    return last
for name in sys.argv[1:]: print(name, attempt(name))
""" % (PORT, PORT)


def connected(box, names, *options) -> dict[str, str]:
    done = box.run([PYTHON, "-c", CONNECT, *names], rules(), options=options, timeout=200)
    box.last = done
    return dict(line.split(" ", 1) for line in done.text.splitlines())


SPECIAL = ("private.example.org", "loopback.example.org", "mapped.example.org", "translated.example.org", "metadata.example.org")


def test_an_allowed_name_opens_no_address_of_this_machine_or_its_network(box, roomy):
    enter(box, roomy)
    found = connected(box, SPECIAL, "-c", "*.example.org")
    assert not any("connected to" in one and not one.startswith("not") for one in found.values()), found
    assert "for special use, which loopback.example.org was answered with" in box.last.errors, box.last.describe()
    assert connected(box, ["www.example.org"], "-c", "*.example.org")["www.example.org"].startswith("connected")
    # A rule that names host and address means it.
    meant = rules({"id": "own", "allow": "connect", "host": "loopback.example.org", "address": "127.0.0.0/8"})
    done = box.run([PYTHON, "-c", CONNECT, "loopback.example.org", "private.example.org"], meant)
    assert "loopback.example.org connected to 127.0.0.1" in done.text and "private.example.org no address" in done.text, done.describe()


def test_an_allowed_name_opens_no_service_that_this_machine_keeps_from_others(box, roomy):
    """Packets to an own address, public or not, pass no firewall that looks at the interface by which others come."""
    enter(box, roomy)
    for name, own in (("own.example.org", OWN4), ("own6.example.org", OWN6), ("ownmapped.example.org", f"::ffff:{OWN4}")):
        bare = box.run([PYTHON, "-c", CONNECT, name], supervised=False)
        assert f"{name} connected to {own}" in bare.text, bare.describe()
        found = connected(box, [name, "www.example.org"], "-c", "*.example.org")
        assert found[name].startswith("not connected") and found["www.example.org"].startswith("connected"), found
        assert f"an address of this machine, which {name} was answered with" in box.last.errors, box.last.describe()
        for meant in () if "mapped" in name else (own, "${own}"):
            done = box.run([PYTHON, "-c", CONNECT, name], rules({"id": "own", "allow": "connect", "host": name, "address": meant}))
            assert f"{name} connected to {own}" in done.text, done.describe()
    # The user's own registry may be on this machine.
    home = box.directory(box.root / "own-home")
    box.file(home / ".npmrc", f"registry=http://own.example.org:{PORT}/\n".encode())
    done = box.run([PYTHON, "-c", CONNECT, "own.example.org"], None, options=["-p", "node+net", "--ask", "never"], env={"HOME": str(home)})
    assert f"own.example.org connected to {OWN4}" in done.text, done.describe()


def test_a_bare_address_belongs_to_no_name(box, roomy):
    enter(box, roomy)
    done = box.run(["curl", "-sS", "-m", "9", f"http://{WEB4}:{PORT}/"], rules(), options=ALLOWED)
    assert not reached(done), done.describe()
    found = connected(box, ["other.example.org", OTHER4, WEB4], "-c", "other.example.org")
    assert found["other.example.org"].startswith("connected") and found[OTHER4].startswith("connected"), found
    assert found[WEB4].startswith("not connected"), found


def test_an_alias_to_a_denied_name_is_denied(box, roomy):
    enter(box, roomy)
    deny = {"id": "no", "deny": "connect", "host": "evil.example.com"}
    allow = {"id": "yes", "allow": "connect", "host": "*.example.org"}
    done = box.run([PYTHON, "-c", CONNECT, "trap.example.org", "alias.example.org"], rules(allow, deny))
    assert "trap.example.org no address" in done.text and "alias.example.org connected" in done.text, done.describe()
    assert "an alias of it leads to evil.example.com" in done.errors, done.describe()
    # The alias gives the asked name an address, and itself none.
    done = box.run([PYTHON, "-c", CONNECT, "alias.example.org", "www.example.org"], rules({"id": "a", "allow": "connect", "host": "alias.example.org"}))
    assert "alias.example.org connected" in done.text and "www.example.org no address" in done.text, done.describe()


def test_a_server_that_is_slow_dead_or_wrong_stalls_nobody_else(box, roomy):
    enter(box, roomy)
    bad = ["lying.example.org", "garbage.example.org", "loop.example.org", "failure.example.org"]
    good = ["www.example.org", "slow.example.org", "truncated.example.org", "short.example.org", "many.example.org"]
    found = connected(box, [*bad, *good], "-c", "*.example.org")
    assert all(found[one].startswith("no address") for one in bad), found
    assert all(found[one].startswith("connected") for one in good), found
    script = f"getent hosts dead.example.org & curl -sS -m 5 {fetch('www.example.org')}; echo done; kill $!"
    done = box.run(["bash", "-c", script], rules(), options=("-c", "*.example.org"))
    assert done.text.startswith("reached"), done.describe()


def test_answers_hold_for_the_run_and_are_asked_once(box, roomy):
    enter(box, roomy)
    line = "import socket; [socket.getaddrinfo('www.example.org', 80) for _ in range(20)]"
    done = box.run([PYTHON, "-c", line], rules(), options=ALLOWED)
    assert done.code == 0 and sorted(kind for _, kind, _ in roomy.seen()) == [nameworld.A, nameworld.AAAA], done.describe()


# Names get more addresses than are kept for one, until the first address that was tried is dropped.
DROPPED = """
import socket, sys, time
name = sys.argv[1]
def addresses(): return {a[4][0] for a in socket.getaddrinfo(name, %d, socket.AF_INET, socket.SOCK_STREAM)}
first = sorted(addresses())[0]
end = time.monotonic() + 60
while not any(one.startswith("192.0.2.") for one in addresses()):
    assert time.monotonic() < end
    time.sleep(0.1)
outcome, end = None, time.monotonic() + float(sys.argv[2])
while outcome != first and time.monotonic() < end:  # the last answer counts for a second
    try: outcome = socket.create_connection((first, %d), 9).getpeername()[0]
    except OSError as why: outcome = str(why)
    time.sleep(0.1)
print(first, outcome)
""" % (PORT, PORT)


def test_an_address_that_was_dropped_is_looked_up_again(box, roomy):
    """A name keeps 256 addresses. One beyond that counts again if the name still leads to it, and only then."""
    enter(box, roomy)
    for place, kept in (("back", True), ("moved", False)):
        name = f"as-{box.user.name}.{place}.example.org"
        done = box.run([PYTHON, "-c", DROPPED, name, "60" if kept else "3"], rules(), options=("-c", f"*.example.org:{PORT}"), timeout=100)
        first, _, outcome = done.text.strip().partition(" ")
        assert first.startswith("203.0.113.") and (outcome == first) == kept, done.describe()
        asked = [asked for asked, kind, _ in roomy.seen() if kind == nameworld.A]  # each by UDP, and then by TCP
        assert len(asked) >= 6 and set(asked) == {name}, done.describe()
        looked_up = [one for one in done.decisions(verdict="allow") if one["event"]["action"] == "lookup"]
        assert len(looked_up) >= 3 and looked_up[-1]["process"]["executable"].startswith("/"), looked_up
        assert kept or f"looked up again, {name} does not lead to {first} now" in done.errors, done.describe()


MALFORMED = """
import os, socket, struct, sys
def tcp(): return socket.create_connection(("198.51.100.53", 53), 9)
good = struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + b"\\3www\\7example\\3org\\0" + struct.pack(">HH", 1, 1)
bad = [b"", b"x", good[:11], good[:12], good[:-1], good[:5] + b"\\2" + good[6:], b"\\0" * 12, good[:12] + b"\\xc0\\x0c" + good[-4:],
       good[:12] + b"\\xc0\\x00" + good[-4:], good[:12] + b"\\x40" + bytes(64), good[:12] + b"\\x3f" * 300, os.urandom(65535), good[:2] + b"\\x81" + good[3:],
       good[:2] + b"\\x79" + good[3:], good[:12] + (b"\\x3f" + b"a" * 63) * 4 + b"\\0" + good[-4:]]
for message in bad:
    with tcp() as one:
        one.settimeout(9)
        one.sendall(struct.pack(">H", len(message)) + message)
        try: one.recv(65535)
        except OSError: pass
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if sys.argv[1] == "udp" else None
for message in bad:
    if udp: udp.sendto(message[:60000], ("198.51.100.53", 53))
with tcp() as one:
    for byte in struct.pack(">H", len(good)) + good: one.sendall(bytes([byte]))
    print("split", len(one.recv(512)))
with tcp() as one:
    one.sendall((struct.pack(">H", len(good)) + good) * 40)
    print("pipelined", len(one.recv(20, socket.MSG_WAITALL)))
many = [tcp() for _ in range(300)]
print("still", len(many))
"""


def test_malformed_messages_hurt_nobody(box, world):
    enter(box, world)
    done = box.run([PYTHON, "-c", MALFORMED, "udp" if world.room else "no"], rules(), options=ALLOWED)
    assert "split" in done.text and "pipelined 20" in done.text and "still 300" in done.text, done.describe()
    assert world.names() == {"www.example.org"}


def test_an_outside_process_gets_no_answer(box, roomy):
    """Another process of the machine connects to the port where the run's name server listens."""
    enter(box, roomy)
    run = box.start(box.command([PYTHON, "-c", "import socket,sys; socket.create_connection(('198.51.100.53', 53)); print('up', flush=True); sys.stdin.read()"],
                                rules(), ALLOWED)[0], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == b"up\n"
    shown = subprocess.run([*roomy.prefix, "ss", "-Htlnp"], capture_output=True, text=True, check=True).stdout
    port = next(line.split()[3].rpartition(":")[2] for line in shown.splitlines() if "callgate" in line and "127.0.0.1:" in line)
    ask = (f"import socket,struct; s = socket.create_connection(('127.0.0.1', {port})); s.settimeout(20); "
           "m = struct.pack('>HHHHHH', 1, 256, 1, 0, 0, 0) + b'\\3www\\7example\\3org\\0' + struct.pack('>HH', 1, 1); "
           "s.sendall(struct.pack('>H', len(m)) + m); print(s.recv(100))")
    asked = subprocess.run([*roomy.prefix, PYTHON, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    assert asked.stdout.strip() in ("b''", "") and roomy.seen() == [], asked
    run.stdin.close()
    run.wait()


def test_a_question_is_asked_once_at_the_look_up(box, world):
    enter(box, world)
    script = f"curl -sS -m 30 {fetch('www.example.org')}; curl -sS -m 30 {fetch('api.example.org')}; echo end"
    run = Asked(box, ["bash", "-c", script], rules(default="ask"), ())
    asked = run.ask()
    assert asked["object"]["kind"] == "name" and asked["object"]["name"] == "www.example.org", asked
    assert asked["process"]["program"].endswith("/curl") and asked["scopes"] == ["once", "object", "tree"] and asked["tree"] == "*.example.org"
    assert world.seen() == []
    run.decide(asked, "allow", "once")
    second = run.ask()
    assert second["object"] == {"kind": "name", "name": "api.example.org", "name_b64": None}, second
    assert world.names() == {"www.example.org"}
    run.decide(second, "deny", "once")
    done = run.end()
    assert done.out == b"reached\nend\n", done.describe()
    assert world.seen() == []


def test_an_answer_for_the_run_is_one_for_connects_too(box, roomy):
    enter(box, roomy)
    script = f"for n in 1 2 3; do curl -sS -m 30 {fetch('www.example.org')}; done"
    run = Asked(box, ["bash", "-c", script], rules(default="ask"), ())
    run.decide(run.ask(), "allow", "object")
    done = run.end()
    assert done.out == b"reached\n" * 3, done.describe()


def test_an_answer_for_the_names_below_a_zone(box, roomy):
    enter(box, roomy)
    script = "; ".join(f"curl -sS -m 30 {fetch(name)}" for name in ("www.example.org", "api.example.org", "four.example.org", "evil.example.com"))
    run = Asked(box, ["bash", "-c", script], rules(default="ask"), ())
    run.decide(run.ask(), "allow", "tree")
    other = run.ask()
    assert other["object"]["name"] == "evil.example.com" and other["tree"] == "*.example.com", other
    run.decide(other, "deny", "tree")
    done = run.end()
    assert done.out == b"reached\n" * 3, done.describe()
    assert roomy.names() == {"www.example.org", "api.example.org", "four.example.org"}


@pytest.mark.parametrize("client", ["getent", "python socket", "node fetch"])
def test_a_look_up_waits_for_its_question(box, world, client):
    """Programs wait about ten seconds for a name. The question may be open for most of them."""
    line = client_line({**CLIENTS, **RESOLVERS, "node fetch": CLIENTS["node"]}, client)
    enter(box, world)
    run = Asked(box, line("four.example.org"), rules(default="ask"), ())
    asked = run.ask()
    time.sleep(QUESTION_SECONDS)  # how long it is open is what is tested
    assert world.seen() == []
    run.decide(asked, "allow", "once")
    done = run.end()
    assert done.code == 0 and (WEB4.encode() in done.out or reached(done)), done.describe()
    assert world.names() == {"four.example.org"}


def a_world(request, **options):
    made = World(**options)
    request.addfinalizer(made.close)  # after the box, whose replay enters it
    return made


@pytest.fixture
def private_world(request):
    return lambda **options: a_world(request, **options)


@pytest.mark.parametrize("server", nameworld.OTHER_SERVERS)
def test_the_systems_name_server_may_be_any(private_world, box, server):
    made = private_world(servers=(server,))
    enter(box, made)
    for name, good in (("www.example.org", True), ("evil.example.com", False)):
        done = box.run(CLIENTS["curl"][1](name), rules(), options=ALLOWED)
        assert reached(done) == good and server not in done.errors, done.describe()
    assert made.names() == {"www.example.org"}


def test_another_name_server_counts_at_once(private_world, box):
    """The machine gets another name server while a command runs, as laptops do."""
    made = private_world(servers=("203.0.113.200",))  # nobody listens there
    enter(box, made)
    script = ("import socket,sys\nfor line in sys.stdin:\n  try: print(socket.gethostbyname('four.example.org'), flush=True)\n"
              "  except OSError as why: print('none', flush=True)")
    run = box.start(box.command([PYTHON, "-c", script], rules(), ("-c", "*.example.org"))[0], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def look_up() -> bytes:
        run.stdin.write(b"\n")
        run.stdin.flush()
        return run.stdout.readline()
    assert look_up() == b"none\n" and made.seen() == []
    (made.place / "resolv.conf").write_text(f"nameserver {nameworld.SERVER4}\n")
    harness.until(lambda: look_up() == WEB4.encode() + b"\n", "the new name server was asked")
    run.stdin.close()
    assert run.wait() == 0 and made.names() == {"four.example.org"}


def test_names_are_completed_and_written_as_people_write_them(private_world, box):
    made = private_world(search="search example.org\n")
    enter(box, made)
    done = box.run(CLIENTS["curl"][1]("four"), rules(), options=("-c", f"four.example.org:{PORT}"))
    assert reached(done) and made.names() == {"four.example.org"}, done.describe()
    done = box.run(CLIENTS["curl"][1]("four"), rules(), options=("-c", f"www.example.org:{PORT}"))
    assert not reached(done) and made.seen() == [], done.describe()
    idn = "import socket; socket.create_connection(('b\\u00fccher.example.org', %d), 20); print('reached')" % PORT
    done = box.run([PYTHON, "-c", idn], rules(), options=("-c", f"xn--bcher-kva.example.org:{PORT}"))
    assert reached(done) and made.names() == {"xn--bcher-kva.example.org"}, done.describe()
    done = box.run([PYTHON, "-c", idn], rules(), options=("-c", f"b\u00fccher.example.org:{PORT}"))
    assert done.code == 125 and "write the host's xn-- form (letters that look alike would pass unseen)" in done.errors, done.describe()
    done = box.run([PYTHON, "-c", idn], rules(), options=("-c", f"www.example.org:{PORT}"))
    assert not reached(done) and made.seen() == [], done.describe()


# The hosts that each profile allows where no settings name any (docs/networks.md).
REGISTRIES = {
    "node+net": ("registry.npmjs.org", "registry.yarnpkg.com"),
    "python+net": ("pypi.org", "files.pythonhosted.org"),
    "rust+net": ("index.crates.io", "static.crates.io", "crates.io"),
    "go+net": ("proxy.golang.org", "sum.golang.org", "storage.googleapis.com"),
    "java+net": ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org"),
    "ruby+net": ("rubygems.org", "index.rubygems.org"),
    "php+net": ("repo.packagist.org", "packagist.org", "api.github.com", "codeload.github.com"),
    "apt+net": ("deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"),
    "git+net": ("github.com", "codeload.github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht"),
}
HOSTS_OF_ALL = {host for hosts in REGISTRIES.values() for host in hosts}


def test_a_profile_reaches_its_registries_without_any_settings(private_world, box):
    page = (Path(__file__).resolve().parents[2] / "docs" / "networks.md").read_text()
    made = private_world(zone="\n".join(f"zone.host('{host}', WEB4)" for host in HOSTS_OF_ALL))
    if os.path.isdir("/etc/apt"):  # this machine's own sources
        subprocess.run([*made.prefix, "mount", "-t", "tmpfs", "none", "/etc/apt"], check=True)
    enter(box, made)
    connect = CONNECT.replace(f", {PORT}", ", 443")
    for profile, hosts in REGISTRIES.items():
        assert f"| `{profile}` | {', '.join(hosts)} |" in page
        others = sorted(HOSTS_OF_ALL - set(hosts))
        done = box.run([PYTHON, "-c", connect, *hosts, *others, "evil.example.com"], None, options=["-p", profile, "--ask", "never"])
        lines = dict(line.split(" ", 1) for line in done.text.splitlines())
        assert {name for name, what in lines.items() if what.startswith("connected")} == set(hosts), done.describe()
        assert made.names() == set(hosts), done.describe()


# A forge: repositories by https, with the certificate of argv[1], below argv[2].
FORGE = """
import http.server, os, ssl, subprocess, sys
class Backend(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        more = {"GIT_PROJECT_ROOT": sys.argv[2], "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        head, _, rest = subprocess.run(["git", "http-backend"], input=body, env={**os.environ, **more}, capture_output=True).stdout.partition(b"\\r\\n\\r\\n")
        self.send_response(404 if b"Status: 404" in head else 200)
        for line in head.decode().splitlines(): self.send_header(*line.split(": ", 1))
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)
    do_POST = do_GET
server = http.server.ThreadingHTTPServer(("%s", 443), Backend)
secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
secured.load_cert_chain(sys.argv[1])
server.socket = secured.wrap_socket(server.socket, server_side=True)
print("up", flush=True)
server.serve_forever()
""" % OTHER4


@pytest.fixture
def forge(private_world, tmp_path):
    """A world where github.com is a forge of the test's own, with one repository. Its certificate is its authority."""
    for program in ("git", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    made = private_world(zone="zone.host('github.com', OTHER4)")
    pem, own = tmp_path / "forge.pem", {**os.environ, "HOME": str(tmp_path)}
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=forge", "-addext", "subjectAltName=DNS:github.com",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "certificate"], check=True, capture_output=True)
    pem.write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "certificate").read_bytes())
    subprocess.run(["sh", "-ec", "git init -q source; cd source; echo kept > file; git add file; git -c user.name=x -c user.email=x@example.org commit -qm one; "
                    "git clone -q --bare . ../tiny.git"], check=True, cwd=tmp_path, env=own)
    server = subprocess.Popen([*made.prefix, PYTHON, "-c", FORGE, pem, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=own)
    assert server.stdout.readline() == b"up\n"
    yield made, (tmp_path / "certificate").read_bytes()
    server.kill()
    server.wait()
    server.stdout.close()


def test_git_clones_over_https_on_its_first_try(forge, box):
    made, authority = forge
    enter(box, made)
    environment = {**box.environment(), "GIT_SSL_CAINFO": str(box.file(box.tree / "authority.pem", authority))}
    script = "git clone -q https://github.com/tiny.git there && cat there/file && git -C there fetch -q && rm -rf there"
    bare = box.run(["sh", "-c", script], supervised=False, env=environment)
    assert bare.text == "kept\n" and "github.com" in made.names(), bare.describe()
    done = box.run(["sh", "-c", script], None, options=["-p", "git+net", "--ask", "never"], env=environment)
    assert done.text == "kept\n" and done.code == 0 and made.names() == {"github.com"}, done.describe()
    assert "callgate: denied" not in done.errors and " refused (" not in done.errors, done.describe()


def test_the_machines_own_services_are_not_asked(box, roomy):
    """A service like nscd, where the C library asks first: whoever listens there sees nothing."""
    enter(box, roomy)
    script = ("import os,socket,sys; os.makedirs('/run/nscd', exist_ok=True); s = socket.socket(socket.AF_UNIX); "
              "s.bind('/run/nscd/socket'); os.chmod('/run/nscd/socket', 0o777); s.listen(); print('up', flush=True)\n"
              "while True: print(s.accept()[0].recv(100), flush=True)")
    service = subprocess.Popen([*roomy.prefix, "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", PYTHON, "-c", script],
                               stdout=subprocess.PIPE)
    try:
        assert service.stdout.readline() == b"up\n"
        os.set_blocking(service.stdout.fileno(), False)
        bare = box.run(["getent", "hosts", "evil.example.com"], supervised=False)
        assert bare.code == 0
        assert harness.until(lambda: b"evil.example.com" in (service.stdout.read() or b""), "the service was asked")
        done = box.run(["getent", "hosts", "evil.example.com"], rules({"id": "sockets", "allow": "connect", "unix": "/**"}), options=ALLOWED)
        # callgate itself asks for the account of its user
        assert done.code != 0 and b"example" not in (service.stdout.read() or b""), done.describe()
        assert any(one["rule"]["name"] == "callgate-names" for one in done.decisions(verdict="deny")), done.describe()
    finally:
        service.kill()
        service.wait()
        subprocess.run([*roomy.prefix, "umount", "-l", "/run"], check=True)


# A service at each place where look-ups can be asked for, and a program that asks all of them.
SERVICES = ("/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/systemd/resolve/io.systemd.Resolve.Monitor", "/run/avahi-daemon/socket",
            "/run/samba/winbindd/pipe", "/run/dbus/system_bus_socket", "/var/lib/sss/pipes/nss", "/var/lib/sss/pipes/private/pam")
SERVE = """
import os, select, socket, sys
sockets = []
for path in sys.argv[1:]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for place in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))): os.chmod(place, 0o755)
    one = socket.socket(socket.AF_UNIX)
    one.bind(path); os.chmod(path, 0o777); one.listen(); sockets.append(one)
print("up", flush=True)
while True:
    for one in select.select(sockets, [], [])[0]:
        print(one.getsockname(), one.accept()[0].recv(100), flush=True)
"""
ASK_SERVICES = """
import os, socket, sys
for path in sys.argv[1:]:
    for name in (path, path.replace("/run/", "/var/run/")):
        one = socket.socket(socket.AF_UNIX)
        try: one.connect(name); one.sendall(b"secret"); print("asked", name)
        except OSError as why: print(why.strerror, name)
        os.chdir(os.path.dirname(path)) if os.path.isdir(os.path.dirname(path)) else None
        try: one = socket.socket(socket.AF_UNIX); one.connect(os.path.basename(path)); one.sendall(b"secret"); print("asked", "by its leaf")
        except OSError as why: print(why.strerror, "by its leaf")
"""


def test_no_service_of_the_machine_is_reached(box, roomy):
    """nscd, resolved, Avahi, winbind, the system bus and SSSD: by each of their names, and by a relative one."""
    enter(box, roomy)
    mounts = "mount -t tmpfs -o mode=755 none /run && mkdir -p /var/lib/sss && mount -t tmpfs -o mode=755 none /var/lib/sss && "
    service = subprocess.Popen([*roomy.prefix, "sh", "-c", mounts + 'exec "$@"', "sh", PYTHON, "-c", SERVE, *SERVICES], stdout=subprocess.PIPE)
    try:
        assert service.stdout.readline() == b"up\n"
        os.set_blocking(service.stdout.fileno(), False)
        bare = box.run([PYTHON, "-c", ASK_SERVICES, *SERVICES], supervised=False)
        assert bare.text.count("asked") == 4 * len(SERVICES), bare.describe()
        told: list[bytes] = []

        def all_told() -> bool:
            told.append(service.stdout.read() or b"")
            return b"".join(told).count(b"secret") == 4 * len(SERVICES)
        harness.until(all_told, "every service was asked")
        sockets = {"id": "sockets", "allow": "connect", "unix": "/**"}
        done = box.run([PYTHON, "-c", ASK_SERVICES, *SERVICES], rules(sockets), options=ALLOWED)
        assert done.text.count("No such file or directory") == 4 * len(SERVICES) and "asked" not in done.text, done.describe()
        assert b"secret" not in (service.stdout.read() or b""), done.describe()
        # A rule about sockets means what it says where no name is ruled.
        plain = box.run([PYTHON, "-c", ASK_SERVICES, *SERVICES], rules(sockets))
        assert plain.text.count("asked") == 4 * len(SERVICES), plain.describe()
    finally:
        service.kill()
        service.wait()
        for place in ("/run", "/var/lib/sss"):
            subprocess.run([*roomy.prefix, "umount", "-l", place], check=True)


def test_names_of_the_local_network_stay_here(box, roomy):
    enter(box, roomy)
    names = ["intranet", "printer.local", "db.internal"]
    done = box.run([PYTHON, "-c", CONNECT, *names], rules({"id": "all", "allow": "connect", "port": PORT}, {"id": "host", "allow": "connect", "host": "x.test"}))
    assert done.text.count("no address") == 3 and roomy.seen() == [], done.describe()
    named = box.run([PYTHON, "-c", CONNECT, "db.internal"], rules(), options=("-c", "db.internal"))
    assert "no address" in named.text and roomy.names() == {"db.internal"}, named.describe()


def test_names_below_one_suffix_are_limited(box, roomy):
    enter(box, roomy)
    script = ("import socket\ndone = 0\nfor n in range(2100):\n  try: socket.gethostbyname(f'n{n}.files.example.net')\n"
              "  except OSError: done += 1\nprint(done)")
    done = box.run([PYTHON, "-c", script], rules(), options=ALLOWED, timeout=300)
    assert done.text == "2100\n" and len(roomy.names()) == 2000, done.describe()
    assert "more than 2000 names below one suffix" in done.errors, done.describe()
    warning = "200 names below *.files.example.net were looked up in this run: names can carry data out"
    assert f"callgate: {warning}\n" in done.errors, done.describe()
    assert [one["dns"]["question"]["name"] for one in done.audit if one["callgate"].get("reason") == warning] == ["n199.files.example.net"]


def test_a_run_without_names_makes_no_socket(box, roomy):
    enter(box, roomy)
    done = box.run([PYTHON, "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"], rules())
    assert "Protocol not supported" in done.errors, done.describe()
    done = box.run(["getent", "hosts", "www.example.org"], rules(), options=("-c", f"{WEB4}:{PORT}"))
    assert done.code != 0 and roomy.seen() == [], done.describe()


def test_what_a_dry_run_suggests_names_hosts_and_not_their_addresses(box, roomy):
    """From the look-ups on record. A name that was only looked up is no rule, and a bare address stays one."""
    enter(box, roomy)
    script = f"{PYTHON} -c '{URL}' {fetch('evil.example.com')}; getent hosts a.files.example.net; : 3<>/dev/tcp/{WEB4}/9"
    dry = box.run(["bash", "-c", script], options=["-p", "agent", "--mode", "audit"])
    said = harness.audit(box, "suggest", dry.report["audit"]["file"])
    body, _, comments = said.text.partition("\n//")
    found = [rule for rule in json.loads(body)["rules"] if rule["allow"] == "connect"]
    assert [(rule.get("host"), rule["port"]) for rule in found] == [(None, 9), ("evil.example.com", PORT)], said.text + dry.describe()
    assert found[0]["address"] == WEB4, said.text
    assert "connect a.files.example.net (seen" in comments and "no connect to it" in comments, said.text
    assert "evil.example.com" not in comments, said.text
    run = box.run(["bash", "-c", script], options=["-R", str(box.rules_file(said.text))])
    assert "evil.example.com" not in run.errors and "a.files.example.net" in run.errors, run.describe()


STAR = f"""
import socket, struct, sys
query = struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + b"".join(bytes([len(one)]) + one.encode() for one in sys.argv[1].split("."))
query += b"\\0" + struct.pack(">HH", 1, 1)
tcp = socket.create_connection(("198.51.100.53", 53), 20)
tcp.sendall(struct.pack(">H", len(query)) + query)
tcp.recv(512)
for address in sys.argv[2:]: socket.create_connection((address, {PORT}), 9).close()
"""


def test_a_query_with_a_star_offers_and_learns_no_pattern(box, roomy):
    """A name server answers "*.files.example.net" as it answers any name below. A rule for that name would be one for all of them."""
    enter(box, roomy)
    for name, hint in (("a.files.example.net", "--connect a.files.example.net"), ("*.files.example.net", "")):
        done = box.run([PYTHON, "-c", STAR, name], rules(), options=("-c", f"www.example.org:{PORT}"))
        assert [(one["object"], one["hint"]) for one in done.report["denials"]] == [(name, hint)], done.describe()
    dry = box.run([PYTHON, "-c", STAR, "*.files.example.net", OTHER4], options=["-p", "agent", "--mode", "audit"])
    assert dry.code == 0, dry.describe()
    said = harness.audit(box, "suggest", dry.report["audit"]["file"])
    found = [rule for rule in json.loads(said.text.partition("\n//")[0])["rules"] if rule["allow"] == "connect"]
    assert [(rule.get("host"), rule.get("address")) for rule in found] == [(None, OTHER4)], said.text + dry.describe()


def test_each_denied_name_is_on_record_however_many_there_are(box, roomy):
    """From the hundredth on equal denials are counted. Look-ups of other names are not equal."""
    enter(box, roomy)
    names = [f"n{number}.example.com" for number in range(150)]
    script = "import socket, sys\nfor name in sys.argv[1:]:\n  try: socket.gethostbyname(name)\n  except OSError: pass"
    done = box.run([PYTHON, "-c", script, *names, *["same.example.com"] * 300], rules(), options=ALLOWED)
    look_ups = [one for one in done.audit if one["event"]["action"] == "lookup"]
    counts: dict[str, int] = {}
    for one in look_ups:
        name = one["dns"]["question"]["name"]
        counts[name] = counts.get(name, 0) + one["callgate"]["count"]
    assert set(counts) == {*names, "same.example.com"}, sorted(set(counts) ^ {*names, "same.example.com"})
    assert counts["same.example.com"] >= 300 and len(look_ups) < 300, (counts["same.example.com"], len(look_ups))


def test_a_denied_bare_address_says_what_it_probably_was(box, roomy):
    enter(box, roomy)
    script = f"for port in 853 443 {PORT}; do : 3<>/dev/tcp/{WEB4}/$port; done; : 3<>/dev/tcp/127.0.0.1/9"
    done = box.run(["bash", "-c", script], rules(), options=ALLOWED)
    reasons = {one["destination"]["port"]: one["callgate"].get("reason", "") for one in done.decisions(verdict="deny")}
    nameless = f"{WEB4} belongs to no name that was looked up in this run"
    assert reasons[PORT] == nameless and reasons[853] == nameless + "; probably DNS over TLS, by which a program looks names up itself"
    assert reasons[443] == nameless + "; perhaps DNS over HTTPS, or an address from elsewhere" and not reasons[9], reasons
    assert f"default ({reasons[853]})" in done.errors, done.describe()
    # A rule that denies has its own words, and a run without names needs none.
    own = {"id": "own", "deny": "connect", "address": WEB4, "reason": "not there"}
    assert "(not there)" in box.run(["bash", "-c", script], rules(own), options=ALLOWED).errors
    assert "belongs to no name" not in box.run(["bash", "-c", script], rules()).errors


def explained(box, name: str, *options: str) -> dict:
    asked = box.run([str(box.callgate), "explain", "--json", *options, "connect", f"{name}:{PORT}", "by", PYTHON], supervised=False)
    return json.loads(asked.text)


def test_explain_says_what_happens_at_the_look_up_and_at_the_connect(box, roomy):
    enter(box, roomy)
    deny = box.rules_file(rules({"id": "no", "deny": "connect", "host": "evil.example.com"},
                                {"id": "late", "deny": "connect", "host": "*.example.org", "port": 9}))
    options = ("-R", str(deny), "-c", f"www.example.org:{PORT}")
    for name, verdict, look_up in (
            ("www.example.org", "allow", "allowed by "), ("evil.example.com", "deny", "denied by "),
            ("other.example.net", "deny", "denied by default: "),
            ("pinned.example.org", "deny", "answered from this machine's own names"), ("intranet", "deny", "denied by default: ")):
        said = explained(box, name, *options)
        assert said["verdict"] == verdict and said["look_up"].startswith(look_up), said
        done = box.run([PYTHON, "-c", CONNECT, name], json.loads(deny.read_text()), options=options[2:])
        assert (f"{name} connected" in done.text) == (verdict == "allow"), done.describe()
        assert (f"name denied: {name} " in done.errors) == look_up.startswith("denied"), done.describe()
    roomy.seen()
    assert explained(box, "www.example.org", "--default", "ask")["look_up"] == "asked by default; the answer counts for the connect too"
    assert explained(box, "printer.local", "--default", "ask")["look_up"].startswith("denied: a name of the local network")
    assert explained(box, "www.example.org", "--default", "deny", "-c", "127.0.0.1:9")["look_up"].startswith("closed: ")
    assert explained(box, WEB4, *options)["look_up"] is None
    assert roomy.seen() == []


def checked(box, *more, **options) -> list[str]:
    """The messages of `check` about a rule set."""
    file = str(box.rules_file(rules(*more, **options)))
    said = json.loads(box.run([str(box.callgate), "check", "--json", file], supervised=False).text)
    assert said[0]["good"], said
    return [one["message"] for one in said[0]["findings"] if any(word in one["message"] for word in ("host", "name", "resolved"))]


def test_check_warns_of_hosts_that_do_not_mean_what_they_seem(box, roomy):
    enter(box, roomy)
    sensible = {"id": "good", "allow": "connect",
                "host": ["www.example.org", "*.files.example.net", "*.co.example.org", "pinned.example.org", "localhost"]}
    assert checked(box, sensible) == [] and roomy.names() == {"www.example.org"}
    suffixes = ("com", "co.uk", "github.io", "any.ck", "cloudfront.net")
    wide = checked(box, *({"id": one, "allow": "connect", "host": f"*.{one}"} for one in suffixes))
    assert len(wide) == len(suffixes) and all(f"below {one} (a public suffix)" in text for one, text in zip(suffixes, wide)), wide
    below = ("example.com", "x.github.io", "www.ck", "a.b.cloudfront.net")
    assert checked(box, *({"id": one, "allow": "connect", "host": f"*.{one}"} for one in below)) == [] and roomy.seen() == []
    missing = checked(box, {"id": "gone", "ask": "connect", "host": ["gone.example.org", "four.example.org", "failure.example.org"]})
    assert missing == ['rule "gone": failure.example.org cannot be resolved now: no name server answered',
                       'rule "gone": gone.example.org cannot be resolved now: it has no address'], missing
    alone = checked(box, {"id": "gone", "allow": "connect", "host": "failure.example.org"})
    assert alone == ['rule "gone": no name server answers now, so no host could be looked up'], alone
    assert checked(box, {"id": "no", "deny": "connect", "host": "*.com"}) == []
    for action in ("deny", "allow"):
        opened = checked(box, {"id": "no", action: "connect", "host": "www.example.org"}, default="allow")
        assert len(opened) == 1 and "nothing is confined by name" in opened[0], opened


def test_doctor_says_whether_the_room_can_be_made(box, world):
    enter(box, world)
    said = json.loads(box.run([str(box.callgate), "doctor", "--json"], supervised=False).text)
    feature = next(one for one in said["features"] if one["name"] == "names-by-udp")
    assert feature["present"] == world.room and feature["since"] == ("" if world.room else "user.max_user_namespaces is 0"), feature
    text = box.run([str(box.callgate), "doctor"], supervised=False).text
    assert ("(user.max_user_namespaces is 0); without: names are looked up over TCP" in text) != world.room, text
    done = box.run([PYTHON, "-c", SOCKET, "www.example.org"], rules(), options=ALLOWED)
    assert ("names-tcp-only" in done.report["effective"]["degraded"]) != world.room, done.describe()


def test_a_program_that_asks_by_udp_itself_is_on_record_without_a_room(box, world):
    enter(box, world)
    script = ("import socket,sys\nfor n in 1, 2:\n  try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n  except OSError: pass\n"
              "sys.exit(int(sys.argv[1]))")
    for code in 0, 3:
        done = box.run([PYTHON, "-c", script, str(code)], rules(), options=ALLOWED)
        kinds = [(one["callgate"]["kind"], one["callgate"]["count"]) for one in done.audit if one["event"]["action"] == "call.refused"]
        assert kinds == ([] if world.room else [("UDP look-ups", 1), ("UDP look-ups", 2)]), done.describe()
        line = "callgate: UDP look-ups refused (python3" in done.errors and "makes its own DNS queries by UDP" in done.errors
        assert line == (code != 0 and not world.room), done.describe()


NAMED = {"command": ["curl", "-sS", "-m", "20", fetch("www.example.org")], "connect": [f"www.example.org:{PORT}"]}
OTHER = {**NAMED, "command": ["curl", "-sS", "-m", "20", fetch("evil.example.com")]}
SANDBOX = """
import sys
from callgate import Sandbox
for url in sys.argv[3:]:
    done = Sandbox(binary=sys.argv[1], connect=[sys.argv[2]]).run(["curl", "-sS", "-m", "20", url])
    print(done.exit_code == 0, done.text.strip(), [(one.operation, one.object, one.option) for one in done.denials])
"""


def denied_name(answer: dict) -> bool:
    return [(one["object"], one["hint"]) for one in answer["report"]["denials"]] == [("evil.example.com", "--connect evil.example.com")]


def test_a_job_reaches_what_it_names(box, world):
    enter(box, world)
    assert reached(box.run(OTHER["command"], supervised=False)) and world.names() == {"evil.example.com"}
    answer = jobs.execute(box, NAMED)
    assert answer["output"] == "reached\n" and answer["report"]["denials"] == [], answer
    assert world.names() == {"www.example.org"}
    answer = jobs.execute(box, OTHER)
    assert answer["exit_code"] != 0 and denied_name(answer), answer
    assert world.names() <= {"www.example.org"}  # without a room it stands in the hosts file that is handed over
    # A server's jobs: each has its own names.
    with jobs.ended(jobs.Server(box)) as server:
        for number, (job, good) in enumerate([(NAMED, True), (OTHER, False), ({**NAMED, "connect": []}, False), (NAMED, True)]):
            answer = server.do({**job, "id": number})
            assert (answer["output"] == "reached\n") == good, answer
    assert world.names() == {"www.example.org"}


def test_a_sandbox_reaches_what_it_names(box, world):
    enter(box, world)
    place = executors.staged(box.stage)
    more = {"PYTHONPATH": str(place / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    line = [PYTHON, "-c", SANDBOX, str(box.callgate), f"www.example.org:{PORT}", fetch("www.example.org"), fetch("evil.example.com")]
    done = box.run(line, supervised=False, env=more)
    assert done.text == "True reached []\nFalse  [('connect', 'evil.example.com', '--connect evil.example.com')]\n", done.describe()
    assert world.names() == {"www.example.org"}


# The holder of a socket owns the network behind it, as the same user. This prints what it can change there.
ADMINISTER = """
import fcntl, os, socket, struct
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def request(number, data): return fcntl.ioctl(one, number, data)
lo = b"lo".ljust(16, b"\\0")
for what, act in {
    "mtu": lambda: request(0x8922, lo + struct.pack("i20x", 1500)),
    "address": lambda: request(0x8916, lo + struct.pack("=HH4s16x", socket.AF_INET, 0, socket.inet_aton("127.0.0.9"))),
    "namespace": lambda: os.readlink(f"/proc/self/fd/{fcntl.ioctl(one, 0x894c)}"),
    "down": lambda: request(0x8914, lo + struct.pack("H22x", 0)),
}.items():
    try: print("done", what, act())
    except OSError as why: print("refused", what, why)
"""
READS = """
import array, fcntl, socket, struct
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
lo = b"lo".ljust(40, b"\\0")
space = array.array("B", bytes(4096))
size = struct.unpack("iP", fcntl.ioctl(one, 0x8912, struct.pack("iP", 4096, space.buffer_info()[0])))[0]
print("names", sorted({bytes(space[at:at + 16]).rstrip(b"\\0").decode() for at in range(0, size, 40)}))
print("address", socket.inet_ntoa(fcntl.ioctl(one, 0x8915, lo)[20:24]), "up", fcntl.ioctl(one, 0x8913, lo)[16] & 1)
one.bind(("127.0.0.1", 0))
one.sendto(b"12345", one.getsockname())
print("waiting", struct.unpack("i", fcntl.ioctl(one, 0x541b, bytes(4)))[0])
"""


def test_the_room_cannot_be_changed_by_who_holds_a_socket_of_it(box, roomy):
    enter(box, roomy)
    bare = box.run(["unshare", "-Urn", PYTHON, "-c", ADMINISTER], supervised=False)
    assert bare.text.count("done") == 4 and "net:[" in bare.text, bare.describe()
    held = box.run([PYTHON, "-c", ADMINISTER], rules(), options=ALLOWED)
    assert held.text.count("refused") == 4 and "done" not in held.text, held.describe()
    kinds = [one["callgate"]["kind"] for one in held.audit if one["event"]["action"] == "call.refused"]
    assert "network administration" in kinds, held.describe()
    read = box.run([PYTHON, "-c", READS], rules(), options=ALLOWED)
    assert read.text == "names ['lo']\naddress 127.0.0.1 up 1\nwaiting 5\n", read.describe()


# Datagrams to everywhere, by every call, with marks and to groups.
SEND = """
import socket, struct
def tried(act, *arguments):
    try: return act(*arguments)
    except OSError: return None
sent = 0
for family, everywhere in ((socket.AF_INET, ("198.51.100.2", "203.0.113.80", "255.255.255.255", "198.51.100.255", "224.0.0.251",
                                             "239.1.2.3", "127.0.0.1", "10.9.8.7")),
                           (socket.AF_INET6, ("2001:db8:80::80", "ff02::fb", "ff05::1", "fe80::1", "::1", "::ffff:203.0.113.80"))):
    for address in everywhere:
        for port in (9, 123, 443, 5353, 8080):
            one = socket.socket(family, socket.SOCK_DGRAM)
            tried(one.setsockopt, socket.SOL_SOCKET, 36, 77)  # SO_MARK
            tried(one.setsockopt, socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            tried(one.setsockopt, socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
            tried(one.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
            tried(one.setsockopt, socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("198.51.100.2"))
            tried(one.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + bytes(4))
            sent += tried(one.sendto, b"secret", (address, port)) is not None
            info = struct.pack("=I4s4s", 1, socket.inet_aton("198.51.100.2"), bytes(4))
            control = [(socket.IPPROTO_IP, 8, info)] if family == socket.AF_INET else []
            sent += tried(one.sendmsg, [b"secret"], control, 0, (address, port)) is not None
            if tried(one.connect, (address, port)) is None: sent += tried(one.send, b"secret") is not None
print("sent", sent)
"""


def datagrams_out(world) -> int:
    """The datagrams that the world's kernel has sent, over any interface."""
    words = [line.split() for line in open(f"/proc/{world.process.pid}/net/snmp", encoding="ascii") if line.startswith("Udp:")]
    six = dict(line.split() for line in open(f"/proc/{world.process.pid}/net/snmp6", encoding="ascii"))
    return int(dict(zip(*words))["OutDatagrams"]) + int(six["Udp6OutDatagrams"])


def test_no_datagram_leaves_the_room(box, roomy):
    enter(box, roomy)
    before = datagrams_out(roomy)
    bare = box.run([PYTHON, "-c", SEND], supervised=False)
    assert datagrams_out(roomy) - before > 50, bare.describe()
    before = datagrams_out(roomy)
    held = box.run([PYTHON, "-c", SEND], rules(), options=ALLOWED)
    assert held.code == 0 and int(held.text.split()[1]) > 50, held.describe()
    assert datagrams_out(roomy) == before, held.describe()


# At each line of input: as many look-ups by UDP as come, then as many connections to the name server, then neither.
FLOOD = """
import os, select, socket, struct, sys
look_ups, connections, each = int(sys.argv[1]), int(sys.argv[2]), 400
def query(number, labels): return struct.pack(">HHHHHH", number & 65535, 256, 1, 0, 0, 0) + b"".join(bytes([len(one)]) + one for one in labels) + b"\\0\\0\\1\\0\\1"
good = query(1, [b"www", b"example", b"org"])
def tcp():
    one = socket.create_connection(("198.51.100.53", 53), 20)
    one.settimeout(20)
    return one
def by_tcp():
    with tcp() as one:
        one.sendall(struct.pack(">H", len(good)) + good)
        return (one.recv(512) + bytes(6))[5] & 15
def by_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(20)
        one.sendto(good, ("198.51.100.53", 53))
        return one.recv(512)[3] & 15
def flood():
    denied, udp = 0, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(60)
    for begin in range(0, look_ups, 50):
        for n in range(begin, begin + 50): udp.sendto(query(n, [b"n%d" % n, b"evil", b"test"]), ("198.51.100.53", 53))
        for n in range(50): denied += udp.recv(512)[3] & 15 == 3
    return denied
def hold(count):  # a process that holds connections until its input ends, and says how many the server keeps
    asks, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(asks[1])
        held = []
        for _ in range(count):
            try: held.append(tcp())
            except OSError: pass
        os.write(told[1], b"%d\\n" % len(held))
        ended = select.poll()
        for one in held: ended.register(one, select.POLLIN | select.POLLRDHUP)
        while os.read(asks[0], 1) == b"c": os.write(told[1], b"%d\\n" % (len(held) - len(ended.poll(0))))
        os._exit(0)
    os.close(asks[0])
    return child, asks[1], os.fdopen(told[0])
print("up", by_udp(), flush=True)
for line in sys.stdin:
    if line == "look up\\n": print(flood(), by_udp(), by_tcp(), flush=True)
    if line == "connect\\n":
        holders = []
        while len(holders) * each < connections:
            holders.append(hold(min(each, connections - len(holders) * each)))
            made = int(holders[-1][2].readline())
        print(by_udp(), flush=True)
    if line == "count\\n":
        for _, ask, _ in holders: os.write(ask, b"c")
        print(sum(int(told.readline()) for _, _, told in holders), flush=True)
    if line == "close\\n":
        for child, ask, _ in holders: os.write(ask, b"x"), os.waitpid(child, 0)
        print(by_udp(), flush=True)
    if line == "look up by TCP\\n":
        try: print(by_tcp(), flush=True)
        except OSError as why: print(type(why).__name__, flush=True)
"""


def test_floods_of_look_ups_and_connections_fill_nothing(box, roomy):
    enter(box, roomy)
    line = box.command([PYTHON, "-c", FLOOD, str(LOOK_UPS), str(CONNECTIONS)], rules(), ALLOWED)[0]
    run = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(what: str) -> str:
        run.stdin.write(what.encode() + b"\n")
        run.stdin.flush()
        return run.stdout.readline().decode()

    def peak_kb() -> int:
        return int(next(line for line in Path(f"/proc/{run.pid}/status").read_text().splitlines() if line.startswith("VmHWM")).split()[1])

    assert run.stdout.readline() == b"up 0\n"
    before = peak_kb()
    assert say("look up") == f"{LOOK_UPS} 0 0\n"
    assert say("connect") == "0\n"
    # The kernel makes a connection before callgate takes it: what is beyond the limit is closed a moment later.
    harness.until(lambda: int(say("count")) <= 512, "connections beyond the limit are closed")
    assert int(say("count")) > 0
    assert len(os.listdir(f"/proc/{run.pid}/fd")) < 1000
    assert say("close") == "0\n"
    harness.until(lambda: say("look up by TCP") == "0\n", "a look-up over TCP is answered again")
    assert peak_kb() - before < 64 << 10
    run.stdin.close()
    assert run.wait() == 0
    assert roomy.names() == {"www.example.org"}


BOTH_WAYS = """
import os, socket, struct, sys
query = struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + b"\\3www\\7example\\3org\\0" + struct.pack(">HH", 1, 1)
def udp(seconds):
    try:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.settimeout(seconds)
        one.sendto(query, ("198.51.100.53", 53))
        return one.recv(512)[3] & 15
    except OSError as why: return type(why).__name__ if why.errno is None else why.strerror
def tcp():
    one = socket.create_connection(("198.51.100.53", 53), 20)
    one.sendall(struct.pack(">H", len(query)) + query)
    return one.recv(512, socket.MSG_PEEK)[5] & 15
for line in sys.stdin: print(udp(int(line)), tcp(), flush=True)
"""


@pytest.mark.parametrize("how", ["killed", "down"])
def test_look_ups_over_tcp_go_on_without_the_room(box, roomy, how):
    enter(box, roomy)
    run = box.start(box.command([PYTHON, "-c", BOTH_WAYS], rules(), ALLOWED)[0], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def asked(seconds: int = 60) -> bytes:
        run.stdin.write(b"%d\n" % seconds)
        run.stdin.flush()
        return run.stdout.readline()
    assert asked() == b"0 0\n"
    helper = next(one for one in harness.children(run.pid) if harness.name_of(one) == "callgate-room")
    if how == "killed":
        os.kill(helper, signal.SIGKILL)
        harness.until(lambda: harness.state(helper) in ("Z", "gone"), "the room's helper ended")
        assert asked() == b"Protocol not supported 0\n"
    else:
        subprocess.run(["nsenter", "-t", str(helper), "-n", "ip", "link", "set", "lo", "down"], check=True)
        assert asked(2) == b"TimeoutError 0\n"
    assert asked(2).endswith(b" 0\n")
    run.stdin.close()
    assert run.wait() == 0
