"""Many jobs on many machines: a pool whose workers are Ray actors, each with one `callgate exec --serve`.

    import ray
    from callgate.ray import SandboxPool
    ray.init()
    with SandboxPool(profile="python", timeout=60, memory="1G") as pool:
        for future in pool.as_completed(jobs):
            ...

Each node has one actor. No more jobs are given to it than run there at once, and the others wait here. So a lost node takes
only the jobs that it had: they raise WorkerLost.
"""
from __future__ import annotations

import itertools
import os
import pathlib
import select
import threading
from concurrent import futures
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .errors import CallgateError, WorkerLost
from .job import Job, JobFuture
from .options import Path
from .pool import JobExecutor, Pool

PATIENCE = 5.0  # seconds that a worker has for its end


class SandboxPool(JobExecutor):
    """Jobs on all nodes of the Ray cluster to which this program is connected. callgate must be installed on each.

    The options are those of `Sandbox`, for each node: its paths, its rules, its state directory. A worker that is lost is
    replaced while its node lives. Nodes that joined are found then, too.

    per_node    jobs that run at the same time on each node (default: its number of processors in Ray's resources)
    logs        a directory here in which the log of each run is put as it ends, as RUN.jsonl (the run's name is in
                `Result.report["run"]`); None: no logs, unless `audit=True` keeps them on the nodes
    waiting, retries    see `JobExecutor`; a job that did not begin on one node goes to another
    """

    def __init__(self, *, per_node: int | None = None, logs: Path | None = None, waiting: int = 1000, retries: int = 2,
                 **options: Any) -> None:
        if not ray.is_initialized():
            raise CallgateError("this program is connected to no Ray cluster; call ray.init() first")
        if per_node is not None and per_node < 1:
            raise ValueError(f"per_node is {per_node}; expected 1 or more")
        super().__init__(1, waiting, retries, options.get("on_ask"))
        self._per_node, self._logs = per_node, None if logs is None else pathlib.Path(logs)
        self._options = {**options, "audit": True} if logs is not None else options
        if self._logs is not None:
            self._logs.mkdir(parents=True, exist_ok=True)
        self._workers: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._unfit: set[str] = set()  # nodes on which no worker could be started
        self._last: CallgateError | None = None
        self._look()
        self._giver.start()

    def _look(self) -> None:
        """Starts a worker on each living node that has none. Without any, the pool has failed."""
        alive = {one["NodeID"]: int(one["Resources"].get("CPU", 0)) for one in ray.nodes() if one["Alive"]}
        with self._changed:
            known = {one.node for one in self._workers} | self._unfit
            for node, processors in alive.items():
                if node not in known and not self._closed and (room := self._per_node or processors) > 0:
                    self._workers.append(_Worker(self, node, room, self._options))
            none = not self._workers
        if none:
            self._break(self._last or CallgateError("no node of the Ray cluster has processors to run jobs on"))

    def _worker(self, future: JobFuture) -> Any:
        ready = [one for one in self._workers if one.ready]
        self.at_once = max(1, sum(one.room for one in ready))
        fresh = [one for one in ready if one.node not in future.avoided] or ready
        free = [one for one in fresh if len(one.jobs) < one.room]
        return max(free, key=lambda one: one.room - len(one.jobs)) if free else None

    def _give(self, worker: Any, future: JobFuture) -> None:
        worker.jobs.add(future)
        number = next(self._numbers)
        reference = worker.actor.run.remote(number, future.job)
        reference.future().add_done_callback(lambda done: self._done(worker, future, done))
        future.begun(lambda now: worker.actor.end.remote(number, now))

    def _avoid(self, worker: Any) -> Any:
        return worker.node

    def _done(self, worker: _Worker, future: JobFuture, done: Any) -> None:
        with self._changed:
            worker.jobs.discard(future)
        try:
            kind, value, log = done.result()
        except RayTaskError as error:
            self._failed(future, CallgateError(f"the job failed on node {worker.node}: {error.cause}"))
        except RayError as error:
            self._failed(future, WorkerLost(f"the worker on node {worker.node} was lost with the job: {error}"))
            self._gone(worker)
        else:
            if log is not None and self._logs is not None:
                (self._logs / f"{log[0]}.jsonl").write_bytes(log[1])
            if kind == "result":
                self._ended(future, value)
            elif kind == "not begun":
                self._not_begun(future, value)
            else:
                self._failed(future, value)

    def _gone(self, worker: _Worker, error: CallgateError | None = None) -> None:
        with self._changed:
            if worker not in self._workers:
                return
            self._workers.remove(worker)
            if error is not None:
                self._last = error
                self._unfit.add(worker.node)
        self._look()

    def _close(self) -> None:
        for one in self._workers:
            one.close()


class _Worker:
    """The actor of a node, seen from here."""

    def __init__(self, pool: SandboxPool, node: str, room: int, options: dict[str, Any]) -> None:
        self.node, self.room, self.ready = node, room, False
        self.jobs: set[JobFuture] = set()
        placed = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        kind: Any = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(_Actor)
        self.actor = kind.options(scheduling_strategy=placed, max_concurrency=room + 1).remote(options, room)
        self.actor.started.remote().future().add_done_callback(lambda done: self._started(pool, done))

    def _started(self, pool: SandboxPool, done: Any) -> None:
        if (error := done.exception()) is None:
            with pool._changed:
                self.ready = True
                pool._changed.notify_all()
            return
        why = getattr(error, "cause", None) or error
        pool._gone(self, CallgateError(f"no worker could be started on node {self.node}: {why}"))

    def close(self) -> None:
        try:
            ray.get(self.actor.close.remote(), timeout=PATIENCE)
        except RayError:
            pass  # it is gone, or ended by the next line
        ray.kill(self.actor)


class _Actor:
    """A pool on one node. It is never restarted, and no call of it is made twice, by Ray."""

    def __init__(self, options: dict[str, Any], at_once: int) -> None:
        self.options, self.at_once = options, at_once
        self.pool: Pool
        self.lock = threading.Lock()
        self.running: dict[int, JobFuture] = {}
        self.ending: dict[int, bool] = {}  # jobs that are to end and have not come yet

    def started(self) -> None:
        """Makes the pool: an error of a call can be told, other than one of `__init__`."""
        raylet = os.pidfd_open(os.getppid())
        threading.Thread(target=end_with, args=(raylet,), name="callgate raylet", daemon=True).start()
        self.pool = Pool(at_once=self.at_once, **self.options)

    def run(self, number: int, job: Job) -> tuple[str, Any, tuple[str, bytes] | None]:
        """Runs the job, and returns what became of it: the result or the error, and the log."""
        try:
            with self.lock:
                self.running[number] = future = self.pool.submit(job)
                if number in self.ending:
                    future.end(self.ending.pop(number))
            result = future.result()
        except futures.CancelledError:
            return "not begun", CallgateError("the job was ended before it began"), None
        except CallgateError as error:
            begun = error.result is not None
            return "error" if begun else "not begun", error, log_of(error.report)
        finally:
            self.running.pop(number, None)
        return "result", result, log_of(result.report)

    def end(self, number: int, now: bool) -> None:
        with self.lock:
            if (future := self.running.get(number)) is None:
                self.ending[number] = now
            else:
                future.end(now)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)


def log_of(report: dict[str, Any]) -> tuple[str, bytes] | None:
    """A run's name and its log, None if none was kept."""
    file = (report.get("audit") or {}).get("file")
    if not file or not report.get("run") or not os.path.exists(file):
        return None
    return str(report["run"]), pathlib.Path(file).read_bytes()


def end_with(process: int) -> None:
    """Ends this program, and with it all its jobs, as soon as that process has ended. Ray lets an actor finish its calls, but
    nobody hears of them then: to the pool the node is lost."""
    select.select([process], [], [])
    os._exit(1)
