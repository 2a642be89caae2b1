#!/usr/bin/python3
"""Checks which folder includes which, against tools/dependencies.

usage: folders.py [--picture | --list]

The check fails on an include that the file does not allow, and on a folder that the file does not list. It fails on a line
or a word that no include needs any more, and on a circle between folders. `--picture` draws the folders in layers, for
docs/dev/architecture.md. `--list` prints the lines as the sources have them, to start from after a move.
"""
from __future__ import annotations

import argparse
import collections
import pathlib
import re
import sys
from typing import Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "tools" / "dependencies"
TOPS = ("base", "agent", "relay", "rules", "supervisor", "tls")
# Libraries that cost a reader or a start something. A line limits them after a semicolon.
LIBRARIES = ("boost/", "nlohmann/", "openssl/", "sodium")
Graph = dict[str, set[str]]


class Include(NamedTuple):
    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: includes {self.name}"


class Allowed(NamedTuple):
    folders: set[str]
    libraries: list[str] | None  # None: not limited


def folder(path: str) -> str:
    return str(pathlib.PurePath(path).parent)


def includes(pattern: str) -> Iterator[Include]:
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.[ch]pp")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if found := re.match(pattern, line):
                    yield Include(str(path.relative_to(ROOT)), number, found.group(1))


def own_includes() -> list[Include]:
    """Includes between folders. A name without a folder is generated, and belongs to the folder that includes it."""
    return [one for one in includes(r'\s*#\s*include "([^"]+/[^"]+)"') if folder(one.name) != folder(one.file)]


def library_includes() -> list[Include]:
    return [one for one in includes(r"\s*#\s*include <([^>]+)>") if one.name.startswith(LIBRARIES)]


def read_rules() -> dict[str, Allowed]:
    rules = {}
    for line in RULES.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, _, rest = text.partition(":")
        folders, semicolon, libraries = rest.partition(";")
        rules[name.strip()] = Allowed(set(folders.split()), libraries.split() if semicolon else None)
    return rules


def circle(graph: Graph) -> list[str]:
    """The folders of one circle in their order; empty where there is none."""
    done: set[str] = set()
    way: list[str] = []

    def visit(name: str) -> list[str]:
        if name in way:
            return [*way[way.index(name):], name]
        if name in done:
            return []
        way.append(name)
        for below in sorted(graph.get(name, ())):
            if found := visit(below):
                return found
        way.pop()
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name):
            return found
    return []


def findings(rules: dict[str, Allowed]) -> Iterator[str]:
    folders = {folder(str(path.relative_to(ROOT))) for top in TOPS for path in (ROOT / top).rglob("*.[ch]pp")}
    yield from (f"{name}: a folder without a line in tools/dependencies" for name in sorted(folders - rules.keys()))
    yield from (f"{name}: tools/dependencies lists a folder that is not there" for name in sorted(rules.keys() - folders))
    used: Graph = collections.defaultdict(set)
    for one in own_includes():
        used[folder(one.file)].add(folder(one.name))
        if folder(one.file) in rules and folder(one.name) not in rules[folder(one.file)].folders:
            yield f"{one}; {folder(one.file)} may not include {folder(one.name)}"
    for one in library_includes():
        libraries = rules[folder(one.file)].libraries if folder(one.file) in rules else None
        if libraries is not None and not one.name.startswith(tuple(libraries)):
            yield f"{one}; {folder(one.file)} may not include that library"
    for name in sorted(folders & rules.keys()):
        if unused := sorted(rules[name].folders - used[name]):
            yield f"{name}: tools/dependencies allows what nothing includes: {' '.join(unused)}"
    if found := circle(used):
        yield f"includes make a circle: {' -> '.join(found)}"


def reachable(graph: Graph, name: str) -> set[str]:
    return {name}.union(*(reachable(graph, below) for below in graph.get(name, ())))


def nearest(graph: Graph, name: str) -> list[str]:
    """The folders that `name` includes and reaches on no longer way."""
    below = graph.get(name, set())
    return sorted(one for one in below if not any(one in reachable(graph, other) for other in below - {one}))


def picture(rules: dict[str, Allowed]) -> str:
    graph: Graph = {name: one.folders for name, one in rules.items()}
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = 1 + max((height(below) for below in graph.get(name, ())), default=-1)
        return heights[name]

    layers = collections.defaultdict(list)
    for name in graph:
        layers[height(name)].append(name)
    width = max(map(len, graph))
    lines = []
    for level in sorted(layers, reverse=True):
        for name in sorted(layers[level]):
            lines.append(f"{name:{width}}  {'-> ' if graph[name] else ''}{', '.join(nearest(graph, name))}".rstrip())
        lines.append("-" * 30 if level else "")
    return "\n".join(lines).rstrip()


def listing() -> str:
    graph: Graph = collections.defaultdict(set)
    for one in own_includes():
        graph[folder(one.file)].add(folder(one.name))
    return "\n".join(f"{name}: {' '.join(sorted(graph[name]))}" for name in sorted(graph))


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks which folder includes which.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--picture", action="store_true", help="print the folders in layers")
    choice.add_argument("--list", action="store_true", help="print the lines that the sources would need")
    given = parser.parse_args()
    rules = read_rules()
    if given.list:
        print(listing())
        return 0
    if found := circle({name: one.folders for name, one in rules.items()}):
        raise SystemExit(f"folders: tools/dependencies allows a circle: {' -> '.join(found)}")
    if given.picture:
        print(picture(rules))
    else:
        wrong = list(findings(rules))
        for one in wrong:
            print(f"folders: {one}", file=sys.stderr)
        return 1 if wrong else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
