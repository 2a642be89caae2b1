"""The corpus of attacks: every paragraph of the list of what must be survived has a table of cases here.

A new case is one more row of a table in the module of its paragraph. Its program is one more MODE of the program in
../programs/ that holds its relatives. Only an attack that plays in a new kind of place needs a class, in worlds/.

`CASES` holds all, in the order of the table that `./dev test attacks` prints. `case.run_case` runs one.
"""
from __future__ import annotations

import dataclasses
import fnmatch
from types import ModuleType

from cases import (costs, host_sockets, later, links, memory_races, name_races, network, opaque, other_doors, outside_processes, parties,
                   person, pointers, stops, supervisor)
from cases.case import Case

MODULES = (memory_races, name_races, other_doors, links, outside_processes, opaque, parties, network, host_sockets, supervisor, stops, person, costs,
           later, pointers)


def collect(modules: tuple[ModuleType, ...]) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for module in modules:
        for case in module.CASES:
            if case.name in cases:
                raise AssertionError(f"two cases are called {case.name}")
            cases[case.name] = dataclasses.replace(case, paragraph=module.PARAGRAPH)
    return cases


CASES = collect(MODULES)


def select(patterns: list[str]) -> list[Case]:
    """Cases whose name matches one of the patterns (`door.*`), or that have a tag (`@abi`); all for no pattern."""
    def wanted(case: Case) -> bool:
        return any(one[1:] in case.all_tags if one.startswith("@") else fnmatch.fnmatch(case.name, one) for one in patterns)
    return [case for case in CASES.values() if not patterns or wanted(case)]
