"""Sockets that a desktop and its services leave around, at the very names that the shipped profiles deny."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
from pathlib import Path
from typing import Iterator

import harness
from cases.case import ALLOWED, SECRET, Attack, Impossible, Outcome, Scene, check
from cases.worlds.descriptors import Giver
from cases.worlds.listeners import Listener

OPTIONS = ["-p", "open", "--no-user-rules"]  # everything is allowed but what the profile denies by name


@contextlib.contextmanager
def directory_for(box: harness.Box, path: Path) -> Iterator[None]:
    """Makes the directories that are missing above a path, and takes them away again. What is there already is left alone."""
    missing = [one for one in reversed(path.parents) if not one.exists()]
    if path.exists():
        raise Impossible(f"{path} is in use on this machine")
    try:
        for one in missing:
            one.mkdir(mode=0o755)
            one.chmod(0o755)
            box.own(one)
    except PermissionError as error:
        raise Impossible(f"cannot make {error.filename}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if missing:
            shutil.rmtree(missing[0], ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class Desktop(Attack):
    """A connect to a service's socket, by path or (@) abstract name. {home} and {unique} are filled in."""

    name: str

    def play(self, scene: Scene, name: str, supervised: bool) -> tuple[harness.Result, int]:
        box = scene.box
        line = [box.program("attack_net"), "unix", str(box.tree / "unused"), name]
        with contextlib.ExitStack() as places:
            if name.startswith("@"):
                listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name[1:])
            else:
                places.enter_context(directory_for(box, Path(name)))
                listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, name)
                Path(name).chmod(0o777)
                box.own(Path(name))
            try:
                result = scene.supervised(line, None, OPTIONS) if supervised else scene.bare(line)
            finally:
                seen = listener.close()
        return result, seen

    def filled(self, scene: Scene) -> str:
        return self.name.format(home=scene.box.home, unique=f"cg-{os.getpid()}-{scene.box.root.name}")

    def control(self, scene: Scene) -> Outcome:
        result, seen = self.play(scene, self.filled(scene), supervised=False)
        return check({"the control did not reach it": seen == 0}, f"seen {seen}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, seen = self.play(scene, self.filled(scene), supervised=True)
        return check({"the service saw it": seen != 0, "the call succeeded": result.code == 0}, f"seen {seen}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """A service of one's own."""
        own = f"@{scene.box.root}-own" if self.name.startswith("@") else str(scene.box.tree / "own")
        result, seen = self.play(scene, own, supervised=True)
        return check({"it was not reached": seen == 0}, f"seen {seen}", result.describe())


@dataclasses.dataclass(frozen=True)
class Passed(Attack):
    """A service hands out a descriptor of something that is denied by name."""

    def play(self, scene: Scene, socket_path: Path, content: bytes, supervised: bool) -> harness.Result:
        box = scene.box
        secret = box.file(box.home / ".ssh" / "id_given", content)
        with directory_for(box, socket_path):
            giver = Giver(box, socket_path, secret, os.O_RDONLY)
            try:
                line = [box.program("attack_read"), "received_open", str(secret), str(box.tree), str(socket_path)]
                return scene.supervised(line, None, OPTIONS) if supervised else scene.bare(line)
            finally:
                giver.close()

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, scene.box.home / ".gnupg" / "S.gpg-agent", SECRET, supervised=False)
        return check({"the control did not reach its goal": SECRET not in result.out}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, scene.box.home / ".gnupg" / "S.gpg-agent", SECRET, supervised=True)
        return check({"the secret was printed": SECRET in result.out, "the call succeeded": result.code == 0}, f"exit {result.code}",
                     result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """A service that the command may talk to may hand over what it likes."""
        result = self.play(scene, scene.box.tree / "service", ALLOWED, supervised=True)
        return check({"it was not read": ALLOWED not in result.out}, "works", result.describe())
