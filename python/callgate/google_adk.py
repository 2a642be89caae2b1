"""Google ADK: `CallgateEnvironment` for agents that work in an environment, `CallgateCodeExecutor` for `LlmAgent(code_executor=…)`."""
from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from google.adk.environment import BaseEnvironment, ExecutionResult
from pydantic import Field, PrivateAttr

from .adapter import REGULAR, apart, choose, told, whole
from .made import MadeDirectory
from .result import MOST_NAMED, visible
from .sandbox import Sandbox

__all__ = ["CallgateCodeExecutor", "CallgateEnvironment"]

# Exit statuses by which the scripts tell what the interface has an exception for.
MISSING, REFUSED = 41, 42
LARGEST = 1 << 28  # bytes of a file that is read
READ = f'[ -e "$1" ] || exit {MISSING}\n{REGULAR}\nhead -c {LARGEST + 1} -- "$1" || exit {REFUSED}'
WRITE = f'{REGULAR}\nmkdir -p -- "$(dirname -- "$1")" && cat > "$1" || exit {REFUSED}'


class CallgateEnvironment(BaseEnvironment):
    """A directory of this machine, a temporary one where none is given. Files are read and written by commands."""

    def __init__(self, *, working_dir: str | os.PathLike[str] | None = None, env_vars: dict[str, str] | None = None,
                 sandbox: Sandbox | None = None, **options: Any) -> None:
        self._given = working_dir
        self._chosen = choose(sandbox, {**options, **({"env": env_vars} if env_vars else {})})
        self._made: MadeDirectory | None = None

    @property
    def working_dir(self) -> Path:
        if self._given is not None:
            return Path(self._given).absolute()
        if self._made is None:
            self._made = MadeDirectory("callgate-adk-")
        return Path(self._made.name)

    @property
    def sandbox(self) -> Sandbox:
        return self._chosen.with_options(workdir=self.working_dir)

    async def initialize(self) -> None:
        self.working_dir.mkdir(parents=True, exist_ok=True)
        self.is_initialized = True

    async def close(self) -> None:
        if self._made is not None:
            self._made.cleanup()
            self._made = None
        self.is_initialized = False

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        sandbox = self.sandbox
        result = await sandbox.arun(command, timeout=timeout)
        output, errors = apart(result, sandbox.max_output)
        return ExecutionResult(exit_code=result.exit_code, stdout=output, stderr=errors, timed_out=result.timed_out)

    async def read_file(self, path: Path) -> bytes:
        result = await self.sandbox.with_options(max_output=LARGEST).arun(["sh", "-c", READ, "sh", os.path.join(self.working_dir, path)])
        if result.exit_code == MISSING:
            raise FileNotFoundError(str(path))
        if result.exit_code:
            raise PermissionError(told(result) or str(path))
        if result.truncated:
            raise OSError(errno.EFBIG, f"the file is larger than {LARGEST} bytes", str(path))
        return result.stdout

    async def write_file(self, path: Path, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        result = await self.sandbox.arun(["sh", "-c", WRITE, "sh", os.path.join(self.working_dir, path)], input=data)
        if result.exit_code:
            raise PermissionError(told(result) or str(path))


class CallgateCodeExecutor(BaseCodeExecutor):
    """Runs each block of Python by itself. Takes the words of the Sandbox beside the executor's own.

    The framework takes anything on stderr for a failure and has the model try again. So of a run that ended well, stderr
    is left out, and the hint is in stdout. Each block is a process of its own and has no files but those of the work
    directory: `stateful`, `optimize_data_file` and input files are refused.
    """

    stateful: bool = Field(default=False, frozen=True, exclude=True)
    optimize_data_file: bool = Field(default=False, frozen=True, exclude=True)

    _sandbox: Sandbox = PrivateAttr()

    def __init__(self, sandbox: Sandbox | None = None, **options: Any) -> None:
        own = {name: options.pop(name) for name in list(options) if name in type(self).model_fields}
        for name in ("stateful", "optimize_data_file"):
            if own.get(name):
                raise ValueError(f"{name}=True has no effect in CallgateCodeExecutor; leave it out")
        super().__init__(**own)
        self._sandbox = choose(sandbox, options)

    def execute_code(self, invocation_context: Any, code_execution_input: CodeExecutionInput) -> CodeExecutionResult:
        if code_execution_input.input_files:
            names = ", ".join(visible(one.name) for one in code_execution_input.input_files[:MOST_NAMED])
            raise ValueError(f"CallgateCodeExecutor takes no input files ({names}); put them into the work directory")
        most = self._sandbox.max_output
        result = self._sandbox.run_code("python", code_execution_input.code, timeout=self.timeout_seconds)
        if result.exit_code == 0:
            return CodeExecutionResult(stdout=whole(result, result.text, most), stderr="", exit_code=0)
        late = ""
        if result.outcome == "timeout":
            late = f"Code execution timed out after {self.timeout_seconds or self._sandbox.timeout} seconds."
        output, errors = apart(result, most, late)
        return CodeExecutionResult(stdout=output, stderr=errors or f"exit status {result.exit_code}", exit_code=result.exit_code)
