"""The host pays for a run: by the size of the log, a lost footer, objects that outlive the run."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from approvers import Asked
from cases.case import Attack, Impossible, Outcome, Scene, check, possible
from cases.worlds.callgate import contested, unrecorded

EQUAL = 100  # denials that have a record each (docs/audit.md)


def guarded(box: harness.Box) -> tuple[dict[str, Any], Path]:
    """Rules that deny one directory, and a file in it."""
    folder = box.tree / "guarded"
    if folder.exists():
        harness.remove_tree(folder)
    victim = box.file(box.directory(folder) / "victim", b"content")
    return contested(box, {"id": "guarded", "deny": ["read", "write"], "path": f"{folder}/**"}), victim


def counted(result: harness.Result) -> tuple[int, int]:
    """How many records of denials there are, and how many denials they state."""
    denials = [one["callgate"]["count"] for one in result.decisions(verdict="deny")]
    return len(denials), sum(denials)


@dataclasses.dataclass(frozen=True)
class Flood(Attack):
    """The same refused call again and again: the log stays small, and every call is counted."""

    mode: str
    groups: int = 1  # kinds of denials

    def line(self, scene: Scene, victim: Path, count: int) -> list[str]:
        return [scene.box.program("attack_costs"), self.mode, str(victim), str(count)]

    def control(self, scene: Scene) -> Outcome:
        """Bare, nothing stops the loop."""
        _, victim = guarded(scene.box)
        result = possible(scene.bare(self.line(scene, victim, 4000)))
        return check({"the control was refused": "refused 0 other 4000" not in result.text}, "4000 calls", result.describe())

    def held(self, scene: Scene) -> Outcome:
        rules, victim = guarded(scene.box)
        result = scene.supervised(self.line(scene, victim, 4000), rules)
        assert result.report
        records, stated = counted(result)
        bound = self.groups * (EQUAL + 3 + result.report["duration_ms"] // 900)
        actions = [one["event"]["action"] for one in result.audit]
        summary = harness.audit(scene.box, "summary", "--json", "--by", "rule", result.report["audit"]["file"])
        return check({
            "a call was not refused": "refused 4000 other 0" not in result.text,
            f"{records} records for one loop": records > bound,
            f"the records state {stated} denials": stated != 4000,
            f"the report states {result.report['counts']['deny']}": result.report["counts"]["deny"] != 4000,
            "the end is not the last record": actions[-1] != "run.end",
            "the summary counts other numbers": '"deny": 4000' not in summary.text,
        }, f"{records} records", result.describe() + summary.describe())

    def twin(self, scene: Scene) -> Outcome:
        """Few denials have a record each."""
        rules, victim = guarded(scene.box)
        result = scene.supervised(self.line(scene, victim, 40), rules)
        records, stated = counted(result)
        return check({f"{records} records state {stated} denials": (records, stated) != (40, 40)}, "40 records", result.describe())


class FloodAnswered(Flood):
    """A call that a person has denied for the rest of the run, again and again."""

    def held(self, scene: Scene) -> Outcome:
        rules, victim = guarded(scene.box)
        rules["rules"][-1] = {"id": "guarded", "ask": "read", "path": str(victim)}
        run = Asked(scene.box, self.line(scene, victim, 4000), rules, tuple(scene.options))
        run.decide(run.ask(), "deny", "object")
        result = run.end()
        records, stated = counted(result)
        return check({
            "a call was not refused": "refused 4000 other 0" not in result.text,
            f"{records} records for one loop": records > EQUAL + 10,
            f"the records state {stated} denials": stated != 4000,
        }, f"{records} records", result.describe())


@dataclasses.dataclass(frozen=True)
class FloodEnded(Attack):
    """Four processes make the same refused call until the run is ended from one side or another: the records state every call.

    A call that is answered when its process ends may be stated and not have been counted by it.
    """

    end: str  # who ends it: a signal, a rule, a limit, or the death of a process

    processes, calls = 4, 1000

    def start(self, scene: Scene, supervised: bool) -> tuple[subprocess.Popen[bytes], Path, Path | None, Path]:
        """The loop, its counters, its log and its report."""
        box = scene.box
        rules, victim = guarded(box)
        if self.end == "rule":
            last = box.file(Path(f"{victim}.end"), b"content")
            rules["rules"].append({"id": "end", "kill": "read", "path": str(last)})
        counters = box.file(box.tree / "counters", b"\0" * 8 * self.processes)
        line = [box.program("attack_costs"), "flood_without_end", str(victim), str(self.calls), str(counters)]
        report, log = box.root / "ended-report.json", None
        if supervised:
            options = [*scene.options, "--grace=100ms", "--report", str(report), *(["--timeout=3s"] if self.end == "timeout" else [])]
            line, log = box.command(line, rules, options)
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        return process, counters, log, report

    @staticmethod
    def sum(counters: Path) -> int:
        return sum(struct.unpack("=4q", counters.read_bytes()))

    def control(self, scene: Scene) -> Outcome:
        """Bare, the loop goes on until it is killed."""
        process, counters, _, _ = self.start(scene, False)
        harness.read_until(process.stdout.fileno(), b"ready")  # type: ignore[union-attr]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(harness.DEADLINE)
        return check({"the loop was held up": self.sum(counters) < self.calls}, f"{self.sum(counters)} calls", "")

    def held(self, scene: Scene) -> Outcome:
        process, counters, log, report = self.start(scene, True)
        harness.read_until(process.stdout.fileno(), b"ready")  # type: ignore[union-attr]
        if self.end == "signal":
            process.send_signal(signal.SIGTERM)
        elif self.end in ("guardian", "command"):
            (guardian,) = harness.children(process.pid)
            for pid in [guardian] if self.end == "guardian" else reversed(harness.descendants(guardian)):
                os.kill(pid, signal.SIGKILL)
        process.wait(harness.DEADLINE)
        made = self.sum(counters)
        entries = harness.read_log(log)  # type: ignore[arg-type]
        denials = [one["callgate"]["count"] for one in entries if one.get("callgate", {}).get("verdict") == "deny"]
        told = json.loads(report.read_text())
        return check({
            f"the records state {sum(denials)} denials of {made}": not made <= sum(denials) <= made + self.processes,
            f"the report states {told['counts']['deny']}": told["counts"]["deny"] != sum(denials),
            f"{len(denials)} records for one loop": len(denials) > EQUAL + 4 + told["duration_ms"] // 900,
            "the end is not the last record": entries[-1]["event"]["action"] != "run.end",
        }, f"{made} calls", str(told))

    def twin(self, scene: Scene) -> Outcome:
        """A loop that ends by itself is stated whole."""
        rules, victim = guarded(scene.box)
        result = scene.supervised([scene.box.program("attack_costs"), "flood_processes", str(victim), "400"], rules)
        _, stated = counted(result)
        return check({f"the records state {stated} denials": stated != 400}, "400 calls", result.describe())


@dataclasses.dataclass(frozen=True)
class LogGrows(Attack):
    """Calls that are all different fill the log: the run ends at --audit-limit, and nothing took effect without its record."""

    denied: bool
    limit = 256 << 10

    def line(self, scene: Scene, place: Path) -> list[str]:
        if self.denied:
            return [scene.box.program("attack_costs"), "flood_distinct", str(place / "victim"), "20000"]
        return [scene.box.program("prog_writer"), str(place), "20000"]

    def control(self, scene: Scene) -> Outcome:
        folder = scene.box.directory(scene.box.tree / "bare")
        scene.bare(self.line(scene, folder))
        made = len(os.listdir(folder))
        return check({"the control was held up": made != 20000}, f"{made} calls", "")

    def held(self, scene: Scene) -> Outcome:
        box = scene.box
        rules, victim = guarded(box)
        folder = victim.parent if self.denied else box.directory(box.tree / "made")
        result = scene.supervised(self.line(scene, folder), rules, ["--audit-limit", str(self.limit)])
        assert result.report
        log = Path(result.report["audit"]["file"])
        size = log.stat().st_size
        missing = [] if self.denied else unrecorded(folder, log)
        return check({
            f"the outcome is {result.report['outcome']}, {result.code}": (result.report["outcome"], result.code) != ("log_full", 137),
            f"the log has {size} bytes": not self.limit // 2 < size < self.limit + (16 << 10),
            f"effects without their record: {missing[:5]}": missing != [],
            "its end is not on record": result.audit[-1]["event"]["action"] != "run.end",
            "nothing was said at 80 %": "80 %" not in result.errors,
            "nothing was said at the end": "ended: the audit log is full" not in result.errors,
        }, f"{size} bytes", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        folder = scene.box.directory(scene.box.tree / "few")
        result = scene.supervised([scene.box.program("prog_writer"), str(folder), "20"], contested(scene.box), ["--audit-limit", str(self.limit)])
        return check({"a small log ends the run": result.code != 0 or "80 %" in result.errors}, "20 calls", result.describe())


@dataclasses.dataclass(frozen=True)
class FooterLost(Attack):
    """Standard error is a full pipe that the target made non-blocking: the footer comes when somebody reads."""

    def wait_and_read(self, process: subprocess.Popen[bytes]) -> bytes:
        """Reads only when the process waits for a reader, or has ended without."""
        assert process.stderr
        harness.until(lambda: process.poll() is not None or harness.wait_channel(process.pid).endswith("in system call 7"),
                      "somebody waits for a reader")
        said = process.stderr.read()
        process.wait(harness.DEADLINE)
        return said

    def line(self, scene: Scene, victim: Path) -> list[str]:
        return [scene.box.program("attack_costs"), "stderr_full", str(victim), "1"]

    def control(self, scene: Scene) -> Outcome:
        """The words of a shell are lost."""
        _, victim = guarded(scene.box)
        script = " ".join(self.line(scene, victim)) + "; echo the footer >&2"
        process = scene.box.start(["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = self.wait_and_read(process)
        return check({"it was said all the same": b"the footer" in said or b"noise" not in said}, "lost", repr(said[-200:]))

    def held(self, scene: Scene) -> Outcome:
        rules, victim = guarded(scene.box)
        line, _ = scene.box.command(self.line(scene, victim), rules, scene.options)
        process = scene.box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = self.wait_and_read(process)
        return check({"the pipe was not full": b"noise" not in said,
                      "the footer is lost": b"callgate: denied 1 call" not in said or b"rule guarded" not in said},
                     "said", repr(said[-400:]))

    def twin(self, scene: Scene) -> Outcome:
        rules, victim = guarded(scene.box)
        result = scene.supervised([scene.box.program("attack_costs"), "flood_open", str(victim), "1"], rules)
        return check({"the footer is not there": "rule guarded" not in result.errors}, "said", result.describe())


def get_all(scene: Scene, line: list[str]) -> None:
    """Runs a program bare until it says that it has hidden all that it wants, and ends it."""
    process = scene.box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        harness.read_until(process.stdout.fileno(), b"hidden")  # type: ignore[union-attr]
    finally:
        process.kill()
        process.wait()


def unreadable(scene: Scene) -> Path:
    return scene.box.tree / "unreadable"


def appetite(scene: Scene, kind: str) -> str:
    """The program. `undumpable`: a copy that may be executed and not read, so that nobody may look into its process."""
    program = scene.box.program("prog_appetite")
    if kind != "undumpable":
        return program
    if harness.LANDLOCK_ABI < 3:
        raise Impossible("before ABI 3 its opens are decided one by one, and it does not start")
    copy = unreadable(scene)
    if not copy.exists():
        copy.write_bytes(Path(program).read_bytes())
        copy.chmod(0o111)
        scene.box.own(copy)
    return str(copy)


def runs_unreadable(scene: Scene) -> dict[str, Any]:
    return {"id": "unreadable", "allow": ["read", "execute"], "path": str(unreadable(scene))}


@dataclasses.dataclass(frozen=True)
class Hidden(Attack):
    """Memory beyond --memory at a place where a look at each process does not find it."""

    shape: str

    @property
    def too_much(self) -> int:
        """More than what a limit may be passed by while a look takes long."""
        return 1200 if self.shape == "descriptors" else 400

    def line(self, scene: Scene, megabytes: int) -> list[str]:
        return [appetite(scene, self.shape), self.shape, str(megabytes)]

    def clean(self) -> None:
        for left in Path("/dev/shm").glob("psm_appetite-*"):
            if left.is_dir():
                left.chmod(0o700)
                harness.remove_tree(left)
            else:
                left.unlink(missing_ok=True)  # another test's, which removes it as well

    def rules(self, scene: Scene) -> dict[str, Any]:
        return contested(scene.box, runs_unreadable(scene), {"id": "shared-memory", "allow": ["read", "write"], "path": ["/dev/shm/psm_*", "/dev/shm/psm_*/**"]},
                         {"id": "sockets", "allow": ["connect", "bind"], "unix": "@*"})

    def control(self, scene: Scene) -> Outcome:
        """Bare, it gets all that it wants."""
        try:
            get_all(scene, self.line(scene, self.too_much))
        finally:
            self.clean()
        return Outcome(True, f"{self.too_much} MB")

    def held(self, scene: Scene) -> Outcome:
        try:
            result = scene.supervised(self.line(scene, self.too_much), self.rules(scene), ["--memory", "256M", "--idle-timeout", "2s"])
        finally:
            self.clean()
        assert result.report
        limit = result.report["limits"]["memory"]
        return check({f"the outcome is {result.report['outcome']}": (result.report["outcome"], result.code) != ("memory", 137)},
                     f"{limit['enforced_by']}, {limit['peak'] >> 20} MB", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """A quarter of the limit is not too much."""
        try:
            # While a look takes long, what other programs gain counts, too: they have room here.
            limit = "2G" if self.shape == "descriptors" else "256M"
            result = scene.supervised(self.line(scene, 64), self.rules(scene), ["--memory", limit, "--idle-timeout", "300ms"])
        finally:
            self.clean()
        assert result.report
        return check({f"the outcome is {result.report['outcome']}": result.report["outcome"] != "idle_timeout" or result.text != "hidden\n"},
                     "64 MB", result.describe())


@dataclasses.dataclass(frozen=True)
class Semaphores(Attack):
    """Their memory is the kernel's, on callgate's account: a run gets 131,072 of them. Its own account counts: it removes them again."""

    def line(self, scene: Scene, sets: int) -> list[str]:
        return [scene.box.program("attack_costs"), "semaphores", "-", str(sets)]

    def control(self, scene: Scene) -> Outcome:
        result = scene.bare(self.line(scene, 20))
        if result.code != 0:
            raise Impossible(f"not possible bare either: {result.errors.strip()}")
        return Outcome(True, "320,000")

    def held(self, scene: Scene) -> Outcome:
        result = scene.supervised(self.line(scene, 20), contested(scene.box), ["--memory", "256M"])
        return check({"all were made": result.code == 0 or b"WON" in result.out, "it failed otherwise": "semget: No space left on device" not in result.errors},
                     "no space left", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """So many as the bound lets be, three times: what is removed counts no more."""
        line = " && ".join([" ".join(self.line(scene, 8))] * 3)
        result = scene.supervised(["/bin/sh", "-c", line], contested(scene.box), ["--memory", "256M"])
        return check({"fewer were refused": result.code != 0 or result.out.count(b"WON") != 3}, "128,000", result.describe())


@dataclasses.dataclass(frozen=True)
class HiddenOnDisk(Attack):
    """Bytes beyond --disk in files that no walk of the work directory finds, nor a look at descriptors.

    The gain of the file systems is counted then. So work directory and ${tmp} have one of their own: others write to the machine's.
    """

    kind: str

    @contextlib.contextmanager
    def own_disk(self, scene: Scene) -> Iterator[None]:
        if os.geteuid() != 0:
            raise Impossible("a file system of its own needs root")
        owner = scene.box.tree.stat()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256m,mode=755,uid={owner.st_uid},gid={owner.st_gid}", "callgate-test", scene.box.tree], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", scene.box.tree], check=True)

    def line(self, scene: Scene, megabytes: int) -> list[str]:
        appetite(scene, self.kind)  # the program that it goes on with
        return [scene.box.program("prog_appetite"), "disk", self.kind, str(megabytes)]

    def control(self, scene: Scene) -> Outcome:
        """Bare, it gets all that it wants."""
        with self.own_disk(scene):
            get_all(scene, self.line(scene, 64))
        return Outcome(True, "64 MB")

    def supervised(self, scene: Scene, megabytes: int, idle: str) -> harness.Result:
        with self.own_disk(scene):
            return scene.supervised(self.line(scene, megabytes), contested(scene.box, runs_unreadable(scene)), ["--disk", "48M", "--idle-timeout", idle],
                                    env={"TMPDIR": str(scene.box.tree)})

    def held(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, 64, "2s")
        assert result.report
        return check({f"the outcome is {result.report['outcome']}": (result.report["outcome"], result.code) != ("disk", 137)},
                     "ended", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = self.supervised(scene, 8, "300ms")
        assert result.report
        return check({f"the outcome is {result.report['outcome']}": result.report["outcome"] != "idle_timeout" or result.text != "hidden\n"},
                     "8 MB", result.describe())
