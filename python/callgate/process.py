"""A supervised process with pipes, for sessions: what is started by `Sandbox.popen`."""
from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from typing import IO, Any

from .blocking import Answering
from .exchange import PATIENCE, Line, raise_failure, read_report
from .live import LogReader
from .question import Channel, OnAsk
from .result import Denial, Result


class Process:
    """Much like subprocess.Popen. `report` and `denials` are set once `wait` or `poll` has seen the end.

    The end is the end of the whole tree: `wait` returns when the command has ended and all that it left is gone.
    """

    def __init__(self, line: Line, channel: Channel | None, on_ask: OnAsk | None, log: int = -1, **streams: Any) -> None:
        self.args = list(line.command)
        self._binary, self._text = line.binary, bytearray()
        self._report, writing = os.pipe()
        self._lock = threading.Lock()
        self._log: LogReader | None = None
        try:
            self.popen: subprocess.Popen[Any] = line.start(writing, channel, **streams)
        except BaseException:
            os.close(self._report)
            if log >= 0:
                os.close(log)
            if channel:
                channel.close()
            raise
        finally:
            os.close(writing)
            line.files.close()
        if log >= 0:
            self._log = LogReader(log)
        self.pid = self.popen.pid
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = self.popen.stdin
        self.stdout: IO[Any] | None = self.popen.stdout
        self.stderr: IO[Any] | None = self.popen.stderr
        self._channel = channel
        if channel and on_ask:
            channel.theirs.close()
            threading.Thread(target=self._answer, args=(Answering(channel, on_ask),), daemon=True).start()

    def _answer(self, answering: Answering) -> None:
        poller = select.poll()
        poller.register(answering.channel.ours, select.POLLIN)
        poller.register(answering.failed, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if answering.failed in ready:
                self.popen.terminate()
                break
            if not answering.readable():
                break
        answering.close()
        answering.channel.close()

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._end(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; subprocess.TimeoutExpired where it has not come within `timeout` seconds."""
        status = self._end(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _end(self, timeout: float | None) -> int | None:
        """Reads the report until its pipe is closed, which is when nothing of the tree is left."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self.returncode is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not select.select([self._report], [], [], left)[0]:
                    return None
                piece = os.read(self._report, 1 << 16)
                self._text += piece
                if not piece:
                    os.close(self._report)
                    self.returncode = self.popen.wait()
            return self.returncode

    def terminate(self) -> None:
        """SIGTERM to the command; callgate ends the tree after its grace."""
        self.popen.terminate()

    def kill(self) -> None:
        """Ends the tree at once, and returns when it is gone."""
        self.popen.kill()
        self._end(PATIENCE)

    @property
    def report(self) -> dict[str, Any]:
        """The report that callgate wrote at the end; {} while it runs, and after `kill`."""
        return read_report(bytes(self._text))

    @property
    def denials(self) -> list[Denial]:
        return [Denial.from_report(one) for one in self.report.get("denials", [])]

    def log_denials(self) -> list[Denial]:
        """Denials since the last call, while it runs (`popen(log=True)`): one of each kind, at most 256. A denial is there
        before its command goes on."""
        return self._log.take() if self._log else []

    def check(self) -> None:
        """Raises CallgateError if callgate failed, so that the command never ran or was lost. Call it after the end."""
        report, status = self.report, self.returncode
        if status is None:
            return
        outcome = report.get("outcome", "")
        raise_failure(self._binary, Result(status, report.get("signal"), b"", b"", False, False, False, 0, outcome,
                                           self.denials, report), b"")

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()
        if self._end(0.0) is None:
            self.terminate()
            if self._end(PATIENCE) is None:
                self.kill()
