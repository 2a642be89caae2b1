"""Denials as they happen, from the log on a pipe: for sessions, whose report comes too late for a model."""
from __future__ import annotations

import json
import os
import threading
from typing import Any

from .result import Denial, hint


class Records:
    """Takes the log's bytes as they come, gives the denials in them."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, piece: bytes) -> list[Denial]:
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [denial for line in lines if line and (denial := denial_of(json.loads(line)))]


def denial_of(record: dict[str, Any]) -> Denial | None:
    """The denial that a record tells of; None where it tells of something else."""
    told = record.get("callgate", {})
    if record["event"].get("outcome") != "failure" or told.get("verdict") not in ("ask", "deny", "kill") or "of_sequence" in told:
        return None
    rule = record.get("rule", {}).get("name", told.get("decided_by", ""))
    return Denial(operation=told.get("operation", ""), object=name_of(record), rule=rule, reason=told.get("reason") or "",
                  program=record.get("process", {}).get("executable", ""), pid=record.get("process", {}).get("pid", 0),
                  errno=told.get("errno"))


def name_of(record: dict[str, Any]) -> str:
    if path := record.get("file", {}).get("path"):
        return str(path)
    where = record.get("destination", {})
    host = where.get("domain") or where.get("ip") or where.get("address") or "?"
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{where['port']}" if "port" in where else str(host)


class Teller:
    """A thread that reads the log's pipe and writes a line about each new denial to `told`, until the log ends.

    It owns both descriptors. The same denial is told once.
    """

    def __init__(self, log: int, told: int) -> None:
        self.log, self.told = log, told
        threading.Thread(target=self._work, name="callgate denials", daemon=True).start()

    def _work(self) -> None:
        records, known = Records(), set()
        try:
            while piece := os.read(self.log, 1 << 16):
                for denial in records.feed(piece):
                    if (key := (denial.operation, denial.object)) not in known:
                        known.add(key)
                        self._tell(hint([denial]))
        finally:
            os.close(self.log)
            os.close(self.told)

    def _tell(self, line: str) -> None:
        try:
            os.write(self.told, line.encode() + b"\n")
        except OSError:
            pass  # nobody reads stderr any more; the log is still to be read, else callgate would deny everything
