"""Fixtures: the stage (once), the user (root and an ordinary one, where pytest is root), and a box per test."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness  # noqa: E402

KINDS = ["root", "user"] if os.geteuid() == 0 else ["user"]
TABLE: list[tuple[str, str, str, str, str]] = []


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
def table():
    """Rows of the attack table: (user, case, control, held, twin); printed at the end of the session."""
    return TABLE


def pytest_terminal_summary(terminalreporter):
    if not TABLE:
        return
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"{'user':5} {'case':38} {'control':16} {'supervised':16} twin")
    for user, case, control, held, twin in sorted(TABLE):
        terminalreporter.write_line(f"{user:5} {case:38} {control:16} {held:16} {twin}")
