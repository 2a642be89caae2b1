"""Real programs under the default profile produce what they produce bare, as root and as an ordinary user."""
from __future__ import annotations

import pytest

import harness
from toolchains import Place, Program, Server, cleaned, differences, free_port, require

REPETITIONS = 3 if harness.SOAK else 1
PIPELINES = 2000 if harness.SOAK else 200

TIMES = (r"\b\d+(\.\d+)? ?(ms|s|sec)\b", "TIME")
PROGRAMS = [
    Program("python", ("python3",), varying=("*.pyc",)),
    Program("pip", ("python3", "pip"), varying=("*.pyc", "*/RECORD")),
    Program("git", ("git",), varying=("*.git/index", "*.git/worktrees/*/index", "*.git/logs/*", "*.git/FETCH_HEAD",
                                      "bare/packed-refs"),
            rewrites=()),
    Program("cmake", ("cmake", "ctest", "ninja", "g++"),
            varying=("*/.ninja_log", "*/.ninja_deps", "*/CMakeFiles/*.log", "*/Testing/*"),
            gone=("build/Testing/Temporary/CTestCostData.txt*",), rewrites=(TIMES,)),
    Program("make", ("gcc", "make", "ar"), varying=("made",)),
    Program("npm", ("node", "npm"), rewrites=(TIMES,), varying=("*/node_modules/.package-lock.json",)),
    Program("cargo", ("cargo", "rustc"), rewrites=(TIMES,), varying=("*/target/*",)),
    Program("go", ("go",)),
    Program("sqlite", ("sqlite3",), varying=("*.db*", "dump.sql")),
    Program("tar", ("tar", "xz", "diff")),
]


def compare(box: harness.Box, program: Program, arguments: list[str] = (), options: list[str] = ()) -> None:  # type: ignore[assignment]
    """Runs `program` bare and supervised at the same place: status, output and files are equal."""
    place = Place(box)
    command = ["bash", "run.sh", *arguments]
    place.renew(program.name)
    bare = place.run(command, supervised=False)
    before = place.contents(program)
    assert bare.code in (0, 7), f"the control itself failed\n{bare.describe()}"
    for _ in range(REPETITIONS):
        place.renew(program.name)
        supervised = place.run(command, options=options)
        after = place.contents(program)
        shown = f"{supervised.describe()}\n--- bare stderr\n{bare.errors[-4000:]}"
        assert supervised.code == bare.code, shown
        assert cleaned(program, supervised.out) == cleaned(program, bare.out), shown
        assert not differences(before, after), f"{differences(before, after)}\n{shown}"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_produces_what_it_produces_bare(box, program):
    require("bash", *program.needs)
    compare(box, program)


def test_curl_reaches_the_server_that_is_allowed(box):
    require("curl", "cmp")
    with Server() as server:
        compare(box, Program("curl", ()), [str(server.port)], ["-c", f"127.0.0.1:{server.port}"])
        assert server.requests[: len(server.requests) // (1 + REPETITIONS)].count("/text") == 2


def test_redis_serves_and_is_measured(box):
    require("redis-server", "redis-cli", "redis-benchmark")
    port = str(free_port())
    program = Program("redis", (), varying=("server.log", "dump.rdb", "appendonlydir/*"))
    compare(box, program, [port], ["--bind", port, "-c", f"127.0.0.1:{port}"])


def test_pipelines_of_three_flow(box):
    require("bash", "seq", "sort", "head")
    compare(box, Program("pipelines", ()), [str(PIPELINES)])
