"""The demonstration that ./dev demo shows: demo/run.sh itself checks both denials from outside and says what differs."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "demo"))

import record  # noqa: E402


def test_the_demonstration_goes_as_the_readme_tells(tmp_path):
    done = subprocess.run([ROOT / "demo/run.sh", os.environ["CALLGATE"]], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
                          env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.iterdir()) == [], "the demonstration left something behind"
    shown = record.SESSION.search(record.README.read_text())
    assert shown is not None, "README.md has no session between its marks"
    found = record.difference(shown[0], done.stdout.strip("\n"))
    assert not found, f"./dev docs writes README's session anew\n{found}"


def test_another_session_would_be_noticed():
    shown = record.SESSION.search(record.README.read_text())
    assert shown is not None
    assert record.difference(shown[0], re.sub(r"\brun [a-z0-9]{6}\b", "run abcdef", shown[0])) == ""
    for other in (shown[0].replace("denied 2 calls", "denied 1 call"), shown[0].replace("Permission denied", "No such file")):
        assert record.difference(shown[0], other) != ""
