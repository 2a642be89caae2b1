#!/usr/bin/python3
"""Prints sizes, language and dependencies of each folder beside those of other projects: the table of `./dev lint`.

usage: figures.py

Functions are found by their braces: a heuristic, the same for all projects. The other projects' figures were taken once, by
the same method, from sandbox2, ninja, nsjail, rr and OpenSSH.
"""
from __future__ import annotations

import collections
import pathlib
import re
import statistics
from typing import NamedTuple

import folders
import prose

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = 60  # lines of a function
MODELS = """\
                                      files  lines   median largest  functions median > 60 longest  openers
sandbox2                                120  27000      119    2172        638     11   26     224     1 %
ninja                                    86  18000      113    1941        434     12   40     322     1 %
nsjail                                   68  15000      113    1351        356     16   45     541       -
rr                                      194  88000      145    7645       1966     12  161     619     1 %
OpenSSH                                 238 131000      211    5450       2886     16  359    1485       -"""


class Sizes(NamedTuple):
    files: list[int]
    functions: list[int]


def code_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("//"))


def functions(text: str) -> list[int]:
    """Lines of each function that is defined outside a class: it begins in the first column and ends with `}` there."""
    found = []
    begin = None
    for number, line in enumerate(text.splitlines()):
        if begin is None:
            if re.match(r"[A-Za-z~\[].*", line) and "(" in line and not line.startswith(("namespace", "using", "struct", "class", "enum")):
                begin = number
        if begin is not None:
            if line.startswith("}"):
                found.append(number - begin + 1)
                begin = None
            elif line.endswith(";") and not line.startswith(" ") or number == begin and line.endswith("}"):
                begin = None
    return found


def row(name: str, sizes: Sizes, language: str) -> str:
    longest = max(sizes.functions, default=0)
    typical = round(statistics.median(sizes.functions)) if sizes.functions else 0
    return (f"{name:36} {len(sizes.files):6} {sum(sizes.files):6} {round(statistics.median(sizes.files)):8} {max(sizes.files):7}"
            f" {len(sizes.functions):10} {typical:6} {sum(1 for one in sizes.functions if one > LONG):4} {longest:7} {language}")


def main() -> None:
    sizes: dict[str, Sizes] = collections.defaultdict(lambda: Sizes([], []))
    everything, product = Sizes([], []), 0
    for top in folders.TOPS:
        for path in sorted((ROOT / top).rglob("*.[ch]pp")):
            text = path.read_text()
            product += code_lines(text)
            for one in (sizes[str(path.parent.relative_to(ROOT))], everything):
                one.files.append(len(text.splitlines()))
                if path.suffix == ".cpp":
                    one.functions.extend(functions(text))
    blocks: collections.Counter[str] = collections.Counter()
    opened: collections.Counter[str] = collections.Counter()
    long: collections.Counter[str] = collections.Counter()
    for block in prose.blocks():
        for name in {prose.folder_of(block.path), "all" if block.path.split("/")[0] in folders.TOPS else "tests, tools and pages"}:
            blocks[name] += 1
            for what in prose.findings(block):
                (opened if what.startswith("opens") else long)[name] += 1

    def language(name: str) -> str:
        count = blocks[name] or 1
        return f"{100 * opened[name] / count:5.0f} % {100 * long[name] / count:4.0f} %"

    print(f"{'':36}  files  lines   median largest  functions median > {LONG} longest  openers  long")
    for name in sorted(sizes):
        print(row(name, sizes[name], language(name)))
    print(row("all", everything, language("all")))
    print(f"{'tests, tools and pages':36} {'':67} {language('tests, tools and pages')}")
    print(f"\n{product} lines of product code without blank lines and comments. Other projects:\n{MODELS}")
    print("\nFolders and the nearest that they include (tools/dependencies):\n")
    print(folders.picture(folders.read_rules()))


if __name__ == "__main__":
    main()
