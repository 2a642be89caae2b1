"""What all adapters share: a ready Sandbox or the words for one, (sandbox=None, **options), and what a model reads."""
from __future__ import annotations

from typing import Any

from .options import several
from .result import Result, with_hint
from .sandbox import Sandbox


def choose(sandbox: Sandbox | None, options: dict[str, Any]) -> Sandbox:
    """The given Sandbox, changed by `options`, or a new one."""
    if sandbox is None:
        return Sandbox(**options)
    return sandbox.with_options(**options) if options else sandbox


def merged(options: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Words of the Sandbox from two sources: of lists both count, of anything else the second."""
    words = dict(options)
    for name, value in more.items():
        if value != []:
            words[name] = [*several(words.get(name, ())), *value] if isinstance(value, list) else value
    return words


def told(result: Result) -> str:
    """stderr's text with the hint behind it; exactly stderr where nothing was denied."""
    return with_hint(result.error_text, result.hint())
