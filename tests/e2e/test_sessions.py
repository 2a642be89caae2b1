"""The sessions of the pages, run line by line. What they print is what the pages show (tools/sessions.py)."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tools"))

import sessions  # noqa: E402

PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/*.md")])
WITH_SESSIONS = [page.name for page in PAGES if "```console" in page.read_text()]


def differences(box, page: str) -> list[str]:
    home = box.directory(box.root / "you")
    project = box.directory(home / "project")

    def run(command: str) -> str:
        line = ["/bin/bash", "-c", command]
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=project,
                            env=sessions.environment(box.callgate, home))
        return box.wait(process, line, None, 120).text.replace(str(home), sessions.SHOWN_HOME)

    return sessions.differences(page, run, lambda file, text: box.file(project / file, text.encode()))[0]


@pytest.mark.parametrize("name", WITH_SESSIONS)
def test_a_page_shows_what_its_commands_print(box, name):
    page = (TOP / "docs" / name).read_text()
    assert len([one for one in sessions.steps(page) if one.kind == "command"]) >= 10
    assert differences(box, page) == []


def test_another_output_would_be_noticed(box):
    page = "```console\n$ callgate run -- sh -c 'echo a; exit 3'; echo $?\na\n3\n$ callgate --help | head -1\nsomething else\n```\n"
    (found,) = differences(box, page)
    assert "-something else" in found


def test_there_are_twelve_tasks():
    page = (TOP / "docs/rules-by-task.md").read_text()
    parts = re.split(r"^## \d+\. ", page, flags=re.MULTILINE)[1:]
    assert len(parts) == 12
    for part in parts:
        kinds = [one.kind for one in sessions.steps(part)]
        assert "file" in kinds and "command" in kinds, part


def lines_of_callgate() -> list[tuple[str, list[str]]]:
    """Each line of a page's block that calls callgate: the place, and its words up to what another program gets."""
    found = []
    for page in PAGES:
        kind = None  # of the block that the line is in
        for line in page.read_text().splitlines():
            if line.startswith("```"):
                kind = None if kind is not None else line[3:].partition(" ")[0]
            one = re.match(r"(?:\$ )?(callgate .*)", line)
            if kind in ("", "console") and one and "━" not in line and "┏" not in line:
                words = re.split(r"\s*(?:[|;<>&]|  )", one[1])[0]
                found.append((page.name, words.partition(" -- ")[0].split()))
    return found


def test_pages_name_only_verbs_and_options_that_exist(stage):
    helps: dict[str, str] = {}

    def help_of(verb: str) -> str:
        if verb not in helps:
            done = subprocess.run([stage.callgate, verb, "--help"], capture_output=True, text=True, check=False)
            helps[verb] = done.stdout if done.returncode == 0 else ""
        return helps[verb]

    seen, wrong = 0, []
    for page, words in lines_of_callgate():
        verb = words[1]
        if verb.startswith("-") or not re.fullmatch("[a-z]+", verb):
            continue
        seen += 1
        if not help_of(verb):
            wrong.append((page, words))
            continue
        plain = words[2:]
        if verb == "run":  # the command's own options come behind its name
            first = next((number for number, word in enumerate(plain) if not word.startswith("-") and (number == 0 or not plain[number - 1].startswith("-"))), len(plain))
            plain = plain[:first]
        for word in plain:
            option = re.match(r"--[a-z][a-z-]*|-[A-Za-z]$", word)
            if option and not re.search(rf"(?<![\w-]){re.escape(option[0])}(?![\w-])", help_of(verb)):
                wrong.append((page, words))
    assert seen > 40 and wrong == []
