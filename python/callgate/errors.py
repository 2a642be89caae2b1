"""Failures of callgate itself. A failure of the command is a `Result`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Result


class CallgateError(Exception):
    """callgate could not run the command, or was ended while it ran. The text says what to do.

    `report` is what callgate wrote about the run, {} where it wrote nothing; `result` holds what the command had
    written until then, where there is anything.
    """

    def __init__(self, message: str, report: dict[str, Any] | None = None, result: Result | None = None) -> None:
        super().__init__(message)
        self.report: dict[str, Any] = report or {}
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.report, self.result)


class CallgateNotFound(CallgateError):
    """There is no callgate program, or it cannot be executed."""


class WorkerLost(CallgateError):
    """The server or the node was lost with the job. Nobody can tell how far the job came, so it is not run again.

    `result` has the outcome `worker_lost` and the status 125.
    """

    def __init__(self, message: str) -> None:
        from .result import Result
        report = {"outcome": "worker_lost", "error": message}
        super().__init__(message, report, Result.from_report(125, report))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)
