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
class Delayed(Attack):
    """An open outside must wait for a run that may only read the object: bare, one that would not wait gets EAGAIN.

    The program prints a line when it has done what it can, and stays until its input ends.
    """

    mode: str

    def delays(self, scene: Scene, line: list[str]) -> tuple[bool, str]:
        directory = scene.box.directory(scene.box.tree / "leased")
        file = scene.box.file(directory / "file", b"leased\n")
        process = scene.box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = process.stdout.readline()  # type: ignore[union-attr]
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))
            os.close(os.open(directory / "made", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK))
            (directory / "made").unlink()
            waited = False
        except BlockingIOError:
            waited = True
        _, errors = process.communicate(b"", timeout=harness.DEADLINE)
        return waited, f"exit {process.returncode} {said!r} {errors.decode('utf-8', 'backslashreplace')}"

    def supervised(self, scene: Scene, mode: str) -> tuple[bool, str]:
        reading = harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{scene.box.stage.bin}/**"},
                                   {"id": "tree", "allow": "read", "path": f"{scene.box.tree}/**"})
        line, _ = scene.box.command([scene.box.program("attack_kernel"), mode], reading, scene.options)
        return self.delays(scene, line)

    def control(self, scene: Scene) -> Outcome:
        waited, shown = self.delays(scene, [scene.box.program("attack_kernel"), self.mode])
        if not waited and self.mode == "delegation":
            raise Impossible("this kernel has no delegations")
        return check({"the control delays nothing": not waited}, "delays", shown)

    def held(self, scene: Scene) -> Outcome:
        waited, shown = self.supervised(scene, self.mode)
        return check({"the open outside had to wait": waited, "the call succeeded": "HELD" not in shown}, "no wait", shown)

    def twin(self, scene: Scene) -> Outcome:
        waited, shown = self.supervised(scene, "lock")
        return check({"a lock does not work": "exit 0" not in shown or "locked" not in shown or waited}, "works: lock", shown)


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
