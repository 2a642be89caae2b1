"""Finds the callgate program, and explains why a program does not answer."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .errors import CallgateError, CallgateNotFound

OLDEST = (0, 1, 0)
PACKAGED = Path(__file__).parent / "_bin" / "callgate"
ADVICE = "install the package's wheel, put callgate on PATH, or name it with binary="


def find(binary: str | os.PathLike[str] | None = None) -> str:
    """The program to start: `binary` if given, else the one in the wheel, else the one on PATH."""
    if binary is not None:
        named = os.fspath(binary)
        if not os.path.exists(named):
            raise CallgateNotFound(f"there is no callgate at {named}; {ADVICE}")
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise CallgateNotFound(f"{named} cannot be executed; {ADVICE}")
        return named
    if os.access(PACKAGED, os.X_OK):
        return str(PACKAGED)
    if found := shutil.which("callgate"):
        return found
    raise CallgateNotFound(f"the callgate program was not found; {ADVICE}")


def version(binary: str) -> tuple[int, ...]:
    """The version of the program. Raises CallgateError if the program does not state one."""
    try:
        told = subprocess.run([binary, "--version"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CallgateError(f"{binary} --version failed: {error}") from error
    words = told.stdout.decode("utf-8", "replace").split()
    if len(words) < 2 or words[0] != "callgate":
        raise CallgateError(f"{binary} is not callgate: --version said {' '.join(words)[:100]!r}")
    try:
        return tuple(int(part) for part in words[1].split("."))
    except ValueError:
        raise CallgateError(f"{binary} --version said {words[1][:100]!r}; expected a version such as 0.2.0") from None


def explain_silence(binary: str, exit_code: int, said: str) -> str:
    """Says why a run ended without a report: too old, not callgate, killed at the start, or its own message."""
    if exit_code < 0:
        return f"callgate was ended by signal {-exit_code} before it had started the command"
    try:
        found = version(binary)
    except CallgateError as error:
        return str(error)
    if found < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return f"{binary} is too old: version {'.'.join(map(str, found))}, this package needs {wanted} or newer"
    return f"callgate failed (exit status {exit_code}): {said.strip()[-2000:] or 'it said nothing'}"
