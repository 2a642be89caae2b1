"""`callgate exec --http --tls-cert --tls-key`: a process of its own ends TLS. It has the key, and no client or job reaches it there."""
from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

import harness
from jobs import check
from test_exec_http import FIRST, HOST, TYPE, Service, bash, many_files
from toolchains import require

CROWD = 10_000 if harness.SOAK else 60
SMALL = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(place: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)


@pytest.fixture(scope="module")
def made(stage):
    """Certificates of an authority of this test."""
    require("openssl", str(stage.bin / "callgate-tls"))
    place = stage.root / "certificates"
    place.mkdir()
    openssl(place, "req", "-x509", *SMALL, "-subj", "/CN=authority", "-addext", "keyUsage=critical,keyCertSign", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("cert", "other"):
        openssl(place, "req", *SMALL, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        for days, file in ((2, f"{name}.pem"), (0, f"{name}.expired.pem")):  # newer releases make none that ends before it begins
            openssl(place, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-copy_extensions", "copy", "-days", str(days), "-out", file)
    openssl(place, "ec", "-in", "cert.key", "-aes128", "-passout", "pass:word", "-out", "encrypted.key")
    openssl(place, "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=localhost", "-keyout", "weak.key", "-out", "weak.pem")
    return place


@pytest.fixture
def keys(box, made):
    """The box's own copies."""
    place = box.directory(box.root / "keys")
    for one in made.iterdir():
        box.file(place / one.name, one.read_bytes(), 0o600 if one.suffix == ".key" else 0o644)
    return place


def trusting(keys: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(keys / "ca.pem"))


class Encrypted(Service):
    """Requests of the base class come over TLS, and `plain` gives the connection beneath."""

    def __init__(self, box: harness.Box, keys: Path, *options: str, key: str = "cert.key", **more: Any) -> None:
        self.trusted = trusting(keys)
        super().__init__(box, "--tls-cert", str(keys / "cert.pem"), "--tls-key", str(keys / key), *options, **more)
        assert self.address.startswith("https://127.0.0.1:")
        self.port = int(self.address.rpartition(":")[2])

    def plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), harness.DEADLINE)

    def connect(self) -> socket.socket:
        return self.trusted.wrap_socket(self.plain(), server_hostname="localhost")

    def process_named(self, word: bytes) -> int:
        return next(one for one in harness.children(self.process.pid) if word in Path(f"/proc/{one}/cmdline").read_bytes())

    @property
    def tls(self) -> int:
        return self.process_named(b"callgate-tls")


@contextlib.contextmanager
def service(box: harness.Box, keys: Path, *options: str, **more: Any):
    made = Encrypted(box, keys, *options, **more)
    yield made
    if made.process.poll() is None:
        assert made.end() == (0, b"")


def request(job: dict[str, Any], *fields: bytes) -> bytes:
    body = json.dumps(job).encode()
    return b"\r\n".join([FIRST, HOST, TYPE, *fields, b"Content-Length: %d" % len(body), b"", body])


def everything(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(65536), b""))


def memory(pid: int) -> list[bytes]:
    """The parts of its memory that root can read and it can write."""
    pieces = []
    with open(f"/proc/{pid}/mem", "rb", 0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line):
                begin, end = (int(one, 16) for one in found.groups())
                with contextlib.suppress(OSError):
                    pieces.append(os.pread(file.fileno(), end - begin, begin))
    return pieces


def test_jobs_and_streams_come_over_tls(box, keys):
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    with service(box, keys) as server, server.connect() as line, server.connect() as stream:
        assert line.version() == "TLSv1.3" and server.ask("/healthz") == (200, {"status": "ok"})
        for number in range(2):
            status, answer = server.ask("/v1/jobs", bash("cat; echo e >&2; exit 3", stdin="é" * 400_000, id=number), over=line)
            assert (status, answer["output"], answer["error"], answer["id"]) == (200, "é" * 400_000, "e\n", number)
            check(answer)
        stream.sendall(request(bash("echo first; read -r x < fifo; echo $x; head -c 300000 /dev/zero", stream=True), b"Connection: close"))
        events = stream.makefile("rb")
        while (told := events.readline()) != b"event: output\n":
            assert told
        assert events.readline() == b'data: {"text":"first\\n"}\n'
        harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("second\n"))
        last = events.read().rpartition(b"event: answer\ndata: ")[2]
        assert json.loads(last)["output"] == "first\nsecond\n" + "\0" * 300_000
        assert "callgate_jobs_total 3" in server.ask("/metrics")[1]
        with server.plain() as plain, pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            server.trusted.wrap_socket(plain, server_hostname="other.example")
        with server.plain() as plain, pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def test_the_key_is_in_one_process_alone(box, keys):
    """It is named by a link, as certbot's are. The controls: a file beside it is read, and the secret number is found in the memory of the process that has it."""
    box.directory(keys / "live")
    (keys / "live/key.pem").symlink_to("../cert.key")
    box.file(keys / "twin", b"twin", 0o600)
    code = f"cat {keys}/twin; cat {keys}/live/key.pem {keys}/cert.key; env; ls -l /proc/self/fd; readlink -f /proc/*/fd/*"
    with service(box, keys, key="live/key.pem") as server:
        status, answer = server.ask("/v1/jobs", bash(code, read=[str(box.root), "/proc"], write=[str(box.root)]))
        assert status == 200 and answer["output"].startswith("twin") and answer["error"].count("Permission denied") >= 2, answer
        assert "PRIVATE KEY" not in answer["output"] and "cert.key" not in answer["output"] and "cert.pem" not in answer["output"], answer
        if os.geteuid() == 0:
            key = subprocess.run(["openssl", "ec", "-in", keys / "cert.key", "-noout", "-text"], capture_output=True, text=True, check=True).stdout
            number = bytes.fromhex(re.search(r"priv:\s*([0-9a-f:\s]+?)\s*pub:", key)[1].replace(":", "").replace(" ", "").replace("\n", ""))[-32:]
            has = {pid: any(one in piece for piece in memory(pid) for one in (number, number[::-1], (keys / "cert.key").read_bytes()))
                   for pid in (server.tls, server.front(), server.process.pid)}
            assert list(has.values()) == [True, False, False], has


def test_what_is_wrong_with_the_files_is_said_before_anything_listens(box, keys):
    """The address is wrong, too, and is not come to."""
    os.mkfifo(keys / "fifo")
    box.own(keys / "fifo")
    box.file(keys / "open.key", (keys / "cert.key").read_bytes(), 0o640 if box.user.kind == "user" else 0o604)
    box.file(keys / "none.key", b"none", 0o600)
    for cert, key, word in (("absent", "cert.key", "--tls-cert {}/absent: No such file"), ("cert.pem", "absent", "--tls-key {}/absent: No such file"),
                            ("fifo", "cert.key", "no regular file"), ("cert.pem", "fifo", "no regular file"),
                            ("cert.pem", "open.key", "--tls-key {}/open.key: others may read it; "), ("cert.key", "cert.key", "--tls-cert {}/cert.key: this is no certificate"),
                            ("cert.expired.pem", "cert.key", "--tls-cert {}/cert.expired.pem: it has expired ("), ("weak.pem", "weak.key", "key too small"),
                            ("cert.pem", "none.key", "this is no private key"), ("cert.pem", "encrypted.key", "it is encrypted"),
                            ("cert.pem", "other.key", "--tls-key {}/other.key: it is not the key of the certificate")):
        result = box.run([str(box.callgate), "exec", "--http", "nowhere", "--tls-cert", f"{keys}/{cert}", "--tls-key", f"{keys}/{key}"], supervised=False)
        assert result.code == 125 and word.format(keys) in result.errors, (cert, key, result.describe())
    both = ["--tls-cert", str(keys / "cert.pem"), "--tls-key", str(keys / "cert.key")]
    for options, word in ((["--http", "nowhere", *both[:2]], "give --tls-cert FILE and --tls-key FILE"), (["--http", "unix:x", *both], "not for unix:PATH"),
                          (both, "needs --http"), (["--http", "nowhere", *both], "expected an address"), (["--http", "0.0.0.0:0", *both], "a token is needed")):
        result = box.run([str(box.callgate), "exec", *options], supervised=False)
        assert result.code == 125 and word in result.errors, result.describe()
    result = box.run([str(box.stage.bin / "callgate-tls")], supervised=False)
    assert result.code == 125 and result.errors.startswith("callgate-tls is a part of callgate exec --http"), result.describe()
    alone = box.file(box.root / "bin/callgate", b"", 0o755)
    shutil.copy(box.callgate, alone)
    result = box.run([str(alone), "exec", "--http", "nowhere", *both], supervised=False)
    assert result.code == 125 and f"{alone}-tls is not there; " in result.errors, result.describe()


def test_a_run_plants_no_program_beside_callgate(box, made):
    """Later services would start it. The control: another name is written."""
    place = box.directory(box.tree / "bin")
    own = box.file(place / "callgate", b"", 0o755)
    shutil.copy(box.callgate, own)
    box.callgate = own
    result = box.run(["sh", "-c", "echo 1 > bin/other; echo 1 > bin/callgate-tls"], options=["-w", str(box.tree)])
    assert (place / "other").exists() and not (place / "callgate-tls").exists() and "callgate-rules" in result.errors, result.describe()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TLS 1.1
def test_clients_that_do_not_speak_tls_harm_nobody(box, keys):
    """Each is turned away or waits, while another one is served by the same process."""
    hello = bytes.fromhex("16030100") + b"\x40" + bytes.fromhex("01") + (131_000).to_bytes(3, "big") + b"\x03\x03" + b"x" * 58
    with service(box, keys) as server, contextlib.ExitStack() as waiting:
        tls = server.tls
        half = waiting.enter_context(server.plain())
        for text in (b"\x16", hello, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            waiting.enter_context(server.plain()).sendall(text)
        with server.plain() as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert everything(plain).endswith(b"\r\n\r\nthis address speaks TLS: begin it by https://\n")
        for text in (b"SSH-2.0-x\r\n" * 3, b"\x80\x2e\x01\x00\x02" + b"\0" * 60, b"\x16\x03\x01\xff\xff" + b"x" * 20_000, b"\x17\x03\x03\x00\x20" + b"x" * 32):
            with server.plain() as plain, contextlib.suppress(ConnectionError):
                plain.sendall(text)
                assert b"HTTP" not in everything(plain), text
        for newest, allowed in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            old = trusting(keys)
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, newest
            with server.plain() as plain, contextlib.nullcontext() if allowed else pytest.raises(ssl.SSLError):
                line = old.wrap_socket(plain, server_hostname="localhost")
                line.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert everything(line).startswith(b"HTTP/1.1 200 ")
        for protocols, agreed in ((["h2", "http/1.1"], True), (["h2"], False)):
            offering = trusting(keys)
            offering.set_alpn_protocols(protocols)
            with server.plain() as plain, contextlib.nullcontext() if agreed else pytest.raises(ssl.SSLError):
                assert offering.wrap_socket(plain, server_hostname="localhost").selected_alpn_protocol() == "http/1.1"
        asked = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2"], input=b"R\n", capture_output=True, check=False,
                               timeout=harness.DEADLINE)
        assert b"no renegotiation" in asked.stderr and b"Secure Renegotiation IS supported" in asked.stdout, asked
        # A handshake of one byte at a time, with another client's whole one between them.
        begun, unread = ssl.MemoryBIO(), ssl.MemoryBIO()
        slow = server.trusted.wrap_bio(unread, begun, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            slow.do_handshake()
        for byte in begun.read():
            half.sendall(bytes([byte]))
        assert server.ask("/v1/jobs", bash("echo served"))[1]["output"] == "served\n"
        assert half.recv(5)[:1] == b"\x16", "the slow one is answered, too"
        for size in (1, 5, 100):  # a client that stops speaking TLS after its handshake
            with server.connect() as line, socket.socket(fileno=os.dup(line.fileno())) as beneath:
                line.sendall(request(bash("echo lost"))[:-1])
                beneath.sendall(b"\x17\x03\x03\x00\x20"[:size] + b"x" * size)
        waiting.close()
        harness.until(lambda: os.geteuid() != 0 or len(os.listdir(f"/proc/{tls}/fd")) == 6, "the listener and its own descriptors are left alone")
        assert server.tls == tls


def test_the_oldest_handshake_gives_way(box, keys):
    with many_files(1_100) as wanted, service(box, keys) as server, contextlib.ExitStack() as crowd:
        if wanted < 1_100:
            pytest.skip("the limit of open files is too low")
        halves = [crowd.enter_context(server.plain()) for _ in range(wanted)]
        assert halves[0].recv(1) == b"" and server.ask("/healthz")[0] == 200
        halves[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # a later one stays
            halves[-1].recv(1)


def test_a_crowd_keeps_nobody_out(box, keys):
    """More than both processes may hold, in each state; then as many as wanted, which are served."""
    with service(box, keys, before="ulimit -n 80") as server, contextlib.ExitStack() as crowd:
        for number in range(60):
            crowd.enter_context(server.plain()).sendall((b"", b"\x16\x03\x01")[number % 2])
            if number % 2:
                with contextlib.suppress(OSError):  # it gives way to later ones
                    crowd.enter_context(server.connect()).sendall(b"POST")
        assert server.ask("/v1/jobs", bash("echo served"))[1]["output"] == "served\n"
    with many_files(CROWD) as wanted, service(box, keys) as server, contextlib.ExitStack() as crowd:
        lines = []
        for _ in range(wanted):  # thousands of handshakes take longer than a request may
            lines.append(crowd.enter_context(server.connect()))
            lines[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert all(line.recv(15) == b"HTTP/1.1 200 OK" for line in lines)


@pytest.mark.skipif(not harness.SOAK, reason="it waits for the limits of time; a long run has it")
def test_a_handshake_that_does_not_come_is_given_up(box, keys):
    with service(box, keys) as server:
        for half in (b"", b"\x16\x03\x01"):
            with server.plain() as plain:
                plain.sendall(half)
                assert plain.recv(1) == b""
        with server.connect() as line:
            line.sendall(FIRST)
            assert b" 408 " in everything(line)


def resident(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) << 10


def test_a_client_that_reads_nothing_fills_no_memory(box, keys):
    """The front keeps its answer, as without TLS. The control: the front's memory grows."""
    size = 9_000_000
    with service(box, keys) as server, server.connect() as line:
        processes = server.front(), server.tls
        before = [resident(one) for one in processes]
        line.sendall(request(bash(f"head -c {size} /dev/zero | tr '\\0' x"), b"Connection: close"))
        harness.until(lambda: "callgate_jobs_total 1\n" in (told := server.ask("/metrics")[1]) and "callgate_jobs_in_flight 0" in told, "the answer is there")
        grown = [resident(one) - old for one, old in zip(processes, before)]
        assert grown[0] > size // 2 and grown[1] < size // 4, grown
        assert json.loads(everything(line).partition(b"\r\n\r\n")[2])["output"] == "x" * size


@pytest.mark.parametrize("how", ["word", "silently"])
def test_a_client_that_goes_ends_its_job(box, keys, how):
    with service(box, keys) as server, server.connect() as line:
        line.sendall(request(bash(": > begun; sleep 1000", env={"CG_MARK": str(box.root)}, grace=0.1)))
        harness.until((box.tree / "begun").exists, "the job begins")
        if how == "word":
            with contextlib.suppress(OSError):
                line.unwrap()
        else:
            line.close()
        harness.until(lambda: harness.marked(f"CG_MARK={box.root}") == [], "the job ends")
        assert server.ask("/v1/jobs", bash("echo on"))[1]["output"] == "on\n"


def test_a_drain_lets_jobs_finish(box, keys):
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    with service(box, keys) as server, server.connect() as line:
        line.sendall(request(bash(": > begun; read -r x < fifo; echo $x")))
        harness.until((box.tree / "begun").exists, "the job begins")
        tls = server.tls
        server.process.send_signal(signal.SIGTERM)
        harness.until(lambda: server.ask("/healthz")[0] == 503, "the service drains")
        harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("finished\n"))
        assert b'"output":"finished\\n"' in everything(line)
        assert server.process.wait(harness.DEADLINE) == 0 and server.process.stderr.read() == b"" and not Path(f"/proc/{tls}").exists()


@pytest.mark.parametrize("killed", ["tls", "front", "server"])
def test_no_process_outlives_the_others(box, keys, killed):
    with service(box, keys) as server, server.connect() as line, contextlib.ExitStack() as handles:
        if killed != "server":  # what its jobs then do: test_exec_http.py
            line.sendall(request(bash(": > begun; sleep 1000", env={"CG_MARK": str(box.root)})))
            harness.until((box.tree / "begun").exists, "the job begins")
        processes = {"tls": server.tls, "front": server.front(), "server": server.process.pid}
        ends = [handles.enter_context(open(os.pidfd_open(processes[one]), "rb")) for one in ("tls", "front")]
        harness.as_user(box.user, lambda: os.kill(processes[killed], signal.SIGKILL))
        assert all(select.select([one], [], [], harness.DEADLINE)[0] for one in ends), "both have ended"
        assert server.process.wait(harness.DEADLINE) == (-signal.SIGKILL if killed == "server" else 125)
        if killed != "server":
            who = {"tls": b"callgate-tls", "front": b"the front of --http"}[killed]
            assert server.process.stderr.read() == b"callgate: " + who + b" has ended by itself (signal 9)\n"
        harness.until(lambda: harness.marked(f"CG_MARK={box.root}") == [], "the job has ended")


def test_the_process_is_confined(box, keys):
    with service(box, keys) as server:
        assert server.ask("/healthz")[0] == 200
        tls = server.tls
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{tls}/status").read_text().splitlines() if ":\t" in line)
        assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapPrm"], 16), int(status["CapEff"], 16)) == ("2", "1", 0, 0)
        assert Path(f"/proc/{tls}/environ").stat().st_uid == 0, "it is not dumpable"
        if os.geteuid() == 0:
            assert Path(f"/proc/{tls}/environ").read_bytes() == b""
            links = []
            for one in Path(f"/proc/{tls}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # it may still be closing the last connection
                    links.append(os.readlink(one))
            assert len(links) >= 6 and all(one == "/dev/null" or one.startswith(("socket:", "anon_inode:[eventpoll]")) for one in links), links
