"""The person's terminal, with a run or a shell on it: a pty whose bytes are seen, or tmux, whose screen is."""
from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
from pathlib import Path

import harness
from approvers import runtime

PROMPT = "outer$ "
SHELL = ["/bin/bash", "--norc", "--noprofile", "-i"]


def inputrc(box: harness.Box) -> Path:
    """bash then says nothing to the terminal but its prompt."""
    return box.file(box.root / "inputrc", b"set enable-bracketed-paste off\n")


class Outer:
    """A pty. Everything that appears on it is kept."""

    def __init__(self, box: harness.Box, line: list[str], term: str = "xterm", rows: int = 40, columns: int = 150, **more) -> None:
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

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def more(self) -> str:
        assert select.select([self.master], [], [], harness.DEADLINE)[0], f"nothing more came after {self.text!r}"
        got = os.read(self.master, 65536)
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
        return self.sees("\r\n> ")

    def end(self) -> int:
        try:
            while True:
                self.text += self.more()
        except OSError:
            pass  # EIO: nobody holds the other side any more
        return self.process.wait(harness.DEADLINE)

    def close(self) -> None:
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
