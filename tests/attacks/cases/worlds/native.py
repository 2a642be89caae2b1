"""Calls that the kernel itself refuses: callgate acts on behalf, and must not do them instead.

The control plays where the kernel has no reason to refuse: so the act is possible, and what holds it is the reason alone.
"""
from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import harness
from cases.case import ALLOWED, SECRET, Attack, Impossible, Outcome, Scene, check
from cases.worlds.place import Place, contested, snapshot

NOBODY, SOMEBODY = 65534, 65533  # two users who are neither root nor the test's


def setting(path: str) -> int:
    try:
        return int(Path("/proc/sys/fs", path).read_text())
    except OSError:
        return 0


@dataclasses.dataclass(frozen=True)
class Sticky(Attack):
    """`attack_change MODE` in a user's directory that is open to all, on objects that the user NOBODY has put there."""

    mode: str
    protection: str  # beneath /proc/sys/fs

    def put(self, shared: Path, place: Place, owner: int) -> Path:
        """Fills the shared directory and gives the victim."""
        raise NotImplementedError

    def play(self, scene: Scene, supervised: bool, mode: int, owner: int) -> tuple[bool, harness.Result]:
        if os.geteuid() != 0:
            raise Impossible("needs files of two other users")
        if setting(self.protection) == 0:
            raise Impossible(f"fs.{self.protection} is off")
        place = Place(scene.box)
        place.rebuild()
        shared = place.free / "shared"
        shared.mkdir()
        os.chown(shared, SOMEBODY, SOMEBODY)
        shared.chmod(mode)
        victim = self.put(shared, place, owner)
        before = snapshot(place.free)
        line = [scene.box.program("attack_change"), self.mode, str(victim), str(place.allowed)]
        result = scene.supervised(line, place.rules(*contested(place))) if supervised else scene.bare(line)
        return snapshot(place.free) != before, result

    def control(self, scene: Scene) -> Outcome:
        changed, result = self.play(scene, False, 0o777, NOBODY)
        return check({"the control did not reach its goal": not changed}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        changed, result = self.play(scene, True, 0o1777, NOBODY)
        return check({"it was changed": changed, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        changed, result = self.play(scene, True, 0o1777, scene.box.user.uid)
        return check({"one's own is refused": not changed or result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class StickyFile(Sticky):
    """O_CREAT of a file that is there already, and another's: fs.protected_regular."""

    mode: str = "creat"
    protection: str = "protected_regular"

    def put(self, shared: Path, place: Place, owner: int) -> Path:
        victim = shared / "victim"
        victim.write_bytes(ALLOWED)
        victim.chmod(0o666)
        os.chown(victim, owner, owner)
        return victim


@dataclasses.dataclass(frozen=True)
class StickyLink(Sticky):
    """Through another's symbolic link, by a path that callgate walks itself: fs.protected_symlinks."""

    mode: str = "proc_cwd_mkdir"
    protection: str = "protected_symlinks"

    def put(self, shared: Path, place: Place, owner: int) -> Path:
        (shared / "way").symlink_to(place.free / "twin")
        os.chown(shared / "way", owner, owner, follow_symlinks=False)
        return shared / "way" / "victim"


@dataclasses.dataclass(frozen=True)
class OtherUser(Attack):
    """A run that keeps its capabilities becomes another user, who may not read what root may."""

    def play(self, scene: Scene, mode: str, permission: int, supervised: bool) -> harness.Result:
        if scene.box.user.uid != 0:
            raise Impossible("only root can become another user")
        place = Place(scene.box)
        place.rebuild()
        place.twin.write_bytes(SECRET)
        place.twin.chmod(permission)
        line = [scene.box.program("attack_read"), mode, str(place.twin), str(place.allowed)]
        return scene.supervised(line, place.rules(*contested(place)), ["--keep-capabilities"]) if supervised else scene.bare(line)

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, "other_user", 0o644, supervised=False)
        return check({"the control did not read it": SECRET not in result.out}, "read", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, "other_user", 0o600, supervised=True)
        return check({"it was read": SECRET in result.out, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.play(scene, "plain", 0o600, supervised=True)
        return check({"root itself cannot": SECRET not in result.out}, "works", result.describe())
