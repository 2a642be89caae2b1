"""Belongings of callgate that lie where the rules allow everything: its sockets, and its rules."""
from __future__ import annotations

import dataclasses
import json
import socket

import harness
from cases.case import Attack, Outcome, Scene, check
from cases.worlds.callgate import contested
from cases.worlds.listeners import Listener


@dataclasses.dataclass(frozen=True)
class OwnSocket(Attack):
    """A socket of callgate's own, in its directory of logs or another run's, where the rules allow every socket of the tree."""

    def play(self, scene: Scene, supervised: bool, own: bool = True) -> tuple[int, harness.Result]:
        box = scene.box
        state = box.directory(box.tree / "state")
        place = box.directory(state / ("callgate" if own else "other")) / "run.sock"
        place.unlink(missing_ok=True)
        listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, str(place))
        box.own(place)
        try:
            line = [box.program("attack_net"), "unix", str(box.tree / "unused"), str(place)]
            wanted = contested(box, {"id": "sockets", "allow": "connect", "unix": f"{box.tree}/state/**"})
            result = scene.supervised(line, wanted, env={"XDG_STATE_HOME": str(state)}) if supervised else scene.bare(line)
        finally:
            seen = listener.close()
        return seen, result

    def control(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, supervised=False)
        return check({"the control did not reach it": seen == 0}, f"seen {seen}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, supervised=True)
        return check({"it was reached": seen != 0, "the call succeeded": result.code == 0}, f"seen {seen}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        seen, result = self.play(scene, supervised=True, own=False)
        return check({"another socket was not reached": seen == 0}, f"seen {seen}", result.describe())


@dataclasses.dataclass(frozen=True)
class RulesWritten(Attack):
    """The file of rules that this run was given: what is written there would hold for the next one."""

    def play(self, scene: Scene, supervised: bool, own: bool = True) -> tuple[bool, harness.Result]:
        box = scene.box
        folder = box.directory(box.tree / "config")
        given = box.file(folder / "rules.json", json.dumps(contested(box)).encode())
        other = box.file(folder / "other.json", b"{}")
        victim = given if own else other
        before = victim.read_bytes()
        line = [box.program("attack_change"), "append", str(victim), str(box.tree)]
        result = scene.supervised(line, None, ["-R", str(given)]) if supervised else scene.bare(line)
        return victim.read_bytes() != before, result

    def control(self, scene: Scene) -> Outcome:
        written, result = self.play(scene, supervised=False)
        return check({"the control did not write": not written}, "written", result.describe())

    def held(self, scene: Scene) -> Outcome:
        written, result = self.play(scene, supervised=True)
        return check({"it was written": written, "the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        written, result = self.play(scene, supervised=True, own=False)
        return check({"the file beside it is refused": not written}, "works", result.describe())
