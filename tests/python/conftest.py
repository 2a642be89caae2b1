"""The tests run in a place of their own, with the program that CALLGATE names, and nothing may be left there."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

BINARY = os.environ["CALLGATE"]


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
