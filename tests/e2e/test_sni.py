"""The server's name of TLS connections (--sni): a host that is allowed by name is reached under that name alone.

The network is the test's own (nameworld.py). Its web address speaks TLS on one port. On another it notes each byte that arrives, so
that a refused connection can be seen to have carried none.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness
import nameworld
from nameworld import OTHER4, WEB4, World
from test_names import client_line, enter, rules

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")

PYTHON = "/usr/bin/python3"
TLS, NOTING, GREETING, PLAIN, CLOSED, RETRYING = 4443, 4444, 4445, 4446, 4447, 4448
BYTES = 20_000_000
# The first address of this host refuses connections.
ZONE = f'zone.host("two.example.org", "{OTHER4}", WEB4)\nzone.host("old.example.org", WEB4)\n'

SERVERS = f"""
import hashlib, socket, ssl, sys, threading
place = sys.argv[1]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(place + "/cert.pem", place + "/key.pem")
def serve(port, one):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("{WEB4}", port))
    listener.listen(64)
    def accept():
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=guarded, args=(connection,), daemon=True).start()
    def guarded(connection):
        try:
            one(connection)
        except OSError:
            pass
        connection.close()
    threading.Thread(target=accept, daemon=True).start()
def tls(connection):
    with context.wrap_socket(connection, server_side=True) as session:
        asked = session.recv(4096)
        body = b"x" * {BYTES} if b"/many" in asked else b"reached"
        session.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body) + body)
def noting(connection):
    while data := connection.recv(4096):
        with open(place + "/noted", "ab") as file:
            file.write(data)
def retrying(connection):
    connection.recv(65536)
    # A hello with the random that asks for a second one (RFC 8446, 4.1.3).
    body = b"\\3\\3" + hashlib.sha256(b"HelloRetryRequest").digest() + b"\\0\\x13\\1\\0\\0\\6\\0\\x2b\\0\\2\\3\\4"
    connection.sendall(b"\\x16\\3\\3" + (len(body) + 4).to_bytes(2, "big") + b"\\2" + len(body).to_bytes(3, "big") + body)
    noting(connection)
def greeting(connection):
    connection.sendall(b"220 reached\\r\\n")
    connection.recv(100)
def plain(connection):
    connection.recv(4096)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 7\\r\\nConnection: close\\r\\n\\r\\nreached")
for port, one in (({TLS}, tls), ({NOTING}, noting), ({GREETING}, greeting), ({PLAIN}, plain), ({RETRYING}, retrying)):
    serve(port, one)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def world():
    made = World(zone=ZONE)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=four.example.org",
                    "-keyout", made.place / "key.pem", "-out", made.place / "cert.pem"], check=True, capture_output=True)
    servers = subprocess.Popen([*made.prefix, sys.executable, "-c", SERVERS, str(made.place)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert servers.stdout.readline() == "ready\n"
    yield made
    servers.communicate()
    made.close()


def noted(world) -> bytes:
    file = world.place / "noted"
    found = file.read_bytes() if file.exists() else b""
    file.unlink(missing_ok=True)
    return found


def allowed(*names: str, port: int = TLS) -> tuple[str, ...]:
    return "--sni", *(word for name in names for word in ("-c", f"{name}:{port}"))


def curl(name: str, port: int = TLS, *more: str) -> list[str]:
    return ["curl", "-sSk", "-m", "20", *more, f"https://{name}:{port}/"]


PYTHON_CLIENT = """
import socket, ssl, sys
host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
session = ssl._create_unverified_context().wrap_socket(socket.create_connection((host, port), 20), server_hostname=name)
session.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
print(b"".join(iter(lambda: session.recv(4096), b"")))
"""
NODE = ("process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0; require('https').get(process.argv[1], {autoSelectFamily: true}, r => "
        "r.on('data', d => console.log(String(d)))).on('error', e => { console.error(e); process.exit(1) })")
CLIENTS = {
    "curl": ("curl", lambda name: curl(name)),
    "wget": ("wget", lambda name: ["wget", "-q", "-O-", "-T", "20", "-t", "1", "--no-check-certificate", f"https://{name}:{TLS}/"]),
    "python": (PYTHON, lambda name: [PYTHON, "-c", PYTHON_CLIENT, name, str(TLS), name]),
    "node": ("node", lambda name: ["node", "-e", NODE, f"https://{name}:{TLS}/"]),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_allowed_name_goes_through_and_a_dead_first_address_is_passed_over(box, world, client):
    line = client_line(CLIENTS, client)
    enter(box, world)
    for name in ("four.example.org", "two.example.org"):
        done = box.run(line(name), rules(), options=allowed(name))
        assert b"reached" in done.out and done.code == 0, done.describe()
        assert not done.decisions(verdict="deny"), done.describe()


def test_another_name_at_the_same_address_gets_no_byte_through(box, world):
    enter(box, world)
    evil = curl("evil.example.com", NOTING, "--connect-to", f"evil.example.com:{NOTING}:four.example.org:{NOTING}", "-m", "2")
    noted(world)
    box.run(evil, supervised=False)
    assert b"evil.example.com" in noted(world)  # the control: the server of the address sees the name
    done = box.run(evil, rules(), options=allowed("four.example.org", port=NOTING)[1:])
    assert b"evil.example.com" in noted(world), done.describe()  # and without --sni
    done = box.run(evil, rules(), options=allowed("four.example.org", port=NOTING))
    assert noted(world) == b"" and done.code != 0, done.describe()
    assert "evil.example.com, which is no name that the rules allow at this address and port" in done.errors, done.describe()
    connects = [one for one in done.decisions() if one["event"]["action"] == "connect"]
    assert [one["callgate"]["verdict"] for one in connects] == ["allow", "deny"], done.describe()
    twin = curl("four.example.org", NOTING, "-m", "2")
    box.run(twin, rules(), options=allowed("four.example.org", port=NOTING))
    assert b"four.example.org" in noted(world)


def test_a_nested_run_by_name_where_the_run_around_allows_the_address(box, world):
    """The run around lets the address be. The nested run allows a name alone, and its name is checked."""
    enter(box, world)
    outer = rules({"id": "tmp", "allow": "write", "path": "${tmp}/**"})
    around = ["-c", f"{WEB4}:{NOTING}", *allowed("four.example.org", port=NOTING)]
    evil = curl("evil.example.com", NOTING, "--connect-to", f"evil.example.com:{NOTING}:four.example.org:{NOTING}", "-m", "2")
    noted(world)
    box.run(evil, outer, options=around)
    assert b"evil.example.com" in noted(world)
    nested = [str(box.callgate), "run", "-R", str(box.rules_file(outer)), *allowed("four.example.org", port=NOTING), "--"]
    done = box.run([*nested, *evil], outer, options=around)
    assert noted(world) == b"" and "evil.example.com, which is no name that the rules allow" in done.errors, done.describe()
    box.run([*nested, *curl("four.example.org", NOTING, "-m", "2")], outer, options=around)
    assert b"four.example.org" in noted(world)


HIDING = """
import socket, ssl, sys
written = ssl.MemoryBIO()
session = ssl._create_unverified_context().wrap_bio(ssl.MemoryBIO(), written, server_hostname="four.example.org")
try:
    session.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = written.read()
message = hello[9:]  # behind the heads of record and message
at = 34 + 1 + message[34]
at += 2 + int.from_bytes(message[at:at + 2], "big")
at += 1 + message[at]
number = lambda value, size: value.to_bytes(size, "big")
more = number(int(sys.argv[1], 16), 2) + number(9, 2) + b"encrypted"
message = message[:at] + number(len(message) - at - 2 + len(more), 2) + message[at + 2:] + more
message = b"\\1" + number(len(message), 3) + message
server = socket.create_connection(("four.example.org", int(sys.argv[2])), 20)
server.sendall(hello[:3] + number(len(message), 2) + message)
server.shutdown(socket.SHUT_WR)
server.recv(1)
"""


def test_a_hello_with_an_encrypted_one_inside_gets_no_byte_through(box, world):
    """The server at the address may follow the name within. The twin: an extension that nobody knows."""
    enter(box, world)
    hiding, plain = ([PYTHON, "-c", HIDING, one, str(NOTING)] for one in ("fe0d", "fafa"))
    noted(world)
    for line, options, through in ((hiding, None, True), (hiding, allowed("four.example.org", port=NOTING)[1:], True),
                                   (plain, allowed("four.example.org", port=NOTING), True), (hiding, allowed("four.example.org", port=NOTING), False)):
        done = box.run(line, supervised=False) if options is None else box.run(line, rules(), options=options)
        assert noted(world).endswith(b"encrypted") == through, done.describe()
    assert "may ask for another name than it shows" in done.errors, done.describe()


SECOND = """
import socket, ssl, sys
def hello(name):
    written = ssl.MemoryBIO()
    session = ssl._create_unverified_context().wrap_bio(ssl.MemoryBIO(), written, server_hostname=name)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return written.read()
server = socket.create_connection(("four.example.org", int(sys.argv[1])), 20)
server.sendall(hello("four.example.org"))
server.recv(4096)
server.sendall(hello(sys.argv[2]))
server.shutdown(socket.SHUT_WR)
server.recv(1)
"""


def test_a_second_hello_with_another_name_gets_no_byte_through_and_is_on_record(box, world):
    enter(box, world)
    noted(world)
    for name, checked, through in (("evil.org", False, True), ("evil.org", True, False), ("four.example.org", True, True)):
        options = allowed("four.example.org", port=RETRYING)
        done = box.run([PYTHON, "-c", SECOND, str(RETRYING), name], rules(), options=options if checked else options[1:])
        assert (name.encode() in noted(world)) == through, done.describe()
        assert bool(done.decisions(verdict="deny")) != through, done.describe()
        assert ("asked for evil.org, which is no name that the rules allow" in done.errors) != through, done.describe()


def test_names_bound_to_one_address_open_each_other_only_if_both_are_allowed(box, world):
    enter(box, world)
    line = [PYTHON, "-c", PYTHON_CLIENT, "four.example.org", str(TLS), "old.example.org"]
    done = box.run(line, rules(), options=allowed("four.example.org", "old.example.org"))
    assert b"reached" not in done.out, done.describe()  # old.example.org was never looked up
    both = ["sh", "-c", 'getent hosts old.example.org && exec "$@"', "sh", *line]
    done = box.run(both, rules(), options=allowed("four.example.org", "old.example.org"))
    assert b"reached" in done.out, done.describe()


def test_a_name_of_another_port_opens_nothing_here(box, world):
    """Both names have the address, and each is allowed on a port of its own."""
    enter(box, world)
    line = ["sh", "-c", 'getent hosts old.example.org && exec "$@"', "sh", PYTHON, "-c", PYTHON_CLIENT, "four.example.org", str(TLS)]
    options = (*allowed("four.example.org"), *allowed("old.example.org", port=NOTING)[1:])
    for name in ("four.example.org", "old.example.org"):
        assert b"reached" in box.run([*line, name], rules(), options=options[1:]).out  # the control
        done = box.run([*line, name], rules(), options=options)
        assert (b"reached" in done.out) == (name == "four.example.org"), done.describe()
    assert "old.example.org, which is no name that the rules allow at this address and port" in done.errors, done.describe()


def test_what_is_no_tls_needs_a_rule_that_says_so(box, world):
    enter(box, world)
    fetch = ["curl", "-sS", "-m", "20", f"http://four.example.org:{PLAIN}/"]
    greet = [PYTHON, "-c", f"import socket; print(socket.create_connection(('four.example.org', {GREETING}), 20).recv(100))"]
    for line, port, why in ((fetch, PLAIN, "does not begin with TLS"), (greet, GREETING, "the server spoke first")):
        done = box.run(line, rules(), options=allowed("four.example.org", port=port))
        assert b"reached" not in done.out and why in done.errors, done.describe()
        passing = rules({"id": "old", "allow": "connect", "host": "four.example.org", "port": port, "tls": "pass"})
        done = box.run(line, passing, options=["--sni"])
        assert b"reached" in done.out, done.describe()


ERRNO = """
import errno, select, socket, sys
address = socket.gethostbyname("four.example.org")
for blocks in (True, False):
    one = socket.socket()
    one.setblocking(blocks)
    error = one.connect_ex((address, int(sys.argv[1])))
    if error == errno.EINPROGRESS:
        select.select([], [one], [], 20)
        error = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    print(errno.errorcode.get(error, error))
"""


def test_a_connect_has_the_result_of_the_real_one(box, world):
    enter(box, world)
    for port, expected in ((CLOSED, "ECONNREFUSED"), (TLS, "0")):
        line = [PYTHON, "-c", ERRNO, str(port)]
        assert box.run(line, supervised=False).text.split() == [expected] * 2
        done = box.run(line, rules(), options=allowed("four.example.org", port=port))
        assert done.text.split() == [expected] * 2, done.describe()


def test_much_arrives_whole(box, world):
    enter(box, world)
    done = box.run([*curl("four.example.org")[:-1], f"https://four.example.org:{TLS}/many"], rules(),
                   options=allowed("four.example.org"))
    assert done.out == b"x" * BYTES, (len(done.out), done.errors)


# Finds the front by the peer that the connection shows, and goes to it straight.
STRANGER = f"""
import socket
through = socket.create_connection(("four.example.org", {TLS}), 20)
straight = socket.create_connection(through.getpeername(), 20)
straight.sendall(b"anything")
try:
    print("closed" if straight.recv(1) == b"" else "answered")
except ConnectionResetError:
    print("closed")
"""


def test_a_connection_that_was_not_judged_is_closed(box, world):
    enter(box, world)
    loopback = {"id": "loopback", "allow": "connect", "address": "127.0.0.1"}
    done = box.run([PYTHON, "-c", STRANGER], rules(loopback), options=allowed("four.example.org"))
    assert done.text.strip() == "closed", done.describe()


FOREVER = f"""
import socket, sys
print(socket.gethostbyname("four.example.org"), flush=True)
sys.stdin.readline()
try:
    socket.create_connection(("four.example.org", {TLS}), 20)
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


def front_of(supervisor: int) -> int:
    """The process of that supervisor's that was started as the front."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == supervisor and b"relay-front" in (status.parent / "cmdline").read_bytes():
                return int(status.parent.name)
        except OSError:
            continue
    return 0


def test_without_its_front_a_run_connects_nowhere_by_name(box, world):
    enter(box, world)
    line, _ = box.command([PYTHON, "-c", FOREVER], rules(), list(allowed("four.example.org")), False, None)
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline().decode().strip() == WEB4
    # nsenter and setpriv execute the next program in their own process, so this one is the supervisor.
    front = harness.until(lambda: front_of(process.pid), "a front")
    os.kill(front, 9)
    harness.until(lambda: not Path(f"/proc/{front}/fd/3").exists(), "the end of the front")
    out, _ = process.communicate(b"\n", timeout=harness.DEADLINE)
    assert out.decode().strip() == "ConnectionRefusedError"


def test_wrong_words_are_explained(box):
    bad = box.tree / "rules.json"
    bad.write_text('{"version": 1, "sni": 1, "rules": [{"allow": "connect", "host": "a.example.org", "tls": "end"},'
                   '{"allow": "connect", "address": "192.0.2.1", "tls": "pass"}]}')
    done = box.run([str(box.callgate), "check", str(bad)], supervised=False)
    assert done.code != 0
    for words in ("expected true or false", 'expected "pass"', 'has no meaning without "host"'):
        assert words in done.text + done.errors, done.describe()
