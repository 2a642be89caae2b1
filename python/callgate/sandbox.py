"""The Sandbox: what is allowed, said once, and the ways to run something under it."""
from __future__ import annotations

import dataclasses
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import audit as audits
from . import binary as binaries
from . import blocking, code, loop
from .errors import CallgateError
from .exchange import GRACE, LATE, Exchange, Line, OnOutput
from .options import (
    Amount,
    Given,
    MemoryFiles,
    Path,
    Paths,
    Rules,
    Seconds,
    environment,
    milliseconds,
    run_arguments,
    several,
)
from .process import Process
from .question import Channel, OnAsk
from .result import Result

MOST_OUTPUT = 10 << 20
Command = Union[str, Sequence[str]]


class Sandbox:
    """Runs commands under callgate. It holds no process and no descriptor: use one from any number of threads.

    Each run is a process of its own, which inherits from the thread that starts it: identity, capabilities, limits, control
    group, namespaces, Landlock domain. A process that waited between runs would have those of an earlier moment, and a
    thread cannot see its own Landlock domain to compare. So none is kept (docs/performance.md says what that costs).

    workdir     the work directory (default: the current one when a command is started)
    profile     the name of a profile, or several; `agent` if neither profile nor rules are given
    rules       a rule set: a file's path, a dict, or several of them; stands by itself
    read, write, execute, deny   paths; a directory means all beneath it; write is read and write
    connect, bind   "HOST:PORT", "unix:PATH"; "8080"
    env         variables of the command, beside the allow-list's; keep_env: names that are passed on, or True
    timeout     seconds, for the whole tree; memory: "512M"; processes: at most so many
    max_output  bytes kept of stdout and of stderr; more is read and dropped (`Result.truncated`)
    audit       a file for the log, True for one in callgate's own place; None: no log
    ask, on_ask  answers the questions: a function, or a coroutine function, that gets each `Question`
    background  "end" or "wait": what happens to processes that the command leaves running
    options     further options of `callgate run`, as they are
    binary      the callgate program (default: the one in the wheel, else the one on PATH)
    """

    def __init__(self, *, workdir: Path | None = None, profile: None | str | Sequence[str] = None,
                 rules: Rules | None = None, read: Paths = (), write: Paths = (), execute: Paths = (),
                 connect: str | Sequence[str] = (), bind: str | Sequence[str] = (), deny: Paths = (),
                 env: Mapping[str, str] | None = None, keep_env: bool | str | Sequence[str] = (),
                 timeout: Seconds | None = None, memory: Amount | None = None, processes: int | None = None,
                 max_output: int = MOST_OUTPUT, audit: None | bool | Path = None, ask: str = "never",
                 on_ask: OnAsk | None = None, background: str = "end", options: Sequence[str] = (),
                 binary: Path | None = None) -> None:
        self.given = Given(workdir, profile, rules, read, write, execute, connect, bind, deny, env, keep_env, memory,
                           processes, audit, ask, background, tuple(options))
        self.timeout, self.max_output, self.on_ask, self._binary = timeout, max_output, on_ask, binary
        if timeout is not None:
            milliseconds(timeout)

    @property
    def binary(self) -> str:
        """The callgate program. Raises CallgateNotFound if there is none."""
        return binaries.find(self._binary)

    @property
    def workdir(self) -> str:
        """The work directory, absolute."""
        return os.path.abspath(os.fspath(self.given.workdir)) if self.given.workdir is not None else os.getcwd()

    def paths(self, word: str) -> list[Any]:
        """The values of read, write, execute, deny, connect or bind, as a list."""
        return several(getattr(self.given, word))

    def with_options(self, **changed: Any) -> Sandbox:
        """A copy with these options changed."""
        words = {one.name: getattr(self.given, one.name) for one in dataclasses.fields(self.given)}
        words.update(timeout=self.timeout, max_output=self.max_output, on_ask=self.on_ask, binary=self._binary)
        words.update(changed)
        return Sandbox(**words)

    def run(self, command: Command, *, input: bytes | None = None, cwd: Path | None = None,
            env: Mapping[str, str] | None = None, timeout: Seconds | None = None, merge_stderr: bool = False,
            check: bool = False, on_output: OnOutput | None = None) -> Result:
        """Runs `command` (a text: by bash -c) and waits for its end; processes that it left running are ended first.

        stdin is `input`, else at its end. `check` raises subprocess.CalledProcessError for another exit status than 0;
        `on_output` gets each piece, with "stdout" or "stderr", as it comes, whatever `max_output` keeps.
        """
        exchange, deadline = self._begin(argv(command), [], MemoryFiles(), input, cwd, env, timeout, merge_stderr, on_output)
        blocking.drive(exchange, deadline, self.on_ask)
        return _checked(command, exchange.result(), check)

    async def arun(self, command: Command, *, input: bytes | None = None, cwd: Path | None = None,
                   env: Mapping[str, str] | None = None, timeout: Seconds | None = None, merge_stderr: bool = False,
                   check: bool = False, on_output: OnOutput | None = None) -> Result:
        """As `run`, on the running asyncio loop, without threads. Cancelled, it ends the tree first."""
        exchange, deadline = self._begin(argv(command), [], MemoryFiles(), input, cwd, env, timeout, merge_stderr, on_output)
        await loop.drive(exchange, deadline, self.on_ask)
        return _checked(command, exchange.result(), check)

    def run_code(self, language: str, source: str, *, input: bytes | None = None, cwd: Path | None = None,
                 env: Mapping[str, str] | None = None, timeout: Seconds | None = None, merge_stderr: bool = False,
                 check: bool = False, on_output: OnOutput | None = None) -> Result:
        """Runs source code: python (the interpreter of this program, whose installation may be read), bash, sh, node."""
        files = MemoryFiles()
        command, options = code.command(language, source, files)
        exchange, deadline = self._begin(command, options, files, input, cwd, env, timeout, merge_stderr, on_output)
        blocking.drive(exchange, deadline, self.on_ask)
        return _checked(command, exchange.result(), check)

    async def arun_code(self, language: str, source: str, *, input: bytes | None = None, cwd: Path | None = None,
                        env: Mapping[str, str] | None = None, timeout: Seconds | None = None,
                        merge_stderr: bool = False, check: bool = False, on_output: OnOutput | None = None) -> Result:
        """As `run_code`, on the running asyncio loop."""
        files = MemoryFiles()
        command, options = code.command(language, source, files)
        exchange, deadline = self._begin(command, options, files, input, cwd, env, timeout, merge_stderr, on_output)
        await loop.drive(exchange, deadline, self.on_ask)
        return _checked(command, exchange.result(), check)

    def popen(self, command: Command, *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
              timeout: Seconds | None = None, log: bool = False, **streams: Any) -> Process:
        """Starts `command` with pipes for stdin, stdout and stderr, for a session; `streams` as of subprocess.Popen, also
        `pass_fds`.

        `log`: `Process.log_denials` tells of denials while it runs. Started by the main thread, it ends with this
        program, also when that is killed.
        """
        main = threading.current_thread() is threading.main_thread()
        files, reading = MemoryFiles(), -1
        try:
            options = ["--die-with-parent"] * main + [f"--pass-fd={one}" for one in streams.get("pass_fds", ())]
            if log:
                reading, writing = os.pipe()
                files.descriptors.append(writing)
                options.append(f"--audit=fd:{writing}")
            line = self._line(argv(command), options, files, cwd, env, timeout)
            channel = self._channel()
        except BaseException:
            files.close()
            if reading >= 0:
                os.close(reading)
            raise
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return Process(line, channel, self.on_ask, reading, **{**pipes, **streams})

    def wrap(self, command: Command, *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
             timeout: Seconds | None = None, quiet: bool = True) -> list[str]:
        """The line that runs `command` supervised, for callers that start it themselves. `quiet`: no footer on stderr.

        Rules given as dicts are in the line, so they must be short (96 KiB). `on_ask` is not used.
        """
        files = MemoryFiles()
        line = self._line(argv(command), [], files, cwd, env, timeout, by_option=True)
        if files.descriptors:
            files.close()
            raise CallgateError("the rules are too long for a command line; write them to a file and give its path")
        kept = [one for one in line.arguments if quiet or one != "--quiet"]
        asked = [] if self.on_ask or self.given.ask == "never" else [f"--ask={self.given.ask}"]
        return [line.binary, "run", *kept, *(asked or ["--ask=never"] * bool(self.on_ask)), "--", *line.command]

    def session_line(self, command: Command, log: int, *, cwd: Path | None = None,
                     env: Mapping[str, str] | None = None) -> Line:
        """For adapters that start a session themselves: its line, with the log on the descriptor `log`."""
        line = self._line(argv(command), [f"--audit=fd:{log}"], MemoryFiles(), cwd, env, None)
        line.arguments += ["--ask=never"] * bool(self.on_ask)
        return line

    def audit(self, command: Command, *, input: bytes | None = None, cwd: Path | None = None,
              env: Mapping[str, str] | None = None, timeout: Seconds | None = None) -> audits.Audit:
        """Runs `command` without denials, and returns the denials that enforcement would make and rules to allow them."""
        files = MemoryFiles()
        with tempfile.TemporaryFile() as kept:  # on disk: the command chooses how large it becomes
            log = os.dup(kept.fileno())
            files.descriptors.append(log)
            observing = self.with_options(audit=None, options=(*self.given.options, "--mode=audit"))
            exchange, deadline = observing._begin(argv(command), [f"--audit=fd:{log}"], files, input, cwd, env, timeout,
                                                  False, None)
            blocking.drive(exchange, deadline, self.on_ask)
            return audits.made(self.binary, exchange.result(), kept.fileno())

    def _channel(self) -> Channel | None:
        return Channel() if self.on_ask else None

    def _line(self, command: list[str], options: list[str], files: MemoryFiles, cwd: Path | None,
              env: Mapping[str, str] | None, timeout: Seconds | None, by_option: bool = False) -> Line:
        names, surroundings = environment(self.given, env, by_option)
        arguments = ["--quiet", *run_arguments(self.given, files), *names, f"--grace={milliseconds(GRACE)}ms", *options]
        if any(one.startswith("--audit=fd:") for one in options):
            without_log(self.given.audit)
            arguments.remove("--no-audit")
        if (limit := timeout if timeout is not None else self.timeout) is not None:
            arguments.append(f"--timeout={milliseconds(limit)}ms")
        if cwd is not None:
            arguments.append(f"--cwd={os.path.join(self.workdir, os.fspath(cwd))}")
        if not self.on_ask:
            arguments.append(f"--ask={self.given.ask}")
        return Line(self.binary, arguments, command, surroundings, files)

    def _begin(self, command: list[str], options: list[str], files: MemoryFiles, input: bytes | None,
               cwd: Path | None, env: Mapping[str, str] | None, timeout: Seconds | None, merge_stderr: bool,
               on_output: OnOutput | None) -> tuple[Exchange, float | None]:
        """Starts the run. It ends with the thread that started it, which is the one that waits."""
        try:
            line = self._line(command, [*options, "--die-with-parent"], files, cwd, env, timeout)
        except BaseException:
            files.close()
            raise
        limit = timeout if timeout is not None else self.timeout
        exchange = Exchange(line, stdin=input, merge_stderr=merge_stderr, max_output=self.max_output,
                            channel=self._channel(), on_output=on_output)
        return exchange, None if limit is None else time.monotonic() + limit + GRACE + LATE


def argv(command: Command) -> list[str]:
    """A text is run by bash; anything else is the argument vector itself."""
    words = ["bash", "-c", command] if isinstance(command, str) else [os.fspath(one) for one in command]
    if not words:
        raise CallgateError("the command is empty")
    for one in words:
        if "\0" in one:
            raise CallgateError("the command holds a NUL byte; no program can be started with it")
    return words


def without_log(audit: None | bool | Path) -> None:
    """Refuses `audit=`: a run has one log, and here it is read for denials while the run goes on."""
    if audit is not None and audit is not False:
        raise CallgateError("audit= cannot be used here: the log is read to tell of denials while the session goes on")


def _checked(command: Command, result: Result, check: bool) -> Result:
    if check and result.exit_code != 0:
        raise subprocess.CalledProcessError(result.exit_code, command, result.stdout, result.stderr)
    return result
