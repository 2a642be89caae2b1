#!/usr/bin/python3
"""Checks that everything which code, tests and pages cite exists.

usage: citations.py [PATH]...     default: all files; PATH limits which files are read

A citation is the name of a page (`docs/limits.md`, `kernel-facts.md`), a number of docs/dev/kernel-facts.md ("kernel-facts 31",
"kernel-facts 10b, 13"), an invariant of docs/dev/architecture.md ("invariants 3, 4"), a relative link of a page with its anchor,
or a path of a source in backquotes in a page. A page's name without a folder is looked for beside the file, in docs/ and in
docs/dev/. Generated parts, fenced blocks of pages and the fuzzers' inputs are not read.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import urllib.parse
from typing import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS, DEV = ROOT / "docs", ROOT / "docs" / "dev"
READ = {".cpp", ".hpp", ".c", ".h", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".js", ".css", ".html", ".toml", ".ld", ""}
SKIPPED = ("tests/fuzz/corpus/", "tests/testdata/", "LICENSE")
PAGE = re.compile(r"(?<![\w/.*-])((?:[\w.-]+/)*[\w-]+\.md)\b(?!-)")
FACTS = re.compile(r"kernel-facts(?:\.md)?(?:\]\([^)]*\))?,? ((?:\d+[a-z]?(?:, | and | to )?)+)")
INVARIANTS = re.compile(r"\b[Ii]nvariants? ((?:\d+(?:, | and )?)+)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SOURCE = re.compile(r"`((?:\.ci|agent|base|bench|cmake|demo|docs|python|rules|supervisor|tests|tools)/[\w./-]+)`")
# Pages that a test or a build makes for itself.
ELSEWHERE = re.compile(r"(comment\.md|build/.*)$")


def tracked() -> list[pathlib.Path]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def read_here(path: pathlib.Path) -> bool:
    name = str(path.relative_to(ROOT))
    return path.is_file() and not path.is_symlink() and path.suffix in READ and not name.startswith(SKIPPED) \
        and path != pathlib.Path(__file__).resolve()


def numbers_of(page: pathlib.Path, section: str = "") -> set[str]:
    """Numbers of the list items of a page, or of one of its sections."""
    text = page.read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^(\d+[a-z]?)\. ", text, re.MULTILINE))


def anchors_of(page: pathlib.Path) -> set[str]:
    """Anchors of the headings, as they are made from their text."""
    headings = re.findall(r"^#+ +(.*)$", without_blocks(page.read_text()), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).strip().lower() for one in headings)
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


def without_blocks(text: str) -> str:
    """A page with its fenced blocks emptied; lines keep their numbers."""
    lines, fenced = [], False
    for line in text.split("\n"):
        mark = line.lstrip().startswith(("```", "~~~"))
        fenced = fenced != mark
        lines.append("" if fenced or mark else line)
    return "\n".join(lines)


def page_exists(name: str, citing: pathlib.Path) -> bool:
    places = (ROOT, citing.parent) if "/" in name else (ROOT, citing.parent, DOCS, DEV)
    return any((place / name).is_file() for place in places)


def listed_numbers(text: str) -> list[str]:
    return re.findall(r"\d+[a-z]?", text)


def wrong_in(path: pathlib.Path, facts: set[str], invariants: set[str]) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    page = path.suffix == ".md"
    if page:
        text = without_blocks(text)
    # A comment may break between the page and the number.
    joined = re.sub(r"\s*\n[ \t]*(?://[/!]?|#|\*)?[ \t]*", " ", text)

    def line_of(offset: int) -> int:
        return text.count("\n", 0, offset) + 1

    for found in PAGE.finditer(text):
        address = "://" in text[text.rfind(" ", 0, found.start()) + 1:found.start()]
        if not ELSEWHERE.match(found[1]) and not address and not page_exists(found[1], path):
            yield line_of(found.start()), f"no such page: {found[1]}"
    for pattern, known, what in ((FACTS, facts, "docs/dev/kernel-facts.md has no number"),
                                 (INVARIANTS, invariants, "docs/dev/architecture.md has no invariant")):
        for found in pattern.finditer(joined):
            for number in listed_numbers(found[1]):
                if number not in known:
                    yield line_of(text.find(found[0].split()[0])), f"{what} {number}"
    if not page:
        return
    for found in LINK.finditer(text):
        target, _, anchor = found[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        linked = (path.parent / urllib.parse.unquote(target)) if target else path
        if not linked.exists():
            yield line_of(found.start()), f"no such file: {found[1]}"
        elif anchor and linked.suffix == ".md" and anchor not in anchors_of(linked):
            yield line_of(found.start()), f"no such heading: {found[1]}"
    for found in SOURCE.finditer(text):
        if not (ROOT / found[1]).exists():
            yield line_of(found.start()), f"no such file: {found[1]}"


def main() -> int:
    chosen = [pathlib.Path(one).resolve() for one in sys.argv[1:]]
    facts, invariants = numbers_of(DEV / "kernel-facts.md"), numbers_of(DEV / "architecture.md", "Invariants")
    if len(facts) < 40 or len(invariants) < 9:
        print("docs/dev/kernel-facts.md or docs/dev/architecture.md has lost its numbers")
        return 1
    count = 0
    for path in sorted(filter(read_here, tracked())):
        if chosen and not any(path == one or one in path.parents for one in chosen):
            continue
        for line, what in wrong_in(path, facts, invariants):
            print(f"{path.relative_to(ROOT)}:{line}: {what}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
