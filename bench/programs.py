"""Whole programs, and single calls in their place, under each kind of supervision: the columns of docs/performance.md.

The start is taken off: a supervised program (`target spawn`) starts the measured one, and takes the time until it has ended.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from place import Place
from rows import Row, Variant

FILES, DIRECTORIES = 5000, 100
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "init.defaultBranch=main"]
KEYS = {"id": "keys", "deny": ["read", "write"], "path": "${workdir}/**/*.qkey"}


class Columns:
    """Gives each column what stands before a command. Programs are started from the system's directories and from `tools`."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def rules(self, name: str, **rest: object) -> Path:
        path = self.place.root / f"{name}.json"
        path.write_text(json.dumps({"version": 1, **rest}))
        return path

    def prefixes(self, tools: tuple[Path, ...] = ()) -> dict[str, list]:
        place = self.place
        executed = [f"{one}/**" for one in ("/usr", "/bin", "/lib", "/lib64", "/opt", "/etc", place.root / "bin", *tools)]
        static = [{"id": "system", "allow": ["read", "execute"], "path": executed},
                  {"id": "devices", "allow": ["read", "modify", "metadata"], "path": "/dev/{null,zero,urandom,tty}"},
                  {"id": "work", "allow": ["read", "write", "execute"], "path": ["${workdir}/**", "${tmp}/**"]}]
        name = "tools" if tools else "plain"
        more = [part for one in (place.root / "bin", *tools) for part in ("-x", one)]
        return {
            "native": [],
            "floor": [place.floor, "continue-open"],
            "floor on behalf": [place.floor, "files"],
            "landlock": [place.floor, "landlock"],
            "static": place.supervised(self.rules(f"{name}-static", default="deny", rules=static), "--record", "minimal"),
            "deny": place.supervised(self.rules(f"{name}-deny", default="deny", rules=[*static, KEYS]), "--record", "minimal"),
            "default": place.supervised(None, *more),
            "default deny": place.supervised(self.rules("default-deny", extends=["agent"], default="ask", rules=[KEYS]), *more),
        }


class Programs:
    def __init__(self, place: Place, scale: float) -> None:
        self.place, self.scale = place, scale
        self.columns = Columns(place)

    def directory(self, name: str) -> Path:
        made = self.place.root / "programs" / name
        made.mkdir(parents=True)
        return made

    def row(self, name: str, work: Path, command: list, tools: tuple[Path, ...] = (), fresh: str = "", **how: object) -> Row:
        """Makes a row. `fresh` is a directory in the work directory that is empty before each run."""
        def once(prefix: list) -> Variant:
            def run() -> float:
                if fresh:
                    shutil.rmtree(work / fresh, ignore_errors=True)
                    (work / fresh).mkdir()
                return self.place.run([*prefix, self.place.target, *command], work=work)
            return run
        return Row(name, {column: once(prefix) for column, prefix in self.columns.prefixes(tools).items()}, **how)

    def program(self, name: str, work: Path, command: list, times: int = 1, **how: object) -> Row:
        return self.row(name, work, ["spawn", times, *command], **{"pinned": True, "every": 2, **how})

    def bare(self, work: Path, *command: object) -> None:
        subprocess.run([str(one) for one in command], cwd=work, env=self.place.environment(self.place.home), stdin=subprocess.DEVNULL,
                       capture_output=True, check=True)

    def calls(self) -> list[Row]:
        """Opens by absolute and relative paths, one that is refused, and changes."""
        work, count = self.directory("calls"), max(200, int(5000 * self.scale))
        for name in ("directory/file", "key.qkey"):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text("measured" * 1024)
        denied = self.row("a denied open, relative path", work, ["denied", count, "key.qkey"], pinned=True)
        denied.variants = {column: run for column, run in denied.variants.items() if "deny" in column}
        denied.variants = {"floor": lambda: self.place.run([self.place.floor, "deny-open", self.place.target, "denied", count, "key.qkey"],
                                                           work=work), **denied.variants}
        return [self.row("open and close, absolute path", work, ["read", count, work / "directory/file"], pinned=True),
                self.row("open and close, relative path", work, ["read", count, "directory/file"], pinned=True), denied,
                self.row("chmod", work, ["chmod", count, "directory/file"], pinned=True),
                self.row("creating a file", work, ["create", count // 4, "made"], fresh="made", pinned=True),
                self.row("rename", work, ["rename", count // 4, "made"], fresh="made", pinned=True),
                self.row("unlink", work, ["unlink", count // 4, "made"], fresh="made", pinned=True)]

    def repository(self) -> Path:
        """A repository of so many files; in its other branch each has another content."""
        work = self.directory("repository")
        for branch in ("other", "main"):
            for n in range(FILES):
                file = work / f"directory-{n % DIRECTORIES}/file-{n}.c"
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"/* {branch} */\n" + f"int line_{n}(int number) {{ return number; }}\n" * 20)
            if branch == "other":
                self.bare(work, *GIT, "init", "-b", branch)
            else:
                self.bare(work, *GIT, "checkout", "-b", branch)
            self.bare(work, *GIT, "add", ".")
            self.bare(work, *GIT, "commit", "-m", branch)
        self.bare(work, *GIT, "repack", "-adq")
        self.bare(work, *GIT, "checkout", "other")
        return work

    def starts(self) -> list[Row]:
        """Starts of /bin/true, and find(1) beside them: in an empty directory, and in trees."""
        place = self.place
        made = []
        for files, directories, times in ((0, 0, 60), (5000, 200, 20), (200_000, 2000, 5)):
            work = self.directory(f"tree-{files}")
            for n in range(directories):
                directory = work / f"{n % 20}/directory-{n}"
                directory.mkdir(parents=True)
                for part in range(files // directories):
                    (directory / f"file-{part}.c").touch()
            prefixes = {**self.columns.prefixes(), "same steps": place.same_steps(place.home, work)}
            if files:
                prefixes["find"] = ["/usr/bin/find", ".", "-name", "none", "-exec"]
            spawn = [place.target, "spawn", max(3, int(times * self.scale))]
            row = Row(f"start, {files:,} files" if files else "start, empty directory",
                      {column: lambda prefix=prefix, work=work, spawn=spawn: place.run(
                          [*spawn, *prefix, "/bin/true", *([";"] if "find" in str(prefix[:1]) else [])], work=work)
                       for column, prefix in prefixes.items() if column != "floor on behalf"})
            if files:
                row.variants["first run"] = lambda prefix=prefixes["default"], work=work: self.first_start(prefix, work)
            made.append(row)
        count = max(200, int(5000 * self.scale))
        made.append(self.row("open and close in a tree of 200,000 files", work, ["read", count, "7/directory-7/file-7.c"], pinned=True))
        return made

    def first_start(self, prefix: list, work: Path) -> float:
        """A start in a tree of which no start before has kept anything."""
        shutil.rmtree(self.place.home / ".local/state/callgate/listings", ignore_errors=True)
        return self.place.run([self.place.target, "spawn", 1, *prefix, "/bin/true"], work=work)

    def trees(self) -> list[Row]:
        work, archive, edited = self.repository(), self.directory("archive"), self.directory("edited")
        self.bare(work, "tar", "-cf", archive / "tree.tar", "--exclude=.git", ".")
        names = [f"file-{n}" for n in range(1000)]
        for name in names:
            (edited / name).write_text("a line of text\n" * 20)
        search = ["rg", "--no-config", "-c", "line_77"] if shutil.which("rg") else ["grep", "-r", "line_77", "."]
        return [self.program(f"{search[0]}{' -r' if search[0] == 'grep' else ''}, 5,000 files", work, search),
                self.program("git status, 5,000 files", work, ["git", "status", "--short"], times=3),
                self.program("git checkout, 5,000 files", work, ["git", "checkout", "-q", "-"]),
                self.program("tar -c, 5,000 files", work, ["tar", "-c", "--exclude=.git", "."]),
                self.program("tar -x, 5,000 files", archive, ["tar", "-xf", "tree.tar", "--no-same-owner", "-C", "out"], fresh="out"),
                self.program("sed -i, 1,000 files", edited, ["sed", "-i", "s/line/line/", *names])]

    def sqlite(self) -> list[Row]:
        work = self.directory("sqlite")
        lines = ["drop table if exists t;", "create table t (n integer);", *(f"insert into t values ({n});" for n in range(200))]
        (work / "script.sql").write_text("\n".join(lines))
        return [self.program("sqlite, 200 transactions", work, ["sqlite3", "base.db", ".read script.sql"], times=3)]

    def node(self) -> list[Row]:
        return [self.program("node -e 0", self.directory("node"), ["node", "-e", "0"], times=3)]

    def make(self) -> list[Row]:
        work = self.directory("make")
        names = [f"part_{n}" for n in range(60)]
        for name in names:
            (work / f"{name}.c").write_text(f"#include <stdio.h>\nint {name}(int n) {{ return printf(\"%d\", n); }}\n")
        (work / "Makefile").write_text(f"all: {' '.join(f'{name}.o' for name in names)}\n")
        return [self.program("make -j2, 60 files", work, ["make", "-B", "-j2"], pinned=False, every=4)]

    def npm(self) -> list[Row]:
        """The packages are archives beside it: no registry is asked."""
        work, packages = self.directory("npm"), [f"package-{n}" for n in range(300)]
        for name in packages:
            made = work / "package"
            made.mkdir()
            (made / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0"}))
            for n in range(5):
                (made / f"part-{n}.js").write_text(f"module.exports = {n};\n")
            self.bare(work, "tar", "-czf", f"{name}.tgz", "package")
            shutil.rmtree(made)
        (work / "package.json").write_text(json.dumps({"name": "bench", "version": "1.0.0",
                                                       "dependencies": {name: f"file:{name}.tgz" for name in packages}}))
        alone = ["--no-audit", "--no-fund", "--offline", "--no-update-notifier", "--cache=.cache"]
        self.bare(work, "npm", "install", "--package-lock-only", *alone)
        return [self.program("npm ci, 300 packages", work, ["npm", "ci", *alone], pinned=False, every=4)]

    def cargo(self) -> list[Row]:
        """A workspace of 20 crates without dependencies, checked before."""
        found = shutil.which("cargo")
        if shutil.which("rustup"):
            found = subprocess.run(["rustup", "which", "cargo"], capture_output=True, text=True, check=True).stdout.strip()
        cargo = Path(found).resolve()
        work = self.directory("cargo")
        crates = [f"crate-{n}" for n in range(20)]
        (work / "Cargo.toml").write_text(f'[workspace]\nresolver = "2"\nmembers = {json.dumps(crates)}\n')
        for name in crates:
            (work / name / "src").mkdir(parents=True)
            (work / name / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n')
            (work / name / "src/lib.rs").write_text("pub fn double(number: i32) -> i32 { number * 2 }\n")
        (work / ".cargo").mkdir()
        (work / ".cargo/config.toml").write_text(f'[build]\nrustc = "{cargo.parent}/rustc"\n')
        check = [cargo, "check", "--offline", "--quiet"]
        self.bare(work, *check)
        return [self.program("cargo check, warm", work, check, tools=(cargo.parent.parent,))]

    def all(self) -> list[Row]:
        made: list[Row] = [*self.calls(), *self.starts()]
        groups: list[tuple[str, Callable[[], list[Row]]]] = [
            ("git", self.trees), ("sqlite3", self.sqlite), ("node", self.node), ("make", self.make), ("npm", self.npm),
            ("cargo", self.cargo)]
        for tool, group in groups:
            if shutil.which(tool):
                made += group()
            else:
                print(f"not measured: programs of {tool}, which is not installed", file=sys.stderr)
        return made
