#!/usr/bin/python3
"""Keeps README.md's session what demo/run.sh really prints.

usage: record.py CALLGATE             writes the session into README.md where it says something else than a run does
       record.py --check CALLGATE     1 where it does, with the difference

Two sessions say the same if they differ only in run, port, times, process numbers, temporary directory and version of Python.
"""
from __future__ import annotations

import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SESSION = re.compile(r"(?<=<!-- session: begin -->\n```\n).*?(?=```\n<!-- session: end -->)", re.DOTALL)
VARIABLE = (
    (r"/[^ ']*/callgate-demo\.\w{6}", "PLACE"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "TIME"),
    (r"\brun [a-z0-9]{6}\b", "run RUN"),
    (r"python3(\.\d+)? \(\d+\)", "python3 (PID)"),
    (r"(?<=main\.py )\d+|(?<=127\.0\.0\.1:)\d+", "PORT"),
    (r" {2,}", "  "),  # columns are as wide as what stands in them
)


def recorded(callgate: str) -> str:
    """The output of the demonstration, which itself exits 1 if it does not go as described."""
    done = subprocess.run([ROOT / "demo" / "run.sh", callgate], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout)
    return done.stdout.strip("\n") + "\n"


def comparable(session: str) -> list[str]:
    for pattern, name in VARIABLE:
        session = re.sub(pattern, name, session)
    return [line.rstrip() for line in session.splitlines()]


def difference(page: str, run: str) -> str:
    return "\n".join(difflib.unified_diff(comparable(page), comparable(run), "README.md", "demo/run.sh", lineterm=""))


def main() -> int:
    check, callgate = sys.argv[1:] == ["--check", sys.argv[-1]], sys.argv[-1]
    if len(sys.argv) != 2 + check:
        sys.exit(__doc__)
    text = README.read_text()
    shown = SESSION.search(text)
    if shown is None:
        sys.exit("README.md has no session between its marks")
    run = recorded(callgate)
    found = difference(shown[0], run)
    if check or not found:
        print(found, end="\n" if found else "")
        return 1 if found else 0
    README.write_text(SESSION.sub(lambda _: run, text, count=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
