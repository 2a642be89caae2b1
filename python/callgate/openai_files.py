"""The file functions of an OpenAI Agents session, each one supervised command: the rules hold for them as for the shell.

The framework itself would act on names that a model chose. Here a supervised process does, with the framework's own code,
which follows no link. The rules say what it may read, write and remove.
"""
from __future__ import annotations

import inspect
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.sandbox.manifest import Manifest
from agents.sandbox.sandboxes import _unix_local_file_ops as operations
from agents.sandbox.sandboxes._unix_local_files import _UnixLocalFiles

from .adapter import told
from .code import interpreter_places
from .sandbox import Sandbox

__all__ = ["SupervisedFiles"]

LARGEST = 1 << 30  # bytes of a file that is read
FAILED, INCOMPLETE = 40, 41
# The framework's module comes as an argument: nothing that runs there is imported from the workspace.
WORKER = f"""
import errno, json, os, stat, sys
from pathlib import Path
source, operation, words, *paths = sys.argv[1:]
plain = os.open
def opened(path, flags, mode=0o777, **more):
    # A command may have made a FIFO there: nobody is waited for.
    descriptor = plain(path, flags | os.O_NONBLOCK, mode, **more)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "no regular file")
    return descriptor
os.open = opened
module = {{"__name__": "file_operations"}}
exec(compile(source, "<file operations>", "exec"), module)
files, words, paths = module["_FileOps"](), json.loads(words), [Path(one) for one in paths]
try:
    if operation == "read":
        left = {LARGEST} + 1
        with files.read(*paths) as stream:
            while piece := stream.read(min(left, 1 << 20)):
                left -= sys.stdout.buffer.write(piece)
    elif operation == "read_bounded":
        sys.stdout.buffer.write(files.read_bounded(*paths, **words))
    elif operation in ("write", "write_new"):
        getattr(files, operation)(*paths, sys.stdin.buffer)
    elif operation == "entries":
        with files.directory(*paths) as descriptor, os.scandir(descriptor) as entries:
            print(json.dumps([[one.name, *one.stat(follow_symlinks=False)[:10]] for one in entries]))
    else:
        print(json.dumps(getattr(files, operation)(*paths, **words)))
except module["_IncompleteCreateError"] as error:
    sys.stderr.write(str(error))
    sys.exit({INCOMPLETE})
except OSError as error:
    sys.stderr.write(json.dumps([error.errno, error.strerror or str(error)]))
    sys.exit({FAILED})
"""


class SupervisedFiles(_UnixLocalFiles):
    """Takes the place of the framework's `_UnixLocalFiles`. `directory` is the one function that it has no use for."""

    def __init__(self, manifest: Manifest, sandbox: Sandbox) -> None:
        super().__init__(manifest)
        self._root = str(self._roots[manifest.root])
        python = sys.executable or "/usr/bin/python3"
        places = [*sandbox.paths("execute"), *interpreter_places(python)]
        self._sandbox = sandbox.with_options(workdir=self._root, execute=places, max_output=LARGEST, timeout=None)
        self._line = [python, "-I", "-S", "-c", WORKER, inspect.getsource(operations)]

    def configure(self, manifest: Manifest) -> None:
        super().configure(manifest)
        self._grants = manifest.extra_path_grants

    def _do(self, operation: str, *paths: Path, for_write: bool = False, input: bytes = b"", **words: Any) -> bytes:
        """Runs one operation. Raises the OSError that it met; a denial is PermissionError, and says what was denied."""
        allowed = [str(self.authorize(one, for_write=for_write)) for one in paths]
        result = self._granted().run([*self._line, operation, json.dumps(words), *allowed], input=input)
        if result.exit_code == 0 and not result.truncated:
            return result.stdout
        if result.exit_code == INCOMPLETE:
            raise operations._IncompleteCreateError(result.error_text)
        if result.exit_code != FAILED:
            raise OSError(f"{operation} failed: {told(result).strip()[-2000:] or 'the file is too large'}")
        number, text = json.loads(result.error_text)
        raise OSError(number, f"{text}{' ' if result.denials else ''}{result.hint()}", allowed[0])

    def _granted(self) -> Sandbox:
        """The Sandbox with the paths that the manifest grants beside the workspace, as `configure` has them now."""
        grants: dict[str, list[Any]] = {"read": self._sandbox.paths("read"), "write": self._sandbox.paths("write")}
        for grant in self._grants:
            grants["read" if grant.read_only else "write"].append(str(self._roots[grant.path]))
        return self._sandbox.with_options(**grants)

    def read(self, path: Path) -> io.IOBase:
        return io.BytesIO(self._do("read", path))

    def read_bounded(self, path: Path, max_bytes: int) -> bytes:
        return self._do("read_bounded", path, max_bytes=max_bytes)

    def write(self, path: Path, stream: io.IOBase) -> None:
        self._do("write", path, for_write=True, input=content(stream))

    def write_new(self, path: Path, stream: io.IOBase) -> None:
        self._do("write_new", path, for_write=True, input=content(stream))

    def mkdir(self, path: Path, *, parents: bool) -> None:
        self._do("mkdir", path, for_write=True, parents=parents)

    def rm(self, path: Path, *, recursive: bool) -> None:
        if recursive:
            self._policy.validate_recursive_remove(path)
        self._do("rm", path, for_write=True, recursive=recursive)

    def rename(self, source: Path, destination: Path) -> None:
        self._do("rename", source, destination, for_write=True)

    def same_file(self, left: Path, right: Path, *, follow_symlinks: bool = True) -> bool:
        return bool(json.loads(self._do("same_file", left, right, follow_symlinks=follow_symlinks)))

    def entries(self, path: Path) -> list[tuple[str, os.stat_result]]:
        """The names in a directory, with what lstat(2) says of each."""
        return [(name, os.stat_result(status)) for name, *status in json.loads(self._do("entries", path))]

    @contextmanager
    def parent(self, path: Path, *, for_write: bool = False, create_parents: bool = False) -> Iterator[tuple[int, str]]:
        raise OSError("this program opens nothing in the workspace itself")
        yield  # a generator, as the function that it stands for


# As the framework's own: no FIFO and no device, hard links as files of their own. Links are judged by the host program.
ARCHIVER = """
import json, os, sys, tarfile
root, skipped, left = sys.argv[1], [tuple(one.split("/")) for one in json.loads(sys.argv[2])], int(sys.argv[3])
def kept(member):
    global left
    tar.inodes.clear()
    parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
    if any(parts[:len(one)] == one for one in skipped):
        return None
    left -= member.size
    if left < 0:
        sys.exit("it is too large")
    return None if member.isfifo() or member.ischr() or member.isblk() else member
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    tar.add(root, arcname=".", filter=kept)
"""


def archive(root: Path, skipped: list[str], binary: Any) -> bytes:
    """The workspace as a tar archive. The process that makes it can read nothing else but programs. So a link that a command
    puts in a file's place meanwhile leads nowhere. Raises OSError."""
    python = sys.executable or "/usr/bin/python3"
    programs = [f"{one}/**" for one in ("/usr", "/bin", "/lib", "/lib64", *map(quoted, interpreter_places(python)))]
    rules = {"version": 1, "default": "deny", "rules": [
        {"id": "programs", "allow": ["read", "execute"], "path": [*programs, "/etc/ld.so.cache", "/dev/null", "/dev/urandom"]},
        {"id": "workspace", "allow": "read", "path": f"{quoted(str(root))}/**"}]}
    sandbox = Sandbox(workdir=root, rules=rules, max_output=LARGEST, binary=binary)
    result = sandbox.run([python, "-I", "-S", "-c", ARCHIVER, str(root), json.dumps(skipped), str(LARGEST)])
    if result.exit_code != 0 or result.truncated:
        raise OSError(f"the workspace cannot be archived: {told(result).strip()[-2000:] or 'it is too large'}")
    return result.stdout


def quoted(path: str) -> str:
    """A pattern that means this path alone."""
    return re.sub(r"([\\*?\[\]{},])", r"\\\1", path)


def content(stream: Any) -> bytes:
    data = stream.read()
    return data.encode() if isinstance(data, str) else bytes(data)
