"""Calls that would undo the confinement, and terminals that would type for the user."""
from __future__ import annotations

import dataclasses
import os
import pty
import subprocess
from pathlib import Path

import harness
from cases.case import Attack, Impossible, Outcome, Scene, check
from cases.worlds.listeners import rules


@dataclasses.dataclass(frozen=True)
class Call(Attack):
    """`attack_kernel MODE`: what it reaches is nothing that could be looked at from outside, so its own account counts.

    `twin_mode`: what programs need of the same kind. Calls that only root may make are tried with root's capabilities kept, so
    that the filter is what holds them.
    """

    mode: str
    twin_mode: str
    privileged: bool = False

    def run(self, scene: Scene, mode: str) -> harness.Result:
        options = ["--keep-capabilities"] if self.privileged and scene.box.user.uid == 0 else []
        return scene.supervised([scene.box.program("attack_kernel"), mode], rules(scene.box), options)

    def control(self, scene: Scene) -> Outcome:
        result = scene.bare([scene.box.program("attack_kernel"), self.mode])
        if result.code != 0:
            raise Impossible(f"not possible bare either: {result.errors.strip()}")
        return Outcome(True, "done")

    def held(self, scene: Scene) -> Outcome:
        result = self.run(scene, self.mode)
        return check({"the call succeeded": result.code == 0 or b"WON" in result.out}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.run(scene, self.twin_mode)
        return check({f"{self.twin_mode} does not work": result.code != 0}, f"works: {self.twin_mode}", result.describe())


@dataclasses.dataclass(frozen=True)
class Typed(Attack):
    """The pty's input queue is looked at from outside: what was pushed comes back to a reader of the terminal."""

    mode: str

    def on_a_terminal(self, scene: Scene, line: list[str]) -> tuple[int, bytes, str]:
        outer, inner = pty.openpty()
        try:
            done = scene.box.start(["setsid", "--ctty", "--wait", *line], stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out, _ = done.communicate(timeout=harness.DEADLINE)
            typed = b""
            os.set_blocking(inner, False)
            os.write(outer, b"\n")
            try:
                typed = os.read(inner, 100)
            except BlockingIOError:
                pass
            return done.returncode, typed, out.decode("utf-8", "backslashreplace")
        finally:
            os.close(outer)
            os.close(inner)

    def control(self, scene: Scene) -> Outcome:
        legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
        if legacy.exists() and legacy.read_text().strip() == "0" and scene.box.user.uid != 0:
            raise Impossible("the kernel itself refuses TIOCSTI")
        code, typed, said = self.on_a_terminal(scene, [scene.box.program("attack_kernel"), self.mode])
        return check({"the control typed nothing": code != 0 or b"#" not in typed}, "typed", said)

    def supervised(self, scene: Scene, mode: str) -> tuple[int, bytes, str]:
        line, _ = scene.box.command([scene.box.program("attack_kernel"), mode], rules(scene.box), scene.options)
        return self.on_a_terminal(scene, line)

    def held(self, scene: Scene) -> Outcome:
        code, typed, said = self.supervised(scene, self.mode)
        return check({"it was typed": b"#" in typed, "the call succeeded": code != 1}, f"exit {code}", said)

    def twin(self, scene: Scene) -> Outcome:
        """Requests that a program may make of its terminal."""
        code, _, said = self.supervised(scene, "terminal_size")
        return check({"the terminal's size cannot be read": code != 0}, "works", said)
