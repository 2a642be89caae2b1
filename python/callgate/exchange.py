"""The process and descriptors of a run, and what to do when one of them is ready. This module never waits.

`blocking.py` and `loop.py` wait. A run is over when callgate has ended and its report's pipe is closed. The guardian
holds that pipe until the tree is gone, so a process that keeps stdout open cannot hold the caller back.
"""
from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from . import binary as binaries
from .errors import CallgateError, CallgateNotFound
from .options import MemoryFiles
from .question import Channel
from .result import Result

PIECE = 1 << 16
LEFT_OVER = 1 << 20  # bytes that are still read from a pipe that outside processes hold open
MOST_REPORTED = 1 << 26  # bytes; a report names 256 denials
GRACE = 0.2  # seconds between SIGTERM and the end of the tree
PATIENCE = 5.0  # seconds until callgate itself is killed if it has not ended the tree
LATE = 0.7  # seconds after timeout and grace until a run is answered that has not ended, and callgate is killed
ANSWER = 0.1  # seconds that its pipes are still read then
TIMED_OUT = 124
SAID = 10_000  # bytes of what callgate said that a failure quotes


@dataclasses.dataclass
class Line:
    """A command line: the program, its arguments, its environment, and the descriptors that it reads."""

    binary: str
    arguments: list[str]
    command: Sequence[str]
    environment: Mapping[str, str]
    files: MemoryFiles

    def words(self, *more: str) -> list[str]:
        """The whole line, with further arguments of `callgate run`."""
        return [self.binary, "run", *self.arguments, *more, "--", *self.command]

    def start(self, report: int, channel: Channel | None, **streams: Any) -> subprocess.Popen[bytes]:
        passed = [report, *self.files.descriptors, *streams.pop("pass_fds", ())]
        more = [f"--report=fd:{report}"]
        if channel is not None:
            passed.append(channel.theirs.fileno())
            more.append(f"--ask=fd:{channel.theirs.fileno()}")
        try:
            return subprocess.Popen(self.words(*more), pass_fds=passed, env=self.environment, **streams)
        except FileNotFoundError as error:
            raise CallgateNotFound(f"there is no callgate at {self.binary}; {binaries.ADVICE}") from error
        except PermissionError as error:
            raise CallgateNotFound(f"{self.binary} cannot be executed; {binaries.ADVICE}") from error
        except OSError as error:  # E2BIG, ENOEXEC, EMFILE, ...
            raise CallgateError(f"callgate could not be started: {error.strerror} ({self.binary})") from error


OnOutput = Callable[[str, bytes], None]


class Exchange:
    """A run in progress. `sources` are the descriptors to read from, each with what to do when it is readable."""

    def __init__(self, line: Line, *, stdin: bytes | None, merge_stderr: bool, max_output: int,
                 channel: Channel | None = None, on_output: OnOutput | None = None) -> None:
        self.line, self.limit, self.channel, self.on_output = line, max_output, channel, on_output
        self.kept = {"stdout": bytearray(), "stderr": bytearray(), "report": bytearray()}
        self.truncated = self.ended = self.killed = self.terminated = self.late = False
        self.lingers: float | None = None  # seconds that a run is still waited for whose command has ended
        self.input = memoryview(stdin or b"")
        self.sources: dict[int, Callable[[], bool]] = {}
        self.writer: int | None = None
        ends: list[int] = []
        try:
            pipes = {name: self._pipe(ends) for name in ("report", "stdout") + (() if merge_stderr else ("stderr",))}
            source = self._pipe(ends) if stdin else None
            self.process = line.start(pipes["report"][1], channel,
                                      stdin=source[0] if source else subprocess.DEVNULL, stdout=pipes["stdout"][1],
                                      stderr=subprocess.STDOUT if merge_stderr else pipes["stderr"][1])
            ours = [reading for reading, _ in pipes.values()] + ([source[1]] if source else [])
            self.watch = os.pidfd_open(self.process.pid)
        except BaseException:
            for one in ends:
                os.close(one)
            line.files.close()
            raise
        for one in ends:
            if one in ours:
                os.set_blocking(one, False)
            else:
                os.close(one)
        line.files.close()
        if channel is not None:
            channel.theirs.close()
        for name, (reading, _) in pipes.items():
            self.sources[reading] = self._reader(name, reading)
        self.report_pipe = pipes["report"][0]
        self.sources[self.watch] = self._exited
        self.writer = source[1] if source else None

    @staticmethod
    def _pipe(ends: list[int]) -> tuple[int, int]:
        made = os.pipe()
        ends += made
        return made

    def _reader(self, name: str, descriptor: int) -> Callable[[], bool]:
        kept, limit = self.kept[name], self.limit if name != "report" else MOST_REPORTED

        def read() -> bool:
            """Whether more may come."""
            try:
                piece = os.read(descriptor, PIECE)
            except BlockingIOError:
                return True
            room = limit - len(kept)
            kept.extend(piece[:room])
            if len(piece) > room:
                self.truncated = True
            if piece and self.on_output is not None and name != "report":
                self.on_output(name, piece)
            return bool(piece)
        return read

    def _exited(self) -> bool:
        self.process.poll()
        return False

    def read(self, descriptor: int) -> bool:
        """Reads what is there. False: this descriptor is done; forget it, then `finish` it."""
        return self.sources[descriptor]()

    def write(self) -> bool:
        """Writes what stdin takes. False: it is done, for all is written or nobody reads; forget it, then `finish` it."""
        assert self.writer is not None
        try:
            self.input = self.input[os.write(self.writer, self.input[:PIECE]):]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self.input)

    def finish(self, descriptor: int) -> None:
        os.close(descriptor)
        if descriptor == self.writer:
            self.writer = None
            return
        del self.sources[descriptor]
        self.ended = not {self.report_pipe, self.watch} & set(self.sources)

    def terminate(self) -> None:
        """callgate passes SIGTERM on and ends the tree after its grace. It may be stopped with its command."""
        self.terminated = True
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """The guardian ends the tree when callgate is gone."""
        self.killed = True
        if self.process.returncode is None:
            self.process.kill()

    def expire(self) -> float | None:
        """Acts on a passed deadline. Returns seconds until the next one, or None to stop waiting."""
        if self.killed:
            return None  # only pipes can still be held
        self.kill()
        if self.terminated:
            return PATIENCE
        self.late = True  # the guardian goes on ending what is left
        return ANSWER

    def close(self) -> None:
        """Reads what is left in the pipes without waiting, and closes everything."""
        for descriptor, read in list(self.sources.items()):
            left = LEFT_OVER
            while descriptor != self.watch and left > 0 and select.select([descriptor], [], [], 0)[0] and read():
                left -= PIECE
            os.close(descriptor)
        self.sources.clear()
        if self.writer is not None:
            self.finish(self.writer)
        if self.channel is not None:
            self.channel.close()

    def _exit_code(self) -> int:
        try:
            return self.process.wait(ANSWER if self.late else None)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def _taken(self, name: str) -> bytes:
        """The kept part of an output. It may be large, so it is here no longer then."""
        return bytes(self.kept.pop(name, b""))

    def result(self) -> Result:
        """The result. Raises CallgateError if callgate failed or was killed."""
        exit_code = self._exit_code()
        report = read_report(bytes(self.kept["report"]))
        if self.late and exit_code < 0:
            exit_code, report = TIMED_OUT, {"outcome": "timeout"}
        result = Result.from_report(exit_code, report, self._taken("stdout"), self._taken("stderr"), self.truncated)
        raise_failure(self.line.binary, result, (result.stderr or result.stdout)[-SAID:])
        return result


def read_report(text: bytes) -> dict[str, Any]:
    """Parses the report; {} if there is none or it is torn."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def raise_failure(binary: str, result: Result, said: bytes) -> None:
    """Raises CallgateError for a run that did not end with its command."""
    if result.outcome == "supervisor_lost" or (result.exit_code < 0 and result.report):
        raise CallgateError(f"callgate was killed by signal {-result.exit_code} during the run; the command and all that "
                            "it had started were ended", result.report, result)
    if result.outcome == "setup_error":
        raise CallgateError(f"callgate: {result.report.get('error')}", result.report, result)
    if not result.report:
        raise CallgateError(binaries.explain_silence(binary, result.exit_code, said.decode("utf-8", "replace")), {}, result)
