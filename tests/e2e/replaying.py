"""With the same rules `callgate audit replay` never differs: tried over the logs that the runs of all tests left.

A box notes each supervised run that it starts. When it is closed, it replays those of the sample whose log exists, under the
very rule options of the run. A test that damages a log, or removes its rules, calls `leave_out`.
"""
from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import harness

SOAK = os.environ.get("CALLGATE_SOAK") == "1"
# CALLGATE_REPLAYED_PERCENT=100 replays all logs of a run whose other counts stay what they are.
REPLAYED_PERCENT = 100 if SOAK else int(os.environ.get("CALLGATE_REPLAYED_PERCENT", "5"))

VALUED = {"-R": "--rules", "-p": "--profile", "-r": "--read", "-w": "--write", "-x": "--execute", "-d": "--deny", "-c": "--connect"}
RULE_OPTIONS = {*VALUED.values(), "--rules-json", "--bind", "--except", "--default", "--gpu"}
STARTING_SETS = {"--rules", "--profile", "--rules-json"}
WITHOUT_CHECKS = "CALLGATE_TEST_SWITCH_OFF"

# Counts of the session: runs started, logs replayed, their requests, and requests that no rule set can judge.
COUNTS = {"runs": 0, "replayed": 0, "requests": 0, "undecidable": 0, "not_by_rules": 0}
LEFT_OUT: dict[str, int] = {}


def lines() -> list[str]:
    if not COUNTS["runs"]:
        return []
    said = [f"{COUNTS['replayed']} logs of {COUNTS['runs']} runs ({REPLAYED_PERCENT} %): {COUNTS['requests']} requests, none "
            f"differs, {COUNTS['undecidable']} undecidable, {COUNTS['not_by_rules']} not by rules"]
    return said + [f"left out: {why}: {count}" for why, count in sorted(LEFT_OUT.items())]


@dataclasses.dataclass
class Noted:
    """A run: what chose its rules, where it ran, and where its log is (None: not known, or none)."""

    options: list[str]
    cwd: Path
    environment: dict[str, str]
    log: Path | None


def rule_options(words: list[str]) -> list[str]:
    """The options of `callgate run` that chose its rules, as `replay` takes them."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--no-user-rules" or word.partition("=")[0] in RULE_OPTIONS and "=" in word:
            found.append(word)
        elif word == "--shared-cache":  # a profile by another name
            found.append("--profile=shared-cache")
        elif (name := VALUED.get(word, word)) in RULE_OPTIONS:
            found.append(f"{name}={next(rest)}")
    if not any(one.partition("=")[0] in STARTING_SETS for one in found):
        found.append("--profile=agent")
    return found


JOB_OPTIONS = ("read", "write", "execute", "deny", "connect", "bind")
LONGEST_RULES = 100_000  # longer ones reach the run by a descriptor (supervisor/jobs/command_line.cpp)


def texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def job_options(options: list[str], job: dict[str, Any]) -> list[str]:
    """The options that chose the rules of a job of `callgate exec`, which had them itself."""
    words = [*options, *(f"--profile={one}" for one in texts(job.get("profiles")))]
    if "rules" in job:
        words.append("--rules-json=" + json.dumps(job["rules"], separators=(",", ":"), ensure_ascii=False))
    return rule_options([*words, *(f"--{name}={one}" for name in JOB_OPTIONS for one in texts(job.get(name)))])


def log_of(words: list[str], cwd: Path) -> Path | None:
    for index, word in enumerate(words):
        value = words[index + 1] if word == "--audit" else word.removeprefix("--audit=")
        if word.partition("=")[0] == "--audit" and not value.startswith("fd:"):
            return cwd / value
    return None


class Replays:
    """The runs of one box."""

    def __init__(self) -> None:
        self.runs: list[Noted] = []
        self.why_not: str | None = None

    def leave_out(self, why: str) -> None:
        """Replays no run of this box."""
        self.why_not = why

    def note(self, line: list[str], cwd: Path, environment: dict[str, str]) -> Noted | None:
        """A process that is started; others than supervised runs are passed over."""
        if len(line) < 2 or not Path(line[0]).name.startswith("callgate") or line[1] != "run" or "--" not in line:
            return None
        if environment.get(WITHOUT_CHECKS) or not self.sampled():
            return None
        words = line[2:line.index("--")]
        self.runs.append(Noted(rule_options(words), cwd, dict(environment), log_of(words, cwd)))
        return self.runs[-1]

    @staticmethod
    def sampled() -> bool:
        """Whether the next run is one of those whose log is replayed."""
        COUNTS["runs"] += 1
        return COUNTS["runs"] * REPLAYED_PERCENT // 100 != (COUNTS["runs"] - 1) * REPLAYED_PERCENT // 100

    def note_another_job(self, *of: Any) -> None:
        """Adds a run that a server of jobs did: the server itself is counted."""
        COUNTS["runs"] += 1
        self.note_job(*of)

    def note_job(self, options: list[str], job: dict[str, Any], cwd: Path, environment: dict[str, str], report: dict[str, Any]) -> None:
        """A job of `callgate exec` that kept a log."""
        if (report["audit"] or {}).get("file") and len(json.dumps(job.get("rules", ""))) < LONGEST_RULES:
            self.runs.append(Noted(job_options(options, job), cwd, dict(environment), Path(report["audit"]["file"])))

    def check(self, box: "harness.Box") -> None:
        """Fails the test where a verdict on record is not what the same rules say again."""
        by_log: dict[Path, list[Noted]] = {}
        for run in self.runs:
            if run.log is not None and run.log.is_file() and run.log.stat().st_size:
                by_log.setdefault(run.log, []).append(run)
        for log, runs in by_log.items():
            why = self.why_not
            if any(one.options != runs[0].options for one in runs):
                why = "several runs with different rules in one log"
            if why is None:
                replay(box, log, runs[0])
            else:
                LEFT_OUT[why] = LEFT_OUT.get(why, 0) + 1


def replay(box: "harness.Box", log: Path, run: Noted) -> None:
    environment = {name: value for name, value in run.environment.items() if not name.startswith("CALLGATE_TEST_")}
    cwd = run.cwd if run.cwd.is_dir() else box.tree
    with log.open() as lines_of_log:  # an agent is run under its own profile
        begun = json.loads(lines_of_log.readline()).get("callgate", {}).get("profiles") or ["agent"]
    options = [f"--profile={begun[0]}" if one == "--profile=agent" else one for one in run.options]
    again = box.run([str(box.stage.callgate), "audit", "replay", "--json", *options, str(log)], supervised=False, cwd=cwd,
                    env=environment)
    assert again.code == 0, f"under the same rules the log is judged otherwise\n{again.describe()}"
    found = json.loads(again.text)
    assert found["same_rules"], f"these are not the rules of the run\n{again.describe()}"
    COUNTS["replayed"] += 1
    for name in ("requests", "undecidable", "not_by_rules"):
        COUNTS[name] += found[name]
