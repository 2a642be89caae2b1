"""Programs that may not run where everything else may: so execution is notify-only."""
from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import harness
from cases.case import Attack, Outcome, Scene, check
from cases.worlds.place import ExecRace, Place


def execution_rules(place: Place, *more: dict[str, Any]) -> dict[str, Any]:
    return harness.rule_set(
        {"id": "programs", "allow": ["read", "execute"], "path": f"{place.box.stage.bin}/**"},
        {"id": "tree", "allow": ["read", "write", "execute"], "path": f"{place.root}/**"},
        {"id": "no", "deny": "execute", "path": f"{place.denied}/**"}, *more)


@dataclasses.dataclass(frozen=True)
class Executed(Attack):
    """`prog_exec WAY`: the program leaves a file where it ran. `script`: its interpreter is denied, not itself."""

    way: str

    def play(self, scene: Scene, supervised: bool, bad: bool = True) -> tuple[bool, harness.Result]:
        place = Place(scene.box)
        place.rebuild()
        side = place.denied if bad else place.allowed
        program = scene.box.file(side / "program", Path(scene.box.program("prog_seen")).read_bytes(), 0o755)
        if self.way == "script":
            program = scene.box.file(place.free / "script", f"#!{program} push\n".encode(), 0o755)
        line = [scene.box.program("prog_exec"), "fork" if self.way == "script" else self.way, str(program), "push", str(place.free)]
        result = scene.supervised(line, execution_rules(place)) if supervised else scene.bare(line, cwd=place.free)
        # A script's arguments come after its own name: its interpreter finds that in the second place.
        return bool([*place.free.glob("executed"), *place.free.glob("script/executed")]) or b"exit 42" in result.out, result

    def control(self, scene: Scene) -> Outcome:
        ran, result = self.play(scene, supervised=False)
        return check({"the control did not run": not ran}, "ran", result.describe())

    def held(self, scene: Scene) -> Outcome:
        ran, result = self.play(scene, supervised=True)
        return check({"it ran": ran, "it was not refused": b"errno" not in result.out}, "refused", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        ran, result = self.play(scene, supervised=True, bad=False)
        return check({"another program does not run": not ran}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class JudgedRace(ExecRace):
    """The judged program is allowed and Landlock lets both run: callgate judges again what then runs."""

    def rule_set(self, place: Place) -> dict[str, Any]:
        return execution_rules(place)


@dataclasses.dataclass(frozen=True)
class WordRace(JudgedRace):
    """The same with the program's arguments (attack_exec.c)."""

    def build(self, scene: Scene) -> Place:
        place = super().build(scene)
        scene.box.file(place.allowed / "word", Path(scene.box.program("prog_word")).read_bytes(), 0o755)
        return place

    def rule_set(self, place: Place) -> dict[str, Any]:
        return execution_rules(place, {"id": "push", "deny": "execute", "path": "**/word", "argv": ["**", "push", "*"]})

    def line(self, scene: Scene, place: Place, rounds: int, wanted: int) -> list[str]:
        return [scene.box.program("attack_exec"), self.racer, str(place.allowed), str(place.denied), str(place.free),
                str(scene.milliseconds), str(rounds)]
