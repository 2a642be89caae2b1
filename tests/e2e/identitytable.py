"""A table of calls on files of several owners, made under several identities: what each answers, and what it leaves behind.

`python3 identitytable.py DIRECTORY few|all`, as root. Each identity has a tree of its own, and each call an object of its own.
"""
from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import stat
import struct
import sys
from typing import Any, Callable

NOBODY, GROUP, OTHER = 65534, 65533, 65532
CHOWN = 0  # CAP_CHOWN
libc = ctypes.CDLL(None, use_errno=True)


def hold(effective: int) -> None:
    """capset(2): nothing inheritable, and permitted what is effective."""
    header, sets = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", effective, effective, 0, 0, 0, 0)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def become(groups: list[int]) -> None:
    os.setgroups(groups)
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def beyond(path: str) -> None:
    """The size limit is the caller's, whoever it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        os.truncate(path, 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


IDENTITIES: dict[str, Callable[[], Any]] = {
    "root": lambda: None,
    "nobody": lambda: become([]),
    "nobody in the group": lambda: become([7, GROUP]),
    "effective": lambda: os.setresuid(0, NOBODY, 0),
    "effective group": lambda: os.setresgid(0, GROUP, 0),
    "fsuid": lambda: libc.setfsuid(NOBODY),
    "fsuid of another": lambda: (os.setresuid(NOBODY, OTHER, NOBODY), libc.setfsuid(NOBODY)),
    "fsgid": lambda: libc.setfsgid(GROUP),
    "groups": lambda: os.setgroups([GROUP]),
    "no capability": lambda: hold(0),
    "chown alone": lambda: hold(1 << CHOWN),
    "and back": lambda: (os.setresuid(-1, NOBODY, -1), os.setresuid(-1, 0, -1)),
}
FOLDERS = {"open": (0o777, 0, 0), "sticky": (0o1777, 0, 0), "closed": (0o700, 0, 0), "listed": (0o744, 0, 0), "roots": (0o755, 0, 0),
           "group": (0o2775, 0, GROUP), "others": (0o1777, OTHER, OTHER), "own": (0o755, NOBODY, NOBODY)}
FILES = {"roots": (0o644, 0, 0), "shared": (0o666, 0, 0), "own": (0o600, NOBODY, NOBODY), "others": (0o600, OTHER, OTHER),
         "group": (0o660, OTHER, GROUP)}
CALLS: dict[str, Callable[[str], Any]] = {
    "read": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "write": lambda path: os.close(os.open(path, os.O_WRONLY)),
    "truncate": lambda path: os.truncate(path, 1),
    "beyond": beyond,
    "creat": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    "unlink": os.unlink,
    "rename": lambda path: os.rename(path, path + ".new"),
    "link": lambda path: os.link(path, path + ".link"),
    "chmod": lambda path: os.chmod(path, 0o640),
    "chown": lambda path: os.chown(path, OTHER, -1),
    "chgrp": lambda path: os.chown(path, -1, GROUP),
    "now": os.utime,
    "then": lambda path: os.utime(path, (1, 1)),
    "setxattr": lambda path: os.setxattr(path, "user.a", b"b"),
}
NEW: dict[str, Callable[[str], Any]] = {
    "creat": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)),
    "mkdir": os.mkdir, "symlink": lambda path: os.symlink("to", path), "fifo": os.mkfifo,
    "node": lambda path: os.mknod(path, stat.S_IFREG | 0o600),
    "temporary": lambda path: os.close(os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY)),
    "bind": lambda path: socket.socket(socket.AF_UNIX).bind(path[-60:] if len(path) < 60 else f"/proc/self/cwd/{os.path.relpath(path)}"),
}


FEW = {"nobody in the group", "fsuid", "fsuid of another", "no capability", "and back", "sticky", "closed", "listed", "group", "own", "roots"}


def chosen(table: dict[str, Any], few: bool) -> dict[str, Any]:
    return {name: one for name, one in table.items() if not few or name in FEW}


def result(call: Callable[[str], Any], path: str) -> str:
    try:
        call(path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def seen(directory: str) -> list[str]:
    """Names, owners, modes and sizes."""
    lines = []
    for name in sorted(os.listdir(directory)):
        one = os.lstat(f"{directory}/{name}")
        lines.append(f"{name} {one.st_uid}:{one.st_gid} {one.st_mode:o} {one.st_size if stat.S_ISREG(one.st_mode) else ''}")
    return lines


def make(tree: str) -> None:
    os.mkdir(tree)
    for folder, (mode, user, group) in FOLDERS.items():
        os.mkdir(f"{tree}/{folder}")
        for file, (bits, owner, owners) in FILES.items():
            for call in CALLS:
                path = f"{tree}/{folder}/{file}-{call}"
                with open(path, "w", encoding="ascii") as out:
                    out.write("text")
                os.chown(path, owner, owners)
                os.chmod(path, bits)
        os.chown(f"{tree}/{folder}", user, group)
        os.chmod(f"{tree}/{folder}", mode)


def play(tree: str) -> None:
    for folder in FOLDERS:
        for file in FILES:
            print(folder, file, *(f"{name}={result(call, f'{folder}/{file}-{name}')}" for name, call in CALLS.items()))
        print(folder, "new", *(f"{name}={result(call, f'{folder}/new-{name}')}" for name, call in NEW.items()))
        print(folder, "itself", *(result(lambda path: os.close(os.open(path, os.O_RDONLY)), f"{folder}{rest}") for rest in ("", "/.", "/./..")))
        print(folder, "across", result(lambda path: os.rename(path, f"../across/{os.path.basename(os.getcwd())}-{folder}"), f"{folder}/new-creat"))
    print("itself", result(lambda path: os.close(os.open(path, os.O_RDONLY)), "/proc/self/fd/0"),
          result(lambda path: os.close(os.open(path, os.O_RDONLY)), "/proc/thread-self/cwd"), flush=True)


def main(directory: str, few: bool) -> None:
    os.umask(0)
    for table in (IDENTITIES, FOLDERS, FILES):
        kept = chosen(table, few)
        table.clear()
        table.update(kept)
    os.mkdir(f"{directory}/across", 0o777)
    for name, change in IDENTITIES.items():
        tree = f"{directory}/{name.replace(' ', '-')}"
        make(tree)
        print(f"== {name}", flush=True)
        child = os.fork()
        if child == 0:
            os.chdir(tree)
            change()
            play(tree)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for folder in FOLDERS:
            print("\n".join(seen(f"{tree}/{folder}")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "few")
