"""Names that somebody opens after the run: a work directory, the private one, an option's path, what a rule names."""
from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import harness
from cases.case import SECRET, Attack, Outcome, Scene, check, possible

FIXED = ("workdir", "tmp")  # these may not even become another directory


@dataclasses.dataclass
class Name:
    """The name that the attack goes for, and how the run comes to know it."""

    path: Path
    spelled: str  # to the program; "": $TMPDIR
    twin: Path    # a name that nobody will open, in a directory of the same shape
    rules: list[dict[str, Any]]
    options: list[str]
    environment: dict[str, str]
    inode: int = 0  # 0: the name is absent


@dataclasses.dataclass(frozen=True)
class Link(Attack):
    """`attack_link MODE NAME ELSEWHERE FREE`: afterwards NAME must not lead elsewhere (tests/attacks/programs/attack_link.c).

    `kind` says whose name it is. `absent`: nothing stands there at the start. `twin_mode`: what must work at the very name.
    """

    mode: str
    kind: str
    absent: bool = False
    twin_mode: str = ""

    def build(self, scene: Scene) -> Name:
        box = scene.box
        root = box.tree / "place"
        if root.exists():
            harness.remove_tree(root)
        outer, plain, free, elsewhere = (root / one for one in ("outer", "plain", "free", "elsewhere"))
        for one in (root, outer, plain, free, elsewhere):
            box.directory(one)
        name = self.name(box, outer, plain)
        for one in (elsewhere, elsewhere / name.path.name):
            box.file(box.directory(one) / "victim", SECRET)
        for path in (name.path, name.twin):
            if path.is_symlink():
                path.unlink()
            elif path.is_dir():
                harness.remove_tree(path)
            if not self.absent and not (path is name.path and name.spelled == "" and scene.kept.get("supervised")):
                box.directory(path)
        name.inode = 0 if self.absent or not name.path.exists() else name.path.stat().st_ino
        return name

    def name(self, box: harness.Box, outer: Path, plain: Path) -> Name:
        rules: list[dict[str, Any]] = [{"id": "tree", "allow": ["read", "write"], "path": f"{outer.parent}/**"}]
        if self.kind == "workdir":
            path = outer / "work"
            return Name(path, str(path), plain / "work", rules, ["--workdir", str(path)], {})
        if self.kind == "tmp":
            return Name(outer / "own", "", plain / "own", rules, [], {"TMPDIR": str(outer)})
        if self.kind == "option":
            path = outer / "out"
            return Name(path, str(path), plain / "out", rules, ["--write", str(path)], {})
        if self.kind == "rule":
            path = outer / "out"
            rules.append({"id": "root", "allow": "write", "path": f"{path}/*.txt"})
            return Name(path, str(path), plain / "out", rules, [], {})
        if self.kind in ("secret", "asked"):
            path = outer / "keep"
            verb = "deny" if self.kind == "secret" else "ask"
            rules += [{"id": "secret", verb: "read", "path": f"{path}/own/secret/**"},
                      {"id": "floating", "deny": "read", "path": f"{outer.parent}/**/secret"}]
            return Name(path, str(path), plain / "keep", rules, [], {})
        if self.kind == "config":  # callgate's own: ~/.config/callgate
            home = box.directory(outer / "home")
            return Name(home / ".config", str(home / ".config"), box.directory(plain / "home") / ".config", rules, ["--workdir", str(outer)], {"HOME": str(home)})
        raise AssertionError(self.kind)

    def line(self, scene: Scene, target: str, mode: str) -> list[str]:
        root = scene.box.tree / "place"
        return [scene.box.program("attack_link"), mode, target, str(root / "elsewhere"), str(root / "free")]

    def rule_set(self, scene: Scene, name: Name) -> dict[str, Any]:
        return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{scene.box.stage.bin}/**"}, *name.rules)

    def reached(self, scene: Scene, path: Path, inode: int) -> bool:
        """Whether the name leads elsewhere, or is another directory than it was."""
        leads = os.path.realpath(path).startswith(str(scene.box.tree / "place" / "elsewhere"))
        return leads or bool(self.kind in FIXED and inode and (not path.exists() or path.stat().st_ino != inode))

    def control(self, scene: Scene) -> Outcome:
        scene.kept["supervised"] = False
        name = self.build(scene)
        result = possible(scene.bare(self.line(scene, str(name.path), self.mode)))
        return check({"the control did not reach its goal": result.code != 0 or not self.reached(scene, name.path, name.inode)},
                     "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        scene.box.replays.leave_out("what stands at the roots is changed between the runs")
        scene.kept["supervised"] = True
        name = self.build(scene)
        result = scene.supervised(self.line(scene, name.spelled, self.mode), self.rule_set(scene, name), name.options,
                                  env=name.environment)
        outer = scene.box.tree / "place" / "outer"
        left = name.spelled == "" and os.listdir(outer) != []
        return check({
            "the name leads elsewhere": self.reached(scene, name.path, name.inode),
            "the private directory left something behind": left,
            "the call succeeded": result.code == 0,
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """The same at a name that nobody will open, or what else must work at this name."""
        scene.kept["supervised"] = True
        name = self.build(scene)
        target = name.path if self.twin_mode else name.twin
        inode = 0 if self.absent else target.stat().st_ino if target.exists() else 0
        result = scene.supervised(self.line(scene, str(target), self.twin_mode or self.mode), self.rule_set(scene, name),
                                  name.options, env=name.environment)
        works = result.code == 0 and (bool(self.twin_mode) or self.reached(scene, target, inode))
        return check({"the twin is refused": not works}, "works", result.describe())
