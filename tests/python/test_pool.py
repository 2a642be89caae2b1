"""Pools: each job has exactly one end, what is lost is named, and nothing is left."""
from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent import futures

import pytest
from callgate import CallgateError, Job, Pool, Sandbox, WorkerLost
from questions import alive, each_ended_once, sleeper, wait

MANY = 10_000 if os.environ.get("CALLGATE_SOAK") == "1" else 500


def test_results_come_in_order_or_as_they_end(workdir):
    with Pool(at_once=2, workdir=workdir) as pool:
        assert [one.text for one in pool.map([f"echo {number}" for number in range(9)])] == [f"{number}\n" for number in range(9)]
        quick, slow = Job(["true"], name="quick"), Job("until [ -e go ]; do sleep 0.01; done", name="slow")
        found = []
        for future in pool.as_completed([slow, quick]):
            found.append(future.job.name)
            (workdir / "go").touch()
        assert found == ["quick", "slow"]
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit("true")


def test_a_job_is_what_a_sandbox_runs(workdir):
    (workdir / "sub").mkdir()
    (workdir / "other").mkdir()
    with Pool(workdir=workdir, env={"A": "1", "B": "1"}) as pool:
        assert pool.submit(["cat"], input=bytes(range(256)) * 4096).result().stdout == bytes(range(256)) * 4096
        assert pool.submit("echo a; echo b >&2; echo c", merge_stderr=True).result().stdout == b"a\nb\nc\n"
        assert pool.submit("echo $A $B $PWD", env={"B": "2"}, cwd="sub").result().text == f"1 2 {workdir}/sub\n"
        assert pool.submit("pwd", workdir="other").result().text == f"{workdir}/other\n"
        assert pool.submit("exit 7").result().exit_code == 7
        result = pool.submit("head -c 3000 /dev/zero", max_output=1000).result()
        assert (len(result.stdout), result.truncated) == (1000, True)
        code = "import sys\nprint(sys.executable, sys.argv, len('" + "ä" * 300_000 + "'))"
        for language, text in (("python", code), ("python", "import sys\nprint(sys.executable, sys.argv, 300000)")):
            assert pool.submit(Job(code=text, language=language)).result().text == f"{sys.executable} ['-c'] 300000\n"
        assert pool.submit(Job(code="x=" + "1" * 200_000 + "\necho ${#x}", language="bash")).result().text == "200000\n"
        for bad in (Job(), Job("true", code="1"), Job([]), Job(code="1", language="cobol"), Job("a\0b"), Job(code="a\0b"),
                    Job("true", timeout="soon"), Job("true", memory=object())):
            with pytest.raises((CallgateError, TypeError)):
                pool.submit(bad)


def test_limits_are_the_jobs_and_the_pools(workdir):
    with Pool(workdir=workdir, timeout=60) as pool:
        ended = [pool.submit("exec sleep 1000", timeout=0.2), pool.submit("while :; do :; done", cpu=1)]
        assert [one.result().outcome for one in ended] == ["timeout", "cpu"]
        assert pool.submit("true").result().outcome == "exited"
    with Pool(workdir=workdir, timeout=0.2) as pool:
        assert pool.submit("exec sleep 1000", timeout=500).result().timed_out


def test_rules_hold_in_a_pool(workdir, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("planted")
    rules = {"version": 1, "extends": ["agent"], "rules": [{"id": "mine", "deny": "read", "path": f"{outside}/**"}]}
    with Pool(workdir=workdir, rules=rules) as pool, Pool(workdir=workdir, profile="agent", read=outside) as control:
        assert control.submit(f"cat {outside}/secret").result().text == "planted"
        result = pool.submit(f"cat {outside}/secret; echo kept > here; cat here").result()
        assert result.text == "kept\n" and [one.rule for one in result.denials] == ["mine"] and "mine" not in result.text


def test_what_cannot_run_is_said_and_harms_nobody(workdir):
    with Pool(workdir=workdir, retries=2) as pool:
        bad = pool.submit("true", workdir="nowhere")
        with pytest.raises(CallgateError, match="nowhere: No such file or directory"):
            bad.result()
        assert bad.tries == 3
        found = list(pool.map([Job("echo 1"), Job("true", workdir="nowhere"), Job("echo 2")], return_errors=True))
        assert [getattr(one, "text", None) for one in found] == ["1\n", None, "2\n"]
        with pytest.raises(CallgateError, match="nowhere"):
            list(pool.map([Job("true", workdir="nowhere")]))
    for options, text in (({"profile": "pyton"}, "did you mean python"), ({"options": ["--timeout=never"]}, "--timeout"),
                          ({"binary": "/bin/true"}, "ended with status 0|not callgate")):
        with pytest.raises(CallgateError, match=text), Pool(workdir=workdir, **options) as pool:
            pool.submit("true").result()
    with pytest.raises(CallgateError, match="on_ask"):
        Pool(on_ask=print)
    with pytest.raises(ValueError, match="retries"):
        Pool(retries=-1)
    with pytest.raises(TypeError, match="profile"):
        Pool(Sandbox(), profile="agent")


def test_exactly_the_jobs_of_a_killed_server_are_lost(workdir):
    word = sleeper()
    with Pool(at_once=2, workdir=workdir) as pool:
        first = [pool.submit(f"echo {number} >> ran; exec sleep {word}") for number in range(2)]
        rest = [pool.submit(f"echo {number} >> ran") for number in range(2, 20)]
        wait(lambda: (workdir / "ran").exists() and len((workdir / "ran").read_text().split()) == 2, "both run")
        os.kill(pool._running.process.pid, signal.SIGKILL)
        for one in first:
            with pytest.raises(WorkerLost, match="killed by signal 9") as caught:
                one.result()
            assert caught.value.result.outcome == "worker_lost"
        assert [one.result().exit_code for one in rest] == [0] * 18
        wait(lambda: not alive(word), "the jobs' trees have ended")
    assert sorted(map(int, (workdir / "ran").read_text().split())) == list(range(20))


def test_jobs_are_ended_and_pools_closed(workdir):
    word = sleeper()
    threads = threading.active_count()
    with Pool(at_once=1, workdir=workdir) as pool:
        running, waiting = pool.submit(f"echo out; touch up; exec sleep {word}"), pool.submit("touch never")
        wait((workdir / "up").exists, "it runs")
        waiting.end()
        running.end(now=True)
        assert waiting.cancelled() and running.result().outcome == "cancelled" and running.result().text == "out\n"
        left = [pool.submit(f"touch {number}") for number in range(5)]
        pool.shutdown(cancel_futures=True)
        assert all(one.done() for one in left)
    for one in pool.as_completed([]):
        pytest.fail(str(one))
    assert not (workdir / "never").exists() and threading.active_count() == threads


def test_jobs_are_taken_as_there_is_room(workdir):
    taken = itertools.count()
    with Pool(at_once=2, waiting=3, workdir=workdir) as pool:
        coming = pool.as_completed(f"true {next(taken)}" for _ in itertools.count())
        for _ in range(5):
            next(coming).result()
        coming.close()
        assert 5 <= next(taken) <= 5 + 4 * 2
        gate = [pool.submit("until [ -e go ]; do sleep 0.01; done") for _ in range(2)]
        wait(lambda: all(one.running() for one in gate), "both run")
        for _ in range(3):
            pool.submit("true")
        more = threading.Thread(target=pool.submit, args=("true",))
        more.start()
        more.join(0.3)
        assert more.is_alive()
        (workdir / "go").touch()
        more.join(30)
        assert not more.is_alive()


def test_a_pool_belongs_to_its_process(workdir):
    with Pool(workdir=workdir) as pool, futures.ProcessPoolExecutor(1) as other:
        pool.submit("true").result()
        assert other.submit(submitted, id(pool)).result() == "RuntimeError"
    word = sleeper()
    program = f"from callgate import Pool\np = Pool()\np.submit('touch up; exec sleep {word}').result()"
    process = subprocess.Popen([sys.executable, "-c", program])
    wait((workdir / "up").exists, "it runs")
    process.kill()
    process.wait()
    wait(lambda: not alive(word), "the tree has ended")


POOLS: dict[int, Pool] = {}
REAL = Pool.__init__


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Pools by their number, for a process that was forked."""
    def init(self, *words, **options):
        POOLS[id(self)] = self
        REAL(self, *words, **options)
    monkeypatch.setattr(Pool, "__init__", init)
    yield
    POOLS.clear()


def submitted(number):
    try:
        POOLS[number].submit("true")
    except RuntimeError as error:
        return type(error).__name__
    return "nothing"


def test_many_jobs_while_servers_are_killed(workdir):
    """Each job has one end, and no job ran twice."""
    chance, lost = random.Random(7), 0
    with Pool(at_once=4, workdir=workdir) as pool:
        jobs = (Job(["mkdir", f"d{number}"], name=number) for number in range(MANY))
        ended = set()
        for future in each_ended_once(pool.as_completed(jobs), ended):
            lost += future.exception() is not None
            if chance.random() < 20 / MANY and pool._running is not None:
                with contextlib.suppress(ProcessLookupError):  # the last one is not missed yet
                    os.kill(pool._running.process.pid, signal.SIGKILL)
        assert ended == set(range(MANY)) and 0 < lost < MANY / 5
        assert len(list(workdir.iterdir())) >= MANY - lost
