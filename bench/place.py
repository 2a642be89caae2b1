"""The place of the bench: a home, a work directory, a static tree and rule sets of its own, and how commands run there."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


class Failure(Exception):
    """Something could not be measured."""


class Place:
    def __init__(self, build: Path, root: Path) -> None:
        self.crowd = build / "bench/crowd"
        self.make_log = build / "programs/callgate_make_log"
        self.root = root
        self.closing: list[Callable[[], None]] = []
        self.home, self.work = root / "home", root / "work"
        self.processors = sorted(os.sched_getaffinity(0))
        for directory in (root / "bin", root / "static", self.home, self.work):
            directory.mkdir()
        # Copied to a disk, as they are installed. What the linker wrote lies in the page cache page by page, and so does
        # a file in memory. A start took half a millisecond longer for that.
        installed = Path(tempfile.mkdtemp(prefix="callgate-bench.", dir="/var/tmp"))
        installed.chmod(0o755)
        self.at_close(lambda: shutil.rmtree(installed))
        self.callgate, self.floor, self.floor_start = (installed / name for name in ("callgate", "floor", "floor_start"))
        self.target, self.nothing = root / "bin/target", root / "bin/nothing"
        shutil.copy(build / "callgate", self.callgate)
        for program in (self.floor, self.floor_start, self.target, self.nothing):
            shutil.copy(build / "bench" / program.name, program)
        self.static, self.contested = root / "static/file", self.work / "file"
        for path in (self.static, self.contested):
            path.write_text("measured" * 1024)
        for n in range(60):
            (self.home / f"note-{n}").touch()
            (self.work / f"note-{n}").touch()
        self.server = subprocess.Popen([self.target, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())

    def at_close(self, action: Callable[[], None]) -> None:
        self.closing.append(action)

    def close(self) -> None:
        for action in self.closing:
            action()
        self.server.stdin.close()
        self.server.wait()

    def rule_set(self, name: str, rules: list[dict], extends: tuple[str, ...] = ("base",)) -> Path:
        always = [
            {"id": "system", "allow": ["read", "execute"], "path": ["/usr/**", f"{self.root}/bin/**"]},
            {"id": "static", "allow": "read", "path": f"{self.root}/static/**"},
            {"id": "work", "allow": ["read", "write"], "path": "${workdir}/**"},
        ]
        head = {"version": 1, **({"extends": list(extends)} if extends else {})}
        path = self.root / f"{name}.json"
        path.write_text(json.dumps({**head, "default": "deny", "rules": always + rules}))
        return path

    def static_rules(self) -> Path:
        """Rules that the kernel holds alone: the profile `base` denies some files with an errno of its own."""
        return self.rule_set("static", [{"id": "libraries", "allow": ["read", "execute"],
                                         "path": ["/lib/**", "/lib64/**", "/etc/ld.so.cache"]}], extends=())

    def contesting(self, count: int = 0) -> list[dict]:
        """Reads and changes in the work directory are contested; padded to `count` rules that never match."""
        rules: list[dict] = [
            {"id": "keys", "deny": ["read", "write"], "path": "${workdir}/**/*.key"},
            {"id": "server", "allow": "connect", "address": "127.0.0.1", "port": self.port},
        ]
        fillers = (
            lambda n: {"deny": ["read", "write"], "path": f"/srv/archive/{n}/**"},
            lambda n: {"deny": ["read", "write"], "path": f"${{workdir}}/**/secret-{n}"},
            lambda n: {"deny": "read", "path": f"${{workdir}}/vault/{n}"},
            lambda n: {"deny": "connect", "address": f"198.51.{n % 256}.{n // 256}", "port": 443},
        )
        already = len(rules) + 3
        for n in range(already, count):
            rules.append({"id": f"filler-{n}", **fillers[n % len(fillers)](n)})
        return rules

    def environment(self, home: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CALLGATE_", "XDG_"))}
        return {**kept, "HOME": str(home)}

    def run(self, command: list, home: Path | None = None, work: Path | None = None) -> float:
        """The nanoseconds per call that the command printed."""
        return float(self.output(command, home, work))

    def output(self, command: list, home: Path | None = None, work: Path | None = None) -> str:
        home, work = home or self.home, work or self.work
        done = subprocess.run([str(part) for part in command], cwd=work, env=self.environment(home), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr.strip()}")
        return done.stdout

    def supervised(self, rules: Path | None = None, *options: str) -> list:
        chosen = ["-R", rules] if rules else []
        return [self.callgate, "run", "-q", "--no-user-rules", *chosen, *options, "--"]

    def same_steps(self, home: Path, work: Path) -> list:
        """The floor of a start there: the kernel's part of what callgate does under its default profile."""
        plan = json.loads(self.output([self.callgate, "plan", "--json", "--no-user-rules"], home, work))
        grants = self.root / f"grants-{work.name}"
        # The private directory of a run that is only planned is not there; the floor has one of its own.
        grants.write_text("".join(f"{'d' if one['directory'] else 'f'} {one['path']}\n" for one in plan["grants"]
                                  if Path(one["path"]).exists()))
        made_in = self.root / "floor"
        made_in.mkdir(exist_ok=True)
        return [self.floor_start, grants, made_in]

    @contextlib.contextmanager
    def on_one_processor(self, turn: int) -> Iterator[None]:
        """Keeps every program that is started meanwhile on one processor, with all of its threads."""
        os.sched_setaffinity(0, {self.processors[turn % len(self.processors)]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, self.processors)

    def long_log(self, records: int) -> Path:
        """A log of so many decisions, and the rules that say the same of them."""
        directory = self.root / "long-log"
        directory.mkdir(mode=0o700)
        made = subprocess.run([self.make_log, directory, str(records)], text=True, capture_output=True, check=True)
        return Path(made.stdout.strip())

    def forget_logs(self) -> None:
        for home in self.root.glob("home*"):
            shutil.rmtree(home / ".local", ignore_errors=True)

    def mechanisms(self, rules: Path, command: list) -> dict[str, int]:
        """Tells from its log who decided the calls of one run, and how they were answered."""
        log = self.root / "log.jsonl"
        self.run(self.supervised(rules, "--record", "all", "--audit", str(log)) + command)
        found: dict[str, int] = {}
        for line in log.read_text().splitlines():
            record = json.loads(line)["callgate"]
            if record.get("mechanism"):
                how = f"{record['tier']}, {record['mechanism']}"
                found[how] = found.get(how, 0) + 1
        log.unlink()
        return found
