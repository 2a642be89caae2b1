"""Shared by all adapters: a ready Sandbox or the options for one (sandbox=None, **options), and the text for a model."""
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
    """Merges Sandbox options from two sources. Lists are joined; for anything else the second source wins."""
    words = dict(options)
    for name, value in more.items():
        if value != []:
            words[name] = [*several(words.get(name, ())), *value] if isinstance(value, list) else value
    return words


def told(result: Result) -> str:
    """The text of stderr, followed by the hint if something was denied."""
    return with_hint(result.error_text, result.hint())
