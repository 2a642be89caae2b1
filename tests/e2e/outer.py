"""The person's terminal, with a run or a shell on it: a pty whose bytes are seen, or tmux, whose screen is."""
from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import termios
import threading
from pathlib import Path

import harness
from approvers import runtime

PROMPT = "outer$ "
SHELL = ["/bin/bash", "--norc", "--noprofile", "-i"]


def inputrc(box: harness.Box) -> Path:
    """bash then says nothing to the terminal but its prompt."""
    return box.file(box.root / "inputrc", b"set enable-bracketed-paste off\n")


class Cursor:
    """A terminal's cursor, as far as callgate and plain programs move it: it answers who asks for its position."""

    token = re.compile(r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])|\x1b[\]P_^X].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+",
                       re.DOTALL)

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns, self.row, self.column, self.saved, self.rest = rows, columns, 1, 1, (1, 1), ""

    def feed(self, text: str) -> str:
        """The answers. An unfinished sequence waits for the rest."""
        text, answers = self.rest + text, ""
        cut = text.rfind("\x1b")
        self.rest = text[cut:] if cut >= 0 and not self.token.match(text, cut) else ""
        for found in self.token.finditer(text[:len(text) - len(self.rest)]):
            word, parameters, final = found.group(0), found.group(1), found.group(2)
            if final == "H":
                numbers = [int(one or 1) for one in (parameters or "1").split(";")] + [1]
                self.row, self.column = min(numbers[0], self.rows), min(numbers[1], self.columns)
            elif final == "r":
                self.row = self.column = 1
            elif final == "n" and parameters == "6":
                answers += f"\x1b[{self.row};{self.column}R"
            elif final in ("h", "l") and parameters == "?1049":
                if final == "h":
                    self.saved = self.row, self.column
                else:
                    self.row, self.column = self.saved
            elif word == "\n":
                self.row = min(self.row + 1, self.rows)
            elif word == "\r":
                self.column = 1
            elif word == "\b":
                self.column = max(self.column - 1, 1)
            elif word[0] >= " " and word[0] != "\x7f":
                for _ in word:
                    if self.column > self.columns:
                        self.row, self.column = min(self.row + 1, self.rows), 1
                    self.column += 1
        return answers


class Outer:
    """A pty. Everything that appears on it is kept. `answers`: it says where its cursor is, as terminals do."""

    def __init__(self, box: harness.Box, line: list[str], term: str = "xterm", rows: int = 40, columns: int = 150, answers: bool = True,
                 **more) -> None:
        self.box = box
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        environment = {**box.environment(runtime(box)), "TERM": term, "PS1": PROMPT,
                       "INPUTRC": str(inputrc(box))}
        try:
            self.process = box.start(line, **{"stdin": slave, "stdout": slave, "stderr": slave, **more}, env=environment,
                                     start_new_session=True, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
                                     pass_fds=(slave,))
        finally:
            self.name = os.ttyname(slave)
            os.close(slave)
        self.text, self.all = "", b""
        self.come, self.over = threading.Condition(), False
        self.pieces: list[bytes] = []
        self.cursor = Cursor(rows, columns) if answers else None
        self.closing, self.closed = os.pipe()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        """A terminal reads all the time, whatever the test waits for. A read may end within a character."""
        whole = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while self.closing not in select.select([self.master, self.closing], [], [])[0]:
                got = os.read(self.master, 65536)
                with self.come:
                    self.pieces.append(got)
                    self.come.notify()
                if self.cursor and (answers := self.cursor.feed(whole.decode(got))):
                    os.write(self.master, answers.encode())
        except OSError:
            pass  # EIO: nobody holds the other side any more
        with self.come:
            self.over = True
            self.come.notify()

    def resize(self, rows: int, columns: int) -> None:
        if getattr(self, "cursor", None):
            self.cursor.rows, self.cursor.columns = rows, columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def more(self) -> str:
        with self.come:
            assert self.come.wait_for(lambda: self.pieces or self.over, harness.DEADLINE), f"nothing more came after {self.text!r}"
            if not self.pieces:
                raise OSError(f"the terminal is closed after {self.text!r}")
            got, self.pieces = b"".join(self.pieces), []
        self.all += got
        return got.decode("utf-8", "backslashreplace")

    def sees(self, wanted: str) -> str:
        while wanted not in self.text:
            self.text += self.more()
        before, _, self.text = self.text.partition(wanted)
        return before + wanted

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def prompted(self) -> str:
        """Until a prompt is there and its mark, which appears when keys count."""
        return self.sees("H> ")

    def end(self) -> int:
        try:
            while True:
                self.text += self.more()
        except OSError:
            pass
        return self.process.wait(harness.DEADLINE)

    def close(self) -> None:
        os.close(self.closed)
        self.reader.join()
        os.close(self.master)


def shell(box: harness.Box, **more) -> Outer:
    """An interactive shell, with job control."""
    outer = Outer(box, SHELL, **more)
    outer.sees(PROMPT)
    return outer


class Tmux:
    """A command in a tmux of its own: what a person sees of it."""

    count = 0

    def __init__(self, box: harness.Box, line: list[str], columns: int = 100, rows: int = 30, term: str = "") -> None:
        self.box, self.socket = box, Tmux.next_socket(box)
        Tmux.count += 1
        self.server = ["tmux", "-S", str(self.socket), "-f", "/dev/null"]
        self.environment = {**box.environment(runtime(box)), "TERM": "xterm", "PS1": PROMPT,
                            "LC_ALL": "C.UTF-8"}
        start = ["set", "-g", "remain-on-exit", "on", ";", *(["set", "-g", "default-terminal", term, ";"] if term else [])]
        self.do(*start, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-s", "s", shlex.join(line))

    @staticmethod
    def next_socket(box: harness.Box) -> Path:
        """The path where the next one will listen."""
        return box.root / f"tmux-{Tmux.count}"

    def do(self, *words: str) -> str:
        """Runs a command of tmux in the box. If the user cannot search the current directory, tmux takes the home
        instead."""
        return subprocess.run([*self.server, *words], capture_output=True, text=True, check=True, env=self.environment,
                              cwd=self.box.tree, **self.box.user.popen_identity()).stdout

    def type(self, *keys: str) -> None:
        self.do("send-keys", *keys)

    def screen(self) -> str:
        return self.do("capture-pane", "-p")

    def sees(self, wanted: str) -> str:
        """The screen, when it holds `wanted`."""
        return self.until(lambda screen: wanted in screen, wanted)

    def until(self, condition, what: str) -> str:
        seen = [""]

        def there() -> bool:
            seen[0] = self.screen()
            return condition(seen[0])

        try:
            harness.until(there, what)
        except AssertionError as late:
            raise AssertionError(f"{late}; the screen is\n{seen[0]}") from late
        return seen[0]

    def prompted(self) -> str:
        """The screen with a prompt at which keys count."""
        return self.until(lambda screen: "question" in screen and ">" in screen.split("\n"), "a prompt and its mark")

    def resize(self, columns: int, rows: int) -> None:
        self.do("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """Until nothing of it is left: a run takes its files away at its end."""
        panes = self.do("list-panes", "-s", "-F", "#{pane_pid}").split()
        left = {pid for pane in map(int, panes) for pid in (pane, *harness.descendants(pane))}
        subprocess.run([*self.server, "kill-server"], env=self.environment, capture_output=True, cwd=self.box.tree,
                       **self.box.user.popen_identity())
        harness.until(lambda: not any(map(harness.alive, left)), "the end of what ran in tmux")
