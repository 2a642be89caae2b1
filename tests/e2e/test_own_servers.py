"""Servers of the run's own on loopback: what tests of every language do works under the default profile, and nothing more does."""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess

import pytest

import harness
from approvers import Asked
from jobs import Server, bash, ended
from test_network import RAW

RESTARTS = 1000 if harness.SOAK else 50
PYTHON = "/usr/bin/python3"
# Two ways in which nobody is asked.
WAYS = {"no_terminal": [], "never": ["--ask", "never"]}

HTTP = """
import http.server, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever).start()
print([urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{n}").read() for n in range(5)])
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/name").read())
server.shutdown(); server.server_close()
"""

ASYNCIO = """
import asyncio
async def answer(reader, writer):
    writer.write(await reader.readline()); await writer.drain(); writer.close()
async def ask(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"%d\\n" % number)
    got = int(await reader.readline()); writer.close()
    return got
async def main():
    # More come at once than the queue takes, and the one thread that serves them waits in connect.
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4)
    port = server.sockets[0].getsockname()[1]
    print(sum(await asyncio.gather(*[ask(port, number) for number in range(8)])))
asyncio.run(main())
"""

SOCKETSERVER = """
import socketserver, threading, socket
class Handler(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(self.rfile.readline().upper())
with socketserver.ForkingTCPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for word in (b"one\\n", b"two\\n"):
        with socket.create_connection(server.server_address) as caller:
            caller.sendall(word); print(caller.makefile().readline().strip())
    server.shutdown()
"""

NODE = """
const http = require('http'), net = require('net');
const server = http.createServer((request, response) => response.end(request.url)).listen(0, '127.0.0.1', () => {
    http.get({ port: server.address().port, host: '127.0.0.1', path: '/path', agent: false }, (response) => {
        response.on('data', (data) => console.log(response.statusCode, String(data)));
        response.on('end', () => { server.close(); over6(); });
    });
});
function over6() {
    const server = net.createServer((one) => one.end('six')).listen(0, '::1', () => {
        net.connect(server.address().port, '::1').on('data', (data) => console.log(String(data))).on('end', () => server.close());
    });
}
"""

GO = """package x
import ("io"; "net/http"; "net/http/httptest"; "testing")
func TestServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	defer server.Close()
	got, err := http.Get(server.URL + "/path")
	if err != nil { t.Fatal(err) }
	if text, _ := io.ReadAll(got.Body); string(text) != "/path" { t.Fatal(string(text)) }
}
"""

JAVA = """
import java.net.*;
class Served {
    public static void main(String[] none) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread serves = new Thread(() -> { try (Socket one = server.accept()) { one.getOutputStream().write(42); } catch (Exception e) { System.exit(3); } });
            serves.start();
            try (Socket caller = new Socket(InetAddress.getLoopbackAddress(), server.getLocalPort())) { System.out.println(caller.getInputStream().read()); }
            serves.join();
        }
    }
}
"""

PROGRAMS = {
    "http": ([PYTHON, "-c", HTTP], {}, None),
    "asyncio": ([PYTHON, "-c", ASYNCIO], {}, "28\n"),
    "socketserver": ([PYTHON, "-c", SOCKETSERVER], {}, "ONE\nTWO\n"),
    "node": (["node", "-e", NODE], {}, "200 /path\nsix\n"),
    "go": (["./served"], {}, "PASS\n"),
    "java": (["java", "Served.java"], {"Served.java": JAVA}, "42\n"),
}


def of_network(result: harness.Result) -> list[dict]:
    return [one for one in result.decisions(verdict="deny") if "destination" in one]


@pytest.fixture(scope="module")
def served_by_go(tmp_path_factory) -> bytes:
    """Go's own server of tests, compiled once."""
    go = shutil.which("go", path="/usr/local/go/bin:/usr/bin")
    if go is None:
        pytest.skip("go is missing")
    place = tmp_path_factory.mktemp("go")
    (place / "x_test.go").write_text(GO)
    (place / "go.mod").write_text("module x\ngo 1.18\n")
    environment = {**os.environ, "GOCACHE": str(place / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    subprocess.run([go, "test", "-c", "-vet=off", "-o", "served", "."], cwd=place, env=environment, check=True)
    return (place / "served").read_bytes()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_serve_and_connect_as_bare(box, program, way, request):
    line, files, wanted = PROGRAMS[program]
    if program == "go":
        box.file(box.tree / "served", request.getfixturevalue("served_by_go"), 0o755)
    elif shutil.which(line[0], path=box.environment()["PATH"]) is None:
        pytest.skip(f"{line[0]} is missing")
    for name, text in files.items():
        box.file(box.tree / name, text.encode())
    bare = box.run(line, supervised=False)
    assert bare.code == 0 and bare.out and wanted in (None, bare.text), bare.describe()
    result = box.run(line, options=WAYS[way])
    assert result.code == 0 and result.out == bare.out and not of_network(result), result.describe()
    assert "connect" not in result.errors and "bind" not in result.errors, result.errors


RESTARTED = """
import socket, sys
port = 0
for again in range(int(sys.argv[1])):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port)); server.listen()
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as caller:
        served, _ = server.accept()
        served.sendall(b"x"); assert caller.recv(1) == b"x"
        served.close()
    server.close()
    with socket.socket() as late: assert late.connect_ex(("127.0.0.1", port)) == 111, again
print("served", sys.argv[1])
"""


def test_a_server_is_closed_and_begun_anew_at_once(box):
    line = [PYTHON, "-c", RESTARTED, str(RESTARTS)]
    bare = box.run(line, supervised=False)
    assert bare.text == f"served {RESTARTS}\n", bare.describe()
    result = box.run(line, options=["--ask", "never"])
    assert result.out == bare.out and not of_network(result), result.describe()
    connects = [one for one in result.decisions(verdict="allow") if "destination" in one and one["event"]["action"] == "connect"]
    assert len(connects) == 2 * RESTARTS and {one["rule"]["name"] for one in connects} == {"agent.servers"}
    assert {one["callgate"]["server"] for one in connects} == {"run"}


# The parent looks for a free port, and a child serves there. The parent tries until it answers.
FREE_PORT = """
import os, socket, subprocess, sys, time
with socket.socket() as one:
    one.bind(("127.0.0.1", 0)); port = one.getsockname()[1]
child = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)], stdout=-3, stderr=-3)
while True:
    try: caller = socket.create_connection(("127.0.0.1", port)); break
    except ConnectionRefusedError: assert child.poll() is None
caller.sendall(b"HEAD / HTTP/1.0\\r\\n\\r\\n"); print(caller.recv(12)); child.terminate(); child.wait()
"""

# A server in a process, and its client in another that is neither its parent nor its child.
TWO_PROCESSES = """
import os, socket, struct, sys
near, far = os.pipe()
if os.fork() == 0:
    server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
    os.write(far, struct.pack("H", server.getsockname()[1]))
    server.accept()[0].sendall(b"served"); os._exit(0)
if os.fork() == 0:
    port, = struct.unpack("H", os.read(near, 2))
    print(socket.create_connection(("127.0.0.1", port)).recv(6), flush=True); os._exit(0)
os.wait(); os.wait()
"""

# `localhost` is both: a server listens on one family or on both.
BOTH_FAMILIES = """
import socket
for addresses in (["127.0.0.1"], ["::1"], ["127.0.0.1", "::1"]):
    port, servers = 0, []
    for address in addresses:
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        one.bind((address, port)); one.listen(); port = one.getsockname()[1]
        servers.append(one)
    answers = []
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as caller:
            answers.append(caller.connect_ex((address, port)))
    print(addresses, answers)
"""


# As rsync's pair of sockets: it connects, closes the server, and asks by a further connect how the first one went.
FURTHER = """
import errno, socket
def answer(caller, where): return errno.errorcode.get(caller.connect_ex(where), "connected")
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for blocks in (False, True):
        server = socket.socket(family); server.bind((host, 0)); server.listen(1)
        where = server.getsockname()
        caller = socket.socket(family); caller.setblocking(False)
        answers = [answer(caller, where)]
        served, _ = server.accept(); server.close(); caller.setblocking(blocks)
        answers += [answer(caller, where), answer(caller, where), answer(caller, (host, 1))]
        caller.sendall(b"x"); print(*answers, served.recv(1))
        served.close(); caller.close()
    # The server has gone when it is asked: refused, by the first connect or by the further one.
    caller = socket.socket(family); caller.setblocking(False)
    print({answer(caller, where), answer(caller, where)} <= {"EINPROGRESS", "ECONNREFUSED"})
"""


@pytest.mark.parametrize("script", ["FREE_PORT", "TWO_PROCESSES", "BOTH_FAMILIES", "FURTHER"])
def test_other_ways_of_serving_work_as_bare(box, script):
    line = [PYTHON, "-c", globals()[script]]
    bare = box.run(line, supervised=False)
    assert bare.code == 0 and bare.out, bare.describe()
    result = box.run(line, options=["--ask", "never"])
    assert result.out == bare.out and result.code == 0 and not of_network(result), result.describe()


# Calls that wait for connects answer as the kernel would.
ANSWERS = RAW + """
value = ctypes.byref(ctypes.c_int(1))
one, pair = socket.socket(), socket.socketpair()
print(raw("shutdown", one.fileno(), 2), raw("shutdown", 0, 2), raw("shutdown", 99, 0), raw("shutdown", one.fileno(), 7))
print(raw("shutdown", pair[0].fileno(), 2), pair[1].recv(1))
for fd in (one.fileno(), 99, os.open("/dev/null", 0)):
    print([raw("setsockopt", fd, 1, 15, *more) for more in ((value, 4), (value, 3), (None, 4), (value, 8))])
print(one.getsockopt(1, 15), raw("setsockopt", pair[0].fileno(), 1, 15, value, 4) in (0, -95))
"""


def test_shutdown_and_setsockopt_answer_as_bare(box):
    bare = box.run([PYTHON, "-c", ANSWERS], supervised=False, stdin=b"")
    assert bare.code == 0 and len(bare.text.splitlines()) == 6, bare.describe()
    result = box.run([PYTHON, "-c", ANSWERS], options=["--ask", "never"], stdin=b"")
    assert result.out == bare.out, f"{bare.text}\n{result.describe()}"


# The callers drop what this host answers, so each of their connects waits, and some connect is always under way.
UNENDING = """
import os, signal, socket
IP_MINTTL = 21
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
near, far = os.pipe()
def connect():
    one = socket.socket(); one.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 255); one.settimeout(3)
    try: one.connect(server.getsockname())
    except OSError: pass
callers = []
for number in range(8):
    callers.append(os.fork())
    if callers[-1] == 0:
        while True:
            connect(); os.write(far, b".")
for number in range(16): os.read(near, 1)
for number in range(3):
    with socket.socket() as one: one.bind(("127.0.0.1", 0)); one.listen()
print("begun")
for caller in callers: os.kill(caller, signal.SIGKILL)
"""


def test_connects_without_end_keep_no_server_from_beginning(box):
    line = [PYTHON, "-c", UNENDING]
    assert box.run(line, supervised=False).text == "begun\n"
    result = box.run(line, options=["--ask", "never", "--timeout", "60s"])
    assert result.text == "begun\n" and result.code == 0, result.describe()


def test_a_server_that_nobody_holds_any_more_refuses_without_a_denial(box):
    script = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); a = s.getsockname(); s.close(); print(socket.socket().connect_ex(a))"
    result = box.run([PYTHON, "-c", script], options=["--ask", "never"])
    assert result.text == "111\n" and result.err == b"" and not result.decisions(verdict="deny"), result.describe()
    failed = [one for one in result.audit if one.get("event", {}).get("action") == "act.failed"]
    assert [one["callgate"]["errno"] for one in failed] == ["ECONNREFUSED"], result.describe()


def test_a_denial_of_loopback_still_holds(box):
    shut = {"version": 1, "extends": ["agent"],
            "rules": [{"id": "shut", "deny": ["bind", "connect"], "address": ["127.0.0.0/8", "::1"]}]}
    script = "import socket; socket.socket().bind(('127.0.0.1', 0))"
    result = box.run([PYTHON, "-c", script], shut, options=["--ask", "never"])
    assert result.code == 1 and [one["rule"]["name"] for one in of_network(result)] == ["shut"], result.describe()


def test_a_server_that_a_rule_allows_at_a_fixed_port_is_reached(box):
    """It is the run's own as well, whoever allowed the bind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = ("import socket, sys; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind((sys.argv[1], int(sys.argv[2]))); s.listen();"
              "print(socket.create_connection(('127.0.0.1', int(sys.argv[2]))).getpeername()[0])")
    for address in ("127.0.0.1", "0.0.0.0"):
        line = [PYTHON, "-c", script, address, str(port)]
        held = box.run(line, options=["--ask", "never"])
        assert held.code == 1 and "PermissionError" in held.errors, held.describe()
        result = box.run(line, options=["--ask", "never", "--bind", str(port)])
        assert result.text == "127.0.0.1\n" and not of_network(result), result.describe()


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_clients_of_a_server_that_may_not_listen_are_offered_its_option(box, address):
    """The port has no server then, so `--connect` would let nobody through."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = ("import socket, sys; address, port = sys.argv[1], int(sys.argv[2]); s = socket.socket()\n"
              "try: s.bind((address, port)); s.listen()\nexcept PermissionError: pass\n"
              "print(socket.create_connection(('127.0.0.1', port)).getpeername()[0])")
    line, never = [PYTHON, "-c", script, address, port], ["--ask", "never"]
    held = box.run(line, None, options=never)
    option = "--bind " + (port if address == "0.0.0.0" else f"{address}:{port}")
    told = [one for one in held.errors.splitlines() if one.startswith("callgate:   ")]
    assert [one.rpartition("allow with: ")[2] for one in told] == [option] * 2, held.describe()
    assert {one["hint"] for one in held.report["denials"]} == {option}, held.describe()
    assert box.run(line, None, options=[*never, *option.split()]).text == "127.0.0.1\n"
    stranger = box.run([PYTHON, "-c", script.replace("s.bind((address, port)); s.listen()", "pass"), address, port], None, options=never)
    assert f"allow with: --connect 127.0.0.1:{port}\n" in stranger.errors, stranger.describe()


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_server_on_all_addresses_needs_an_option(box, address):
    script = ("import socket, sys; s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); s.bind((sys.argv[1], 0));"
              "s.listen(); print(socket.create_connection(('127.0.0.1', s.getsockname()[1])).getpeername()[0])")
    line = [PYTHON, "-c", script, address]
    held = box.run(line, options=["--ask", "never"])
    assert held.code == 1 and "allow with: --bind 0" in held.errors, held.describe()
    result = box.run(line, options=["--ask", "never", "--bind", "0"])
    assert result.text == "127.0.0.1\n" and not of_network(result), result.describe()


SERVES = """
import socket, sys, time, pathlib
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
own = socket.create_connection(server.getsockname()); server.accept()
pathlib.Path("port.new").write_text(str(server.getsockname()[1])); pathlib.Path("port.new").rename("port")
while not pathlib.Path("tried").exists(): time.sleep(0.01)
server.setblocking(False)
try: server.accept(); print("somebody came")
except BlockingIOError: print("nobody came")
"""
TRIES = """
import socket, pathlib, time
while not pathlib.Path("port").exists(): time.sleep(0.01)
print(socket.socket().connect_ex(("127.0.0.1", int(pathlib.Path("port").read_text()))))
pathlib.Path("tried").touch()
"""


def test_a_jobs_servers_are_its_own(box):
    box.file(box.tree / "serves.py", SERVES.encode())
    box.file(box.tree / "tries.py", TRIES.encode())
    with ended(Server(box)) as server:
        server.send(bash("serves", f"exec {PYTHON} serves.py"), bash("tries", f"exec {PYTHON} tries.py"))
        served, tried = server.answer("serves"), server.answer("tries")
    assert tried["output"] == "111\n" and served["output"] == "nobody came\n", (served, tried)


AGENT = """
import socket, subprocess, sys
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
port = server.getsockname()[1]
own = socket.socket().connect_ex(("127.0.0.1", port))
def tool(text): return subprocess.run(["/usr/bin/python3", "-c", text, str(port)], stdout=-1, text=True).stdout.strip()
reached = tool("import socket, sys; print(socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1]))))")
server.close()
sits = tool("import socket, sys; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', int(sys.argv[1]))); print('bound')")
print(own, reached, sits or "refused")
"""


def test_a_tool_does_not_reach_the_agents_server(box):
    program = box.file(box.home / "apps" / "agent", f"#!/usr/bin/python3\n{AGENT}".encode(), 0o755)
    more = [{"id": "apps", "allow": ["read", "execute"], "path": f"{box.home}/apps/**"},
            {"id": "party", "party": "agent", "allow": "read", "path": f"{box.home}/login"},
            {"id": "servers", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1"], "server": "run"}]
    tools = box.run([str(program)], harness.rule_set(*more, agent=f"{box.home}/none"))
    assert tools.text == "0 0 bound\n", tools.describe()
    result = box.run([str(program)], harness.rule_set(*more, agent=str(program)))
    assert result.text == "0 111 refused\n", result.describe()


def test_explain_says_where_the_rule_decides(box):
    def explained(*words: str) -> dict:
        return json.loads(box.run([str(box.callgate), "explain", "--json", *words], supervised=False).out)
    assert explained("bind", "127.0.0.1:0")["verdict"] == "allow"
    assert explained("bind", "[::1]:0")["verdict"] == "allow"
    assert explained("bind", "0.0.0.0:0")["verdict"] == "ask"
    text = box.run([str(box.callgate), "explain", "connect", "127.0.0.1:5000"], supervised=False).text
    assert text.startswith("ask connect") and "it decides where the run itself listens" in text, text


TO_NOTHING = """
import socket
for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
    made = socket.socket(family)
    try:
        made.bind((address, 0))
        print(made.getsockname()[1] != 0)
        made.listen()
        print("listens")
    except OSError as error:
        print(error.strerror)
"""


def test_a_bind_to_any_address_and_port_is_asked_only_where_somebody_can_answer(box):
    """Else it succeeds and is not made, and listening is denied."""
    rules = {**harness.rule_set({"id": "tree", "allow": "read", "path": "${workdir}"}), "default": "ask"}
    command = ["/usr/bin/python3", "-c", TO_NOTHING]
    refused = box.run(command, rules, options=["--ask", "never"])
    assert refused.text == "False\nPermission denied\n" * 2 and refused.errors.count("bind 0.0.0.0:0 and 1 more of this port ×2 ") == 1, refused.describe()
    run = Asked(box, command, rules)
    for address in ("0.0.0.0:0", "[::]:0"):
        question = run.ask()
        assert address in json.dumps(question), question
        run.decide(question, "allow")
    allowed = run.end()
    assert allowed.text == "True\nlistens\n" * 2, allowed.describe()
