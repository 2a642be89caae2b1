"""Reports denials as they happen, from the log on a pipe. A session's report would come too late for a model."""
from __future__ import annotations

import json
import os
import select
import threading
from typing import Any

from .result import Denial

MOST_KEPT = 256  # kinds of denials


class Records:
    """Takes the log's bytes as they come, gives the denials in them."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, piece: bytes) -> list[Denial]:
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [denial for line in lines if line and (denial := denial_of(json.loads(line)))]


def denial_of(record: dict[str, Any]) -> Denial | None:
    """The denial in a record, or None if the record holds another event."""
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


class LogReader:
    """Reads a run's log from a pipe, on a thread, as it comes. Keeps no record, but the first denial of each kind.

    A command chooses how many records there are. The reader owns the descriptor, and reads to the log's end: without a
    reader callgate could not record calls, and would deny them.
    """

    def __init__(self, log: int) -> None:
        self._log, self._records, self._lock = log, Records(), threading.Lock()
        self._kept: dict[tuple[str, str, str], Denial] = {}
        os.set_blocking(log, False)
        threading.Thread(target=self._work, name="callgate log", daemon=True).start()

    def take(self) -> list[Denial]:
        """Denials since the last call, one of each kind. A denial is there before its command goes on."""
        with self._lock:
            self._read()
            found = list(self._kept.values())
            self._kept.clear()
        return found

    def _read(self, bytes_wanted: int = 2 << 16) -> bool:
        """Reads what is there, at least as much as a pipe holds; False at the log's end. Called with the lock."""
        while self._log >= 0 and bytes_wanted > 0:
            try:
                piece = os.read(self._log, 1 << 16)
            except BlockingIOError:
                return True
            if not piece:
                os.close(self._log)
                self._log = -1
                break
            bytes_wanted -= len(piece)
            for one in self._records.feed(piece):
                if len(self._kept) < MOST_KEPT:
                    self._kept.setdefault((one.operation, one.object, one.rule), one)
        return self._log >= 0

    def _work(self) -> None:
        poller = select.poll()
        poller.register(self._log, select.POLLIN)
        more = True
        while more:
            poller.poll()
            with self._lock:
                more = self._read()
