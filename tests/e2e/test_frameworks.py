"""Every adapter of the Python package inside its framework, in the virtual environment that tools/venvs.sh made.

A plain run takes the frameworks of COMMON; `./dev test executors` and --soak take all, `./dev test fleet` takes Ray and the clients
of the HTTP service.
"""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import executors
import harness

COMMON = ("langchain", "pydantic_ai", "autogen")
REQUIREMENTS = executors.TOP / "tests/python/requirements"
EVERY = sorted((one.stem for one in REQUIREMENTS.glob("*.txt") if one.stem not in ("lint", "examples")), key=lambda name: (name not in COMMON, name))
# In a plain run the questions and the frameworks' own suites are for the ordinary user; root has agents and the rest.
SUITES_AS_ROOT = 2 if harness.SOAK else 0
CHOSEN = os.environ.get("CALLGATE_FRAMEWORKS", "")
ALL = harness.SOAK or CHOSEN == "all"
NAMES = EVERY if ALL else CHOSEN.split() or COMMON


@pytest.fixture(scope="session")
def environments():
    """The directory of the environments; ./dev makes them."""
    return Path(subprocess.run([executors.TOP / "tools/venvs.sh", "--where"], capture_output=True, text=True, check=True).stdout.strip())


@pytest.mark.parametrize("name", NAMES)
def test_a_framework(name, box, environments):
    python = environments / name / "bin/python"
    if not python.exists() or not (environments / name / "installed.txt").exists():
        pytest.skip(f"{name} is not installed: tools/venvs.sh {name}")
    less = box.user.kind == "root" and not ALL and not CHOSEN and not SUITES_AS_ROOT
    only = "not TestQuestions and not TestConformance" if less else ""
    assert " passed" in executors.suite(box, [f"test_{name}.py"], str(python), ALL, only)
