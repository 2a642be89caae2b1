"""Attacks on the person who is asked: answering in their place, or fooling them. The races of objects with answers are in
test_approval.py."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.person import FooterHidden, OuterTerminal, OwnAnswer

PARAGRAPH = "The person"

CASES = [
    Case("person.answer_by_socket", OwnAnswer()),
    Case("person.outer_terminal", OuterTerminal()),
    *(Case(f"footer.hidden_{name}", FooterHidden(prefix)) for name, prefix in (
        ("title", "unfinished osc"), ("picture", "unfinished dcs_sixel"), ("conceal", "attribute 8"), ("drawing", "drawing"))),
]
