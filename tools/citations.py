#!/usr/bin/python3
"""Checks that everything which code, tests and pages cite exists.

usage: citations.py [PATH]...     default: all files; PATH limits which files are read

Citations are names of pages (`docs/limits.md`), numbers of docs/dev/kernel-facts.md ("kernel-facts 10b, 13"), and invariants of
docs/dev/architecture.md ("invariants 3, 4"). In a page they are also relative links with their anchors, and paths of sources in
backquotes. A page's name without a folder is looked for beside the file, in docs/ and in docs/dev/.

Fenced blocks of pages and the fuzzers' inputs are not read.
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
SKIPPED = ("tests/fuzz/corpus/", "tests/testdata/", "tests/e2e/test_pages.py", "LICENSE")
PAGE = re.compile(r"(?<![\w/.*-])((?:[\w.-]+/)*[\w-]+\.md)\b(?!-)")
GAP = r"(?:\s*\n[ \t]*(?://[/!]?|#|\*)?[ \t]*| )"  # a comment may break anywhere
FACTS = re.compile(rf"kernel-facts(?:\.md)?,?{GAP}((?:\d+[a-z]?(?:,{GAP}|{GAP}and{GAP})?)+)")
INVARIANTS = re.compile(rf"\b[Ii]nvariants?{GAP}((?:\d+(?:,{GAP}|{GAP}and{GAP})?)+)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SOURCE = re.compile(r"`((?:\.ci|agent|base|bench|cmake|demo|docs|python|rules|supervisor|tests|tools)/[\w./-]+)`")
# Pages that a test or a build makes for itself.
ELSEWHERE = re.compile(r"(comment\.md|AGENTS\.md|build/.*)$")


def sources() -> list[pathlib.Path]:
    """The files of the repository; outside of one all that no build made."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=False)
    if listed.returncode == 0 and (ROOT / ".git").exists():
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith(("build", "."))]


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


def wrong_in(path: pathlib.Path, facts: set[str], invariants: set[str]) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    page = path.suffix == ".md"
    if page:
        text = without_blocks(text)
    def line_of(offset: int) -> int:
        return text.count("\n", 0, offset) + 1

    for found in PAGE.finditer(text):
        address = "://" in text[text.rfind(" ", 0, found.start()) + 1:found.start()]
        if not ELSEWHERE.match(found[1]) and not address and not page_exists(found[1], path):
            yield line_of(found.start()), f"no such file: {found[1]}"
    for pattern, known, what in ((FACTS, facts, "docs/dev/kernel-facts.md has no number"),
                                 (INVARIANTS, invariants, "docs/dev/architecture.md has no invariant")):
        for found in pattern.finditer(text):
            for number in re.finditer(r"\d+[a-z]?", found[1]):
                if number[0] not in known:
                    yield line_of(found.start(1) + number.start()), f"{what} {number[0]}"
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
    for path in sorted(filter(read_here, sources())):
        if chosen and not any(path == one or one in path.parents for one in chosen):
            continue
        for line, what in sorted(set(wrong_in(path, facts, invariants))):
            print(f"{path.relative_to(ROOT)}:{line}: {what}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
