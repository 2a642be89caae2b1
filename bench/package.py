"""The Python package beside subprocess.run, and its adapter for AutoGen beside AutoGen's own class."""
from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from jobs import Jobs
from place import Place
from rows import Row, Variant

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.dont_write_bytecode = True

from callgate import Sandbox  # noqa: E402

BASH, PYTHON = ["bash", "-c", "echo 1"], ["/usr/bin/python3", "-c", "print(1)"]
AUTOGEN = "AutoGen, a block of bash"  # measured only where tools/venvs.sh has made its environment


def timed(action: Callable[[], object], count: int) -> Variant:
    def once() -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            action()
        return (time.perf_counter_ns() - began) / count
    return once


def at_once(action: Callable[[], object], threads: int = 8) -> Callable[[], None]:
    def together() -> None:
        started = [threading.Thread(target=action) for _ in range(threads)]
        for one in started:
            one.start()
        for one in started:
            one.join()
    return together


def autogen(place: Place, count: int) -> list[Row]:
    top = Path(__file__).resolve().parents[1]
    where = subprocess.run([top / "tools/venvs.sh", "--where"], capture_output=True, text=True, check=True).stdout.strip()
    python = Path(where) / "autogen/bin/python"
    if not python.exists():
        print(f"not measured: {AUTOGEN}; tools/venvs.sh autogen makes its environment")
        return []

    def block(kind: str) -> Variant:
        return lambda: place.run([python, top / "bench/autogen_blocks.py", kind, count, place.work, place.callgate])
    return [Row(AUTOGEN, {"native": block("native"), "callgate": block("callgate")})]


def rows(place: Place, scale: float) -> list[Row]:
    """Microseconds per command; of eight at once, until all eight have ended. The same command is a job of a server, too."""
    jobs = Jobs(place)
    sandbox, count = Sandbox(binary=place.callgate, workdir=place.work), max(5, int(25 * scale))

    def native(command: list[str]) -> Callable[[], object]:
        return lambda: subprocess.run(command, capture_output=True, check=True, cwd=place.work)

    def supervised(command: list[str]) -> Callable[[], object]:
        return lambda: sandbox.run(command, check=True)

    def row(name: str, language: str, command: list[str]) -> Row:
        return Row(name, {"native": timed(native(command), count), "callgate": timed(supervised(command), count),
                          "job": timed(lambda: jobs.served(language, command[-1], 1), count)})
    return [row("Sandbox.run, bash", "bash", BASH), row("Sandbox.run, Python", "python", PYTHON),
            Row("8 Sandbox.run at once", {"native": timed(at_once(native(BASH)), max(2, count // 5)),
                                          "callgate": timed(at_once(supervised(BASH)), max(2, count // 5))}),
            *autogen(place, count)]
