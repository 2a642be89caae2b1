"""inspect-ai: `Task(sandbox="callgate")`, or `("callgate", "rules.json")` with a rule set of your own.

The installed package announces itself (entry point `inspect_ai`); else `import callgate.inspect_ai` does. Each sample has
a temporary directory; files are read and written by commands, under the rules.
"""
from __future__ import annotations

import errno
import os
from typing import Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from .adapter import REGULAR, apart, is_own_user, lateness, told, whole
from .made import MadeDirectory
from .sandbox import Sandbox

__all__ = ["CallgateSandboxEnvironment"]

# Exit statuses by which the scripts tell what the interface has an exception for.
ERRORS = {41: errno.ENOENT, 42: errno.EACCES, 43: errno.EISDIR}
TOO_LARGE = 44
SHOWN = 1 << 20  # bytes of output that an error holds; the framework makes copies, and shows a model far less
READ = f"""[ -e "$1" ] || exit 41; [ -d "$1" ] && exit 43; [ -r "$1" ] || exit 42
{REGULAR}
[ "$(stat -Lc %s -- "$1")" -le "$2" ] || exit {TOO_LARGE}
head -c "$2" -- "$1" || exit 42"""
WRITE = f"""[ -d "$1" ] && exit 43
{REGULAR}
mkdir -p -- "$(dirname -- "$1")" && cat > "$1" || exit 42"""


@sandboxenv(name="callgate")
class CallgateSandboxEnvironment(SandboxEnvironment):
    def __init__(self, sandbox: Sandbox | None = None) -> None:
        super().__init__()
        self.directory = MadeDirectory("callgate-inspect-")
        chosen = sandbox or Sandbox()
        # The framework runs login shells: they look for their settings in the sample, not in the home of this user.
        env = {"HOME": self.directory.name, **(chosen.given.env or {})}
        self.sandbox = chosen.with_options(workdir=self.directory.name, env=env)

    @classmethod
    def config_files(cls) -> list[str]:
        return ["callgate.json"]

    @classmethod
    async def sample_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                          metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        return {"default": cls(Sandbox(rules=config) if isinstance(config, str) else None)}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                             environments: dict[str, SandboxEnvironment], interrupted: bool) -> None:
        for environment in environments.values():
            environment.as_type(CallgateSandboxEnvironment).directory.cleanup()

    async def exec(self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None,
                   env: dict[str, str] | None = None, user: str | None = None, timeout: int | None = None,
                   timeout_retry: bool = True, concurrency: bool = True) -> ExecResult[str]:
        if not is_own_user(user):
            raise SandboxUserUnsupportedError(f"callgate runs commands as the user of this program, not as {user!r}")
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        data = input.encode() if isinstance(input, str) else input
        result = await self.sandbox.with_options(max_output=limit).arun(cmd, input=data, cwd=cwd, env=env, timeout=timeout)
        if result.timed_out:
            output, errors = apart(result, SHOWN)
            error = TimeoutError(f"command {lateness(result, timeout)}; it had written: {output[-2000:]}{errors[-2000:]}")
            error.truncated_output = output + errors  # type: ignore[attr-defined]
            raise error
        if result.outcome == "exec_failed" and result.exit_code == 126:
            raise PermissionError(errno.EACCES, f"permission denied: {told(result)}", cmd[0])
        if result.truncated:
            beginning = whole(result, result.stdout[:SHOWN].decode("utf-8", "replace"), SHOWN)
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, beginning)
        return ExecResult(result.exit_code == 0, result.exit_code, result.text, told(result))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        await self._file(WRITE, file, data)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        content = await self._file(READ, file, None)
        return content.decode() if text else content

    async def _file(self, script: str, file: str, data: bytes | None) -> bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        sandbox = self.sandbox.with_options(max_output=limit)
        result = await sandbox.arun(["sh", "-c", script, "sh", os.path.join(self.directory.name, file), str(limit)], input=data)
        if result.exit_code == TOO_LARGE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        if result.exit_code:
            number = ERRORS.get(result.exit_code, errno.EIO)
            raise OSError(number, f"{os.strerror(number)}; {told(result).strip()}", file)
        return result.stdout

    def default_polling_interval(self) -> float:
        return 0.2


