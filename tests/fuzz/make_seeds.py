#!/usr/bin/env python3
"""Writes inputs for the fuzzers to begin with: `make_seeds.py DIRECTORY [LOG]...`, one folder for each of `families`.

One well-formed call of each kind (x86_64 numbers), so that the fuzzer has structures to bend: what it then keeps is in corpus/.
Rule files are those of the tests and profiles, logs those that are named.
"""
from __future__ import annotations

import hashlib
import struct
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
MEMORY, SIZE = 0x10000000, 8 * 4096
GONE, AT_END = 1, 2
# fake_target.cpp, open_descriptors
TCP, TCP6, UDP, UDP6, STREAM, DATAGRAM, PACKET, NETLINK, PAIR, _, PAIR_DATAGRAM, _, READ_END, _, MEMFD, ROOT, FILE, PROCESS = range(100, 118)
HERE = -100 & (2**64 - 1)  # AT_FDCWD


def call(number: int, arguments: list[int], memory: bytes, flags: int = 0) -> bytes:
    padded = [*arguments, *[0] * (6 - len(arguments))]
    return struct.pack("<HBB6Q", number, 0, flags, *padded) + memory


def at(offset: int) -> int:
    return MEMORY + offset


def path_calls() -> dict[str, list[tuple[str, bytes]]]:
    path, second = at(0), at(1100)
    texts = {"file": b"file", "root": b"/", "link": b"link/../folder/.", "proc": b"/proc/self/fd/3", "self": b"proc/cwd/.env",
             "thread": b"/proc/thread-self/root/etc/passwd", "bytes": b"/tmp/\xff\xfe\x01/..//x", "long": b"a/" * 520, "empty": b"",
             "made": b"made/x", "deep": b"../" * 60 + b"etc", "dev": b"/dev/fd/3/../tty"}
    one = {"open": (2, lambda p: [p, 0o100, 0o644]), "creat": (85, lambda p: [p, 0o644]), "openat": (257, lambda p: [HERE, p, 0o1102, 0o600]),
           "mkdir": (83, lambda p: [p, 0o755]), "mkdirat": (258, lambda p: [HERE, p, 0o755]), "mknodat": (259, lambda p: [HERE, p, 0o10600, 0]),
           "symlink": (88, lambda p: [p, second]), "symlinkat": (266, lambda p: [p, HERE, second]), "unlink": (87, lambda p: [p]),
           "unlinkat": (263, lambda p: [HERE, p, 0x200]), "rmdir": (84, lambda p: [p]), "rename": (82, lambda p: [p, second]),
           "renameat2": (316, lambda p: [HERE, p, HERE, second, 2]), "link": (86, lambda p: [p, second]),
           "linkat": (265, lambda p: [HERE, p, HERE, second, 0x1400]), "truncate": (76, lambda p: [p, 7])}
    found: list[tuple[str, bytes]] = []
    for text_name, text in texts.items():
        memory = text.ljust(1100, b"\0") + b"made/new\0"
        for name, (number, make) in one.items():
            found.append((f"{name}-{text_name}", call(number, make(path), memory)))
        found.append((f"openat-{text_name}-at-end", call(257, [ROOT, at(SIZE - len(text) - 1), 0], text + b"\0", AT_END)))
        found.append((f"openat-{text_name}-unterminated", call(257, [HERE, at(SIZE - len(text)), 0], text, AT_END)))
    metadata = [("chmod", 90, [path, 0o600]), ("fchmodat", 268, [HERE, path, 0o600]), ("fchmodat2", 452, [HERE, path, 0o600, 0x1000]),
                ("chown", 92, [path, 1, 1]), ("fchownat", 260, [ROOT, path, 1, 1, 0x1100]), ("utime", 132, [path, second]),
                ("utimes", 235, [path, second]), ("futimesat", 261, [HERE, path, second]), ("utimensat", 280, [HERE, path, second, 0x100]),
                ("futimens", 280, [MEMFD, 0, second, 0]), ("fchmod", 91, [MEMFD, 0o600]), ("fchown", 93, [MEMFD, 1, 1])]
    times = struct.pack("<4q", 1, 2, 3, (1 << 30) - 1)
    changes = [(f"{name}-{text_name}", call(number, list(arguments), text.ljust(1100, b"\0") + times))
               for text_name, text in texts.items() for name, number, arguments in metadata]
    return {"paths": found, "metadata": changes}


def open_how() -> list[tuple[str, bytes]]:
    found = []
    for name, how in {"read": (0, 0, 0), "beneath": (0, 0, 8), "in_root": (0o2, 0, 0x10), "create": (0o101, 0o644, 4),
                      "tmpfile": (0o20200002, 0o600, 0), "path": (0o10000000, 0, 1), "cached": (0, 0, 0x20), "bad": (2**63, 2**40, 2**33)}.items():
        memory = b"file\0".ljust(64, b"\0") + struct.pack("<3Q", *how) + bytes(40)
        for size in (24, 32, 40, 4096, 23):
            found.append((f"{name}-{size}", call(437, [HERE, at(0), at(64), size], memory)))
    return found


def arguments() -> list[tuple[str, bytes]]:
    words = struct.pack("<4Q", at(0), at(512), at(600), 0)
    memory = b"/usr/bin/env\0".ljust(512, b"\0") + b"--flag\0".ljust(88, b"\0") + b"value\xff\0".ljust(424, b"\0") + words
    script = b"file\0".ljust(1024, b"\0") + words
    return [("execve", call(59, [at(0), at(1024), at(1048)], memory)), ("execveat", call(322, [HERE, at(0), at(1024), at(1024), 0x1000], memory)),
            ("execve-script", call(59, [at(0), at(1024), 0], script)), ("execveat-fd", call(322, [MEMFD, at(4000), at(1024), 0, 0x1000], memory)),
            ("execve-no-argv", call(59, [at(0), 0, 0], memory))]


ADDRESSES = {
    "inet": struct.pack("<H", 2) + struct.pack(">H4s8x", 80, bytes([127, 0, 0, 1])),
    "inet_any": struct.pack("<H", 2) + struct.pack(">H4s8x", 0, bytes(4)),
    "inet6": struct.pack("<H", 10) + struct.pack(">HI16s", 443, 0, bytes(15) + b"\1") + struct.pack("<I", 1),
    "mapped": struct.pack("<H", 10) + struct.pack(">HI16s", 443, 0, bytes(10) + b"\xff\xff\x7f\0\0\1") + bytes(4),
    "unspec": struct.pack("<H", 0) + bytes(14), "unix": struct.pack("<H", 1) + b"/tmp/socket\0",
    "unix_relative": struct.pack("<H", 1) + b"folder/s", "unix_full": struct.pack("<H", 1) + b"a" * 108,
    "abstract": struct.pack("<H", 1) + b"\0name\xff", "autobind": struct.pack("<H", 1), "netlink": struct.pack("<H2xII", 16, 0, 0),
}


def addresses() -> list[tuple[str, bytes]]:
    found = []
    for name, address in ADDRESSES.items():
        for descriptor in range(TCP, READ_END + 1):
            for number in (42, 49):
                found.append((f"{name}-{number}-{descriptor}", call(number, [descriptor, at(0), len(address)], address)))
            found.append((f"{name}-sendto-{descriptor}", call(44, [descriptor, at(256), 5, 0, at(0), len(address)], address.ljust(256, b"\0") + b"hello")))
    found += [(f"listen-{one}", call(50, [one, 5], b"")) for one in range(TCP, PACKET + 1)]
    found += [(f"getsockname-{one}", call(51, [one, at(64), at(0)], struct.pack("<I", 128))) for one in range(TCP, PACKET + 1)]
    return found


def message(name: bytes, data: bytes, control: bytes) -> bytes:
    """A msghdr at 0, its parts behind it."""
    header = struct.pack("<QIIQQQQI4x", at(512) if name else 0, len(name), 0, at(64), 2, at(1024) if control else 0, len(control), 0)
    vector = struct.pack("<4Q", at(256), len(data), at(260), 1)
    return header.ljust(64, b"\0") + vector.ljust(192, b"\0") + data.ljust(256, b"\0") + name.ljust(512, b"\0") + control


def messages() -> list[tuple[str, bytes]]:
    controls = {"none": b"", "rights": struct.pack("<Qii2i", 24, 1, 1, PAIR, FILE), "credentials": struct.pack("<Qii3i4x", 28, 1, 2, 1, 0, 0),
                "both": struct.pack("<Qiii4x", 20, 1, 1, MEMFD) + struct.pack("<Qii3i4x", 28, 1, 2, 1, 0, 0),
                "routing": struct.pack("<Qii8x", 24, 41, 57), "short": struct.pack("<Qii", 15, 1, 1), "huge": struct.pack("<Qii", 2**63, 1, 1)}
    found = []
    for control_name, control in controls.items():
        for address_name in ("inet", "inet6", "unix", "abstract", "unspec"):
            for descriptor in (UDP, UDP6, DATAGRAM, PAIR, PAIR_DATAGRAM):
                memory = message(ADDRESSES[address_name], b"payload", control)
                found.append((f"{control_name}-{address_name}-{descriptor}", call(46, [descriptor, at(0), 0], memory)))
        many = b"".join(message(b"", b"payload", control)[:56] + bytes(8) for _ in range(3))
        found.append((f"many-{control_name}", call(307, [PAIR_DATAGRAM, at(0), 3, 0], many.ljust(256, b"\0") + b"payload")))
    return found


def attributes() -> list[tuple[str, bytes]]:
    memory = b"file\0".ljust(256, b"\0") + b"user.name\0".ljust(256, b"\0") + b"value" * 10
    args = struct.pack("<QII", at(512), 5, 0)
    found = [(name, call(number, [at(0), at(256), at(512), 20, 0], memory)) for name, number in
             (("setxattr", 188), ("lsetxattr", 189), ("removexattr", 197), ("lremovexattr", 198))]
    found += [(name, call(number, [MEMFD, at(256), at(512), 20, 0], memory)) for name, number in (("fsetxattr", 190), ("fremovexattr", 199))]
    found += [("setxattrat", call(463, [HERE, at(0), 0, at(256), at(600), 16], memory.ljust(600, b"\0") + args)),
              ("removexattrat", call(466, [HERE, at(0), 0x1000, at(256)], memory)),
              ("file_setattr", call(469, [HERE, at(0), at(512), 24, 0], memory)),
              ("flags", call(16, [FILE, 0x40086602, at(512)], memory)), ("fsx", call(16, [FILE, 0x401C5820, at(512)], memory))]
    return found


def processes() -> list[tuple[str, bytes]]:
    limit = struct.pack("<2Q", 100, 100)
    return [("prlimit", call(302, [1, 7, at(0), 0], limit)), ("setpriority", call(141, [1, 0, 5], b"")), ("ioprio", call(251, [2, 1, 0], b"")),
            ("affinity", call(203, [1, 8, at(0)], limit)), ("scheduler", call(144, [1, 0, at(0)], limit)),
            ("kill", call(62, [2**64 - 1, 0], b"")), ("tgkill", call(234, [1, 1, 0], b"")), ("queue", call(129, [1, 0, at(0)], limit * 8)),
            ("signal", call(200, [1, 0], b""))]


def objects() -> list[tuple[str, bytes]]:
    operation = struct.pack("<Hhh", 0, 1, 0o4000) * 2
    queue = struct.pack("<4q", 0, 4, 64, 0)
    return [("shmget", call(29, [0, 4096, 0o1600], b"")), ("shmat", call(30, [0, 0, 0], b"")), ("shmctl", call(31, [0, 2, at(0)], b"")),
            ("stat", call(31, [0, 13, at(0)], b"")), ("info", call(31, [0, 14, at(0)], b"")), ("semget", call(64, [7, 3, 0o1600], b"")),
            ("semop", call(65, [0, at(0), 2], operation)), ("semtimedop", call(220, [0, at(0), 2, at(64)], operation)),
            ("semctl", call(66, [0, 1, 16, 5], b"")), ("msgget", call(68, [7, 0o1600], b"")), ("msgctl", call(71, [0, 0, at(0)], b"")),
            ("msgsnd", call(69, [0, at(0), 8, 0o4000], struct.pack("<q", 1) + b"payload")), ("msgrcv", call(70, [0, at(0), 8, 0, 0o4000], b"")),
            ("mq_open", call(240, [at(0), 0o102, 0o600, at(64)], b"fuzz\0".ljust(64, b"\0") + queue)), ("mq_unlink", call(241, [at(0)], b"fuzz\0")),
            ("mq_long", call(240, [at(0), 0, 0, 0], b"n" * 255 + b"\0"))]


def answers() -> list[tuple[str, bytes]]:
    lines = [b'{"v":1,"type":"auth","token":"x"}', b'{"v":1,"type":"rest","id":7}', b'{"v":1,"type":"status"}', b'{"v":1,"type":"grants"}',
             b'{"v":1,"type":"decision","id":7,"key":"sha256:00","verdict":"allow","scope":"once","reason":"because"}',
             b'{"v":1,"type":"revoke","grant":2}', b'{"v":1,"type":"stop"}', b'{"v":2,"type":"auth"}', b"[[[["]
    return [(f"line-{number}", line + b"\n") for number, line in enumerate(lines)] + [("all", b"\n".join(lines))]


def jobs() -> list[tuple[str, bytes]]:
    texts = [b'{"code":"print(1)"}', b'{"language":"bash","code":"echo 1","scratch":"/w","stdin":"x","env":{"A":"b","C":null}}',
             b'{"id":1,"command":["a","b"],"workdir":"/w","cwd":"/c","stdin_base64":"AAECAw==","merge_stderr":true,"max_output":"1M"}',
             b'{"id":"a","code":"","language":"node","profiles":["python"],"timeout":1.5,"idle_timeout":"2m","grace":"100ms","cpu":3}',
             b'{"code":"-x","language":"sh","rules":{"version":1,"rules":[]},"memory":"512M","processes":9,"disk":1,"open_files":8,"file_size":"1G"}',
             b'{"code":"1","read":["/a"],"write":["/b"],"execute":["/c"],"deny":["/d"],"connect":["h:1"],"bind":["1"]}',
             b'{"cancel":"a"}', b'{"cancel":-7,"now":true}', b'{"code":1}', b'{"cod":""}', b'{"code":"\\u0000\\ud83c\\udf82"}', b"[[", b"",
             b'{"a":1,"a":2}', "h\u00e4 \u20ac \u202e \U0001f382".encode() + bytes([0, 27, 0xe2, 0x82, 0xff, 0xed, 0xa0, 0x80])]
    return [(f"job-{number}", text) for number, text in enumerate(texts)]


def look_ups() -> list[tuple[str, bytes]]:
    """Queries, answers and lines of hosts(5), as fuzz_names.cpp tells them apart."""
    def packed(name: bytes) -> bytes:
        return b"".join(bytes([len(label)]) + label for label in name.split(b".") if label) + b"\0"

    def query(name: bytes, kind: int = 1, flags: int = 0x100, classes: int = 1, extra: bytes = b"") -> bytes:
        return b"\0" + struct.pack(">6H", 7, flags, 1, 0, 0, 1 if extra else 0) + packed(name) + struct.pack(">HH", kind, classes) + extra

    def record(owner: bytes, kind: int, data: bytes, ttl: int = 60) -> bytes:
        return owner + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data

    name, here = packed(b"www.example.org"), b"\xc0\x0c"
    types = [1, 28, 5, 15, 16, 33]

    def answer(kind: int, *records: bytes, flags: int = 0x8180, question: bytes = name, count: int | None = None, authority: int = 0) -> bytes:
        head = struct.pack(">6H", 7, flags, 1, len(records) - authority if count is None else count, authority, 0)
        return b"\1" + bytes([types.index(kind)]) + head + question + struct.pack(">HH", kind, 1) + b"".join(records)

    address, behind = bytes([203, 0, 113, 7]), struct.pack(">H", 0xc000 + 12 + len(name) + 4)
    edns = b"\0" + struct.pack(">HHIH", 41, 4096, 0, 24) + struct.pack(">HH", 65001, 20) + b"secret-secret-secret"
    alias = record(here, 5, packed(b"other.example.net"))
    at_rdata = struct.pack(">H", 0xc000 + 12 + len(name) + 4 + 12)
    far = record(here, 15, struct.pack(">H", 10) + packed(b"mail.example.org"))
    return [("query", query(b"WwW.example.org")), ("query-aaaa", query(b"www.example.org", 28)), ("query-any", query(b"a.b", 255)),
            ("query-root", query(b"")), ("query-edns", query(b"www.example.org", 1, extra=edns)), ("query-chaos", query(b"version.bind", 16, classes=3)),
            ("query-update", query(b"a.b", 6, 0x2800)), ("query-long", query(b".".join([b"a" * 63] * 3 + [b"b" * 61]))),
            ("query-longer", query(b".".join([b"a" * 63] * 4))), ("query-bytes", query(b"a\x00 \xff.b")), ("query-here", query(b"localhost")),
            ("query-reverse", query(b"7.113.0.203.in-addr.arpa", 12)), ("query-reverse6", query(b"1." + b"0." * 31 + b"ip6.arpa", 12)),
            ("query-reverse-odd", query(b"x.1.in-addr.arpa", 12)), ("query-pointer", b"\0" + struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + here + bytes(4)),
            ("query-two", b"\0" + struct.pack(">6H", 7, 0x100, 2, 0, 0, 0) + (name + bytes([0, 1, 0, 1])) * 2), ("query-short", b"\0" + bytes(12)),
            ("query-response", query(b"a.b", 1, 0x8100)), ("answer-a", answer(1, record(here, 1, address), record(here, 1, address))),
            ("answer-aaaa", answer(28, record(here, 28, bytes(10) + b"\xff\xff\x7f\0\0\1"))), ("answer-alias", answer(1, alias, record(at_rdata, 1, address))),
            ("answer-alias-loop", answer(1, record(here, 5, here), record(here, 1, address))),
            ("answer-two-aliases", answer(1, record(b"\1b\0", 5, name), record(here, 5, b"\1b\0"))), ("answer-none", answer(1, flags=0x8183)),
            ("answer-short-address", answer(1, record(here, 1, b"abc"))), ("answer-other-question", answer(1, record(here, 1, address), question=packed(b"evil.example.com"))),
            ("answer-compressed-question", answer(16, record(here, 16, b"\5words"), question=b"\3www" + struct.pack(">H", 0xc000 + 30))),
            ("answer-mx", answer(15, far)), ("answer-mx-behind", answer(15, record(here, 15, b"\0\1" + struct.pack(">H", 0xc000 + 80)), record(here, 2, name), authority=1)),
            ("answer-owner-behind", answer(16, record(struct.pack(">H", 0xc000 + 54), 16, b"\5words"), record(packed(b"ns.example.org"), 2, name), authority=1)),
            ("answer-owner-in-head", answer(16, record(b"\xc0\x05", 16, b"\5words"))), ("answer-srv", answer(33, record(here, 33, bytes(6) + name))),
            ("answer-pointer-to-itself", answer(16, record(behind, 16, b"\5words"))), ("answer-long", answer(16, *[record(here, 16, bytes([255]) + b"x" * 255)] * 9)),
            ("answer-counts", answer(1, record(here, 1, address), count=9)), ("answer-truncated", answer(1, flags=0x8380)), ("answer-empty", b"\1\0"),
            ("hosts", b"\2127.0.0.1 localhost\n::1 localhost ip6-localhost # here\n203.0.113.7\tA.example.org. b\n fe80::1%lo c\nx y\n1.2.3.4\n"),
            ("hosts-bytes", b"\2127.0.0.1 \xff\xfe a\x00b *.c d_e -f g..h\r\n127.0.0.1 " + b"n" * 300)]


def hellos() -> list[tuple[str, bytes]]:
    """Messages of both ends of a TLS connection, in the pieces of fuzz_hellos.cpp."""
    def vector(content: bytes, size: int) -> bytes:
        return len(content).to_bytes(size, "big") + content

    def extension(kind: int, content: bytes) -> bytes:
        return struct.pack(">H", kind) + vector(content, 2)

    def named(name: bytes) -> bytes:
        return extension(0, vector(b"\0" + vector(name, 2), 2))

    def records(message: bytes, size: int = 16384) -> bytes:
        return b"".join(b"\x16\3\1" + vector(message[at:at + size], 2) for at in range(0, len(message), size))

    def client(*extensions: bytes) -> bytes:
        return b"\1" + vector(b"\3\3" + b"r" * 32 + b"\0" + vector(b"\x13\1", 2) + b"\1\0" + vector(b"".join(extensions), 2), 3)

    def server(random: bytes) -> bytes:
        return records(b"\2" + vector(b"\3\3" + random + b"\0\x13\1\0" + vector(extension(43, b"\3\4"), 2), 3))

    def pieces(*said: tuple[int, bytes]) -> bytes:
        return b"".join(bytes([end]) + vector(content, 2) for end, content in said)

    first, other = client(named(b"A.example.org."), extension(43, b"\2\3\4")), client(named(b"b.example.org"))
    good, evil = records(first), records(other)
    retry, answer = server(hashlib.sha256(b"HelloRetryRequest").digest()), server(b"s" * 32)
    early, dummy = b"\x17\3\3" + vector(b"early", 2), b"\x14\3\3\0\1\1"
    hidden = records(client(named(b"a.example.org"), extension(0xfe0d, b"inner")))
    both_ways = ((0, good), (1, retry))
    return [("hello", good), ("hello-in-bytes", records(first, 1)), ("hidden", hidden), ("retry", retry), ("answer", answer),
            ("open", pieces((0, good), (1, answer), (0, b"encrypted"), (1, b"encrypted"), (0, b""), (1, b""))),
            ("two-names", pieces((0, records(client(named(b"a.example.org"), named(b"b.example.org")))))),
            ("other", pieces((0, evil))), ("unnamed", pieces((0, records(client())))), ("two-messages", pieces((0, records(first + other)))),
            ("half", pieces((0, good[:50]), (0, good[50:]), (1, answer[:20]), (1, answer[20:]), (0, early))),
            ("half-and-end", pieces((0, good[:50]), (0, b""))), ("plain", pieces((0, b"GET / HTTP/1.1\r\n\r\n"))),
            ("server-first", pieces((1, b"SSH-2.0-x\r\n"))), ("both-hellos", pieces((0, good + evil), (1, retry))),
            ("second", pieces(*both_ways, (0, dummy + good), (0, b"encrypted"))), ("second-other", pieces(*both_ways, (0, dummy), (0, evil))),
            ("second-hidden", pieces(*both_ways, (0, hidden))), ("second-in-pieces", pieces(*both_ways, (0, good[:9]), (0, good[9:]))),
            ("early", pieces((0, good + early), (0, early[:3]), (1, retry + dummy), (0, early[3:] + good))), ("early-end", pieces(*both_ways, (0, b""), (1, b""))),
            ("server-ends", pieces(*both_ways, (1, b""), (0, evil))), ("plain-answer", pieces((0, good), (1, b"HTTP/1.1 400\r\n"), (0, b"x")))]


def files(*paths: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()[:16384]) for path in paths]


def main() -> None:
    top = Path(sys.argv[1])
    families = {**path_calls(), "open_how": open_how(), "arguments": arguments(), "addresses": addresses(), "messages": messages(),
                "attributes": attributes(), "processes": processes(), "objects": objects(), "answers": answers(), "jobs": jobs(), "names": look_ups(), "hellos": hellos(), "log": files(*map(Path, sys.argv[2:])),
                "rules": files(*sorted(SOURCES.glob("tests/testdata/rules/*.json")), *sorted(SOURCES.glob("rules/profiles/*.json")))}
    for family, inputs in families.items():
        (top / family).mkdir(parents=True, exist_ok=True)
        for name, content in inputs:
            (top / family / name).write_bytes(content)


if __name__ == "__main__":
    main()
