"""docs/python.md: every block of Python is run, in its order, and what follows it is what it printed."""
from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```\n(?P<output>.*?)```\n)?", re.DOTALL)


def examples(page: str) -> list[re.Match[str]]:
    return list(BLOCK.finditer((PAGES / page).read_text()))


def told(text: str) -> str:
    """Line ends of tables are no matter."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", ["python.md"])
def test_a_page(page, workdir):
    found = examples(page)
    assert len(found) >= 5
    names: dict[str, object] = {"__name__": "__main__"}
    for one in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(one["code"], page, "exec"), names)
        assert told(printed.getvalue().replace(str(workdir), "WORKDIR")) == told(one["output"] or ""), one["code"]
