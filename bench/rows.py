"""The rows that are measured: the same calls made bare, under the floor and under callgate.

Rows of one caller are pinned, caller and responder together, to one processor, another in each round. Left to the scheduler
they end up on one processor or on two for a whole run: 6 or 30 µs for the same call. A ratio between two such runs then says
where they ended up, not what they cost.
"""
from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from asking import Asking
from jobs import Jobs
from place import Place
from results import Measured

Variant = Callable[[], float]


class Row(Measured):
    """A measurement: variants by name, each a function that gives nanoseconds. Long ones are measured in every nth round."""

    def __init__(self, name: str, variants: dict[str, Variant], pinned: bool = False, every: int = 1) -> None:
        super().__init__(name)
        self.variants, self.pinned, self.every = variants, pinned, every

    def measure(self, place: Place, turn: int) -> None:
        if turn % self.every != 0:
            return
        names = list(self.variants)
        turned = names[turn // self.every % len(names):] + names[:turn // self.every % len(names)]
        with place.on_one_processor(turn // self.every) if self.pinned else nullcontext():
            taken = {name: self.variants[name]() for name in turned}
        self.rounds.append({name: taken[name] for name in names})


class Rows:
    """Makes them. `scale` shortens the loops."""

    def __init__(self, place: Place, scale: float) -> None:
        self.place, self.scale = place, scale
        self.rules = place.rule_set("contested", place.contesting())

    def count(self, n: int) -> int:
        return max(40, int(n * self.scale))

    def loop(self, prefix: list, *arguments) -> Variant:
        return lambda: self.place.run([*prefix, self.place.target, *arguments])

    def loop_in_new_directory(self, prefix: list, mode: str, count: int) -> Variant:
        def once() -> float:
            directory = self.place.work / "made"
            directory.mkdir()
            try:
                return self.place.run([*prefix, self.place.target, mode, count, directory])
            finally:
                shutil.rmtree(directory)
        return once

    def three(self, name: str, mode: str, *arguments, rules: Path | None = None, pinned: bool = True) -> Row:
        floor, supervised = [self.place.floor, mode], self.place.supervised(rules or self.rules)
        return Row(name, {"native": self.loop([], *arguments), "floor": self.loop(floor, *arguments),
                          "callgate": self.loop(supervised, *arguments)}, pinned)

    def change(self, mode: str) -> Row:
        n = self.count(2000)
        prefixes = {"native": [], "floor": [self.place.floor, "files"],
                    "callgate": self.place.supervised(self.rules)}
        return Row(f"{mode}, on behalf", {name: self.loop_in_new_directory(prefix, mode, n)
                                          for name, prefix in prefixes.items()}, pinned=True)

    def opens(self) -> list[Row]:
        """By absolute and relative paths, and by one of 16 directories."""
        place, reads = self.place, self.count(10000)
        plain = place.rule_set("plain", [])
        deep = "/".join(["deep"] * 16)
        for where in ("directory", deep):
            (place.work / where).mkdir(parents=True)
            (place.work / where / "file").write_text("measured" * 1024)

        def both(kind: str, relative: str) -> list[Row]:
            return [self.three(f"open, continued, {kind}", "continue-open", "read", reads, relative, rules=plain),
                    self.three(f"open, on behalf, {kind}", "files", "read", reads, relative)]

        def denied(name: str, path: str | Path) -> Row:
            row = self.three(name, "deny-open", "denied", reads, path, rules=place.rule_set("keys", [
                {"id": "keys", "deny": ["read", "write"], "path": "${workdir}/**/*.qkey"}]))
            del row.variants["native"]
            return row
        (place.work / "a.qkey").touch()
        return [self.three("open, continued", "continue-open", "read", reads, place.static),
                self.three("open, on behalf", "files", "read", reads, place.contested),
                *both("relative", "directory/file"), *both("16 directories deep", f"{deep}/file"),
                denied("open, denied", place.work / "a.qkey"), denied("open, denied, relative", "a.qkey")]

    def changes(self) -> list[Row]:
        return [*(self.change(mode) for mode in ("create", "rename", "unlink", "mkdir")),
                self.three("chmod, on behalf", "files", "chmod", self.count(5000), self.place.contested)]

    def sockets(self) -> list[Row]:
        datagrams = self.place.rule_set("datagrams", [
            {"id": "datagrams", "allow": "connect", "address": "127.0.0.1", "port": self.place.port, "protocol": "udp"}])
        named = self.place.rule_set("named", [
            {"id": "named", "allow": "connect", "host": "localhost", "port": self.place.port}])
        port = self.place.port
        return [self.three("connect, on behalf", "connect", "connect", self.count(2000), port),
                self.three("connect, by name", "connect", "connect", self.count(2000), port, rules=named),
                self.three("sendto, on behalf", "sendto", "sendto", self.count(5000), port, rules=datagrams),
                self.three("sendmmsg of 64", "sendmmsg", "sendmmsg", self.count(500), port, rules=datagrams)]

    def executes(self) -> list[Row]:
        """Starts of a static program: nothing else is called."""
        spawn = ("spawn", self.count(200), self.place.nothing)
        contested = self.place.rule_set("executes", [
            {"id": "no-other", "deny": "execute", "path": f"{self.place.root}/bin/**/*.other"}])
        return [self.three("execve, uncontested", "continue-open", *spawn, pinned=False),
                self.three("execve, contested", "execve", *spawn, rules=contested, pinned=False),
                self.three("spawn /bin/true inside", "continue-open", "spawn", self.count(200), "/bin/true",
                           pinned=False)]

    def uncontested(self) -> list[Row]:
        """Calls that no rule contests. The floor is what any filter costs; of the open, what Landlock costs alone."""
        file, untouched = self.place.static, "continue-open"
        static = self.place.supervised(self.place.static_rules(), "--record", "minimal")
        opened = ("read", self.count(20000), file)
        return [self.three("getppid", untouched, "getppid", self.count(2000), "-"),
                self.three("pread of 4 KiB", untouched, "pread", self.count(1000), file),
                self.three("stat", untouched, "stat", self.count(1000), file),
                Row("open, uncontested", {"native": self.loop([], *opened),
                                          "floor": self.loop([self.place.floor, "landlock"], *opened),
                                          "callgate": self.loop(static, *opened)}, pinned=True)]

    def crowds(self) -> list[Row]:
        """Never shorter: how calls are received needs a tenth of a second to adapt."""
        each = 500
        return [self.three("64 threads, continued", "continue-open", "threads", each, self.place.static, pinned=False),
                self.three("64 threads, on behalf", "files", "threads", each, self.place.contested, pinned=False)]

    def rule_counts(self) -> list[Row]:
        """Rules of all kinds, and denied patterns of names alone: for an open, and for a start."""
        place, starts = self.place, max(10, int(40 * self.scale))
        mixed = {n: place.rule_set(f"rules-{n}", place.contesting(n)) for n in (10, 1000)}
        names = {n: place.rule_set(f"globs-{n}", [{"id": f"name-{one}", "deny": ["read", "write"], "path": f"${{workdir}}/**/*.secret-{one}"}
                                                  for one in range(n)]) for n in (10, 1000)}

        def opened(sets: dict[int, Path]) -> dict[str, Variant]:
            return {str(n): self.loop(place.supervised(rules), "read", self.count(10000), place.contested) for n, rules in sets.items()}

        return [Row("rules, on behalf", opened(mixed), pinned=True), Row("denied patterns, on behalf", opened(names), pinned=True),
                Row("denied patterns, start", {str(n): lambda rules=rules: place.run(
                    [place.target, "spawn", starts, *place.supervised(rules), "/bin/true"]) for n, rules in names.items()})]

    def recording(self) -> list[Row]:
        """Measures a record: the same contested opens with a log and without one."""
        opened = ("read", self.count(10000), self.place.contested)
        return [Row("open, recorded", {"without": self.loop(self.place.supervised(self.rules, "--no-audit"), *opened),
                                       "with": self.loop(self.place.supervised(self.rules), *opened)}, pinned=True)]

    def jobs(self) -> list[Row]:
        """Measures the wait of an executor: from the request to the answer, with both outputs and the report."""
        jobs, times = Jobs(self.place), max(10, int(30 * self.scale))

        def row(name: str, *job, at_once: int = 1) -> Row:
            return Row(name, {kind: jobs.timed(kind, *job, times if at_once == 1 else max(2, times // 8), at_once)
                              for kind in ("native", "floor", "callgate")})

        return [row("job: bash, echo 1", "bash", "echo 1"), row("job: python, print(1)", "python", "print(1)"),
                row("job: bash, 8 at once", "bash", "echo 1", at_once=8)]

    def asking(self) -> list[Row]:
        """Measures what a question costs others, how long it outlives its asker, and what the terminal's relay lets
        through."""
        asking, opens, megabytes = Asking(self.place), self.count(10000), max(10, int(100 * self.scale))
        return [Row("open beside a question", {"alone": lambda: asking.opens(opens, False),
                                               "asked": lambda: asking.opens(opens, True)}),
                Row("withdrawal", {"took": asking.withdrawal}),
                Row("terminal relay", {"script": lambda: asking.relayed(megabytes, True),
                                       "callgate run": lambda: asking.relayed(megabytes, False)})]

    def all(self) -> list[Row]:
        return [*self.opens(), *self.changes(), *self.sockets(), *self.executes(), *self.uncontested(), *self.crowds(),
                *self.rule_counts(), *self.recording(), *self.jobs(), *self.asking()]

    def check(self) -> None:
        """A row must measure what its name says: the log tells how the calls were answered."""
        place, times = self.place, 200
        executes = place.root / "executes.json"
        for name, rules, command, wanted in (
                ("open, continued", self.rules, ["read", times, place.static], "kernel, continue"),
                ("open, on behalf", self.rules, ["read", times, place.contested], "contested, on_behalf"),
                ("open, continued, relative", place.root / "plain.json", ["read", times, "directory/file"], "kernel, continue"),
                ("execve, contested", executes, ["spawn", times, place.nothing], "contested, continue")):
            found = place.mechanisms(rules, [place.target, *command])
            if found.get(wanted, 0) < times:
                print(f"note: \"{name}\" was not answered as its name says: {found}")
