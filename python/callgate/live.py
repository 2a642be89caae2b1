"""Reports denials as they happen, from the log on a pipe. A session's report would come too late for a model."""
from __future__ import annotations

import contextlib
import json
import os
import select
import threading
from typing import Any

from .result import Denial, hint


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


class DenialReporter:
    """A thread that passes a session's stdout on, and inserts a line for each new denial.

    A denial is in the log before its command goes on, and the log is always read first. So the line about a denial comes
    before the end of that command's output. The reporter owns the three descriptors.
    """

    def __init__(self, log: int, source: int, sink: int) -> None:
        self.log, self.source, self.sink = log, source, sink
        self.records, self.known, self.waiting = Records(), set[tuple[str, str]](), b""
        self.fresh = True  # at the beginning of a line
        os.set_blocking(log, False)
        threading.Thread(target=self._work, name="callgate denials", daemon=True).start()

    def _work(self) -> None:
        poller = select.poll()
        poller.register(self.log, select.POLLIN)
        poller.register(self.source, select.POLLIN)
        left = {self.log, self.source}
        try:
            while left:
                ready = {descriptor for descriptor, _ in poller.poll()}
                done = set()
                if self.log in left and not self._listen():
                    done.add(self.log)
                if self.source in ready and not self._pass_on():
                    done.add(self.source)
                for one in done:
                    poller.unregister(one)
                left -= done
        finally:
            for one in (self.log, self.source, self.sink):
                with contextlib.suppress(OSError):
                    os.close(one)

    def _listen(self) -> bool:
        """Reads all of the log that is there; False at its end."""
        try:
            while piece := os.read(self.log, 1 << 16):
                for denial in self.records.feed(piece):
                    key = (denial.operation, denial.object)
                    if key not in self.known and len(self.known) < MOST_KEPT:
                        self.known.add(key)
                        self.waiting += hint([denial]).encode() + b"\n"
        except BlockingIOError:
            return True
        return False

    def _pass_on(self) -> bool:
        piece = os.read(self.source, 1 << 16)
        if self.waiting and not self.fresh and piece:
            line, newline, rest = piece.partition(b"\n")
            if newline:
                self._write(line + newline)
                piece, self.fresh = rest, True
        if self.waiting and (self.fresh or not piece):
            self._write(self.waiting)
            self.waiting = b""
        self._write(piece)
        if piece:
            self.fresh = piece.endswith(b"\n")
            return True
        os.close(self.sink)  # the reader sees the end; the log is read to its own, else callgate would deny everything
        self.sink = -1
        return False

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        try:
            while view and self.sink >= 0:
                view = view[os.write(self.sink, view):]
        except OSError:  # the reader is gone
            pass
