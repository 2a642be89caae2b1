"""Runs the Python package's own tests (tests/python) as the test's user, from copies that he can read."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import harness

TOP = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
# A suite is many tests, and a long run has twenty times the jobs in a pool.
DEADLINE = 5 * harness.DEADLINE


def staged(stage: harness.Stage) -> Path:
    """The package and its tests, readable for everybody."""
    place = stage.root / "python"
    if not place.exists():
        for name in ("python/callgate", "tests/python", "docs"):
            shutil.copytree(TOP / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "_bin"))
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    return place


def suite(box: harness.Box, names: list[str], python: str = PYTHON, long: bool = harness.SOAK, only: str = "",
          deadline: float = DEADLINE) -> str:
    """Runs these files of tests/python to their end (`only`: as for pytest -k); fails with their output."""
    place = staged(box.stage)
    line = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:warnings",
            f"--basetemp={box.tree}/t",
            *(["-k", only] if only else []), *(str(place / "tests/python" / name) for name in names)]
    more = {"CALLGATE_SOAK": "1" if harness.SOAK else "0", "CALLGATE_LONG": "1" if long else "0", "CALLGATE": str(box.callgate),
            "PYTHONPATH": str(place / "python"), "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CONFIG_HOME": str(box.home / ".config")}
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        env=box.environment(more))
    result = box.wait(process, line, None, deadline)
    failures = result.text.partition("= FAILURES =")[2] or result.text[-12000:]
    assert result.code == 0, failures[:12000]
    return result.text
