"""Goals: each is a figure of a run's rows, and what it may be at most. Some are goals of the page, others of single parts."""
from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

import memory
from results import Rows

# Programs of the page's goals, under the default profile and with a denied pattern: at most so many times bare.
READERS = {"git status, 5,000 files": 1.25, "node -e 0": 1.25, "sqlite, 200 transactions": 1.25, "make -j2, 60 files": 1.1,
           "npm ci, 300 packages": 1.25, "cargo check, warm": 1.25}
CHANGES = ("git checkout, 5,000 files", "tar -x, 5,000 files", "sed -i, 1,000 files")
SEARCHES = ("rg, 5,000 files", "grep -r, 5,000 files")
# Milliseconds above the native variant.
PACKAGE = {"Sandbox.run, bash": 3.0, "Sandbox.run, Python": 10.0, "AutoGen, a block of bash": 4.0}
ARCHIVE = "tar -c, 5,000 files"
ON_BEHALF = tuple(f"{one}, on behalf" for one in ("create", "rename", "unlink", "mkdir", "chmod"))


class Goal(NamedTuple):
    name: str
    limit: float
    unit: str
    value: float
    floor: float | None = None  # what the floor has of the same figure, where that is known
    at_most: bool = True
    page: bool = True

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        return (f"  {'met    ' if self.met else 'NOT met'}  {self.name}: {self.value:.2f} {self.unit}, "
                f"{'at most' if self.at_most else 'at least'} {self.limit:g}")


def between(rows: Rows, above: tuple[str, str], below: tuple[str, str]) -> float:
    """The median ratio of two rows' variants within a round."""
    pairs = zip(rows[above[0]].rounds, rows[below[0]].rounds)
    return statistics.median(a[above[1]] / b[below[1]] for a, b in pairs)


def starts(rows: Rows) -> Iterator[Goal]:
    for where, limit in (("empty directory", 4), ("5,000 files", 5), ("200,000 files", 12)):
        row = rows[f"start, {where}"]
        yield Goal(f"start, {where}", limit, "ms above bare", row.difference("default", "native") / 1e6,
                   row.difference("same steps", "native") / 1e6)
    row = rows["start, 200,000 files"]
    rate = statistics.median((one["first run"] - one["native"]) / one["find"] for one in row.rounds)
    yield Goal("start, 200,000 files, first run", 1.2, "× find", rate)


def calls(rows: Rows) -> Iterator[Goal]:
    for name, limit in (("open, continued", 1.3), ("open, continued, relative", 1.6), ("open, on behalf, relative", 1.25),
                        ("open, denied", 1.8), ("open, denied, relative", 1.8), *((name, 1.3) for name in ON_BEHALF),
                        ("connect, on behalf", 1.25)):
        yield Goal(name, limit, "× the floor", rows[name].ratio("callgate", "floor"))
    row = rows["open and close in a tree of 200,000 files"]
    yield Goal("open in 200,000 files, relative, default profile", 1.6, "× the floor", row.ratio("default", "floor"))
    yield Goal("creating a file, default profile", 1.3, "× the floor", rows["creating a file"].ratio("default", "floor"))


def programs(rows: Rows) -> Iterator[Goal]:
    for name in SEARCHES:
        if name in rows:
            yield Goal(name, 1.3, "× the floor", rows[name].ratio("default", "floor"))
    for name in CHANGES:
        if name in rows:
            yield Goal(f"{name}, writes contested", 1.3, "× the floor on behalf", rows[name].ratio("deny", "floor on behalf"))
    for name, limit in {**READERS, ARCHIVE: 1.8}.items():
        if name not in rows:
            continue
        row = rows[name]
        floor = row.ratio("floor", "native")
        if name in READERS and floor > limit:
            yield Goal(f"{name}, default profile", 1.3, "× the floor", row.ratio("default", "floor"))
        else:
            yield Goal(f"{name}, default profile", limit, "× bare", row.ratio("default", "native"), floor)
        yield Goal(f"{name}, one denied pattern", 4 if name == ARCHIVE else 2, "× bare", row.ratio("default deny", "native"),
                   row.ratio("floor on behalf", "native"))
    for name in (*SEARCHES, *READERS, ARCHIVE, *CHANGES):
        if name in rows:
            yield Goal(f"{name}, static rules", 1.05, "× bare", rows[name].ratio("static", "native"), rows[name].ratio("landlock", "native"))


def growth(rows: Rows) -> Iterator[Goal]:
    for name in ("on behalf", "start"):
        yield Goal(f"1,000 denied patterns, {name}", 1.2, "× ten", rows[f"denied patterns, {name}"].ratio("1000", "10"))
    if memory.NAME in rows:
        yield Goal("memory of the supervisor over the calls", 10, "MB", rows[memory.NAME].difference("after", "start") / 1e6)


def shares(rows: Rows, processors: int) -> dict[str, tuple[float, float]]:
    """Two ratios for each number of starts at once. The first is the time of a start, by its time if each used what one
    alone uses and no processor were idle. The second is the processor time of a start, by that of one alone."""
    passed, used = rows["starts at once"].rounds, rows["starts at once, processor"].rounds
    return {n: (statistics.median(p[n] / (u["1"] / processors) for p, u in zip(passed, used)),
                statistics.median(u[n] / u["1"] for u in used)) for n in passed[0]}


def parts(rows: Rows, processors: int) -> Iterator[Goal]:
    yield Goal("open, on behalf", 1.6, "× the floor", rows["open, on behalf"].ratio("callgate", "floor"))
    by_name = between(rows, ("connect, by name", "callgate"), ("connect, on behalf", "callgate"))
    yield Goal("a connect by name", 1.1, "× one by address", by_name)
    if "a cached look-up" in rows:
        yield Goal("a cached look-up, above native", 0.4, "ms", rows["a cached look-up"].difference("callgate", "native") / 1e6)
    for kind in ("continued", "on behalf"):
        rate = between(rows, (f"open, {kind}", "callgate"), (f"64 threads, {kind}", "callgate"))
        yield Goal(f"64 threads, {kind}", 1.0, "× one thread's rate", rate, at_most=False)
    for name in ("getppid", "pread of 4 KiB", "stat", "open, uncontested"):
        yield Goal(name, 1.05, "× native", rows[name].ratio("callgate", "native"), rows[name].ratio("floor", "native"))
    yield Goal("a contested open with a log", 1.25, "× without", rows["open, recorded"].ratio("with", "without"))
    yield Goal("10 → 1,000 rules", 1.3, "×", rows["rules, on behalf"].ratio("1000", "10"))
    yield Goal("opens beside an open question", 1.2, "× without", rows["open beside a question"].ratio("asked", "alone"))
    yield Goal("question withdrawn after its asker's death", 250, "ms", rows["withdrawal"].median("took") / 1e6)
    yield Goal("terminal relay", 0.6, "× script(1)'s rate", rows["terminal relay"].ratio("script", "callgate run"), at_most=False)
    for number, (passed, _) in shares(rows, processors).items():
        if number != "1":
            yield Goal(f"{number} starts at once", 1.1, "× the processors' share of one alone", passed)
    yield Goal("sampling a tree of 1,000 processes", 1.0, "% of one processor", rows["sampling 1,000 processes"].median("took") / 1e7)
    yield Goal("40 processes that grow by 500 MB/s, memory sampled", 1.25, "× the limit",
               rows["memory beyond a sampled limit"].median("peak") / 1e6)
    for name in ("job: bash, echo 1", "job: python, print(1)"):
        yield Goal(f"{name}, above subprocess.run", 3.0, "ms", rows[name].difference("callgate", "native") / 1e6,
                   rows[name].difference("floor", "native") / 1e6)
    rate = between(rows, ("job: bash, echo 1", "callgate"), ("job: bash, 8 at once", "callgate"))
    yield Goal("8 jobs at once", 1.0, "× the rate of one after another", rate, at_most=False)
    for name, limit in PACKAGE.items():
        if name in rows:
            yield Goal(f"{name}, above {'its own class' if 'AutoGen' in name else 'subprocess.run'}", limit, "ms",
                       rows[name].difference("callgate", "native") / 1e6)


def all_goals(rows: Rows, processors: int) -> list[Goal]:
    page = [goal for part in (starts, calls, programs, growth) for goal in part(rows)]
    return [*page, *(goal._replace(page=False) for goal in parts(rows, processors))]
