"""NeMo Gym: the sandbox provider `callgate` (`{"callgate": {"profile": "python", "memory": "2G"}}`).

The installed package announces itself (entry point `nemo_gym.sandbox_providers`). A sandbox is a directory of its own and no
process: each command is a run of its own. Files are moved by commands, under the rules.
"""
from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import time
from typing import Any

from nemo_gym.sandbox import SandboxCreateError, SandboxExecResult, SandboxHandle, SandboxSpec, SandboxStatus

from .adapter import REGULAR, is_own_user, lateness, told
from .errors import CallgateError
from .made import MadeDirectory
from .result import Result
from .sandbox import Sandbox

__all__ = ["CallgateProvider"]

NOT_RUN = 125  # status where no command has one
LARGEST = 256 << 20  # bytes of a file that is moved
READ = f'{REGULAR}\nexec head -c {LARGEST + 1} -- "$1"'
WRITE = f'{REGULAR}\nmkdir -p -- "$(dirname -- "$1")" && cat > "$1"'


@dataclasses.dataclass
class _Held:
    """A handle stands for this."""

    sandbox: Sandbox
    directory: MadeDirectory
    end: float | None  # of time.monotonic()
    stopped: bool = False

    def over(self) -> bool:
        return self.stopped or (self.end is not None and time.monotonic() >= self.end)


class CallgateProvider:
    """The options are those of `Sandbox` but for `workdir`. They hold for all sandboxes, and a spec may only narrow them.

    parent      where the sandboxes' directories are made (default: as tempfile has it)
    """

    name = "callgate"

    def __init__(self, *, parent: str | os.PathLike[str] | None = None, **options: Any) -> None:
        if "workdir" in options:
            raise CallgateError("workdir cannot be given here: each sandbox has a directory of its own, beneath parent=")
        self._parent, self._sandbox = parent, Sandbox(**options)

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Raises SandboxCreateError for what cannot be kept: there are no images, and a share of processors is no limit."""
        for word, value in (("image", spec.image), ("entrypoint", spec.entrypoint), ("resources.cpu", spec.resources.cpu),
                            ("resources.gpu_type", spec.resources.gpu_type)):
            if value is not None:
                raise SandboxCreateError(f"{word} is {value!r}: callgate runs the programs of this machine, without images, and "
                                         "holds no share of processors; leave it out")
        if spec.provider_options:
            raise SandboxCreateError(f"provider_options has {', '.join(spec.provider_options)}: callgate knows none; give "
                                     "options to the provider")
        options = [*self._sandbox.given.options, *([f"--disk={spec.resources.disk_gib}G"] if spec.resources.disk_gib else [])]
        memory = self._sandbox.given.memory if spec.resources.memory_mib is None else f"{spec.resources.memory_mib}M"
        profile = self._sandbox.given.profile
        if spec.resources.gpu:
            profile = [*([profile] if isinstance(profile, str) else profile or ["agent"]), "gpu"]
        directory = MadeDirectory("callgate-gym-", self._parent)
        env = {**(self._sandbox.given.env or {}), **spec.env}
        sandbox = self._sandbox.with_options(workdir=directory.name, env=env, memory=memory, profile=profile, options=options)
        held = _Held(sandbox, directory, None if spec.ttl_s is None else time.monotonic() + spec.ttl_s)
        handle = SandboxHandle(os.path.basename(directory.name), self.name, held)
        try:
            probe = await sandbox.arun(["mkdir", "-p", "--", self._place(held, spec.workdir or ".")], timeout=spec.ready_timeout_s)
        except CallgateError as error:
            directory.cleanup()
            raise SandboxCreateError(str(error)) from error
        if probe.exit_code:
            directory.cleanup()
            raise SandboxCreateError(f"the sandbox cannot be used: {told(probe).strip()}")
        return handle

    async def exec(self, handle: SandboxHandle, command: str, *, cwd: str | None = None, env: dict[str, str] | None = None,
                   timeout_s: float | None = None, user: str | int | None = None) -> SandboxExecResult:
        """Runs the command by bash. `error_type` is `timeout`, `sandbox` where callgate could not run it, or the limit that
        ended it (`memory`, `processes`, `disk`)."""
        if not is_own_user(user):
            return failed(f"callgate runs commands as the user of this program, not as {user!r}")
        held: _Held = handle.raw
        if held.over():
            return failed("the sandbox is stopped" if held.stopped else "the sandbox's time is over")
        left = None if held.end is None else max(0.001, held.end - time.monotonic())
        limit = min((one for one in (timeout_s, left) if one is not None), default=None)
        try:
            result = await held.sandbox.arun(command, cwd=self._place(held, cwd or "."), env=env, timeout=limit)
        except CallgateError as error:
            return failed(str(error))
        if result.timed_out:
            return SandboxExecResult(result.text, f"{told(result)}command {lateness(result, limit)}", NOT_RUN, "timeout")
        ended = result.outcome if result.outcome not in ("exited", "signaled", "exec_failed") else None
        return SandboxExecResult(result.text, told(result), result.exit_code, ended)

    async def upload_file(self, handle: SandboxHandle, source_path: pathlib.Path, target_path: str) -> None:
        """Raises OSError: the file cannot be read here, or not be written there."""
        data = await asyncio.to_thread(pathlib.Path(source_path).read_bytes)
        held = self._running(handle)
        checked(await held.sandbox.arun(["sh", "-c", WRITE, "sh", self._place(held, target_path)], input=data), target_path)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: pathlib.Path) -> None:
        """Raises OSError: the file cannot be read there, or not be written here."""
        held = self._running(handle)
        sandbox = held.sandbox.with_options(max_output=LARGEST)
        result = checked(await sandbox.arun(["sh", "-c", READ, "sh", self._place(held, source_path)]), source_path)
        if result.truncated:
            raise OSError(f"{source_path} has more than {LARGEST} bytes")
        await asyncio.to_thread(pathlib.Path(target_path).write_bytes, result.stdout)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.STOPPED if handle.raw.over() else SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        """Removes the directory. Nothing runs any more: each command's processes ended with it."""
        handle.raw.stopped = True
        await asyncio.to_thread(handle.raw.directory.cleanup)

    async def aclose(self) -> None:
        """There is nothing that sandboxes share."""

    @staticmethod
    def _place(held: _Held, path: str) -> str:
        return os.path.join(held.directory.name, path)

    @staticmethod
    def _running(handle: SandboxHandle) -> _Held:
        held: _Held = handle.raw
        if held.over():
            raise OSError(f"the sandbox {handle.sandbox_id} is stopped")
        return held


def failed(why: str) -> SandboxExecResult:
    return SandboxExecResult(None, why, NOT_RUN, "sandbox")


def checked(result: Result, path: str) -> Result:
    if result.exit_code:
        raise OSError(f"{path}: {told(result).strip()}")
    return result
