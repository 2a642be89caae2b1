"""Fixtures: the stage (once), the user (root and an ordinary one, where pytest is root), and a box per test."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "attacks")]

import harness  # noqa: E402
import mutants  # noqa: E402
import replaying  # noqa: E402
import toolchains  # noqa: E402
from cases import table  # noqa: E402

KINDS = ["root", "user"] if os.geteuid() == 0 else ["user"]
ATTACKS: list = []
MEASURED: list[str] = []
WHY = 1500  # characters of a failure that the closing list shows
MARKS = {"race": "races, which take time", "abi": "cases that also run with older Landlock ABIs"}


def pytest_configure(config):
    for tag, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{tag}: {meaning}")


@pytest.fixture(scope="session")
def stage():
    made = harness.Stage()
    yield made
    made.close()


@pytest.fixture(scope="session")
def users(stage):
    return stage.users()


@pytest.fixture(params=KINDS)
def user(request, users):
    return users[request.param]


@pytest.fixture
def box(stage, user):
    made = stage.box(user)
    yield made
    made.close()


@pytest.fixture
def attack_results():
    """The results of attacks: the table that is printed at the end of the session."""
    return ATTACKS


@pytest.fixture
def measured():
    """Lines that say how long something took: printed at the end of the session."""
    return MEASURED


def pytest_terminal_summary(terminalreporter):
    show(terminalreporter, "attacks", table.lines(ATTACKS))
    show(terminalreporter, "mutants", mutants.lines())
    show(terminalreporter, "programs, seconds", toolchains.time_table())
    show(terminalreporter, "measured", MEASURED)
    show(terminalreporter, "replayed under the same rules", replaying.lines())
    skipped = [f"{one.nodeid.rpartition('::')[2]}: {one.longrepr[2]}" for one in terminalreporter.stats.get("skipped", [])]
    show(terminalreporter, "skipped", sorted(skipped), said=True)
    failed = [f"{one.nodeid.rpartition('::')[2]}: {why(one)}" for kind in ("failed", "error") for one in terminalreporter.stats.get(kind, [])]
    show(terminalreporter, "failed", failed, said=True)


def why(report) -> str:
    """The line and the beginning of what a failed test says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[:WHY]
    return f"{Path(crash.path).name}:{crash.lineno}: {crash.message[:WHY]}"


def show(reporter, title: str, lines: list[str], said: bool = False) -> None:
    """Prints a table, unless pytest has `said` so itself, and leaves it in CALLGATE_TABLES for `./dev test`: ctest
    shows nothing of what passes."""
    if not lines:
        return
    if not said:
        reporter.section(title)
        reporter.write_line("\n".join(lines))
    if directory := os.environ.get("CALLGATE_TABLES"):
        Path(directory).mkdir(exist_ok=True)
        source = os.environ.get("CALLGATE_TEST_NAME") or Path(reporter.config.args[0]).stem.removeprefix("test_")
        (Path(directory) / f"{title.partition(',')[0]}.{source}.txt").write_text("\n".join([f"--- {title}: {source}", *lines, ""]))
