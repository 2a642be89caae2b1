"""Programs that run as their owner: a run must leave none behind."""
from __future__ import annotations

import dataclasses
import os
import stat
from typing import Any

import harness
from cases.case import RACE_ROUNDS, UNSUPPORTED, Attack, Outcome, Scene, check, possible

BITS = stat.S_ISUID | stat.S_ISGID


@dataclasses.dataclass(frozen=True)
class SetId(Attack):
    """`attack_set_id MODE`: looked for from outside are files that have such a bit. `contested`: each call is decided by rules too.

    With `--keep-capabilities` the same run makes them, so the twin tries that beside ordinary modes. `named`: the changed object
    has a name, by which it is on record.
    """

    mode: str
    contested: bool = False
    named: bool = True

    def rules(self, scene: Scene) -> dict[str, Any]:
        tree = f"{scene.box.tree}/**"
        never = [{"id": "never", "deny": ["read", "write"], "path": f"{tree}/.never"}] if self.contested else []
        return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{scene.box.stage.bin}/**"},
                                {"id": "tree", "allow": ["read", "write"], "path": tree}, {"id": "bind", "allow": "bind", "unix": tree}, *never)

    def play(self, scene: Scene, mode: str, supervised: bool, options: tuple[str, ...] = ()) -> tuple[bool, harness.Result]:
        box = scene.box
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        line = [box.program("attack_set_id"), mode, str(box.file(box.tree / "own/file")), str(box.directory(box.tree / "free")), str(RACE_ROUNDS)]
        result = scene.supervised(line, self.rules(scene), options) if supervised else scene.bare(line)
        return any(BITS & os.lstat(os.path.join(folder, name)).st_mode for folder, _, names in os.walk(box.tree) for name in names), result

    def control(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, self.mode, False)
        possible(result)
        return check({"the control set no bit": not reached}, "set", result.describe())

    def held(self, scene: Scene) -> Outcome:
        reached, result = self.play(scene, self.mode, True)
        if result.code == UNSUPPORTED:  # under callgate alone that is a failed call
            possible(self.play(scene, self.mode, False)[1])
        noted = any("were left out" in (one["callgate"].get("reason") or "") for one in result.decisions(verdict="allow"))
        return check({"a file has the bit": reached, "the call failed": result.code != 0, "nothing is on record": self.named and not noted},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        _, result = self.play(scene, "ordinary", True)
        kept, other = self.play(scene, self.mode, True, ("--keep-capabilities",))
        return check({"ordinary modes fail": result.code != 0, "--keep-capabilities does not keep it": not kept}, "works",
                     result.describe() + other.describe())
