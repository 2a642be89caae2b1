"""The pages for developers: all that is cited exists, and the picture of folders is the one of the sources."""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WRONG = {
    "a.cpp": ("// As kernel-facts 31 says (docs/limits.md).\n// See kernel-facts 99,\n// docs/none.md and invariants 3, 12.\n",
              ["a.cpp:2: docs/dev/kernel-facts.md has no number 99", "a.cpp:3: no such file: docs/none.md",
               "a.cpp:3: docs/dev/architecture.md has no invariant 12"]),
    "docs/page.md": ("# Page\n\n[here](limits.md), [there](gone.md), [heading](#page), [none](#other), `supervisor/gone.cpp`\n\n"
                     "```\ndocs/in-a-block.md\n```\n",
                     ["docs/page.md:3: no such file: gone.md", "docs/page.md:3: no such heading: #other",
                      "docs/page.md:3: no such file: supervisor/gone.cpp"]),
}


def citations(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "tools/citations.py"], capture_output=True, text=True, check=False)


def test_everything_that_is_cited_exists():
    done = citations(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_kind_of_dangling_citation_is_found(tmp_path):
    for name in ("tools/citations.py", "docs/dev/kernel-facts.md", "docs/dev/architecture.md", "docs/limits.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, (text, _) in WRONG.items():
        (tmp_path / name).write_text(text)
    done = citations(tmp_path)
    found = [line for line in done.stdout.splitlines() if line.startswith(tuple(WRONG))]
    assert done.returncode == 1 and sorted(found) == sorted(line for _, lines in WRONG.values() for line in lines), done.stdout


def insert(text: str, *arguments: object) -> int:
    return subprocess.run([sys.executable, ROOT / "tools/insert.py", *map(str, arguments)], input=text, text=True, check=False).returncode


def test_the_picture_of_folders_is_the_checkers(tmp_path):
    drawn = subprocess.run([ROOT / "tools/folders.py", "--picture"], capture_output=True, text=True, check=True).stdout
    page = ROOT / "docs/dev/architecture.md"
    assert insert(drawn, "--check", page, "folders") == 0, "./dev docs draws it anew"
    assert insert(drawn + "another line\n", "--check", page, "folders") == 1
    copy = tmp_path / "page.md"
    shutil.copy(page, copy)
    assert insert("other\n", copy, "folders") == 0 and "\n```\nother\n```\n" in copy.read_text()
    assert insert(drawn, copy, "folders") == 0 and copy.read_bytes() == page.read_bytes()
