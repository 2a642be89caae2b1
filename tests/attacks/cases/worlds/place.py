"""Files: a tree with a denied and an allowed side, and the attacks on it."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
from pathlib import Path
from typing import Any, Callable

import harness
from cases.case import (ALLOWED, ENOUGH_WINS, HELD_FACTOR, RACE_ROUNDS, SECRET, Attack, Outcome, Scene, check, possible, wins)


def snapshot(top: Path) -> dict[str, tuple[Any, ...]]:
    """Everything that an attack could change beneath a directory, the directory itself included."""
    seen: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = Path(folder) / name
            try:
                st = path.lstat()
            except OSError:  # further down than a path can say
                continue
            content = path.read_bytes() if stat.S_ISREG(st.st_mode) else b""
            seen[str(path.relative_to(top))] = (st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns,
                                                st.st_ctime_ns, 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink, content)
    return seen


def kept(path: Path) -> None:
    """An attribute that an attack may want to take away, where the file system has any."""
    with contextlib.suppress(OSError):
        os.setxattr(path, "user.kept", b"value")


def secret_beneath(top: Path) -> list[str]:
    """Files beneath `top` that hold the secret."""
    found = []
    for folder, _, files in os.walk(top):
        for name in files:
            path = Path(folder) / name
            if stat.S_ISREG(path.lstat().st_mode) and SECRET in path.read_bytes():
                found.append(str(path))
    return found


class Place:
    """keep/dB/victim is denied; keep/dA/victim and free are allowed. free/twin/inner/victim has the denied side's shape."""

    def __init__(self, box: harness.Box, leaf: str = "victim") -> None:
        self.box = box
        self.root = box.tree / "place"
        self.denied, self.allowed, self.free = self.root / "keep" / "dB", self.root / "keep" / "dA", self.root / "free"
        self.victim = self.denied / leaf
        self.twin = self.free / "twin" / "inner" / leaf

    def rebuild(self) -> None:
        if self.root.exists():
            harness.remove_tree(self.root)
        for one in (self.root, self.root / "keep", self.denied, self.allowed, self.free, self.free / "twin", self.twin.parent):
            self.box.directory(one)
        for path, content in ((self.victim, SECRET), (self.allowed / "victim", ALLOWED), (self.twin, ALLOWED)):
            kept(self.box.file(path, content))

    def rules(self, *more: dict[str, Any], verbs: tuple[str, ...] = ("read", "write")) -> dict[str, Any]:
        return harness.rule_set(
            {"id": "programs", "allow": ["read", "execute"], "path": f"{self.box.stage.bin}/**"},
            {"id": "tree", "allow": ["read", "write"], "path": f"{self.root}/**"},
            {"id": "secret", "deny": list(verbs), "path": f"{self.denied}/**"},
            {"id": "sockets", "allow": "bind", "unix": f"{self.free}/**"},
            *more,
        )


def contested(place: Place) -> list[dict[str, Any]]:
    """So that every call beneath the place is decided one by one, and performed on behalf."""
    return [{"id": "never", "deny": ["read", "write"], "path": f"{place.root}/**/.never"}]


def executable(place: Place) -> list[dict[str, Any]]:
    return [{"id": "run", "allow": "execute", "path": f"{place.root}/**"}]


Prepare = Callable[[harness.Box, Path, bytes], None]  # box, folder, what the victim holds


@dataclasses.dataclass(frozen=True)
class Door(Attack):
    """An attempt to reach the denied file by `program MODE VICTIM FREE EXTRA`.

    `goal`: "read" (the secret comes out), "change" (the denied side differs afterwards), or "call" (only the call's own
    result shows it). `twin`: another mode for the twin, or (program, mode) if this door is closed for every object.
    """

    program: str
    mode: str
    goal: str = "read"
    verbs: tuple[str, ...] = ("read", "write")  # what is denied
    twin_mode: str | tuple[str, str] = ""
    extra: str = ""
    leaf: str = "victim"
    prepare: Prepare | None = None
    rules: Callable[[Place], dict[str, Any]] | None = None
    options: tuple[str, ...] = ()

    def line(self, scene: Scene, victim: Path, place: Place, program: str = "", mode: str = "") -> list[str]:
        return [scene.box.program(program or self.program), mode or self.mode, str(victim), str(place.free), self.extra]

    def build(self, scene: Scene) -> Place:
        place = Place(scene.box, self.leaf)
        place.rebuild()
        if self.prepare:
            self.prepare(scene.box, place.denied, SECRET)
            self.prepare(scene.box, place.twin.parent, ALLOWED)
        return place

    def rule_set(self, place: Place) -> dict[str, Any]:
        return self.rules(place) if self.rules else place.rules(verbs=self.verbs)

    def control(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        before = snapshot(place.denied)
        result = possible(scene.bare(self.line(scene, place.victim, place)))
        if self.goal == "read":
            reached = SECRET in result.out
        else:
            reached = result.code == 0 and (self.goal == "call" or not place.denied.exists() or snapshot(place.denied) != before)
        return check({"the control did not reach its goal": not reached}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        before = snapshot(place.denied)
        result = scene.supervised(self.line(scene, place.victim, place), self.rule_set(place), self.options)
        whole = place.denied.exists() and snapshot(place.denied) == before
        reads = "read" in self.verbs
        return check({
            "the denied side changed": not whole and self.rules is None,
            "the secret was printed": reads and SECRET in result.out + result.err,
            "the secret was copied out": reads and secret_beneath(place.free) != [],
            "the call succeeded": result.code == 0,
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        program, mode = self.twin_mode if isinstance(self.twin_mode, tuple) else (self.program, self.twin_mode or self.mode)
        result = scene.supervised(self.line(scene, place.twin, place, program, mode), self.rule_set(place), self.options)
        reads = self.goal == "read" and not isinstance(self.twin_mode, tuple) or program == "attack_read"
        return check({"the allowed side is refused": result.code != 0, "it was not read": reads and ALLOWED not in result.out},
                     "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Race(Attack):
    """`attack_race OP RACER` on the two sides of a place (tests/attacks/programs/attack_race.c)."""

    operation: str
    racer: str
    verbs: tuple[str, ...] = ("read", "write")
    program: str = "attack_race"
    more: Callable[[Place], list[dict[str, Any]]] = lambda place: []
    tags = frozenset({"race"})

    def build(self, scene: Scene) -> Place:
        place = Place(scene.box)
        place.rebuild()
        shutil.rmtree(place.free / "twin")
        return place

    def rule_set(self, place: Place) -> dict[str, Any]:
        own_memory = {"id": "memory", "allow": "modify", "path": "/proc/**"}  # writing its own memory is the target's right
        return place.rules(own_memory, *self.more(place), verbs=self.verbs)

    def line(self, scene: Scene, place: Place, rounds: int, wanted: int) -> list[str]:
        return [scene.box.program(self.program), self.operation, self.racer, str(place.allowed), str(place.denied), str(place.free),
                str(scene.milliseconds), str(rounds), str(wanted)]

    def control(self, scene: Scene) -> Outcome:
        for scene.factor in scene.factors:
            place = self.build(scene)
            result = possible(scene.bare(self.line(scene, place, RACE_ROUNDS * scene.factor, ENOUGH_WINS)))
            won, _ = wins(result)
            if won >= ENOUGH_WINS:
                break
        return check({"the race is won too seldom to prove anything": won < ENOUGH_WINS}, f"{won} wins", result.describe())

    def held(self, scene: Scene) -> Outcome:
        place = self.build(scene)
        before = snapshot(place.denied)
        result = scene.supervised(self.line(scene, place, RACE_ROUNDS * HELD_FACTOR * scene.factor, 0), self.rule_set(place))
        won, scene.kept["twin"] = wins(result)
        scene.kept["describe"] = result.describe()
        reads = "read" in self.verbs
        return check({
            "won by its own account": won != 0,
            "the denied side changed": not place.denied.exists() or snapshot(place.denied) != before,
            "the secret was printed": reads and SECRET in result.out + result.err,
            "the secret was copied out": reads and secret_beneath(place.free) + secret_beneath(place.allowed) != [],
        }, f"{won} wins", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """The other side of the same race."""
        twin = scene.kept.get("twin", 0)
        return check({"the allowed side was never reached": twin == 0}, f"{twin} reached", scene.kept.get("describe", ""))


@dataclasses.dataclass(frozen=True)
class ExecRace(Race):
    """The two sides are programs; the denied one leaves a file where it may write."""

    def build(self, scene: Scene) -> Place:
        place = super().build(scene)
        scene.box.file(place.allowed / "victim", Path("/usr/bin/true").read_bytes(), 0o755)
        scene.box.file(place.victim, Path(scene.box.program("prog_exit42")).read_bytes(), 0o755)
        return place

    def rule_set(self, place: Place) -> dict[str, Any]:
        rules = super().rule_set(place)
        rules["rules"].append({"id": "run", "allow": ["read", "execute"], "path": f"{place.allowed}/**"})
        return rules

    def control(self, scene: Scene) -> Outcome:
        outcome = super().control(scene)
        ran = (scene.box.tree / "place" / "free" / "executed").exists()
        return outcome if ran else Outcome(False, "not run", outcome.detail)

    def held(self, scene: Scene) -> Outcome:
        outcome = super().held(scene)
        ran = (scene.box.tree / "place" / "free" / "executed").exists()
        return outcome if not ran else Outcome(False, "it ran", outcome.detail)
