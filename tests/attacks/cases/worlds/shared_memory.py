"""POSIX shared memory and semaphores of an outside process of the same user."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import harness
from cases.case import ALLOWED, SECRET, Attack, Outcome, Scene, check, possible
from cases.worlds.listeners import rules
from cases.worlds.place import snapshot

PLACE = Path("/dev/shm")
# The run makes what the mode then reaches: content, program, mode, file, folder, directory.
MAKE = 'printf %s "$0" > "$3" && mkdir "$5" && printf %s "$0" > "$5/inner" && exec "$1" "$2" "$3" "$4" "$5"'


@dataclasses.dataclass(frozen=True)
class Shared(Attack):
    """`attack_shared MODE`. `free`: the rules allow everything, so that Landlock would grant all of it."""

    mode: str
    free: bool = False

    def rules(self, scene: Scene) -> dict[str, Any]:
        if self.free:
            return harness.rule_set(default="allow")
        return rules(scene.box, {"id": "shared", "allow": ["read", "write"], "path": f"{PLACE}/**"})

    def names(self, scene: Scene, turn: str) -> list[Path]:
        number = zlib.crc32(f"{scene.box.root}-{turn}-{os.getpid()}".encode())
        return [PLACE / f"cg-{number}-{kind}" for kind in ("file", "own", "directory")]

    def line(self, scene: Scene, names: list[Path]) -> list[str]:
        return [scene.box.program("attack_shared"), self.mode, *map(str, names)]

    def play(self, scene: Scene, turn: str, supervised: bool) -> tuple[harness.Result, bool]:
        file, own, directory = names = self.names(scene, turn)

        def make() -> None:
            directory.mkdir()
            for one in (file, directory / "inner"):
                one.write_bytes(SECRET)
        harness.as_user(scene.box.user, make)
        try:
            before = self.state(file, directory)
            line = self.line(scene, names)
            result = scene.supervised(line, self.rules(scene)) if supervised else scene.bare(line)
            return result, SECRET in result.out or self.state(file, directory) != before
        finally:
            self.remove([*names, Path(f"{own}-beside")])

    def state(self, file: Path, directory: Path) -> Any:
        one = snapshot(directory), (file.lstat() if file.exists() else None)
        return one[0], one[1] and (one[1].st_ino, one[1].st_mode, one[1].st_size, one[1].st_nlink), one[1] and file.read_bytes()

    def remove(self, names: list[Path]) -> None:
        for one in names:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(one) if one.is_dir() else one.unlink()

    def control(self, scene: Scene) -> Outcome:
        result, reached = self.play(scene, "control", supervised=False)
        possible(result)
        return check({"the control did not reach its goal": not reached}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, reached = self.play(scene, "held", supervised=True)
        noted = [one for one in result.decisions(verdict="deny") if one.get("rule", {}).get("name") == "callgate-shared-memory"]
        return check({"it was reached": reached, "the call succeeded": result.code == 0, "nothing is on record": not noted},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        names = self.names(scene, "twin")
        line = ["/bin/sh", "-c", MAKE, ALLOWED.decode(), *self.line(scene, names)]
        result = scene.supervised(line, self.rules(scene))
        left = [one for one in (*names, Path(f"{names[1]}-beside")) if os.path.lexists(one)]
        self.remove(left)
        return check({"the same on an own object does not work": result.code != 0, "it was left there": bool(left)}, "works", result.describe())
