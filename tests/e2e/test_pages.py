"""The pages for developers: all that is cited exists, and the picture of folders is the one of the sources."""
from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import sessions  # noqa: E402

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


GONE = "no kernel that callgate runs on implements it"


def refused(page: str) -> list[tuple[str, str]]:
    """The calls that docs/system-calls.md refuses, each with its errno. A call that refuses some arguments gives those."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 7 and re.fullmatch(r"`E[A-Z]+`", cells[4]):
            found += [(name, cells[4]) for name in re.findall(r"\b[A-Z][A-Z0-9_]{4,}(?:_v2)?\b", cells[3]) or [cells[0].strip("`")]]
        if len(cells) == 3 and re.fullmatch(r"`E[A-Z]+`", cells[1]) and not cells[2].startswith(GONE):
            found += [(name, cells[1]) for name in cells[0].strip("`").split()]
    return found


def not_told(table: list[tuple[str, str]], page: str) -> set[str]:
    """The names that no section of docs/differences.md names together with their errno."""
    sections = [set(re.findall(r"`([^`\n]+)`", section)) for section in re.split(r"^##+ ", page, flags=re.MULTILINE)]
    return {name for name, errno in table if not any({name, errno.strip("`")} <= words for words in sections)}


def test_every_refused_call_that_a_program_may_notice_has_its_place():
    table = refused((ROOT / "docs/system-calls.md").read_text())
    page = (ROOT / "docs/differences.md").read_text()
    assert len(table) > 110 and {("READ_IMPLIES_EXEC", "`EPERM`"), ("clone3", "`ENOSYS`"), ("open_tree", "`EPERM`")} <= {*table}, table
    assert not_told(table, page) == set()
    for name, errno in table:
        assert not_told([(name, errno)], page.replace(f"`{name}`", "it")) == {name}
    assert not_told([("clone3", "`EPERM`")], page) == {"clone3"}, "another errno is another difference"


def test_the_table_of_attacks_is_the_one_of_the_cases():
    done = subprocess.run([sys.executable, ROOT / "tools/attack_table.py"], capture_output=True, text=True, check=True)
    assert insert(done.stdout, "--check", ROOT / "README.md", "attacks") == 0, "./dev docs writes it anew"


def test_the_recording_plays_what_the_readme_says():
    """`./dev recording` makes it anew. The picture needs nothing from elsewhere."""
    header, *events = [json.loads(line) for line in (ROOT / "docs/recording.cast").read_text().splitlines()]
    shown = "".join(text for _, kind, text in events if kind == "o")
    assert header["version"] == 2 and [one[0] for one in events] == sorted(one[0] for one in events)
    for scene in ("rule base.keys (private keys)", "callgate  question 1 of 1", "Meet at noon.", "end of run"):
        assert scene in shown, scene
    picture = ROOT / "docs/recording.svg"
    text = picture.read_text()
    assert picture.stat().st_size < 300_000 and ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert text.count("//") == 1 and "@keyframes" in text and "question 1 of 1" in text and "<script" not in text


def test_the_recording_is_what_a_session_shows_today(stage):
    """The session is played again. Its screens, but for names of runs, times and process numbers, are those of the recording."""
    wanted, installed = ROOT / "tools/site/requirements.txt", ROOT / "build/site-venv/installed.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        pytest.skip("the terminal of the recording is not installed: ./dev site")
    python = installed.parent / "bin/python"

    def tool(name: str, *words: object) -> str:
        done = subprocess.run([python, ROOT / "tools/recording" / name, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    again, drawn = stage.root / "again.cast", stage.root / "drawn.svg"
    tool("record.py", stage.callgate, again)
    was, now = (sessions.comparable(tool("draw.py", "--text", cast)) for cast in (ROOT / "docs/recording.cast", again))
    assert now == was, "./dev recording makes it anew"
    assert [line for line in was if line.startswith("== ")] == ["== a denied key", "== a question", "== the program goes on", "== the record"]
    tool("draw.py", ROOT / "docs/recording.cast", drawn)
    assert drawn.read_bytes() == (ROOT / "docs/recording.svg").read_bytes()


def test_the_readme_begins_with_what_people_look_for():
    """In this order: what it is, how it is installed, what it looks like, proof, who it is for, how it works."""
    text = (ROOT / "README.md").read_text()
    first = text.partition("\n\n")[2].partition(". ")[0]
    assert all(word in first for word in ("sandbox", "untrusted code", "AI agent")), first
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[:6] == ["Install", "A session", "Proof", "Who it is for", "In Python", "How it works"]


def measured(page: str) -> dict[str, tuple[str, str]]:
    """The tools of a table with the medians of a start and of an open: those of docs/performance.md, or those that are taken from there."""
    rows = re.findall(r"^\| ([a-zA-Z][a-zA-Z ]*?)(?: \d[\d.-]*)? \| ([\d.]+)(?: ms| \([\d.]+\)) \|(?: ×[\d.]+ \|)? ([\d.]+)(?: µs| \()",
                      (ROOT / page).read_text(), re.MULTILINE)
    return {name: (start, opened) for name, start, opened in rows}


def test_figures_of_other_tools_are_those_of_the_measurement():
    source = measured("docs/performance.md")
    assert len(source) >= 12 and measured("docs/compared.md") == source
    taken = measured("README.md")
    assert len(taken) >= 4 and {name: source.get(name) for name in taken} == taken
