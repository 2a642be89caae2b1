"""Each client that looks names up, in four worlds: a literal name, one below a wildcard, and a denied one.

With a room every client works. Without one it depends on how a client asks. Most ask over TCP. Some read the hosts file that is
handed over, which has literal names alone. A few find nothing. The upstream server sees the allowed names and no other. A plain run
tries each client in one world, and leaves Chromium and hickory out.
"""
from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
from nameworld import OTHER4, PORT, WEB4, WEB6, World
from test_names import ALLOWED, PYTHON, ahead, enter, fetch, node_asks_by_tcp, rules

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")

WORLDS = ("room", "room, IPv4", "no room", "no room, IPv4")
WORLDS_OF_A_CLIENT = 4 if harness.SOAK else 1
LITERAL, WILDCARD, DENIED = "www.example.org", "a.files.example.net", "evil.example.com"

ALL, HOSTS, NONE = {LITERAL, WILDCARD}, {LITERAL}, set()


def python(code: str):
    return lambda name: [PYTHON, "-c", f"name, url = '{name}', '{fetch(name)}'\n" + code]


def shell(line: str):
    """A line of the shell; NAME, PORT and URL stand for what they say."""
    return lambda name: ["bash", "-c", line.replace("URL", fetch(name)).replace("NAME", name).replace("PORT", str(PORT))]


RESOLVED = "import socket\nprint({a[4][0] for a in socket.getaddrinfo(name, 80, 0, socket.SOCK_STREAM)})"
AIODNS = """
import asyncio, socket, aiodns
async def main(): print((await aiodns.DNSResolver(timeout=3, tries=1).gethostbyname(name, socket.AF_INET)).addresses)
asyncio.run(main())"""
AIOHTTP = """
import asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=aiohttp.RESOLVER())) as session:
        async with session.get(url) as response: print(await response.text())
asyncio.run(main())"""
PYCARES = """
import select, socket, pycares
channel = pycares.Channel(timeout=3, tries=1)
channel.gethostbyname(name, socket.AF_INET, lambda found, error: print(found and found.addresses, error))
while any(channel.getsock()):
    reads, writes = channel.getsock()
    r, w, _ = select.select(reads, writes, [], channel.timeout())
    for one in r: channel.process_fd(one, pycares.ARES_SOCKET_BAD)
    for one in w: channel.process_fd(pycares.ARES_SOCKET_BAD, one)
    if not r and not w: channel.process_fd(pycares.ARES_SOCKET_BAD, pycares.ARES_SOCKET_BAD)"""
TORNADO = """
import tornado.httpclient, asyncio
async def main(): print((await tornado.httpclient.AsyncHTTPClient().fetch(url)).body)
asyncio.run(main())"""
GRPC = """
import grpc
try: grpc.insecure_channel(f"{name}:8080").unary_unary("/a/b", None, None)(b"", timeout=15)
except grpc.RpcError as why: print(why.debug_error_string().replace("failed to connect to all addresses", "reached"))"""
GRPC_JS = """
const grpc = require('@grpc/grpc-js'), client = new grpc.Client(process.argv[1] + ':8080', grpc.credentials.createInsecure());
client.makeUnaryRequest('/a/b', b => b, b => b, Buffer.alloc(0), { deadline: Date.now() + 15000 }, why => { console.log(why.details.replace('Protocol error', 'reached')); process.exit(0); });
"""
LWP = "use LWP::UserAgent; print LWP::UserAgent->new(timeout => 15)->get('URL')->content"
TINY = "use HTTP::Tiny; print HTTP::Tiny->new(timeout => 15)->get('URL')->{content}"
NET_DNS = "use Net::DNS; $r = Net::DNS::Resolver->new(usevc => %d, udp_timeout => 2, retry => 1, retrans => 1); print $_->string for $r->query('NAME')->answer"
TCL = "package require http; puts [http::data [http::geturl URL -timeout 15000]]; exit"
CHROMIUM = ("XDG_CONFIG_HOME=${TMPDIR:-/tmp}/settings-$$ chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=${TMPDIR:-/tmp}/chromium-$$ --timeout=20000 "
            "--dump-dom URL 2>/dev/null")
LUA = "print(require('socket').connect('NAME', PORT) and 'reached')"
GO = """package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
	reply, err := http.Get(os.Args[1])
	if err != nil { fmt.Println(err); os.Exit(1) }
	text, _ := io.ReadAll(reply.Body)
	fmt.Print(string(text))
}
"""
RUST = """use std::net::ToSocketAddrs;
fn main() { println!("{:?}", (std::env::args().nth(1).unwrap().as_str(), 80).to_socket_addrs().map(|all| all.collect::<Vec<_>>())); }
"""
HICKORY_PARTS = """[package]
name = "hickory-look"
version = "0.1.0"
edition = "2021"
[dependencies]
hickory-resolver = { version = "0.25", default-features = false, features = ["system-config", "tokio"] }
tokio = { version = "1", features = ["rt", "net", "time"] }
"""
HICKORY = """fn main() {
    let name = std::env::args().nth(1).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let resolver = hickory_resolver::Resolver::builder_tokio().unwrap().build();
        match resolver.lookup_ip(name.as_str()).await {
            Ok(found) => for one in found.iter() { println!("{one}"); },
            Err(why) => println!("{why}"),
        }
    });
}
"""
C = """#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
int main(int count, char **words) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = 0;
    int error = getaddrinfo(words[count - 1], "80", &hints, &found);
    char text[INET6_ADDRSTRLEN];
    for (; found; found = found->ai_next)
        if (found->ai_family == AF_INET) puts(inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, text, sizeof text));
    return error != 0;
}
"""
JAVA = "import java.net.*; class Get { public static void main(String[] a) throws Exception { System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }"

DENO, BUN = (shutil.which(one) or one for one in ("deno", "bun"))

# A client: what must be there, its line, and which names it finds without a room.
CLIENTS = {
    "curl": ("curl", shell("curl -sS -m 15 URL"), ALL),
    "wget": ("wget", shell("wget -q -O- -T 15 -t 1 URL"), ALL),
    "git": ("git", shell("git -c http.lowSpeedLimit=1 -c http.lowSpeedTime=15 ls-remote URL"), ALL),
    "bash": ("bash", shell("exec 3<>/dev/tcp/NAME/PORT && echo -e 'GET / HTTP/1.0\\r\\n\\r' >&3 && cat <&3"), ALL),
    "openssl": ("openssl", shell("openssl s_client -connect NAME:PORT </dev/null | sed s/^CONNECTED/reached/"), ALL),
    "ssh": ("ssh", shell("ssh -F none -o ConnectTimeout=15 -o BatchMode=yes -p PORT NAME true 2>&1 | sed 's/^kex_exchange\\|^banner/reached/'"), ALL),
    "psql": ("psql", shell("psql 'host=NAME port=PORT user=nobody connect_timeout=15' -c '' 2>&1 | sed 's/received invalid/reached/'"), ALL),
    "redis-cli": ("redis-cli", shell("redis-cli -h NAME -p PORT ping 2>&1 | sed 's/Protocol error/reached/'"), ALL),
    "apt": ("/usr/lib/apt/apt-helper", shell("/usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file URL ${TMPDIR:-/tmp}/got-$$ >&2; cat ${TMPDIR:-/tmp}/got-$$"), ALL),
    "lynx": ("lynx", shell("lynx -dump -connect_timeout=15 URL"), ALL),
    "w3m": ("w3m", shell("w3m -dump URL"), ALL),
    "links": ("links", shell("links -dump URL"), ALL),
    "elinks": ("elinks", shell("elinks -no-home -dump URL"), ALL),
    "axel": ("axel", shell("axel -q -n 1 -o ${TMPDIR:-/tmp}/axel-$$ URL; cat ${TMPDIR:-/tmp}/axel-$$"), ALL),
    "lftp": ("lftp", shell("lftp -c 'set net:timeout 10; set net:max-retries 1; set dns:fatal-timeout 15; cat URL'"), ALL),
    "ncat": ("ncat", shell("echo -e 'GET / HTTP/1.0\\r\\n\\r' | ncat -w 15 NAME PORT"), ALL),
    "nc": ("nc.openbsd", shell("echo -e 'GET / HTTP/1.0\\r\\n\\r' | nc.openbsd -w 15 NAME PORT"), ALL),
    "socat": ("socat", shell("echo -e 'GET / HTTP/1.0\\r\\n\\r' | socat -t 15 - TCP:NAME:PORT"), ALL),
    "busybox wget": ("busybox", shell("busybox wget -q -O- -T 15 URL"), ALL),
    "gnutls-cli": ("gnutls-cli", shell("gnutls-cli -p PORT NAME </dev/null 2>&1 | sed 's/^Connecting to/reached/'"), ALL),
    "python urllib": (PYTHON, python("import urllib.request as u\nprint(u.urlopen(url, timeout=15).read())"), ALL),
    "python requests": ("module requests", python("import requests\nprint(requests.get(url, timeout=15).text)"), ALL),
    "python httpx": ("module httpx", python("import httpx\nprint(httpx.get(url, timeout=15).text)"), ALL),
    "python urllib3": ("module urllib3", python("import urllib3\nprint(urllib3.PoolManager(retries=0, timeout=15).request('GET', url).data)"), ALL),
    "python tornado": ("module tornado", python(TORNADO), ALL),
    "python aiohttp": ("module aiohttp", python(AIOHTTP.replace("RESOLVER", "ThreadedResolver")), ALL),
    "python aiohttp, aiodns": ("module aiodns", python(AIOHTTP.replace("RESOLVER", "AsyncResolver")), HOSTS),
    "python aiodns": ("module aiodns", python(AIODNS), HOSTS),
    "python pycares": ("module pycares", python(PYCARES), HOSTS),
    "python dnspython": ("module dns", python("import dns.resolver\nprint(list(dns.resolver.resolve(name, 'A', lifetime=3)))"), NONE),
    "python dnspython, TCP": ("module dns", python("import dns.resolver\nprint(list(dns.resolver.resolve(name, 'A', tcp=True)))"), ALL),
    "python gRPC": ("module grpc", python(GRPC), HOSTS),
    "python socket": (PYTHON, python(RESOLVED), ALL),
    "node fetch": ("node", lambda name: ["node", "-e", f"fetch('{fetch(name)}').then(r => r.text()).then(console.log, e => console.log(e.cause))"], ALL),
    "node resolve4": ("node", lambda name: ["node", "-e", f"require('dns').resolve4('{name}', console.log)"],
                      ALL if node_asks_by_tcp() else NONE),
    "node gRPC": ("node @grpc/grpc-js", lambda name: ["env", f"NODE_PATH={os.environ.get('NODE_PATH', '')}", "node", "-e", GRPC_JS, name], ALL),
    "deno fetch": ("deno", lambda name: [DENO, "eval", f"console.log(await (await fetch('{fetch(name)}')).text())"], ALL),
    "deno resolveDns": ("deno", lambda name: [DENO, "eval", f"console.log(await Deno.resolveDns('{name}', 'A'))"], HOSTS),
    "bun fetch": ("bun", lambda name: [BUN, "-e", f"console.log(await (await fetch('{fetch(name)}')).text())"], ALL),
    "bun resolve4": ("bun", lambda name: [BUN, "-e", f"require('dns').resolve4('{name}', (e, a) => console.log(e || a))"], ALL),
    **({"chromium": ("chromium", shell(CHROMIUM), ALL),
        "rust hickory": ("cargo", lambda name: ["./hickory-look", name], HOSTS)} if harness.SOAK else {}),
    "perl LWP": ("perl", shell(f"perl -e \"{LWP}\""), ALL),
    "perl HTTP::Tiny": ("perl", shell(f"perl -e \"{TINY}\"".replace("$", "\\$")), ALL),
    "perl Net::DNS": ("/usr/share/perl5/Net/DNS.pm", shell(f"perl -e '{NET_DNS % 0}'".replace("'NAME'", "q(NAME)")), NONE),
    "perl Net::DNS, TCP": ("/usr/share/perl5/Net/DNS.pm", shell(f"perl -e '{NET_DNS % 1}'".replace("'NAME'", "q(NAME)")), ALL),
    "ruby Net::HTTP": ("ruby", shell("ruby -rnet/http -e 'puts Net::HTTP.get(URI(%q(URL)))'"), ALL),
    "ruby Resolv": ("ruby", shell("ruby -rresolv -e 'puts Resolv.getaddresses(%q(NAME))'"), HOSTS),
    "ruby Resolv::DNS": ("ruby", shell("ruby -rresolv -e 'Resolv::DNS.open { |d| d.timeouts = 2; puts d.getaddresses(%q(NAME)) }'"), NONE),
    "php": ("php", shell("php -r 'echo file_get_contents(\"URL\");'"), ALL),
    "php dns_get_record": ("php", shell("php -r 'print_r(dns_get_record(\"NAME\", DNS_A));'"), ALL),
    "lua": ("/usr/share/lua/5.4/socket.lua", shell(f"lua5.4 -e \"{LUA}\""), ALL),
    "tcl": ("tclsh", shell(f"echo '{TCL}' | tclsh"), ALL),
    "java": ("java", lambda name: ["java", "-XX:TieredStopAtLevel=1", "Get.java", fetch(name)], ALL),
    "go": ("go", lambda name: ["./go-get", fetch(name)], ALL),
    "rust": ("rustc", lambda name: ["./rust-look", name], ALL),
    "glibc, static": ("cc", lambda name: ["./glibc-look", name], ALL),
    "musl, static": ("musl-gcc", lambda name: ["./musl-look", name], HOSTS),
    "getent": ("getent", shell("getent ahosts NAME"), ALL),
    "dig": ("dig", shell("dig +tries=1 +time=2 +short NAME"), NONE),
    "dig +tcp": ("dig", shell("dig +tcp +short NAME"), ALL),
    "host": ("host", shell("host -W 2 -R 1 -t A NAME"), NONE),
    "host -T": ("host", shell("host -T -t A NAME"), ALL),
    "nslookup": ("nslookup", shell("nslookup -timeout=2 -retry=1 NAME"), NONE),
    "kdig": ("kdig", shell("kdig +retry=0 +time=2 +short NAME"), NONE),
    "kdig +tcp": ("kdig", shell("kdig +tcp +short NAME"), ALL),
    "drill": ("drill", shell("drill -Q NAME A"), NONE),
    "drill -t": ("drill", shell("drill -t -Q NAME A"), ALL),
    "busybox nslookup": ("busybox", shell("busybox nslookup NAME"), NONE),
}
assert len(CLIENTS) >= 30
TMP = {"id": "tmp", "allow": ["read", "write"], "path": "${tmp}/**"}
SOCKETS = {"id": "sockets", "allow": ["bind", "connect"], "unix": "${tmp}/**"}  # Chromium's own


def missing(what: str) -> bool:
    if what.startswith("module "):
        return subprocess.run([PYTHON, "-c", f"import {what[7:]}"], capture_output=True, check=False).returncode != 0
    if what.startswith("node "):
        return subprocess.run(["node", "-e", f"require('{what[5:]}')"], capture_output=True, check=False).returncode != 0
    return shutil.which(what) is None and not Path(what).exists()


@functools.cache
def hickory() -> Path | None:
    """The program, whose parts come from the registry; none where cargo cannot build it."""
    place = Path(tempfile.mkdtemp(prefix="callgate-hickory-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    (place / "src").mkdir()
    (place / "Cargo.toml").write_text(HICKORY_PARTS)
    (place / "src/main.rs").write_text(HICKORY)
    built = subprocess.run(["cargo", "build", "-q"], cwd=place, capture_output=True, check=False)
    return place / "target/debug/hickory-look" if built.returncode == 0 else None


def make(box, client: str) -> None:
    """Compiles a client into the box's tree."""
    tree = box.tree
    if client == "java":
        box.file(tree / "Get.java", JAVA.encode())
    elif client == "go":
        box.file(tree / "main.go", GO.encode())
        subprocess.run(["go", "build", "-o", tree / "go-get", tree / "main.go"], check=True, cwd=tree, env={**os.environ, "CGO_ENABLED": "0"})
    elif client == "rust":
        box.file(tree / "look.rs", RUST.encode())
        subprocess.run(["rustc", "-o", tree / "rust-look", tree / "look.rs"], check=True, cwd=tree)
    elif client == "rust hickory":
        if (program := hickory()) is None:
            pytest.skip("rust hickory: cargo here does not build it")
        shutil.copy(program, tree)
    elif client.endswith("static"):
        box.file(tree / "look.c", C.encode())
        compiler, name = ("musl-gcc", "musl-look") if client.startswith("musl") else ("cc", "glibc-look")
        subprocess.run([compiler, "-static", "-w", "-o", tree / name, tree / "look.c"], check=True, capture_output=True)


@pytest.fixture(scope="module")
def worlds():
    """Each world is made when a client first needs it."""
    made: dict[str, World] = {}

    def get(kind: str) -> World:
        if kind not in made:
            made[kind] = World(room=not kind.startswith("no"), six="IPv4" not in kind)
        return made[kind]
    yield get
    for one in made.values():
        one.close()


@pytest.mark.parametrize("turn", range(WORLDS_OF_A_CLIENT))
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_finds_what_is_allowed_and_nothing_else_leaves(box, worlds, client, turn):
    what, line, without_room = CLIENTS[client]
    if missing(what):
        pytest.skip(f"no {what} here")
    kind = WORLDS[(list(CLIENTS).index(client) + turn + (box.user.uid != 0)) % len(WORLDS)]
    world = worlds(kind)
    make(box, client)
    enter(box, world)
    names = (LITERAL, WILDCARD, DENIED)
    # The clients' own starts take the time, so one run is for all names. Its arguments are lines, each behind its number of words.
    words = [word for name in names for word in (str(len(line(name))), *line(name))]
    script = ('for name in ' + " ".join(names) + '; do echo "== $name"; n=$1; shift; timeout 40 "${@:1:n}" </dev/null 2>&1; shift $n; done; exit 0')
    bare = None

    def works() -> bool:
        """A client that fails by itself now and then, on a busy machine, is no verdict on callgate: it is asked again."""
        nonlocal bare
        bare = box.run(line(DENIED), supervised=False)
        return bare.code < 0 or found(bare.text + bare.errors) and DENIED in world.names()
    harness.until(works, lambda: f"the client by itself\n{bare.describe()}")
    if bare.code < 0:
        pytest.skip(f"{client} does not work here by itself: signal {-bare.code}")
    done = box.run(["bash", "-c", script, "bash", *words], rules(TMP, SOCKETS), options=ALLOWED, timeout=300)
    parts = dict(part.split("\n", 1) for part in done.text.split("== ")[1:])
    wanted = ALL if world.room else without_room  # at least: a newer release of a client may ask in a way that gets an answer
    reached = {name for name in names if found(parts[name])}
    assert wanted <= reached <= ALL, f"{kind}\n{done.describe()}"
    # apt asks for services, too.
    seen = {name.removeprefix("_http._tcp.") for name in world.names()}
    assert seen - ahead(world) == reached - ahead(world), f"{kind}\n{done.describe()}"


def found(text: str) -> bool:
    # git reaches the server, which is none of git's.
    text = text.replace("no servers could be reached", "")
    return any(word in text for word in ("reached", "not valid: is this a git repository", WEB4, OTHER4, WEB6))
