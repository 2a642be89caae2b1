"""An attack as the corpus knows it, and the only way to run it.

A case names its attack once and runs three times:

  control  bare: it must reach its goal, else the case proves nothing
  held     supervised: it must not, and the victim is looked at from outside
  twin     supervised, the same way to an allowed object: it must work

The tests and `python3 -m cases` run attacks with `run_case`. It can also run the corpus against another build (`callgate`)
or another setting (`environment`, `options`). A mutant names the cases that must catch it.
"""
from __future__ import annotations

import abc
import dataclasses
import fnmatch
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterable

import harness

SECRET = b"SECRET-b7f2c1"
ALLOWED = b"allowed content"
UNSUPPORTED = 77  # tests/attacks/programs/attack.h
ENOUGH_WINS = 5
# A race is raced in this budget; where its control wins too seldom in it, in a larger one.
MILLISECONDS = 3000 if harness.SOAK else 500
RACE_ROUNDS = 2000 if harness.SOAK else 300
# Held is tried more often than the control needed, where there is time for it.
HELD_FACTOR = 10
FACTORS = (1, 4, 16)  # scene.factors


class Impossible(Exception):
    """The attack has no meaning here: the kernel lacks the call, or this user may not make it bare either."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of one of the three runs."""

    good: bool
    shown: str  # a word or two for the table
    detail: str = ""


@dataclasses.dataclass
class Result:
    case: str
    paragraph: str
    user: str
    control: Outcome | None = None
    held: Outcome | None = None
    twin: Outcome | None = None
    impossible: str | None = None  # why there was nothing to run

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {name: one for name in ("control", "held", "twin") if (one := getattr(self, name)) is not None}

    @property
    def good(self) -> bool:
        return self.impossible is not None or all(one.good for one in self.outcomes.values())

    def explain(self) -> str:
        bad = [f"{name}: {one.shown}\n{one.detail}" for name, one in self.outcomes.items() if not one.good]
        return f"{self.case} as {self.user}\n" + "\n".join(bad)

    def row(self) -> tuple[str, str, str, str, str]:
        if self.impossible is not None:
            return (self.user, self.case, "not here", "-", self.impossible)
        cells = [one.shown if one else "-" for one in (self.control, self.held, self.twin)]
        marks = [cell if one is None or one.good else f"!! {cell}"
                 for cell, one in zip(cells, (self.control, self.held, self.twin))]
        return (self.user, self.case, *marks)  # type: ignore[return-value]


class Attack(abc.ABC):
    """The world that a case runs in. One object serves many runs: everything that belongs to a run is in the scene."""

    tags: frozenset[str] = frozenset()

    @abc.abstractmethod
    def control(self, scene: "Scene") -> Outcome: ...

    @abc.abstractmethod
    def held(self, scene: "Scene") -> Outcome: ...

    @abc.abstractmethod
    def twin(self, scene: "Scene") -> Outcome: ...


@dataclasses.dataclass(frozen=True)
class Case:
    name: str       # unique and lasting: mutants and the table name it
    attack: Attack
    tags: frozenset[str] = frozenset()
    only: str = ""  # "root", "user": who can do it bare
    paragraph: str = ""  # filled in by the table that holds it

    @property
    def all_tags(self) -> frozenset[str]:
        return self.tags | self.attack.tags


class Scene:
    """The scene of one case: its box, how it is supervised, and what the attack keeps between its three runs."""

    def __init__(self, box: harness.Box, options: Iterable[str] = ()) -> None:
        self.box = box
        self.options = list(options)
        self.factor = 1
        self.factors = FACTORS
        self.kept: dict[str, Any] = {}

    @property
    def milliseconds(self) -> int:
        return MILLISECONDS * self.factor

    def bare(self, args: list[str], **keywords: Any) -> harness.Result:
        return self.box.run(args, supervised=False, **keywords)

    def supervised(self, args: list[str], rules: dict[str, Any] | None, options: Iterable[str] = (), **keywords: Any) -> harness.Result:
        """callgate must have run the command: an error at its start would look like an attack that was held."""
        result = self.box.run(args, rules, options=[*self.options, *options], **keywords)
        if result.code == 125 and not result.report or result.report and result.report["outcome"] == "setup_error":
            raise AssertionError(f"callgate did not run the command\n{result.describe()}")
        return result


def check(problems: dict[str, bool], shown: str, detail: str) -> Outcome:
    """Good where none of the named problems is true."""
    found = [text for text, wrong in problems.items() if wrong]
    return Outcome(not found, shown, "" if not found else "; ".join(found) + "\n" + detail)


# Refused before ABI 6, also within the run: programs fall back to kill and F_SETOWN (docs/differences.md).
NO_TWIN_BEFORE_6 = ("*.pidfd_signal*", "outside.setown_*", "party.reach.setown_*")
# Before Linux 6.10 only who may search every directory links what a descriptor leads to (linkat(2), AT_EMPTY_PATH).
NO_TWIN_BEFORE_6_10 = ("name.reopen_gone", "name.link_gone", "name.hardlink_empty", "door.tmpfile_empty")


def runs_of(case: Case, abi: int) -> tuple[str, ...]:
    """The control, the attack and, where there is one under this ABI of Landlock on this kernel, the twin."""
    release = tuple(int(number) for number in re.findall(r"[0-9]+", os.uname().release)[:2])
    missing = (*(NO_TWIN_BEFORE_6 if abi < 6 else ()), *(NO_TWIN_BEFORE_6_10 if release < (6, 10) else ()))
    return ("control", "held") if any(fnmatch.fnmatch(case.name, one) for one in missing) else ("control", "held", "twin")


def possible(result: harness.Result) -> harness.Result:
    """The control's result, unless the program said that there is no such thing here."""
    if result.code == UNSUPPORTED:
        raise Impossible(result.errors.strip().splitlines()[-1] if result.errors.strip() else "this kernel has no such thing")
    return result


def wins(result: harness.Result) -> tuple[int, int]:
    """The counts that a race printed: `WON n TWIN m`."""
    words = result.text.split()
    if "TWIN" not in words:
        raise AssertionError("the race did not end by itself\n" + result.describe())
    at = len(words) - 1 - words[::-1].index("TWIN")
    return int(words[at - 1]), int(words[at + 1])


def run_case(case: Case, stage: harness.Stage, user: harness.User, *, callgate: Path | None = None,
             environment: dict[str, str] | None = None, options: Iterable[str] = (), switch_off: str = "", abi: int | None = None,
             runs: Iterable[str] = ("control", "held", "twin"), patience: int = 1, container: str = "") -> Result:
    """Runs a case as `user`.

    `callgate`: another build, readable by any user; `environment`: what the supervising process gets besides; `options`: more
    options of `callgate run`; `switch_off`, `abi`: with the build whose checks can be left out (base/test_switch.hpp); `runs`:
    which of the three, in this order (a mutant needs only `held` of a case that is good without it); `patience`: how much longer
    races last; `container`: within that imitated profile.
    """
    result = Result(case.name, case.paragraph, user.kind)
    if case.only and case.only != user.kind:
        result.impossible = f"only as {case.only}"
        return result
    if case.name.endswith(".affinity") and len(os.sched_getaffinity(0)) < 2:
        result.impossible = "one processor is all that there is"
        return result
    box = stage.box(user)
    if callgate is not None:
        box.callgate = callgate
    if switch_off or abi is not None:
        box.switch(switch_off, abi)
    if container:
        box.contain(container)
    if environment is not None:
        box.switches = {**box.switches, **environment}
    scene = Scene(box, options)
    scene.factors = tuple(factor * patience for factor in FACTORS)
    scene.factor = patience
    try:
        for name in runs:
            play: Callable[[Scene], Outcome] = getattr(case.attack, name)
            try:
                setattr(result, name, play(scene))
            except AssertionError as error:
                setattr(result, name, Outcome(False, "failed", str(error)))
            if name == "control" and not result.control.good:
                if harness.CONTAINER:
                    result.impossible = "a container lets it go nowhere anyway"
                break
    except Impossible as why:
        result.impossible = str(why)
    except (OSError, subprocess.CalledProcessError) as why:
        if not harness.CONTAINER:
            raise
        result.impossible = f"in a container: {why}"
    finally:
        box.close()
    return result
