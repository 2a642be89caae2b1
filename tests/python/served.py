"""`callgate exec --http` for clients of its interfaces."""
from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TOKEN = "a-token-of-the-tests"


@contextmanager
def serving(binary: str, workdir: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Iterator[str]:
    """The address of a service that wants TOKEN. It ends as SIGTERM ends it, and has nothing to say."""
    (workdir / "token").write_text(TOKEN)
    monkeypatch.setenv("NO_PROXY", "*")
    line = [binary, "exec", "--http", "127.0.0.1:0", "--http-token", str(workdir / "token"), "--no-audit", "-p", "agent", *options]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    assert "serving jobs at" in said, said + process.stderr.read()
    yield said.split()[-1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and process.stderr.read() == ""
