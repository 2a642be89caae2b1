"""A directory that this program holds open, and the few files in it whose names an adapter chose.

The model's commands may write the directory. So they can put a link, a FIFO or another file at any name, and swap the
directory itself. A name that a model chose is therefore touched by supervised commands alone. A name that the adapter
chose is touched here: beneath the descriptor, one component long, and never through a link.
"""
from __future__ import annotations

import os
from pathlib import Path

TRIES = 100  # a process of the run may take the name again and again


class HeldDirectory:
    """Keeps `path` (absolute, resolved) open within a `with`. Raises OSError if it cannot be opened, or is a link now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __enter__(self) -> HeldDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, name: str, text: str) -> None:
        """Makes the file anew: whatever stands at the name is unlinked, never opened. Raises OSError."""
        data = memoryview(text.encode())
        file = self._made(self._checked(name))
        try:
            while data:
                data = data[os.write(file, data):]
        finally:
            os.close(file)

    def unlink(self, name: str) -> None:
        """Removes the file itself; nothing where it is gone. Raises OSError."""
        Path(f"/proc/self/fd/{self._descriptor}/{self._checked(name)}").unlink(missing_ok=True)

    def _made(self, name: str) -> int:
        for _ in range(TRIES):
            try:
                return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666,
                               dir_fd=self._descriptor)
            except FileExistsError:
                os.unlink(name, dir_fd=self._descriptor)
        raise FileExistsError(f"{self.path / name} is made again and again by somebody else")

    @staticmethod
    def _checked(name: str) -> str:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"{name!r} is not the name of one file")
        return name
