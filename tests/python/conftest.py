"""The tests run in a place of their own, with the program that CALLGATE names, and nothing may be left there."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

BINARY = os.environ["CALLGATE"]
LATE: list[tuple[float, str]] = []


@pytest.fixture(autouse=True)
def workdir(request, tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"{Path(BINARY).parent}:{os.environ['PATH']}")
    if request.instance is not None:
        request.instance.workdir = place
    return place


@pytest.fixture
def binary():
    return BINARY


@pytest.fixture
def answers():
    """How many seconds after timeout and grace which run was answered: the latest is printed at the end of the session."""
    return LATE


def pytest_terminal_summary(terminalreporter):
    for late, what in sorted(LATE)[-1:]:
        terminalreporter.write_line(f"measured: of {len(LATE)} runs the latest ({what}) was answered {late:.2f} s after timeout and grace")
