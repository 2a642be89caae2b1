"""A session is one interpreter in the sandbox that runs steps (`smolagents_loop.py`), and what the last step wrote.

The code of a step owns the interpreter. It may write anything to the descriptor of the answers, at any time. So each step
has a number, its answer is one line with that number, and any other byte ends the session. No answer can reach a later step.
"""
from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

from .exchange import PATIENCE, PIECE
from .sandbox import Sandbox

LOOP = Path(__file__).with_name("smolagents_loop.py").read_text()
LONGEST = 2 << 20  # bytes of a value; a list of empty lists takes twenty times as much here
LONGEST_ANSWER = LONGEST + (1 << 20)
FOREIGN, GONE = "it wrote to the descriptor by which answers come", "the interpreter ended"


class Session:
    """`text` is what the last step wrote, at most `most` bytes of it; `cut`: there was more."""

    def __init__(self, sandbox: Sandbox, python: str, most: int) -> None:
        self._most, self._number, self._output, self.cut = most, 0, bytearray(), False
        self._answers, writing = os.pipe()
        try:
            self.process = sandbox.popen([python, "-uc", LOOP, str(writing), str(LONGEST)], log=True, bufsize=0,
                                         stderr=subprocess.STDOUT, pass_fds=[writing])
        except BaseException:
            os.close(self._answers)
            raise
        finally:
            os.close(writing)
        assert self.process.stdin and self.process.stdout
        self._jobs, self._written = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._jobs, False)

    @property
    def text(self) -> str:
        return self._output.decode("utf-8", "replace")

    def step(self, code: str, seconds: float) -> dict[str, Any]:
        """The answer. The session is of no use after an exception: TimeoutError, OSError if the interpreter has ended, or
        ValueError if the answer is none."""
        self._number, self.cut = self._number + 1, False
        self._output.clear()
        if select.select([self._answers], [], [], 0)[0]:
            raise ValueError(FOREIGN) if os.read(self._answers, 1) else OSError(GONE)
        job = json.dumps({"step": self._number, "code": code}).encode() + b"\n"
        answer = self._exchanged(memoryview(job), time.monotonic() + seconds, seconds)
        line, _, rest = answer.partition(b"\n")
        if rest:
            raise ValueError(FOREIGN)
        try:
            told = json.loads(line)
            error = told["error"]
            good = told["step"] == self._number and (error is None or [type(one) for one in error] == [str] * 3) and "value" in told
        except (ValueError, TypeError, KeyError, RecursionError):
            good = False
        if not good:
            raise ValueError(FOREIGN)
        self._drain()
        return dict(told)

    def _exchanged(self, job: memoryview, deadline: float, seconds: float) -> bytes:
        """Sends the job, reads output, and returns what came by the answers' descriptor: at least one line."""
        poller, answer = select.poll(), bytearray()
        poller.register(self._answers, select.POLLIN)
        poller.register(self._written, select.POLLIN)
        poller.register(self._jobs, select.POLLOUT)
        while b"\n" not in answer:
            left = deadline - time.monotonic()
            ready = [one for one, _ in poller.poll(left * 1000 + 1)] if left > 0 else []
            if not ready:
                raise TimeoutError(f"it timed out after {seconds:g} seconds")
            if self._jobs in ready:
                job = job[os.write(self._jobs, job[:PIECE]):]
                if not job:
                    poller.unregister(self._jobs)
            if self._written in ready and not self._read():
                poller.unregister(self._written)
            if self._answers in ready:
                piece = os.read(self._answers, PIECE)
                answer += piece
                if not piece:
                    raise OSError(GONE)
                if len(answer) > LONGEST_ANSWER:
                    raise ValueError(FOREIGN)
        return bytes(answer)

    def _read(self) -> int:
        """Reads output once, and returns how many bytes came."""
        piece = os.read(self._written, PIECE)
        room = self._most - len(self._output)
        self._output += piece[:room]
        self.cut = self.cut or len(piece) > room
        return len(piece)

    def _drain(self) -> None:
        """Reads output that is there now. A step wrote its own before its answer; what it left running may write on."""
        waiting = int(struct.unpack("i", fcntl.ioctl(self._written, termios.FIONREAD, b"\0\0\0\0"))[0])
        while waiting > 0:
            waiting -= self._read()

    def await_end(self) -> None:
        """Waits for the report of a process that has ended, and reads what it had written."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._drain()

    def end(self) -> None:
        """Ends the process and all that it started."""
        self.process.kill()
        self.process.__exit__()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1
