#!/usr/bin/python3
"""Prints the page of messages: every reason for which callgate does not start or a verb fails, from the sources.

usage: messages.py            the page
       messages.py --bare     only the messages for which no remedy is known; 1 where there is one

A message is the argument of `throw Failure(...)` or `throw SetupError(...)`; what varies in it is shown as `…`. Its remedy is
what it says itself behind its last semicolon. Elsewhere it stands in remedies.txt, by the beginning of the message.
"""
from __future__ import annotations

import pathlib
import re
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = ("agent", "base", "relay", "rules", "supervisor", "tls")
THROWN = re.compile(r"throw (?:cli::)?(Failure|SetupError)\(")
LITERAL = re.compile(r'R"\((.*?)\)"|"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": " ", "\\'": "'"}


class Message(NamedTuple):
    text: str
    place: str
    setup: bool


def argument(text: str, start: int) -> tuple[str, int]:
    """The first argument of a call, whose opening bracket stands before `start`; and where the call ends."""
    depth, place, end = 1, start, -1
    while depth:
        piece = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|.', re.DOTALL).match(text, place)
        assert piece is not None
        depth += (piece[0] in "([{") - (piece[0] in ")]}")
        if piece[0] == "," and depth == 1 and end < 0:
            end = place
        place = piece.end()
    return text[start:end if end >= 0 else place - 1], place


def shown(expression: str) -> str:
    """The literals of an expression, with `…` for everything that varies."""
    literals: list[str] = []

    def kept(found: re.Match[str]) -> str:
        literals.append(next(one for one in found.groups() if one is not None))
        return f" @{len(literals) - 1}@ "

    flat = LITERAL.sub(kept, expression)
    flat = re.sub(r"std::string\( (@\d+@) \)", r"\1", flat)
    while flat != (smaller := re.sub(r"\([^()]*\)", " varies ", flat)):  # a choice or a call varies as a whole
        flat = smaller
    out = ""
    for number, code in re.findall(r"@(\d+)@|([^@]+)", flat):
        if number:
            out += re.sub(r"\\.", lambda one: ESCAPES.get(one[0], ""), literals[int(number)])
        elif re.search(r"\w", code) and not out.endswith("…"):
            out += "…"
    return re.sub(r"\s+", " ", out).strip()


def messages() -> list[Message]:
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            text = path.read_text()
            for one in THROWN.finditer(text):
                said = shown(argument(text, one.end())[0])
                if len(re.findall(r"[A-Za-z]{2,}", said)) >= 2 and not said.startswith("…; "):
                    found.setdefault(said, Message(said, str(path.relative_to(ROOT)), one[1] == "SetupError"))
    return sorted(found.values())


def remedies() -> dict[str, str]:
    lines = (HERE / "remedies.txt").read_text().splitlines()
    return dict(line.split(" | ", 1) for line in lines if line and not line.startswith("#"))


def remedy(message: Message, known: dict[str, str]) -> str:
    _, sign, inline = message.text.removesuffix("; nothing was changed").rpartition("; ")
    inline = re.sub("^expected ", "give ", inline)
    if not sign:
        _, sign, inline = message.text.rpartition(": expected ")
        inline = "give " + inline
    inline = inline[:1].upper() + inline[1:] if not inline.startswith("callgate ") else inline
    own = [what for beginning, what in known.items() if message.text.startswith(beginning)]
    if own or not sign:
        return own[0] if own else ""
    return inline + ("" if inline.endswith((".", "…")) else ".")


def main() -> int:
    known = remedies()
    every = messages()
    if sys.argv[1:] == ["--bare"]:
        bare = [one for one in every if not remedy(one, known)]
        for one in bare:
            print(f"{one.place}: {one.text}")
        unused = [one for one in known if not any(message.text.startswith(one) for message in every)]
        for text in unused:
            print(f"tools/site/remedies.txt: no message begins so any more: {text}")
        return 1 if bare or unused else 0
    print("# Messages\n\nEach message begins with `callgate: ` and goes to standard error. The exit status is then 125, and nothing ran.\n"
          "This page is made from the sources. What varies in a message is shown as `…`.\n")
    for setup, title in ((False, "Wrong use, and what stands in the way of a verb"), (True, "What the kernel or the machine refuses")):
        print(f"## {title}\n\n| message | what to do |\n|---|---|")
        for one in every:
            if one.setup == setup:
                cell = one.text.replace("|", "\\|").replace("`", "'")
                print(f"| `{cell}` | {remedy(one, known).replace('|', chr(92) + '|').replace('<', '&lt;')} |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
