#!/usr/bin/python3
"""Prints how many attacks of each kind the tests try: the table of README.md (`./dev docs` writes it there)."""
from __future__ import annotations

import collections
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "attacks")]

from cases import CASES  # noqa: E402

if __name__ == "__main__":
    kinds = collections.Counter(one.paragraph for one in CASES.values())
    for kind, count in kinds.items():
        print(f"{count:5}  {kind}")
    print(f"{sum(kinds.values()):5}  in all")
