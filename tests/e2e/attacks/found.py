"""What a hostile reading of the supervisor found, and what was seen won against supervisors of this kind."""
from __future__ import annotations

from attacks.case import Case

PARAGRAPH = "Found"

CASES: list[Case] = []
