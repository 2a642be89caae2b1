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
    """A run that keeps its capabilities changes its identity, and may then not read what root may.

    The file is of `owner`, who alone may read it; for the control everybody may.
    """

    program: str = "attack_read"
    mode: str = "other_user"
    owner: int = 0

    def play(self, scene: Scene, program: str, mode: str, permission: int, supervised: bool) -> harness.Result:
        if scene.box.user.uid != 0:
            raise Impossible("only root can become another user")
        place = Place(scene.box)
        place.rebuild()
        place.twin.write_bytes(SECRET)
        place.twin.chmod(permission)
        os.chown(place.twin, self.owner, self.owner)
        line = [scene.box.program(program), mode, str(place.twin), str(place.allowed)]
        return scene.supervised(line, place.rules(*contested(place)), ["--keep-capabilities"]) if supervised else scene.bare(line)

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, self.program, self.mode, 0o644, supervised=False)
        return check({"the control did not read it": SECRET not in result.out}, "read", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, self.program, self.mode, 0o600, supervised=True)
        return check({"it was read": SECRET in result.out, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """The other identity reads what everybody may, and root the rest."""
        other = self.play(scene, self.program, self.mode, 0o644, supervised=True)
        own = self.play(scene, "attack_read", "plain", 0o600, supervised=True)
        return check({"everybody's is refused": SECRET not in other.out, "root itself cannot": SECRET not in own.out}, "works",
                     other.describe() + own.describe())


@dataclasses.dataclass(frozen=True)
class NotKept(Attack):
    """A run that keeps other capabilities than it takes to become another user. As that one it reads what everybody may."""

    def play(self, scene: Scene, supervised: bool, kept: str = "") -> harness.Result:
        if scene.box.user.uid != 0:
            raise Impossible("only root has capabilities")
        place = Place(scene.box)
        place.rebuild()
        place.twin.write_bytes(SECRET)
        place.twin.chmod(0o644)
        line = [scene.box.program("attack_read"), "other_user", str(place.twin), str(place.allowed)]
        rules = place.rules(*contested(place))
        return scene.supervised(line, rules, [f"--keep-capabilities={kept}"]) if supervised else scene.bare(line)

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=False)
        return check({"the control did not read it": SECRET not in result.out}, "read", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, True, "kill,setgid")
        return check({"it was read": SECRET in result.out, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.play(scene, True, "setuid,setgid")
        return check({"what is kept does not work": SECRET not in result.out}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Beyond(Attack):
    """`attack_identity MODE` as the user who started the run (the control), and as another one, who must not reach it."""

    mode: str
    twin_extra: str
    control_extra: str = ""

    def play(self, scene: Scene, extra: str, supervised: bool) -> harness.Result:
        if scene.box.user.uid != 0:
            raise Impossible("only root can become another user")
        place = Place(scene.box)
        place.rebuild()
        line = [scene.box.program("attack_identity"), self.mode, str(place.twin), str(place.allowed), extra]
        names = {"unix": f"{place.root}/**", "protocol": ["stream", "datagram"]}
        rules = place.rules(*contested(place), {"id": "datagrams", "allow": ["connect", "bind"], **names})
        return scene.supervised(line, rules, ["--keep-capabilities"]) if supervised else scene.bare(line)

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, self.control_extra, supervised=False)
        return check({"the control did not reach it": result.code != 0}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, "other", supervised=True)
        return check({"it was reached": result.code == 0, "the attack failed": result.code != 1}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.play(scene, self.twin_extra, supervised=True)
        return check({"one's own is refused": result.code != 0}, "works", result.describe())
