"""The result of a run, and the text about it for a model."""
from __future__ import annotations

import dataclasses
from typing import Any

MOST_NAMED = 5
LONGEST = 200
PLAIN = ("", "no one to ask")  # reasons that do not help a model


@dataclasses.dataclass(frozen=True)
class Denial:
    """A denied call, or one that audit mode would have denied. `option` would allow it; "" if none does,
    and where a rule denies it."""

    operation: str
    object: str
    rule: str
    reason: str = ""
    program: str = ""
    pid: int = 0
    errno: str | None = None
    count: int = 1
    option: str = ""

    @classmethod
    def from_report(cls, told: dict[str, Any]) -> Denial:
        return cls(operation=told["operation"], object=told["object"], rule=told["rule"], reason=told.get("reason") or "",
                   program=told.get("program", ""), pid=told.get("pid", 0), errno=told.get("errno"),
                   count=told.get("count", 1), option=told.get("hint") or "")


@dataclasses.dataclass
class Result:
    """The end of a run. `exit_code` is as a shell has it: 128+N for signal N, 124 after the timeout, 127 not found.

    `truncated`: more than `max_output` bytes came on stdout or stderr; the rest was read and dropped.
    """

    exit_code: int
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    cancelled: bool
    truncated: bool
    duration_ms: int
    outcome: str
    denials: list[Denial]
    report: dict[str, Any]

    @property
    def text(self) -> str:
        """stdout; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """stderr; bytes that are not UTF-8 are replaced."""
        return self.stderr.decode("utf-8", "replace")

    def hint(self) -> str:
        """A paragraph for a model about the denials; "" if there are none."""
        return hint(self.denials)


def visible(text: str) -> str:
    """Returns a name that a command chose on one line: escaped where it cannot be printed, cut where it is long."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    if len(shown) <= LONGEST:
        return shown
    half = LONGEST // 2
    return f"{shown[:half]}…{shown[-half:]}"


def hint(denials: list[Denial]) -> str:
    """The paragraph: it names the denials, says that they are policy, and says what to do instead."""
    if not denials:
        return ""
    named = [f"{one.operation} {visible(one.object)}" + (f" ({visible(one.reason)})" if one.reason not in PLAIN else "")
             for one in denials[:MOST_NAMED]]
    if len(denials) > MOST_NAMED:
        named.append(f"and {len(denials) - MOST_NAMED} more")
    return (f"[callgate] The sandbox policy denied: {'; '.join(named)}. This is a rule, not a fault of the command: "
            "trying again or another way to the same end will be denied too. Do without it, work inside the work "
            "directory, or tell the user what you need and why.")


def with_hint(text: str, told: str) -> str:
    """Appends the hint, if any, to a text that a model sees."""
    if not told:
        return text
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{told}\n"
