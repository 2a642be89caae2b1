"""LangChain: `ShellToolMiddleware(execution_policy=CallgateExecutionPolicy(…))`, the agent's shell supervised.

Denials are told in the session's output while it goes on, before the end of the command that met them.
"""
from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain.agents.middleware._execution import BaseExecutionPolicy

from .adapter import choose
from .live import DenialReporter
from .sandbox import Sandbox

__all__ = ["CallgateExecutionPolicy"]


class CallgateExecutionPolicy(BaseExecutionPolicy):
    """Takes the options of Sandbox and those of LangChain. The default work directory is the session's.

    The middleware hands over all variables of this program. The policy passes on only those that differ from this
    program's own (the middleware's `env`), and those in the allow-list.
    """

    def __init__(self, sandbox: Sandbox | None = None, *, command_timeout: float = 30.0, startup_timeout: float = 30.0,
                 termination_timeout: float = 10.0, max_output_lines: int = 100, max_output_bytes: int | None = None,
                 **options: Any) -> None:
        super().__init__(command_timeout, startup_timeout, termination_timeout, max_output_lines, max_output_bytes)
        self.sandbox = choose(sandbox, options)

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
        sandbox = self.sandbox if self.sandbox.given.workdir is not None else self.sandbox.with_options(workdir=workspace)
        own = {name: value for name, value in env.items() if os.environ.get(name) != value}
        log, logging = os.pipe()
        source, output = os.pipe()
        told, telling = os.pipe()
        line = sandbox.session_line(command, logging, env=own, cwd=workspace)
        try:
            process: subprocess.Popen[str] = subprocess.Popen(
                line.words(), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE, env=dict(line.environment),
                text=True, encoding="utf-8", errors="replace", bufsize=1, start_new_session=True,
                pass_fds=[logging, *line.files.descriptors])
        except BaseException:
            for one in (log, source, told, telling):
                os.close(one)
            raise
        finally:
            os.close(logging)
            os.close(output)
            line.files.close()
        process.stdout = os.fdopen(told, "r", encoding="utf-8", errors="replace")
        DenialReporter(log, source, telling)
        return process
