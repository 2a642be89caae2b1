"""The table of attacks: case, control, held, twin."""
from __future__ import annotations

from typing import Iterable

from cases.case import Result

HEADER = ("user", "case", "control", "held", "twin")
WIDTHS = (5, 44, 22, 22, 30)


def line(cells: Iterable[str]) -> str:
    return " ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS)).rstrip()


def lines(results: list[Result]) -> list[str]:
    """Grouped by paragraph, in the order of the corpus, and a total; nothing where nothing ran."""
    if not results:
        return []
    written = [line(HEADER)]
    paragraph = None
    order = {case: place for place, case in enumerate(dict.fromkeys(one.case for one in results))}
    for one in sorted(results, key=lambda one: (order[one.case], one.user)):
        if one.paragraph != paragraph:
            paragraph = one.paragraph
            written.append(f"-- {paragraph}")
        written.append(line(one.row()))
    return [*written, total(results)]


def total(results: list[Result]) -> str:
    ran = [one for one in results if one.impossible is None]
    counts = {name: sum(1 for one in ran if (outcome := getattr(one, name)) is not None and outcome.good)
              for name in ("control", "held", "twin")}
    cases = len({one.case for one in ran})
    return (f"total: {cases} cases, {len(ran)} runs: control reached {counts['control']}, held {counts['held']}, "
            f"twin works {counts['twin']}; not possible here {len(results) - len(ran)}")
