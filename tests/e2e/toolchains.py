"""Real programs, run bare and supervised in the same fresh place, and what they left compared.

Each directory of tests/e2e/programs/ is one program. bash runs `run.sh`, with the directory's copy as the work directory, in
a home of its own. `prepare.sh`, if there is one, runs bare before it. All runs happen at the same path, one after the other,
so that paths in the output and in build results are equal too. `compare` runs a program bare and then once in each of
`VARIANTS`.
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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import harness

PROGRAMS = Path(__file__).parent / "programs"
# The distribution's programs only: those in root's home are not there for an ordinary user.
PATH = "/usr/local/bin:/usr/bin:/bin"
# A hang ends the test; an honest run on a slow machine does not.
PATIENCE = 600.0
REPETITIONS = 3 if harness.SOAK else 1

# A deny rule holds beneath every hierarchy, at any depth, so Landlock can grant none for reading or writing. The supervisor
# then decides each open, rename, connect and so on, and performs it on behalf. It judges each executed program before and
# after.
CONTESTED: dict[str, Any] = {
    "version": 1,
    "rules": [
        {"id": "contested.files", "deny": ["read", "write"], "path": "**/no-such-secret"},
        {"id": "contested.programs", "deny": "execute", "path": "**/no-such-secret"},
        {"id": "contested.sockets", "deny": ["connect", "bind"], "unix": ["**/no-such-secret", "@no-such-secret"]},
        {"id": "contested.addresses", "deny": ["connect", "bind"], "address": "192.0.2.77"},
    ],
}
# The rules that a user runs with, and the same with nothing left to Landlock alone.
VARIANTS: dict[str, dict[str, Any] | None] = {"as shipped": None, "contested": CONTESTED}

# (program, user, seconds bare, seconds in each variant): printed at the end of the session.
TIMES: list[tuple[str, str, float, list[float]]] = []


@dataclasses.dataclass(frozen=True)
class Program:
    """A directory of programs/.

    `varying`: files whose content differs from run to run, also bare; `gone`: trees whose very names do. `denied`: requests
    that are denied without effect on the result (`OPERATION OBJECT`). `status`: its exit status, bare. `profile`, `options`:
    a user's choice for it. `rewrites`: patterns of the output that a clock or a number made. `traces`: it executes programs
    that it traces. That is denied if execution is contested, because the second judgement needs the trace itself.
    """

    name: str
    needs: tuple[str, ...]
    varying: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    status: int = 0
    profile: str = "agent"
    options: tuple[str, ...] = ()
    rewrites: tuple[tuple[str, str], ...] = ()
    traces: bool = False

    def __str__(self) -> str:
        return self.name


def missing(names: tuple[str, ...]) -> list[str]:
    """The programs or files among `names` that no package provides to everybody."""

    def provided(name: str) -> bool:
        if name.startswith("/"):
            return Path(name).exists()
        found = shutil.which(name, path=PATH)
        return found is not None and Path("/root") not in Path(found).resolve().parents

    return [name for name in names if not provided(name)]


def require(*names: str) -> None:
    """Skips the test, with the names, where programs are missing; the machine that decides must lack none."""
    absent = missing(names)
    if absent and os.environ.get("CALLGATE_NO_SKIPS") == "1":
        pytest.fail(f"missing: {', '.join(absent)}, and CALLGATE_NO_SKIPS=1 says that nothing may be")
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
        """Each path beneath the work directory: kind, mode, owner, extended attributes, links, and what it holds."""
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
    for name in sorted(os.listxattr(path)):
        line += f" {name}={hashlib.sha256(os.getxattr(path, name)).hexdigest()[:8]}"
    if not stat.S_ISREG(status.st_mode) or varying:
        return line
    return f"{line} links {status.st_nlink} {status.st_size} bytes {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def differences(bare: dict[str, str], supervised: dict[str, str]) -> str:
    return "\n".join(
        f"{name}: bare {bare.get(name, 'absent')}, supervised {supervised.get(name, 'absent')}"
        for name in sorted(bare.keys() | supervised.keys())
        if bare.get(name) != supervised.get(name)
    )


# Text that a clock wrote, and callgate's own lines (the footer).
REWRITES = ((r"\b\d+(\.\d+)? ?(ms|s|secs?)\b", "TIME"), (r"^callgate: .*\n", ""))


def cleaned(output: bytes, *rewrites: tuple[str, str]) -> str:
    text = output.decode("utf-8", "backslashreplace")
    for pattern, replacement in (*REWRITES, *rewrites):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def unexpected(program: Program, result: harness.Result) -> list[str]:
    """Denials that `program` does not name: a user would have to read about each."""
    assert result.report is not None, result.describe()
    denials = [f"{one['operation']} {one['object']}" for one in result.report["denials"]]
    return [one for one in denials if not any(re.fullmatch(pattern, one) for pattern in program.denied)]


def rule_options(box: harness.Box, program: Program, more: dict[str, Any] | None) -> list[str]:
    """The options that choose the rules of one run: the default if `program` asks for no other."""
    if more is None:
        return [] if program.profile == "agent" else ["-p", program.profile]
    if program.traces:
        more = {**more, "rules": [one for one in more["rules"] if one.get("deny") != "execute"]}
    return ["-p", program.profile, "-R", str(box.rules_file(more))]


def compare(box: harness.Box, program: Program, arguments: Sequence[str] = (), options: Sequence[str] = (),
            abi: int | None = None) -> Place:
    """Runs `program` bare and in each variant at the same place: status, output and files are equal. The place is left
    as the last run left it. `abi`: under an older Landlock."""
    require("bash", *program.needs)
    place = Place(box)
    command = ["bash", "run.sh", *arguments]
    bare, seconds = timed(place, program, command, supervised=False)
    before = place.contents(program)
    assert bare.code == program.status, f"the control itself failed\n{bare.describe()}"
    TIMES.append((program.name, box.user.kind, seconds, []))
    if abi is not None:
        box.switch(abi=abi)
    for name, more in VARIANTS.items():
        rules = rule_options(box, program, more)
        for _ in range(REPETITIONS):
            supervised, seconds = timed(place, program, command, options=[*rules, *program.options, *options])
            after = place.contents(program)
            shown = f"variant: {name}\n{supervised.describe()}\n--- bare\n{bare.text[-4000:]}\n{bare.errors[-4000:]}"
            assert supervised.code == bare.code, shown
            assert cleaned(supervised.out, *program.rewrites) == cleaned(bare.out, *program.rewrites), shown
            assert cleaned(supervised.err, *program.rewrites) == cleaned(bare.err, *program.rewrites), shown
            assert not unexpected(program, supervised), f"{unexpected(program, supervised)}\n{shown}"
            assert not differences(before, after), f"{differences(before, after)}\n{shown}"
        TIMES[-1][3].append(seconds)
    return place


def timed(place: Place, program: Program, command: list[str], **keywords) -> tuple[harness.Result, float]:
    """Runs the program once in a fresh place, and gives the seconds it took."""
    place.renew(program.name)
    start = time.monotonic()
    return place.run(command, **keywords), time.monotonic() - start


def time_table() -> list[str]:
    """How long each program took, bare and in each variant: one line a program and user."""
    columns = ("bare", *VARIANTS)
    rows = [
        f"{name:16} {user:5}" + "".join(f"{seconds:12.2f}" for seconds in (bare, *supervised))
        for name, user, bare, supervised in TIMES
    ]
    return [f"{'program':16} {'user':5}" + "".join(f"{name:>12}" for name in columns), *rows] if rows else []


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
