"""A job for a pool: what is run, and its own limits. And the future that its result comes by."""
from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Mapping
from concurrent import futures
from typing import Any, Callable

from . import code as codes
from .errors import CallgateError
from .options import LONGEST_ARGUMENT, Amount, Path, Seconds, milliseconds
from .result import Result
from .sandbox import Command, argv

# An interpreter's code in several arguments, each short enough for exec.
PARTS = 'import sys; _code = "".join(sys.argv[1:]); del sys.argv[1:]; exec(compile(_code, "<code>", "exec"))'
LIMITS = ("memory", "processes", "cpu", "disk", "file_size", "open_files", "idle_timeout", "max_output")


@dataclasses.dataclass(frozen=True)
class Job:
    """A command, or code with its language, as `Sandbox.run` and `Sandbox.run_code` take them.

    command     a text (by bash -c) or an argument vector
    code        source code in place of a command; language: python (the interpreter of this program), bash, sh, node
    input       bytes for stdin; None: stdin is at its end
    workdir     the work directory of this job (default: the pool's)
    cwd         the directory in which it starts, relative to the work directory
    env         variables, beside the pool's
    timeout     seconds; memory, disk, file_size: bytes or "512M"; cpu, idle_timeout: seconds; processes, open_files: counts.
                The pool's limits hold as well.
    name        anything by which the caller knows the job again; it is not looked at
    """

    command: Command | None = None
    code: str | None = None
    language: str = "python"
    input: bytes | None = None
    workdir: Path | None = None
    cwd: Path | None = None
    env: Mapping[str, str] | None = None
    timeout: Seconds | None = None
    memory: Amount | None = None
    processes: int | None = None
    cpu: Seconds | None = None
    disk: Amount | None = None
    file_size: Amount | None = None
    open_files: int | None = None
    idle_timeout: Seconds | None = None
    max_output: int | None = None
    merge_stderr: bool = False
    name: Any = None

    def line(self, number: int, workdir: str, env: Mapping[str, str]) -> bytes:
        """The job as `callgate exec --serve` reads it. Raises CallgateError for one that cannot be run."""
        told: dict[str, Any] = {"id": number, **self._what()}
        told["workdir"] = place = os.path.join(workdir, os.fspath(self.workdir)) if self.workdir is not None else workdir
        if self.cwd is not None:
            told["cwd"] = os.path.join(place, os.fspath(self.cwd))
        if self.input:
            told["stdin_base64"] = base64.b64encode(self.input).decode()
        if variables := {**env, **(self.env or {})}:
            told["env"] = variables
        if self.timeout is not None:
            told["timeout"] = f"{milliseconds(self.timeout)}ms"
        if self.merge_stderr:
            told["merge_stderr"] = True
        told.update({word: value for word in LIMITS if (value := getattr(self, word)) is not None})
        try:
            return json.dumps(told).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise CallgateError(f"the job cannot be said in JSON: {error}") from error

    def _what(self) -> dict[str, Any]:
        if (self.command is None) == (self.code is None):
            raise CallgateError("a job has a command or code; this one has " + ("neither" if self.code is None else "both"))
        if self.command is not None:
            return {"command": argv(self.command)}
        assert self.code is not None
        language = codes.canonical(self.language)
        if "\0" in self.code:
            raise CallgateError("the code holds a NUL byte; no interpreter takes it")
        if language != "python":
            return {"language": language, "code": self.code}
        parts = pieces(self.code)
        return {"command": [*codes.PROGRAMS["python"], *(parts if len(parts) == 1 else [PARTS, *parts])]}


def pieces(text: str) -> list[str]:
    """The text in parts that exec takes as arguments: at most four bytes a character."""
    if len(text.encode()) <= LONGEST_ARGUMENT:
        return [text]
    step = LONGEST_ARGUMENT // 4
    return [text[at:at + step] for at in range(0, len(text), step)]


class JobFuture(futures.Future[Result]):
    """A `concurrent.futures.Future` of a job's `Result`, which knows its job.

    The result of a command that failed is a `Result`, too. `result()` raises CallgateError where callgate could not run the
    command, and WorkerLost where what ran it was lost.
    """

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.tries = 0  # how often it was given out
        self.avoided: set[Any] = set()  # workers that could not begin it
        self._ending: bool | None = None  # whether at once
        self._end: Callable[[bool], None] | None = None

    def end(self, now: bool = False) -> None:
        """Ends the job. One that waits is cancelled. A running one gets SIGTERM (`now`: its tree ends at once), and its
        result has the outcome `cancelled`."""
        self._ending = now
        if not self.cancel() and (end := self._end) is not None:
            end(now)

    def begun(self, end: Callable[[bool], None]) -> None:
        """For pools: the job was given out, and `end` ends it."""
        self._end = end
        if self._ending is not None:
            end(self._ending)
