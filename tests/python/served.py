"""`callgate exec --http` for clients of its interfaces."""
from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TOKEN = "a-token-of-the-tests"


def encrypted(binary: str, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options with a certificate for 127.0.0.1. The variables that clients know make its authority trusted."""
    if not os.access(f"{binary}-tls", os.X_OK):
        pytest.skip("callgate-tls was not built")
    small = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=callgate"
    for words in (f"req -x509 {small} -keyout ca.key -out ca.pem",
                  f"req {small} -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.csr",
                  "x509 -req -in cert.csr -copy_extensions copy -CA ca.pem -CAkey ca.key -days 2 -out cert.pem"):
        subprocess.run(["openssl", *words.split()], cwd=workdir, check=True, capture_output=True)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(workdir / "ca.pem"))
    return ["--tls-cert", str(workdir / "cert.pem"), "--tls-key", str(workdir / "key.pem")]


@contextmanager
def serving(binary: str, workdir: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Iterator[str]:
    """The address of a service that wants TOKEN. It ends as SIGTERM ends it, and has nothing to say."""
    (workdir / "token").write_text(TOKEN)
    monkeypatch.setenv("NO_PROXY", "*")
    line = [binary, "exec", "--http", "127.0.0.1:0", "--http-token", str(workdir / "token"), "--no-audit", "-p", "agent", *options]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    assert "serving jobs at" in said, said + process.stderr.read()
    try:
        yield said.split()[-1]
    except BaseException:  # of a test that fails
        process.kill()
        process.wait()
        raise
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and process.stderr.read() == ""
