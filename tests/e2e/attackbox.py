"""What the attack tests share: the place with an allowed and a denied side, and the three runs of a case.

Every case runs three times: the control (bare, must reach its goal, else it proves nothing), the attack supervised (must
not, judged from outside) and its benign twin supervised (the same way to an allowed object must work).
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import harness

SECRET = b"SECRET-b7f2c1"
ALLOWED = b"allowed content"
UNSUPPORTED = 77
BUDGET, ROUNDS = ("3000", "2000") if harness.SOAK else ("500", "300")


def kept(path: Path) -> None:
    """An attribute that an attack may want to take away, where the file system has any."""
    with contextlib.suppress(OSError):
        os.setxattr(path, "user.kept", b"value")


def snapshot(top: Path) -> dict[str, tuple[Any, ...]]:
    """Everything that an attack could change beneath a directory, the directory itself included."""
    seen: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = Path(folder) / name
            st = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(st.st_mode) else b""
            seen[str(path.relative_to(top))] = (st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns,
                                                st.st_ctime_ns, 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink, content)
    return seen


def secret_beneath(top: Path) -> list[str]:
    """Files beneath `top` that hold the secret."""
    found = []
    for folder, _, files in os.walk(top):
        for name in files:
            path = Path(folder) / name
            if stat.S_ISREG(path.lstat().st_mode) and SECRET in path.read_bytes():
                found.append(str(path))
    return found


@dataclasses.dataclass
class Place:
    """TREE/keep/dB/victim is denied; TREE/keep/dA/victim and TREE/free are allowed."""

    box: harness.Box
    root: Path

    @property
    def denied(self) -> Path:
        return self.root / "keep" / "dB"

    @property
    def allowed(self) -> Path:
        return self.root / "keep" / "dA"

    @property
    def free(self) -> Path:
        return self.root / "free"

    @property
    def victim(self) -> Path:
        return self.denied / "victim"

    def rebuild(self) -> None:
        """A fresh place, without `made` and with both victims."""
        shutil.rmtree(self.root, ignore_errors=True)
        box = self.box
        for one in (self.root, self.root / "keep", self.denied, self.allowed, self.free):
            box.directory(one)
        kept(box.file(self.victim, SECRET))
        kept(box.file(self.allowed / "victim", ALLOWED))

    def twin_folders(self) -> None:
        """For the twin: beneath `free` stands the same shape, wholly allowed."""
        box = self.box
        for one in (self.free / "twin", self.free / "twin" / "inner"):
            box.directory(one)
        kept(box.file(self.free / "twin" / "inner" / "victim", ALLOWED))

    def rules(self, *more: dict[str, Any], verbs: tuple[str, ...] = ("read", "write")) -> dict[str, Any]:
        return harness.rule_set(
            {"id": "programs", "allow": ["read", "execute"], "path": f"{self.box.stage.bin}/**"},
            {"id": "tree", "allow": ["read", "write"], "path": f"{self.root}/**"},
            {"id": "secret", "deny": list(verbs), "path": f"{self.denied}/**"},
            *more,
        )


def make_place(box: harness.Box) -> Place:
    place = Place(box, box.tree / "place")
    place.rebuild()
    return place


def wins(result: harness.Result) -> tuple[int, int]:
    """What a race printed of itself: `WON n TWIN m`."""
    words = result.text.split()
    if "TWIN" not in words:
        raise AssertionError("the race did not end by itself\n" + result.describe())
    at = len(words) - 1 - words[::-1].index("TWIN")
    return int(words[at - 1]), int(words[at + 1])
