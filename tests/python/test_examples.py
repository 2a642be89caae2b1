"""docs/python.md is run."""
from __future__ import annotations

from examples import run_examples


def test_the_page(workdir):
    assert run_examples("python.md", workdir) >= 10
