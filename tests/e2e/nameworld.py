"""A network of the test's own: a name server that counts what arrives, web servers, and no way out.

`World` makes a network and a mount namespace (as root), with addresses for documentation on its only interface. /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf are the test's. The servers run inside, so a query that "leaves the
machine" is one that arrives at the name server. Commands enter by `World.prefix`.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import harness

SERVER4, SERVER6 = "198.51.100.53", "2001:db8:53::53"
WEB4, WEB6 = "203.0.113.80", "2001:db8:80::80"
OTHER4 = "203.0.113.81"
OWN4, OWN6 = "198.51.100.2", "2001:db8:1::2"  # of the world's interface
OTHER_SERVERS = ("127.0.0.53", "10.0.0.53")  # a stub of the machine's own, and one of a private network
PORT = 8080

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
IP_FREEBIND = 15
A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, HTTPS = 1, 2, 5, 6, 12, 15, 16, 28, 33, 65


def packed(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def record(name: str, kind: int, data: bytes, ttl: int = 60) -> bytes:
    return packed(name) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


class Zone:
    """The server's records by name and type, and its behaviour by name."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[tuple[str, int, bytes, int]]] = {}
        self.behaviour: dict[str, str] = {}
        self.turns: dict[str, list[list[str]]] = {}  # below a name: the addresses of each answer; the last stays

    def host(self, name: str, *addresses: str, ttl: int = 60) -> None:
        self.records.setdefault((name, A), [])
        self.records.setdefault((name, AAAA), [])
        for one in addresses:
            six = ":" in one
            data = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, one)
            self.records[name, AAAA if six else A].append((name, AAAA if six else A, data, ttl))

    def alias(self, name: str, target: str) -> None:
        for kind in (A, AAAA):
            self.records[name, kind] = [(name, CNAME, packed(target), 60)] + self.records.get((target, kind), [])

    def text(self, name: str, kind: int, data: bytes) -> None:
        self.records[name, kind] = [(name, kind, data, 60)]


class Server:
    """A name server by UDP and TCP. `seen` is every query that arrived: (name as it came, type, whole message)."""

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self.seen: list[tuple[str, int, bytes]] = []
        self.turns: dict[str, list[list[str]]] = {}  # those that are left, by name

    def answer(self, message: bytes, tcp: bool) -> bytes | None:
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]])
            at += 1 + message[at]
        kind = struct.unpack_from(">H", message, at + 1)[0]
        shown = b".".join(labels).decode("latin1")
        self.seen.append((shown, kind, message))
        name, question = shown.lower(), message[12:at + 5]
        how = self.zone.behaviour.get(name, "")
        if how == "dead":
            return None
        if how == "slow":
            time.sleep(2)
        if how == "lying":  # an answer to another question
            other = record("other.example.net", A, socket.inet_aton(WEB4))
            return message[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + packed("other.example.net") + question[-4:] + other
        if how == "garbage":
            return message[:2] + struct.pack(">HHHHH", 0x8180, 1, 9, 9, 9) + question + b"\xc0\xff" * 40
        if how == "loop":
            return message[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + question + b"\xc0" + bytes([len(question) + 12]) + bytes(10)
        if how == "failure":
            return message[:2] + struct.pack(">HHHHH", 0x8182, 1, 0, 0, 0) + question
        if how == "truncated" and not tcp:
            return message[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + question
        turns = self.zone.turns.get(name.partition(".")[2])
        if turns and not tcp:
            return message[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + question
        if turns and kind == A:
            turns = self.turns.setdefault(name, list(turns))
            self.zone.records.pop((name, A), None)
            self.zone.host(name, *(turns.pop(0) if len(turns) > 1 else turns[0]), ttl=0)
        found = self.zone.records.get((name, kind))
        known = any(one == name for one, _ in self.zone.records)
        if found is None:
            return message[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, 0, 0, 0) + question
        body = b"".join(record(owner, of, data, ttl) for owner, of, data, ttl in found)
        if len(body) > 480 and not tcp:
            return message[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + question
        return message[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0) + question + body

    def serve(self, family: int, host: str) -> None:
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((host, 53))
        tcp = socket.socket(family, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind((host, 53))
        tcp.listen(64)
        threading.Thread(target=self.datagrams, args=(udp,), daemon=True).start()
        threading.Thread(target=self.streams, args=(tcp,), daemon=True).start()

    def datagrams(self, udp: socket.socket) -> None:
        def one(message: bytes, peer: object) -> None:
            reply = self.answer(message, tcp=False)
            if reply is not None:
                udp.sendto(reply, peer)
        while True:
            message, peer = udp.recvfrom(65535)
            threading.Thread(target=one, args=(message, peer), daemon=True).start()

    def streams(self, tcp: socket.socket) -> None:
        def one(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                while len(length := connection.recv(2, socket.MSG_WAITALL)) == 2:
                    reply = self.answer(connection.recv(struct.unpack(">H", length)[0], socket.MSG_WAITALL), tcp=True)
                    if reply is not None:
                        connection.sendall(struct.pack(">H", len(reply)) + reply)
        while True:
            threading.Thread(target=one, args=(tcp.accept()[0],), daemon=True).start()


def web_server(family: int, host: str, port: int) -> None:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)  # IPv6 asks for the address of an interface, else
    listener.bind((host, port))
    listener.listen(64)

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65535)
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nreached\n")

    def serve() -> None:
        while True:
            threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def furnish(options: dict[str, object]) -> None:
    """Enters new namespaces. The limit on user namespaces counts in each of them, so a world without a room has its own."""
    namespaces = CLONE_NEWNET | CLONE_NEWNS | (0 if options["room"] else CLONE_NEWUSER)
    assert ctypes.CDLL(None, use_errno=True).unshare(namespaces) == 0, os.strerror(ctypes.get_errno())
    print("unshared", flush=True)
    assert sys.stdin.readline() == "mapped\n"
    run("mount", "--make-rprivate", "/")
    six = bool(options["six"])
    run("ip", "link", "set", "lo", "up")
    for one in (f"{OWN4}/24", f"{SERVER4}/32", f"{OTHER_SERVERS[1]}/32"):
        run("ip", "address", "add", one, "dev", "lo")
    # Servers elsewhere answer here, too: no interface has their addresses.
    run("ip", "route", "add", "local", "203.0.113.0/24", "dev", "lo")
    run("ip", "route", "add", "default", "dev", "lo")
    if six:
        for one in (f"{OWN6}/64", f"{SERVER6}/128"):
            run("ip", "-6", "address", "add", one, "dev", "lo", "nodad")
        run("ip", "-6", "route", "add", "local", f"{WEB6}/128", "dev", "lo")
        run("ip", "-6", "route", "add", "default", "dev", "lo")
    else:
        for one in ("all", "default", "lo"):
            Path(f"/proc/sys/net/ipv6/conf/{one}/disable_ipv6").write_text("1")
    place = Path(str(options["place"]))
    if not options["room"]:
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    for name in ("resolv.conf", "hosts", "nsswitch.conf"):
        (place / name).chmod(0o644)
        target = os.path.realpath(f"/etc/{name}")
        if not os.path.exists(target):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).touch()
        run("mount", "--bind", str(place / name), target)


def serve_world(options: dict[str, object]) -> None:
    furnish(options)
    zone = Zone()
    exec(compile(str(options["zone"]), "zone", "exec"), {"zone": zone, "WEB4": WEB4, "WEB6": WEB6, "OTHER4": OTHER4, "OWN4": OWN4, "OWN6": OWN6, "packed": packed,
                                                        "struct": struct, "A": A, "AAAA": AAAA, "MX": MX, "TXT": TXT, "SRV": SRV})
    server = Server(zone)
    for one in (SERVER4, *OTHER_SERVERS):
        server.serve(socket.AF_INET, one)
    for last in range(1, 201):  # all addresses of many.example.org, and with them WEB4 and OTHER4
        web_server(socket.AF_INET, f"203.0.113.{last}", PORT)
    for one in ("127.0.0.1", OWN4):
        web_server(socket.AF_INET, one, PORT)
    web_server(socket.AF_INET, WEB4, 443)
    if options["six"]:
        server.serve(socket.AF_INET6, SERVER6)
        for one in (WEB6, OWN6):
            web_server(socket.AF_INET6, one, PORT)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "seen":
            # Taken before they are told: whoever hears it may ask the next one at once.
            seen, server.seen = server.seen, []
            print(json.dumps([[name, kind, message.hex()] for name, kind, message in seen]), flush=True)


ZONE = """
zone.host("www.example.org", WEB4, WEB6)
zone.host("api.example.org", WEB4, WEB6)
zone.host("four.example.org", WEB4)
zone.host("other.example.org", OTHER4)
zone.host("a.files.example.net", WEB4, WEB6)
zone.host("b.c.files.example.net", WEB4)
zone.host("files.example.net", WEB4)
zone.host("*.files.example.net", OTHER4)
zone.host("evil.example.com", OTHER4)
zone.host("private.example.org", "10.1.2.3")
zone.host("loopback.example.org", "127.0.0.1")
zone.host("mapped.example.org", "::ffff:127.0.0.1")
zone.host("translated.example.org", "64:ff9b::7f00:1")
zone.host("metadata.example.org", "169.254.169.254")
zone.host("own.example.org", OWN4)
zone.host("own6.example.org", OWN6)
zone.host("ownmapped.example.org", "::ffff:" + OWN4)
zone.host("short.example.org", WEB4, ttl=0)
zone.host("many.example.org", *[f"203.0.113.{n}" for n in range(1, 201)])
zone.host("xn--bcher-kva.example.org", WEB4)
zone.alias("alias.example.org", "www.example.org")
zone.alias("trap.example.org", "evil.example.com")
zone.host("dead.example.org", WEB4); zone.behaviour["dead.example.org"] = "dead"
zone.host("slow.example.org", WEB4); zone.behaviour["slow.example.org"] = "slow"
zone.host("lying.example.org", WEB4); zone.behaviour["lying.example.org"] = "lying"
zone.host("garbage.example.org", WEB4); zone.behaviour["garbage.example.org"] = "garbage"
zone.host("loop.example.org", WEB4); zone.behaviour["loop.example.org"] = "loop"
zone.host("failure.example.org", WEB4); zone.behaviour["failure.example.org"] = "failure"
zone.host("truncated.example.org", WEB4); zone.behaviour["truncated.example.org"] = "truncated"
many = [[f"{net}.{n}" for n in range(1, 201)] for net in ("203.0.113", "192.0.2")]
zone.turns["back.example.org"] = [many[0], many[1], many[0]]
zone.turns["moved.example.org"] = [many[0], many[1]]
zone.text("www.example.org", MX, struct.pack(">H", 10) + packed("mail.example.org"))
zone.text("www.example.org", TXT, b"\\5words")
"""
HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n203.0.113.80 pinned.example.org\n"


class World:
    """A network. `six`: it has IPv6 too. `room`: user namespaces can be made there."""

    def __init__(self, six: bool = True, room: bool = True, zone: str = "", hosts: str = HOSTS, search: str = "",
                 servers: tuple[str, ...] = (SERVER4,)) -> None:
        harness.not_in_container("no network of its own can be made")
        self.six, self.room = six, room
        self.place = Path(tempfile.mkdtemp(prefix="callgate-world-"))
        self.place.chmod(0o755)
        (self.place / "resolv.conf").write_text("".join(f"nameserver {one}\n" for one in servers) + search)
        (self.place / "hosts").write_text(hosts)
        (self.place / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
        options = {"six": six, "room": room, "place": str(self.place), "zone": ZONE + zone}
        self.process = subprocess.Popen([sys.executable, __file__, json.dumps(options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "unshared\n"
        if not room:
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{self.process.pid}/{kind}").write_text("0 0 4294967295")
        self.tell("mapped")
        assert self.process.stdout.readline() == "ready\n"
        self.prefix = ["nsenter", "-t", str(self.process.pid), "-n", "-m", *([] if room else ["-U"]), "--"]

    def tell(self, word: str) -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def seen(self) -> list[tuple[str, int, bytes]]:
        """The queries that have arrived since the last look."""
        self.tell("seen")
        return [(name, kind, bytes.fromhex(message)) for name, kind, message in json.loads(self.process.stdout.readline())]

    def names(self) -> set[str]:
        return {name.lower() for name, _, _ in self.seen()}

    def close(self) -> None:
        self.process.stdin.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.place, ignore_errors=True)


if __name__ == "__main__":
    serve_world(json.loads(sys.argv[1]))
