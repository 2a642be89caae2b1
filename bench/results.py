"""Results of a run: rounds by row, as they are written to bench/results/ and read from there."""
from __future__ import annotations

import json
import statistics
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = FOLDER / "page.json"  # what docs/performance.md is made of
# The columns, in the order of the table, and their heads.
COLUMNS = {"native": "no sandbox", "floor": "floor, continued", "floor on behalf": "floor, on behalf", "landlock": "Landlock",
           "static": "static rules", "deny": "one deny", "default": "default profile", "default deny": "default, one deny"}
# Variants without callgate: they show what a machine takes, and cannot become worse by a change of ours.
NOT_OURS = {"native", "floor", "floor on behalf", "landlock", "same steps", "find", "script", "alone"}


class Measured:
    """The rounds of a row, each with the nanoseconds of every variant."""

    def __init__(self, name: str, rounds: list[dict[str, float]] | None = None) -> None:
        self.name, self.rounds = name, rounds or []

    def __contains__(self, variant: str) -> bool:
        return bool(self.rounds) and variant in self.rounds[0]

    def median(self, variant: str) -> float:
        return statistics.median(one[variant] for one in self.rounds)

    def ratio(self, above: str, below: str) -> float:
        return statistics.median(one[above] / one[below] for one in self.rounds)

    def difference(self, above: str, below: str) -> float:
        return statistics.median(one[above] - one[below] for one in self.rounds)

    def spread(self, variant: str) -> tuple[float, float, float]:
        """Both quartiles and the median between them, by the row's first variant; of a row of one variant, as they are."""
        base = next(iter(self.rounds[0]))
        values = [one[variant] / (one[base] if len(one) > 1 else 1) for one in self.rounds]
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, middle, high


Rows = dict[str, Measured]
LEAST = 1.01  # some rows hardly vary, and nobody would notice less than a hundredth


def write(path: Path, about: dict, rows: list[Measured]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = (f" {json.dumps(row.name)}: {json.dumps([{k: round(v, 1) for k, v in one.items()} for one in row.rounds])}" for row in rows)
    path.write_text(f'{{"version": 1, "about": {json.dumps(about)}, "rows": {{\n' + ",\n".join(lines) + "\n}}\n")


def read(path: Path) -> tuple[dict, Rows]:
    text = json.loads(path.read_text())
    if text["version"] != 1:
        raise ValueError(f"{path} is of another version: {text['version']}")
    return text["about"], {name: Measured(name, rounds) for name, rounds in text["rows"].items()}


def worse(old: Rows, new: Rows) -> list[str]:
    """Names what takes longer than before, by more than the runs' own spread: the middle halves of the rounds do not meet."""
    found = []
    for name in old:
        base = next(iter(old[name].rounds[0]))
        alone = len(old[name].rounds[0]) == 1
        for variant in old[name].rounds[0]:
            if variant in NOT_OURS or (variant == base and not alone):
                continue
            if name not in new or variant not in new[name]:
                found.append(f"not measured now  {name}: {variant}")
                continue
            if min(len(old[name].rounds), len(new[name].rounds)) < 2:  # nobody knows its spread
                found.append(f"measured once  {name}: {variant}")
                continue
            (_, was, high), (low, now, _) = old[name].spread(variant), new[name].spread(variant)
            unit, scale = (" µs", 1e-3) if alone else (f" × {base}", 1)
            if low > high * LEAST:
                found.append(f"worse  {name}: {variant} takes {now * scale:,.2f}{unit}, and took {was * scale:,.2f}")
    return found


def compare(old: Path, new: Rows) -> int:
    """Prints it: 3 where something became worse."""
    found = worse(read(old)[1], new)
    status = 3 if any(line.startswith("worse") for line in found) else 0
    print("\n".join([*found, *([] if status else [f"nothing became worse than in {old.name} by more than the spread"])]))
    return status
