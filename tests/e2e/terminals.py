"""An interactive session on a terminal of its own: lines typed, keys pressed, and what appeared until the next prompt."""
from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path

import harness

PROMPT = "ready> "
SETTINGS = f"PS1='{PROMPT}'\nunset HISTFILE\nbind 'set enable-bracketed-paste off'\n"
SHELL = ["bash", "--noprofile", "--rcfile", "rc", "-i"]
PATIENCE = 120.0


class Session:
    """`line` with a new terminal as its controlling one. Everything that is read is kept, step by step."""

    def __init__(self, box: harness.Box, line: list[str], work: Path) -> None:
        self.master, slave = pty.openpty()
        self.resize(24, 80)
        try:
            self.process = box.start(
                line, stdin=slave, stdout=slave, stderr=slave, cwd=work, start_new_session=True,
                env=box.environment(), preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        finally:
            os.close(slave)
        self.steps: list[str] = []
        self.unread = ""  # read, but of no step yet
        self.prompt()

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def prompt(self) -> None:
        """Keeps what appears up to the next prompt."""
        if PROMPT not in self.unread:
            self.unread += harness.read_until(self.master, PROMPT.encode(), PATIENCE).decode()
        self.steps.append(self.unread)
        self.unread = ""

    def lines(self, count: int) -> None:
        """Until so many lines have come: a key that makes a signal throws away what was not read yet."""
        while self.unread.count("\n") < count:
            self.unread += harness.read_until(self.master, b"\n", PATIENCE).decode()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def do(self, line: str) -> None:
        self.type(line + "\n")
        self.prompt()

    def wait_for(self, name: str, state: str, foreground: bool | None = None) -> None:
        """Until a process called `name` beneath the session is in `state`, and in the terminal's foreground or not."""

        def there() -> bool:
            for pid in harness.descendants(self.process.pid):
                try:
                    if Path(f"/proc/{pid}/comm").read_text().strip() != name:
                        continue
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if fields[0] == state and (foreground is None or foreground == (fields[2] == fields[5])):
                    return True
            return False

        harness.until(there, f"{name} in state {state}; so far: {self.steps}", PATIENCE)

    def one_step(self) -> None:
        """Makes one of the last two steps: of what the shell tells at either of two prompts."""
        self.steps[-2:] = ["".join(self.steps[-2:])]

    def leave(self, line: str) -> int:
        self.type(line + "\n")
        code = self.process.wait(PATIENCE)
        os.close(self.master)
        return code

    def transcript(self, *rewrites: tuple[str, str]) -> list[list[str]]:
        """The lines of each step, sorted (a job's end is told before or after other output), without process numbers.
        A terminal does not show that it was asked for its cursor."""
        shown = []
        for step in self.steps:
            for pattern, replacement in ((r"\r", ""), (r"\x1b\[6n", ""), (r"^(\[\d+\]) \d+$", r"\1 PID"), *rewrites):
                step = re.sub(pattern, replacement, step, flags=re.MULTILINE)
            shown.append(sorted(line for line in step.split("\n") if line))
        return shown
