"""Files of the work directory that the user's own tools read later, and run code from."""
from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import harness
from cases.case import Attack, Outcome, Scene, check

CODE = "PLANTED-5d01"


@dataclasses.dataclass(frozen=True)
class Planted(Attack):
    """A shell script wants `path`, in the work directory, to hold its code. The default profile holds it.

    `before`: what the user has there already, a name that ends in a slash being a directory. `script` replaces the plain way. The
    twin writes `free` the same way.
    """

    path: str
    script: str = 'mkdir -p "$(dirname "$1")" && echo "$2" > "$1"'
    free: str = "package.json"
    before: tuple[str, ...] = ()

    def play(self, scene: Scene, path: str, supervised: bool) -> tuple[bool, harness.Result]:
        box = scene.box
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        for name in self.before:
            if name.endswith("/"):
                box.directory(box.tree / name)
            else:
                box.file(box.tree / name, b"the user's\n")
        line = ["/bin/sh", "-c", self.script, "sh", path, CODE]
        result = scene.supervised(line, None, ["--ask", "never"]) if supervised else scene.bare(line)
        return self.reached(box.tree / path), result

    def reached(self, path: Path) -> bool:
        return CODE in text_of(path)

    def control(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, self.path, False)
        return check({"the control did not plant its code": not reached}, "planted", result.describe())

    def held(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, self.path, True)
        return check({"the code is there": reached, "nothing is on record": not result.decisions(verdict="deny")},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, self.free, True)
        return check({"what is free was refused": not reached or result.code != 0}, "written", result.describe())


# Writes the code to each name that it can.
EVERYWHERE = 'for one in $1; do mkdir -p "$(dirname "$one")" && echo "$2" > "$one"; done; true'
LINKED_EVERYWHERE = 'for one in $1; do mkdir -p "$(dirname "$one")" && rm -rf "$one" && ln -s "$2" "$one"; done; true'


@dataclasses.dataclass(frozen=True)
class PlantedAll(Attack):
    """The same for many names, in one run. `free` are those that the twin may write."""

    paths: tuple[str, ...]
    free: tuple[str, ...]
    before: tuple[str, ...] = ()
    script: str = EVERYWHERE

    def play(self, scene: Scene, paths: tuple[str, ...], supervised: bool) -> tuple[set[str], harness.Result]:
        box = scene.box
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        for name in self.before:
            above = box.tree
            for part in name.split("/")[:-1]:
                above = box.directory(above / part)
            box.file(box.tree / name, b"the user's\n")
        line = ["/bin/sh", "-c", self.script, "sh", " ".join(paths), CODE]
        result = scene.supervised(line, None, ["--ask", "never"]) if supervised else scene.bare(line)
        return {path for path in paths if self.reached(box.tree / path)}, result

    def reached(self, path: Path) -> bool:
        return CODE in text_of(path)

    def control(self, scene: Scene) -> Outcome:
        planted, result = self.play(scene, self.paths, False)
        return check({"the control did not plant its code": planted != set(self.paths)}, "planted", result.describe())

    def held(self, scene: Scene) -> Outcome:
        planted, result = self.play(scene, self.paths, True)
        return check({f"the code is in {sorted(planted)}": bool(planted), "not all is on record": len(result.decisions(verdict="deny")) < len(self.paths)},
                     f"{len(self.paths)} denied", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        planted, result = self.play(scene, self.free, True)
        return check({"what is free was refused": planted != set(self.free)}, "written", result.describe())


def leads_there(path: Path) -> bool:
    return path.is_symlink() and os.readlink(path) == CODE


@dataclasses.dataclass(frozen=True)
class LinkedAll(PlantedAll):
    """Each name becomes a link, through which the user's git writes: the run names a file that it may not write."""

    script: str = LINKED_EVERYWHERE

    def reached(self, path: Path) -> bool:
        return leads_there(path)


@dataclasses.dataclass(frozen=True)
class Linked(Planted):
    script: str = 'ln -s "$2" made && mv -T made "$1"'
    free: str = "link"

    def reached(self, path: Path) -> bool:
        return leads_there(path)


@dataclasses.dataclass(frozen=True)
class Bound(Planted):
    """The name becomes a socket, which is a new file as well: the user's tool fails there, or waits."""

    script: str = "/usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \"$1\""
    free: str = "socket"

    def reached(self, path: Path) -> bool:
        return path.is_socket()


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
