"""Processes outside the run: another one of the same user, and callgate's own two."""
from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import harness
from cases.case import SECRET, UNSUPPORTED, Attack, Impossible, Outcome, Scene, check, possible
from cases.worlds.listeners import rules


def io_priority(pid: int) -> str:
    shown = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=False)
    if shown.returncode != 0 and not Path(f"/proc/{pid}").exists():
        raise ProcessLookupError(pid)
    shown.check_returncode()
    return shown.stdout


def outside_state(pid: int) -> dict[str, object]:
    """The state of a process that another could have changed, as the kernel tells it."""
    return {"nice": os.getpriority(os.PRIO_PROCESS, pid), "affinity": os.sched_getaffinity(pid), "scheduler": os.sched_getscheduler(pid),
            "priority": os.sched_getparam(pid).sched_priority, "limits": Path(f"/proc/{pid}/limits").read_text(), "oom": Path(f"/proc/{pid}/oom_score_adj").read_text(),
            "io": io_priority(pid)}


class Victim:
    """An outside process of the same user (programs/prog_victim.c), in a session of its own."""

    def __init__(self, box: harness.Box) -> None:
        place = box.directory(box.root / "outside")
        box.file(place / "secret", SECRET)
        self.process = box.start([box.program("prog_victim"), SECRET.decode(), str(place / "held")], cwd=place, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, start_new_session=True, bufsize=0,
                                 env={**box.environment(), "HIDDEN": SECRET.decode()})
        first = harness.read_until(self.process.stdout.fileno(), b"\n").decode().split()  # type: ignore[union-attr]
        self.pid, self.address, self.fd = int(first[0]), first[1], first[2]

    def state(self) -> dict[str, object]:
        """All that an outsider could have changed; the victim itself says what signals came and what its memory holds."""
        self.process.stdin.write(b"state\n")  # type: ignore[union-attr]
        signals, memory = harness.read_until(self.process.stdout.fileno(), b"\n").decode().split(maxsplit=1)  # type: ignore[union-attr]
        return {"signals": signals, "memory": memory.strip(), **outside_state(self.pid)}

    def changed(self, before: dict[str, object]) -> bool:
        """Signals may come a moment later than the call returns."""
        try:
            return harness.until(lambda: self.state() != before, "the victim changes", 5)
        except AssertionError:
            return False

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclasses.dataclass(frozen=True)
class OutsideProcess(Attack):
    """`attack_outside MODE PID ADDRESS NUMBER`.

    goal: "look" (the secret, or `reached`, is printed), "touch" (the victim is changed). `twin_mode`: where no own child has what
    this mode reaches for.
    """

    mode: str
    goal: str
    number: str = ""  # of a signal; else that of the victim's secret descriptor
    twin_mode: str = ""
    succeeds: bool = False  # the call itself may: only the victim counts

    def line(self, scene: Scene, victim: Victim) -> list[str]:
        return [scene.box.program("attack_outside"), self.mode, str(victim.pid), victim.address, self.number or victim.fd]

    def victim(self, scene: Scene) -> Victim:
        return Victim(scene.box)

    def rule_set(self, scene: Scene) -> dict[str, Any]:
        box = scene.box
        return harness.rule_set({"id": "all", "allow": ["read", "write"], "path": f"{box.root}/**"},
                                {"id": "memory", "allow": "modify", "path": "/proc/*/{mem,oom_score_adj,task/**}"},
                                {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"})

    def control(self, scene: Scene) -> Outcome:
        victim = self.victim(scene)
        try:
            before = victim.state()
            result = possible(scene.bare(self.line(scene, victim)))
            if self.goal == "look":
                reached = SECRET in result.out or b"reached" in result.out
            else:
                reached = result.code == 0 and victim.changed(before)
        finally:
            victim.end()
        if not reached and self.mode == "map_files":
            raise Impossible("needs privileges bare too")
        return check({"the control did not reach its goal": not reached}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        victim = self.victim(scene)
        try:
            before = victim.state()
            result = scene.supervised(self.line(scene, victim), self.rule_set(scene))
            after = victim.state()
        finally:
            victim.end()
        return check({
            f"the outside process was changed: {before} → {after}": after != before,
            "the secret was printed": SECRET in result.out or b"reached" in result.out,
            "the call succeeded": result.code == 0 and not self.succeeds,
        }, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        own = [scene.box.program("attack_outside"), self.twin_mode or self.mode, "child", "0", self.number or "3"]
        result = scene.supervised(own, self.rule_set(scene))
        return check({"the same on an own child does not work": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class RealTime(OutsideProcess):
    """A victim of real-time priority, which its own user may lower: only root can put it there."""

    def victim(self, scene: Scene) -> Victim:
        victim = super().victim(scene)
        try:
            os.sched_setscheduler(victim.pid, os.SCHED_FIFO, os.sched_param(5))
        except PermissionError as error:
            victim.end()
            raise Impossible("real-time priorities are not given here") from error
        return victim


def unused_address(pid: int) -> int:
    """The low end of the stack: the attacker is given what it would have to find out. The process itself may write there, which Linux
    7.2 asks of a write by /proc/PID/mem, and nothing is there."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return int(next(line for line in lines if line.endswith("[stack]")).partition("-")[0], 16)


@dataclasses.dataclass(frozen=True)
class CallgateItself(Attack):
    """The guardian is the command's parent, the supervisor the guardian's. Whatever the rules say: they allow everything here.

    Bare, a process of the same user stands in their place. The attacker is told the number, so that the victim's state is
    seen from outside before and after.
    """

    whom: str  # "guardian", "supervisor"
    mode: str
    number: str = "0"  # of a signal or descriptor
    goal: str = "touch"  # "touch", "end" (gone or stopped), "look" (the attack says that it read)
    twin_mode: str = ""  # where no own child has what this mode reaches for

    def script(self, scene: Scene) -> list[str]:
        attack = f"{scene.box.program('attack_outside')} {self.mode} $pid $address {self.number}"
        return ["/bin/sh", "-c", f"echo ready; read pid address; {attack}; echo ended; read stop"]

    def attack(self, args: list[str], scene: Scene, victim: int | None) -> tuple[dict[str, object], dict[str, object], str]:
        """The victim's state before and after, and what the attack wrote. Without a victim: callgate's own."""
        process = scene.box.start(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
                                  start_new_session=True)
        assert process.stdin and process.stdout
        try:
            harness.read_until(process.stdout.fileno(), b"ready")
            if victim is None:
                victim = process.pid if self.whom == "supervisor" else harness.children(process.pid)[0]
            before = self.state(victim)
            process.stdin.write(f"{victim} {unused_address(victim)}\n".encode())
            said = harness.read_until(process.stdout.fileno(), b"ended")
            if "WON" in said.decode("utf-8", "replace") and self.goal == "end":  # a signal takes its time
                harness.until(lambda: set(self.state(victim)) == {"state"}, "the signal arrives")
            after = self.state(victim)
        finally:
            harness.kill_group_of(process.pid)
            process.wait()
        return before, after, said.decode("utf-8", "backslashreplace")

    @staticmethod
    def state(pid: int) -> dict[str, object]:
        try:
            letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return {"state": letter} if letter in "ZXTt" else outside_state(pid)
        except (FileNotFoundError, ProcessLookupError):
            return {"state": "gone"}

    def control(self, scene: Scene) -> Outcome:
        box = scene.box
        given = box.file(box.root / "given", b"content")
        with given.open("rb") as stdin:
            victim = box.start(["/bin/sleep", "1000"], stdin=stdin)
        try:
            before, after, said = self.attack(self.script(scene), scene, victim.pid)
        finally:
            victim.kill()
            victim.wait()
        reached = "WON" in said and (self.goal == "look" or (set(after) == {"state"} if self.goal == "end" else before != after))
        return check({"the control did not reach its goal": not reached}, "reached", f"{before} → {after}\n{said}")

    def held(self, scene: Scene) -> Outcome:
        box = scene.box
        wanted = harness.rule_set({"id": "all", "allow": ["read", "write"], "path": [f"{box.root}/**", "/proc/**"]},
                                  {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"})
        args, _ = box.command(self.script(scene), wanted, scene.options)
        before, after, said = self.attack(args, scene, None)
        return check({f"it was changed: {before} → {after}": before != after, "the call succeeded": "HELD" not in said},
                     "untouched", said)

    def twin(self, scene: Scene) -> Outcome:
        own = [scene.box.program("attack_outside"), self.twin_mode or self.mode, "child", "0", self.number]
        memory = {"id": "memory", "allow": "modify", "path": "/proc/*/{mem,oom_score_adj}"}
        result = scene.supervised(own, rules(scene.box, memory))
        return check({"the same on an own child does not work": result.code != 0}, "works", result.describe())


@dataclasses.dataclass(frozen=True)
class SameJob(Attack):
    """`attack_outside MODE PID` from a command in the process group of the user's whole job: as a shell runs `a | callgate run b`."""

    mode: str
    twin_mode: str = ""
    succeeds: bool = False  # the call itself may: only the companion counts

    SCRIPT = "trap : USR1; sleep 1000 >/dev/null & pid=$!; echo $pid; read go; \"$@\" $pid; echo ended $? over; read stop"

    def play(self, scene: Scene, command: list[str]) -> tuple[bool, int, str]:
        """Whether the companion was changed, and the attack's exit status."""
        process = scene.box.start(["/bin/sh", "-c", self.SCRIPT, "job", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, bufsize=0, start_new_session=True)
        assert process.stdin and process.stdout
        try:
            companion = int(harness.read_until(process.stdout.fileno(), b"\n"))
            # Until then it is a copy of the shell, which still takes the signal as the shell does.
            harness.until(lambda: Path(f"/proc/{companion}/comm").read_text() == "sleep\n", "the companion sleeps")
            before = CallgateItself.state(companion)
            process.stdin.write(b"go\n")
            said = harness.read_until(process.stdout.fileno(), b"over")
            after = self.later(companion, before) if b"WON" in said else CallgateItself.state(companion)
        finally:
            harness.kill_group_of(process.pid)
            process.wait()
        text = said.decode("utf-8", "backslashreplace")
        return before != after, int(text.split()[-2]), f"{before} → {after}\n{text}"

    @staticmethod
    def later(companion: int, before: dict[str, object]) -> dict[str, object]:
        """A signal may come a moment later than the call returns."""
        try:
            harness.until(lambda: CallgateItself.state(companion) != before, "the companion changes", 5)
        except AssertionError:
            pass
        return CallgateItself.state(companion)

    def line(self, scene: Scene) -> list[str]:
        return [scene.box.program("attack_outside"), self.mode]

    def control(self, scene: Scene) -> Outcome:
        changed, code, said = self.play(scene, self.line(scene))
        if code == UNSUPPORTED:
            raise Impossible(said.splitlines()[-2])
        return check({"the control did not reach its goal": not changed}, "reached", said)

    def held(self, scene: Scene) -> Outcome:
        changed, code, said = self.play(scene, scene.box.command(self.line(scene), rules(scene.box), scene.options)[0])
        return check({"a companion outside was changed": changed, "the call succeeded": code == 0 and not self.succeeds}, f"exit {code}", said)

    def twin(self, scene: Scene) -> Outcome:
        """The signal reaches the processes of the group that belong to the run."""
        own = [scene.box.program("attack_outside"), self.twin_mode or self.mode, "child"]
        result = scene.supervised(own, rules(scene.box))
        return check({"an own child is not reached": result.code != 0}, "works", result.describe())
