"""The Python package, with the distribution's Python."""
from __future__ import annotations

import executors


def test_the_client(box, measured):
    said = executors.suite(box, ["test_client.py", "test_on_ask.py", "test_faults.py", "test_policy.py", "test_pool.py"])
    assert " passed" in said
    measured += [f"{box.user.kind}: {line.partition('measured: ')[2]}" for line in said.splitlines() if line.startswith("measured: ")]


def test_the_examples_of_the_documentation(box):
    assert " passed" in executors.suite(box, ["test_examples.py"])
