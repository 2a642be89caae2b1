"""Native, minimal responder and callgate side by side, interleaved in one run.

usage: bench/run.py --build DIRECTORY [--quick] [--only TEXT] [--compare OLD.json [NEW.json]]

Each round measures every variant once, in an order that turns. Ratios are taken within a round and their median is printed,
so that a host whose speed drifts disturbs all variants alike. Goals are printed as met or not met: that is a finding, not
an error. All rounds are written to bench/results/. `--compare` names what became worse than there by more than the spread,
and then ends with 3; with a second file nothing is measured. The exit status is 1 only if something could not be measured.

As root, all files lie in memory: a disk would hide what calls cost. On a busy host nice alone does not help if
sched_autogroup is on, as it weighs only within a session. Real-time priority does (`chrt --rr 10 ./dev bench`).
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crowd
import goals
import limits
import look_ups
import memory
import package
import results
from place import Failure, Place
from programs import Programs
from results import COLUMNS, Measured
from rows import Rows


def cell(value: float, width: int, digits: int) -> str:
    return f"{value:{width}.{digits}f}"


def tables(rows: list[Measured]) -> None:
    print(f"\n{'µs per call (median)':34}{'native':>12}{'floor':>12}{'callgate':>12}{'/ native':>10}{'/ floor':>10}")
    for row in rows:
        if "callgate" in row:
            print(f"{row.name:34}" + "".join(cell(row.median(name) / 1000, 12, 3) if name in row else " " * 12
                                             for name in ("native", "floor", "callgate")) +
                  "".join(cell(row.ratio("callgate", name), 10, 2) if name in row else " " * 10 for name in ("native", "floor")))
    print("\ntimes native (median)" + " " * 21 + "".join(f"{name:>16}" for name in COLUMNS))
    for row in rows:
        if "default" in row and "native" in row:
            print(f"{row.name:42}" + f"{row.median('native') / 1000:13.1f} µs" + "".join(
                cell(row.ratio(name, "native"), 16, 2) if name in row else " " * 16 for name in COLUMNS if name != "native"))


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


def measure(place: Place, rounds: int, scale: float, only: str) -> list[Measured]:
    makers = Rows(place, scale)
    rows = [row for row in [*makers.all(), *Programs(place, scale).all(), *look_ups.rows(place, scale), *limits.rows(place, scale),
                            *crowd.Crowd(place, scale).rows(), *package.rows(place, scale)] if only in row.name]
    makers.check()
    for turn in range(rounds):
        for row in rows:
            row.measure(place, turn)
            place.forget_logs()
        print(f"\rround {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    calls = int(1_000_000 * scale)
    if only in memory.NAME:
        print(f"memory of the supervisor: over {calls:,} calls")
        rows.append(memory.measure(place, calls))
    return rows


def about(place: Place, rounds: int, calls: int) -> dict:
    """Describes the run. It names neither the machine nor a path."""
    commit = subprocess.run(["git", "-C", Path(__file__).parent, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit.stdout.strip(), "rounds": rounds, "memory_calls": calls,
            "linux": ".".join(os.uname().release.split("-")[0].split(".")[:2]), "processors": len(place.processors),
            "real_time": os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR), "in_memory": os.geteuid() == 0}


def run(options: argparse.Namespace, root: Path) -> list[Measured]:
    rounds, scale = (4, 0.2) if options.quick else (12, 1.0)
    place = Place(options.build.resolve(), root)
    try:
        print(f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} CPUs, {rounds} rounds")
        rows = measure(place, rounds, scale, options.only)
        told = about(place, rounds, int(1_000_000 * scale))
        tables(rows)
        if not options.only:
            print("\ngoals (medians of ratios within a round)")
            print(*goals.all_goals({row.name: row for row in rows}, told["processors"]), sep="\n")
            written = results.FOLDER / f"{told['date']}-{told['commit']}{'-quick' if options.quick else ''}.json"
            results.write(written, told, rows)
            print(f"written: bench/results/{written.name}", flush=True)
        if options.only in "reading":
            reading(place, 100_000 if options.quick else 400_000)
        return rows
    finally:
        place.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="native, minimal responder and callgate, interleaved")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and calls: a few minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains TEXT, without the goals")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="JSON", help="an earlier result; with a newer one nothing is measured")
    parser.add_argument("--no-micro", action="store_true", help="without the micro-benchmarks")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    old, *new = options.compare or [None]
    if new:
        return results.compare(old, results.read(new[0])[1])
    if os.geteuid() == 0 and not options.root:
        with tempfile.TemporaryDirectory(prefix="callgate-bench.") as root:
            # The home of the bench is also the account's, as a user's is: rules are about both where they differ.
            in_memory = ('mount -t tmpfs -o mode=755 bench "$0" && sed "s|^root:\\([^:]*:[^:]*:[^:]*:[^:]*\\):[^:]*|root:\\1:$0/home|" '
                         '/etc/passwd > "$0/passwd" && mount --bind "$0/passwd" /etc/passwd && exec "$@"')
            return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", in_memory, root, sys.executable,
                                   *sys.argv, "--root", root], check=False).returncode
    root = options.root or Path(tempfile.mkdtemp(prefix="callgate-bench."))
    try:
        rows = run(options, root)
        if not options.no_micro and not options.only:
            print("\nmicro-benchmarks", flush=True)
            least = "0.05" if options.quick else "0.5"
            subprocess.run([options.build.resolve() / "bench/micro", f"--benchmark_min_time={least}"], check=True)
        return results.compare(old, {row.name: row for row in rows}) if old else 0
    except (Failure, subprocess.CalledProcessError, OSError) as error:
        print(f"bench: could not measure: {error}", file=sys.stderr)
        return 1
    finally:
        if not options.root:
            shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
