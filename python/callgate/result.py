"""What a run came to, and what a model should read about it."""
from __future__ import annotations

import dataclasses
from typing import Any

MOST_NAMED = 5
LONGEST = 200
PLAIN = ("", "no one to ask")  # reasons that tell a model nothing


@dataclasses.dataclass(frozen=True)
class Denial:
    """One thing that was denied, or that would have been in audit mode. `option` would allow it; "" where none does."""

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
    """The end of a run. `exit_code` is what a shell would say: 128+N for signal N, 124 after the timeout, 127 not found.

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
        """One paragraph for a model about what was denied; "" where nothing was."""
        return hint(self.denials)


def visible(text: str) -> str:
    """A name that a command chose, on one line: what cannot be printed is escaped, what is long is cut."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    if len(shown) <= LONGEST:
        return shown
    half = LONGEST // 2
    return f"{shown[:half]}…{shown[-half:]}"


def hint(denials: list[Denial]) -> str:
    """What was denied, that it is policy, and what may be done instead."""
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
    """Text that a model sees, with the hint behind it; exactly the text where there is no hint."""
    if not told:
        return text
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{told}\n"
