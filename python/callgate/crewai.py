"""CrewAI: tools that run shell commands and code supervised: `Agent(tools=[CallgateExecTool(…), CallgatePythonTool(…)])`.

Each tool has settings of its own: words of the Sandbox, or those that were proposed for an `execution_backend`
(sandbox_fs_read, sandbox_fs_write, sandbox_net_allow, sandbox_max_memory_mb, sandbox_max_procs).
"""
from __future__ import annotations

from typing import Any

from crewai.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr

from . import policy
from .adapter import choose, lateness, merged, shares
from .result import CUT, Result, hint
from .sandbox import Sandbox

__all__ = ["CallgateExecTool", "CallgatePythonTool"]
RESERVE = 10_000  # bytes for all but the two outputs. A model reads the whole as Python prints it


class ExecWords(BaseModel):
    command: str = Field(..., description="Shell command to execute.")
    cwd: str | None = Field(default=None, description="Directory to run it in. Defaults to the work directory.")
    envs: dict[str, str] | None = Field(default=None, description="Environment variables for this command.")
    timeout: float | None = Field(default=None, description="Maximum seconds to wait for the command to finish.")


class CodeWords(BaseModel):
    code: str = Field(..., description="Source code to execute.")
    language: str | None = Field(default=None, description="python (the default), bash, sh or node.")
    envs: dict[str, str] | None = Field(default=None, description="Environment variables for this run.")
    timeout: float | None = Field(default=None, description="Maximum seconds to wait for the code to finish.")


class _CallgateTool(BaseTool):
    """`timeout` (60 s where none is given) holds where the model names none, or a longer one."""

    name: str = ""
    description: str = ""
    _sandbox: Sandbox = PrivateAttr()
    _limit: float = PrivateAttr(default=60.0)

    def __init__(self, sandbox: Sandbox | None = None, **options: Any) -> None:
        own = {name: options.pop(name) for name in list(options) if name in type(self).model_fields}
        proposed = {name: options.pop(name) for name in list(options) if name.startswith("sandbox_") or name == "execution_backend"}
        super().__init__(**own)
        self._sandbox = choose(sandbox, merged(options, policy.from_crewai(**proposed)))
        self._limit = self._sandbox.timeout or 60.0

    def _seconds(self, timeout: float | None) -> float:
        return min(timeout, self._limit) if timeout else self._limit

    def _told(self, result: Result, timeout: float | None) -> dict[str, Any]:
        error = None
        if result.timed_out:
            error = f"it {lateness(result, self._seconds(timeout))}; everything that it had started was ended"
        denials, more = result.told()
        output, errors, cut = shares(result.text, result.error_text, self._sandbox.max_output - RESERVE,
                                     lambda text: len(repr(text).encode("utf-8", "replace")))
        told: dict[str, Any] = {"exit_code": result.exit_code, "stdout": output, "stderr": errors, "error": error}
        if shown := hint(denials, [*more, CUT] if cut and CUT not in more else more):
            told["hint"] = shown
        return told


class CallgateExecTool(_CallgateTool):
    name: str = "Supervised shell"
    description: str = ("Execute a shell command in the work directory and return the exit code, stdout and stderr. "
                        "What the policy denies is named in 'hint'.")
    args_schema: type[BaseModel] = ExecWords

    def _run(self, command: str, cwd: str | None = None, envs: dict[str, str] | None = None, timeout: float | None = None) -> Any:
        return self._told(self._sandbox.run(command, cwd=cwd, env=envs, timeout=self._seconds(timeout)), timeout)

    async def _arun(self, command: str, cwd: str | None = None, envs: dict[str, str] | None = None,
                    timeout: float | None = None) -> Any:
        return self._told(await self._sandbox.arun(command, cwd=cwd, env=envs, timeout=self._seconds(timeout)), timeout)


class CallgatePythonTool(_CallgateTool):
    name: str = "Supervised Python"
    description: str = ("Execute Python source code (or bash, sh, node: 'language') and return the exit code, stdout and stderr. "
                        "Every call is a new process; what the policy denies is named in 'hint'.")
    args_schema: type[BaseModel] = CodeWords

    def _run(self, code: str, language: str | None = None, envs: dict[str, str] | None = None, timeout: float | None = None) -> Any:
        result = self._sandbox.run_code(language or "python", code, env=envs, timeout=self._seconds(timeout))
        return self._told(result, timeout)

    async def _arun(self, code: str, language: str | None = None, envs: dict[str, str] | None = None,
                    timeout: float | None = None) -> Any:
        result = await self._sandbox.arun_code(language or "python", code, env=envs, timeout=self._seconds(timeout))
        return self._told(result, timeout)
