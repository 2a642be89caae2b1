"""Questions of a run and their answers: the protocol of `--ask fd:N` (docs/approvals.md), without any waiting."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
from collections.abc import Awaitable
from typing import Any, Callable, Union

from .errors import CallgateError


@dataclasses.dataclass(frozen=True)
class Question:
    """A call that waits. `object` is a path, HOST:PORT or a socket's name; `message` is the whole message from callgate."""

    id: int
    key: str
    operation: str
    operations: tuple[str, ...]
    object: str
    program: str
    argv: tuple[str, ...]
    pid: int
    rule: str
    reason: str
    scopes: tuple[str, ...]
    deadline_ms: int
    message: dict[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_message(cls, told: dict[str, Any]) -> Question:
        asked, process = told["object"], told["process"]
        name = asked.get("path") or asked.get("host") or asked.get("address") or asked.get("name") or ""
        return cls(id=told["id"], key=told["key"], operation=told["operation"], operations=tuple(told["operations"]),
                   object=name, program=process["program"], argv=tuple(process["argv"]), pid=process["pid"],
                   rule=told["rule"], reason=told["reason"] or "", scopes=tuple(told["scopes"]),
                   deadline_ms=told["deadline_ms"], message=told)


@dataclasses.dataclass(frozen=True)
class Answer:
    """`verdict`: allow, deny or kill. `scope`: once, object or tree, as far as the question offers it.

    A denial may have the scope run: all further questions of the run are denied.
    """

    verdict: str
    scope: str = "once"
    reason: str = ""

    @classmethod
    def of(cls, said: Any) -> Answer:
        """True and False, a verdict, or an Answer; None denies."""
        if isinstance(said, Answer):
            answer = said
        elif said is None or isinstance(said, bool):
            answer = cls("allow" if said else "deny")
        elif isinstance(said, str):
            answer = cls(said)
        else:
            raise CallgateError(f"on_ask gave {said!r}; expected True, False, 'allow', 'deny', 'kill' or an Answer")
        if answer.verdict not in ("allow", "deny", "kill"):
            raise CallgateError(f"on_ask gave the verdict {answer.verdict!r}; expected 'allow', 'deny' or 'kill'")
        if answer.scope not in ("once", "object", "tree", "run"):
            raise CallgateError(f"on_ask gave the scope {answer.scope!r}; expected 'once', 'object', 'tree' or 'run'")
        return answer


Said = Union[None, bool, str, Answer]
OnAsk = Callable[[Question], Union[Said, Awaitable[Said]]]
DENY = Answer("deny")


class Channel:
    """The near end of the socket pair. `receive` returns news; any thread may call `answer`."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.buffer = b""
        self.open: dict[int, Question] = {}

    def receive(self) -> tuple[list[Question], list[int]] | None:
        """New questions, and numbers of withdrawn ones; None at the end. Never waits."""
        try:
            got = self.ours.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return [], []
        except OSError:
            got = b""
        if not got:
            return None
        *lines, self.buffer = (self.buffer + got).split(b"\n")
        asked, withdrawn = [], []
        for message in map(json.loads, lines):
            if message["type"] == "ask":
                question = Question.from_message(message)
                self.open[question.id] = question
                asked.append(question)
            elif message["type"] == "withdrawn":
                self.open.pop(message["id"], None)
                withdrawn.append(message["id"])
        return asked, withdrawn

    def answer(self, question: Question, answer: Answer) -> None:
        """Sends the decision; nothing where the question is not open any more. A run that does not read is denied."""
        if self.open.pop(question.id, None) is None:
            return
        decision: dict[str, Any] = {"v": 1, "type": "decision", "id": question.id, "key": question.key,
                                    "verdict": answer.verdict, "scope": answer.scope}
        if answer.reason:
            decision["reason"] = answer.reason
        try:
            self.ours.sendall(json.dumps(decision).encode() + b"\n", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # the run has ended, or reads no more: what is asked is denied
            self.buffer = b""
            with contextlib.suppress(OSError):
                self.ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()
