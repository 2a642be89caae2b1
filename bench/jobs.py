"""Jobs for `callgate exec --serve` beside subprocess.run: one after another, and eight at once."""
from __future__ import annotations

import json
import subprocess
import time

from place import Failure, Place

LANGUAGES = {"bash": ["bash", "-c"], "python": ["python3", "-c"]}


class Jobs:
    """A server for all rounds. Its interpreters are the distribution's, as those of the native variant are."""

    def __init__(self, place: Place) -> None:
        self.place, self.count = place, 0
        self.environment = {**place.environment(place.home), "PATH": "/usr/bin:/bin"}
        self.server = subprocess.Popen([place.callgate, "exec", "--serve", "--no-audit", "--no-user-rules"], cwd=place.work,
                                       env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        place.at_close(self.close)

    def close(self) -> None:
        self.server.stdin.close()
        self.server.wait()

    def served(self, language: str, code: str, at_once: int) -> None:
        for _ in range(at_once):
            self.count += 1
            job = {"id": self.count, "language": language, "code": code}
            self.server.stdin.write(json.dumps(job).encode() + b"\n")
        self.server.stdin.flush()
        for _ in range(at_once):
            answer = json.loads(self.server.stdout.readline())
            if answer.get("output") != "1\n":
                raise Failure(f"a job was not answered as it should be: {json.dumps(answer)[:500]}")

    def bare(self, language: str, code: str, at_once: int, prefix: tuple = ()) -> None:
        command = [*prefix, *LANGUAGES[language], code]
        if at_once == 1:
            subprocess.run(command, cwd=self.place.work, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                           check=True)
            return
        running = [subprocess.Popen(command, cwd=self.place.work, env=self.environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(at_once)]
        for process in running:
            process.communicate()

    def under_floor(self, language: str, code: str, at_once: int) -> None:
        """Started for each job: nobody waits for one, and nothing is decided."""
        self.bare(language, code, at_once, (str(self.place.floor), "continue-open"))

    def timed(self, kind: str, language: str, code: str, times: int, at_once: int = 1):
        """Nanoseconds per job."""
        def once() -> float:
            run = {"callgate": self.served, "floor": self.under_floor, "native": self.bare}[kind]
            begin = time.monotonic_ns()
            for _ in range(times):
                run(language, code, at_once)
            return (time.monotonic_ns() - begin) / (times * at_once)
        return once
