"""What all adapters share: the words of the Sandbox, and the hint behind what a model reads."""
from __future__ import annotations

from typing import Any

from .result import Result, with_hint
from .sandbox import Sandbox


class Adapter:
    """Takes a ready Sandbox or the words for one: (sandbox=None, **options)."""

    sandbox: Sandbox

    def use(self, sandbox: Sandbox | None, options: dict[str, Any]) -> None:
        self.sandbox = choose(sandbox, options)


def choose(sandbox: Sandbox | None, options: dict[str, Any]) -> Sandbox:
    """The given Sandbox, changed by `options`, or a new one."""
    if sandbox is None:
        return Sandbox(**options)
    return sandbox.with_options(**options) if options else sandbox


def told(result: Result) -> str:
    """stderr's text with the hint behind it; exactly stderr where nothing was denied."""
    return with_hint(result.error_text, result.hint())
