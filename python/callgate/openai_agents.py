"""OpenAI Agents SDK: an executor for `ShellTool`, and a client for sandbox agents that confines on Linux what the local one
does not: `ShellTool(executor=CallgateShellExecutor(…))`, `SandboxRunConfig(client=CallgateSandboxClient(…))`."""
from __future__ import annotations

import asyncio
import copy
import dataclasses
import errno
import io
import os
import stat
import tarfile
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from agents.sandbox.errors import ExecNonZeroError, ExecTimeoutError, WorkspaceArchiveReadError
from agents.sandbox.files import EntryKind, FileEntry
from agents.sandbox.sandboxes import unix_local
from agents.sandbox.sandboxes._unix_local_files import _UnixLocalFiles
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient, UnixLocalSandboxSession
from agents.sandbox.session import SandboxSession
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.types import ExecResult, Permissions

from .adapter import apart, choose, size, told
from .exchange import read_report
from .openai_files import SupervisedFiles, archive
from .result import Result, with_hint
from .sandbox import MOST_OUTPUT, Sandbox

__all__ = ["CallgateSandboxClient", "CallgateSandboxSession", "CallgateShellExecutor"]
REPORT = "--report="


class CallgateShellExecutor:
    """Runs the commands of a call one after the other, as the model wrote them, by bash. Takes the words of the Sandbox.
    `timeout` holds where the model names none, or a longer one."""

    def __init__(self, sandbox: Sandbox | None = None, **options: Any) -> None:
        self.sandbox = choose(sandbox, options)

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        limits = (action.timeout_ms / 1000 if action.timeout_ms else None, self.sandbox.timeout)
        timeout = min((one for one in limits if one is not None), default=None)
        output: list[ShellCommandOutput] = []
        left = min(self.sandbox.max_output, action.max_output_length or self.sandbox.max_output)
        for command in action.commands:
            result = await self.sandbox.arun(command, timeout=timeout)
            outcome = ShellCallOutcome("timeout") if result.timed_out else ShellCallOutcome("exit", result.exit_code)
            text, errors = apart(result, left)
            left -= size(text) + size(errors)
            output.append(ShellCommandOutput(text, errors, outcome, command))
            if result.timed_out:
                break
        return ShellResult(output, action.max_output_length)


class CallgateSandboxSession(UnixLocalSandboxSession):
    """A local session whose commands, also those at a terminal, run supervised. So do its file functions, once it runs:
    each is a command under the same rules. Before that the framework lays out the manifest's files, whose names no model
    chose, beneath descriptors and without following links."""

    sandbox: Sandbox
    _plain: _UnixLocalFiles
    _supervised: SupervisedFiles | None = None
    _reports: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _files(self) -> _UnixLocalFiles:
        if not self._running:
            return self._plain
        if self._supervised is None:
            self._supervised = SupervisedFiles(self.state.manifest, self.sandbox)
        return self._supervised

    @_files.setter
    def _files(self, files: _UnixLocalFiles) -> None:
        self._plain = files

    async def ls(self, path: Path | str, *, user: Any = None) -> list[FileEntry]:
        files = self._files
        if user is not None or not isinstance(files, SupervisedFiles):
            return await super().ls(path, user=user)
        normalized = self.normalize_path(path)
        try:
            found = files.entries(normalized)
        except OSError as error:
            failed = ExecResult(stdout=b"", stderr=str(error).encode(), exit_code=1)
            raise ExecNonZeroError(failed, command=("ls", "-la", "--", str(normalized)), cause=error) from error
        return [FileEntry(path=str(normalized / name), permissions=Permissions.from_mode(status.st_mode), owner=str(status.st_uid),
                          group=str(status.st_gid), size=status.st_size, kind=kind_of(status.st_mode)) for name, status in found]

    async def persist_workspace(self) -> io.IOBase:
        """The snapshot. The framework's own would follow a link that a command puts in a file's place meanwhile."""
        root = Path(self.state.manifest.root)
        skipped = [one.as_posix() for one in self._persist_workspace_skip_relpaths()]
        resolved = self._plain._roots[self.state.manifest.root]
        try:
            return rebased(await asyncio.to_thread(archive, resolved, skipped, self.sandbox._binary), (root, resolved))
        except (OSError, tarfile.TarError) as error:
            raise WorkspaceArchiveReadError(path=root, cause=error) from error

    async def _run_file_operation_as_user(self, *_: Any, user: Any, **__: Any) -> Any:
        raise PermissionError(errno.EPERM, "callgate runs everything as the user of this program: it cannot act as another", str(user))

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
        return ExecResult(stdout=result.stdout, stderr=told(result).encode() if result.hint() else result.stderr,
                          exit_code=status_of(result))

    def _confined_exec_command(self, *, command_parts: list[str], workspace_root: Path, env: Mapping[str, str]) -> list[str]:
        """The framework starts it, and passes no descriptor on. So the report goes into a file that no command may touch.

        The session's variables, with which it starts it, have the workspace as HOME. callgate would find a user's rules there,
        written by the model's commands. So callgate gets this program's own variables back."""
        sandbox, own = self._words(str(workspace_root), env)
        if self._reports is None:
            self._reports = tempfile.TemporaryDirectory(prefix="callgate-reports-")
        file = os.path.join(self._reports.name, uuid.uuid4().hex)
        line = sandbox.with_options(options=(*sandbox.given.options, REPORT + file)).wrap(command_parts, env=own)
        unset = [word for name in own if name not in os.environ for word in ("-u", name)]
        return ["/usr/bin/env", *unset, *(f"{name}={os.environ[name]}" for name in own if name in os.environ), *line]

    async def _finalize_pty_update(self, **words: Any) -> PtyExecUpdate:
        """At the end of a command, its exit status is as the framework has it, and the hint stands behind its output."""
        update: PtyExecUpdate = await super()._finalize_pty_update(**words)
        if update.exit_code is None:
            return update
        line = words["entry"].process._transport.get_extra_info("subprocess").args
        file = Path(next(one for one in line if one.startswith(REPORT)).removeprefix(REPORT))
        try:
            result = Result.from_report(update.exit_code, read_report(file.read_bytes()))
            file.unlink()
        except OSError:  # ended before it wrote one
            return update
        output = with_hint(update.output.decode("utf-8", "surrogateescape"), result.hint()).encode("utf-8", "surrogateescape")
        return dataclasses.replace(update, output=output, exit_code=status_of(result))


def status_of(result: Result) -> int:
    """As `subprocess` has it: -N after signal N."""
    return -result.signal if result.signal and not result.timed_out else result.exit_code


def rebased(data: bytes, roots: tuple[Path, ...]) -> io.IOBase:
    """The archive with absolute links into the workspace made relative, as the framework does it: those that stay within."""
    source, target = tarfile.open(fileobj=io.BytesIO(data)), io.BytesIO()
    members = {PurePosixPath(one.name).as_posix(): one for one in source.getmembers()}
    with source, tarfile.open(fileobj=target, mode="w") as made:
        for member in sorted(source.getmembers(), key=tarfile.TarInfo.issym):  # files first: the framework reads it so
            copied = copy.copy(member)
            if member.issym() and member.linkname.startswith("/"):
                link = unix_local._rebase_symlink_target(member.linkname, link_name=member.name, roots=roots)
                if link != member.linkname and unix_local._symlink_target_stays_under(members, link_name=member.name, target=link):
                    copied.linkname = link
            made.addfile(copied, source.extractfile(member) if member.isreg() else None)
    target.seek(0)
    return target


def kind_of(mode: int) -> EntryKind:
    if stat.S_ISLNK(mode):
        return EntryKind.SYMLINK
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.FILE if stat.S_ISREG(mode) else EntryKind.OTHER


class CallgateSandboxClient(UnixLocalSandboxClient):
    """Makes such sessions. Takes the client's own arguments and the words of the Sandbox; the work directory is the
    session's. The environment of this program is not handed on unless you ask for it."""

    backend_id = "unix_local"  # its states can be resumed by either client

    def __init__(self, sandbox: Sandbox | None = None, *, instrumentation: Any = None, dependencies: Any = None,
                 inherit_host_environment: bool = False, host_environment_allowlist: Any = None, **options: Any) -> None:
        super().__init__(instrumentation=instrumentation, dependencies=dependencies,
                         inherit_host_environment=inherit_host_environment,
                         host_environment_allowlist=host_environment_allowlist)
        self.sandbox = choose(sandbox, options, MOST_OUTPUT)

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
