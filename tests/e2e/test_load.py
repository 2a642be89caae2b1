"""Load: every answer arrives and is the right one, and the supervisor does not grow.

The programs check each result themselves. They stop twice, warm and at the end, so that memory and descriptors of
callgate are compared at rest. Logs are read line by line: they are large.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import harness
from faultbox import Watched, contested
from harness import SOAK

OPEN_THREADS = 64
OPENS_EACH = 10_000 if SOAK else 500
STARTS = 100_000 if SOAK else 5_000
NOTIFICATIONS = 1_000_000 if SOAK else 50_000
LONG = 3600.0 if SOAK else 120.0
MEMORY_BOUND = 8 << 10  # KiB
# The handles of callers that all receivers together keep, and what calls in progress hold.
DESCRIPTOR_BOUND = 128 + 40


def measure(pid: int) -> tuple[int, int]:
    """Resident memory in KiB and open descriptors of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found, status
    return int(found[1]), len(os.listdir(f"/proc/{pid}/fd"))


def judged(line: str, phase: str) -> int:
    """How many results were right; none may have been wrong."""
    found = re.fullmatch(rf"{phase} right (\d+) wrong (\d+)", line)
    assert found, line
    assert found[2] == "0", f"wrong answers: {line}"
    return int(found[1])


def loaded(run: Watched, calls: int) -> harness.Result:
    """Takes a run of prog_load through its phases and holds its growth to the bounds."""
    judged(run.lines(1, LONG)[0], "warm")
    memory, descriptors = measure(run.pid)
    run.send()
    assert judged(run.lines(1, LONG)[0], "done") == calls
    memory_after, descriptors_after = measure(run.pid)
    run.send()
    result = run.finish()
    assert result.code == 0, result.describe()
    assert memory_after - memory <= MEMORY_BOUND, f"resident memory grew from {memory} to {memory_after} KiB"
    assert descriptors_after - descriptors <= DESCRIPTOR_BOUND, f"descriptors grew from {descriptors} to {descriptors_after}"
    run.assert_nothing_left()
    return result


def verdicts(log: Path, name: str) -> dict[str, int]:
    """Records of opens below `name`, counted by verdict; sequence numbers must have no gap."""
    found: dict[str, int] = {}
    with log.open("rb") as lines:
        for expected, line in enumerate(lines, 1):
            record = json.loads(line)
            assert record["event"]["sequence"] == expected, f"record {expected} has the number {record['event']['sequence']}"
            if name in record.get("file", {}).get("path", ""):
                verdict = record["callgate"]["verdict"]
                found[verdict] = found.get(verdict, 0) + 1
    return found


def own_files(box, threads: int) -> Path:
    place = box.directory(box.tree / "place")
    for number in range(threads):
        box.file(place / f"f{number}", f"f{number}".encode())
        box.file(place / f"f{number}.no", b"never read")
    return place


def test_contested_opens_of_many_threads(box):
    place = own_files(box, OPEN_THREADS)
    run = Watched(box, [box.program("prog_load"), "opens", str(place), str(OPEN_THREADS), str(OPENS_EACH)], contested(box),
                  ["-q"])
    calls = OPEN_THREADS * OPENS_EACH
    loaded(run, calls)
    found = verdicts(run.log, "/place/")
    assert sum(found.values()) == calls and found["deny"] >= calls // 20, found


def test_a_million_notifications(box):
    threads = 8
    place = own_files(box, threads)
    run = Watched(box, [box.program("prog_load"), "notify", str(place), str(threads), str(NOTIFICATIONS)], contested(box),
                  ["-q"])
    loaded(run, NOTIFICATIONS)
    report = json.loads(run.report.read_text())
    assert report["usage"]["notifications"] >= NOTIFICATIONS, report["usage"]
    assert report["counts"]["allow"] + report["counts"]["deny"] >= NOTIFICATIONS, report["counts"]


@pytest.fixture(scope="session")
def tiny(stage) -> bytes:
    """A static program, as small as the toolchain makes it."""
    source = Path(__file__).resolve().parent.parent / "programs" / "prog_load_tiny.c"
    target = stage.root / "tiny"
    subprocess.run(["cc", "-static", "-O1", "-o", str(target), str(source)], check=True)
    return target.read_bytes()


def test_processes_started(box, tiny):
    program = box.file(box.tree / "tiny", tiny, 0o755)
    rules = contested(box, {"id": "tiny", "allow": ["read", "execute"], "path": f"{box.tree}/**"})
    run = Watched(box, [box.program("prog_load"), "spawn", str(program), str(STARTS)], rules, ["-q"])
    loaded(run, STARTS)
