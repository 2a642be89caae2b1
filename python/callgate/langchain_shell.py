"""The shell of a LangChain session. It stands where the framework expects a `subprocess.Popen`.

The framework types a command, and a second line that prints a marker with the exit status. The marker's number cannot be
guessed. It is read here from what the framework types, so the end of each command is known. One paragraph about denials
goes before the marker, and each command has its share of output. A shell that ends is answered for at once, and the next
command gets a new one. A command owns its shell: it can read the marker there, and then spoils its own answer alone.
"""
from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import threading
from typing import Any, Callable

from .exchange import MOST_REPORTED, PIECE, read_report
from .live import MOST_KEPT, Records
from .result import CUT, Denial, ended_by, hint, shown_to_program

MARKER = re.compile(r"printf '(\w+) %s\\n' \$\?\n")
RESERVE = 10_000  # bytes that the paragraph may need, beside its line
KILLED = "137"  # a command's status where SIGKILL ended it, as the kernel does at a limit of memory
LOOKED_AT = 1.0  # seconds; callgate looks at such limits every 50 ms, and ends the whole run then
PREFIX = 9  # characters that the framework puts before each line of stderr
LOST = "This command has a new shell, without the variables and the directory of the one before."
ANEW = "The next command has a new shell, without the variables and the directory of this one."

Start = Callable[[dict[str, int]], "subprocess.Popen[bytes]"]


class Shell:
    """`start` starts a shell whose `stdout`, `stderr`, `log` and `report` are the given descriptors."""

    def __init__(self, start: Start, most_lines: int, most: int) -> None:
        self._start, self._most_lines, self._most = start, most_lines, most
        self._lock = threading.RLock()
        self._sinks = dict[str, int]()
        self._marker, self._closing, self._lost = "", False, list[str]()
        readers = {}
        for name in ("stdout", "stderr"):
            readers[name], self._sinks[name] = os.pipe()
        self._begin_command("")
        try:
            self._begin_shell()
        except BaseException:
            for one in (*readers.values(), *self._sinks.values()):
                os.close(one)
            raise
        self.stdin = self
        self.stdout = os.fdopen(readers["stdout"], "r", encoding="utf-8", errors="replace")
        self.stderr = os.fdopen(readers["stderr"], "r", encoding="utf-8", errors="replace")

    # The framework asks these of a process.
    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The session goes on when a shell has ended."""
        return self._process.poll() if self._closing else None

    def wait(self, timeout: float | None = None) -> int:
        """The framework waits only to end the session."""
        with self._lock:
            self._closing = True
            if self._over:
                self._close_sinks()
        return self._process.wait(timeout)

    def kill(self) -> None:
        self._closing = True
        self._process.kill()

    # It asks these of the process's stdin.
    def write(self, text: str) -> None:
        with self._lock:
            found = MARKER.fullmatch(text)
            if found:
                self._marker = found[1]
            elif self._over and text != "exit\n":
                self._begin_shell()
            if not found:
                self._begin_command("")
            elif self._over:
                self._end_command(None)
        with contextlib.suppress(OSError):  # the shell has ended: its thread answers
            view = memoryview(text.encode("utf-8", "replace"))
            while view:
                view = view[os.write(self._input, view):]

    def flush(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()

    def _begin_shell(self) -> None:
        reading, writing = dict[str, int](), dict[str, int]()
        for name in ("log", "stdout", "stderr", "report"):
            reading[name], writing[name] = os.pipe()
        try:
            self._process = self._start(writing)
        except BaseException:
            for one in reading.values():
                os.close(one)
            raise
        finally:
            for one in writing.values():
                os.close(one)
        assert self._process.stdin
        self._input, self._over, self._report = self._process.stdin.fileno(), False, bytearray()
        self._records, self._reading = Records(), reading
        threading.Thread(target=self._work, args=(reading,), name="callgate shell", daemon=True).start()

    def _begin_command(self, marker: str) -> None:
        self._marker, self._denials = marker, dict[tuple[str, str], Denial]()
        self._sent = self._lines = 0
        self._later: list[tuple[str, str]] = []
        self._held, self._dropped, self._fresh = "", False, True
        self._begun = set[str]()  # streams within a line

    def _work(self, reading: dict[str, int]) -> None:
        """Reads until the whole run is over. A denial is in the log, and stderr has its text, before a marker is written."""
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        os.set_blocking(reading["log"], False)
        open_ones, poller = dict(reading), select.poll()
        for one in reading.values():
            poller.register(one, select.POLLIN)
        while open_ones:
            ready = {descriptor for descriptor, _ in poller.poll()}
            with self._lock:
                if "log" in open_ones and not self._read_log(reading["log"]):
                    poller.unregister(open_ones.pop("log"))
                for name in ("stderr", "stdout", "report"):
                    if open_ones.get(name) not in ready:
                        continue
                    piece = os.read(reading[name], PIECE)
                    if name == "stdout":  # the marker may be in it: what came before the marker is read now
                        if "log" in open_ones:
                            self._read_log(reading["log"])
                        if "stderr" in open_ones:
                            self._read_all(reading["stderr"], decoders["stderr"])
                    if name == "report":
                        self._report += piece[:MOST_REPORTED - len(self._report)]
                    else:
                        self._take(name, decoders[name].decode(piece, not piece))
                    if not piece:
                        poller.unregister(open_ones.pop(name))
        for one in reading.values():
            os.close(one)
        self._process.wait()
        with self._lock:
            self._over = True
            self._out(self._held)
            self._held = ""
            self._lost = [f"The shell had ended before this command. {' '.join(self._ended())}", LOST]
            if self._marker:
                self._end_command(None)
            if self._closing:
                self._close_sinks()

    def _read_log(self, log: int) -> bool:
        """Reads all of the log that is there; False at its end."""
        try:
            while piece := os.read(log, PIECE):
                for one in self._records.feed(piece):
                    if len(self._denials) < MOST_KEPT:
                        self._denials.setdefault((one.operation, one.object), one)
        except BlockingIOError:
            return True
        return False

    def _read_all(self, source: int, decoder: Any) -> None:
        waiting = struct.unpack("i", fcntl.ioctl(source, termios.FIONREAD, b"\0\0\0\0"))[0]
        while waiting > 0:
            piece = os.read(source, min(waiting, PIECE))
            self._take("stderr", decoder.decode(piece))
            waiting -= len(piece)

    def _take(self, name: str, text: str) -> None:
        if name == "stderr" or not self._marker:
            self._pass_on(name, text)
            return
        self._held += text
        at = self._held.find(self._marker)
        if at < 0:
            keep = len(self._marker) - 1
            self._out(self._held[:-keep])
            self._held = self._held[-keep:]
        elif "\n" in self._held[at:]:
            line, _, rest = self._held[at:].partition("\n")
            self._out(self._held[:at])
            self._held = rest
            if line.endswith(f" {KILLED}") and select.select([self._reading["report"]], [], [], LOOKED_AT)[0]:
                return  # the whole run ends, and its end answers
            self._held = ""
            self._end_command(line)
            self._out(rest)
        elif len(self._held) - at > PIECE:
            self._held = self._held[:at + PIECE]  # no status is so long

    def _out(self, text: str) -> None:
        self._pass_on("stdout", text)

    def _pass_on(self, name: str, text: str) -> None:
        """Passes text on while there is room for it and the paragraph. A little more waits for the command's end."""
        for line in text.splitlines(keepends=True):
            if self._dropped:
                return
            begins = name not in self._begun
            room = self._most - self._sent - (PREFIX if begins and name == "stderr" else 0)
            data = line.encode("utf-8", "replace")
            self._lines += begins
            if len(data) > room or self._lines > self._most_lines:
                self._dropped = True
                line = data[:max(0, room)].decode("utf-8", "ignore") if self._lines <= self._most_lines else ""
            self._sent = self._most - room + len(data)
            (self._begun.discard if line.endswith(("\n", "\r")) else self._begun.add)(name)
            reserve = min(RESERVE, self._most // 2)
            if self._later or self._sent > self._most - reserve or self._lines >= self._most_lines:
                self._later.append((name, line))
            else:
                self._write(name, line)

    def _end_command(self, line: str | None) -> None:
        """Writes what waited if it fits, the paragraph if there is one, and the marker. None: the shell has ended."""
        status = line.rpartition(" ")[2] if line is not None else str(self._process.returncode)
        more, self._lost = self._lost if line is not None else [*self._ended(), ANEW], []
        denials = list(self._denials.values())
        denials = denials if status != "0" else shown_to_program(denials)
        told = hint(denials, [*more, *([CUT] if self._dropped else [])])
        if told and self._later:
            told = hint(denials, [*more, CUT])
        else:
            for name, text in self._later:
                self._write(name, text)
        end = f"{told}\n" if told else ""
        self._write("stdout", f"{'' if self._fresh else chr(10)}{end}{self._marker} {status}\n")
        self._begin_command("")

    def _ended(self) -> list[str]:
        return ended_by(read_report(bytes(self._report))) or [f"The shell ended with exit status {self._process.returncode}."]

    def _write(self, name: str, text: str) -> None:
        if name == "stdout" and text:
            self._fresh = text.endswith("\n")
        view = memoryview(text.encode("utf-8", "replace"))
        with contextlib.suppress(OSError, KeyError):  # the reader is gone
            while view:
                view = view[os.write(self._sinks[name], view):]

    def _close_sinks(self) -> None:
        while self._sinks:
            os.close(self._sinks.popitem()[1])
