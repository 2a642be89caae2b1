"""A file system for tests that ignores the case of letters, as those of Windows and macOS do: FUSE, spoken by a thread of the test.

It holds one directory of files. Nothing of it can be changed but the flags of inodes (chattr). See fuse(4) and linux/fuse.h.
"""
from __future__ import annotations

import ctypes
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR, FLUSH, ACCESS, IOCTL = 1, 2, 3, 14, 15, 17, 18, 26, 27, 28, 29, 25, 34, 39
GET_FLAGS, SET_FLAGS, GET_MORE = 0x80086601, 0x40086602, 0x801C581F  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_FSGETXATTR
HEADER = struct.Struct("<IIQQIIIHH")
libc = ctypes.CDLL(None, use_errno=True)


class OneCase(threading.Thread):
    def __init__(self, device: int, files: dict[str, bytes], ignores: bool, owner: int) -> None:
        super().__init__(daemon=True)
        self.device, self.files, self.ignores = device, [("", b""), *files.items()], ignores
        self.flags, self.owner = [0] * len(self.files), owner

    def attributes(self, number: int) -> bytes:
        size = len(self.files[number - 1][1])
        mode, links = (stat.S_IFDIR | 0o755, 2) if number == 1 else (stat.S_IFREG | 0o644, 1)
        return struct.pack("<6Q10I", number, size, 1, 0, 0, 0, 0, 0, 0, mode, links, self.owner, 0, 0, 4096, 0)

    def found(self, name: str) -> int:
        fold = str.lower if self.ignores else str
        return next((at + 1 for at, (own, _) in enumerate(self.files) if own and fold(own) == fold(name)), 0)

    def entries(self) -> bytes:
        content = b""
        for at, (name, _) in enumerate(self.files[1:], 2):
            content += struct.pack("<QQII", at, len(content) + 24 + (len(name) + 7) // 8 * 8, len(name), 8) + name.encode().ljust((len(name) + 7) // 8 * 8, b"\0")
        return content

    def answer(self, operation: int, node: int, body: bytes) -> tuple[int, bytes]:
        if operation == INIT:
            return 0, struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 12, 9, 65536, 1, 1, 0, 0, *[0] * 7)
        if operation == LOOKUP:
            number = self.found(body.rstrip(b"\0").decode())
            return (0, struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self.attributes(number)) if number else (-2, b"")
        if operation == GETATTR:
            return 0, struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if operation in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if operation in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            content = self.entries() if operation == READDIR else self.files[node - 1][1]
            return 0, content[offset:offset + size]
        if operation == IOCTL:
            request = struct.unpack_from("<QII", body)[2]
            if request not in (GET_FLAGS, SET_FLAGS, GET_MORE):
                return -25, b""  # ENOTTY
            if request == SET_FLAGS:
                self.flags[node - 1] = struct.unpack_from("<I", body, 32)[0]
            told = bytes(28) if request == GET_MORE else struct.pack("<I", self.flags[node - 1]) if request == GET_FLAGS else b""
            return 0, struct.pack("<iIII", 0, 0, 0, 0) + told
        if operation == STATFS:
            return 0, struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
        return (0, b"") if operation in (RELEASE, RELEASEDIR, FLUSH, ACCESS) else (-38, b"")

    def run(self) -> None:
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:  # unmounted
                return
            _, operation, unique, node, *_ = HEADER.unpack_from(request)
            if operation in (FORGET, 42):  # no answer
                continue
            error, content = self.answer(operation, node, request[HEADER.size:])
            os.write(self.device, struct.pack("<IiQ", 16 + len(content), error, unique) + content)


@contextmanager
def mounted(place: Path, files: dict[str, bytes], ignores: bool, owner: int = 0) -> Iterator[OneCase]:
    """With these files at the place; needs root. Raises OSError where there is no FUSE."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"callgate-test", os.fsencode(place), b"fuse.callgate-test", 0, options) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        served = OneCase(device, files, ignores, owner)
        served.start()
        try:
            yield served
        finally:
            libc.umount2(os.fsencode(place), 2)  # MNT_DETACH
    finally:
        os.close(device)
