"""Measures limits: at the start of a run, and while a large tree is sampled."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from place import Failure, Place
from rows import Row

TREE = 1000  # processes
# Far away, so that what is measured is watching, not a limit that is near. Of memory: a part of what the machine has.
FAR = ["--processes", "30000", "--cpu", "100h", "--idle-timeout", "100h"]
NOBODY = 65534
SLEEPERS = """
import os, sys, time
for n in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.close(1)
        time.sleep(3600)
print("made", flush=True)
time.sleep(3600)
"""


def far_memory() -> list[str]:
    return ["--memory", str(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4)]


def had(pid: int) -> int:
    """Nanoseconds of processor time of the thread of the limits so far."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "callgate-limits\n":
            return int((task / "schedstat").read_text().split()[0])
    raise Failure("no thread reads the tree")


def after_a_reading(pid: int) -> tuple[int, int]:
    """When the next reading of the tree is over: what it has had, and the time."""
    deadline, before = time.monotonic() + 120, had(pid)
    now = before
    while now == before or now != had(pid):
        if time.monotonic() > deadline:
            raise Failure("nobody reads the tree")
        now = had(pid)
        time.sleep(0.05)
    return now, time.monotonic_ns()


class Sampling:
    """A tree of sleeping processes under limits that are sampled: as root, who could make control groups, by another user."""

    def __init__(self, place: Place, readings: int) -> None:
        self.place, self.readings = place, readings
        self.home = place.root / "home-of-sampled"
        self.home.mkdir()
        self.identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.identity:
            os.chmod(place.root, 0o755)
            os.chown(self.home, NOBODY, NOBODY)

    def once(self) -> float:
        """Nanoseconds of processor time in a second."""
        rules = self.place.rule_set("sampled", [])
        line = [*self.place.supervised(rules, "--no-audit", "--workdir", str(self.home), *far_memory(), *FAR),
                "/usr/bin/python3", "-c", SLEEPERS, str(TREE)]
        run = subprocess.Popen([str(part) for part in line], cwd=self.home, env=self.place.environment(self.home), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.identity)
        try:
            if run.stdout.readline() != "made\n":
                raise Failure(f"the tree could not be made: {run.communicate()[1]}")
            # From the end of one reading to that of another: they come seconds apart.
            before, began = after_a_reading(run.pid)
            for _ in range(self.readings):
                after, ended = after_a_reading(run.pid)
            return (after - before) / (ended - began) * 1e9
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate()


class Overshoot:
    """Forty processes grow by 500 MB/s together until they are ended. The row is how far beyond the limit they came, sampled
    (by a user who can make no control group). The report has it: `peak`."""

    LIMIT = 512 << 20

    def __init__(self, place: Place, sampling: Sampling) -> None:
        self.place, self.sampling = place, sampling
        self.appetite = place.root / "bin" / "prog_appetite"
        shutil.copy(place.make_log.parent / "prog_appetite", self.appetite)

    def once(self) -> float:
        """The peak, by a millionth of the limit: 1,000,000 is the limit itself."""
        report = self.sampling.home / "report.json"
        line = [*self.place.supervised(self.place.rule_set("growing", []), "--no-audit", "--workdir", str(self.sampling.home), "--report",
                                       str(report), "--memory", str(self.LIMIT)), self.appetite, "memory", "40", "500"]
        done = subprocess.run([str(part) for part in line], cwd=self.sampling.home, env=self.place.environment(self.sampling.home),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **self.sampling.identity)
        said = json.loads(report.read_text())
        if said["outcome"] != "memory" or said["limits"]["memory"]["enforced_by"] != "sampled":
            raise Failure(f"the tree was not ended at a sampled limit: {said['outcome']}, {done.stderr}")
        return said["limits"]["memory"]["peak"] / self.LIMIT * 1e6


def rows(place: Place, scale: float) -> list[Row]:
    starts = max(20, int(60 * scale))

    def started(*options: str):
        return lambda: place.run([place.target, "spawn", starts, *place.supervised(None, *options), "/bin/true"])

    limits = [*far_memory(), *FAR, "--timeout", "100h", "--open-files", "1000"]
    sampling = Sampling(place, max(2, int(4 * scale)))
    return [Row("start-up with limits", {"without": started(), "with": started(*limits)}),
            Row("sampling 1,000 processes", {"took": sampling.once}, every=3),
            Row("memory beyond a sampled limit", {"peak": Overshoot(place, sampling).once}, every=3)]
