"""Throughput of jobs: `callgate exec --serve` and `--http` beside subprocess, as wide, by turns.

usage: bench/throughput.py CALLGATE [--rounds N] [--jobs N]

Each round runs each variant once. Rates are jobs per second; ratios are taken within a round, and their medians are printed.
Processor time is that of the job's processes and of all of callgate's, in milliseconds per job.
"""
from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

CODES = {"python3 -c 'print(1)'": ("python", "print(1)", ["python3", "-c"]), "bash -c true": ("bash", "true", ["bash", "-c"])}
TICK = os.sysconf("SC_CLK_TCK")


def environment(work: str) -> dict[str, str]:
    """callgate makes its state directory in a home, which lies beside the work directory."""
    return {"PATH": "/usr/bin:/bin", "HOME": f"{os.path.dirname(work)}/home", "LANG": "C.UTF-8"}


def used(pid: int) -> float:
    """Processor seconds of a process and of all that it has reaped, and that those had."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / TICK


def resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def wide(count: int, jobs: int, one: Callable[[int], None]) -> None:
    """So many threads share the jobs."""
    numbers, taking = iter(range(jobs)), threading.Lock()

    def work() -> None:
        while True:
            with taking:
                number = next(numbers, None)
            if number is None:
                return
            one(number)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Bare:
    def __init__(self, work: str) -> None:
        self.work = work

    def used(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def run(self, code: str, jobs: int, width: int) -> None:
        line = [*CODES[code][2], CODES[code][1]]
        wide(width, jobs, lambda _: subprocess.run(line, cwd=self.work, env=environment(self.work), stdin=subprocess.DEVNULL, capture_output=True, check=True))


class Serve:
    def __init__(self, work: str, callgate: str, *options: str) -> None:
        self.process = subprocess.Popen([callgate, "exec", "--serve", "--no-audit", "--no-user-rules", *options], cwd=work, env=environment(work),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def used(self) -> float:
        return used(self.process.pid)

    def send(self, number: int, code: str) -> None:
        language, text, _ = CODES[code]
        self.process.stdin.write(json.dumps({"id": number, "language": language, "code": text}).encode() + b"\n")
        self.process.stdin.flush()

    def run(self, code: str, jobs: int, width: int) -> None:
        for number in range(width):
            self.send(number, code)
        for number in range(jobs):
            assert json.loads(self.process.stdout.readline())["exit_code"] == 0
            if number + width < jobs:
                self.send(number + width, code)


class Http:
    def __init__(self, work: str, callgate: str) -> None:
        self.process = subprocess.Popen([callgate, "exec", "--http", f"unix:{work}/socket", "--no-audit", "--no-user-rules"], cwd=work,
                                        env=environment(work), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert b"serving" in self.process.stderr.readline()
        self.work, self.front = work, int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def used(self) -> float:
        return used(self.process.pid) + used(self.front)

    def run(self, code: str, jobs: int, width: int) -> None:
        language, text, _ = CODES[code]
        body = json.dumps({"language": language, "code": text})
        lines = threading.local()

        def one(_: int) -> None:
            if not hasattr(lines, "line"):
                lines.line = http.client.HTTPConnection("localhost")
                lines.line.sock = socket.socket(socket.AF_UNIX)
                lines.line.sock.connect(f"{self.work}/socket")
            lines.line.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
            assert json.loads(lines.line.getresponse().read())["exit_code"] == 0

        wide(width, jobs, one)


def measure(variant: Bare | Serve | Http, code: str, jobs: int, width: int) -> tuple[float, float]:
    """The rate, and processor seconds."""
    before, began = variant.used(), time.monotonic()
    variant.run(code, jobs, width)
    passed = time.monotonic() - began
    return jobs / passed, variant.used() - before


def table(variants: dict[str, tuple[Bare | Serve | Http, int]], rounds: int, jobs: int) -> None:
    print("| | jobs/s | × bare as wide | processor ms a job | of all processors |\n|---|---|---|---|---|")
    for code in CODES:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, (variant, width) in variants.items():
                found[name].append(measure(variant, code, jobs, width))
        for name, (_, width) in variants.items():
            against = found["bare, one wide" if width == 1 else "bare, two wide"]
            rate = statistics.median(one[0] for one in found[name])
            ratio = statistics.median(one[0] / other[0] for one, other in zip(found[name], against))
            cost = statistics.median(one[1] for one in found[name]) / jobs
            print(f"| `{code}`: {name} | {rate:.1f} | {ratio:.2f} | {cost * 1000:.1f} | {100 * cost * rate / os.cpu_count():.0f} % |")


def waiting(work: str, callgate: str) -> None:
    server = Serve(work, callgate, "--jobs", "1")
    server.run("bash -c true", 20, 1)
    before = resident(server.process.pid)
    server.process.stdin.write(b'{"id":"first","language":"bash","code":"sleep 1000"}\n')
    for number in range(999):  # beyond 1,000 that wait, reading stops
        server.send(number, "python3 -c 'print(1)'")
    server.process.stdin.write(b'{"cancel":"none"}\n')
    server.process.stdin.flush()
    server.process.stdout.readline()  # all were read
    print(f"1,000 jobs that wait: {resident(server.process.pid) - before:.1f} MB")
    server.process.kill()
    server.process.wait()


def longer(work: str, callgate: str, jobs: int) -> None:
    server, seconds = Serve(work, callgate), []
    server.run("bash -c true", 20, 2)
    before = resident(server.process.pid)
    for count in (jobs, 10 * jobs, jobs):
        began = time.monotonic()
        server.run("bash -c true", count, 2)
        seconds.append(time.monotonic() - began)
    print(f"ten times the jobs: {2 * seconds[1] / (seconds[0] + seconds[2]):.2f} × the time, "
          f"{resident(server.process.pid) - before:+.1f} MB of the server's memory")
    server.process.stdin.close()
    server.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("callgate", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=40, help="of each variant in a round")
    choice = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        work = f"{place}/work"
        os.mkdir(work)
        bare, served, by_http = Bare(work), Serve(work, choice.callgate), Http(work, choice.callgate)
        variants = {"bare, one wide": (bare, 1), "bare, two wide": (bare, 2), "`--serve`, one wide": (served, 1),
                    "`--serve`, two wide": (served, 2), "`--http`, two wide": (by_http, 2)}
        table(variants, choice.rounds, choice.jobs)
        waiting(work, choice.callgate)
        longer(work, choice.callgate, 5 * choice.jobs)
        served.process.stdin.close()
        served.process.wait()
        by_http.process.terminate()
        by_http.process.wait()


if __name__ == "__main__":
    main()
