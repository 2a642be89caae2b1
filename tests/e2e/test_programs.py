"""Real programs produce what they produce bare, as root and as an ordinary user: under the default profile, and with
every hierarchy of it contested."""
from __future__ import annotations

import pytest

import harness
from toolchains import CONTESTED, REPETITIONS, VARIANTS, Program, Server, compare, free_port, require

PIPELINES = 2000 if harness.SOAK else 100

PROGRAMS = [
    Program("python", ("python3",), varying=("*.pyc",)),
    # urllib3 asks, by binding, whether there is IPv6. Every page in the user's browser could reach a listener, even on a
    # loopback port of the kernel's choice. So the profile does not allow one.
    Program("pip", ("python3", "pip"), varying=("*.pyc", "*/RECORD"), denied=(r"bind \[::1\]:0",)),
    Program("wheel", ("/usr/bin/python3", "gcc", "python3-config", "/usr/lib/python3/dist-packages/pip",
                      "/usr/lib/python3/dist-packages/setuptools", "/usr/lib/python3/dist-packages/wheel"),
            varying=("*.pyc",), denied=(r"bind \[::1\]:0",)),
    Program("git", ("git",), varying=("*.git/index", "*.git/worktrees/*/index", "*.git/logs/*", "*.git/FETCH_HEAD", "*.mtimes")),
    Program("rebase", ("git", "sed"), varying=("*.git/index", "*.git/logs/*")),
    Program("cmake", ("cmake", "ctest", "ninja", "g++"),
            varying=("*/.ninja_log", "*/.ninja_deps", "*/CMakeFiles/*.log", "*/CMakeFiles/CMakeConfigureLog.yaml", "*/Testing/*"),
            gone=("build/Testing/Temporary/CTestCostData.txt*",)),
    Program("make", ("gcc", "make", "ar"), varying=("made",)),
    Program("npm", ("node", "npm"), varying=("*/node_modules/.package-lock.json",)),
    Program("npm-test", ("node", "npm"), rewrites=((r"\b(duration_ms:?) [\d.]+", r"\1 TIME"),)),
    # The lock of the packages in home is not written; cargo goes on without it where nothing is downloaded.
    Program("cargo", ("cargo", "rustc"), varying=("*/target/*",), denied=(r"(create|modify) .*/\.cargo/\.(package-cache|package-cache-mutate|global-cache|global-cache-journal)",)),
    Program("go", ("go",)),
    Program("sqlite", ("sqlite3",), varying=("*.db*", "dump.sql")),
    Program("tar", ("tar", "xz", "diff")),
    Program("deb", ("dpkg-deb", "ar", "tar", "diff")),
    Program("editor-server", ("node", "git", "script"), varying=("*.git/index",), denied=(r"modify .*/\.vscode/settings\.json",)),
    Program("rsync", ("rsync", "diff", "setfacl", "/usr/bin/python3")),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_produces_what_it_produces_bare(box, program):
    compare(box, program)


def test_curl_reaches_the_server_that_is_allowed(box):
    require("curl", "cmp")
    with Server() as server:
        compare(box, Program("curl", ()), [str(server.port)], ["-c", f"127.0.0.1:{server.port}"])
        assert server.requests.count("/text") == 2 * (1 + len(VARIANTS) * REPETITIONS)


def test_redis_serves_and_is_measured(box):
    require("redis-server", "redis-cli", "redis-benchmark")
    port = str(free_port())
    program = Program("redis", (), varying=("server.log", "dump.rdb", "appendonlydir/*"))
    compare(box, program, [port], ["--bind", port, "-c", f"127.0.0.1:{port}"])


def test_pipelines_of_three_flow(box):
    compare(box, Program("pipelines", ("seq", "sort", "head"), status=7), [str(PIPELINES)])


def granted(box: harness.Box, options: list[str]) -> list[str]:
    """The lines of the plan on what Landlock holds."""
    shown = box.run([str(box.stage.callgate), "plan", *options], supervised=False)
    assert shown.code == 0, shown.describe()
    return shown.text.partition("\n\n")[0].splitlines()[1:]


def test_the_contested_variant_leaves_no_hierarchy_to_landlock(box):
    """The purpose of the second variant: without this it could silently be the first again."""
    rules = str(box.rules_file(CONTESTED))
    shipped, contested = granted(box, ["-p", "agent"]), granted(box, ["-p", "agent", "-R", rules])
    assert any("/** " in line and "(read: notify-only)" not in line for line in shipped), shipped
    assert [line for line in contested if "/** " in line and "(read: notify-only)" not in line] == []
