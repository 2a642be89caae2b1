#!/usr/bin/python3
"""Prints a part of docs/performance.md from the results that it is made of (`./dev docs` writes them there).

usage: bench/page.py PART     goals, calls, programs, stages, starts or growth
"""
from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import goals
import memory
import results
from results import COLUMNS, Measured, Rows

SHOWN = {"open and close, absolute path": "open and close, absolute path", "open and close, relative path": "open and close, relative path",
         "a denied open, relative path": "a denied open, relative path", "creating a file": "creating a file", "chmod": "`chmod`",
         "rename": "`rename`", "unlink": "`unlink`"}
WHOLE = (*goals.SEARCHES, "git status, 5,000 files", "git checkout, 5,000 files", "tar -c, 5,000 files", "tar -x, 5,000 files",
         "sed -i, 1,000 files", "sqlite, 200 transactions", "node -e 0", "make -j2, 60 files", "npm ci, 300 packages", "cargo check, warm")
STAGES = ("open, continued", "open, continued, relative", "open, on behalf", "open, on behalf, relative", "open, denied", "open, denied, relative",
          "create, on behalf", "rename, on behalf", "chmod, on behalf", "connect, on behalf", "sendto, on behalf")


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def all_goals(about: dict, rows: Rows) -> Iterator[str]:
    def line(goal: goals.Goal) -> list[str]:
        bound = "at most" if goal.at_most else "at least"
        return [goal.name, f"{bound} {goal.limit:g} {goal.unit}", number(goal.value), "" if goal.floor is None else number(goal.floor),
                "yes" if goal.met else "**no**"]

    known = goals.all_goals(rows, about["processors"])
    head = ("goal", "limit", "measured", "the floor has", "met")
    yield from table(head, (line(goal) for goal in known if goal.page))
    yield ""
    yield f"{sum(goal.met for goal in known if goal.page)} of {sum(goal.page for goal in known)} are met. These are goals of single parts:"
    yield ""
    yield from table(head, (line(goal) for goal in known if not goal.page))


def by_column(names: Iterable[str], rows: Rows, unit: float, called: dict[str, str], columns: Iterable[str] = COLUMNS) -> Iterator[str]:
    def cells(row: Measured) -> Iterator[str]:
        for column in columns:
            if column not in row:
                yield ""
            else:
                ratio = f" (×{row.ratio(column, 'native'):.2f})" if column != "native" and "native" in row else ""
                yield number(row.median(column) / unit) + ratio

    yield from table(["", *(COLUMNS[column] for column in columns)],
                     ([called.get(name, f"`{name.partition(', ')[0]}`, {name.partition(', ')[2]}".rstrip(", ")), *cells(rows[name])]
                      for name in names if name in rows))


def calls(about: dict, rows: Rows) -> Iterator[str]:
    yield from by_column(SHOWN, rows, 1e3, SHOWN)


def programs(about: dict, rows: Rows) -> Iterator[str]:
    yield from by_column(WHOLE, rows, 1e6, {})


def starts(about: dict, rows: Rows) -> Iterator[str]:
    columns = {"native": "no sandbox", "same steps": "the kernel's part", "static": "callgate, static rules", "default": "callgate, default profile",
               "default deny": "the same, one denied pattern", "first run": "default profile, first run", "find": "`find . -name none`"}
    names = [name for name in rows if name.startswith("start, ")]
    yield from table(["", *columns.values()],
                     ([name.removeprefix("start, "), *(number(rows[name].median(one) / 1e6) if one in rows[name] else "" for one in columns)]
                      for name in names))


def stages(about: dict, rows: Rows) -> Iterator[str]:
    def line(name: str) -> list[str]:
        row = rows[name]
        native = row.median("native") if "native" in row else None
        mechanism = row.difference("floor", "native") if native is not None else row.median("floor")
        return [name, "" if native is None else number(native / 1e3), number(mechanism / 1e3), number(row.difference("callgate", "floor") / 1e3),
                number(row.median("callgate") / 1e3)]

    yield from table(("µs a call", "the call itself", "the kernel's way to the floor and back", "callgate besides", "in all"), map(line, STAGES))
    recorded = rows["open, recorded"]
    yield ""
    yield (f"The record of an open on behalf takes {number(recorded.difference('with', 'without') / 1e3)} µs. "
           f"A start of `/bin/true` in an empty directory takes {number(rows['start, empty directory'].difference('default', 'native') / 1e6)} ms "
           f"more than bare. The kernel's part of the same steps takes "
           f"{number(rows['start, empty directory'].difference('same steps', 'native') / 1e6)} ms of them.")


def growth(about: dict, rows: Rows) -> Iterator[str]:
    def line(what: str, name: str, variants: tuple[str, str], unit: float, called: str) -> list[str]:
        row = rows[name]
        few, many = (number(row.median(one) / unit) for one in variants)
        return [what, f"{few} {called}", f"{many} {called}", f"{row.ratio(variants[1], variants[0]):.2f}"]

    def pair(what: str, one: str, other: str) -> list[str]:
        return [what, f"{number(rows[one].median('callgate') / 1e3)} µs", f"{number(rows[other].median('callgate') / 1e3)} µs",
                f"{goals.between(rows, (other, 'callgate'), (one, 'callgate')):.2f}"]

    yield from table(("", "few", "many", "×"), [
        line("10 and 1,000 rules of all kinds: an open on behalf", "rules, on behalf", ("10", "1000"), 1e3, "µs"),
        line("10 and 1,000 denied patterns: an open on behalf", "denied patterns, on behalf", ("10", "1000"), 1e3, "µs"),
        line("10 and 1,000 denied patterns: a start", "denied patterns, start", ("10", "1000"), 1e6, "ms"),
        pair("a path of 2 and of 17 names: a continued open", "open, continued, relative", "open, continued, 16 directories deep"),
        pair("a path of 2 and of 17 names: an open on behalf", "open, on behalf, relative", "open, on behalf, 16 directories deep"),
        pair("1 and 64 threads: a continued open", "open, continued", "64 threads, continued"),
        pair("1 and 64 threads: an open on behalf", "open, on behalf", "64 threads, on behalf")])
    if memory.NAME in rows:
        row = rows[memory.NAME]
        yield ""
        yield (f"The supervisor had {row.median('start') / 1e6:.1f} MB after its start, and {row.median('after') / 1e6:.1f} MB after "
               f"{about['memory_calls']:,} more calls. Half of them were opens, a quarter was refused and a quarter changed a mode.")


PARTS = {"goals": all_goals, "calls": calls, "programs": programs, "stages": stages, "starts": starts, "growth": growth}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(__doc__)
    print("\n".join(PARTS[sys.argv[1]](*results.read(results.PAGE))))
