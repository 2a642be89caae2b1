"""A model without a model: does something allowed, then something denied, reads the hint, and recovers."""
from __future__ import annotations

from pathlib import Path

from questions import HINT

ALLOWED, RECOVERED = "echo fine > allowed; cat allowed", "echo moved > inside; cat inside"


class Script:
    """`next` gets what the last command came to, as the model reads it, and gives the next command; None at the end."""

    def __init__(self, outside: Path, workdir: Path, code: bool = False) -> None:
        self.outside, self.workdir, self.code = outside, workdir, code
        self.read: list[str] = []

    def commands(self) -> list[str]:
        return [ALLOWED, f"echo x > {self.outside}", RECOVERED]

    def next(self, last: str | None) -> str | None:
        if last is not None:
            self.read.append(last)
        at = len(self.read)
        if at == 0:
            return self.commands()[0]
        if at == 1:
            assert "fine" in self.read[0] and "callgate" not in self.read[0], self.read
            return self.commands()[1]
        if at == 2 and HINT in self.read[1] and str(self.outside) in self.read[1]:
            return self.commands()[2]
        return None

    def check(self) -> None:
        assert len(self.read) == 3, self.read
        assert "moved" in self.read[2] and HINT not in self.read[2], self.read
        assert not self.outside.exists()
        assert (self.workdir / "allowed").read_text() == "fine\n" and (self.workdir / "inside").read_text() == "moved\n"
