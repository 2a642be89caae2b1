"""LangChain: `ShellToolMiddleware(execution_policy=CallgateExecutionPolicy(…))`, the agent's shell supervised.

Denials are told behind the output of the command that met them, in one paragraph.
"""
from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from langchain.agents.middleware._execution import BaseExecutionPolicy

from .adapter import MOST, choose
from .langchain_shell import Shell
from .sandbox import Sandbox

__all__ = ["CallgateExecutionPolicy"]


class CallgateExecutionPolicy(BaseExecutionPolicy):
    """Takes the options of Sandbox and those of LangChain. The default work directory is the session's.

    The middleware hands over all variables of this program. The policy passes on only those that differ from this
    program's own (the middleware's `env`), and those in the allow-list.
    """

    def __init__(self, sandbox: Sandbox | None = None, *, command_timeout: float = 30.0, startup_timeout: float = 30.0,
                 termination_timeout: float = 10.0, max_output_lines: int = 100, max_output_bytes: int | None = MOST,
                 **options: Any) -> None:
        super().__init__(command_timeout, startup_timeout, termination_timeout, max_output_lines, max_output_bytes)
        self.sandbox = choose(sandbox, options)

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
        sandbox = self.sandbox if self.sandbox.given.workdir is not None else self.sandbox.with_options(workdir=workspace)
        own = {name: value for name, value in env.items() if os.environ.get(name) != value}

        def start(ends: dict[str, int]) -> subprocess.Popen[bytes]:
            line = sandbox.session_line(command, ends["log"], env=own, cwd=workspace)
            try:
                return line.start(ends["report"], None, stdin=subprocess.PIPE, stdout=ends["stdout"], stderr=ends["stderr"],
                                  bufsize=0, start_new_session=True, pass_fds=[ends["log"]])
            finally:
                line.files.close()
        return cast("subprocess.Popen[str]", Shell(start, self.max_output_lines, self.max_output_bytes or MOST))
