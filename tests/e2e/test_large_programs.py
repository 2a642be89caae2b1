"""Programs of many processes, threads and kinds of shared memory: virtual machines, databases, browsers, debuggers."""
from __future__ import annotations

from pathlib import Path

import pytest

from pictures import pixels
from toolchains import Program, compare, require

SMALL = [
    Program("multiprocessing", ("python3",), varying=("*.pyc",)),
    Program("debuggers", ("gcc", "gdb", "strace"), varying=("calls", "forked", "summary", "attached"), traces=True),
]


@pytest.mark.parametrize("program", SMALL, ids=str)
def test_a_program_produces_what_it_produces_bare(box, program):
    compare(box, program)


def test_java_compiles_and_runs(box):
    """Under the profile that sends its temporary files where they may be; the machine tells on stderr that it was told."""
    compare(box, Program("java", ("java", "javac", "jar"), profile="java", varying=("classes/*", "main.jar"),
                         rewrites=(("^Picked up JAVA_TOOL_OPTIONS: .*\n", ""),)))


def test_chromium_takes_a_picture_of_a_page(box):
    place = compare(box, Program("chromium", ("chromium",),
                                 denied=(r"connect [a-z0-9.]+\.(google|googleapis|gvt1)\.com",)))
    width, height, rows = pixels((place.work / "page.png").read_bytes())
    assert (width, height) == (200, 150)
    assert rows[5][5] == (12, 34, 56)
    assert rows[60][80] == (200, 100, 50), "what the page's program painted"


@pytest.fixture
def ordinary(stage, users):
    """A box of the ordinary user: some programs refuse to run as root."""
    made = stage.box(users["user"])
    yield made
    made.close()


def test_postgresql_starts_and_answers(ordinary):
    """Its shared memory is anonymous, System V and POSIX."""
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name))
    binaries = str(servers[-1]) if servers else "/usr/lib/postgresql/NN/bin"
    compare(ordinary, Program("postgresql", (f"{binaries}/initdb", f"{binaries}/postgres", "psql")), [binaries])
