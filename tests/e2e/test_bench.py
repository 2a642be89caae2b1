"""Results of the bench: what became worse is named, and docs/performance.md says what its results say. Nothing is measured here."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import memory  # noqa: E402
import page  # noqa: E402
import results  # noqa: E402


def row(name: str, **variants: list[float]) -> results.Measured:
    return results.Measured(name, [dict(zip(variants, one)) for one in zip(*variants.values())])


# Bare 10 µs; ours 30 to 32 µs.
OLD = [row("open", native=[10e3] * 5, floor=[20e3] * 5, callgate=[30e3, 30.5e3, 31e3, 31.5e3, 32e3]), row("alone", took=[5e3, 5.1e3, 5.2e3])]


def compared(tmp_path: Path, *new: results.Measured) -> tuple[int, list[str]]:
    for name, rows in (("old", OLD), ("new", new)):
        results.write(tmp_path / f"{name}.json", {"date": "2026-01-01"}, list(rows))
    done = subprocess.run([sys.executable, ROOT / "bench/run.py", "--compare", tmp_path / "old.json", tmp_path / "new.json"],
                          capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_what_is_written_is_read_as_it_was(tmp_path):
    results.write(tmp_path / "made.json", {"date": "2026-01-01"}, OLD)
    about, rows = results.read(tmp_path / "made.json")
    assert about == {"date": "2026-01-01"} and [(name, one.rounds) for name, one in rows.items()] == [(one.name, one.rounds) for one in OLD]


def test_the_same_results_are_not_worse(tmp_path):
    assert compared(tmp_path, *OLD) == (0, ["nothing became worse than in old.json by more than the spread"])


@pytest.mark.parametrize(("new", "status"), [
    ([32e3, 32.1e3, 32.2e3, 32.3e3, 32.4e3], 3),  # all beyond the old upper quartile
    ([30e3, 31e3, 33e3, 35e3, 36e3], 0),  # slower, but within the spread
    ([20e3, 21e3, 22e3, 23e3, 24e3], 0),  # faster
])
def test_more_than_the_spread_is_worse(tmp_path, new, status):
    found, lines = compared(tmp_path, row("open", native=[10e3] * 5, floor=[20e3] * 5, callgate=new), OLD[1])
    assert found == status, lines
    assert lines == (["worse  open: callgate takes 3.22 × native, and took 3.10"] if status else lines[:1])


def test_a_slower_machine_is_not_worse_and_a_slower_floor_is_not_ours(tmp_path):
    slower = row("open", native=[20e3] * 5, floor=[90e3] * 5, callgate=[60e3, 61e3, 62e3, 63e3, 64e3])
    assert compared(tmp_path, slower, OLD[1])[0] == 0


def test_a_row_of_one_variant_is_compared_as_it_is(tmp_path):
    assert compared(tmp_path, OLD[0], row("alone", took=[6e3, 6.1e3, 6.2e3])) == (3, ["worse  alone: took takes 6.10 µs, and took 5.10"])


def test_what_was_measured_once_has_no_spread(tmp_path):
    once = results.Measured("open", [{"native": 10e3, "floor": 20e3, "callgate": 90e3}])
    assert compared(tmp_path, once, OLD[1]) == (0, ["measured once  open: callgate", "nothing became worse than in old.json by more than the spread"])


def test_what_was_not_measured_is_told_and_is_no_failure(tmp_path):
    assert compared(tmp_path, OLD[0]) == (0, ["not measured now  alone: took", "nothing became worse than in old.json by more than the spread"])


@pytest.mark.parametrize("part", page.PARTS)
def test_the_page_says_what_its_results_say(part):
    made = subprocess.run([sys.executable, ROOT / "bench/page.py", part], capture_output=True, text=True, check=True).stdout
    done = subprocess.run([sys.executable, ROOT / "tools/insert.py", "--check", "--markdown", ROOT / "docs/performance.md", part],
                          input=made, text=True, check=False)
    assert done.returncode == 0, "./dev docs writes it anew"


def test_the_results_of_the_page_name_neither_a_path_nor_a_host():
    text = results.PAGE.read_text()
    assert os.uname().nodename not in text and "/root" not in text and "/tmp" not in text
    about, rows = results.read(results.PAGE)
    assert set(about) == {"date", "commit", "rounds", "memory_calls", "linux", "processors", "real_time", "in_memory"}
    assert memory.NAME in rows and all(row.rounds for row in rows.values())
