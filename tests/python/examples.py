"""Blocks of Python in the documentation, run in their order; what follows a block is what it printed."""
from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```\n(?P<output>.*?)```\n)?", re.DOTALL)


def told(text: str) -> str:
    """Spaces at line ends are no matter."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_examples(page: str, workdir: Path, heading: str = "") -> int:
    """Runs the page's blocks, or those beneath one heading; how many there were."""
    text = (PAGES / page).read_text()
    if heading:
        text = text[text.index(f"\n## {heading}\n"):]
        text = text[:text.find("\n## ", 4)]
    names: dict[str, object] = {"__name__": "__main__"}
    found = list(BLOCK.finditer(text))
    for one in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(one["code"], page, "exec"), names)
        assert told(printed.getvalue().replace(str(workdir), "WORKDIR")) == told(one["output"] or ""), one["code"]
    return len(found)
