"""deepagents: `create_deep_agent(backend=CallgateBackend("~/project"))`. Commands and the file tools run supervised."""
from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import uuid
from typing import Any

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from .adapter import MOST, REGULAR, choose, whole
from .result import CUT, Result
from .sandbox import Sandbox

__all__ = ["CallgateBackend"]

# Exit statuses by which the two scripts tell what went wrong; the framework has a word for each.
LARGEST = 1 << 28  # bytes of a file that is downloaded
ERRORS = {41: "file_not_found", 42: "permission_denied", 43: "is_directory"}
UPLOAD = f"""mkdir -p -- "$(dirname -- "$1")" 2>/dev/null
[ -d "$1" ] && exit 43
{REGULAR}
cat 2>/dev/null > "$1" || exit 42"""
DOWNLOAD = f"""[ -d "$1" ] && exit 43
[ -e "$1" ] || [ -L "$1" ] || exit 41
{REGULAR}
head -c {LARGEST + 1} -- "$1" 2>/dev/null || exit 42"""


ENTIRE = 10 << 20  # bytes of a file tool's answer, which the framework bounds itself and then reads
_entire: contextvars.ContextVar[bool] = contextvars.ContextVar("entire", default=False)


def entire(tool: Any) -> Any:
    """The framework's file tool. It parses what its command writes, so that is not cut for a model."""
    @functools.wraps(tool)
    def run(*words: Any, **named: Any) -> Any:
        return contextvars.copy_context().run(lambda: (_entire.set(True), tool(*words, **named))[1])

    @functools.wraps(tool)
    async def arun(*words: Any, **named: Any) -> Any:
        token = _entire.set(True)
        try:
            return await tool(*words, **named)
        finally:
            _entire.reset(token)
    return arun if inspect.iscoroutinefunction(tool) else run


class CallgateBackend(BaseSandbox):
    """A directory of this machine. Takes the words of the Sandbox; `timeout` (default 120 s) is each command's, and
    `max_output_bytes` bounds the whole text that a model reads of it."""

    ls, read, grep, glob = map(entire, (BaseSandbox.ls, BaseSandbox.read, BaseSandbox.grep, BaseSandbox.glob))
    als, aread, agrep, aglob = map(entire, (BaseSandbox.als, BaseSandbox.aread, BaseSandbox.agrep, BaseSandbox.aglob))

    def __init__(self, root_dir: str | os.PathLike[str] | None = None, *, sandbox: Sandbox | None = None,
                 timeout: int | None = 120, max_output_bytes: int = MOST, **options: Any) -> None:
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout is {timeout}; expected more than 0 seconds")
        chosen = choose(sandbox, {**options, "timeout": timeout, "max_output": max_output_bytes})
        self.sandbox = chosen.with_options(workdir=os.path.abspath(os.path.expanduser(root_dir or chosen.workdir)))
        self._files = self.sandbox.with_options(max_output=LARGEST)
        self._id, self._most = f"callgate-{uuid.uuid4().hex[:8]}", max_output_bytes

    @property
    def id(self) -> str:
        return self._id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._response(self._checked(timeout).run(command, merge_stderr=True), timeout)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._response(await self._checked(timeout).arun(command, merge_stderr=True), timeout)

    def _checked(self, timeout: int | None) -> Sandbox:
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout is {timeout}; expected more than 0 seconds, or 0 for none")
        chosen = self.sandbox if timeout is None else self.sandbox.with_options(timeout=timeout or None)
        return chosen.with_options(max_output=ENTIRE) if _entire.get() else chosen

    def _response(self, result: Result, timeout: int | None) -> ExecuteResponse:
        """stdout and stderr in their order, as the framework's file scripts want it; the hint last. All of it together is
        within the framework's own bound."""
        late = ""
        if result.outcome == "timeout":
            late = f"\nError: Command timed out after {timeout or self.sandbox.timeout} seconds; everything that it had started was ended."
        text = whole(result, result.text, (ENTIRE if _entire.get() else self._most) - len(late))
        cut = result.truncated or CUT in text
        return ExecuteResponse(output=text + late, exit_code=result.exit_code, truncated=cut)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._uploaded(path, self._files.run(["sh", "-c", UPLOAD, "sh", path], input=data)) if os.path.isabs(path)
                else FileUploadResponse(path=path, error="invalid_path") for path, data in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        async def one(path: str, data: bytes) -> FileUploadResponse:
            if not os.path.isabs(path):
                return FileUploadResponse(path=path, error="invalid_path")
            return self._uploaded(path, await self._files.arun(["sh", "-c", UPLOAD, "sh", path], input=data))
        return list(await asyncio.gather(*(one(path, data) for path, data in files)))

    @staticmethod
    def _uploaded(path: str, result: Result) -> FileUploadResponse:
        return FileUploadResponse(path=path, error=error_of(result))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._downloaded(path, self._files.run(["sh", "-c", DOWNLOAD, "sh", path])) if os.path.isabs(path)
                else FileDownloadResponse(path=path, error="invalid_path") for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        async def one(path: str) -> FileDownloadResponse:
            if not os.path.isabs(path):
                return FileDownloadResponse(path=path, error="invalid_path")
            return self._downloaded(path, await self._files.arun(["sh", "-c", DOWNLOAD, "sh", path]))
        return list(await asyncio.gather(*map(one, paths)))

    @staticmethod
    def _downloaded(path: str, result: Result) -> FileDownloadResponse:
        error = error_of(result) or (f"the file is larger than {LARGEST} bytes" if result.truncated else None)
        return FileDownloadResponse(path=path, content=None if error else result.stdout, error=error)


def error_of(result: Result) -> Any:
    """The framework's word for what went wrong; what it has no word for is told as it is."""
    if result.exit_code == 0:
        return None
    return ERRORS.get(result.exit_code) or f"exit status {result.exit_code}: {result.error_text.strip()[:200]}"
