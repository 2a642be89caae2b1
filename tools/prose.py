#!/usr/bin/python3
"""Checks the language of comments and pages: sentences that open without a subject, and sentences that are too long.

usage: prose.py [--table] [--max N] [PATH]...     default: everything that is checked; PATH limits it (file or folder)

A block is a run of comment lines, a docstring, or a paragraph of a page. It fails if its first sentence opens with a word
that stands in place of a subject ("Of a rule: ...", "What is not known."). It fails if a sentence has more than 25 words.
The file tools/prose_allowed.txt lists exceptions, each with its reason, for at most 2 % of all blocks. `--table` prints
shares by folder.
"""
from __future__ import annotations

import argparse
import ast
import collections
import pathlib
import re
import sys
from typing import Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tools" / "prose_allowed.txt"
LONGEST = 25
CPP = ("base", "agent", "relay", "rules", "supervisor", "tls", "tests/unit", "tests/fakes", "tests/fuzz", "bench", "cmake", "tools")
PYTHON = ("python", "tests/e2e", "tests/attacks", "tests/python", "tools", "bench", "demo")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs")
OPENERS = re.compile(
    r"(Of|What|Who|Whom|Whose|Whoever|Whatever|Where|Wherever|Without|Nothing|Nobody|None|One|Those|Beneath|Neither)\b(?![^.]*\?)")


class Block(NamedTuple):
    path: str
    line: int
    text: str


def cpp_blocks(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        found = re.match(r"\s*//[/!]?<?\s?(.*)$", line)
        if found and not found.group(1).startswith(("NOLINT", "clang-format")):
            if not lines:
                start = number
            lines.append(found.group(1))
            continue
        if lines:
            yield from paragraphs(start, lines)
            lines = []
        trailing = re.search(r"[;,{})]\s+//[/!]?<?\s?(.*)$", line)
        if trailing and not line.lstrip().startswith("}  // namespace") and not trailing.group(1).startswith(("namespace", "NOLINT")):
            yield number, trailing.group(1)


def paragraphs(start: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    text: list[str] = []
    first = start
    for offset, line in enumerate([*lines, ""]):
        if text and re.match(r"\s*\S.*?\S {2,}\S", line):  # a row of a table
            yield first, " ".join(text)
            text = []
        if line.strip():
            if not text:
                first = start + offset
            text.append(line.strip())
        elif text:
            yield first, " ".join(text)
            text = []


def python_blocks(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    source = path.read_text()
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield from paragraphs(getattr(node, "lineno", 1), text.splitlines())
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*source.splitlines(), ""], 1):
        found = re.match(r"\s*#(?!!)\s?(.*)$", line)
        if found and not found.group(1).startswith(("noqa", "type:", "pylint")):
            if not lines:
                start = number
            lines.append(found.group(1))
        elif lines:
            yield from paragraphs(start, lines)
            lines = []


def page_blocks(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    start, fenced = 0, False
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        elif line.startswith("<!-- setup"):  # a script
            fenced = True
        elif fenced and line == "-->":
            fenced, line = False, ""
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        if fenced or not line.strip() or line.startswith(("#", "|", "<", "    ")) or item:
            if lines:
                yield start, " ".join(lines)
                lines = []
            if item and not fenced:
                start, lines = number, [line[item.end():]]
            elif line.startswith("|") and not fenced and not re.match(r"\|[-|: ]+$", line):
                for cell in line.strip("| ").split(" | "):
                    yield number, cell
            continue
        if not lines:
            start = number
        lines.append(line.strip())


def files(folders: tuple[str, ...], endings: tuple[str, ...]) -> Iterator[pathlib.Path]:
    for folder in folders:
        top = ROOT / folder
        if top.is_file():
            yield top
        else:
            yield from sorted(one for one in top.rglob("*") if one.suffix in endings and one.is_file())


def blocks() -> Iterator[Block]:
    for folders, endings, read in ((CPP, (".cpp", ".hpp", ".c", ".h"), cpp_blocks), (PYTHON, (".py",), python_blocks),
                                   (PAGES, (".md",), page_blocks)):
        for path in files(folders, endings):
            for line, text in read(path):
                yield Block(str(path.relative_to(ROOT)), line, text)


def sentences(text: str) -> list[str]:
    plain = re.sub(r"`[^`]*`", "x", text)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"\b(e\.g|i\.e|etc|vs|cf)\.", r"\1", plain)
    return [one for one in re.split(r"(?<=[.!?:;])\s+(?=[A-Z\"'(x*])", plain) if one.strip()]


def findings(block: Block) -> Iterator[str]:
    plain = block.text.lstrip("*_( ")
    if OPENERS.match(plain):
        yield f"opens without a subject: {plain[:60]}"
    for one in sentences(block.text):
        words = len(re.findall(r"[A-Za-z0-9][\w'/.-]*", one))
        if words > LONGEST:
            yield f"{words} words: {one[:60]}"


def allowed() -> dict[str, str]:
    """Start of a block's text, and the reason for which it may stay."""
    if not ALLOWED.exists():
        return {}
    entries = (line.split(" | ", 1) for line in ALLOWED.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return {entry[0]: entry[1] for entry in entries}


def folder_of(path: str) -> str:
    return str(pathlib.PurePath(path).parent)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the language of comments and pages.")
    parser.add_argument("--table", action="store_true", help="shares by folder")
    parser.add_argument("--max", type=int, default=200, help="how many findings are printed")
    parser.add_argument("path", nargs="*", help="only these files and folders")
    given = parser.parse_args()
    exceptions = allowed()
    total: collections.Counter[str] = collections.Counter()
    opened: collections.Counter[str] = collections.Counter()
    long: collections.Counter[str] = collections.Counter()
    used: set[str] = set()
    found: list[str] = []
    count = 0
    for block in blocks():
        count += 1
        if given.path and not any(block.path == one.rstrip("/") or block.path.startswith(one.rstrip("/") + "/") for one in given.path):
            continue
        total[folder_of(block.path)] += 1
        for what in findings(block):
            (opened if what.startswith("opens") else long)[folder_of(block.path)] += 1
            exception = next((start for start in exceptions if block.text.startswith(start)), None)
            if exception is not None:
                used.add(exception)
                continue
            found.append(f"{block.path}:{block.line}: {what}")
    if given.table:
        print(f"{'folder':44} blocks  openers  long sentences")
        for folder in sorted(total):
            print(f"{folder:44} {total[folder]:6} {opened[folder]:5} {100 * opened[folder] / total[folder]:3.0f} %"
                  f" {long[folder]:6} {100 * long[folder] / total[folder]:3.0f} %")
        every = sum(total.values()) or 1
        print(f"{'all':44} {every:6} {sum(opened.values()):5} {100 * sum(opened.values()) / every:3.0f} %"
              f" {sum(long.values()):6} {100 * sum(long.values()) / every:3.0f} %   (the models: 1 % openers)")
    for line in found[:given.max]:
        print(line)
    if len(found) > given.max:
        print(f"... and {len(found) - given.max} more")
    if not given.path:
        for start in exceptions.keys() - used:
            found.append(f"tools/prose_allowed.txt: no block begins so any more: {start}")
            print(found[-1])
        if len(exceptions) * 50 > count:
            found.append(f"tools/prose_allowed.txt: {len(exceptions)} exceptions are more than 2 % of {count} blocks")
            print(found[-1])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
