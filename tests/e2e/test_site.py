"""The site of the pages (tools/site): built without a warning, complete, and shown by a browser without a network."""
from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from browser import Browser

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tools/site"))

import messages  # noqa: E402

SHOWN = ("index.html", "docs/first-steps.html", "docs/messages.html")


@pytest.fixture(scope="module")
def site(stage):
    wanted, installed = TOP / "tools/site/requirements.txt", TOP / "build/site-venv/installed.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        pytest.skip("the generator of the site is not installed: ./dev site")
    place = stage.root / "site"
    done = subprocess.run([TOP / "tools/site/build.sh"], capture_output=True, text=True, check=False, env={**os.environ, "CALLGATE_SITE": str(place)})
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_every_page_is_in_the_navigation(site):
    """A link or an anchor that leads nowhere, and a page outside of the navigation, end the build."""
    pages = {str(one.relative_to(TOP).with_suffix(".html")) for one in [*TOP.glob("docs/**/*.md"), *TOP.glob("*.md")]}
    pages = pages - {"README.html"} | {"index.html", "docs/messages.html", "docs/manual.html"}
    first = (site / "index.html").read_text()
    assert len(pages) > 35 and [one for one in sorted(pages) if not (site / one).is_file() or f'href="{one}"' not in first] == []
    manual = (site / "docs/manual.html").read_text()
    assert all(f"{name}</" in manual or f"{name}<a" in manual for name in ("callgate-run(1)", "callgate-rules(5)", "callgate-profiles(7)"))


def test_nothing_is_fetched_from_elsewhere(site):
    """A browser loads nothing by itself. Links that a reader follows are free."""
    loaded = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"' >]+)|<link\b[^>]*\brel=["']?(?:stylesheet|icon|preconnect|preload)["']?[^>]*\bhref=["']?([^"' >]+)|@import[^;]*|url\(["']?(https?:[^)]*)""")
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for one in loaded.finditer(file.read_text()):
            assert "//" not in one[0].partition("data:")[0].replace("</", ""), (file, one[0])


def test_a_browser_shows_the_pages_wide_and_narrow_and_searches(site, box):
    if not shutil.which("chromium"):
        pytest.skip("chromium is not installed: ./dev deps test")
    browser = Browser(box.directory(box.root / "profile", 0o700), env={**os.environ, "HOME": str(box.home)}, **box.user.popen_identity())
    try:
        for width, name in itertools.product((1400, 360), SHOWN):
            page = browser.page(f"file://{site}/{name}", width=width)
            assert [one for one in page.requested() if not one.startswith(("file:", "data:"))] == []
            # No page is wider than the screen: wide tables and blocks scroll by themselves.
            assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
            assert page.run("document.querySelector('h1').innerText.length") > 3
            assert [one for one in page.complaints() if "QuirksMode" not in one] == []  # the search's own empty frame
            if pictures := os.environ.get("CALLGATE_PICTURES"):
                page.picture(Path(pictures) / f"{Path(name).stem}-{width}.png")
            page.close()
        page = browser.page(f"file://{site}/docs/limits.html", width=1400)
        page.click(".md-search__input")
        # The page does not search for words that were typed before its script listened.
        ask = "(box => {box.value = 'Landlock'; box.dispatchEvent(new Event('keyup')); box.dispatchEvent(new Event('input'))})(document.querySelector('.md-search__input'))"
        harness.until(lambda: page.run(f"{ask}; document.querySelectorAll('.md-search-result__item').length") > 3, "results of the search")
        page = browser.page(f"file://{site}/docs/recording.svg", width=1400)
        at = "(when => {const [one] = document.getAnimations(); one.pause(); one.currentTime = when; return getComputedStyle(document.querySelector('#strip')).transform})"
        assert len({page.run(f"{at}({when})") for when in (100, 5000, 10500, 20000)}) == 4, "the recording does not play"
        if pictures := os.environ.get("CALLGATE_PICTURES"):
            page.run(f"{at}(10500)")
            page.picture(Path(pictures) / "recording.png")
    finally:
        browser.close()


def test_each_message_has_its_cause_and_remedy():
    every, known = messages.messages(), messages.remedies()
    assert len(every) > 85 and [one for one in every if not messages.remedy(one, known)] == []
    assert [one for one in known if not any(message.text.startswith(one) for message in every)] == []
    assert messages.shown('"no run " + run + " answers; callgate " + (a ? "x" : "y") + std::string(b)') == "no run … answers; callgate …"
    assert messages.remedy(messages.Message("odd …", "a.cpp", False), known) == ""


def test_every_end_to_end_test_that_features_name_exists():
    named = re.findall(r"`(tests/e2e/test_\w+\.py)`", (TOP / "docs/features.md").read_text())
    assert len(named) > 40 and all((TOP / name).is_file() for name in named)
    assert not [line for line in (TOP / "docs/features.md").read_text().splitlines() if line.startswith("| ") and line.count("|") == 4
                and "`tests/" not in line and not line.startswith("| feature ")]
