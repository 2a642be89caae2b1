"""Many jobs at once: a `concurrent.futures.Executor` over `callgate exec --serve`.

    with Pool(profile="python", timeout=60) as pool:
        for future in pool.as_completed(Job(code=one) for one in codes):
            print(future.result().exit_code)

A job that was given to a server has begun, as far as anybody can tell. So no more are given out than run at once, and what
a lost server had is lost. All others wait here and go to the next server.
"""
from __future__ import annotations

import base64
import collections
import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

from . import binary as binaries
from .code import interpreter
from .errors import CallgateError, CallgateNotFound, WorkerLost
from .exchange import GRACE, SAID, raise_failure
from .job import Job, JobFuture
from .options import MemoryFiles, environment, milliseconds, run_arguments
from .question import OnAsk
from .result import Result
from .sandbox import Command, Sandbox

AHEAD = 4  # jobs that map and as_completed take for each that runs


class JobExecutor(futures.Executor):
    """Pools share this: jobs that wait, the thread that gives them out, and the ways to get their results.

    at_once     jobs that run at the same time
    waiting     jobs that wait at most; `submit` waits for room (not in a callback of a result, which would wait for itself)
    retries     how often a job is given out again that did not begin, for example for a full disk. One that began is never
                run twice.
    """

    def __init__(self, at_once: int, waiting: int, retries: int, on_ask: OnAsk | None) -> None:
        if on_ask:
            raise CallgateError("on_ask cannot be used with a pool; ask='socket' lets `callgate approve` answer")
        for name, value, least in (("at_once", at_once, 1), ("waiting", waiting, 1), ("retries", retries, 0)):
            if value < least:
                raise ValueError(f"{name} is {value}; expected {least} or more")
        self.at_once, self._most, self._retries = at_once, waiting, retries
        self._changed = threading.Condition(threading.RLock())
        self._waiting: collections.deque[JobFuture] = collections.deque()
        self._given: dict[JobFuture, Any] = {}  # to which worker
        self._closed = False
        self._broken: CallgateError | None = None
        self._owner = os.getpid()
        self._giver = threading.Thread(target=self._give_out, name="callgate pool", daemon=True)
        self._own = {self._giver}  # threads that must not wait for room

    # Each kind of pool has these. All but `_give` and `_close` are called with the lock.

    def _worker(self, future: JobFuture) -> Any:
        """A worker that has room for this job, or None."""
        raise NotImplementedError

    def _give(self, worker: Any, future: JobFuture) -> None:
        """Gives the job to the worker. Raises OSError where it cannot have begun."""
        raise NotImplementedError

    def _avoid(self, worker: Any) -> Any:
        """Names the worker for a job that could not begin there, so that it goes elsewhere."""
        return worker

    def _close(self) -> None:
        """Ends the workers, which have nothing left to do."""
        raise NotImplementedError

    def submit(self, job: Job | Command, /, **words: Any) -> JobFuture:  # type: ignore[override]
        """Gives a job to the pool, and returns its future. `words` are those of `Job`, for a command.

        Waits while `waiting` jobs wait already. Raises CallgateError if the job cannot be run or the pool has failed, and
        RuntimeError after `shutdown`.
        """
        future = JobFuture(made(job, words))
        self._check(future.job)
        with self._changed:
            if threading.current_thread() not in self._own:
                self._changed.wait_for(lambda: len(self._waiting) < self._most or self._closed or self._broken)
            if self._closed:
                raise RuntimeError("the pool is closed; no job can be given to it any more")
            if self._broken:
                raise self._broken
            self._waiting.append(future)
            self._changed.notify_all()
        return future

    def _check(self, job: Job) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError("the pool belongs to the process that made it; make one in this process")

    def as_completed(self, jobs: Iterable[Job | Command], *, progress: bool = False, **words: Any) -> Iterator[JobFuture]:
        """The futures of the jobs, each as soon as it is done. Jobs are taken as there is room: `jobs` may have no end.

        progress    draws a bar on a terminal, by tqdm
        """
        done: queue.SimpleQueue[JobFuture] = queue.SimpleQueue()
        left: set[JobFuture] = set()
        coming = iter(jobs)
        try:
            with bar(jobs, progress) as step:
                while True:
                    for one in itertools.islice(coming, max(0, AHEAD * self.at_once - len(left))):
                        future = self.submit(one, **words)
                        left.add(future)
                        future.add_done_callback(done.put)  # type: ignore[arg-type]
                    if not left:
                        return
                    future = done.get()
                    left.remove(future)
                    step()
                    yield future
        finally:
            for future in left:
                future.end()

    def map(self, jobs: Iterable[Job | Command], /, *, return_errors: bool = False,  # type: ignore[override]
            progress: bool = False, **words: Any) -> Iterator[Result | CallgateError]:
        """The results of the jobs, in their order. Jobs are taken as there is room: `jobs` may have no end.

        return_errors   a job that callgate could not run gives its CallgateError, which is raised otherwise
        progress        draws a bar on a terminal, by tqdm
        """
        left: collections.deque[JobFuture] = collections.deque()
        coming = iter(jobs)
        try:
            with bar(jobs, progress) as step:
                while True:
                    more = itertools.islice(coming, max(0, AHEAD * self.at_once - len(left)))
                    left.extend(self.submit(one, **words) for one in more)
                    if not left:
                        return
                    error = left[0].exception()
                    if isinstance(error, CallgateError) and return_errors:
                        result: Result | CallgateError = error
                    else:
                        result = left[0].result()
                    left.popleft()
                    step()
                    yield result
        finally:
            for future in left:
                future.end()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no further job. Jobs that wait are run, or cancelled; `wait` returns when nothing is left."""
        with self._changed:
            self._closed = True
            if cancel_futures:
                for future in self._waiting:
                    future.cancel()
            self._changed.notify_all()
        if wait:
            self._giver.join()

    def _give_out(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next() is not None or (self._closed and not self._waiting and not self._given))
                found = self._next()
                if found is None:
                    break
                future, worker = found
                self._waiting.remove(future)
                self._changed.notify_all()
                if not future.running() and not future.set_running_or_notify_cancel():
                    continue
                future.tries += 1
                self._given[future] = worker
            try:
                self._give(worker, future)
            except OSError as error:
                self._not_begun(future, CallgateError(f"the job could not be given out: {error}"))
        self._close()

    def _next(self) -> tuple[JobFuture, Any] | None:
        """A job that waits and a worker for it. The first job for which there is one."""
        for future in self._waiting:
            if (worker := self._worker(future)) is not None:
                return future, worker
            if not future.avoided:
                break  # any worker would do, and none has room
        return None

    def _taken(self, future: JobFuture) -> bool:
        """Takes the job back from its worker; False if it is not there any more."""
        with self._changed:
            future._end = None
            self._changed.notify_all()
            return self._given.pop(future, None) is not None

    def _ended(self, future: JobFuture, result: Result) -> None:
        if self._taken(future):
            future.set_result(result)

    def _failed(self, future: JobFuture, error: BaseException) -> None:
        if self._taken(future):
            future.set_exception(error)

    def _not_begun(self, future: JobFuture, error: CallgateError, again: bool = False) -> None:
        """The job did not begin. `again`: it is given out once more whatever `retries` says."""
        with self._changed:
            if future in self._given:
                future.avoided.add(self._avoid(self._given[future]))
            more = (again or future.tries <= self._retries) and future._ending is None and not self._broken
            if not self._taken(future):
                return
            if more:
                self._waiting.append(future)
                return
        future.set_exception(self._broken or error)

    def _break(self, error: CallgateError) -> None:
        """There will be no worker any more: every job that waits fails."""
        with self._changed:
            self._broken, left = error, [*self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
        for future in left:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(error)


class Pool(JobExecutor):
    """Jobs on this machine, by one `callgate exec --serve` that is started anew where it is lost.

    The options are those of `Sandbox`, or one is given. `on_ask` cannot be used: `ask="socket"` lets `callgate approve`
    answer. Rules are worked out for each job. The server inherits from the thread that makes the pool: identity, limits,
    control group, Landlock domain. Close it by `with` or `shutdown`; if this program is killed all jobs are ended.

    at_once     jobs that run at the same time (default: as many as this process has processors)
    waiting, retries    see `JobExecutor`
    """

    def __init__(self, sandbox: Sandbox | None = None, *, at_once: int | None = None, waiting: int = 1000, retries: int = 0,
                 **options: Any) -> None:
        if sandbox is not None and options:
            raise TypeError(f"Pool() got a sandbox and its options: {', '.join(options)}")
        self._sandbox = sandbox or Sandbox(**options)
        super().__init__(at_once or len(os.sched_getaffinity(0)), waiting, retries, self._sandbox.on_ask)
        self._workdir, self._numbers = self._sandbox.workdir, itertools.count(1)
        self._running: _Server | None = None
        self._words, self._env = server_line(self._sandbox, self.at_once)
        self._giver.start()

    def _check(self, job: Job) -> None:
        super()._check(job)
        job.line(0, self._workdir, {})

    def _worker(self, future: JobFuture) -> Any:
        return self if len(self._given) < self.at_once else None

    def _give(self, worker: Any, future: JobFuture) -> None:
        number = next(self._numbers)
        try:
            with self._changed:
                if self._running is None:
                    self._running = _Server(self._words, self._env, self)
                server = self._running
                server.jobs[number] = future
        except CallgateError as error:
            self._failed(future, error)
            self._break(error)
            return
        try:
            server.send(future.job.line(number, self._workdir, self._sandbox.given.env or {}))
            future.begun(lambda now: server.cancel(number, now))
        except OSError as error:
            with self._changed:
                taken = server.jobs.pop(number, None)
            if taken:
                self._not_begun(future, CallgateError(f"callgate exec ended: {error}"), again=True)

    def _server_ended(self, server: _Server) -> None:
        """Called by the server's reader, when nothing of it is left."""
        with self._changed:
            self._running = None if self._running is server else self._running
            lost, server.jobs = [*server.jobs.values()], {}
        why = server.why()
        if not server.answered and server.process.returncode >= 0:  # none would
            error = CallgateError(why)
            for future in lost:
                self._failed(future, error)
            self._break(error)
        for future in lost:
            self._failed(future, WorkerLost(why))

    def _close(self) -> None:
        if self._running is not None:
            self._running.close()


class _Server:
    """A `callgate exec --serve` and the thread that reads its answers."""

    def __init__(self, words: list[str], env: dict[str, str], pool: Pool) -> None:
        self.pool, self.answered = pool, 0
        self.jobs: dict[int, JobFuture] = {}  # guarded by the pool's lock
        self._said, self._writing = os.memfd_create("callgate-exec"), threading.Lock()
        try:
            self.process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        except (FileNotFoundError, PermissionError) as error:
            raise CallgateNotFound(f"{words[0]} cannot be executed; {binaries.ADVICE}") from error
        except OSError as error:
            raise CallgateError(f"callgate could not be started: {error.strerror} ({words[0]})") from error
        self.reader = threading.Thread(target=self._read, name="callgate pool answers", daemon=True)
        pool._own.add(self.reader)
        self.reader.start()

    def send(self, line: bytes) -> None:
        """Raises OSError if the server did not take the whole line."""
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def cancel(self, number: int, now: bool) -> None:
        with contextlib.suppress(OSError, ValueError):  # its answer is under way, or says that the server is lost
            self.send(json.dumps({"cancel": number, **({"now": True} if now else {})}).encode() + b"\n")

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break
            answer = json.loads(line)
            if "cancel" in answer:
                continue
            with self.pool._changed:
                future = self.jobs.pop(answer["id"], None)
            if future is not None:
                self.answered += 1
                self._answer(future, answer)
        self.process.wait()
        self.process.stdout.close()
        self.pool._server_ended(self)
        os.close(self._said)
        self.pool._own.discard(threading.current_thread())

    def _answer(self, future: JobFuture, answer: dict[str, Any]) -> None:
        if "exit_code" not in answer:
            self.pool._not_begun(future, CallgateError(f"callgate: {answer['error']}", answer.get("report")))
            return
        result = result_of(answer)
        try:
            raise_failure(self.pool._words[0], result, result.stderr[-SAID:])
        except CallgateError as error:
            self.pool._failed(future, error)
        else:
            self.pool._ended(future, result)

    def why(self) -> str:
        """Why the server is gone."""
        status = self.process.returncode
        if status < 0:
            return f"callgate exec was killed by signal {-status}; the job and all that it had started were ended"
        said = os.pread(self._said, SAID, max(0, os.fstat(self._said).st_size - SAID)).decode("utf-8", "replace").strip()
        return said or f"callgate exec ended with status {status}"


def made(job: Job | Command, words: dict[str, Any]) -> Job:
    if not isinstance(job, Job):
        return Job(job, **words)
    if words:
        raise TypeError(f"a Job has its own words; {', '.join(words)} was given beside it")
    return job


def server_line(sandbox: Sandbox, at_once: int) -> tuple[list[str], dict[str, str]]:
    """The line of `callgate exec --serve`, and its environment."""
    files, given = MemoryFiles(), sandbox.with_options(workdir=None, env=None).given  # each job says both
    names, surroundings = environment(given, None)
    arguments = [*run_arguments(given, files), *interpreter(), *names, f"--grace={milliseconds(GRACE)}ms", f"--ask={given.ask}",
                 f"--max-output={sandbox.max_output}", f"--jobs={at_once}"]
    if files.descriptors:
        files.close()
        raise CallgateError("the rules are too long for a command line; write them to a file and give its path")
    if sandbox.timeout is not None:
        arguments.append(f"--timeout={milliseconds(sandbox.timeout)}ms")
    return [sandbox.binary, "exec", "--serve", *arguments], surroundings


def result_of(answer: dict[str, Any]) -> Result:
    """The result in an answer of `callgate exec`."""
    def output(name: str) -> bytes:
        plain = answer.get(f"{name}_base64")
        return base64.b64decode(plain) if plain is not None else str(answer[name]).encode()
    cut = bool(answer.get("output_truncated") or answer.get("error_truncated"))
    return Result.from_report(answer["exit_code"], answer["report"], output("output"), output("error"), cut)


@contextlib.contextmanager
def bar(jobs: Iterable[Any], progress: bool) -> Iterator[Any]:
    """A function that counts one job more, with a bar if it is wanted and there is a terminal."""
    if not progress or not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise CallgateError("progress=True needs the package tqdm; install it, or leave progress out") from error
    with tqdm(total=len(jobs) if isinstance(jobs, (list, tuple)) else None, unit="job") as shown:
        yield shown.update
