"""OpenAI Agents SDK: an executor for `ShellTool`, and a client for sandbox agents that confines on Linux what the local one
does not: `ShellTool(executor=CallgateShellExecutor(…))`, `SandboxRunConfig(client=CallgateSandboxClient(…))`."""
from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from agents.sandbox.errors import ExecTimeoutError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient, UnixLocalSandboxSession
from agents.sandbox.session import SandboxSession
from agents.sandbox.types import ExecResult

from .adapter import choose, told
from .sandbox import Sandbox

__all__ = ["CallgateSandboxClient", "CallgateSandboxSession", "CallgateShellExecutor"]


class CallgateShellExecutor:
    """Runs the commands of a call one after the other, as the model wrote them, by bash. Takes the words of the Sandbox."""

    def __init__(self, sandbox: Sandbox | None = None, **options: Any) -> None:
        self.sandbox = choose(sandbox, options)

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        timeout = action.timeout_ms / 1000 if action.timeout_ms else None
        output: list[ShellCommandOutput] = []
        for command in action.commands:
            result = await self.sandbox.arun(command, timeout=timeout)
            outcome = ShellCallOutcome("timeout") if result.timed_out else ShellCallOutcome("exit", result.exit_code)
            output.append(ShellCommandOutput(result.text, told(result), outcome, command))
            if result.timed_out:
                break
        return ShellResult(output, action.max_output_length)


class CallgateSandboxSession(UnixLocalSandboxSession):
    """A local session whose commands, also those at a terminal, run supervised. Its file functions do not: they act for
    this program, within the workspace."""

    sandbox: Sandbox

    def _words(self, cwd: str, env: Mapping[str, str]) -> tuple[Sandbox, dict[str, str]]:
        """The Sandbox for this workspace, and the variables that are not this program's own."""
        own = {name: value for name, value in env.items() if os.environ.get(name) != value}
        return self.sandbox.with_options(workdir=cwd), own

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        env, cwd = await self._resolved_exec_context()
        sandbox, own = self._words(str(Path(cwd).resolve()), env)
        result = await sandbox.arun([str(part) for part in command], env=own, timeout=timeout)
        if result.timed_out:
            raise ExecTimeoutError(command=command, timeout_s=timeout,
                                   context={"stdout": result.text, "stderr": told(result)})
        return ExecResult(stdout=result.stdout, stderr=told(result).encode() if result.denials else result.stderr,
                          exit_code=result.exit_code)

    def _confined_exec_command(self, *, command_parts: list[str], workspace_root: Path, env: Mapping[str, str]) -> list[str]:
        sandbox, own = self._words(str(workspace_root), env)
        return sandbox.wrap(command_parts, env=own, quiet=False)


class CallgateSandboxClient(UnixLocalSandboxClient):
    """Makes such sessions. Takes the client's own arguments and the words of the Sandbox; the work directory is the
    session's. The environment of this program is not handed on unless you ask for it."""

    backend_id = "unix_local"  # its states can be resumed by either client

    def __init__(self, sandbox: Sandbox | None = None, *, instrumentation: Any = None, dependencies: Any = None,
                 inherit_host_environment: bool = False, host_environment_allowlist: Any = None, **options: Any) -> None:
        super().__init__(instrumentation=instrumentation, dependencies=dependencies,
                         inherit_host_environment=inherit_host_environment,
                         host_environment_allowlist=host_environment_allowlist)
        self.sandbox = choose(sandbox, options)

    def _supervised(self, made: SandboxSession) -> SandboxSession:
        """The framework makes its own class of session; ours takes its place before anything runs."""
        theirs = made._inner
        assert isinstance(theirs, UnixLocalSandboxSession)
        inner = CallgateSandboxSession(state=theirs.state)
        inner._host_environment_allowlist = theirs._host_environment_allowlist
        inner.sandbox = self.sandbox
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def create(self, **words: Any) -> SandboxSession:
        return self._supervised(await super().create(**words))

    async def resume(self, state: Any) -> SandboxSession:
        return self._supervised(await super().resume(state))
