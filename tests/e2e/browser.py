"""A headless Chromium for tests, driven over a pipe (Chrome DevTools Protocol) with the standard library only.

Everything is kept that could betray a page: messages on the console, exceptions, violations of its policy, dialogs, and
requested addresses.
"""
from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import harness

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--force-device-scale-factor=1", "--remote-debugging-pipe"]


def high(descriptor: int) -> int:
    """Out of the way of 3 and 4, which are the browser's."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved


class Browser:
    """A browser process; `page` opens one address after the other in a tab of its own."""

    def __init__(self, profile: Path, **identity: Any) -> None:
        their_read, self.writing = (high(one) for one in os.pipe())
        self.reading, their_write = (high(one) for one in os.pipe())
        self.profile = profile
        self.number = 0
        self.waiting = b""
        self.messages: list[dict[str, Any]] = []
        line = [shutil.which("chromium") or "chromium", *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
        redirect = f'exec "$@" 3<&{their_read} 4>&{their_write} {their_read}<&- {their_write}>&-'
        try:
            self.process = subprocess.Popen(["/bin/bash", "-c", redirect, "bash", *line], pass_fds=(their_read, their_write),
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **identity)
        finally:
            os.close(their_read)
            os.close(their_write)

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        wanted = self.number
        while True:
            answer = self.receive()
            if answer.get("id") == wanted:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def receive(self, seconds: float = harness.DEADLINE) -> dict[str, Any]:
        """The next message; those that are no answers are kept."""
        end = time.monotonic() + seconds
        while b"\0" not in self.waiting:
            assert select.select([self.reading], [], [], max(0.0, end - time.monotonic()))[0], "the browser says nothing"
            piece = os.read(self.reading, 1 << 20)
            assert piece, f"the browser ended ({self.process.poll()})"
            self.waiting += piece
        whole, _, self.waiting = self.waiting.partition(b"\0")
        message = json.loads(whole)
        if "id" not in message:
            self.messages.append(message)
        return message

    def page(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> "Page":
        return Page(self, address, width, height, dark)

    def close(self) -> None:
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reading)
        os.close(self.writing)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A loaded page (its load event has passed)."""

    def __init__(self, browser: Browser, address: str, width: int, height: int, dark: bool) -> None:
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=address)
        end = time.monotonic() + harness.DEADLINE
        while not self.said("Page.loadEventFired"):
            assert time.monotonic() < end, "the page did not load"
            browser.receive()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def said(self, method: str) -> list[dict[str, Any]]:
        return [one["params"] for one in self.browser.messages if one.get("sessionId") == self.session and one["method"] == method]

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Two frames later: what an input event caused is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def type(self, text: str) -> None:
        """As a person would, into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        self.settle()  # what scrolls may draw other lines
        x, y = self.run(f"""(box => [box.left + box.width / 2, box.top + box.height / 2])
            (document.querySelector({json.dumps(selector)}).getBoundingClientRect())""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def picture(self, file: Path, whole: bool = False) -> bytes:
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])
        file.write_bytes(png)
        return png

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def complaints(self) -> list[str]:
        """Events that a correct page does not cause."""
        self.run("1")  # whatever was said before is here by now
        found = [json.dumps(one) for one in self.said("Runtime.exceptionThrown") + self.said("Audits.issueAdded")]
        found += [json.dumps(one) for one in self.said("Log.entryAdded")]
        found += [json.dumps(one) for one in self.said("Runtime.consoleAPICalled")]
        return found + [json.dumps(one) for one in self.said("Page.javascriptDialogOpening")]

    def requested(self) -> list[str]:
        return [one["request"]["url"] for one in self.said("Network.requestWillBeSent")]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)
