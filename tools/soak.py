#!/usr/bin/python3
"""./dev test --soak: every test many times under load, and with its full counts in every build. Writes build/soak.md.

usage: soak.py [--stage STAGE]... [--times N] [--resume] [NAME]...   (NAME: a part of tests' names, as ctest -R has it)

The stage `load` repeats each test of the release build 20 times beside eight busy processes. It lists every failure with the
end of its output. The other stages run each test once, with its full counts. The page has one row for each test and is
written after each, so that a long run can be stopped. `--resume` leaves out what passed at this very commit. Named tests run
in the release build alone. Under the sanitizers only the unit tests run: a sanitizer's runtime makes system calls of its own
between fork and exec.
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "build/soak.md"
LOAD = 8  # busy processes
KEPT = 3000  # characters of a failed test's output
HEADER = "| build | test | counts | result | seconds | commit | date |"


class Stage(NamedTuple):
    """A build and which of its tests are run; `command` if something reports by itself."""

    title: str
    presets: tuple[str, ...]
    directory: str = ""
    tests: str = "."
    full: bool = True
    command: tuple[str, ...] = ()
    times: int = 1
    loaded: bool = False  # beside busy processes
    row: str = ""  # a line of the command's table that is a row of its own: kernel, test, result, seconds


STAGES = {
    "load": Stage("gcc, release, under load", ("release",), "build", full=False, times=20, loaded=True),
    "gcc": Stage("gcc, release", ("release",), "build"),
    "clang": Stage("clang", ("release", "clang"), "build-clang", full=False),
    "asan": Stage("gcc, address and undefined behaviour", ("asan",), "build-asan", r"^(unit|fuzz\.)"),
    "tsan": Stage("gcc, threads", ("tsan",), "build-tsan", "^unit$"),
    "fuzz": Stage("libFuzzer", (), command=("./dev", "fuzz", "300")),
    "kernels": Stage("other kernels", (), full=False, command=("./dev", "test", "kernels"),
                     row=r"\| ([0-9]+\.[0-9]+)\S* \| \S+ \| (\S+) \| (passed|FAILED) \| .* \| ([0-9]+) \|$"),
}


class Row(NamedTuple):
    build: str
    test: str
    counts: str
    result: str
    seconds: str
    commit: str
    date: str


class Page:
    """The page build/soak.md, read and written whole."""

    def __init__(self) -> None:
        text = PAGE.read_text() if PAGE.exists() else ""
        cells = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
        self.rows = {(row[0], row[1]): Row(*row) for row in cells if len(row) == len(Row._fields) and row[0] != "build"}
        self.sections = dict(re.findall(r"^## (.*)\n\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))

    def put(self, row: Row) -> None:
        self.rows[(row.build, row.test)] = row
        self.write()

    def put_section(self, stage: Stage, text: str) -> None:
        if text.strip():
            self.sections[stage.title] = text.strip() + "\n"
        self.write()

    def write(self) -> None:
        order = [stage.title for stage in STAGES.values()]
        rows = sorted(self.rows.values(), key=lambda row: (order.index(row.build), row.test))
        with open("/proc/sys/kernel/osrelease", encoding="ascii") as file:
            kernel = file.read().strip()
        lines = ["# The last long runs", "",
                 "`./dev test --soak` writes this page after each test. A row names the commit that ran. Full counts are those",
                 "that the tests state for a long run.", "",
                 f"Linux {kernel}, {os.cpu_count()} CPUs, {output('gcc', '--version').splitlines()[0]}.", "",
                 HEADER, "|" + "---|" * len(Row._fields)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        for title, section in sorted(self.sections.items()):
            lines += ["", f"## {title}", "", section.rstrip()]
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text("\n".join(lines) + "\n")


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def commit() -> str:
    """The commit that runs, with a plus sign where the tree has changes."""
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return output("git", "rev-parse", "--short", "HEAD").strip() + ("+" if changed else "")


def tests_of(stage: Stage, names: list[str]) -> list[str]:
    found = re.findall(r"^ *Test +#\d+: (\S+)", output("ctest", "--test-dir", stage.directory, "-N", "-R", stage.tests), re.M)
    return [name for name in found if not names or any(re.search(one, name) for one in names)]


def run_rows(stage: Stage, resume: bool, page: Page) -> bool:
    """Runs a command that tests one thing after the other. Each is a row as soon as it has ended."""
    ran, full = commit(), "full" if stage.full else "plain"
    done = [row.test for row in page.rows.values() if resume and (row.build, row.result, row.commit) == (stage.title, "passed", ran)]
    lines = []
    with subprocess.Popen([*stage.command, *(word for test in done for word in ("--leave-out", test))], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if found := re.match(stage.row, line):
                kernel, test, result, seconds = found.groups()
                page.put(Row(stage.title, f"{kernel}:{test}", full, result, seconds, ran, datetime.date.today().isoformat()))
            elif not line.startswith("|"):
                lines.append(line)
    page.put_section(stage, "".join(lines))
    return process.returncode == 0


def run_command(stage: Stage) -> tuple[bool, str]:
    done = subprocess.run(stage.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode == 0, done.stdout


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    """Keeps `count` processes busy meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def run_test(stage: Stage, test: str, times: int) -> tuple[int, str]:
    """How often the test failed, and the ends of those outputs."""
    failures = []
    with load(LOAD if stage.loaded else 0):
        for number in range(1, times + 1):
            done = subprocess.run(["ctest", "--test-dir", stage.directory, "--output-on-failure", "--no-tests=error",
                                   "-R", f"^{re.escape(test)}$"],
                                  cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", check=False,
                                  env={**os.environ, "CALLGATE_SOAK": "1" if stage.full else ""})
            if done.returncode != 0:
                failures.append(f"### {test}, {number} of {times}\n\n```\n{done.stdout[-KEPT:]}\n```\n")
                print(failures[-1], flush=True)
    return len(failures), "\n".join(failures)


def run_stage(stage: Stage, names: list[str], times: int, resume: bool, page: Page) -> bool:
    for preset in stage.presets:
        subprocess.run(["./dev", "build", preset], cwd=ROOT,
                       env={**os.environ, "CALLGATE_SOAK": "1" if stage.full else ""}, check=True)
    if stage.row:
        return run_rows(stage, resume, page)
    good = True
    found: list[str] = []
    for test in [" ".join(stage.command)] if stage.command else tests_of(stage, names):
        known = page.rows.get((stage.title, test))
        if resume and known and known.result == "passed" and known.commit == commit():
            continue
        start, ran = time.monotonic(), commit()
        if stage.command:
            passed, section = run_command(stage)
            failed = 0 if passed else 1
        else:
            failed, section = run_test(stage, test, times)
        good = good and not failed
        counts = ("full" if stage.full else "plain") + (f", {times} times" if times > 1 else "")
        result = "passed" if not failed else "FAILED" if times == 1 else f"FAILED {failed} of {times}"
        page.put(Row(stage.title, test, counts, result, str(round(time.monotonic() - start)), ran,
                     datetime.date.today().isoformat()))
        found += [section] if section else []
        page.put_section(stage, "\n".join(found))
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test --soak", description="Every test with its full counts.")
    parser.add_argument("--stage", action="append", choices=list(STAGES), help="only these builds (repeatable)")
    parser.add_argument("--times", type=int, help="how often each test of the stage `load` runs (20)")
    parser.add_argument("--resume", action="store_true", help="leave out what passed at this commit")
    parser.add_argument("name", nargs="*", help="a part of tests' names")
    choice = parser.parse_args()
    stages = choice.stage or (["load", "gcc"] if choice.name else list(STAGES))
    page = Page()
    good = [run_stage(STAGES[stage], choice.name, (choice.times if STAGES[stage].loaded else None) or STAGES[stage].times,
                      choice.resume, page) for stage in stages]
    print(PAGE.read_text(), end="")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
