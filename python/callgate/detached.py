"""A run that is over when its command has ended. Processes that it left behind go on under supervision."""
from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from typing import Any

from . import loop
from .exchange import GRACE, PATIENCE, Exchange, Line, read_report
from .live import LogReader
from .options import MemoryFiles, Path, Seconds
from .result import Result
from .sandbox import Command, Sandbox, argv, without_log

LINGER = 0.25  # seconds to wait for the end of the whole run after the command's end


class Detached(Exchange):
    """Learns of the command's end by `--status` and of denials by the log: the report comes only with the run's end."""

    def __init__(self, line: Line, **words: Any) -> None:
        self.status, self.timed_out = bytearray(), False
        reading, writing = os.pipe()
        log, recording = os.pipe()
        try:
            line.files.descriptors += [writing, recording]
            line.arguments += [f"--status=fd:{writing}", f"--audit=fd:{recording}"]
            super().__init__(line, **words)
        except BaseException:
            os.close(reading)
            os.close(log)
            raise
        self.log = LogReader(log)
        self.sources[reading] = lambda: self._command_ended(reading)

    def _command_ended(self, descriptor: int) -> bool:
        piece = os.read(descriptor, 4096)
        self.status += piece
        if not self.timed_out and b"\n" in self.status:
            self.lingers = LINGER
        return bool(piece)

    def expire(self) -> float | None:
        """Ends the whole run first, so that its end is on record. Only then is callgate killed."""
        if not self.timed_out:
            self.timed_out = True
            self.terminate()
            return GRACE + PATIENCE
        return super().expire()

    def result(self) -> Result:
        event = read_report(bytes(self.status))
        if self.ended or "exit_code" not in event:
            whole = super().result()
            return dataclasses.replace(whole, timed_out=whole.timed_out or self.timed_out)
        denials = self.log.take()
        return Result(exit_code=event["exit_code"], signal=event.get("signal"), stdout=self._taken("stdout"),
                      stderr=self._taken("stderr"), timed_out=self.timed_out, cancelled=False,
                      truncated=self.truncated, duration_ms=0, outcome="exited", denials=denials, report={})


class Background:
    """Runs commands, and keeps what they leave running until `end`."""

    def __init__(self, sandbox: Sandbox) -> None:
        without_log(sandbox.given.audit)
        self.sandbox = sandbox.with_options(background="wait", timeout=None)
        self.left: list[Detached] = []

    async def arun(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: Path | None = None,
                   timeout: Seconds | None = None) -> Result:
        """As `Sandbox.arun`, but what is left running goes on, and does not count for `timeout`."""
        self.left = [one for one in self.left if one.process.poll() is None]
        files = MemoryFiles()
        line = self.sandbox._line(argv(command), ["--die-with-parent"], files, cwd, env, None)
        line.arguments.remove("--no-audit")
        exchange = Detached(line, stdin=None, merge_stderr=False, max_output=self.sandbox.max_output,
                            channel=self.sandbox._channel())
        try:
            await loop.drive(exchange, None if timeout is None else time.monotonic() + timeout, self.sandbox.on_ask)
        finally:
            if not exchange.ended:
                self.left.append(exchange)
        return exchange.result()

    def end(self) -> None:
        """Ends what still runs, and waits until it is gone (at most a few seconds)."""
        for one in self.left:
            one.terminate()
        for one in self.left:
            one.process.wait(GRACE + 2 * PATIENCE)
        self.left.clear()
