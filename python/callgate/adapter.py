"""Shared by all adapters: a ready Sandbox or the options for one (sandbox=None, **options), and the text for a model."""
from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

from .options import several
from .result import CUT, Denial, Result, fitted, with_hint
from .sandbox import MOST_OUTPUT, Sandbox

# A model is shown at most 100,000 bytes of one command if its framework has no bound of its own, with all notes. Some
# frameworks add a line of theirs.
MOST = 100_000 - 500

# For scripts of file functions, whose name is in $1. A command may have made a FIFO there, or a link to a device. To open it, or
# to read it to its end, would last for ever. So would a sparse file: it is read by `head -c`.
REGULAR = '[ ! -e "$1" ] || [ -f "$1" ] || { echo "$1: no regular file" >&2; exit 45; }'


def choose(sandbox: Sandbox | None, options: dict[str, Any], most: int = MOST) -> Sandbox:
    """The given Sandbox, changed by `options`, or a new one. It keeps `most` bytes of output unless `max_output` is given."""
    if "max_output" not in options and (sandbox is None or sandbox.max_output == MOST_OUTPUT):
        options = {**options, "max_output": most}
    return Sandbox(**options) if sandbox is None else sandbox.with_options(**options)


def is_own_user(user: str | int | None) -> bool:
    """Whether commands run as `user` (a name or an id) anyway: callgate runs them as the user of this program."""
    return user is None or str(user) in (str(os.geteuid()), pwd.getpwuid(os.geteuid()).pw_name)


def merged(options: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Merges Sandbox options from two sources. Lists are joined; for anything else the second source wins."""
    words = dict(options)
    for name, value in more.items():
        if value != []:
            words[name] = [*several(words.get(name, ())), *value] if isinstance(value, list) else value
    return words


def told(result: Result) -> str:
    """The text of stderr, followed by the hint if there is one."""
    return with_hint(result.error_text, result.hint())


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def lateness(result: Result, seconds: float | None) -> str:
    """Which of its times the run overstepped."""
    if result.outcome == "idle_timeout":
        return "was idle for too long"
    return "timed out" if seconds is None else f"timed out after {seconds:g} seconds"


def whole(result: Result, text: str, most: int) -> str:
    """A text about the run with the hint behind it, together at most `most` bytes."""
    return fitted(text, most, *result.told())


def apart(result: Result, most: int, note: str = "") -> tuple[str, str]:
    """stdout, and stderr with `note` and the hint behind it, together at most `most` bytes. Of a text that is too long, each
    keeps its beginning."""
    output, errors = result.text, with_hint(result.error_text, note)
    denials, more = result.told()
    hint = with_hint("", result.hint())
    kept, rest, cut = shares(output, errors, most - size(hint) - 1)
    if cut and CUT not in more:
        more = [*more, CUT]
        kept, rest, cut = shares(output, errors, most - size(fitted("", most, denials, more)) - 1)
    return kept, fitted(rest, most - size(kept), denials, more)


def shares(output: str, errors: str, most: int, measure: Callable[[str], int] = size) -> tuple[str, str, bool]:
    """Both texts, at most `most` large together, and whether one was cut. The larger one is cut, to its beginning; if both
    are large each has half."""
    kept = cut_to(output, most - min(measure(errors), most // 2), measure)
    rest = cut_to(errors, most - measure(kept), measure)
    return kept, rest, kept != output or rest != errors


def cut_to(text: str, most: int, measure: Callable[[str], int] = size) -> str:
    """The beginning of the text that measures at most `most`."""
    while text and (now := measure(text)) > most:
        text = text[:len(text) * max(most, 0) // now]
    return text


class Told:
    """The text of several runs for a model: their outputs, at most `most` bytes, with one paragraph behind them."""

    def __init__(self, most: int) -> None:
        self._most, self._text = most, ""
        self._denials, self._more = list[Denial](), list[str]()

    def add(self, result: Result) -> None:
        """stderr, then stdout."""
        denials, more = result.told()
        self._denials += denials
        self._text += result.error_text + result.text
        if size(self._text) > self._most:
            self._text, more = cut_to(self._text, self._most), [*more, CUT]
        self._more += [one for one in more if one not in self._more]

    def text(self, last: str = "") -> str:
        """All of it; `last` stands at the end."""
        return fitted(self._text, self._most - size(last), self._denials, self._more) + last
