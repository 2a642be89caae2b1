"""smolagents: `CodeAgent(executor=CallgatePythonExecutor(…))`: the agent's Python, stateful, in one supervised process."""
from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from smolagents import AgentError
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor

from .adapter import choose
from .code import interpreter_places
from .errors import CallgateError
from .process import Process
from .result import hint, with_hint
from .sandbox import Sandbox

__all__ = ["CallgatePythonExecutor"]
LOOP = Path(__file__).with_name("smolagents_loop.py").read_text()


class CallgatePythonExecutor(RemotePythonExecutor):
    """Takes the words of the Sandbox; `timeout` (60 s) is that of each step, and ends the process with its state."""

    def __init__(self, sandbox: Sandbox | None = None, *, additional_imports: list[str] | None = None, logger: Any = None,
                 allow_pickle: bool = False, timeout: float = 60.0, **options: Any) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        chosen = choose(sandbox, options)
        places = [*chosen.paths("execute"), *interpreter_places(python())]
        self.sandbox, self.timeout = chosen.with_options(execute=places, timeout=None), timeout
        self._process: Process | None = None
        self._rest = b""
        if self.additional_imports:
            self.installed_packages = self.install_packages(self.additional_imports)

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        told = self._ask({"code": code})
        logs = with_hint(told["output"], told["hint"])
        if told["error"] is None:
            return CodeOutput(output=told["value"], logs=logs, is_final_answer=False)
        name, value, trace = told["error"]
        if name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(output=self._deserialize_final_answer(value, self.allow_pickle), logs=logs, is_final_answer=True)
        raise AgentError(f"{logs}\nExecuting code yielded an error:\n{name}\n{value}\n{trace}", self.logger)

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Sends one step and waits for its answer; whatever ends the process is an AgentError, and the next step a new one."""
        if self._process is None or self._process.poll() is not None:
            self.cleanup()
            self._rest = b""
            self._process = self.sandbox.popen([python(), "-uc", LOOP], log=True, stderr=subprocess.STDOUT)
        process = self._process
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            told: dict[str, Any] = json.loads(self._line(process, time.monotonic() + self.timeout))
        except (OSError, ValueError, TimeoutError) as error:
            written = self._rest.decode("utf-8", "replace")
            told_hint = hint(process.log_denials())
            self.cleanup()
            try:
                process.check()
            except CallgateError as reason:
                if not isinstance(error, TimeoutError):
                    raise AgentError(str(reason), self.logger) from error
            raise AgentError(with_hint(f"{written}\nthe step was ended: {error or 'the interpreter died'}; its variables are lost",
                                       told_hint), self.logger) from error
        told["hint"] = hint(process.log_denials())
        return told

    def _line(self, process: Process, deadline: float) -> bytes:
        """The answer: the line behind a NUL. What the step wrote before it, past Python's own streams, belongs to the output."""
        assert process.stdout
        while b"\n" not in self._rest.partition(b"\0")[2]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError(f"timed out after {self.timeout:g} seconds")
            piece = process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not piece:
                raise OSError("the interpreter ended")
            self._rest += piece
        before, _, rest = self._rest.partition(b"\0")
        line, _, self._rest = rest.partition(b"\n")
        told = json.loads(line)
        told["output"] = before.decode("utf-8", "replace") + told["output"]
        return json.dumps(told).encode()

    def cleanup(self) -> None:
        """Ends the process and all that it started."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.__exit__()

    def delete(self) -> None:
        self.cleanup()


def python() -> str:
    """The interpreter of this program, so that its packages are there."""
    return sys.executable
