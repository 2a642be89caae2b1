"""Microsoft Agent Framework: `CallgateShellExecutor`, a ShellExecutor whose commands run supervised.

The framework also works without this class: `LocalShellTool(shell=Sandbox(…).wrap(["bash"]))`, or the variable
AGENT_FRAMEWORK_SHELL="callgate run -q -- bash".
"""
from __future__ import annotations

from typing import Any

from agent_framework import FunctionTool, tool
from agent_framework_tools.shell import ShellResult

from .adapter import choose, whole
from .sandbox import Sandbox

__all__ = ["CallgateShellExecutor"]
KIND = "shell"  # providers recognise a local shell by this


class CallgateShellExecutor:
    """Each command is a separate run of bash. Takes the options of Sandbox; the default `timeout` is 30 s.

    `approval_mode` is the framework's: "always_require" (its default for shells) or "never_require".
    """

    def __init__(self, sandbox: Sandbox | None = None, *, timeout: float | None = 30.0, max_output_bytes: int = 65536,
                 approval_mode: str = "always_require", **options: Any) -> None:
        self.sandbox = choose(sandbox, {**options, "max_output": max_output_bytes, "timeout": timeout})
        self.approval_mode = approval_mode

    async def start(self) -> None:
        """Raises CallgateNotFound if the program is missing. There is nothing to start."""
        _ = self.sandbox.binary

    async def close(self) -> None:
        """Does nothing: a run that has ended leaves nothing behind."""

    async def __aenter__(self) -> CallgateShellExecutor:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, command: str, *, timeout: float | None = None) -> ShellResult:
        result = await self.sandbox.arun(command, timeout=timeout)
        errors = whole(result, result.error_text, self.sandbox.max_output)
        return ShellResult(stdout=result.text, stderr=errors, exit_code=result.exit_code, duration_ms=result.duration_ms,
                           truncated=result.truncated, timed_out=result.timed_out)

    def as_function(self, *, name: str = "run_shell", description: str | None = None) -> FunctionTool:
        """The tool for an agent, or for a provider's `get_shell_tool(func=…)`."""
        about = description or ("Execute a shell command in the work directory; each runs in a new shell. "
                                "A denial by policy is named in the output.")

        async def run_shell(command: str) -> str:
            return (await self.run(command)).format_for_model()
        run_shell.__doc__ = about
        made: FunctionTool = tool(func=run_shell, name=name, description=about, approval_mode=self.approval_mode, kind=KIND)
        return made
