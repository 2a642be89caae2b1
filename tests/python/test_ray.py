"""Pools on Ray: a real cluster of two nodes on this machine, in namespaces of this process. Actors, nodes and a disk fail."""
from __future__ import annotations

import ctypes
import fcntl
import os
import random
import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from callgate import CallgateError, Job, WorkerLost
from questions import alive, each_ended_once, sleeper, wait

ray = pytest.importorskip("ray")
from callgate.ray import SandboxPool  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

MANY = 10_000 if os.environ.get("CALLGATE_SOAK") == "1" else 500
ROOM = 2  # jobs at once on a node
NEWNS, NEWUSER, NEWNET = 0x00020000, 0x10000000, 0x40000000
IFF_UP = 1


@pytest.fixture(scope="module")
def apart():
    """This process with a loopback and mounts of its own, as the user that it was."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEWNS | NEWNET | (0 if user == 0 else NEWUSER)):
        pytest.skip(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
    with socket.socket() as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", IFF_UP))  # SIOCSIFFLAGS
    return libc


@pytest.fixture(scope="module")
def full(apart, tmp_path_factory):
    """A directory on a disk that has no room left."""
    place = tmp_path_factory.mktemp("full")
    assert apart.mount(b"none", str(place).encode(), b"tmpfs", 0, b"size=64k") == 0
    with open(place / "filled", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 4096)
    return place


class World:
    """A cluster of two nodes."""

    def __init__(self, **second):
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": ROOM, "include_dashboard": False})
        self.second = self.cluster.add_node(num_cpus=ROOM, **second)
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")

    def close(self):
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def world(apart):
    made = World()
    yield made
    made.close()


def test_results_logs_and_ends(world, workdir):
    word = sleeper()
    with SandboxPool(workdir=workdir, logs=workdir / "logs") as pool:
        found = list(pool.map([Job(f"cat /etc/shadow; echo {number}; echo $PPID >> parents", name=number) for number in range(40)]))
        assert [one.text for one in found] == [f"{number}\n" for number in range(40)]
        assert len(set((workdir / "parents").read_text().split())) > 1
        for one in found:
            log = (workdir / "logs" / f"{one.report['run']}.jsonl").read_text()
            assert '"action":"run.end"' in log and "/etc/shadow" in log and one.denials[0].object == "/etc/shadow"
        running = pool.submit(f"touch up; exec sleep {word}")
        wait((workdir / "up").exists, "it runs")
        running.end()
        assert running.result().outcome == "cancelled"
        bad = pool.submit("true", workdir="nowhere")
        with pytest.raises(CallgateError, match="nowhere: No such file"):
            bad.result()
        assert bad.tries == 3 and len(bad.avoided) == 2
    assert not alive(word)
    with pytest.raises(CallgateError, match="no worker could be started on node .* there is no callgate at /nope"), \
            SandboxPool(binary="/nope") as pool:
        pool.submit("true").result()


def workers(actor):
    """The pids of the processes of Ray's actors of this kind."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and actor.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_what_a_lost_actor_and_a_lost_node_had_is_lost_and_nothing_else(world, workdir):
    chance = random.Random(3)
    word = sleeper()
    lost, ended = [], set()
    faults = {MANY // 4: "actor", MANY // 2: "node"}
    with SandboxPool(workdir=workdir) as pool:
        jobs = (Job(["mkdir", f"d{number}"], name=number) for number in range(MANY))
        for future in each_ended_once(pool.as_completed(jobs), ended):
            if future.exception() is not None:
                lost.append(future.job.name)
            if (fault := faults.get(len(ended))) == "actor":
                os.kill(chance.choice(workers("ray::_Actor")), signal.SIGKILL)
            elif fault == "node":
                held = [pool.submit(f"touch held{number}; exec sleep {word}") for number in range(4 * ROOM)]
                wait(lambda: len(list(workdir.glob("held*"))) == 2 * ROOM, "both nodes are full")
                os.kill(world.second.all_processes["raylet"][0].process.pid, signal.SIGKILL)
                wait(lambda held=held: sum(one.done() for one in held) >= ROOM, "the jobs of the lost node are told of")
                for one in held:
                    one.end(now=True)
                gone = [one for one in held if one.done() and not one.cancelled() and one.exception() is not None]
                assert len(gone) == ROOM and all(isinstance(one.exception(), WorkerLost) for one in gone)
                wait(lambda: not alive(word), "the trees of both nodes have ended")
        assert ended == set(range(MANY)) and len(lost) <= 2 * ROOM
    assert len(list(workdir.glob("d*"))) >= MANY - len(lost)


def test_a_node_with_a_full_disk_does_no_harm(apart, full, workdir):
    world = World(env_vars={"XDG_STATE_HOME": str(full)})
    try:
        with SandboxPool(workdir=workdir, audit=True) as pool:
            wait(lambda: [one.ready for one in pool._workers] == [True, True], "both nodes take jobs")
            futures = list(pool.as_completed(Job(f"echo {number}", name=number) for number in range(40)))
            assert sorted(one.result().text for one in futures) == sorted(f"{number}\n" for number in range(40))
            assert any(one.avoided for one in futures), "no job met the full disk"
    finally:
        world.close()


def test_without_a_cluster():
    with pytest.raises(CallgateError, match="ray.init"):
        SandboxPool()
    with pytest.raises(CallgateError, match="on_ask"):
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        SandboxPool(on_ask=print)
    ray.shutdown()
    assert subprocess.run(["true"], check=True).returncode == 0
