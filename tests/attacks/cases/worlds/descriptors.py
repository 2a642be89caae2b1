"""Directories that come in as descriptors: inherited, or received over a socket."""
from __future__ import annotations

import abc
import array
import dataclasses
import os
import socket
import threading
from pathlib import Path

import harness
from cases.case import ALLOWED, SECRET, Attack, Outcome, Scene, check
from cases.worlds.place import Place


class HandedIn(Attack):
    """Reads the victim beneath, or by, a descriptor that comes from somebody else."""

    @abc.abstractmethod
    def play(self, scene: Scene, supervised: bool, bad: bool) -> harness.Result:
        """With a descriptor of the denied side (`bad`), or of the allowed one."""

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=False, bad=True)
        return check({"the control did not reach its goal": SECRET not in result.out}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=True, bad=True)
        return check({"the secret was printed": SECRET in result.out, "the call succeeded": result.code == 0},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=True, bad=False)
        return check({"it was not read": ALLOWED not in result.out}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Inherited(HandedIn):
    """A directory's descriptor that callgate was told to pass on is a way to its names, not to what they hold."""

    def play(self, scene: Scene, supervised: bool, bad: bool, named: bool = True) -> harness.Result:
        place = Place(scene.box)
        place.rebuild()
        descriptor = os.open(place.denied if bad else place.allowed, os.O_RDONLY | os.O_DIRECTORY)
        try:
            line = [scene.box.program("attack_read"), "inherited", str(place.victim), str(place.free), str(descriptor)]
            if not supervised:
                return scene.bare(line, pass_fds=(descriptor,))
            passed = ["--pass-fd", str(descriptor)] if named else []
            return scene.supervised(line, place.rules(), passed, pass_fds=(descriptor,))
        finally:
            os.close(descriptor)


class NotNamed(Inherited):
    """A descriptor above 2 that nobody named is not inherited at all, whatever it is."""

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=False, bad=False)
        return check({"the control did not reach its goal": ALLOWED not in result.out}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, supervised=True, bad=False, named=False)
        return check({"it was inherited": ALLOWED in result.out or result.code == 0}, f"exit {result.code}", result.describe())


class Giver:
    """An outside process that gives every caller the descriptor of a file or directory."""

    def __init__(self, box: harness.Box, path: Path, given: Path, flags: int) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        box.own(path)
        self.socket.listen(8)
        self.descriptor = os.open(given, flags)
        threading.Thread(target=self.give, daemon=True).start()

    def give(self) -> None:
        while True:
            try:
                caller, _ = self.socket.accept()
            except OSError:
                return
            with caller:
                caller.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.descriptor]))])

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        os.close(self.descriptor)


@dataclasses.dataclass(frozen=True)
class Received(HandedIn):
    """An allowed peer hands this over by SCM_RIGHTS: a directory to open beneath, or an O_PATH descriptor to open again."""

    mode: str = "received"  # of attack_read
    flags: int = os.O_RDONLY | os.O_DIRECTORY
    of_file: bool = False

    def play(self, scene: Scene, supervised: bool, bad: bool) -> harness.Result:
        place = Place(scene.box)
        place.rebuild()
        given = place.denied if bad else place.allowed
        path = place.free / "giver"
        giver = Giver(scene.box, path, given / "victim" if self.of_file else given, self.flags)
        try:
            line = [scene.box.program("attack_read"), self.mode, str(place.victim), str(place.free), str(path)]
            rules = place.rules({"id": "giver", "allow": "connect", "unix": str(path)})
            return scene.supervised(line, rules) if supervised else scene.bare(line)
        finally:
            giver.close()
