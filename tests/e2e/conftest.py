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


def pytest_collection_modifyitems(config, items):
    """`./dev test` runs once more, by itself, what failed beside other files: then nothing else is run."""
    if not once_more_runs():
        return
    wanted = set(once_more(config).read_text().splitlines())
    config.hook.pytest_deselected(items=[one for one in items if one.nodeid not in wanted])
    items[:] = [one for one in items if one.nodeid in wanted]


def pytest_runtest_makereport(item, call):
    """Lists what failed and may be run once more. One success of an attack is enough, so files of attacks have no list."""
    name = test_name(item.config)
    if not os.environ.get("CALLGATE_TABLES") or "attack" in name or name.startswith("abi_"):
        return
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        listed = once_more(item.config)
        listed.parent.mkdir(exist_ok=True)
        with listed.open("a") as file:
            file.write(f"{item.nodeid}\n")


def once_more_runs() -> bool:
    return os.environ.get("CALLGATE_ONCE_MORE") == "1"


def once_more(config) -> Path:
    return Path(os.environ["CALLGATE_TABLES"]) / f"once-more.{test_name(config)}"


def test_name(config) -> str:
    return os.environ.get("CALLGATE_TEST_NAME") or Path(config.args[0]).stem.removeprefix("test_")


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
    if (directory := os.environ.get("CALLGATE_TABLES")) and (title == "failed" or not once_more_runs()):
        Path(directory).mkdir(exist_ok=True)
        source = test_name(reporter.config)
        (Path(directory) / f"{title.partition(',')[0]}.{source}.txt").write_text("\n".join([f"--- {title}: {source}", *lines, ""]))
