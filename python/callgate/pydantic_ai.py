"""Pydantic AI: `Agent(capabilities=[CallgateSandbox("~/project")])`, or the backend alone.

Files are read and written by commands of the shell, so rules hold for them as well. As the contract of workspaces wants
it, what a command leaves running goes on, supervised, until `close` or the end of this program.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.workspaces import (
    CommandResult,
    SupportsCommands,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from .adapter import choose, lateness, told
from .detached import Background
from .errors import CallgateError
from .options import milliseconds
from .sandbox import MOST_OUTPUT, Sandbox

__all__ = ["CallgateSandbox", "CallgateWorkspaceBackend"]


class CallgateWorkspaceBackend(WorkspaceBackend, SupportsCommands):
    """A directory of this machine as workspace. Takes the words of the Sandbox."""

    def __init__(self, working_dir: str | Path | None = None, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        chosen = choose(sandbox, options, MOST_OUTPUT)
        directory = os.path.abspath(os.path.expanduser(os.fspath(working_dir or chosen.workdir)))
        self._directory, self._resolved = directory, ""
        self._background = Background(chosen.with_options(workdir=directory))

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(provider="callgate", id=self._directory)

    async def working_dir(self) -> str:
        root = self._resolved or os.path.realpath(self._directory)
        if not os.path.isdir(root):
            raise WorkspaceUnavailableError(f"the work directory {self._directory} does not exist")
        self._resolved = root
        return root

    async def run(self, command: WorkspaceCommand, *, shell: bool = False, env: Mapping[str, str] | None = None,
                  timeout: float | None = None) -> CommandResult:
        if isinstance(command, str) is not shell:
            raise TypeError("a text needs shell=True, an argument vector shell=False")
        if timeout is not None:
            milliseconds(timeout)  # a ValueError where it is none
        root = await self.working_dir()
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        try:
            result = await self._background.arun(words, env=env, timeout=timeout, cwd=root)
        except CallgateError as error:
            await self.working_dir()
            raise WorkspaceUnavailableError(str(error)) from error
        await self.working_dir()
        if result.timed_out:
            raise WorkspaceTimeoutError(f"command {lateness(result, timeout)}; everything that it started was ended",
                                        stdout=result.text, stderr=told(result))
        if result.truncated:
            limit = self._background.sandbox.max_output
            raise WorkspaceOutputLimitError(f"output exceeded {limit} bytes; redirect it to a file and read parts of that",
                                            limit=limit, stdout=beginning(result.stdout), stderr=beginning(result.stderr))
        return CommandResult(exit_code=result.exit_code, stdout=result.text, stderr=told(result))

    def close(self) -> None:
        """Ends what commands have left running."""
        self._background.end()


def beginning(data: bytes) -> str:
    """As much of an output that is too large as its error holds."""
    return data[:1 << 16].decode("utf-8", "replace")


class CallgateSandbox(AbstractCapability[Any]):
    """Gives runs of an agent a supervised directory of this machine. One for all runs; `close` ends what they left."""

    def __init__(self, working_dir: str | Path, *, sandbox: Sandbox | None = None, id: str | None = "callgate_sandbox",
                 **options: Any) -> None:
        super().__init__()
        self.id = id
        self.backend = CallgateWorkspaceBackend(working_dir, sandbox=sandbox, **options)

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Returns None if the history names another directory: it must not point the agent elsewhere."""
        return None if ref is not None and ref != self.backend.ref else self.backend

    def close(self) -> None:
        self.backend.close()
