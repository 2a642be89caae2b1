"""Real programs, run bare and supervised in the same fresh place, and what they left compared.

Each directory of tests/e2e/programs/ is one program: `run.sh` is what is run (by bash, with the directory's copy as the
work directory, in a home of its own), `prepare.sh`, where there is one, runs bare before it. Both runs happen at the
same path, one after the other, so that paths in the output and in build results are equal too.
"""
from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import http.server
import os
import re
import shutil
import socket
import stat
import threading
from pathlib import Path

import pytest

import harness

PROGRAMS = Path(__file__).parent / "programs"
# The distribution's programs only: those in root's home are not there for an ordinary user.
PATH = "/usr/local/bin:/usr/bin:/bin"
# A hang ends the test; an honest run on a slow machine does not.
PATIENCE = 600.0


@dataclasses.dataclass(frozen=True)
class Program:
    """One directory of programs/.

    `varying`: files whose content differs from run to run, also bare; `gone`: trees whose very names do. `denied`: what
    is asked for in passing and denied (`OPERATION OBJECT`), without effect on the result. `status`: how it ends, bare.
    """

    name: str
    needs: tuple[str, ...]
    varying: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    status: int = 0

    def __str__(self) -> str:
        return self.name


def missing(names: tuple[str, ...]) -> list[str]:
    """Those of `names` that no package provides to everybody."""

    def provided(name: str) -> bool:
        found = shutil.which(name, path=PATH)
        return found is not None and Path("/root") not in Path(found).resolve().parents

    return [name for name in names if not provided(name)]


def require(*names: str) -> None:
    """Skips the test, with the names, where programs are missing."""
    absent = missing(names)
    if absent:
        pytest.skip(f"missing: {', '.join(absent)} (./dev deps installs them)")


class Place:
    """A home with a work directory in it, made anew for each of the two runs."""

    def __init__(self, box: harness.Box) -> None:
        self.box = box
        self.work = box.home / "work"

    def renew(self, program: str | None = None) -> None:
        shutil.rmtree(self.box.home)
        self.box.home.mkdir()
        if program is None:
            self.work.mkdir()
        else:
            shutil.copytree(PROGRAMS / program, self.work, ignore=shutil.ignore_patterns("__pycache__"))
        for directory, _, files in os.walk(self.box.home):
            for path in (directory, *(os.path.join(directory, one) for one in files)):
                self.box.own(Path(path))
        if (self.work / "prepare.sh").exists():
            done = self.run(["bash", "prepare.sh"], supervised=False)
            assert done.code == 0, done.describe()

    def run(self, command: list[str], **keywords) -> harness.Result:
        keywords.setdefault("timeout", PATIENCE)
        return self.box.run(command, cwd=self.work, env={"PATH": PATH}, **keywords)

    def contents(self, program: Program) -> dict[str, str]:
        """Each path beneath the work directory: kind, mode, owner, links, and what it holds."""
        found: dict[str, str] = {}
        for directory, directories, files in os.walk(self.work):
            for path in (Path(directory, one) for one in (*directories, *files)):
                name = str(path.relative_to(self.work))
                if not any(fnmatch.fnmatch(name, pattern) for pattern in program.gone):
                    varying = any(fnmatch.fnmatch(name, pattern) for pattern in program.varying)
                    found[name] = describe(path, varying)
        return found


def describe(path: Path, varying: bool) -> str:
    status = path.lstat()
    line = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{line} -> {os.readlink(path)}"
    if not stat.S_ISREG(status.st_mode) or varying:
        return line
    return f"{line} links {status.st_nlink} {status.st_size} bytes {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def differences(bare: dict[str, str], supervised: dict[str, str]) -> str:
    return "\n".join(
        f"{name}: bare {bare.get(name, 'absent')}, supervised {supervised.get(name, 'absent')}"
        for name in sorted(bare.keys() | supervised.keys())
        if bare.get(name) != supervised.get(name)
    )


# What a clock wrote, and callgate's own lines (the footer).
REWRITES = ((r"\b\d+(\.\d+)? ?(ms|s|secs?)\b", "TIME"), (r"^callgate: .*\n", ""))


def cleaned(output: bytes) -> str:
    text = output.decode("utf-8", "backslashreplace")
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def unexpected(program: Program, result: harness.Result) -> list[str]:
    """Denials that `program` does not name: a user would have to read about each."""
    assert result.report is not None, result.describe()
    denials = [f"{one['operation']} {one['object']}" for one in result.report["denials"]]
    return [one for one in denials if not any(re.fullmatch(pattern, one) for pattern in program.denied)]


class Server(threading.Thread):
    """A loopback HTTP server of the test; `requests` are those that arrived."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.requests: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                if self.path == "/missing":
                    self.send_error(404)
                    return
                self.answer(bytes(range(256)) * 4000 if self.path == "/data" else f"this is {self.path}\n".encode())

            def do_POST(self) -> None:
                outer.requests.append(self.path)
                self.answer(self.rfile.read(int(self.headers["Content-Length"])))

            def answer(self, body: bytes) -> None:
                self.send_response_only(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def run(self) -> None:
        self.server.serve_forever(0.05)

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.join()


def free_port() -> int:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
