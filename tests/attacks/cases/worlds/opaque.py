"""A process that made itself opaque, and another one of the run that reaches for it (programs/prog_opaque.c)."""
from __future__ import annotations

import dataclasses
from typing import Any

import harness
from cases.case import SECRET, Attack, Impossible, Outcome, Scene, check, possible


@dataclasses.dataclass(frozen=True)
class Opaque(Attack):
    """`attack_outside MODE` at a process that is opaque as `how` says. Bare it is not, and the attack works.

    `twin`: the process that is not opaque ("beside" an opaque one, or "plain": in a run without one).
    """

    mode: str
    how: str = "itself"
    goal: str = "look"  # "touch": the victim's memory changes; "call": the call succeeds
    without: str = "beside"

    def line(self, scene: Scene, how: str) -> list[str]:
        return [scene.box.program("prog_opaque"), how, scene.box.program("attack_outside"), self.mode, "PID", "ADDRESS", "FD"]

    def rule_set(self, scene: Scene) -> dict[str, Any]:
        box = scene.box
        return harness.rule_set({"id": "all", "allow": ["read", "write"], "path": f"{box.root}/**"},
                                {"id": "processes", "allow": "read", "path": "/proc/**"},
                                {"id": "memory", "allow": "modify", "path": "/proc/*/mem"},
                                {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"})

    def reached(self, result: harness.Result) -> bool:
        if self.goal == "look":
            return SECRET in result.out
        return result.code == 0 if self.goal == "call" else f"victim: memory {SECRET[0]}\n" not in result.text

    def supervised(self, scene: Scene, how: str) -> harness.Result:
        return scene.supervised(self.line(scene, how), self.rule_set(scene), ["--env", "HIDDEN=" + SECRET.decode()])

    def control(self, scene: Scene) -> Outcome:
        result = possible(scene.bare(self.line(scene, "plain"), env={"HIDDEN": SECRET.decode()}))
        return check({"the control did not reach its goal": not self.reached(result)}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, self.how)
        return check({"it was reached": self.reached(result), "the call succeeded": result.code == 0,
                      "the victim did not become opaque": "victim: memory" not in result.text}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, self.without)
        return check({"a process that is not opaque is not reached": not self.reached(result)}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class Core(Attack):
    """An opaque process that crashes."""

    how: str = "itself"
    without: str = "plain"
    options: tuple[str, ...] = ()
    within: tuple[str, ...] = ()  # what starts the program

    def line(self, scene: Scene, how: str) -> list[str]:
        return [*self.within, scene.box.program("prog_opaque"), "core", how]

    def prepare(self, scene: Scene) -> None:
        if self.within:
            if scene.box.user.uid != 0:
                raise Impossible("only root becomes another user")
            scene.box.tree.chmod(0o777)

    def control(self, scene: Scene) -> Outcome:
        self.prepare(scene)
        result = scene.bare(self.line(scene, self.without), cwd=scene.box.tree)
        if result.code != 0:
            raise Impossible("no core is made here")
        return Outcome(True, "a core")

    def supervised(self, scene: Scene, how: str) -> harness.Result:
        wanted = harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{scene.box.tree}/**"},
                                  {"id": "programs", "allow": ["read", "execute"], "path": f"{scene.box.stage.bin}/**"})
        self.prepare(scene)
        return scene.supervised(self.line(scene, how), wanted, list(self.options))

    def held(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, self.how)
        return check({"it left a core": result.code == 0, "it did not crash": result.code != 1}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, self.without)
        return check({"another process leaves none": result.code != 0}, "a core", result.describe())
