"""The demonstration that ./dev demo shows: demo/run.sh itself checks both denials from outside and says what differs."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demonstration_goes_as_the_readme_tells(tmp_path):
    done = subprocess.run([ROOT / "demo/run.sh", os.environ["CALLGATE"]], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
                          env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.iterdir()) == [], "the demonstration left something behind"
