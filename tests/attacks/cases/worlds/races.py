"""Races that need more than two directories: grants that travel, entries that come along, the object that the log names."""
from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import harness
from cases.case import ENOUGH_WINS, HELD_FACTOR, RACE_ROUNDS, SECRET, Attack, Outcome, Scene, check, wins
from cases.worlds.place import Place, Race, contested


@dataclasses.dataclass(frozen=True)
class CarriedRace(Race):
    """A directory that Landlock grants is moved to where reading is denied, a secret into it; then the path is raced for.

    The good side is judged, and the kernel, which reads the path again, would find the bad one granted. `by_way`: moved in two steps.
    """

    verbs: tuple[str, ...] = ("read",)
    by_way: bool = False

    def build(self, scene: Scene) -> Place:
        place = super().build(scene)
        scene.box.file(place.allowed / "carrier" / "victim", b"allowed")
        scene.box.directory(place.root / "carrier")
        return place

    def rule_set(self, place: Place) -> dict[str, Any]:
        """The carrier's places differ in the denial alone: so it may be moved."""
        return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{place.box.stage.bin}/**"},
                                {"id": "tree", "allow": ["read", "write"], "path": f"{place.root}/**"},
                                {"id": "secret", "deny": list(self.verbs), "path": f"{place.denied}/**"})

    def line(self, scene: Scene, place: Place, rounds: int, wanted: int) -> list[str]:
        good, bad = place.allowed / "carrier", place.denied / "carrier"
        steps = [f"mv {place.root}/carrier {place.free}/carrier", f"mv {place.free}/carrier {bad}"] if self.by_way \
            else [f"mv {place.root}/carrier {bad}"]
        race = [scene.box.program("attack_race"), self.operation, self.racer, str(good), str(bad), str(place.free),
                str(scene.milliseconds), str(rounds), str(wanted)]
        return ["/bin/sh", "-c", "; ".join([*steps, f"mv {place.victim} {bad}/victim", "exec " + " ".join(race)])]

    def held(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        result = scene.supervised(self.line(scene, place, RACE_ROUNDS * HELD_FACTOR * scene.factor, 0), self.rule_set(place))
        won, scene.kept["twin"] = wins(result)
        scene.kept["describe"] = result.describe()
        return check({"won by its own account": won != 0, "the secret was printed": SECRET in result.out + result.err},
                     f"{won} wins", result.describe())


@dataclasses.dataclass(frozen=True)
class OtherObject(Race):
    """The log names the object that was opened, even if another thread exchanges it between the look and the opening.

    The program makes one call that the log shows before each opening, and prints the number of the file that it got. Bare, what it
    opens is often not what stood there a moment before.
    """

    def held(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        result = scene.supervised(self.line(scene, place, RACE_ROUNDS * HELD_FACTOR * scene.factor, 0), self.rule_set(place))
        opened = [int(words[1]) if words[1] != "nothing" else None
                  for words in map(str.split, result.text.splitlines()) if words and words[0] == "opened"]
        turns: list[list[int]] = []
        for one in result.decisions():
            if one["file"]["path"].startswith(f"{place.victim}."):
                turns.append([])
            elif turns and one["callgate"]["operation"] == "read":  # by the name that the object had when it was judged
                turns[-1].append(int(one["file"]["inode"]))
        wrong = sum(1 for got, recorded in zip(opened, turns) if got is not None and (not recorded or recorded[-1] != got))
        scene.kept.update(opened=sum(1 for one in opened if one is not None), describe=result.describe())
        return check({f"{wrong} times another object was opened than the log says": wrong != 0,
                      "the log does not show every turn": len(turns) != len(opened)}, f"{wrong} wrong", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        opened = scene.kept.get("opened", 0)
        return check({"nothing was opened": opened == 0}, f"{opened} opened", scene.kept.get("describe", ""))


def hooks_rules(place: Place, pattern: str, *more: dict[str, Any]) -> dict[str, Any]:
    return place.rules({"id": "hooks", "deny": "write", "path": f"{place.free}/{pattern}"}, *more)


@dataclasses.dataclass(frozen=True)
class PlantedRace(Attack):
    """While a directory is judged with all its entries and moved, another thread makes the entry that it may not have there.

    Both are performed on behalf: neither may go on while the other does.
    """

    tags = frozenset({"race"})

    def play(self, scene: Scene, supervised: bool) -> tuple[int, int, harness.Result]:
        place = Place(scene.box)
        place.rebuild()
        carriers, projects = (scene.box.directory(place.free / name) for name in ("carriers", "projects"))
        rounds = RACE_ROUNDS * scene.factor * (HELD_FACTOR if supervised else 1)
        line = [scene.box.program("attack_carrier"), str(carriers), str(projects), str(scene.milliseconds), str(rounds),
                "0" if supervised else str(ENOUGH_WINS)]
        rules = hooks_rules(place, "projects/*/.hooks/x", *contested(place))
        result = scene.supervised(line, rules) if supervised else scene.bare(line)
        return len(list(projects.glob("*/.hooks/x"))), wins(result)[1], result

    def control(self, scene: Scene) -> Outcome:
        for scene.factor in scene.factors:
            planted, _, result = self.play(scene, supervised=False)
            if planted >= ENOUGH_WINS:
                break
        return check({"the race is won too seldom to prove anything": planted < ENOUGH_WINS}, f"{planted} wins", result.describe())

    def held(self, scene: Scene) -> Outcome:
        planted, scene.kept["twin"], result = self.play(scene, supervised=True)
        scene.kept["describe"] = result.describe()
        return check({"it was planted": planted != 0}, f"{planted} wins", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        twin = scene.kept.get("twin", 0)
        return check({"no directory could be moved": twin == 0}, f"{twin} moved", scene.kept.get("describe", ""))


@dataclasses.dataclass(frozen=True)
class PlantedByAnotherRun(PlantedRace):
    """The same by two runs in one directory, each with a callgate of its own."""

    def play(self, scene: Scene, supervised: bool) -> tuple[int, int, harness.Result]:
        place = Place(scene.box)
        place.rebuild()
        carriers, projects = (scene.box.directory(place.free / name) for name in ("carriers", "projects"))
        meeting = scene.box.file(place.free / "meeting", b"")
        rounds = RACE_ROUNDS * scene.factor
        budget = scene.milliseconds * (HELD_FACTOR if supervised else 1)  # a round of two runs takes long
        more = [str(one) for one in (meeting, carriers, projects, budget, rounds, 0 if supervised else ENOUGH_WINS)]
        move, plant = ([scene.box.program("attack_two_runs"), role, *more] for role in ("move", "plant"))
        rules = hooks_rules(place, "projects/*/.hooks/x", *contested(place))
        if supervised:
            line, _ = scene.box.command(plant, rules, list(scene.options))
            other = scene.box.start(line, stdin=subprocess.DEVNULL)
            result = scene.supervised(move, rules)
        else:
            other = scene.box.start(plant, stdin=subprocess.DEVNULL)
            result = scene.bare(move)
        other.wait(harness.DEADLINE)
        return len(list(projects.glob("*/.hooks/x"))), wins(result)[1], result


@dataclasses.dataclass(frozen=True)
class Planted(Attack):
    """A directory may be moved to a name beneath which its entries may not be made."""

    def play(self, scene: Scene, inside: str, supervised: bool) -> tuple[bool, harness.Result]:
        place = Place(scene.box)
        place.rebuild()
        script = f"mkdir -p carrier/{inside} && touch carrier/{inside}/x && mv -T carrier project"
        line = ["/bin/sh", "-c", script]
        if supervised:
            result = scene.supervised(line, hooks_rules(place, "project/.hooks/**", *contested(place)), cwd=place.free)
        else:
            result = scene.bare(line, cwd=place.free)
        return (place.free / "project" / inside / "x").exists(), result

    def control(self, scene: Scene) -> Outcome:
        planted, result = self.play(scene, ".hooks", supervised=False)
        return check({"the control planted nothing": not planted}, "planted", result.describe())

    def held(self, scene: Scene) -> Outcome:
        planted, result = self.play(scene, ".hooks", supervised=True)
        return check({"it was planted": planted, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        moved, result = self.play(scene, "hooks", supervised=True)
        return check({"another directory cannot be moved": not moved}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class PlantedMeanwhile(Race):
    """`attack_plant MODE`: beneath keep/dB/NAME no `hooks` may be made; everything may be made in `free`, by Landlock alone."""

    program: str = "attack_plant"

    def rule_set(self, place: Place) -> dict[str, Any]:
        rules = place.rules(verbs=("write",))
        next(one for one in rules["rules"] if one["id"] == "secret")["path"] = f"{place.denied}/*/hooks/**"
        return rules

    def held(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        result = scene.supervised(self.line(scene, place, RACE_ROUNDS * HELD_FACTOR * scene.factor, 0), self.rule_set(place))
        won, scene.kept["twin"] = wins(result)
        scene.kept["describe"] = result.describe()
        return check({"won by its own account": won != 0, "it was planted": list(place.denied.glob("*/hooks")) != []},
                     f"{won} wins", result.describe())
