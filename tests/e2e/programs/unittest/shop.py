"""Prices, kept in a file."""
import json
import pathlib


def total(prices: dict[str, int], names: list[str]) -> int:
    return sum(prices[name] for name in names)


def save(path: pathlib.Path, prices: dict[str, int]) -> None:
    path.write_text(json.dumps(prices))


def load(path: pathlib.Path) -> dict[str, int]:
    return json.loads(path.read_text())
