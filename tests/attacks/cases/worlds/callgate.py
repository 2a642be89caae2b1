"""callgate itself under attack: killed, stopped, its log and state reached for. The tree ends, nothing unlogged took effect."""
from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import harness
from cases.case import SECRET, Attack, Impossible, Outcome, Scene, check, possible

KILLED_TURNS = 200 if harness.SOAK else 12


def contested(box: harness.Box, *more: dict[str, Any]) -> dict[str, Any]:
    """A tree in which every call is decided one by one."""
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "never", "deny": ["read", "write"], "path": f"{box.tree}/**/.never*"}, *more)


def started(scene: Scene, args: list[str], marker: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A supervised command that has said `ready`; its processes carry the marker."""
    line, log = scene.box.command(args, contested(scene.box), [*scene.options, "--env", f"CG_MARK={marker}"])
    process = scene.box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    harness.read_until(process.stdout.fileno(), b"ready")  # type: ignore[union-attr]
    assert log is not None
    return process, log


def end_all(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def state_letter(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@dataclasses.dataclass(frozen=True)
class Killed(Attack):
    """SIGKILL to one of callgate's processes, to its group (`kill -9 -PGID`), or to that and the target's (`session`)."""

    whom: str

    def tree(self, scene: Scene) -> list[str]:
        return [scene.box.program("prog_tree"), str(scene.box.tree), "wait"]

    def control(self, scene: Scene) -> Outcome:
        """The processes that a bare tree of the same shape leaves alive when its root is killed: it is hard to end."""
        mark = f"CG_MARK={scene.box.root}-bare"
        bare = scene.box.start(["env", mark, *self.tree(scene)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        harness.read_until(bare.stdout.fileno(), b"ready")  # type: ignore[union-attr]
        bare.kill()
        bare.wait()
        survivors = harness.marked(mark)
        end_all(survivors)
        return check({"the tree is not hard to end": len(survivors) < 5}, f"{len(survivors)} survived", "")

    def kill(self, process: subprocess.Popen[bytes], guardian: int, tree: list[int]) -> None:
        if self.whom == "supervisor":
            process.kill()
        elif self.whom == "guardian":
            os.kill(guardian, signal.SIGKILL)
        else:
            harness.kill_group_of(process.pid)
            for pid in tree[:2] if self.whom == "session" else []:
                harness.kill_group_of(pid)

    def held(self, scene: Scene) -> Outcome:
        marker = f"{scene.box.root}-{self.whom}"
        process, _ = started(scene, self.tree(scene), marker)
        guardian = harness.until(lambda: harness.children(process.pid), "the guardian is there")[0]
        tree = harness.marked(f"CG_MARK={marker}")
        scene.kept["tree"] = len(tree)
        self.kill(process, guardian, tree)
        process.wait(harness.DEADLINE)
        harness.until(lambda: not harness.marked(f"CG_MARK={marker}"), "the whole tree has ended")
        harness.until(lambda: not Path(f"/proc/{guardian}").exists(), "the guardian has ended and was reaped")
        harness.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tree), "no zombie is left")
        return Outcome(True, "0 survived")

    def twin(self, scene: Scene) -> Outcome:
        """Left alone, the same tree lives."""
        return check({"the tree was not whole": scene.kept.get("tree", 0) < 6}, f"{scene.kept.get('tree')} ran", "")


@dataclasses.dataclass(frozen=True)
class ListenerLater(Attack):
    """Supervisor and guardian are killed at once: what is left cannot answer its own contested calls by a listener of its own."""

    def play(self, scene: Scene, mode: str, supervised: bool) -> tuple[bool, str]:
        args = [scene.box.program("attack_kernel"), mode]
        line = scene.box.command(args, contested(scene.box), scene.options)[0] if supervised else args
        process = scene.box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True)
        assert process.stdin and process.stdout and process.stderr
        harness.read_until(process.stdout.fileno(), b"ready")
        if supervised:
            both = [process.pid, *harness.children(process.pid)]
            left = harness.children(both[-1])
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in both:
                    os.kill(pid, number)
            process.wait()
        try:
            process.stdin.write(b"\n")
        except BrokenPipeError:  # not even that is left
            pass
        said = process.stdout.read() + process.stderr.read()
        if supervised:
            end_all(left)
        return b"WON" in said, said.decode()

    def control(self, scene: Scene) -> Outcome:
        won, said = self.play(scene, "listener_later", supervised=False)
        return check({"the control got no listener": not won}, "reached", said)

    def held(self, scene: Scene) -> Outcome:
        won, said = self.play(scene, "listener_later", supervised=True)
        return check({"it got a listener of its own": won}, "refused", said)

    def twin(self, scene: Scene) -> Outcome:
        won, said = self.play(scene, "filter_later", supervised=True)
        return check({"a filter of its own is refused": not won}, "works", said)


@dataclasses.dataclass(frozen=True)
class KilledWhileWriting(Attack):
    """The supervisor is killed at random moments of a run that writes without pause: every effect has its record."""

    def control(self, scene: Scene) -> Outcome:
        """Bare, effects have no records."""
        folder = scene.box.directory(scene.box.tree / "bare")
        result = scene.bare([scene.box.program("prog_writer"), str(folder), "100"])
        made = len(os.listdir(folder))
        return check({"the writer does not write": made != 100}, f"{made} unrecorded", result.describe())

    def held(self, scene: Scene) -> Outcome:
        effects, chance = 0, random.Random(7)
        for turn in range(KILLED_TURNS):
            folder = scene.box.directory(scene.box.tree / f"turn{turn}")
            marker = f"{scene.box.root}-{turn}"
            process, log = started(scene, [scene.box.program("prog_writer"), str(folder), "0"], marker)
            wanted = chance.randrange(1, 400)
            harness.until(lambda: len(os.listdir(folder)) >= wanted, "the writer works")
            process.kill()
            process.wait()
            harness.until(lambda: not harness.marked(f"CG_MARK={marker}"), "the tree has ended")
            missing = unrecorded(folder, log)
            if missing:
                return Outcome(False, f"{len(missing)} unrecorded", f"{missing[:5]}")
            effects += len(os.listdir(folder))
        return Outcome(effects > 0, f"{effects} recorded")

    def twin(self, scene: Scene) -> Outcome:
        folder = scene.box.directory(scene.box.tree / "whole")
        result = scene.supervised([scene.box.program("prog_writer"), str(folder), "100"], contested(scene.box))
        made = len(os.listdir(folder))
        return check({"not all was written": made != 100 or result.code != 0}, f"{made} written", result.describe())


def unrecorded(folder: Path, log: Path) -> list[str]:
    """Names in a folder that no record allows."""
    recorded = {one["file"]["path"] for one in harness.read_log(log) if one.get("callgate", {}).get("verdict") == "allow" and "file" in one}
    return [name for name in sorted(os.listdir(folder)) if str(folder / name) not in recorded]


@dataclasses.dataclass(frozen=True)
class Stopped(Attack):
    """SIGSTOP to the supervisor: nothing contested proceeds."""

    def progress(self, folder: Path) -> int:
        """How much is written in an observation window: it is not a wait, nothing may happen in it."""
        before, end = len(os.listdir(folder)), time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        return len(os.listdir(folder)) - before

    def control(self, scene: Scene) -> Outcome:
        """Bare, a stopped parent stops nobody."""
        folder = scene.box.directory(scene.box.tree / "bare")
        parent = scene.box.start(["/bin/sh", "-c", f"{scene.box.program('prog_writer')} {folder} 0; :"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, start_new_session=True)
        try:
            harness.read_until(parent.stdout.fileno(), b"ready")  # type: ignore[union-attr]
            os.kill(parent.pid, signal.SIGSTOP)
            harness.until(lambda: state_letter(parent.pid) == "T", "the parent is stopped")
            went_on = self.progress(folder)
        finally:
            harness.kill_group_of(parent.pid)
            parent.wait()
        return check({"the control did not go on": went_on < 10}, "goes on", "")

    def held(self, scene: Scene) -> Outcome:
        folder = scene.box.directory(scene.box.tree / "stopped")
        process, _ = started(scene, [scene.box.program("prog_writer"), str(folder), "0"], str(scene.box.root))
        os.kill(process.pid, signal.SIGSTOP)
        harness.until(lambda: state_letter(process.pid) == "T", "callgate is stopped")
        went_on = self.progress(folder)
        os.kill(process.pid, signal.SIGCONT)
        before = len(os.listdir(folder))
        scene.kept["after"] = harness.until(lambda: len(os.listdir(folder)) > before + 1, "it goes on when callgate does")
        process.terminate()
        process.wait(harness.DEADLINE)
        return check({f"{went_on} contested calls took effect without their supervisor": went_on > 1}, "nothing proceeds", "")

    def twin(self, scene: Scene) -> Outcome:
        return check({"it did not go on with callgate": not scene.kept.get("after")}, "goes on with it", "")


@dataclasses.dataclass(frozen=True)
class LogDoor(Attack):
    """A door of the file programs at the log itself, where the rules allow its whole neighbourhood."""

    program: str
    mode: str

    def build(self, scene: Scene) -> tuple[Path, Path]:
        box = scene.box
        for name in ("upper", "upper-moved", "free"):
            if (box.tree / name).exists():
                harness.remove_tree(box.tree / name)
        log = box.directory(box.directory(box.directory(box.tree / "upper") / "logs") / "inner") / "run.jsonl"
        return log, box.directory(box.tree / "free")

    def build_ordinary(self, scene: Scene, name: str, content: bytes) -> tuple[Path, Path]:
        """A file that is none of callgate's. It lies beneath directories of its own, so that those of callgate's file do not move."""
        _, free = self.build(scene)
        own = scene.box.directory(scene.box.directory(free / "upper") / "inner") / name
        return scene.box.file(own, content, 0o600), free

    def line(self, scene: Scene, log: Path, free: Path) -> list[str]:
        return [scene.box.program(self.program), self.mode, str(log), str(free)]

    def rule_set(self, scene: Scene) -> dict[str, Any]:
        box = scene.box
        return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                                {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})

    def control(self, scene: Scene) -> Outcome:
        log, free = self.build(scene)
        scene.box.file(log, b'{"a":"line"}\n', 0o600)
        result = possible(scene.bare(self.line(scene, log, free)))
        return check({"the control did not reach the file": result.code != 0}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        log, free = self.build(scene)
        result = scene.supervised(self.line(scene, log, free), self.rule_set(scene), ["--audit", str(log)], audit=False)
        if not log.exists():
            return Outcome(False, "the log is gone", result.describe())
        status = log.stat()
        lines = [json.loads(one) for one in log.read_bytes().splitlines()]
        numbers = [one["event"]["sequence"] for one in lines]
        return check({
            "the call succeeded": result.code != 1,
            "the log was printed": b"run.start" in result.out or b"@timestamp" in result.out,
            "its mode or links changed": stat.S_IMODE(status.st_mode) != 0o600 or status.st_nlink != 1,
            "records are missing": numbers != list(range(numbers[0], numbers[0] + len(numbers))),
            "it is not whole": lines[0]["event"]["action"] != "run.start" or lines[-1]["event"]["action"] != "run.end",
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """The same at a file that is no log."""
        own, free = self.build_ordinary(scene, "run.jsonl", b'{"a":"line"}\n')
        box = scene.box
        result = scene.supervised(self.line(scene, own, free), self.rule_set(scene), ["--audit", str(box.state / "twin.jsonl")], audit=False)
        return check({"an ordinary file is refused": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class ListDoor(LogDoor):
    """The same doors at the list of denials, which the command may read. Its neighbourhood is allowed, too."""

    def line(self, scene: Scene, victim: Path, free: Path) -> list[str]:
        script = '"$0" "$1" "$CALLGATE_DENIALS" "$2"; status=$?; cat "$CALLGATE_DENIALS"; exit $status'
        return ["/bin/sh", "-c", script, scene.box.program(self.program), self.mode, str(free)]

    def control(self, scene: Scene) -> Outcome:
        victim, free = self.build(scene)
        scene.box.file(victim, b"denied: a line\n", 0o600)
        result = possible(scene.bare(self.line(scene, victim, free), env={"CALLGATE_DENIALS": str(victim)}))
        return check({"the control did not reach the file": result.code != 0}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        """The run ends and leaves what was there before it."""
        victim, free = self.build(scene)
        result = scene.supervised(self.line(scene, victim, free), self.rule_set(scene), env={"TMPDIR": str(victim.parent)})
        left = [one for one in scene.box.tree.rglob("*") if one.is_file() and b"denied: " in one.read_bytes()]
        return check({
            "the call succeeded": result.code != 1,
            "the list that it reads is another one": b"[callgate] " not in result.out or b"\ndenied: " not in result.out,
            f"there is more than before: {left}": bool(left) or not victim.parent.is_dir() or bool(list(victim.parent.iterdir())),
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        own, free = self.build_ordinary(scene, "own.denials", b"mine\n")
        line = self.line(scene, own, free)
        result = scene.supervised(line, self.rule_set(scene), ["--env", f"CALLGATE_DENIALS={own}"])
        return check({"an ordinary file is refused": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class LogPlanted(Attack):
    """A symbolic link planted at the log's place is not followed: nothing runs."""

    def plant(self, scene: Scene) -> tuple[Path, Path]:
        target, link = scene.box.file(scene.box.root / "elsewhere", b"untouched"), scene.box.tree / "log"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        scene.box.own(link)
        return target, link

    def control(self, scene: Scene) -> Outcome:
        target, link = self.plant(scene)
        result = scene.bare(["/bin/sh", "-c", f"echo record > {link}"])
        return check({"the control did not follow it": target.read_bytes() == b"untouched"}, "followed", result.describe())

    def held(self, scene: Scene) -> Outcome:
        scene.box.replays.leave_out("what stands at the log's place is no log")
        target, link = self.plant(scene)
        ran = scene.box.tree / "ran"
        result = scene.box.run(["/bin/sh", "-c", f"echo ran > {ran}"], contested(scene.box), options=[*scene.options, "--audit", str(link)],
                               audit=False)
        return check({"the link was followed": target.read_bytes() != b"untouched", "the command ran": ran.exists(),
                      "callgate did not say so": result.code != 125}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        log = scene.box.tree / "own-log"
        result = scene.supervised(["/bin/true"], contested(scene.box), ["--audit", str(log)], audit=False)
        return check({"a log of its own is refused": result.code != 0 or not log.exists()}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class LogFull(Attack):
    """`limit`: RLIMIT_FSIZE stops the log; `full`: its file system is full. Not one effect without its record, and it is said."""

    how: str
    files = 5000

    def writer(self, scene: Scene, folder: Path) -> list[str]:
        return [scene.box.program("prog_writer"), str(folder), str(self.files)]

    def limited(self, line: list[str]) -> list[str]:
        return ["prlimit", f"--fsize={64 * 1024}", *line] if self.how == "limit" else line

    def control(self, scene: Scene) -> Outcome:
        """Bare, under the same limit, nothing holds the writer up."""
        folder = scene.box.directory(scene.box.tree / "bare")
        result = scene.bare(self.limited(self.writer(scene, folder)))
        made = len(os.listdir(folder))
        return check({"the writer was stopped": made != self.files}, f"{made} unrecorded", result.describe())

    def mount(self, scene: Scene) -> str | None:
        if self.how == "limit":
            return None
        if os.geteuid() != 0:
            raise Impossible("mounting a small file system needs root")
        user, place = scene.box.user, str(scene.box.state)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=64k,mode=0700,uid={user.uid},gid={user.gid}", "cg-test", place],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Impossible(f"cannot mount: {done.stderr.strip()}")
        return place

    def held(self, scene: Scene) -> Outcome:
        box = scene.box
        folder = box.directory(box.tree / "made")
        mounted = self.mount(scene)
        line, log = box.command(self.writer(scene, folder), contested(box), scene.options)
        try:
            process = box.start(self.limited(line), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = process.communicate(timeout=harness.DEADLINE)
            missing, made = unrecorded(folder, log), len(os.listdir(folder))  # type: ignore[arg-type]
        finally:
            if mounted:
                subprocess.run(["umount", mounted], check=True)
        return check({
            f"effects without their record: {missing[:5]}": missing != [],
            "nothing was refused": b"refused" not in out or process.returncode != 3,
            "nothing was made, or all": not 0 < made < self.files,
            "it was not said": b"audit" not in err and b"log" not in err,
        }, f"{made} recorded", f"{out!r} {err!r}")

    def twin(self, scene: Scene) -> Outcome:
        """All is written if there is room."""
        folder = scene.box.directory(scene.box.tree / "room")
        result = scene.supervised([scene.box.program("prog_writer"), str(folder), "500"], contested(scene.box))
        made = len(os.listdir(folder))
        return check({"not all was written": made != 500}, f"{made} written", result.describe())


@dataclasses.dataclass(frozen=True)
class StateReached(Attack):
    """The directory of logs, though the rules allow the place where it lies."""

    def script(self, scene: Scene, state: Path) -> list[str]:
        return ["/bin/sh", "-c", f"cat {state}/callgate/*; rm -rf {state}/callgate; mv {state} {scene.box.tree}/gone; : > {state}/callgate/new; "
                f"mkdir {state}/callgate/x; ls {scene.box.tree}/gone"]

    def control(self, scene: Scene) -> Outcome:
        state = scene.box.directory(scene.box.tree / "state")
        scene.box.file(scene.box.directory(state / "callgate") / "old.jsonl", SECRET)
        result = scene.bare(self.script(scene, state))
        return check({"the control did not reach it": SECRET not in result.out or (state / "callgate").exists()}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        box = scene.box
        state = box.directory(box.tree / "guarded")
        result = scene.supervised(self.script(scene, state), contested(box), env={"XDG_STATE_HOME": str(state)}, audit=False)
        log = Path(result.report["audit"]["file"]) if result.report else state
        whole = log.is_file() and sorted(os.listdir(state / "callgate")) == sorted([log.name, "link-roots", "name-lock", "pointer-roots"])
        return check({"the log was printed": b"run.start" in result.out, "something was made, moved or removed": not whole,
                      "records are missing": whole and len(harness.read_log(log)) != result.report["audit"]["records"]},  # type: ignore[index]
                     "untouched", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        place = scene.box.directory(scene.box.tree / "other")
        script = f"mkdir {place}/callgate && : > {place}/callgate/new && cat {place}/callgate/new && mv {place} {place}-gone && rm -rf {place}-gone"
        result = scene.supervised(["/bin/sh", "-c", script], contested(scene.box))
        return check({"another directory of that name is refused": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class OwnEnviron(Attack):
    """/proc/self is the caller's, never the supervisor's, by every way of naming it."""

    own = "VISIBLE=42"
    names = ("/proc/self/environ", "/proc/thread-self/environ", "/proc/self/../self/environ", "/proc/self/task/../environ")

    def script(self) -> list[str]:
        return ["/bin/sh", "-c", f"for f in {' '.join(self.names)}; do tr '\\0' '\\n' < $f; done"]

    def control(self, scene: Scene) -> Outcome:
        result = scene.bare(self.script(), env={"SECRET_OF_THE_SUPERVISOR": SECRET.decode()})
        return check({"the control did not read it": result.out.count(SECRET) != len(self.names)}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        rules = contested(scene.box, {"id": "contest-proc", "deny": "read", "path": "/proc/*/never"})
        result = scene.supervised(self.script(), rules, ["--env", self.own], env={"SECRET_OF_THE_SUPERVISOR": SECRET.decode()})
        scene.kept["own"], scene.kept["describe"] = result.text.count(self.own), result.describe()
        return check({"the supervisor's was read": SECRET in result.out}, "not shown", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        return check({"its own was not read": scene.kept.get("own", 0) != len(self.names)}, f"{scene.kept.get('own')} of its own", scene.kept.get("describe", ""))
