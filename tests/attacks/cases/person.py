"""Attacks on the person who is asked: answering in their place, or fooling them. The races of objects with answers are in
test_approval.py."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.person import OuterTerminal, OwnAnswer

PARAGRAPH = "The person"

CASES = [
    Case("person.answer_by_socket", OwnAnswer()),
    Case("person.outer_terminal", OuterTerminal()),
]
