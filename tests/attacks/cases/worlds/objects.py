"""System V objects and message queues of an outside process of the same user: found by key or name, read, changed, removed."""
from __future__ import annotations

import dataclasses
import os
import zlib
from pathlib import Path

import harness
from cases.case import Attack, Outcome, Scene, check, possible
from cases.worlds.listeners import rules


class Objects:
    """An object of each kind with content, made outside the run (programs/prog_objects.c)."""

    def __init__(self, box: harness.Box, turn: str) -> None:
        self.box, self.program = box, box.program("prog_objects")
        self.names = own_names(box, turn)
        made = box.run([self.program, "make", *self.names], supervised=False)
        self.ids = made.text.split()
        assert len(self.ids) == 3, made.describe()

    def state(self) -> tuple[str, str]:
        """The content that they hold, and how much lies in the System V queue."""
        queues = [line.split() for line in Path("/proc/sysvipc/msg").read_text().splitlines()]
        return (self.box.run([self.program, "show", *self.names, *self.ids], supervised=False).text,
                " ".join(*[line[3:5] for line in queues if line[1] == self.ids[2]] or [[]]))

    def remove(self) -> None:
        self.box.run([self.program, "remove", *self.names], supervised=False)


def own_names(box: harness.Box, turn: str) -> list[str]:
    """A key and a queue's name that nobody else uses."""
    number = zlib.crc32(f"{box.root}-{turn}-{os.getpid()}".encode())
    return [str(0x10000000 + number % 0x10000000), f"cg-{number}"]


@dataclasses.dataclass(frozen=True)
class UserObject(Attack):
    """`attack_objects MODE`: reads or finds what is an outside process's, or changes it."""

    mode: str
    looks: bool = False  # nothing is changed: what is printed counts

    def play(self, scene: Scene, turn: str, supervised: bool) -> tuple[harness.Result, bool]:
        objects = Objects(scene.box, turn)
        try:
            line = [scene.box.program("attack_objects"), self.mode, *objects.names, *objects.ids]
            before = objects.state()
            result = scene.supervised(line, rules(scene.box)) if supervised else scene.bare(line)
            return result, objects.state() != before
        finally:
            objects.remove()

    def control(self, scene: Scene) -> Outcome:
        result, changed = self.play(scene, "control", supervised=False)
        possible(result)
        reached = b"reached" in result.out if self.looks else changed
        return check({"the control did not reach its goal": not reached}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, changed = self.play(scene, "held", supervised=True)
        return check({"it was changed": changed, "it was reached": b"reached" in result.out, "the call succeeded": result.code == 0},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        line = [scene.box.program("attack_objects"), self.mode, *own_names(scene.box, "twin")]
        result = scene.supervised(line, rules(scene.box))
        return check({"the same on an own object does not work": result.code != 0}, "works", result.describe())
