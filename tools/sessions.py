#!/usr/bin/python3
"""Runs the sessions of pages, and compares what they print.

usage: sessions.py CALLGATE PAGE...             1 where a page shows something else than a run does, with the difference
       sessions.py --write CALLGATE PAGE...     writes into the pages what a run prints

A block ```console holds lines `$ COMMAND`, each followed by what it prints, errors too. Lines `> ` behind it belong to the
command. A block with title="NAME" is that file. A comment `<!-- setup ... -->` is a script that runs unseen before. All run in
their order, in one project of a home made for the purpose. Two outputs are the same if they differ only in names of runs, times,
process numbers, versions and temporary places.

A comment before a block says more about it. `<!-- outputs left out -->`: its commands must work, and what they print is not shown.
`<!-- in any order -->`: the order of the lines is not the same each time. `<!-- not run: REASON -->`: no test runs the block here.
"""
from __future__ import annotations

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Callable, Iterator, NamedTuple

BLOCK = re.compile(r"<!-- setup\n(?P<setup>.*?)-->|(?:<!-- (?P<said>[^\n]*) -->\n+)?"
                   r"^```(?P<kind>[\w-]*)(?: title=\"(?P<file>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ |callgate [a-z]|\./dev |(?:pip|npm|cd|python3) )", re.MULTILINE)
UNSHOWN, UNORDERED, NOT_RUN = "outputs left out", "in any order", "not run: "
UNUSABLE = (124, 125, 126, 127)  # exit statuses of a command that did not work
VARIABLE = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "TIME"),
    (r"\brun [a-z0-9]{6}\b", "run RUN"),
    (r"\(pid \d+\)|\b(python3(\.\d+)?|cat|sh|bash|dash|git|rm|touch|curl|vim\.\w+) \(\d+\)", "PROGRAM (PID)"),
    (r"\bpid \d+\b", "pid PID"),
    (r"\bdenies in \d+ s\b", "denies in N s"),
    (r"\b\d+ (rules|records)\b", r"N \1"),
    (r"\d{8}T\d{6}Z-[a-z0-9]{6}", "LOG"),
    (r"\bsha256:[0-9a-f]{64}", "HASH"),
    (r"\bafter \d+ ms\b", "after N ms"),
    (r"\bpython3\.\d+\b", "python3"),
    (r"/tmp/callgate-[\w-]+", "TMP"),
    (r"\bseen \d+ times?\b", "seen N times"),
    (r" {2,}", "  "),  # columns are as wide as what stands in them
)
SHOWN_HOME = "/home/you"
LONG = re.compile(r'"report":\{.*\}(?=\}$)', re.MULTILINE)  # of an answer: not shown
Run = Callable[[str], tuple[int, str]]


class Step(NamedTuple):
    """A command of a page, with what the page says that it prints; or a script or a file that comes before."""

    kind: str  # "setup", "file", "command"
    name: str
    text: str
    line: int
    said: str = ""  # about the block


def steps(page: str) -> Iterator[Step]:
    for block in BLOCK.finditer(page):
        line = page.count("\n", 0, block.start()) + 1
        if block["setup"] is not None:
            yield Step("setup", "", block["setup"], line)
        elif block["file"]:
            yield Step("file", block["file"], block["text"], line)
        elif block["kind"] == "console" and not (block["said"] or "").startswith(NOT_RUN):
            for one in re.findall(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", block["text"], re.MULTILINE):
                yield Step("command", one[0], one[1], line, block["said"] or "")


def not_run(page: str) -> Iterator[tuple[int, str]]:
    """The blocks of commands that are not run: each one's line, and the reason that the page gives; else nothing."""
    for block in BLOCK.finditer(page):
        said = block["said"] or ""
        if block["setup"] is None and not block["file"] and block["kind"] in ("", "console", "bash", "sh", "text") and COMMAND.search(block["text"]):
            if block["kind"] != "console" or said.startswith(NOT_RUN):
                yield page.count("\n", 0, block.start()) + 1, said.removeprefix(NOT_RUN) if said.startswith(NOT_RUN) else ""


def comparable(text: str, said: str = "") -> list[str]:
    for pattern, name in VARIABLE:
        text = re.sub(pattern, name, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return sorted(lines) if said == UNORDERED else lines


def differences(page: str, run: Run, write_file: Callable[[str, str], object]) -> tuple[list[str], str]:
    """The differences between page and run; and the page with what the run prints."""
    found, written = [], page
    for step in steps(page):
        if step.kind == "file":
            write_file(step.name, step.text)
            continue
        code, printed = run(step.text if step.kind == "setup" else step.name.replace("\n> ", "\n"))
        printed = LONG.sub('"report":{…}', printed)
        if step.said == UNSHOWN:
            if code in UNUSABLE or step.text:
                found.append(f"$ {step.name}\n{printed}exit status {code}")
            continue
        shown, came = comparable(step.text, step.said), comparable(printed, step.said)
        if step.kind == "command" and shown != came:
            found.append("\n".join(difflib.unified_diff(shown, came, "the page", f"$ {step.name}", lineterm="")))
            written = written.replace(f"$ {step.name}\n{step.text}", f"$ {step.name}\n{printed}", 1)
    return found, written


def environment(callgate: pathlib.Path, home: pathlib.Path) -> dict[str, str]:
    return {"PATH": f"{callgate.parent}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "USER": "you",
            "LOGNAME": "you", "COLUMNS": "100"}


def main() -> int:
    write = sys.argv[1:2] == ["--write"]
    if len(sys.argv) < 3 + write:
        sys.exit(__doc__)
    callgate, result = pathlib.Path(sys.argv[1 + write]).resolve(), 0
    for name in sys.argv[2 + write:]:
        with tempfile.TemporaryDirectory() as place:
            home = pathlib.Path(place) / "home"
            project = home / "project"
            project.mkdir(parents=True)

            def run(command: str) -> tuple[int, str]:
                done = subprocess.run(["/bin/bash", "-c", command], cwd=project, env=environment(callgate, home), text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                return done.returncode, done.stdout.replace(str(home), SHOWN_HOME)

            page = pathlib.Path(name)
            found, written = differences(page.read_text(), run, lambda file, text: (project / file).write_text(text))
            if write:
                page.write_text(written)
            elif found:
                print(f"{name}:", *found, sep="\n")
                result = 1
    return result


if __name__ == "__main__":
    sys.exit(main())
