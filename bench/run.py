"""Native, minimal responder and callgate side by side, interleaved in one run.

usage: bench/run.py --build DIRECTORY [--quick] [--micro|--no-micro]

Each round measures every variant once, in an order that turns; ratios are taken within a round and their median is
printed, so that a machine whose speed drifts disturbs all variants alike. Targets are printed as met or not met: that
is a finding, not an error. Exit 1 only where something could not be measured.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


class Failure(Exception):
    """Something could not be measured."""


class Bench:
    """A home, a work directory, a static tree and rule sets of our own, and how the variants are run there."""

    def __init__(self, build: Path, place: Path) -> None:
        self.callgate, self.floor = build / "callgate", build / "bench/floor"
        self.place = place
        self.target = place / "bin/target"
        self.home, self.work = place / "home", place / "work"
        for directory in (place / "bin", place / "static", self.home, self.work):
            directory.mkdir()
        shutil.copy(build / "bench/target", self.target)
        self.static, self.contested = place / "static/file", self.work / "file"
        for path in (self.static, self.contested):
            path.write_text("measured\n")
        for n in range(60):
            (self.home / f"note-{n}").touch()
            (self.work / f"note-{n}").touch()
        self.server = subprocess.Popen([self.target, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())
        self.rules = self.rule_set("rules", 0)

    def close(self) -> None:
        self.server.stdin.close()
        self.server.wait()

    def rule_set(self, name: str, count: int, *more: dict) -> Path:
        """Rules under which reads of the work directory are contested; padded to `count` rules that never match."""
        rules: list[dict] = [
            {"id": "system", "allow": ["read", "execute"], "path": ["/usr/**", f"{self.place}/bin/**"]},
            {"id": "static", "allow": "read", "path": f"{self.place}/static/**"},
            {"id": "work", "allow": ["read", "write"], "path": "${workdir}/**"},
            {"id": "keys", "deny": ["read", "write"], "path": "${workdir}/**/*.key"},
            {"id": "server", "allow": "connect", "address": "127.0.0.1", "port": self.port},
            *more,
        ]
        fillers = (
            lambda n: {"deny": ["read", "write"], "path": f"/srv/archive/{n}/**"},
            lambda n: {"deny": ["read", "write"], "path": f"${{workdir}}/**/secret-{n}"},
            lambda n: {"deny": "read", "path": f"${{workdir}}/vault/{n}"},
            lambda n: {"deny": "connect", "address": f"198.51.{n % 256}.{n // 256}", "port": 443},
        )
        for n in range(len(rules), count):
            rules.append({"id": f"filler-{n}", **fillers[n % len(fillers)](n)})
        path = self.place / f"{name}.json"
        path.write_text(json.dumps({"version": 1, "extends": ["base"], "default": "deny", "rules": rules}))
        return path

    def environment(self, home: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CALLGATE_", "XDG_"))}
        return {**kept, "HOME": str(home)}

    def run(self, command: list, home: Path | None = None, work: Path | None = None) -> float:
        home, work = home or self.home, work or self.work
        done = subprocess.run([str(part) for part in command], cwd=work, env=self.environment(home), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr.strip()}")
        return float(done.stdout)

    def supervised(self, rules: Path | None = None, *options: str) -> list:
        chosen = ["-R", rules] if rules else []
        return [self.callgate, "run", "-q", "--no-user-rules", *chosen, *options, "--"]

    def forget_logs(self) -> None:
        for home in self.place.glob("home*"):
            shutil.rmtree(home / ".local", ignore_errors=True)

    def mechanisms(self, command: list) -> dict[str, int]:
        """How the calls of one run were answered, from its log."""
        log = self.place / "log.jsonl"
        self.run(self.supervised(self.rules, "--record", "all", "--audit", str(log)) + command)
        found: dict[str, int] = {}
        for line in log.read_text().splitlines():
            how = json.loads(line)["callgate"].get("mechanism")
            if how:
                found[how] = found.get(how, 0) + 1
        log.unlink()
        return found


class Row:
    """One measurement: variants by name, each a function that gives nanoseconds."""

    def __init__(self, name: str, variants: dict) -> None:
        self.name, self.variants = name, variants
        self.rounds: list[dict[str, float]] = []

    def measure(self, turn: int) -> None:
        names = list(self.variants)
        names = names[turn % len(names):] + names[:turn % len(names)]
        self.rounds.append({name: self.variants[name]() for name in names})

    def median(self, name: str) -> float | None:
        return statistics.median(r[name] for r in self.rounds) if name in self.variants else None

    def ratio(self, above: str, below: str) -> float:
        return statistics.median(r[above] / r[below] for r in self.rounds)

    def difference(self, above: str, below: str) -> float:
        return statistics.median(r[above] - r[below] for r in self.rounds)


def make_rows(bench: Bench, scale: float) -> list[Row]:
    target, floor, sup = bench.target, bench.floor, bench.supervised(bench.rules)

    def count(n: int) -> int:
        return max(40, int(n * scale))

    def timed(prefix: list, *arguments) -> object:
        return lambda: bench.run([*prefix, target, *arguments])

    def creating(prefix: list) -> object:
        def once() -> float:
            directory = bench.work / "made"
            directory.mkdir()
            try:
                return bench.run([*prefix, target, "create", count(2000), directory])
            finally:
                shutil.rmtree(directory)
        return once

    def three(name: str, mode: str, *arguments) -> Row:
        return Row(name, {"native": timed([], *arguments), "floor": timed([floor, mode], *arguments),
                          "callgate": timed(sup, *arguments)})

    reads = count(10000)
    rules_10 = bench.supervised(bench.rule_set("rules-10", 10))
    rules_1000 = bench.supervised(bench.rule_set("rules-1000", 1000))
    # Matches nothing that runs here, but might anything: every execve is judged before and on what then runs.
    words = {"id": "words", "deny": "execute", "path": "**/never", "argv": ["*", "push", "**"]}
    twice = bench.supervised(bench.rule_set("twice", 0, words))

    def spawning(name: str, prefix: list) -> Row:
        return Row(name, {"native": timed([], "spawn", count(200), "/bin/true"),
                          "floor": timed([floor, "continue-open"], "spawn", count(200), "/bin/true"),
                          "callgate": timed(prefix, "spawn", count(200), "/bin/true")})

    return [
        three("open, continued", "continue-open", "read", reads, bench.static),
        three("open, on behalf", "open", "read", reads, bench.contested),
        Row("create, on behalf", {"native": creating([]), "floor": creating([floor, "open"]),
                                  "callgate": creating(sup)}),
        three("connect, on behalf", "connect", "connect", count(2000), bench.port),
        three("64 threads, continued", "continue-open", "threads", count(500), bench.static),
        three("64 threads, on behalf", "open", "threads", count(500), bench.contested),
        Row("rules, on behalf", {"10": timed(rules_10, "read", reads, bench.contested),
                                 "1000": timed(rules_1000, "read", reads, bench.contested)}),
        spawning("spawn /bin/true inside", sup),
        spawning("spawn, judged twice", twice),
    ]


def make_start_rows(bench: Bench, scale: float) -> list[Row]:
    """callgate as a whole under its default profile: in small directories, and in large ones."""
    many_home, many_work = bench.place / "home-many", bench.place / "work-many"
    for directory in (many_home, many_work):
        directory.mkdir()
        for n in range(20000):
            (directory / f"entry-{n}").touch()
    starts = max(20, int(60 * scale))

    def started(prefix: list, home: Path, work: Path) -> object:
        return lambda: bench.run([bench.target, "spawn", starts, *prefix, "/bin/true"], home, work)

    def row(name: str, home: Path, work: Path) -> Row:
        return Row(name, {"native": started([], home, work),
                          "floor": started([bench.floor, "continue-open"], home, work),
                          "callgate": started(bench.supervised(), home, work)})

    return [row("start-up, 60 entries", bench.home, bench.work), row("start-up, 20,000 entries", many_home, many_work)]


def check_paths(bench: Bench) -> None:
    """A row must measure what its name says: the log tells how the calls were answered."""
    for name, file, wanted in (("continued", bench.static, "continue"), ("on behalf", bench.contested, "on_behalf")):
        found = bench.mechanisms([bench.target, "read", 200, file])
        if found.get(wanted, 0) < 200:
            print(f"note: \"open, {name}\" was not answered as its name says: {found}")


def microseconds(value: float | None) -> str:
    return f"{value / 1000:12.2f}" if value is not None else " " * 12


def table(rows: list[Row]) -> None:
    print(f"\n{'µs per call (median)':26}{'native':>12}{'floor':>12}{'callgate':>12}{'/ native':>10}{'/ floor':>10}")
    for row in rows:
        if "callgate" not in row.variants:
            continue
        cells = "".join(microseconds(row.median(name)) for name in ("native", "floor", "callgate"))
        print(f"{row.name:26}{cells}{row.ratio('callgate', 'native'):10.2f}{row.ratio('callgate', 'floor'):10.2f}")


def targets(rows: dict[str, Row]) -> None:
    print("\ntargets (medians of ratios within a round)")

    def line(name: str, value: float, limit: float, unit: str, at_most: bool = True) -> None:
        met = value <= limit if at_most else value >= limit
        print(f"  {'met    ' if met else 'NOT met'}  {name}: {value:.2f} {unit}, "
              f"{'at most' if at_most else 'at least'} {limit:g}")

    for name in ("open, continued", "open, on behalf", "create, on behalf", "connect, on behalf"):
        line(name, rows[name].ratio("callgate", "floor"), 1.6, "× the floor")
    for kind in ("continued", "on behalf"):
        one, many = rows[f"open, {kind}"].rounds, rows[f"64 threads, {kind}"].rounds
        rate = statistics.median(a["callgate"] / b["callgate"] for a, b in zip(one, many))
        line(f"64 threads, {kind}", rate, 1.0, "× one thread's rate", at_most=False)
    line("10 → 1,000 rules", rows["rules, on behalf"].ratio("1000", "10"), 1.3, "×")
    small, large = rows["start-up, 60 entries"], rows["start-up, 20,000 entries"]
    line("start-up above bare", small.difference("callgate", "native") / 1e6, 2.0, "ms")
    print(f"           with 20,000 entries: {large.difference('callgate', 'native') / 1e6:.2f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description="native, minimal responder and callgate, interleaved")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and calls: about a minute")
    parser.add_argument("--no-micro", action="store_true", help="without the micro-benchmarks")
    options = parser.parse_args()
    build = options.build.resolve()
    rounds, scale = (5, 0.2) if options.quick else (15, 1.0)
    place = Path(tempfile.mkdtemp(prefix="callgate-bench."))
    bench = None
    try:
        bench = Bench(build, place)
        print(f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} CPUs, {rounds} rounds")
        check_paths(bench)
        rows = make_rows(bench, scale) + make_start_rows(bench, scale)
        for turn in range(rounds):
            for row in rows:
                row.measure(turn)
                bench.forget_logs()
            print(f"\rround {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        table(rows)
        targets({row.name: row for row in rows})
        sys.stdout.flush()
        if not options.no_micro:
            print("\nmicro-benchmarks", flush=True)
            least = "0.05" if options.quick else "0.5"
            subprocess.run([build / "bench/micro", f"--benchmark_min_time={least}"], check=True)
    except (Failure, subprocess.CalledProcessError, OSError) as error:
        print(f"bench: could not measure: {error}", file=sys.stderr)
        return 1
    finally:
        if bench:
            bench.close()
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
