"""The manual pages: valid for mandoc, complete, and with no reference that leads nowhere."""
from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
FOREIGN = "referenced manual not found"  # mandoc looks for installed pages only: test_references is about ours


@pytest.fixture(scope="module")
def pages(stage):
    """Name to source."""
    place = Path(os.environ["CALLGATE"]).parent / "share/man"
    found = {path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes()).decode() for path in place.glob("man?/*.gz")}
    assert len(found) > 10, "no pages: ./dev build"
    return found


@pytest.fixture(scope="module")
def verbs(stage):
    said = subprocess.run([stage.callgate, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) ", said.partition("Verbs:")[2].partition("Examples:")[0], re.M)


def rendered(source: str) -> str:
    shown = subprocess.run(["mandoc", "-T", "utf8"], input=source, capture_output=True, text=True, check=True).stdout
    return re.sub(r".\x08", "", shown)


def test_mandoc_finds_nothing_wrong(pages):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed: ./dev deps test")
    for name, source in pages.items():
        found = subprocess.run(["mandoc", "-T", "lint"], input=source, capture_output=True, text=True, check=False)
        assert [one for one in (found.stdout + found.stderr).splitlines() if FOREIGN not in one] == [], name
    broken = subprocess.run(["mandoc", "-T", "lint"], input=pages["callgate.1"].replace(".El\n", "", 1), capture_output=True, text=True, check=False)
    assert "missing" in broken.stdout + broken.stderr or "inserting" in broken.stdout + broken.stderr or broken.returncode != 0


def test_references(pages):
    for name, source in pages.items():
        wanted = {f"{one}.{number}" for one, number in re.findall(r"^\.(?:It )?Xr (\S+) (\d)", source, re.M)}
        assert wanted and wanted <= set(pages), name


def test_each_verb_has_its_page_with_all_of_its_help(pages, verbs, stage):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed: ./dev deps test")
    assert {f"callgate-{verb}.1" for verb in verbs} | {"callgate.1", "callgate-rules.5", "callgate-profiles.7"} == set(pages)
    for verb in verbs:
        said = subprocess.run([stage.callgate, verb, "--help"], capture_output=True, text=True, check=True).stdout
        page = rendered(pages[f"callgate-{verb}.1"])
        for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", said, re.M):
            assert option in page, (verb, option)
        # Every word of the help's first paragraph, in its order, with any spaces between.
        text = said.partition("\n\n")[2].partition("\n\nExamples:")[0]
        assert "".join(text.split()).lower() in "".join(page.split()).lower(), verb
        for example in said.partition("Examples:\n")[2].partition("\n\n")[0].splitlines():
            assert example.strip() in page, (verb, example)


def test_the_page_of_rules_has_every_key_with_its_meaning(pages):
    schema = json.loads((TOP / "rules/rules.schema.json").read_text())
    source = pages["callgate-rules.5"]
    for part in (schema, *(schema["$defs"][one] for one in ("rule", "limits", "environment"))):
        for key, value in part["properties"].items():
            if key == "$schema":
                continue
            entry = re.search(rf'^\.It Ic "{key}"\n([^.].*)', source, re.M)
            assert entry, f"{key} has no description in rules/rules.schema.json: {value}"


def test_the_page_of_profiles_has_each(pages, stage):
    said = subprocess.run([stage.callgate, "profiles"], capture_output=True, text=True, check=True, env={"HOME": "/nonexistent"}).stdout
    names = [line.split()[0] for line in said.splitlines()]
    assert re.findall(r'^\.It Cm "(\S+)"', pages["callgate-profiles.7"].replace("\\-", "-"), re.M) == names
