"""callgate's own files, reached by links as managers of dotfiles make them: the run goes for the links and what they lead to."""
from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import harness
from cases.case import ALLOWED, SECRET, Attack, Outcome, Scene, check

# $1 is the name that the user's next start comes through, $2 holds what the attacker wants it to lead to.
SCRIPTS = {
    "link": 'ln -sfnT "$2" "$1"',
    "removed": 'rm "$1" && mkdir -p "$1" && cp -r "$2/." "$1"',
    "renamed": 'ln -s "$2" "$1.made" && mv -T "$1.made" "$1"',
    "moved": 'mv "$1" "$1.old" && ln -s "$2" "$1"',
    "written": 'cat "$2" > "$1"',
    "saved": 'cp "$2" "$1.new" && mv "$1.new" "$1"',
}


@dataclasses.dataclass(frozen=True)
class OwnLink(Attack):
    """`layout` is how the dotfiles are linked, `target` what the attacker goes for (a path beneath `place`), `script` how.

    The goal is that the user's next start, which names no rules, may read the victim. The twin is that the user's own rules, through
    those links, let it read another file, after the run changed all that it may.
    """

    layout: str
    target: str
    script: str

    def rules(self, path: Path) -> str:
        return json.dumps({"version": 1, "rules": [{"id": "own", "allow": "read", "path": f"{path}/**"}]})

    def build(self, scene: Scene) -> Path:
        box = scene.box
        root = box.tree / "place"
        if root.exists():
            harness.remove_tree(root)
        for name in ("", "home", "dots", "store", "secret", "mine", "free", "evil"):
            box.directory(root / name)
        box.file(root / "secret/victim", SECRET)
        box.file(root / "mine/file", ALLOWED)
        for beneath in ("evil", "evil/callgate", "evil/profiles", "evil/callgate/profiles"):
            box.file(root / beneath / "rules.json", self.rules(root / "secret").encode())
        own = self.rules(root / "mine").encode()
        config = root / "home/.config"
        links: dict[Path, Path] = {}
        if self.layout == "whole":  # ~/.config is linked
            box.file(root / "dots/config/callgate/rules.json", own)
            links[config] = root / "dots/config"
        elif self.layout == "stow":  # a directory beneath it is linked
            box.directory(config)
            box.file(root / "dots/config/callgate/rules.json", own)
            links[config / "callgate"] = Path("../../dots/config/callgate")
        elif self.layout == "no_folding":  # each file is linked
            box.directory(box.directory(config) / "callgate")
            box.file(root / "dots/rules.json", own)
            links[config / "callgate/rules.json"] = Path("../../../dots/rules.json")
        elif self.layout == "home_manager":  # each file is linked to a link in a store
            box.directory(box.directory(config) / "callgate")
            box.file(root / "store/1-rules.json", own, 0o444)
            links[root / "store/2-files"] = root / "store/1-rules.json"
            links[config / "callgate/rules.json"] = root / "store/2-files"
        for name, target in links.items():
            name.symlink_to(target)
            box.own(name)
        return root

    def attack(self, scene: Scene, root: Path, supervised: bool) -> harness.Result:
        wanted = root / "evil"
        if self.target.endswith(("rules.json", "-files")):
            wanted /= "rules.json"
        elif self.target.endswith("config") and not self.target.endswith("callgate"):
            wanted = root / "evil"
        elif self.target.endswith("callgate"):
            wanted /= "callgate"
        line = ["/bin/sh", "-c", SCRIPTS[self.script], "sh", str(root / self.target), str(wanted)]
        if not supervised:
            return scene.bare(line)
        rules = harness.rule_set({"id": "place", "allow": ["read", "write"], "path": f"{root}/**"})
        return scene.supervised(line, rules, ["--workdir", str(root / "free")], env={"HOME": str(root / "home")})

    def next_start(self, scene: Scene, root: Path, path: Path) -> harness.Result:
        return scene.box.run(["/bin/cat", str(path)], options=[*scene.options, "--ask", "never", "--workdir", str(root / "free")],
                             env={"HOME": str(root / "home")})

    def play(self, scene: Scene, supervised: bool) -> tuple[Path, harness.Result]:
        scene.box.replays.leave_out("the rules of the user are another file afterwards")
        root = self.build(scene)
        return root, self.attack(scene, root, supervised)

    def control(self, scene: Scene) -> Outcome:
        root, first = self.play(scene, False)
        result = self.next_start(scene, root, root / "secret/victim")
        return check({"the control did not reach its goal": SECRET not in result.out}, "read", first.describe() + result.describe())

    def held(self, scene: Scene) -> Outcome:
        root, first = self.play(scene, True)
        result = self.next_start(scene, root, root / "secret/victim")
        return check({"the victim was read": SECRET in result.out, "the rules were changed": first.code == 0,
                      "the next start failed": result.code == 125},
                     f"exit {first.code}", first.describe() + result.describe())

    def twin(self, scene: Scene) -> Outcome:
        root, first = self.play(scene, True)
        result = self.next_start(scene, root, root / "mine/file")
        beside = scene.supervised(["/bin/sh", "-c", 'echo x > "$1" && ln -s away "$1.link"', "sh", str(root / "dots/other")],
                                  harness.rule_set({"id": "place", "allow": ["read", "write"], "path": f"{root}/**"}),
                                  ["--workdir", str(root / "free")], env={"HOME": str(root / "home")})
        return check({"the user's own rules do not count": ALLOWED not in result.out, "a file beside them was refused": beside.code != 0},
                     "read", first.describe() + result.describe() + beside.describe())
