"""`callgate exec --http`: jobs by HTTP. Clients that lie, stall, vanish or come in crowds harm nobody else."""
from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import http.client
import io
import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from jobs import check, with_time

JSON = {"Content-Type": "application/json"}
TOKEN = "0123456789abcdef-a.token_of~tests"
JOBS, KILLS = (3_000, 200) if harness.SOAK else (60, 4)
CROWD = 10_000 if harness.SOAK else 1_000


class Service:
    """A service, and requests to it."""

    def __init__(self, box: harness.Box, *options: str, at: str = "127.0.0.1:0", before: str = "") -> None:
        self.box = box
        line = [str(box.callgate), "exec", "--http", at, "--no-audit", *options]
        if before:
            line = ["sh", "-c", f'{before}; exec "$@"', "sh", *line]
        self.process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        said = self.process.stderr.readline().decode()
        assert "serving jobs at" in said, said + self.process.stderr.read().decode()
        self.address = said.split()[-1]

    def connect(self) -> socket.socket:
        if self.address.startswith("unix:"):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(harness.DEADLINE)
            made.connect(self.address[5:])
            return made
        host, port = self.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), harness.DEADLINE)

    def ask(self, path: str, job: dict[str, Any] | bytes | None = None, headers: dict[str, str] | None = None,
            over: socket.socket | None = None) -> tuple[int, Any]:
        """The status and what the answer says; over a connection of its own where none is given."""
        line = http.client.HTTPConnection("localhost")
        line.sock = over or self.connect()
        body = json.dumps(job).encode() if isinstance(job, dict) else job
        line.request("POST" if body is not None else "GET", path, body, JSON if headers is None else headers)
        answer = line.getresponse()
        text = answer.read()
        if over is None:
            line.close()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text.decode()

    def raw(self, text: bytes) -> bytes:
        """Everything that is answered to these bytes, until the service closes the connection."""
        with self.connect() as one:
            one.sendall(text)
            return b"".join(iter(lambda: one.recv(65536), b""))

    def front(self) -> int:
        """The process that reads HTTP; it has answered."""
        assert self.ask("/healthz")[0] == 200
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(one) for one in children if b"http-front" in Path(f"/proc/{one}/cmdline").read_bytes())

    def front_peak(self) -> int:
        """The most memory that process has had, in bytes."""
        return 1024 * int(Path(f"/proc/{self.front()}/status").read_text().partition("VmHWM:")[2].split()[0])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, bytes]:
        self.process.send_signal(number)
        said = self.process.stderr.read()
        return self.process.wait(harness.DEADLINE), said


@contextlib.contextmanager
def service(box: harness.Box, *options: str, **more: Any) -> Iterator[Service]:
    made = Service(box, *options, **more)
    yield made
    if made.process.poll() is None:
        assert made.end() == (0, b"")


def bash(code: str, **more: Any) -> dict[str, Any]:
    return {"language": "bash", "code": code, **more}


def framed_job(job: dict[str, Any]) -> bytes:
    body = json.dumps(job).encode()
    return b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body])


def test_jobs_are_answered_as_on_stdin(box):
    with service(box) as server, server.connect() as line:
        assert server.ask("/healthz") == (200, {"status": "ok"})
        for key in ("a", 7):
            status, answer = server.ask("/v1/jobs", bash("cat; echo e >&2; exit 3", stdin="é", id=key), over=line)
            assert (status, answer["output"], answer["error"], answer["exit_code"], answer["id"]) == (200, "é", "e\n", 3, key)
            check(answer)
        for job, status, word in ((bash("", timout=1), 400, "did you mean timeout"), (b"nonsense", 400, "no JSON"), (b'{"cancel":1}', 400, "cancel"),
                                  (b'{"code":"","code":""}', 400, "twice"), (bash("", profiles=["pyton"]), 422, "did you mean python")):
            told, answer = server.ask("/v1/jobs", job, over=line)
            assert told == status and word in check(answer)["error"], answer
        assert server.ask("/nowhere")[0] == 404 and server.ask("/v1/jobs")[0] == 405
        metrics = server.ask("/metrics")[1]
        assert 'callgate_http_responses_total{code="400"} 4' in metrics and "callgate_jobs_total 3" in metrics, metrics


def test_output_comes_while_the_job_runs(box):
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    with service(box) as server, server.connect() as line:
        body = json.dumps(bash("printf 'b\\303'; read -r x < fifo; printf '\\251\\377'; echo e >&2", stream=True, id="s")).encode()
        line.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        events = line.makefile("rb")
        while events.readline() != b"\r\n":
            pass
        assert events.readline() + events.readline() == b'event: output\ndata: {"text":"b"}\n'
        harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("on\n"))
        told = [one.split("\n") for one in events.read().decode().strip().split("\n\n")]
        pieces = [json.loads(data[6:]) for event, data in told if event == "event: output"]
        assert "".join(one["text"] for one in pieces) == "é\ufffd" and pieces[-1]["text_base64"], told
        assert told[-1][0] == "event: answer"
        answer = check(json.loads(told[-1][1][6:]))
        assert (answer["output"], answer["error"], answer["id"]) == ("bé\ufffd", "e\n", "s")


def test_a_stream_waits_for_its_own_client_alone(box):
    """A job that writes without end to a client that reads nothing: its output waits in its pipe."""
    ask = framed_job(bash("head -c 16000000 /dev/zero | tr '\\0' x; : > through", stream="only"))
    look = bash("until [ -e through ] || [ $((n += 1)) -gt 30000 ]; do :; done; [ -e through ] || echo waits")
    with service(box) as server, server.connect() as slow:
        slow.sendall(ask)
        assert slow.recv(1) and server.ask("/v1/jobs", look)[1]["output"] == "waits\n"
        assert sum(map(len, iter(lambda: slow.recv(1 << 20), b""))) > 16_000_000 and (box.tree / "through").exists()
        # The same of a context, whose cells go on after their client has gone.
        cell = json.dumps({"code": "import sys; sys.stdout.write('x' * 16_000_000); open('through', 'w').close()"}).encode()
        (box.tree / "through").unlink()
        with server.connect() as gone:
            gone.sendall(b"\r\n".join([b"POST /execute HTTP/1.1", HOST, TYPE, b"Content-Length: %d" % len(cell), b"", cell]))
            assert gone.recv(1) and server.ask("/v1/jobs", look)[1]["output"] == "waits\n"
        assert '"text":"2"' in str(server.ask("/execute", {"code": "1 + 1"})[1])


def test_a_token_is_asked_for(box):
    box.directory(box.tree / "keys")
    token = box.file(box.tree / "keys/token", f"{TOKEN}\n".encode(), 0o600)
    box.file(box.tree / "keys/twin", b"twin", 0o600)
    (box.root / "link").symlink_to(token)  # as in a volume of Kubernetes
    with service(box, "--http-token", str(box.root / "link"), at=f"unix:{box.root}/one.sock") as server:
        assert (box.root / "one.sock").stat().st_mode & 0o777 == 0o600
        reach = f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex('{box.root}/one.sock'))"
        job = bash(f'cat keys/twin keys/token; python3 -c "{reach}"', read=[str(box.root)], write=[str(box.root)], connect=[f"unix:{box.root}/one.sock"])
        wrong = [JSON, {**JSON, "Authorization": f"Bearer {TOKEN}x"}, {**JSON, "Authorization": f"Bearer {TOKEN[:-1]}"},
                 {**JSON, "Authorization": f"Basic {TOKEN}"}, {**JSON, "Authorization": TOKEN}, {**JSON, "Authorization": "Bearer "}]
        assert [server.ask("/v1/jobs", job, headers)[0] for headers in wrong] == [401] * len(wrong)
        assert [server.ask(path, job)[0] for path in (f"/{TOKEN}x/v1/jobs", f"//{TOKEN}/v1/jobs", f"/v1/jobs/{TOKEN}", f"/v1/jobs?{TOKEN}")] == [401] * 4
        assert server.ask("/metrics")[0] == 401
        assert [server.ask(path)[0] for path in ("/healthz", f"/{TOKEN}/healthz", f"/{TOKEN}/metrics")] == [200] * 3
        for path, headers in ((f"/{TOKEN}/v1/jobs", {}), *(("/v1/jobs", {"Authorization": f"{word} {TOKEN}"}) for word in ("Bearer", "bearer", "BEARER"))):
            status, answer = server.ask(path, job, headers)
            assert status == 200 and answer["output"] == f"twin{errno.ECONNREFUSED}\n" and "denied" in answer["error"], answer
    assert not (box.root / "one.sock").exists()


def test_what_is_refused_at_the_start(box):
    short = box.file(box.root / "short", b"short\n")
    (box.root / "file").touch()
    for options, word in ((["--http", "0.0.0.0:0"], "a token is needed"), (["--http", "[::]:0"], "a token is needed"),
                          (["--http", "127.0.0.1:0", "--http-token", str(short)], "16 to 256"), (["--http", "here"], "expected an address"),
                          (["--http", f"unix:{box.root}/file"], "something else"), (["--http", "127.0.0.1:0", "--serve"], "leave out one"),
                          (["--drain", "1s"], "needs --http"), (["--http", "127.0.0.1:0", "--audit", "log"], "cannot share")):
        result = box.run([str(box.callgate), "exec", *options], supervised=False)
        assert result.code == 125 and word in result.err.decode(), result.describe()


def test_a_page_in_a_browser_starts_no_job(box):
    """It may send text to any host, and give its own name this machine's address. Nobody has to ask it for a token."""
    with service(box) as server:
        port = server.address.rpartition(":")[2]
        for headers, status in (({"Content-Type": "text/plain"}, 415), ({}, 415), ({**JSON, "Host": f"page.example:{port}"}, 421),
                                ({**JSON, "Host": f"127.0.0.1:{port}"}, 200), ({**JSON, "Host": f"[::1]:{port}"}, 200),
                                ({"Content-Type": "application/json; charset=utf-8"}, 200)):
            (box.tree / "ran").unlink(missing_ok=True)
            assert server.ask("/v1/jobs", bash(": > ran"), headers)[0] == status
            assert (box.tree / "ran").exists() == (status == 200)
        assert server.ask("/files?path=ran", None, {})[0] == 415 and server.ask("/files?path=ran", None, {"E2b-Sandbox-Id": "a"})[0] == 200


def test_a_job_reaches_no_service_that_asks_for_no_token(box):
    """It could send jobs of its own: without its limits, in another work directory, to the sessions of other clients."""
    reach = "import socket, sys\nfor one in sys.argv[2:]: print(socket.socket(socket.AF_INET6 if ':' in one else socket.AF_INET).connect_ex((one, int(sys.argv[1]))))"
    with socket.create_server(("127.0.0.1", 0)) as twin, service(box) as server:
        for port, code in ((str(twin.getsockname()[1]), 0), (server.address.rpartition(":")[2], errno.ECONNREFUSED)):
            command = ["python3", "-c", reach, port, "127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1"]
            assert server.ask("/v1/jobs", {"command": command, "connect": ["127.0.0.1", "localhost"]})[1]["output"].split() == [str(code)] * 4


RUN = json.dumps(bash(": > ran")).encode()
FIRST, HOST, TYPE, LENGTH = b"POST /v1/jobs HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", b"Content-Length: %d" % len(RUN)
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(RUN), RUN)
GOOD = [[FIRST, HOST, TYPE, LENGTH, b"", RUN], [FIRST, HOST, TYPE, CHUNKED, b"", CHUNKS],
        [FIRST, HOST, TYPE, LENGTH, b"Connection: keep-alive, Upgrade", b"Upgrade: h2c", b"", RUN],
        [FIRST, b"hOST:localhost", TYPE, b"content-length:\t%d \t" % len(RUN), b"", RUN],
        [b"POST /v1/jobs HTTP/1.0", TYPE, LENGTH, b"", RUN]]


def framed(*fields: bytes, body: bytes = RUN, first: bytes = FIRST) -> list[bytes]:
    return [first, HOST, TYPE, *fields, b"", body]


DOUBTFUL = [
    framed(LENGTH, CHUNKED), framed(CHUNKED, LENGTH, body=CHUNKS), framed(LENGTH, LENGTH), framed(LENGTH, b"Content-Length: 5"),
    *(framed(b"Content-Length: " + value) for value in (
        b"%d, %d" % (len(RUN), len(RUN)), b"+%d" % len(RUN), b"-1", b"0%d" % len(RUN), b"0x10", b"1e1", b"", b"5 5", b'"5"', b"99999999999999999999",
        b"\xb2", b"5;")),
    *(framed(b"Transfer-Encoding: " + value, body=CHUNKS) for value in (
        b"xchunked", b"chunked, chunked", b"identity", b"gzip, chunked", b"chunked, identity", b"chunked;q=1", b"Chunked", b"\x0bchunked", b'"chunked"',
        b"", b"chunked\r\n\tfolded")),
    framed(CHUNKED, CHUNKED, body=CHUNKS), framed(b"Transfer-Encoding : chunked", body=CHUNKS), framed(b"Transfer-Encoding\t: chunked", body=CHUNKS),
    framed(b"Transfer_Encoding: chunked", body=CHUNKS), framed(CHUNKED, first=FIRST.replace(b"1.1", b"1.0"), body=CHUNKS),
    *(framed(CHUNKED, body=body) for body in (
        b"%x;a=b\r\n%b\r\n0\r\n\r\n" % (len(RUN), RUN), b"0%x\r\n%b\r\n0\r\n\r\n" % (len(RUN), RUN), b"%x \r\n%b\r\n0\r\n\r\n" % (len(RUN), RUN),
        b"0x%x\r\n%b\r\n0\r\n\r\n" % (len(RUN), RUN), b"%x\n%b\n0\n\n" % (len(RUN), RUN), b"%x\r\n%b0\r\n\r\n" % (len(RUN), RUN),
        b"%x\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(RUN), RUN), b"%x\r\n%b\r\n00\r\n\r\n" % (len(RUN), RUN), b"-1\r\n", b"fffffffff\r\n", b"\r\n", b"g\r\n",
        b"ffffffff\r\n")),
    framed(), [FIRST, TYPE, LENGTH, b"", RUN], [FIRST, HOST, HOST, TYPE, LENGTH, b"", RUN], [FIRST, HOST, b" folded", TYPE, LENGTH, b"", RUN],
    *(framed(LENGTH, field) for field in (
        b"X-HTTP-Method-Override: GET", b"Connection: Host", b"Connection: content-length", b"Expect: 200-ok", b"No colon", b": no name", b"N\xc3\xa9: x",
        b"X: \xe9", b"X: a\x00b", b"X: a\x01b", b"X: a\rb", b"X: a\nContent-Length: 1", b"Trailer: X", b" X: y", b"X Y: z", b"Content-Type: text/plain")),
    *(framed(LENGTH, first=first) for first in (
        b"POST  /v1/jobs HTTP/1.1", b"POST /v1/jobs", b"POST /v1/jobs HTTP/1.2", b"POST /v1/jobs HTTP/2.0", b"POST /v1/jobs http/1.1",
        b"POST /v1/jobs HTTP/1.1 ", b" POST /v1/jobs HTTP/1.1", b"POST http://localhost/v1/jobs HTTP/1.1", b"POST v1/jobs HTTP/1.1",
        b"POST /v1/jobs#x HTTP/1.1", b"POST /v1\\jobs HTTP/1.1", b"POST /v1/j\xf6bs HTTP/1.1", b"POST /v1/jobs\tHTTP/1.1", b"POST /v1/%6aobs HTTP/1.1",
        b"POST //v1/jobs HTTP/1.1", b"POST /v1/../v1/jobs HTTP/1.1", b"GET /v1/jobs HTTP/1.1", b"CONNECT localhost:80 HTTP/1.1", b"P(ST /v1/jobs HTTP/1.1",
        b"\r\nPOST /v1/jobs HTTP/1.1", b"", b"\x16\x03\x01\x02\x00\x01")),
]


def test_a_request_that_two_readers_could_understand_differently_is_refused(box):
    """The connection ends with the answer, so nothing behind the request is taken for another one."""
    with service(box) as server:
        for lines in GOOD:
            (box.tree / "ran").unlink(missing_ok=True)
            text = b"\r\n".join(lines).replace(b"\r\nContent", b"\r\nConnection: close\r\nContent", 1)
            assert server.raw(text if b"Connection: k" not in text else b"\r\n".join(lines).replace(b"keep-alive", b"close")).startswith(b"HTTP/1.1 200 ")
            assert (box.tree / "ran").exists(), lines
        (box.tree / "ran").unlink()
        for lines in DOUBTFUL:
            told = server.raw(b"\r\n".join(lines) + b"\r\n".join(GOOD[0]))
            assert told.startswith(b"HTTP/1.1 ") and told[9:10] in b"45" and told.count(b"\r\nContent-Type: ") == 1, (lines, told)
            assert b"Connection: close" in told and not (box.tree / "ran").exists(), (lines, told)
        many = b"\r\n".join([FIRST, HOST, *[b"X: y"] * 101, b"", b""])
        for text in (many, FIRST + b"\r\nX: " + b"x" * 20_000, FIRST + b" " * 20_000):
            assert b" 431 " in server.raw(text), text[:50]
        assert b" 413 " in server.raw(b"\r\n".join(framed(b"Content-Length: 67108865", body=b"")))
        assert server.ask("/healthz")[0] == 200


def test_requests_come_in_any_pieces(box):
    pieces = b"\r\n".join(GOOD[1]) + b"\r\n".join(GOOD[0]) + b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with service(box) as server, server.connect() as line:
        for one in pieces:
            line.sendall(bytes([one]))
        told = b"".join(iter(lambda: line.recv(65536), b""))
        assert told.count(b"HTTP/1.1 200 ") == 3 and told.count(b'"outcome":"exited"') == 2, told
        assert server.raw(b"\r\n".join(framed(LENGTH, b"Expect: 100-continue", b"Connection: close"))).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")
    (box.tree / "ran").unlink()


def test_a_client_that_goes_ends_its_job_alone(box):
    marker = f"CG_MARK={box.root}"
    with service(box) as server:
        def begin(name: str) -> socket.socket:
            line = server.connect()
            body = json.dumps(bash(f": > {name}; sleep 1000", env={"CG_MARK": str(box.root)}, grace=0.1)).encode()
            line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
            harness.until((box.tree / name).exists, "the job begins")
            return line
        gone, reset = begin("one"), begin("two")
        os.mkfifo(box.tree / "fifo")
        box.own(box.tree / "fifo")
        gone.close()
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        reset.close()
        harness.until(lambda: harness.marked(marker) == [], "both jobs end")
        assert server.ask("/v1/jobs", bash("echo on"))[1]["output"] == "on\n"
        harness.until(lambda: "callgate_jobs_cancelled_total 2" in server.ask("/metrics")[1], "both are counted")


@pytest.mark.skipif(not harness.SOAK, reason="it sends 66 MiB; a long run has it, and a unit test the reader")
def test_the_end_of_a_job_waits_for_no_other_job(box):
    """However much the jobs bring that wait: whose client goes is ended."""
    marker = f"CG_MARK={box.root}"
    with service(box, "--jobs", "1") as server, contextlib.ExitStack() as others:
        def begin(job: dict[str, Any]) -> socket.socket:
            body = json.dumps(job).encode()
            line = others.enter_context(server.connect())
            line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
            return line
        first = begin(bash("sleep 1000", env={"CG_MARK": str(box.root)}, grace=0.1))
        harness.until(lambda: harness.marked(marker), "it runs")
        waiting = [begin(bash("wc -c", stdin="x" * (33 << 20))) for _ in range(2)]
        harness.until(lambda: "callgate_jobs_in_flight 3" in server.ask("/metrics")[1], "they wait")
        first.close()
        harness.until(lambda: harness.marked(marker) == [], "it ends")
        assert all(b" 200 " in line.recv(65536) for line in waiting)


def test_a_crowd_of_stalled_clients_keeps_nobody_out(box):
    """More than the front may hold, each with half a request: the longest waiting give way."""
    halves = [b"", b"P", b"\r\n".join([FIRST, HOST, b""]), b"\r\n".join([FIRST, HOST, TYPE, LENGTH, b"", RUN[:5]])]
    with service(box, before="ulimit -n 80") as server, contextlib.ExitStack() as crowd:
        for number in range(200):
            crowd.enter_context(server.connect()).sendall(halves[number % 3])
        for number in range(20):
            crowd.enter_context(server.connect()).sendall(halves[3])
        assert server.ask("/v1/jobs", bash("echo served"))[1]["output"] == "served\n"


BEHIND = 10  # seconds after which a client that hardly reads gives way (docs/http.md)


def test_bodies_that_do_not_come_keep_nobody_out(box):
    """Only what has come of a body counts, and the one that has come for longest gives way to others."""
    whole = 64 << 20
    head = b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % whole, b"", b""])
    with service(box) as server, contextlib.ExitStack() as crowd:
        stalled = [crowd.enter_context(server.connect()) for _ in range(8)]
        for one in stalled:
            one.sendall(head)
        assert server.ask("/v1/jobs", bash("echo served"))[1]["output"] == "served\n"
        for one in stalled[:3]:
            one.sendall(b" " * (whole - 1))
        with server.connect() as last:
            last.sendall(head + b" " * (whole - 1))
            for one in stalled[3:]:  # more than there is room for
                one.sendall(b" " * (1 << 20))
            assert b" 503 " in stalled[0].recv(65536)
            assert server.ask("/v1/jobs", bash("echo served"))[1]["output"] == "served\n"
            last.sendall(b"x")  # twin: this one is read whole
            assert b" 400 " in last.recv(65536)


def test_answers_that_are_hardly_read_keep_nobody_waiting(box, measured):
    """As many answers as may wait, whose clients read a little: one that waits longest is given up. Twin: it is read whole."""
    long = framed_job(bash("head -c 120000000 /dev/zero | tr '\\0' x", max_output="120M"))
    with service(box, "--max-output", "120M") as server, contextlib.ExitStack() as crowd, concurrent.futures.ThreadPoolExecutor(1) as other:
        slow = [crowd.enter_context(server.connect()) for _ in range(3)]
        for one in slow:
            one.sendall(long)
        for one in slow:
            assert one.recv(1)
        served = other.submit(server.ask, "/v1/jobs", bash("echo served"))

        def is_served() -> bool:
            for one in slow:
                with contextlib.suppress(ConnectionError):
                    one.recv(100)
            return served.done()

        began = time.monotonic()
        harness.until(is_served, "another client is answered", BEHIND * 5)
        who = "user" if box.user.uid else "root"
        measured.append(f"a client behind others that hardly read, as {who}: answered after {time.monotonic() - began:.1f} s")
        assert served.result()[1]["output"] == "served\n"

        def read_on(one: socket.socket) -> int:
            """The bytes that come, up to nearly the whole answer: its connection stays open."""
            read = 0
            with contextlib.suppress(ConnectionError):
                while read < 100_000_000 and (piece := one.recv(1 << 20)):
                    read += len(piece)
            return read

        assert max(map(read_on, slow)) >= 100_000_000


def test_lines_without_an_end_fill_no_memory(box):
    """Code in each session writes the beginning of a line in its program's place. Twin: a session that does not."""
    code = "import os; out = open('/proc/{}/fd/1', 'wb', 0); [out.write(b'x' * 1000000) for _ in range(120)]"
    write = {"command": f'python3 -c "{code.format("$PPID")}"; echo $?', "check": "silent"}
    with service(box) as server:
        def ask(path: str, session: str, **asked: Any) -> tuple[int, Any]:
            return server.ask(path, {"session": session, **asked})

        assert [ask("/create_session", one)[0] for one in "abcde"] == [200] * 5
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            told = [one.result()[0] for one in [clients.submit(ask, "/run_in_session", one, **write) for one in "abcd"]]
        assert told == [511] * 4
        assert ask("/run_in_session", "e", command="echo served")[1]["output"] == "served\n"
        assert server.front_peak() < 400 << 20


def kill_a_child(parent: int, other: int) -> None:
    """Any but `other`. One that has ended meanwhile is left alone, whoever has its number now."""
    for pid in random.sample(found := harness.children(parent), len(found)):
        with contextlib.suppress(ProcessLookupError):
            one = os.pidfd_open(pid)
            if pid != other and pid in harness.children(parent):
                signal.pidfd_send_signal(one, signal.SIGKILL)
                return


def test_each_job_has_one_answer_among_clients_that_vanish(box):
    """A third of the clients stays, a third goes at once, and a third goes while its job writes more than a socket holds. Meanwhile
    somebody kills runs."""
    def client(number: int) -> str:
        code = f"head -c 300000 /dev/zero | tr '\\0' x; echo {number} >> began; echo {number} >&2"
        body = json.dumps(bash(code, id=number, env={"CG_MARK": str(box.root)})).encode()
        with server.connect() as line:
            line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Connection: close", b"Content-Length: %d" % len(body), b"", body]))
            if number % 3:
                return str(line.recv(number % 3 - 1))
            return b"".join(iter(lambda: line.recv(65536), b"")).decode()

    with service(box, "--jobs", "4") as server, concurrent.futures.ThreadPoolExecutor(6) as clients:
        front = server.front()
        told = [clients.submit(client, number) for number in range(JOBS)]
        for turn in range(KILLS):
            harness.until(lambda turn=turn: sum(one.done() for one in told) > turn * JOBS // KILLS, "jobs have ended")
            harness.as_user(box.user, lambda: kill_a_child(server.process.pid, front))
        lost = 0
        for number in range(0, JOBS, 3):
            head, _, text = told[number].result().partition("\r\n\r\n")
            answer = check(json.loads(text))
            lost += answer["report"]["outcome"] == "supervisor_lost"
            assert answer["id"] == number and answer["report"]["outcome"] in ("exited", "supervisor_lost"), (head, answer)
            assert answer["report"]["outcome"] != "exited" or (answer["error"], len(answer["output"])) == (f"{number}\n", 300_000), head
        assert lost <= KILLS
        harness.until(lambda: "callgate_jobs_in_flight 0" in server.ask("/metrics")[1], "every job has ended")
        began = (box.tree / "began").read_text().split()
        assert len(began) == len(set(began)) and len(set(map(str, range(0, JOBS, 3))) - set(began)) <= lost, "no job ran twice"
        harness.until(lambda: harness.marked(f"CG_MARK={box.root}") == [], "nothing is left")
        assert server.ask("/healthz")[0] == 200


@contextlib.contextmanager
def many_files(wanted: int) -> Iterator[int]:
    """So many connections, or as many as there can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(wanted, (hard - 200) // 2)  # callgate-tls has two for each
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 200), hard))
    try:
        yield wanted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_crowd_is_served(box):
    with many_files(CROWD) as wanted, service(box, "--jobs", "1") as server, contextlib.ExitStack() as crowd:
        lines = [crowd.enter_context(server.connect()) for _ in range(wanted)]
        for line in lines:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert all(line.recv(15) == b"HTTP/1.1 200 OK" for line in lines)
        # All have begun to send a job when the first job comes. One runs, and 900 wait.
        body = json.dumps(bash("sleep 1000", grace=0.1)).encode()
        for line in lines[:1000]:
            line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body[:-1]]))
        for line in lines[:1000]:
            line.sendall(body[-1:])

        def told(name: str) -> int:
            return next((int(one.split()[-1]) for one in server.ask("/metrics")[1].splitlines() if one.startswith(name)), 0)

        refused = 'callgate_http_responses_total{code="503"}'
        harness.until(lambda: told("callgate_jobs_in_flight") + told(refused) == len(lines[:1000]), "each is taken or refused")
        assert told(refused) == max(0, len(lines[:1000]) - 901)


@pytest.mark.skipif(not harness.SOAK, reason="it waits for the limits of time; a long run has it")
def test_a_request_that_does_not_come_is_answered_so(box):
    with service(box) as server:
        assert server.raw(b"") == b""
        for half in (FIRST, b"\r\n".join([FIRST, HOST, TYPE, LENGTH, b"", RUN[:5]])):
            assert b" 408 " in server.raw(half)


def test_a_drain_lets_jobs_finish(box):
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    with service(box) as server, server.connect() as line, server.connect() as kept:
        assert server.ask("/healthz", over=kept)[0] == 200
        body = json.dumps(bash(": > begun; read -r x < fifo; echo $x")).encode()
        line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
        harness.until((box.tree / "begun").exists, "the job begins")
        server.process.send_signal(signal.SIGTERM)
        harness.until(lambda: server.ask("/healthz")[0] == 503, "the service drains")
        assert server.ask("/v1/jobs", bash("echo late"))[0] == 503
        assert server.process.poll() is None
        harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("finished\n"))
        assert b'"output":"finished\\n"' in b"".join(iter(lambda: line.recv(65536), b""))
        assert server.process.wait(harness.DEADLINE) == 0 and server.process.stderr.read() == b""


@pytest.mark.parametrize("how", ["second", "bound"])
def test_a_drain_ends(box, how):
    marker = f"CG_MARK={box.root}"
    with service(box, *(["--drain", "0.1s"] if how == "bound" else [])) as server, server.connect() as line:
        body = json.dumps(bash(": > begun; sleep 1000", env={"CG_MARK": str(box.root)}, grace=0.1)).encode()
        line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
        harness.until((box.tree / "begun").exists, "the job begins")
        server.process.send_signal(signal.SIGINT)
        if how == "second":
            harness.until(lambda: server.ask("/healthz")[0] == 503, "the service drains")
            server.process.send_signal(signal.SIGTERM)
        assert b'"outcome":"cancelled"' in b"".join(iter(lambda: line.recv(65536), b""))
        assert server.process.wait(harness.DEADLINE) == 0 and harness.marked(marker) == []


@pytest.mark.parametrize("killed", ["server", "front"])
def test_neither_process_outlives_the_other(box, killed):
    marker = f"CG_MARK={box.root}"
    with service(box) as server, server.connect() as line:
        body = json.dumps(bash(": > begun; sleep 1000", env={"CG_MARK": str(box.root)})).encode()
        line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
        harness.until((box.tree / "begun").exists, "the job begins")
        front = server.front()
        harness.as_user(box.user, lambda: os.kill(front if killed == "front" else server.process.pid, signal.SIGKILL))
        assert server.process.wait(harness.DEADLINE) == (125 if killed == "front" else -signal.SIGKILL)
        harness.until(lambda: harness.marked(marker) == [] and not Path(f"/proc/{front}").exists(), "everything has ended")
        assert killed == "server" or b"has ended by itself" in server.process.stderr.read()


def test_the_front_is_confined(box):
    with service(box) as server:
        front = server.front()
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{front}/status").read_text().splitlines() if ":\t" in line)
        assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapPrm"], 16), int(status["CapEff"], 16)) == ("2", "1", 0, 0)
        assert Path(f"/proc/{front}/environ").stat().st_uid == 0, "it is not dumpable"
        if os.geteuid() == 0:
            links = []
            for one in Path(f"/proc/{front}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # it may still be closing the last connection
                    links.append(os.readlink(one))
            assert links and all(one == "/dev/null" or one.startswith(("socket:", "anon_inode:[eventpoll]")) for one in links), links


LANGUAGES = {"python": ("import sys; print(input() + str(6 * 7)); print('e', file=sys.stderr)", "python3"), "bash": ("read x; echo ${x}42; echo e >&2", "bash"),
             "cpp": ("#include <iostream>\nint main() { std::string s; std::cin >> s; std::cout << s << 42 << std::endl; std::cerr << \"e\\n\"; }", "g++")}


def test_sandbox_fusion(box):
    """Its own client: tests/python/test_sandbox_fusion.py."""
    with service(box) as server:
        for language, (code, program) in LANGUAGES.items():
            if not any(os.access(f"{one}/{program}", os.X_OK) for one in box.environment()["PATH"].split(":")):
                continue
            status, told = server.ask("/run_code", {"code": code, "language": language, "stdin": "x", "unknown": 1})
            assert (status, told["status"], told["run_result"]["stdout"], told["run_result"]["stderr"]) == (200, "Success", "x42\n", "e\n"), told
            assert (told["compile_result"] is None) == (language != "cpp") and told["report"]["outcome"] == "exited"
        files = {"in/it's": "aGkA/w=="}
        code = "import os; b = open(\"in/it's\", 'rb').read(); open('out', 'wb').write(b * 2); print(len(b)); raise SystemExit(3)"
        status, told = server.ask("/run_code", {"code": code, "language": "python", "files": files, "fetch_files": ["out", "none", "in/it's"]})
        assert (told["status"], told["run_result"]["return_code"], told["run_result"]["stdout"]) == ("Failed", 3, "4\n"), told
        assert told["files"] == {"out": "aGkA/2hpAP8=", "in/it's": files["in/it's"]}
        late = {"code": "print('begun', flush=True)\nwhile True: pass", "language": "python"}
        for more in ({}, {"fetch_files": ["main.py"]}):
            told = with_time(lambda seconds, more=more: server.ask("/run_code", {**late, **more, "run_timeout": seconds})[1],
                             lambda told: told["run_result"]["stdout"])
            assert (told["status"], told["run_result"]["status"], told["run_result"]["return_code"]) == ("Failed", "TimeLimitExceeded", None), told
            assert told["run_result"]["stdout"] == "begun\n" and set(told["files"]) == set(more.get("fetch_files", ()))
        for asked, status, word in (({"language": "cobol", "code": ""}, 501, "cobol"), ({"language": "python"}, 400, "needed"),
                                    ({**late, "run_timeout": -1}, 400, "seconds"), ({**late, "files": {"a": "%"}}, 400, "base64")):
            told = server.ask("/run_code", asked)
            assert told[0] == status and word in told[1]["error"], told
        status, told = server.ask("/run_jupyter", {"cells": []})
        assert status in (200, 501) and (status == 200 or "ipython" in told["error"])


def test_input_by_http(box):
    """The path for input is told to the job's own client alone. A job that does not read holds up its sender, and nobody else."""
    def begin(line: socket.socket, code: str, **more: Any) -> tuple[Any, str]:
        body = json.dumps(bash(code, stream=True, stdin_open=True, **more)).encode()
        line.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
        events = line.makefile("rb")
        told = next(one for one in events if one.startswith(b"data: "))
        return events, json.loads(told[6:])["input"]

    def next_data(events: Any) -> dict[str, Any]:
        return json.loads(next(one for one in events if one.startswith(b"data: "))[6:])

    with service(box) as server, server.connect() as line, server.connect() as deaf, server.connect() as sender:
        events, path = begin(line, "while read -r x; do echo $((x*2)); done; echo over", stdin="1\n")
        assert next_data(events) == {"text": "2\n"}
        assert server.ask(path, {"text": "21\n"}) == (200, {"written": True}) and next_data(events) == {"text": "42\n"}
        for wrong, status in (({"txt": "a"}, 400), ({}, 400), ({"input": 1, "text": "a"}, 400), ({"base64": "%"}, 400)):
            assert server.ask(path, wrong)[0] == status, wrong
        assert server.ask("/v1/jobs/" + "0" * 32 + "/input", {"text": "a"})[0] == 404
        deaf_events, deaf_path = begin(deaf, "echo deaf; sleep 1000", timeout=900, grace=0.1, env={"CG_MARK": str(box.root)})
        assert next_data(deaf_events) == {"text": "deaf\n"} and deaf_path != path
        body = json.dumps({"text": "x" * (10 << 20)}).encode()
        sender.sendall(b"\r\n".join([b"POST %b HTTP/1.1" % deaf_path.encode(), HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
        harness.until(lambda: server.ask(deaf_path, {"text": "x" * (10 << 20)})[0] == 422, "16 MiB wait, and the next is refused")
        assert server.ask(path, {"text": "4\n", "end": True})[0] == 200
        last = []
        while "report" not in (one := next_data(events)):
            last.append(one["text"])
        assert "".join(last) == "8\nover\n" and one["output"] == "2\n42\n8\nover\n"
        assert server.ask(path, {"text": "late"})[0] == 404
        # The input that many jobs do not read is bounded, too.
        with contextlib.ExitStack() as others:
            body = json.dumps({"text": "x" * (60 << 20)}).encode()

            def offer(path: str) -> socket.socket:
                made = others.enter_context(server.connect())
                with contextlib.suppress(ConnectionError):
                    made.sendall(b"\r\n".join([b"POST %b HTTP/1.1" % path.encode(), HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
                return made

            def taken_or_full() -> str:
                nonlocal offered
                status, told = server.ask(path, {"text": "x"})
                if select.select([offered], [], [], 0)[0]:  # it gave way to others
                    offered = offer(path)
                return told["error"] if status == 422 or "too many jobs wait" in str(told) else ""

            deafs = [begin(others.enter_context(server.connect()), "sleep 1000", timeout=900, env={"CG_MARK": str(box.root)}, grace=0.1)[1] for _ in range(6)]
            said = []
            for path in deafs:
                offered = offer(path)
                said.append(harness.until(taken_or_full, "the input is taken or refused"))
            assert "too many jobs wait" in said[-1] and "16 MiB" in said[0], said
        harness.until(lambda: server.ask("/v1/jobs", bash("true"))[0] == 200, "with their jobs, what waited for them has gone")
        deaf.shutdown(socket.SHUT_RDWR)
        assert sender.recv(65536).startswith(b"HTTP/1.1 422 ")
        assert server.ask("/v1/jobs", bash("cat", stdin_open=True))[0] == 400
        harness.until(lambda: harness.marked(f"CG_MARK={box.root}") == [], "nothing is left")


# A module that another job left in the work directory, and that answers in place of the service's program.
PLANTED = b"import os; os.write(1, b'{}\\n'); os._exit(0)\n"


@pytest.mark.parametrize("path", [":/nowhere", "{tree}"])
def test_no_module_of_a_job_answers_for_another(box, path):
    """The profile python passes PYTHONPATH on, and an empty part of it is the directory in which a job starts."""
    meant = path.format(tree=box.tree)
    box.file(box.root / "content", b"as it is")
    with service(box, "-p", "python", "-r", str(box.root / "content"), before=f"export PYTHONPATH={meant}") as server:
        for name in ("json", "encodings"):  # by the program, and by Python before it
            planted = f"open({str(box.tree / (name + '.py'))!r}, 'w').write({PLANTED.decode()!r})"
            assert server.ask("/v1/jobs", {"command": ["/usr/bin/python3", "-I", "-c", planted]})[1]["exit_code"] == 0
            control = server.ask("/v1/jobs", {"code": "import json, base64; print('imported')"})[1]
            assert control["output"] == "{}\n" or name == "encodings" and control["exit_code"] == 1, control
            told = server.ask("/read_file", {"path": str(box.root / "content")})
            assert told[0] == 200 and told[1]["content"] == "as it is", told
            told = server.ask("/filesystem.Filesystem/Stat", {"path": str(box.root / "content")}, {**JSON, "E2b-Sandbox-Id": "one"})
            assert told[0] == 200 and told[1]["entry"]["size"] == "8", told
            assert server.ask("/create_session", {})[0] == 200
            told = server.ask("/run_in_session", {"command": "echo $PYTHONPATH"})
            assert told[0] == 200 and told[1]["output"] == f"{meant}\n", told
            assert server.ask("/close_session", {})[0] == 200
            (box.tree / f"{name}.py").unlink()


def test_e2b(box):
    """Its own clients: tests/python/test_e2b.py."""
    sandbox = {"E2b-Sandbox-Id": "one"}
    (box.tree / "leads").symlink_to("/etc/shadow")
    box.file(box.tree / "json.py", PLANTED)

    def framed(asked: dict[str, Any] | bytes) -> bytes:
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        return b"\0" + len(body).to_bytes(4, "big") + body

    with service(box) as server:
        def call(name: str, asked: dict[str, Any] | bytes, **more: str) -> tuple[int, Any]:
            return server.ask(name, asked, {**JSON, **sandbox, **more})

        def start(body: bytes, **more: str) -> Any:
            """The events of a process, or the status and the error."""
            line = http.client.HTTPConnection("localhost")
            line.sock = server.connect()
            line.request("POST", "/process.Process/Start", body, {"Content-Type": "application/connect+json", **sandbox, **more})
            answer = line.getresponse()
            text, events = answer.read(), []
            line.close()
            while text:
                size = int.from_bytes(text[1:5], "big")
                events.append((text[0], json.loads(text[5:5 + size])))
                text = text[5 + size:]
            error = events[0][1].get("error") if len(events) == 1 else None
            return ({"invalid_argument": 400, "unimplemented": 501}[error["code"]], error) if error else events

        def process(*command: str, **more: Any) -> bytes:
            return framed({"process": {"cmd": command[0], "args": command[1:]}, **more})

        ran = start(process("sh", "-c", "cat /etc/shadow; exit 3", stdin=False))
        assert [one[0] for one in ran if one[0]] == [2] and "start" in ran[0][1]["event"] and ran[-1] == (2, {}) and "error" not in ran[-2][1]["event"]["end"]
        end = ran[-2][1]["event"]["end"]
        assert end["exitCode"] == 3 and any("/etc/shadow" in str(one) for one in end["report"]["denials"]), end
        late = start(process("sleep", "1000", stdin=False), **{"Connect-Timeout-Ms": "1"})
        assert late[-1][0] == 2 and late[-1][1]["error"]["code"] == "deadline_exceeded" and late[-1][1]["report"]["outcome"] == "timeout"
        good = process("true")
        for wrong in (b"", good[:4], good[:-1], good + b"x", b"\1" + good[1:], b"\2" + good[1:], b"\0\xff\xff\xff\xff{}", framed(b"[]"), framed(b"{"),
                      framed(b'{"process":{"cmd":"true"},"process":{}}'), framed({"process": {"cmd": 7}}), framed({"process": {"cmd": "a\0b"}}),
                      framed({"process": {"cmd": "true"}, "stdin": "no"}), framed({"process": {"cmd": "true", "args": "x"}}), framed({"process": {"cmd": "true", "setuid": 0}}), framed({})):
            told = start(wrong)
            assert told[0] == 400 and told[1]["code"] == "invalid_argument" and told[1]["message"], (wrong, told)
        for told in (start(process("true", pty={})), start(good, Authorization="Basic cm9vdDo="), call("/process.Process/Start", {}),
                     call("/process.Process/Connect", {}), call("/filesystem.Filesystem/CreateWatcher", {}), call("/contexts/a/restart", {}),
                     call("/execute", {"code": "1", "language": "r"}), call("/sandboxes", {"templateID": "base", "envVars": {"A": "b"}})):
            assert told[0] == 501 and told[1]["code"] == "unimplemented" and told[1]["message"], told
        # Only what E2B's clients started is named by its pid, and only to its own sandbox. The number of a job is no secret.
        with server.connect() as other, server.connect() as line:
            body = json.dumps(bash("echo begun; read -r x; echo $x", stream=True, stdin_open=True)).encode()
            other.sendall(b"\r\n".join([FIRST, HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
            harness.until(lambda: b"begun" in other.recv(65536), "a job runs")
            for number in range(1, 40):
                its = {"process": {"pid": number}}
                assert call("/process.Process/SendInput", {**its, "input": {"stdin": "Cg=="}})[0] == 404
                assert call("/process.Process/SendSignal", {**its, "signal": "SIGNAL_SIGTERM"})[0] == 404
            body = process("sh", "-c", "echo begun; cat", "long" * 5000)
            line.sendall(b"\r\n".join([b"POST /process.Process/Start HTTP/1.1", HOST, b"Content-Type: application/connect+json", b"E2b-Sandbox-Id: one",
                                       b"Content-Length: %d" % len(body), b"", body]))
            harness.until(lambda: b"YmVndW4K" in line.recv(65536), "the process has begun")
            [known] = call("/process.Process/List", {})[1]["processes"]
            assert known["config"] == {"cmd": "sh"}, "what is kept is bounded"
            assert call("/process.Process/List", {}, **{"E2b-Sandbox-Id": "two"})[1] == {"processes": []}
            its = {"process": {"pid": known["pid"]}}
            for wrong, code in (({**its, "input": {"stdin": "%"}}, 400), ({**its, "input": {}}, 400), ({"process": {"pid": -1}}, 400), ({"process": {"pid": 1 << 40}, "input": {"stdin": ""}}, 404)):
                assert call("/process.Process/SendInput", wrong)[0] == code, wrong
            assert call("/process.Process/SendSignal", {**its, "signal": "SIGNAL_SIGKILL"}, **{"E2b-Sandbox-Id": "two"})[0] == 404
            assert call("/process.Process/SendInput", {**its, "input": {"stdin": "Z28K"}})[0] == 200
            harness.until(lambda: b"Z28K" in line.recv(65536), "it has the input")
            assert call("/process.Process/SendSignal", {**its, "signal": "SIGNAL_SIGKILL"}) == (200, {})
            assert b'"outcome":"cancelled"' in b"".join(iter(lambda: line.recv(65536), b""))
        # Each of these is one job, which the rules hold.
        octets = {"Content-Type": "application/octet-stream", **sandbox}
        for path, body, status in (("/files?path=leads", None, 403), ("/files?path=../../../../../../etc/planted", b"", 403),
                                   ("/files?path=a%00b", None, 400), ("/files?path=a&username=root", None, 501)):
            told = server.ask(path, body, octets)
            assert told[0] == status and told[1]["code"] == status and told[1]["message"], (path, told)
        cut = b'--a\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n'
        assert server.ask("/files?path=x", cut, {"Content-Type": "multipart/form-data; boundary=a", **sandbox})[0] == 400
        assert server.ask("/files?path=x", b"--a\r\n", {"Content-Type": "multipart/form-data; boundary=a"})[0] == 415, "a page could send it"
        os.mkfifo(box.tree / "fifo")
        box.own(box.tree / "fifo")
        assert [server.ask("/files?path=fifo", body, octets)[0] for body in (None, b"x")] == [400, 400], "it is waited for by neither"
        assert server.ask("/files?path=file", b"x", octets)[0] == 200 and server.ask("/files?path=file", None, octets) == (200, "x")
        for name in ("fifo", "file"):
            (box.tree / name).unlink()
        told = call("/filesystem.Filesystem/Move", {"source": "leads", "destination": "/etc/planted"})
        assert told[0] == 403 and told[1]["code"] == "permission_denied" and told[1]["report"]["denials"], told
        assert sorted(one.name for one in box.tree.iterdir()) == ["json.py", "leads"] and not os.path.lexists("/etc/planted")
        status, told = call("/execute", {"code": "import subprocess; print(6 * 7); subprocess.run(['cat', '/etc/shadow']).returncode"})
        lines = [json.loads(one) for one in told.splitlines()] if isinstance(told, str) else told
        assert status == 200 and {(one["type"], one.get("text")) for one in lines} >= {("stdout", "42\n"), ("result", "1"), ("end_of_execution", None)}, lines
        assert any("denied" in one.get("text", "") for one in lines if one["type"] == "stderr"), lines
        for wrong in ({"code": 1}, {"code": "1", "env_vars": []}, {"code": "1", "context_id": 7}, {"code": "1", "more": 1}):
            assert call("/execute", wrong)[0] == 400, wrong
        assert call("/execute", {"code": "1", "context_id": "x\ny"})[0] == 404
        # A cell that writes a deeply nested value among what the program tells ends no service.
        deep = "import gc, io\nfor one in gc.get_objects():\n  if isinstance(one, io.FileIO) and one.mode == 'wb': one.write(b'{\"type\":' + b'[' * 300000 + b']' * 300000 + b'}\\n')"
        status, told = call("/execute", {"code": deep})
        assert status == 200 and '"end_of_execution"' in str(told) and server.ask("/healthz")[0] == 200
        line = http.client.HTTPConnection("localhost")
        line.sock = server.connect()
        line.request("DELETE", "/contexts/default", headers=sandbox)
        assert any("/etc/shadow" in str(one) for one in json.loads(line.getresponse().read())["report"]["denials"])
        line.close()


def test_swe_rex(box):
    """Its own client: tests/python/test_swe_rex.py."""
    os.mkfifo(box.tree / "fifo")
    box.own(box.tree / "fifo")
    mark = f"CG_MARK={box.root}"
    box.file(box.tree / "secrets.py", PLANTED)
    with service(box, "--jobs", "3") as server:
        def ask(path: str, asked: dict[str, Any] | bytes, number: str | None = None) -> tuple[int, Any]:
            return server.ask(path, asked, {**JSON, **({"X-Request-ID": number} if number else {})})

        def exception(told: tuple[int, Any]) -> str:
            assert told[0] == 511, told
            return told[1]["swerexception"]["class_path"].rpartition(".")[2]

        assert server.ask("/is_alive") == (200, {"is_alive": True, "message": ""})
        for wrong in (b"{", b"[]", b'{"session":7}', b'{"session":"a","session":"b"}'):
            assert ask("/create_session", wrong)[0] == 400, wrong
        assert server.ask("/upload", b"--a\r\n", {"Content-Type": "multipart/form-data; boundary=a"})[0] == 415, "a page could send it"
        assert exception(ask("/run_in_session", {"command": "true", "session": "none"})) == "SessionDoesNotExistError"
        # Twice the same request, whose first client goes before the answer: one run, one answer.
        once = json.dumps({"command": "echo >> count; : > begun; read -r x < fifo; wc -l < count", "shell": True, "timeout": 20}).encode()
        with server.connect() as gone:
            gone.sendall(b"\r\n".join([b"POST /execute HTTP/1.1", HOST, TYPE, b"X-Request-ID: one", b"Content-Length: %d" % len(once), b"", once]))
            harness.until((box.tree / "begun").exists, "the command begins")
        with concurrent.futures.ThreadPoolExecutor(2) as clients:
            again = [clients.submit(ask, "/execute", once, "one") for _ in range(2)]
            harness.until(lambda: "callgate_http_connections 3" in server.ask("/metrics")[1], "both wait")
            harness.as_user(box.user, lambda: (box.tree / "fifo").write_text("on\n"))
            assert {(one.result()[0], one.result()[1].get("stdout")) for one in again} == {(200, "1\n")}
        assert ask("/execute", once, "one")[1]["report"]["outcome"] == "exited" and (box.tree / "count").read_text() == "\n"
        # A job that writes a deeply nested value in place of its answer ends no service.
        deep = r"""python3 -c 'print("{\"a\":" + "[" * 300000 + "]" * 300000 + "}")' > /proc/$PPID/fd/1; kill -9 $PPID"""
        assert exception(ask("/execute", {"command": deep, "shell": True})) == "SwerexException"
        # A job has made a FIFO where a client reads and writes: neither waits for it. Twin: a link to a file.
        box.file(box.tree / "file", b"old")
        (box.tree / "leads").symlink_to("file")
        parts = 'Content-Disposition: form-data; name="{}"; filename="x"\r\n\r\n{}\r\n--b'
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        for name, told in (("fifo", "ValueError"), ("leads", None)):
            upload = f"--b\r\n{parts.format('target_path', box.tree / name)}\r\n{parts.format('file', 'up')}--\r\n".encode()
            answers = [ask("/read_file", {"path": name}), ask("/write_file", {"path": name, "content": "new"}),
                       server.ask("/upload", upload, {**form, "X-Request-ID": name})]
            assert [exception(one) if told else one[0] for one in answers] == [told or 200] * 3, answers
        assert answers[0][1]["content"] == "old" and (box.tree / "file").read_text() == "up"
        for name, told in (("fifo", "ValueError"), ("../leads", None)):  # a name leads nowhere above, as ZipFile.extract has it
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                for one in ("first/", "first/file", name):
                    archive.writestr(one, "packed")
            upload = f"--b\r\n{parts.format('target_path', box.tree)}\r\n{parts.format('unzip', 'true')}\r\n".encode()
            upload += b'Content-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + packed.getvalue() + b"\r\n--b--\r\n"
            answer = server.ask("/upload", upload, {**form, "X-Request-ID": f"zip {name}"})
            assert (exception(answer) if told else answer[0]) == (told or 200), answer
        assert (box.tree / "first/file").read_text() == "packed" == (box.tree / "file").read_text() and (box.tree / "leads").is_symlink()
        assert exception(ask("/execute", {"command": "cat fifo", "shell": True, "timeout": 0.3})) == "CommandTimeoutError", "control"
        assert ask("/create_session", {"session": "a"})[0] == 200
        assert exception(ask("/create_session", {"session": "a"})) == "SessionExistsError"
        assert ask("/create_session", {"session": "b"})[0] == 200 and ask("/create_session", {"session": "c"})[0] == 503
        # A session may have no name. Each such request was a job that nobody could end, and took the place that is kept.
        assert ask("/create_session", {"session": ""}, "nameless")[0] == 503 and ask("/close_session", {"session": "b"})[0] == 200
        assert ask("/create_session", {"session": ""})[0] == 200 and exception(ask("/create_session", {"session": ""})) == "SessionExistsError"
        assert ask("/run_in_session", {"command": "echo on", "session": ""})[1]["output"] == "on\n"
        assert ask("/close_session", {"session": ""})[0] == 200 and "callgate_jobs_in_flight 1\n" in server.ask("/metrics")[1]
        assert ask("/create_session", {"session": "b"})[0] == 200
        with concurrent.futures.ThreadPoolExecutor(2) as clients:
            both = [clients.submit(ask, "/run_in_session", {"command": f"echo {one}", "session": "a"}) for one in range(2)]
            assert [one.result()[1]["output"] for one in both] == ["0\n", "1\n"]
        assert exception(ask("/run_in_session", {"command": "x" * 3_000_000, "session": "a"})) == "NonZeroExitCodeError"
        # A command that writes very many values in place of its answer fills no memory of the service. Twin: some values.
        for count, told in ((1000, 200), (20_000_000, 511)):
            large = f"""python3 -c 'print("{{\\"a\\":[" + "[]," * {count} + "0]}}")' > /proc/$PPID/fd/1; sleep 1000"""
            assert ask("/run_in_session", {"command": large, "session": "a"})[0] == told
            assert ask("/close_session", {"session": "a"})[0] == 200 and ask("/create_session", {"session": "a"})[0] == 200
        assert server.front_peak() < 600 << 20
        assert exception(ask("/run_in_session", {"command": "exec 3>&-; exit", "session": "b"})) == "EOF"
        harness.until(lambda: exception(ask("/run_in_session", {"command": "true", "session": "b"})) == "SessionDoesNotExistError", "it has ended")
        told = ask("/run_in_session", {"command": f"export {mark}; sleep 1000 & cat /etc/shadow", "session": "a", "check": "silent"})
        assert told[1]["exit_code"] == 1 and "denied" in told[1]["output"], told
        harness.until(lambda: harness.marked(mark), "what it left runs")
        with server.connect() as stuck:
            body = json.dumps({"command": "sleep 1000", "session": "a"}).encode()
            stuck.sendall(b"\r\n".join([b"POST /run_in_session HTTP/1.1", HOST, TYPE, b"Content-Length: %d" % len(body), b"", body]))
            harness.until(lambda: len(harness.marked(mark)) >= 2, "the command runs")
            told = ask("/close_session", {"session": "a"})
            assert told[0] == 200 and any("/etc/shadow" in str(one) for one in told[1]["report"]["denials"]), told
            assert b" 511 " in stuck.recv(65536) and harness.marked(mark) == []
        assert exception(ask("/close_session", {"session": "a"})) == "SessionDoesNotExistError"
        assert ask("/create_session", {})[0] == 200 and ask("/run_in_session", {"command": f"export {mark}; setsid sleep 1000 &"})[0] == 200
        assert server.end() == (0, b"") and harness.marked(mark) == [], "the end of the service ends sessions"


@pytest.mark.parametrize("policy", [(), ("-p", "agent")], ids=["open", "policy"])
def test_a_sender_chooses_no_work_directory_outside_the_service_s_own_under_a_policy(box, policy):
    """`${workdir}` in the policy's rules means what the job names."""
    outside, below = box.directory(box.root / "outside"), box.directory(box.tree / "below")
    (outside / "notes").write_text("a note")
    (box.tree / "leads-out").symlink_to(outside)
    service = Service(box, *policy, before=f"cd {box.tree}")
    for place in (str(outside), "leads-out", "../outside", f"{box.tree}/../outside", "below/../../outside", "~", "/", "/etc"):
        if policy or place == str(outside):
            status, answer = service.ask("/v1/jobs", {"language": "bash", "code": "cat notes; echo x > left", "workdir": place})
            assert (status == 422 and "workdir" in answer["error"]) if policy else answer.get("output") == "a note", (place, status, answer)
    assert (outside / "left").exists() != bool(policy)
    for place in (str(below), "below", str(box.tree), "."):
        status, answer = service.ask("/v1/jobs", {"language": "bash", "code": "pwd; echo x > left", "workdir": place})
        assert status == 200 and answer["exit_code"] == 0, (place, answer)
    assert (below / "left").exists()
    if policy:  # nor by a link that another job made
        assert service.ask("/v1/jobs", bash("ln -s ../outside link"))[1]["exit_code"] == 0
        status, answer = service.ask("/v1/jobs", {**bash("cat notes"), "workdir": "link"})
        assert status == 422 and "workdir: under" in answer["error"], answer
    assert service.end()[0] == 0


def test_a_service_in_the_home_has_no_work_directory_for_jobs_under_a_policy(box):
    (box.home / "below").mkdir()
    service = Service(box, "-p", "agent", before=f"cd {box.home}")
    status, answer = service.ask("/v1/jobs", {"language": "bash", "code": "pwd", "workdir": str(box.home / "below")})
    assert status == 422 and "project's directory" in answer["error"], answer
    assert service.end()[0] == 0
