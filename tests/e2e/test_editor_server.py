"""VS Code's server, as npm has it (code-server), in a supervised work directory: what is edited in a browser outside.

A long run: some 300 MB are fetched and compiled. Bare and supervised the same is done: a file is opened, changed and saved, and a
command typed in its terminal.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from browser import Browser, Page
from toolchains import free_port

VERSION = "4.100.3"
COMPILED = ("node-pty", "@vscode/spdlog", "@parcel/watcher", "native-watchdog")
CONTROL = 2
KEYS = {"Enter": 13, "Escape": 27, "s": 83, "Backquote": 192, "End": 35}


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The script that node runs."""
    if not harness.SOAK:
        pytest.skip("300 MB to be compiled: a long run")
    if not all(map(shutil.which, ("npm", "node", "chromium"))):
        pytest.skip("needs npm, node and chromium")
    place = Path(tempfile.mkdtemp(prefix="cg-editor-server-"))
    place.chmod(0o755)
    server = place / "node_modules/code-server"

    def npm(where: Path, *words: str) -> None:
        done = subprocess.run(["npm", *words, "--no-audit", "--no-fund"], cwd=where, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "npm_config_yes": "true", "npm_config_build_from_source": "true"}, timeout=600)
        if done.returncode != 0:
            pytest.skip(f"code-server {VERSION} cannot be had here: npm {words[0]}: {done.stderr[-300:]}")

    try:
        npm(place, "install", "--ignore-scripts", f"code-server@{VERSION}")
        npm(server / "lib/vscode", "install", "--omit=dev", "--ignore-scripts", "--legacy-peer-deps")
        npm(server / "lib/vscode", "rebuild", *COMPILED)
        npm(place, "rebuild", "argon2")
        yield server / "out/node/entry.js"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def press(page: Page, key: str, modifiers: int = 0) -> None:
    code = {"windowsVirtualKeyCode": KEYS[key], "key": "`" if key == "Backquote" else key, "code": key if len(key) > 1 else f"Key{key.upper()}"}
    page.call("Input.dispatchKeyEvent", type="rawKeyDown", modifiers=modifiers, **code)
    page.call("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **code)
    page.settle()


def shows(page: Page, text: str, what: str) -> None:
    harness.until(lambda: text in page.run("document.body.innerText").replace("\xa0", " "), what)


def edit(browser: Browser, address: str, tree: Path) -> None:
    page = browser.page(address)
    shows(page, "one.txt", "the names of the work directory")
    page.click(".explorer-folders-view [aria-label^='one.txt']")
    shows(page, "the first line", "the file's text")
    page.click(".editor-instance .view-line")
    harness.until(lambda: page.run("document.activeElement.closest('.editor-instance') !== null"), "the editor has the focus")
    press(page, "End", CONTROL)
    page.type("a last line")
    press(page, "s", CONTROL)
    harness.until(lambda: b"a last line" in (tree / "one.txt").read_bytes(), "the file is saved")
    press(page, "Backquote", CONTROL)
    harness.until(lambda: page.run("document.querySelector('.xterm-screen') !== null"), "a terminal")
    page.click(".xterm-screen")
    harness.until(lambda: page.run("document.activeElement.classList.contains('xterm-helper-textarea')"), "the terminal has the focus")
    page.type("echo $((40 + 2)) > made.txt")
    press(page, "Enter")
    harness.until(lambda: (tree / "made.txt").is_file() and (tree / "made.txt").read_bytes() == b"42\n", "the terminal's command")
    shows(page, "made.txt", "the new name, by the watcher")


def serve(box: harness.Box, browser: Browser, program: Path, supervised: bool) -> list[str]:
    """Does the same work at a server, and returns what was denied to it."""
    port, tree, own = free_port(), box.tree, box.home / ".local/share/code-server"
    box.file(tree / "one.txt", b"the first line\n")
    box.file(tree / ".data/User/settings.json", b'{"workbench.startupEditor": "none"}')
    box.file(own / "said", b"")
    line = ["node", str(program), "--auth", "none", "--bind-addr", f"127.0.0.1:{port}", "--config", str(tree / ".data/config.yaml"), "--user-data-dir",
            str(tree / ".data"), "--extensions-dir", str(tree / ".extensions"), "--disable-telemetry", "--disable-update-check",
            "--disable-workspace-trust", str(tree)]
    report = box.root / "report.json"
    if supervised:
        options = ["--ask", "never", "--report", str(report), "-x", str(program.parents[3]), "-w", str(own), "--bind", f"127.0.0.1:{port}"]
        line, _ = box.command(line, None, options)
    with open(own / "said", "wb") as said:
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=tree, env=box.environment())
    try:
        def ready() -> bool:
            assert process.poll() is None, (own / "said").read_text()
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).status == 200
            except OSError:
                return False

        harness.until(ready, "the server answers")
        edit(browser, f"http://127.0.0.1:{port}/?folder={tree}", tree)
    finally:
        process.terminate()
        process.wait(harness.DEADLINE)
    (tree / "made.txt").unlink()
    return [f"{one['operation']} {one['object']}" for one in json.loads(report.read_bytes())["denials"]] if supervised else []


def test_files_are_edited_and_commands_typed(box, program, measured):
    browser = Browser(Path(tempfile.mkdtemp(prefix="cg-browser-")))
    try:
        serve(box, browser, program, False)
        denied = serve(box, browser, program, True)
    finally:
        browser.close()
    measured.append(f"code-server {VERSION}: denied {sorted(set(denied))}")
    assert not [one for one in denied if not re.match("connect .*(microsoft|exp-tas).com", one)], "more is denied than its maker's servers"
