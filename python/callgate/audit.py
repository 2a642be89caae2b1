"""Audit results: the denials that enforcement would have made, and the rules that `callgate audit suggest` proposes."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from typing import Any

from .errors import CallgateError
from .result import Denial, Result


@dataclasses.dataclass
class Audit:
    """`rules` is a rule set for `Sandbox(rules=…)`. `notes` lists what it leaves out and what a person should review."""

    result: Result
    denials: list[Denial]
    rules: dict[str, Any]
    notes: str


def made(binary: str, result: Result, log: int) -> Audit:
    """Reads the suggestion for the log at the descriptor `log`."""
    os.lseek(log, 0, os.SEEK_SET)
    told = subprocess.run([binary, "audit", "suggest", f"/proc/self/fd/{log}"], pass_fds=[log], capture_output=True,
                          stdin=subprocess.DEVNULL, check=False)
    if told.returncode != 0:
        raise CallgateError(f"callgate audit suggest failed: {told.stderr.decode('utf-8', 'replace').strip()}", result.report,
                            result)
    lines = told.stdout.decode("utf-8", "replace").splitlines()
    notes = [line[2:].strip() for line in lines if line.startswith("//")]
    rules = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    return Audit(result, result.denials, rules, "\n".join(notes))
