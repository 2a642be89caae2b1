"""Builds a target of the tested build from changed sources, in seconds.

Sources that a change concerns are compiled with the commands of the build that is tested, and linked with its libraries.
"""
from __future__ import annotations

import concurrent.futures
import difflib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["CALLGATE"]).resolve().parent
SOURCES = ("agent", "base", "relay", "rules", "supervisor", "tls")
LIKE = "supervisor/enforce/call_table.cpp"  # a new source is compiled as this one is


class Unit(NamedTuple):
    """A compilation of the tested build: of one source, or of several that are joined."""

    command: list[str]
    source: str
    made: str  # the object, as the linker's command names it


def run(line: list[str], **keywords: object) -> str:
    done = subprocess.run(line, text=True, capture_output=True, check=False, **keywords)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{shlex.join(line)}\n{done.stdout}{done.stderr}"
    return done.stdout


def ninja(*arguments: str) -> str:
    return run(["ninja", "-C", str(BUILD), "-t", *arguments])


def without(words: list[str], *options: str) -> list[str]:
    """Leaves out options with their value."""
    return [word for before, word in zip(["", *words], words) if word not in options and before not in options]


class Copy:
    """A copy of the sources that a test changes, and how to build a target of the tested build from it."""

    def __init__(self, place: Path, target: str) -> None:
        self.place, self.sources, self.objects, self.made = place, place / "sources", place / "objects", place / Path(target).name
        self.objects.mkdir(parents=True)
        for folder in SOURCES:
            shutil.copytree(ROOT / folder, self.sources / folder)
        self.changed: list[str] = []
        *compiled, self.link = map(shlex.split, ninja("commands", target).splitlines())
        self.units = [Unit(line, line[line.index("-c") + 1], line[line.index("-o") + 1]) for line in compiled if "-c" in line]

    def apply(self, diff: str) -> None:
        """Applies a unified diff with paths from the top of the repository."""
        run(["git", "apply", "--whitespace=error", "-"], cwd=self.sources, input=diff,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.place)})
        self.changed += re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replaces a text that the source has once."""
        text = (self.sources / path).read_text()
        assert text.count(old) == 1, f"{path} has this {text.count(old)} times:\n{old}"
        (self.sources / path).write_text(text.replace(old, new))
        self.changed.append(path)

    def restore(self) -> None:
        for path in self.changed:
            shutil.copyfile(ROOT / path, self.sources / path)
        self.changed.clear()

    def only_declares(self, header: str) -> bool:
        """Whether all that a header gained are declarations of functions: an object that was compiled before needs none."""
        before, after = ((one / header).read_text().splitlines() for one in (ROOT, self.sources))
        changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        return all(re.fullmatch(r"\+ (\s*|//.*|void \w+\(\w+& \w+\);)", line) for line in changes)

    def affected(self) -> Iterator[Unit]:
        """The units that read a changed file, and one for each new source."""
        readers: dict[str, set[str]] = {}  # of each file, the objects
        for block in ninja("deps").split("\n\n"):
            first, *files = block.splitlines() or [""]
            for file in files:
                readers.setdefault(file.strip(), set()).add(first.partition(":")[0])
        old = [str(ROOT / name) for name in self.changed if (ROOT / name).exists()]
        wanted = set().union(*(readers[name] for name in old
                               if not name.endswith(".hpp") or not self.only_declares(str(Path(name).relative_to(ROOT)))))
        yield from (unit for unit in self.units if unit.made in wanted)
        like = next(unit for unit in self.units if unit.made in readers[str(ROOT / LIKE)])
        for name in self.changed:
            if name.endswith(".cpp") and not (ROOT / name).exists():
                yield Unit(like.command, str(ROOT / name), name)

    def moved(self, source: str) -> str:
        """The copy of a source; of joined sources a file that joins their copies."""
        if Path(source).is_relative_to(BUILD):
            joined = self.objects / Path(source).name
            joined.write_text(Path(source).read_text().replace(f'"{ROOT}/', f'"{self.sources}/'))
            return str(joined)
        return source.replace(f"{ROOT}/", f"{self.sources}/")

    def compile(self, unit: Unit) -> tuple[str, str]:
        """The object's name on the linker's command line, and the new object."""
        made = str(self.objects / (unit.made.replace("/", "_") + ".o"))
        command = [f"-I{self.sources}" if word == f"-I{ROOT}" else word for word in without(unit.command, "-MT", "-MF", "-o", "-c")]
        run([*(word for word in command if word != "-MD"), "-Wno-error", "-o", made, "-c", self.moved(unit.source)], cwd=BUILD)
        return unit.made, made

    def build(self) -> Path:
        """Compiles what the changes concern and links the target; returns its path."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            made = dict(workers.map(self.compile, self.affected()))
        words = self.link[self.link.index("&&") + 1:]
        words = [made.get(word, word) for word in without(words[:words.index("&&")], "-o")]
        first_library = next(index for index, word in enumerate(words) if word.endswith(".a"))
        # The linker takes nothing from a library that a new object defines.
        words[first_library:first_library] = [one for one in made.values() if one not in words]
        run([*words, "-o", str(self.made)], cwd=BUILD)
        return self.made
