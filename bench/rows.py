"""The rows that are measured: the same calls made bare, under the floor and under callgate.

Rows of one caller are pinned, caller and responder together, to one processor, another in each round. Left to the scheduler
they end up on one processor or on two for a whole run: 6 or 30 µs for the same call. A ratio between two such runs then says
where they ended up, not what they cost. Two rows are measured unpinned as well, to be read beside.
"""
from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from asking import Asking
from jobs import Jobs
from place import Place

Variant = Callable[[], float]


class Row:
    """A measurement: variants by name, each a function that gives nanoseconds."""

    def __init__(self, name: str, variants: dict[str, Variant], pinned: bool = False) -> None:
        self.name, self.variants, self.pinned = name, variants, pinned
        self.rounds: list[dict[str, float]] = []

    def measure(self, place: Place, turn: int) -> None:
        names = list(self.variants)
        names = names[turn % len(names):] + names[:turn % len(names)]
        with place.on_one_processor(turn) if self.pinned else nullcontext():
            self.rounds.append({name: self.variants[name]() for name in names})

    def median(self, name: str) -> float | None:
        return statistics.median(r[name] for r in self.rounds) if name in self.variants else None

    def ratio(self, above: str, below: str) -> float | None:
        if not {above, below} <= set(self.variants):
            return None
        return statistics.median(r[above] / r[below] for r in self.rounds)

    def difference(self, above: str, below: str) -> float:
        return statistics.median(r[above] - r[below] for r in self.rounds)


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

    def change(self, mode: str, floor_mode: str | None = None) -> Row:
        n = self.count(2000)
        prefixes = {"native": [], "floor": [self.place.floor, floor_mode or mode],
                    "callgate": self.place.supervised(self.rules)}
        return Row(f"{mode}, on behalf", {name: self.loop_in_new_directory(prefix, mode, n)
                                          for name, prefix in prefixes.items()}, pinned=True)

    def opens(self) -> list[Row]:
        reads, static, contested = self.count(10000), self.place.static, self.place.contested
        return [self.three("open, continued", "continue-open", "read", reads, static),
                self.three("open, on behalf", "open", "read", reads, contested),
                self.three("… continued, unpinned", "continue-open", "read", reads, static, pinned=False),
                self.three("… on behalf, unpinned", "open", "read", reads, contested, pinned=False)]

    def changes(self) -> list[Row]:
        return [self.change("create", "open"), self.change("rename"), self.change("unlink"), self.change("mkdir")]

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
                self.three("64 threads, on behalf", "open", "threads", each, self.place.contested, pinned=False)]

    def rule_counts(self) -> list[Row]:
        def under(count: int) -> Variant:
            rules = self.place.rule_set(f"rules-{count}", self.place.contesting(count))
            return self.loop(self.place.supervised(rules), "read", self.count(10000), self.place.contested)
        return [Row("rules, on behalf", {"10": under(10), "1000": under(1000)}, pinned=True)]

    def recording(self) -> list[Row]:
        """Measures a record: the same contested opens with a log and without one."""
        opened = ("read", self.count(10000), self.place.contested)
        return [Row("open, recorded", {"without": self.loop(self.place.supervised(self.rules, "--no-audit"), *opened),
                                       "with": self.loop(self.place.supervised(self.rules), *opened)}, pinned=True)]

    def starts(self) -> list[Row]:
        """callgate as a whole under its default profile: in small directories, and in large ones."""
        place = self.place
        many_home, many_work = place.root / "home-many", place.root / "work-many"
        for directory in (many_home, many_work):
            directory.mkdir()
            for n in range(20000):
                (directory / f"entry-{n}").touch()
        starts = max(20, int(60 * self.scale))

        def started(prefix: list, home: Path, work: Path) -> Variant:
            return lambda: place.run([place.target, "spawn", starts, *prefix, "/bin/true"], home, work)

        def row(name: str, home: Path, work: Path) -> Row:
            return Row(name, {"native": started([], home, work),
                              "floor": started([place.floor, "continue-open"], home, work),
                              "same steps": started(place.same_steps(home, work), home, work),
                              "callgate": started(place.supervised(), home, work)})

        return [row("start-up, 60 entries", place.home, place.work),
                row("start-up, 20,000 entries", many_home, many_work)]

    def trees(self) -> list[Row]:
        """callgate under its default profile in repositories, and find(1) over the same. The first round makes them."""
        place = self.place

        def row(files: int, directories: int, starts: int) -> Row:
            work = place.root / f"tree-{files}"

            def started(*command) -> Variant:
                def once() -> float:
                    if not work.exists():
                        for directory in (work / f"{n % 20}/directory-{n}" for n in range(directories)):
                            directory.mkdir(parents=True)
                            for n in range(files // directories):
                                (directory / f"file-{n}.c").touch()
                    return place.run([place.target, "spawn", starts, *command], place.home, work)
                return once
            return Row(f"start-up, {files:,} files", {"native": started("/bin/true"), "callgate": started(*place.supervised(), "/bin/true"),
                                                      "find": started("/usr/bin/find", ".", "-name", "none")})

        return [row(5000, 200, max(5, int(20 * self.scale))), row(200_000, 2000, max(2, int(5 * self.scale)))]

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
                *self.rule_counts(), *self.recording(), *self.starts(), *self.trees(), *self.jobs(),
                *self.asking()]

    def check(self) -> None:
        """A row must measure what its name says: the log tells how the calls were answered."""
        place, times = self.place, 200
        executes = place.root / "executes.json"
        for name, rules, command, wanted in (
                ("open, continued", self.rules, ["read", times, place.static], "kernel, continue"),
                ("open, on behalf", self.rules, ["read", times, place.contested], "contested, on_behalf"),
                ("execve, contested", executes, ["spawn", times, place.nothing], "contested, continue")):
            found = place.mechanisms(rules, [place.target, *command])
            if found.get(wanted, 0) < times:
                print(f"note: \"{name}\" was not answered as its name says: {found}")
