"""Jobs for `callgate exec`: one at a time, or many to a server; every answer is looked at as its schema says."""
from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "exec.schema.json").read_text())["$defs"]
OUTPUTS = set(SCHEMA["outputs"]["properties"])


def check(answer: dict[str, Any], compat: bool = False) -> dict[str, Any]:
    """Fails where an answer is not as the schema has it, or contradicts itself."""
    if "cancel" in answer:
        assert set(answer) == {"cancel", "found"}, answer
        return answer
    if "input" in answer:
        assert set(answer) - {"id"} in ({"input", "written"}, {"input", "error"}) and (answer.get("written", True) is True), answer
        return answer
    status = "code" if compat else "exit_code"
    if status not in answer:
        assert set(SCHEMA["refusal"]["required"]) <= set(answer) <= set(SCHEMA["refusal"]["properties"]), answer
        assert answer["error"], answer
        return answer
    assert set(SCHEMA["compatible" if compat else "answer"]["required"]) <= set(answer) <= OUTPUTS | {status}, answer
    for name in ("output", "error"):
        if f"{name}_base64" in answer:
            assert base64.b64decode(answer[f"{name}_base64"]).decode("utf-8", "replace") == answer[name], name
        assert (f"{name}_truncated" in answer) == (f"{name}_bytes" in answer)
    assert answer["report"]["version"] == 1 and answer["report"]["outcome"], answer
    return answer


def with_time(ask: Callable[[float], Any], came: Callable[[Any], Any]) -> Any:
    """The answer to `ask` with so many seconds. A busy machine may not have come so far in so few: then it has more."""
    for seconds in (0.3, 3.0, 30.0):
        if came(answer := ask(seconds)):
            break
    return answer


def environment(box: harness.Box) -> dict[str, str]:
    return box.environment()


def execute(box: harness.Box, job: dict[str, Any] | bytes, *options: str, code: int = 0, env: dict[str, str] | None = None,
            **keywords: Any) -> dict[str, Any]:
    """Runs a job and gives its answer, which is one line. `code` is the status that callgate exec must end with."""
    text = job if isinstance(job, bytes) else json.dumps(job).encode()
    sampled = isinstance(job, dict) and box.replays.sampled()
    log = ["--audit", str(box.root / f"job{len(box.running)}.jsonl")] if sampled else ["--no-audit"]
    result = box.run([str(box.callgate), "exec", *log, *options], supervised=False, stdin=text, env=env, **keywords)
    assert result.code == code and result.err == b"", result.describe()
    assert result.out.endswith(b"\n") and result.out.count(b"\n") == 1, repr(result.out[:2000])
    answer = check(json.loads(result.out), "--compat" in options)
    assert (code == 125) == ("exit_code" not in answer and "code" not in answer), answer
    if sampled and code == 0:
        box.replays.note_job([*options], job, keywords.get("cwd") or box.tree, box.environment(env), answer["report"])
    return answer


class Server:
    """`callgate exec --serve` and what it answered, by id."""

    def __init__(self, box: harness.Box, *options: str, audit: bool = False, **keywords: Any) -> None:
        self.box = box
        self.sampled = not audit and box.replays.sampled()
        self.options, self.cwd = [*options], keywords.get("cwd") or box.tree
        self.environment = keywords.get("env") or box.environment()
        self.jobs: dict[Any, dict[str, Any]] = {}
        log = [] if audit or self.sampled else ["--no-audit"]
        self.process = box.start([str(box.callgate), "exec", "--serve", *log, *options], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **keywords)
        self.changed = threading.Condition()
        self.answers: dict[Any, list[dict[str, Any]]] = {}
        self.order: list[Any] = []
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            answer = check(json.loads(line))
            key = next(((word, answer[word]) for word in ("cancel", "input") if word in answer), None) or answer["id"]
            with self.changed:
                self.answers.setdefault(key, []).append(answer)
                self.order.append(key)
                if self.sampled and key in self.jobs and "report" in answer:
                    self.box.replays.note_another_job(self.options, self.jobs[key], self.cwd, self.environment, answer["report"])
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def send(self, *requests: dict[str, Any] | bytes) -> None:
        for one in requests:
            if isinstance(one, dict) and isinstance(one.get("id"), (str, int)):
                self.jobs[one["id"]] = one
            self.process.stdin.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, key: Any, count: int = 1) -> dict[str, Any]:
        with self.changed:
            come = self.changed.wait_for(lambda: len(self.answers.get(key, [])) >= count or self.ended, harness.DEADLINE)
            found = self.answers.get(key, [])
        assert come and len(found) >= count, f"no answer to {key!r}; so far: {self.order}"
        return found[count - 1]

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        self.send(job)
        return self.answer(job["id"])

    def close(self) -> tuple[int, bytes]:
        """The end of stdin; the status and what was said."""
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> tuple[int, bytes]:
        said = self.process.stderr.read()
        self.reader.join(harness.DEADLINE)
        assert not self.reader.is_alive(), "stdout stayed open"
        return self.process.wait(harness.DEADLINE), said


def bash(key: Any, code: str, **more: Any) -> dict[str, Any]:
    """A job for a server."""
    return {"id": key, "language": "bash", "code": code, **more}


@contextlib.contextmanager
def ended(server: Server) -> Iterator[Server]:
    """A test's server, killed where the test left it running."""
    yield server
    if server.process.poll() is None:
        server.process.kill()
