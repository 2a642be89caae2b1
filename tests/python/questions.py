"""The questions that every executor is asked, whatever its interface: a test class of each adapter inherits them.

The class says by `ask` how a shell command is run and what a user of that interface sees. What an interface cannot
tell is stated by a flag, and the test then looks at what it can tell.
"""
from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from callgate import JobFuture, Sandbox, WorkerLost

PATIENCE = 40.0
LONG = "1" in (os.environ.get("CALLGATE_SOAK"), os.environ.get("CALLGATE_LONG"))
SOON = 0.6  # seconds of a timeout that is to come
HINT = "[callgate] The sandbox policy denied"


@dataclasses.dataclass
class Seen:
    """The output of an interface. `text` is all text that it shows; `code` is None if it does not say."""

    code: int | None
    text: str
    timed_out: bool = False
    out: str | None = None  # stdout alone, where the interface keeps it apart


# A word of the Sandbox, its value, a command that oversteps it, and what is told.
LIMITS = {
    "memory": ("memory", "200M", "exec python3 -c 'x = b\"x\" * (600 << 20)'", "more memory than it may (200 MiB)"),
    "processes": ("processes", 20, "for n in $(seq 60); do sleep 600 & done; wait", "more processes and threads than it may (20)"),
    "cpu": ("options", ["--cpu=2s"], "while :; do :; done", "more processor time than it may (2 s)"),
    "disk": ("options", ["--disk=1M"], "head -c 40000000 /dev/zero > large; sleep 600", "more to the disk than it may (1 MiB)"),
    "idle": ("options", ["--idle-timeout=2s"], "sleep 600", "used no processor time for too long (2 s)"),
}


def alive(word: str) -> list[int]:
    """Living processes that have `word` in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and word.encode() in Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0"):
                found.append(int(entry))
    return found


def sleeper() -> str:
    """A number of seconds that no other process sleeps."""
    return f"86400.{secrets.randbelow(10**9):09d}"


async def until(condition: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        await asyncio.sleep(0.01)


def wait(condition: Any, what: str) -> None:
    """`until`, for tests that have no loop."""
    asyncio.run(until(condition, what))


def each_ended_once(coming: Iterable[JobFuture], ended: set[Any]) -> Iterator[JobFuture]:
    """Futures of a pool, whose jobs succeeded or were lost; `ended` gets their jobs' names, each once."""
    for future in coming:
        assert future.job.name not in ended
        ended.add(future.job.name)
        if future.exception() is None:
            assert future.result().exit_code == 0, future.result()
        else:
            assert isinstance(future.exception(), WorkerLost), future.exception()
        yield future


def with_time(ask: Callable[[float], Any], came: Callable[[Any], Any], seconds: float = SOON) -> Any:
    """The answer to `ask` with so many seconds. A busy machine may not have come so far in so few: then it has more."""
    for more in (1, 5, 20):
        if came(seen := ask(more * seconds)):
            break
    return seen


class Memory:
    """How much more memory than before this process ever had within the `with`, in bytes."""

    def __enter__(self) -> Memory:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self.before = self._bytes("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = self._bytes("VmHWM") - self.before

    @staticmethod
    def _bytes(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


class Questions:
    """`ask` runs a command by bash or sh in `self.workdir`; the sandbox has no options but the work directory."""

    asynchronous = True  # the interface has an async way
    concurrent = True  # several runs on one object
    cancels = True
    partial = True  # output before a timeout is shown
    apart = False  # stdout is exact beside stderr
    exact = True  # what is shown is what was written
    kills = False  # the framework kills callgate and does not wait for the guardian, which then ends the tree
    keeps_background = False  # the interface wants background jobs to outlive the command
    workdir: Path

    async def ask(self, command: str, timeout: float | None = None) -> Seen:
        raise NotImplementedError

    def now(self, command: str, timeout: float | None = None) -> Seen:
        return asyncio.run(self.ask(command, timeout))

    def output(self, seen: Seen) -> str:
        return seen.text if seen.out is None else seen.out

    def gone(self, word: str) -> None:
        if self.kills:
            asyncio.run(until(lambda: not alive(word), "the tree has ended"))
        assert not alive(word)

    async def save(self, path: Path, text: str) -> object:
        """Writes by the interface's own file function; by a command where it has none."""
        return await self.ask(f"printf %s {text} > {path}")

    async def load(self, path: Path) -> object:
        return (await self.ask(f"cat {path}")).text

    def test_exit_codes(self):
        for code in (0, 1, 3, 77):
            seen = self.now(f"exit {code}")
            assert seen.code in (code, None), seen

    def test_a_missing_program_is_127(self):
        seen = self.now("no-such-program-here")
        assert seen.code in (127, None) and "not found" in seen.text, seen

    def test_death_by_signal(self):
        assert self.now("kill -9 $$").code in (137, None)

    def test_utf_8_without_final_newline(self):
        seen = self.now("printf 'naïve ☃'")
        assert "naïve ☃" in self.output(seen)
        assert not self.exact or self.output(seen) == "naïve ☃"

    def test_bytes_that_are_no_text(self):
        seen = self.now(r"printf 'a\377b'")
        assert "a" in seen.text and "b" in seen.text and seen.code in (0, None), seen

    def test_stdin_is_at_its_end(self):
        seen = self.now("cat; echo read", timeout=30)
        assert "read" in seen.text and not seen.timed_out

    def test_timeout_keeps_what_was_written(self):
        def told(seconds: float) -> Seen:
            seen = self.now("echo before; sleep 300", timeout=seconds)
            assert seen.timed_out, seen
            return seen
        seen = with_time(told, lambda seen: "before" in seen.text or not self.partial)
        assert "before" in seen.text or not self.partial, seen

    def test_who_ignores_sigterm_and_who_left_the_session_die_at_the_timeout(self):
        word = sleeper()
        seen = self.now(f"trap '' TERM; setsid sleep {word} & echo on; while :; do sleep 0.05; done", timeout=SOON)
        assert seen.timed_out, seen
        self.gone(word)

    def test_nothing_is_left_after_the_run(self):
        word = sleeper()
        seen = self.now(f"setsid sleep {word} >/dev/null 2>&1 & echo on")
        assert "on" in seen.text and seen.code in (0, None), seen
        if self.keeps_background:
            assert alive(word)
            self.end()
        self.gone(word)

    def test_a_descendant_that_holds_stdout_does_not_hold_the_caller(self):
        word = sleeper()
        seen = self.now(f"setsid sleep {word} & echo on", timeout=PATIENCE)
        assert "on" in seen.text and not seen.timed_out, seen
        if self.keeps_background:
            self.end()
        self.gone(word)

    def end(self) -> None:
        """Ends what the interface keeps."""

    def test_cancelling_ends_the_tree_first(self):
        if not (self.asynchronous and self.cancels):
            pytest.skip("the interface has no cancellation")
        word = sleeper()

        async def cancel() -> None:
            task = asyncio.ensure_future(self.ask(f"setsid sleep {word} & trap '' TERM; while :; do sleep 0.05; done"))
            await until(lambda: alive(word), "the command runs")
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert not alive(word)
        asyncio.run(cancel())

    def test_no_secret_is_in_the_environment(self, monkeypatch):
        monkeypatch.setenv("CG_TEST_API_KEY", "the-secret")
        assert "the-secret" in subprocess.run("env", capture_output=True, text=True, check=True).stdout  # the control
        seen = self.now("env; echo done")
        assert "the-secret" not in seen.text and "done" in seen.text and "PATH=" in seen.text

    def test_three_megabytes_of_output(self):
        seen = self.now("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end >&2", timeout=PATIENCE)
        assert seen.code in (0, None) and not seen.timed_out and "xxx" in seen.text

    def test_eight_at_once(self):
        if not self.concurrent:
            pytest.skip("the interface is one session")

        async def all_of_them() -> list[Seen]:
            meet = "touch {0}.here; until [ $(ls *.here | wc -l) = 8 ]; do sleep 0.02; done; echo met {0}"
            return await asyncio.gather(*(self.ask(meet.format(n), 60) for n in range(8)))
        if self.asynchronous:
            assert [f"met {n}" in one.text for n, one in enumerate(asyncio.run(all_of_them()))] == [True] * 8

    def test_the_event_loop_goes_on(self):
        if not self.asynchronous:
            pytest.skip("the interface is synchronous")

        async def both() -> Seen:
            task = asyncio.ensure_future(self.ask("until [ -e go ]; do sleep 0.02; done; echo went", PATIENCE))
            await asyncio.sleep(0)
            (self.workdir / "go").touch()
            return await task
        assert "went" in asyncio.run(both()).text

    def test_a_write_outside_is_denied_and_the_model_reads_why(self, tmp_path):
        outside = tmp_path / "outside"
        subprocess.run(["bash", "-c", f"echo x > {outside}"], check=True)  # the control
        assert outside.read_text() == "x\n"
        outside.unlink()
        seen = self.now(f"echo x > {outside}; echo went on; exit 3")
        assert not outside.exists() and "went on" in seen.text
        assert HINT in seen.text and str(outside) in seen.text, seen
        seen = self.now("echo x > inside; cat inside")  # the benign twin
        assert self.output(seen) == "x\n" if self.exact else "x\n" in seen.text

    def test_a_link_that_an_earlier_command_left_leads_nowhere(self, tmp_path):
        """The interface neither writes nor reads beyond the rules through it. Twin: a link within the directory."""
        outside = tmp_path / "profile"
        outside.write_text("# the user's")
        seen = self.now(f"ln -s {outside} link; ln -s {tmp_path} folder; echo real > real; ln -s real inner")
        assert seen.code in (0, None) and (self.workdir / "folder").is_symlink(), seen
        (self.workdir / "link").write_text("control")
        assert outside.read_text() == "control"
        outside.write_text("# the user's")
        for name in ("link", "folder/profile", "folder/new"):
            with contextlib.suppress(Exception):
                asyncio.run(self.save(self.workdir / name, "planted"))
            told = ""
            with contextlib.suppress(Exception):
                told = str(asyncio.run(self.load(self.workdir / name)))
            assert "# the user" not in told, told
        assert outside.read_text() == "# the user's" and sorted(tmp_path.iterdir()) == [outside]
        asyncio.run(self.save(self.workdir / "own", "mine"))
        assert (self.workdir / "own").read_text() == "mine" and "real" in str(asyncio.run(self.load(self.workdir / "inner")))

    def test_a_connection_is_denied(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            line = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo conn''ected || {{ echo refu''sed; exit 3; }}"
            told = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)  # the control
            assert told.stdout == "connected\n"
            server.accept()[0].close()
            seen = self.now(f"bash -c '{line}'".replace("''", ""))
            assert "refused" in seen.text and "connected" not in seen.text.replace(line, ""), seen
            assert HINT in seen.text and f"127.0.0.1:{port}" in seen.text, seen
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()

    @pytest.mark.parametrize("limit", LIMITS)
    def test_the_limit_that_ended_the_run_is_told(self, limit, monkeypatch):
        """Every adapter makes its Sandbox from words: here one more is given. Twin: a command within the limit."""
        word, value, command, told = LIMITS[limit]
        monkeypatch.setitem(Sandbox.__init__.__kwdefaults__, word, value)
        assert "callgate" not in self.now("echo 3").text
        seen = self.now(command, PATIENCE)
        assert told in seen.text and seen.text.count("[callgate] ") == 1, seen

    def test_output_that_is_cut_is_said_to_be(self):
        """Some interfaces have an error of their own for it."""
        try:
            text = self.now("yes | head -c 30000000", PATIENCE).text
        except Exception as error:
            text = str(error) if "exceeded" in type(error).__name__.lower() or "limit" in type(error).__name__.lower() else ""
        assert "only its beginning stands here" in text or "limit" in text or "exceeded" in text, text[-300:]

    def test_nothing_is_added_where_nothing_was_denied(self):
        seen = self.now("echo 3")
        assert "callgate" not in seen.text
        assert not self.exact or self.output(seen) == "3\n"
