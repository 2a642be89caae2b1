"""A temporary directory in which commands work, and which this program removes afterwards.

Commands may leave anything there: links, directories that nobody may write, and very deep ones. tempfile's own removal fails
in deep directories. In older versions of Python it changes the mode of what a link leads to (CVE-2023-6597). This one follows
no link and needs three descriptors, however deep the tree is.
"""
from __future__ import annotations

import os
import secrets
import tempfile
import weakref

DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class MadeDirectory:
    """Made at once. `cleanup` removes it, and so does the end of the object or of the program. What cannot be removed stays."""

    def __init__(self, prefix: str = "callgate-", parent: str | os.PathLike[str] | None = None) -> None:
        self.name = tempfile.mkdtemp(prefix=prefix, dir=parent)
        self._removal = weakref.finalize(self, remove, self.name)

    def cleanup(self) -> None:
        self._removal()


def remove(path: str) -> None:
    """Removes the directory with all that is in it, as far as the kernel lets it."""
    try:
        _writable(path, None)
        top = os.open(path, os.O_RDONLY | DIRECTORY)
    except OSError:
        return
    try:
        while True:
            try:
                if not any([_empty(one, top) for one in os.listdir(top)]):
                    break
            except OSError:
                break
        os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(top)


def _empty(name: str, top: int) -> bool:
    """Removes what stands at the name. Directories in it get a name in `top`, so that no path becomes long. False: it stays."""
    try:
        if _unlinked(name, top):
            return True
        _writable(name, top)
        inner = os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=top)
        try:
            for one in os.listdir(inner):
                if not _unlinked(one, inner):
                    _writable(one, inner)
                    os.rename(one, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _unlinked(name: str, directory: int) -> bool:
    """False: it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def _writable(name: str, directory: int | None) -> None:
    """Lets this user change the directory itself, never what a link at its name leads to."""
    pin = os.open(name, os.O_PATH | DIRECTORY, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{pin}", 0o700)
    finally:
        os.close(pin)
