"""Strands Agents: `Agent(sandbox=CallgateSandbox("~/project"))`. Commands, code and the file tools run supervised."""
from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import AsyncGenerator
from typing import Any

from strands.sandbox.posix_shell import PosixShellSandbox
from strands.sandbox.types import ExecutionResult, StreamChunk

from .adapter import apart, choose, lateness
from .result import Result
from .sandbox import Sandbox

__all__ = ["CallgateSandbox"]


class CallgateSandbox(PosixShellSandbox):
    """Takes the words of the Sandbox. Output comes in pieces as it is written; files are read and written by commands."""

    def __init__(self, working_dir: str | os.PathLike[str] | None = None, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        chosen = choose(sandbox, options)
        self.sandbox = chosen.with_options(workdir=os.path.abspath(os.path.expanduser(working_dir or chosen.workdir)))

    async def execute_streaming(self, command: str, *, timeout: float | None = None, cwd: str | None = None,
                                env: dict[str, str] | None = None,
                                **kwargs: Any) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        pieces: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        text = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        run = asyncio.ensure_future(self.sandbox.arun(
            command, cwd=cwd, env=env, timeout=timeout, on_output=lambda name, data: pieces.put_nowait((name, data))))
        run.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                if data := text[piece[0]].decode(piece[1]):
                    yield StreamChunk(data=data, stream_type=piece[0])
            yield self._ended(await run, timeout)
        finally:
            if not run.done():  # the reader of the pieces has gone
                run.cancel()
                await asyncio.wait([run])

    def _ended(self, result: Result, timeout: float | None) -> ExecutionResult:
        """A timeout is an error there; it carries what was written until then."""
        output, errors = apart(result, self.sandbox.max_output)
        ended = ExecutionResult(exit_code=result.exit_code, stdout=output, stderr=errors, output_files=[])
        if result.timed_out:
            late = lateness(result, timeout or self.sandbox.timeout)
            error = TimeoutError(f"command {late}; it had written: {output[-2000:]}{errors[-2000:]}")
            error.result = ended  # type: ignore[attr-defined]
            raise error
        return ended
