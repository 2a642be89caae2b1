"""Measures the supervisor's memory before and after many decided calls."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

from place import Failure, Place
from results import Measured

NAME = "memory of the supervisor, bytes"
# Each call is of another kind of decision: on behalf, denied, changed. The first loop is what a start needs.
SCRIPT = """
"$1" read 20000 "$2"; echo ready; read go
"$1" read $(($4 / 2)) "$2"; "$1" denied $(($4 / 4)) "$3"; "$1" chmod $(($4 / 4)) "$2"; echo ready; read go
"""


def measure(place: Place, calls: int) -> Measured:
    run = subprocess.Popen([str(one) for one in (*place.supervised(place.root / "keys.json"), "/bin/sh", "-c", SCRIPT, "sh", place.target,
                                                 place.contested, place.work / "a.qkey", calls)],
                           cwd=place.work, env=place.environment(place.home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = []
    for _ in range(2):
        while (line := run.stdout.readline()) != "ready\n":
            if not line:
                raise Failure(f"the run ended before its calls: {run.wait()}")
        status = Path(f"/proc/{run.pid}/status").read_text()
        found.append(int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10)
        run.stdin.write("go\n")
        run.stdin.flush()
    run.communicate()
    return Measured(NAME, [{"start": found[0], "after": found[1]}])
