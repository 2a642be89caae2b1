"""docs/dev/adding-a-call.md, followed: the page's own diff is applied to a copy of the sources, and the new call is run.

Sources that the diff touches are compiled with the commands of the build that is tested, and linked with its libraries. So
this takes seconds, and the page cannot fall behind the sources.
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

import pytest

import harness

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "dev" / "adding-a-call.md"
BUILD = Path(os.environ["CALLGATE"]).resolve().parent
SOURCES = ("agent", "base", "rules", "supervisor")
LIKE = "supervisor/enforce/call_table.cpp"  # a new source is compiled as this one is


def diff_of_page() -> str:
    blocks = re.findall(r"^```diff\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, "the page shows no diff"
    return "".join(blocks)


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
    """A copy of the sources with the diff applied, and how to build the program from it."""

    def __init__(self, place: Path) -> None:
        self.sources, self.objects, self.program = place / "sources", place / "objects", place / "callgate"
        self.objects.mkdir(parents=True)
        for folder in SOURCES:
            shutil.copytree(ROOT / folder, self.sources / folder)
        diff = diff_of_page()
        run(["git", "apply", "--whitespace=error", "-"], cwd=self.sources, input=diff,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(place)})
        self.changed = re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)
        *compiled, self.link = map(shlex.split, ninja("commands", "callgate").splitlines())
        self.units = [Unit(line, line[line.index("-c") + 1], line[line.index("-o") + 1]) for line in compiled if "-c" in line]

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
        run([*(word for word in command if word != "-MD"), "-o", made, "-c", self.moved(unit.source)], cwd=BUILD)
        return unit.made, made

    def build(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            made = dict(workers.map(self.compile, self.affected()))
        words = self.link[self.link.index("&&") + 1:]
        words = [made.get(word, word) for word in without(words[:words.index("&&")], "-o")]
        first_library = next(index for index, word in enumerate(words) if word.endswith(".a"))
        # The linker takes nothing from a library that a new object defines.
        words[first_library:first_library] = [one for one in made.values() if one not in words]
        run([*words, "-o", str(self.program)], cwd=BUILD)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (BUILD / "build.ninja").exists():
        pytest.skip("the tested program does not lie in its build tree")
    copy = Copy(tmp_path_factory.mktemp("adding-a-call"))
    copy.build()
    return copy.program


@pytest.fixture
def extended(stage, box, built):
    """A box whose callgate has the page's call."""
    program = stage.bin / "callgate-extended"
    shutil.copyfile(built, program)
    program.chmod(0o755)
    box.callgate = program
    return box


WATCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.inotify_init1(os.O_NONBLOCK)
watch = libc.inotify_add_watch(queue, os.fsencode(sys.argv[1]), 0x2)  # IN_MODIFY
if watch < 0:
    print(os.strerror(ctypes.get_errno()))
    sys.exit(1)
with open(sys.argv[2], "a") as file:
    file.write("more")
print("seen" if len(os.read(queue, 4096)) >= 16 else "nothing")
"""


def watch(box, watched: Path, written: Path, supervised: bool = True) -> harness.Result:
    rules = harness.rule_set(
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "secret", "deny": "read", "path": f"{box.tree}/secret/**"},
    )
    return box.run(["/usr/bin/python3", "-c", WATCH, str(watched), str(written)], rules, supervised=supervised)


def watches(result: harness.Result) -> list[tuple[str, str]]:
    """Verdict and rule of each decision on the new call."""
    return [(one["callgate"]["verdict"], one["rule"]["name"]) for one in result.decisions() if one["event"]["action"] == "inotify_add_watch"]


def place(box) -> tuple[Path, Path]:
    return box.file(box.tree / "secret" / "notes"), box.file(box.tree / "open" / "notes")


def test_the_new_call_is_denied_by_a_rule_and_on_record(extended):
    secret, _ = place(extended)
    result = watch(extended, secret, secret)
    assert (result.code, result.out) == (1, b"Permission denied\n"), result.describe()
    assert watches(result) == [("deny", "secret")], result.audit
    assert result.report["denials"][0]["object"] == str(secret), result.report["denials"]


def test_the_new_call_is_performed_where_it_is_allowed(extended):
    _, free = place(extended)
    result = watch(extended, free, free)
    assert (result.code, result.out) == (0, b"seen\n"), result.describe()
    assert watches(result) == [("allow", "tree")], result.audit


def test_without_the_diff_nothing_decides_the_call(box):
    secret, _ = place(box)
    result = watch(box, secret, secret)
    assert (result.code, result.out) == (0, b"seen\n"), result.describe()
    assert watches(result) == []
