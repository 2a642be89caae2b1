"""Each check is left out once, and the attacks that it holds must then reach their goal (mutants.py).

In a plain run an eighteenth of the mutants, another one with every commit; all of them in a long run and with CALLGATE_MUTANTS=all. How
many were caught is printed at the end, and which could not be tried.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cases
import harness
import mutants
from cases.case import Result, run_case

SOURCES = Path(__file__).resolve().parents[2]
PARTS = 1 if harness.SOAK else 18
PATIENCE = (1, 4, 16)  # a race that can be won is won seldom on a busy machine
TRIES = 4  # of another file's test, for the same reason


def chosen() -> list[mutants.Mutant]:
    if os.environ.get("CALLGATE_MUTANTS") == "all":
        return list(mutants.MUTANTS)
    return harness.part_of_today(mutants.MUTANTS, PARTS)


def attempt(case, stage, user, off: str, abi: int | None, patience: int = 1) -> Result:
    return run_case(case, stage, user, switch_off=off or "nothing", abi=abi, runs=("control", "held"), patience=patience)


def reaches_its_goal(case, stage, user, mutant: mutants.Mutant) -> bool | None:
    """Whether the attack succeeds without the check; nothing where it is not possible here even bare."""
    off = ",".join(filter(None, (mutant.off, mutant.beside)))
    for patience in PATIENCE if "race" in case.all_tags else (1,):
        result = attempt(case, stage, user, off, mutant.abi, patience)
        if result.impossible is not None:
            return None
        assert result.control is not None and result.control.good, result.explain()
        assert result.held is not None and result.held.shown != "failed", f"callgate failed\n{result.explain()}"
        if not result.held.good:
            return True
    return False


def outcome_of(test: str, user: str, off: str) -> tuple[int, str]:
    """pytest's exit status for a test of another file (0 passed, 1 failed), and what it printed."""
    environment = {**os.environ, "CALLGATE": os.environ["CALLGATE_SWITCHED"], harness.SWITCHES[0]: off, "CALLGATE_TABLES": "", "CALLGATE_ONCE_MORE": ""}
    name, _, parameter = test.rstrip("]").partition("[")
    chosen_one = f"{Path(__file__).parent / name}[{'-'.join(filter(None, (user, parameter)))}]"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen_one]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 0 and " passed" not in done.stdout:
        pytest.skip(f"{test} cannot be run here")
    return done.returncode, done.stdout


@pytest.mark.parametrize("mutant", [one for one in chosen() if one.test], ids=lambda one: one.name)
def test_a_test_notices_that_something_is_left_out(mutant):
    status, printed = outcome_of(mutant.test, mutant.user, "nothing")
    if status != 0:
        pytest.fail(f"{mutant.test} fails all the same:\n{printed}", pytrace=False)
    caught = any(outcome_of(mutant.test, mutant.user, mutant.off)[0] == 1 for _ in range(TRIES))
    mutants.RESULTS[mutant.name] = "caught" if caught else "not caught"
    assert caught, f"without {mutant.name}, {mutant.test} passes"


@pytest.mark.parametrize("mutant", [one for one in chosen() if one.cases], ids=lambda one: one.name)
def test_an_attack_notices_that_a_check_is_left_out(stage, users, mutant):
    if mutant.user not in users:
        pytest.skip(f"{mutant.name}: only as {mutant.user}")
    user = users[mutant.user]
    noticed = []
    for name in mutant.cases:
        case = cases.CASES[name]
        if mutant.beside or mutant.abi:
            base = attempt(case, stage, user, mutant.beside, mutant.abi)
            assert base.impossible is not None or base.good, f"not held by this check alone\n{base.explain()}"
        noticed.append(reaches_its_goal(case, stage, user, mutant))
        if noticed[-1] is False:
            mutants.RESULTS[mutant.name] = "not caught"
            pytest.fail(f"without {mutant.name}, {name} is held all the same: nothing tests that check")
    if not any(noticed):
        mutants.RESULTS[mutant.name] = "not possible here"
        pytest.skip(f"{mutant.name}: {', '.join(mutant.cases)} not possible here")
    mutants.RESULTS[mutant.name] = "caught"


def page_section(title: str) -> str:
    """The names on the page that is written from the table of calls (./dev docs)."""
    page = (SOURCES / "docs" / "system-calls.md").read_text()
    section = re.search(rf"^## {title}.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert section, f"docs/system-calls.md has no section {title}"
    return section[0]


def left_out() -> set[str]:
    return {name for one in mutants.MUTANTS for name in one.off.split(",")}


def mediated_calls() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", page_section("Mediated"), re.MULTILINE))


def test_every_mediated_call_has_a_mutant():
    assert len(mediated_calls()) > 70
    assert mediated_calls() - left_out() == set()


def test_every_refused_argument_has_a_mutant():
    """By its own name, or by the call's where that is refused in no other way."""
    refused = re.findall(r"^\| `(\w+)` \| [^|]* \| [^|]* \| ([^|]*) \|", page_section("Held by arguments"), re.MULTILINE)
    assert len(refused) > 30
    names, mediated = left_out(), mediated_calls()

    def by_its_call(call: str, what: str) -> bool:
        return call in names and (call not in mediated or what == "whatever the arguments")

    assert [(call, what) for call, what in refused if what not in names and not by_its_call(call, what)] == []


def names_in_sources(pattern: str) -> set[str]:
    sources = [one for folder in ("base", "rules", "agent", "relay", "supervisor", "tls") for one in (SOURCES / folder).rglob("*.[ch]pp")]
    return {name for one in sources for name in re.findall(pattern, one.read_text())}


def test_every_check_has_a_mutant():
    checks = names_in_sources(r'check_enabled\("([^"]+)"\)') | names_in_sources(r'built_in_rule\("([^"]+)"')
    assert len(checks) > 30
    assert checks - left_out() == set(mutants.SHOWN_ELSEWHERE)


def test_every_name_that_a_mutant_leaves_out_is_a_check():
    """A name that no source knows would leave nothing out."""
    known = names_in_sources(r'"([^"\n]+)"')
    known |= {word for one in known for word in one.split()}  # calls stand in one string for each class
    named = {name for one in mutants.MUTANTS for name in f"{one.off},{one.beside}".split(",") if name}
    assert named - known == set()


def test_every_mutant_names_cases_of_the_corpus():
    assert [(one.name, case) for one in mutants.MUTANTS for case in one.cases if case not in cases.CASES] == []
    assert [one.name for one in mutants.MUTANTS if not one.cases and not one.test] == []
