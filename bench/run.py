"""Native, minimal responder and callgate side by side, interleaved in one run.

usage: bench/run.py --build DIRECTORY [--quick] [--no-micro]

Each round measures every variant once, in an order that turns. Ratios are taken within a round and their median is printed,
so that a host whose speed drifts disturbs all variants alike. Targets are printed as met or not met: that is a finding, not
an error. The exit status is 1 only if something could not be measured.

On a busy host nice alone does not help if sched_autogroup is on, as it weighs only within a session. Root gives the whole
session precedence with `echo -19 >/proc/self/autogroup`.
"""
from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crowd
import limits
import look_ups
import package
from place import Failure, Place
from rows import Row, Rows


def cell(value: float | None, width: int, digits: int) -> str:
    return " " * width if value is None else f"{value:{width}.{digits}f}"


def table(rows: list[Row]) -> None:
    print(f"\n{'µs per call (median)':26}{'native':>12}{'floor':>12}{'callgate':>12}{'/ native':>10}{'/ floor':>10}")
    for row in rows:
        if "callgate" not in row.variants:
            continue
        medians = (row.median(name) for name in ("native", "floor", "callgate"))
        print(f"{row.name:26}" + "".join(cell(None if m is None else m / 1000, 12, 3) for m in medians) +
              cell(row.ratio("callgate", "native"), 10, 2) + cell(row.ratio("callgate", "floor"), 10, 2))


def line(name: str, value: float, limit: float, unit: str, at_most: bool = True) -> None:
    met = value <= limit if at_most else value >= limit
    print(f"  {'met    ' if met else 'NOT met'}  {name}: {value:.2f} {unit}, "
          f"{'at most' if at_most else 'at least'} {limit:g}")


def crowd_targets(rows: dict[str, Row]) -> None:
    """Starts at once: each takes its share of the processors' time, and no more."""
    for number, (passed, used) in crowd.shares(rows, len(os.sched_getaffinity(0))).items():
        alone = rows["starts at once"].median(number) / 1e6
        if number == "1":
            print(f"           one start alone: {alone:.2f} ms, {passed:.2f} × its share of all processors")
        else:
            line(f"{number} starts at once, {alone:.2f} ms for each", passed, 1.1,
                 f"× the processors' share of one alone ({used:.2f} × its processor time)")


def targets(rows: dict[str, Row]) -> None:
    print("\ntargets (medians of ratios within a round)")

    for name in ("open, continued", "open, on behalf", "create, on behalf", "connect, on behalf"):
        line(name, rows[name].ratio("callgate", "floor"), 1.6, "× the floor")
    by_name, by_address = rows["connect, by name"].rounds, rows["connect, on behalf"].rounds
    rate = statistics.median(a["callgate"] / b["callgate"] for a, b in zip(by_name, by_address))
    line("a connect by name", rate, 1.1, "× one by address")
    if "a cached look-up" in rows:
        line("a cached look-up, above native", rows["a cached look-up"].difference("callgate", "native") / 1e6, 0.4, "ms")
    for kind in ("continued", "on behalf"):
        one, many = rows[f"open, {kind}"].rounds, rows[f"64 threads, {kind}"].rounds
        rate = statistics.median(a["callgate"] / b["callgate"] for a, b in zip(one, many))
        line(f"64 threads, {kind}", rate, 1.0, "× one thread's rate", at_most=False)
    for name in ("getppid", "pread of 4 KiB", "stat", "open, uncontested"):
        least, ours = rows[name].ratio("floor", "native"), rows[name].ratio("callgate", "floor")
        line(name, rows[name].ratio("callgate", "native"), 1.05,
             f"× native (what the kernel takes for any: {least:.2f}; callgate besides: {ours:.2f})")
    line("a contested open with a log", rows["open, recorded"].ratio("with", "without"), 1.25, "× without")
    line("10 → 1,000 rules", rows["rules, on behalf"].ratio("1000", "10"), 1.3, "×")
    line("opens beside an open question", rows["open beside a question"].ratio("asked", "alone"), 1.2, "× without")
    line("question withdrawn after its asker's death", rows["withdrawal"].median("took") / 1e6, 250, "ms")
    line("terminal relay", rows["terminal relay"].ratio("script", "callgate run"), 0.6, "× script(1)'s rate",
         at_most=False)
    small, large = rows["start-up, 60 entries"], rows["start-up, 20,000 entries"]
    line("start-up above bare", small.difference("callgate", "native") / 1e6, 2.0, "ms")
    print(f"           what the kernel takes for the same steps: {small.difference('same steps', 'native') / 1e6:.2f} ms; "
          f"callgate besides: {small.difference('callgate', 'same steps') / 1e6:.2f} ms "
          f"({small.ratio('callgate', 'same steps'):.2f} ×)")
    print(f"           with 20,000 entries: {large.difference('callgate', 'native') / 1e6:.2f} ms")
    line("start-up in 5,000 files, above bare", rows["start-up, 5,000 files"].difference("callgate", "native") / 1e6, 5.0, "ms")
    rate = statistics.median((one["callgate"] - one["native"]) / one["find"] for one in rows["start-up, 200,000 files"].rounds)
    line("start-up in 200,000 files, above bare", rate, 1.2, "× find")
    print(f"           with limits of the tree: {rows['start-up with limits'].difference('with', 'without') / 1e6:.2f} ms "
          "more (as root control groups, which the kernel takes its time to enter)")
    crowd_targets(rows)
    line("sampling a tree of 1,000 processes", rows["sampling 1,000 processes"].median("took") / 1e7, 1.0, "% of one processor")
    line("40 processes that grow by 500 MB/s, memory sampled", rows["memory beyond a sampled limit"].median("peak") / 1e6, 1.25,
         "× the limit at the most")
    for name in ("job: bash, echo 1", "job: python, print(1)"):
        line(f"{name}, above subprocess.run", rows[name].difference("callgate", "native") / 1e6, 3.0,
             f"ms (the floor, which decides nothing: {rows[name].difference('floor', 'native') / 1e6:.2f})")
    one, many = rows["job: bash, echo 1"].rounds, rows["job: bash, 8 at once"].rounds
    rate = statistics.median(a["callgate"] / b["callgate"] for a, b in zip(one, many))
    line("8 jobs at once", rate, 1.0, "× the rate of one after another", at_most=False)
    for name, limit in package.TARGETS.items():
        if name in rows:
            line(f"{name}, above {'its own class' if name == package.AUTOGEN else 'subprocess.run'}",
                 rows[name].difference("callgate", "native") / 1e6, limit, "ms")
            if "job" in rows[name].variants:
                print(f"           as a job of callgate exec --serve: {rows[name].difference('job', 'native') / 1e6:.2f} ms")


def reading(place: Place, records: int) -> None:
    """Records per second of the verbs that go through a whole log; jq, which does nothing but read and write it, beside."""
    log, rules = place.long_log(records), place.rule_set("reading", [])
    size = sum(one.stat().st_size for one in log.parent.iterdir())
    print(f"\nreading a log of {records} records, {size >> 20} MiB (the best of 3)")
    commands = {verb: [place.callgate, "audit", *verb.split(), log] for verb in ("summary", "summary --by object", "verify")}
    commands["replay"] = [place.callgate, "audit", "replay", "--rules", rules, log]
    if shutil.which("jq"):
        commands["jq -c ."] = ["sh", "-c", f"jq -c . {log.parent}/*.jsonl"]
    for name, command in commands.items():
        seconds = []
        for _ in range(3):
            start = time.monotonic()
            done = subprocess.run([str(part) for part in command], env=place.environment(place.home), cwd=place.work,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            seconds.append(time.monotonic() - start)
            # replay: 1 where rules differ, which these do.
            if done.returncode not in ((0, 1) if name == "replay" else (0,)):
                raise Failure(f"exit {done.returncode}: {name}\n{done.stderr.decode()}")
        print(f"  {name:22}{records / min(seconds) / 1e6:8.3f} M records/s {size / min(seconds) / 1e6:8.0f} MB/s")
    shutil.rmtree(log.parent)


def measure(place: Place, rounds: int, scale: float, only: str) -> None:
    makers = Rows(place, scale)
    rows = [row for row in [*makers.all(), *look_ups.rows(place, scale), *limits.rows(place, scale), *crowd.Crowd(place, scale).rows(), *package.rows(place, scale)] if only in row.name]
    makers.check()
    for turn in range(rounds):
        for row in rows:
            row.measure(place, turn)
            place.forget_logs()
        print(f"\rround {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table(rows)
    by_name = {row.name: row for row in rows}
    if not only:
        targets(by_name)
    elif "starts at once" in by_name:
        crowd_targets(by_name)
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="native, minimal responder and callgate, interleaved")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and calls: about a minute")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains TEXT, without the targets")
    parser.add_argument("--no-micro", action="store_true", help="without the micro-benchmarks")
    options = parser.parse_args()
    build = options.build.resolve()
    rounds, scale = (5, 0.2) if options.quick else (15, 1.0)
    root = Path(tempfile.mkdtemp(prefix="callgate-bench."))
    place = None
    try:
        place = Place(build, root)
        print(f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} CPUs, {rounds} rounds")
        measure(place, rounds, scale, options.only)
        if not options.only or options.only in "reading":
            reading(place, 100_000 if options.quick else 400_000)
        if not options.no_micro and not options.only:
            print("\nmicro-benchmarks", flush=True)
            least = "0.05" if options.quick else "0.5"
            subprocess.run([build / "bench/micro", f"--benchmark_min_time={least}"], check=True)
    except (Failure, subprocess.CalledProcessError, OSError) as error:
        print(f"bench: could not measure: {error}", file=sys.stderr)
        return 1
    finally:
        if place:
            place.close()
        shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
