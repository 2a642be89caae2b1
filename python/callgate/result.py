"""The result of a run, and the text about it for a model."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

MOST_NAMED = 5
LONGEST = 200
PLAIN = ("", "no one to ask")  # reasons that do not help a model
CUT = ("The output was longer than is kept: only its beginning stands here. Write long output to a file and read parts of "
       "that.")
UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes"))
# Ends by callgate: the limit's name in the report, and what a model is told.
ENDS = {
    "memory": ("memory", "it used more memory than it may{limit}. Work on less at a time."),
    "processes": ("processes", "it had more processes and threads than it may{limit}. Start fewer at a time."),
    "cpu": ("cpu", "it used more processor time than it may{limit}. Do less at a time."),
    "disk": ("disk", "it wrote more to the disk than it may{limit}. Write less, and remove what you no longer need."),
    "idle_timeout": ("idle", "it wrote nothing and used no processor time for too long{limit}. It may have waited for input."),
    "log_full": ("", "its log became too large: it made too many calls that are recorded. Make fewer of them."),
    "killed_by_rule": ("", "a rule of the policy ends what it did. Do not try it again."),
}


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

    @classmethod
    def from_report(cls, exit_code: int, report: dict[str, Any], stdout: bytes = b"", stderr: bytes = b"",
                    truncated: bool = False) -> Result:
        outcome = report.get("outcome", "")
        return cls(exit_code=exit_code, signal=report.get("signal"), stdout=stdout, stderr=stderr,
                   timed_out=outcome in ("timeout", "idle_timeout"), cancelled=outcome == "cancelled", truncated=truncated,
                   duration_ms=report.get("duration_ms", 0), outcome=outcome,
                   denials=[Denial.from_report(one) for one in report.get("denials", [])], report=report)

    @property
    def text(self) -> str:
        """stdout; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """stderr; bytes that are not UTF-8 are replaced."""
        return self.stderr.decode("utf-8", "replace")

    def hint(self) -> str:
        """A paragraph for a model about the denials, a limit that ended the run, and output that was dropped; "" if there
        are none. After a success it leaves out denials that the program was not told of."""
        return hint(*self.told())

    def told(self) -> tuple[list[Denial], list[str]]:
        """The denials and the sentences of the hint."""
        denials = self.denials if self.exit_code != 0 else shown_to_program(self.denials)
        return denials, [*ended_by(self.report), *([CUT] if self.truncated else [])]


def visible(text: str) -> str:
    """Returns a name that a command chose on one line: escaped where it cannot be printed, cut where it is long."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    if len(shown) <= LONGEST:
        return shown
    half = LONGEST // 2
    return f"{shown[:half]}…{shown[-half:]}"


def shown_to_program(denials: list[Denial]) -> list[Denial]:
    """Denials that the program could take for such. A rule may say ENOENT: then the object only seemed to be missing."""
    return [one for one in denials if one.errno != "ENOENT"]


def ended_by(report: dict[str, Any]) -> list[str]:
    """A sentence about the limit or the rule that ended the run; nothing where the command ended otherwise."""
    outcome = report.get("outcome", "")
    if outcome not in ENDS:
        return []
    name, text = ENDS[outcome]
    limit = report.get("limits", {}).get(name, {}).get("limit")
    shown = "" if limit is None else f" ({amount(name, limit)})"
    return [f"The run was ended, with everything that it had started, because {text.format(limit=shown)}"]


def amount(name: str, limit: int) -> str:
    if name in ("cpu", "idle"):
        return f"{limit / 1000:g} s"
    if name == "processes":
        return str(limit)
    shift, unit = next(one for one in UNITS if limit % (1 << one[0]) == 0)
    return f"{limit >> shift} {unit}"


def hint(denials: list[Denial], more: Sequence[str] = ()) -> str:
    """The paragraph: it names the denials, says that they are policy, and says what to do instead. `more` are sentences
    about how the run ended."""
    sentences = []
    if denials:
        named = [f"{one.operation} {visible(one.object)}" + (f" ({visible(one.reason)})" if one.reason not in PLAIN else "")
                 for one in denials[:MOST_NAMED]]
        if len(denials) > MOST_NAMED:
            named.append(f"and {len(denials) - MOST_NAMED} more")
        sentences = [f"The sandbox policy denied: {'; '.join(named)}. This is a rule, not a fault of the command: "
                     "trying again or another way to the same end will be denied too. Do without it, work inside the work "
                     "directory, or tell the user what you need and why."]
    sentences += more
    return f"[callgate] {' '.join(sentences)}" if sentences else ""


def with_hint(text: str, told: str) -> str:
    """Appends the hint, if any, to a text that a model sees."""
    if not told:
        return text
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{told}\n"


def fitted(text: str, most: int, denials: list[Denial], more: Sequence[str] = ()) -> str:
    """The text with the paragraph behind it, together at most `most` bytes. A text that is cut is said to be."""
    whole = with_hint(text, hint(denials, more))
    if len(whole.encode("utf-8", "replace")) <= most:
        return whole
    told = f"{hint(denials, more if CUT in more else [*more, CUT])}\n".encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
    room = max(0, most - len(told.encode("utf-8", "replace")) - 1)
    kept = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    return f"{kept}{chr(10) if kept else ''}{told}"
