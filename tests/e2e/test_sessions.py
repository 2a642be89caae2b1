"""The sessions of the pages, run line by line. What they print is what the pages show (tools/sessions.py)."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import executors

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tools"))

import sessions  # noqa: E402

PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/*.md"), *TOP.glob("docs/dev/*.md")])
WITH_SESSIONS = [page.name for page in PAGES if re.search("^```console", page.read_text(), re.MULTILINE)]


def differences(box, page: str) -> list[str]:
    home = box.directory(box.root / "you")
    project = box.directory(home / "project")

    def run(command: str) -> tuple[int, str]:
        line = ["/bin/bash", "-c", command]
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=project,
                            env=sessions.environment(box.callgate, home))
        done = box.wait(process, line, None, 120)
        return done.code, done.text.replace(str(home), sessions.SHOWN_HOME)

    return sessions.differences(page, run, lambda file, text: box.file(project / file, text.encode()))[0]


@pytest.mark.parametrize("name", WITH_SESSIONS)
def test_a_page_shows_what_its_commands_print(box, name):
    page = (TOP / "docs" / name).read_text()
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


def unexplained(page: str) -> list[tuple[int, str]]:
    """The blocks of commands that no test runs, and that do not say why, or name a test that does not exist."""
    return [(line, why) for line, why in sessions.not_run(page)
            if not why or not all((TOP / "tests/e2e" / name).is_file() for name in re.findall(r"\btest_\w+\.py", why))]


def test_every_block_of_commands_is_run_or_says_why_not(measured):
    """A block that holds no command, such as a picture or what a block of Python prints, has its own test or none."""
    for page in PAGES:
        text = page.read_text()
        assert unexplained(text) == [], page
        measured.extend(f"not run here: {page.relative_to(TOP)}, line {line}: {why}" for line, why in sessions.not_run(text))
    block = "```\n$ callgate ps\n```\n"
    assert unexplained(block) == unexplained(block.replace("$ ", "")) == [(1, "")]
    assert unexplained(block.replace("```\n", "```console\n", 1)) == []
    assert unexplained(f"<!-- not run: test_sessions.py does -->\n{block}") == []
    assert len(unexplained(f"<!-- not run: test_gone.py does -->\n{block}")) == 1


def rule_sets(page: str) -> list[tuple[int, str]]:
    """The blocks of JSON with rules, each made a whole rule set: the line, and the text."""
    found = []
    for block in sessions.BLOCK.finditer(page):
        text = block["text"] or ""
        if block["kind"] not in ("json", "jsonc") or block["file"]:
            continue
        if text.startswith('"'):
            text = text + (',\n"rules": []' if '"rules"' not in text else "")
            text = '{"version": 1, "extends": ["base"],\n' + text + "}"
        elif '"version"' not in text:  # rules one after the other, with comments between
            text = re.sub(r"\}\s*\n((?:\s*//[^\n]*\n|\s*\n)*)\{", r"},\n\1{", text)
            text = '{"version": 1, "extends": ["base"], "rules": [\n' + text + "]}"
        found.append((page.count("\n", 0, block.start()) + 1, text))
    return found


def test_every_rule_of_the_reference_is_good(box):
    """Warnings are of what this machine lacks, or of what the page says itself."""
    found = rule_sets((TOP / "docs/rules.md").read_text())
    assert len(found) >= 7
    for line, text in found:
        file = box.file(box.tree / "rules.json", text.encode())
        done = box.run([str(box.callgate), "check", str(file)], supervised=False)
        of_this_host = ("cannot be resolved now", "depends on the asking program", "which this host lacks")
        other = [one for one in (done.text + done.errors).splitlines() if not any(words in one for words in of_this_host)]
        assert done.code == 0 and len(other) == 1 and "good" in other[0], f"docs/rules.md, line {line}: {done.describe()}"


def test_each_line_of_the_readme_for_its_readers_works(box):
    """The table says who it is for. The first line needs an agent: test_agents.py runs it."""
    table = (TOP / "README.md").read_text().partition("## Who it is for")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| [^|]+ \| `([^|]+)` \(", table, re.MULTILINE)
    project = box.directory(box.root / "you")
    box.file(project / "main.py", b"print('worked')\n")
    box.file(project / "Makefile", b"test:\n\t@echo tested\n")
    box.file(project / "rules.json", b'{"version": 1, "extends": ["agent"], "rules": []}')
    expected = {"callgate run claude": None, "callgate run -- python3 main.py": "worked\n", "callgate exec": '{"output":"42\\n"', "Sandbox": "worked\n",
                "callgate run -q": "tested\n"}
    assert len(lines) == len(expected)
    for line, (begin, output) in zip(lines, expected.items()):
        assert line.startswith(begin), line
        if output is None:
            continue
        words = ["/usr/bin/python3", "-c", f"from callgate import Sandbox; print({line}.text, end='')"] if begin == "Sandbox" else ["/bin/bash", "-c", line]
        process = box.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=project,
                            env={**sessions.environment(box.callgate, box.home), "PYTHONPATH": str(executors.staged(box.stage) / "python")})
        done = box.wait(process, words, None, 120)
        assert done.code == 0 and done.text.startswith(output), done.describe()
    assert '"outcome":"exited"' in (project / "run.json").read_text().replace(" ", "")


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
