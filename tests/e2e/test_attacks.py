"""The corpus of attacks (attacks/): each as root and as an ordinary user; control reached, attack held, twin works.

A plain run plays each attack for both users, but its control and its twin for one, root and the ordinary one by turns.
CALLGATE_TEST_PART=1/2 is every second case, from the first.
"""
from __future__ import annotations

import itertools
import os

import pytest

import cases
import harness
from cases.case import run_case, runs_of
from conftest import KINDS

PART, PARTS = map(int, os.environ.get("CALLGATE_TEST_PART", "1/1").split("/"))
USERS = 2 if harness.SOAK else 1  # for whom controls and twins are played
NUMBERS = {name: number for number, name in enumerate(cases.CASES)}


def played(case, user) -> tuple[str, ...]:
    runs = runs_of(case, harness.LANDLOCK_ABI)
    both = len(KINDS) <= USERS or case.only
    return runs if both or KINDS.index(user.kind) == NUMBERS[case.name] % 2 else ("held",)


def marked(case):
    return pytest.param(case, id=case.name, marks=[getattr(pytest.mark, tag) for tag in sorted(case.all_tags)])


@pytest.mark.parametrize("case", [marked(case) for case in itertools.islice(cases.CASES.values(), PART - 1, None, PARTS)])
def test_an_attack_is_held(stage, user, attack_results, case):
    result = run_case(case, stage, user, runs=played(case, user))
    attack_results.append(result)
    if result.impossible is not None:
        pytest.skip(f"{case.name}: {result.impossible}")
    assert result.good, result.explain()


def test_the_corpus_covers_every_paragraph():
    """At least 150 cases, some under each heading, and none without its three runs."""
    assert len(cases.CASES) >= 150
    assert {case.paragraph for case in cases.CASES.values()} == {module.PARAGRAPH for module in cases.MODULES}
