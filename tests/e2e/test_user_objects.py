"""System V objects and message queues, which the whole user shares: a run has its own, and nothing of the others'."""
from __future__ import annotations

import os
import signal
import subprocess
import zlib

import pytest

import harness

UNSEEN = "memory ? mode 0 semaphore -1 message -1 queue -1\n"


def names(box, turn="") -> list[str]:
    """A key and a queue's name that nobody else uses."""
    marker = f"{box.root}-{turn}-{os.getpid()}"
    return [str(0x10000000 + zlib.crc32(marker.encode()) % 0x10000000), f"cg-{zlib.crc32(marker.encode())}"]


def rules(box):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})


@pytest.fixture
def objects(box):
    """Somebody else's of the same user: key, queue and ids, and what they hold as seen from outside."""
    program, name = box.program("prog_objects"), names(box, "foreign")
    made = box.run([program, "make", *name], supervised=False)
    assert made.code == 0, made.describe()
    ids = made.text.split()
    yield name, ids, lambda: box.run([program, "show", *name, *ids], supervised=False).text
    box.run([program, "remove", *name], supervised=False)


def test_a_runs_own_objects_work_as_bare(box):
    program, name = box.program("prog_objects"), names(box)
    bare = box.run([program, "own", *name], supervised=False)
    assert bare.code == 0 and len(bare.text.splitlines()) >= 150, bare.describe()
    result = box.run([program, "own", *name], rules(box))
    different = [f"bare       {one}\nsupervised {two}" for one, two in zip(bare.text.splitlines(), result.text.splitlines()) if one != two]
    assert not different and result.out == bare.out, "\n".join(different) + result.describe()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to compare with")
def test_others_objects_are_as_another_users(box, objects):
    """Call by call, what the kernel says to another user is what callgate says to a run of the same user."""
    name, ids, seen = objects
    before = seen()
    line = [box.program("prog_objects"), "foreign", *name, *ids]
    other = subprocess.run(line, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=True).stdout
    assert len(other.splitlines()) >= 70 and seen() == before
    result = box.run(line, rules(box))
    different = [f"another user {one}\nsupervised   {two}" for one, two in zip(other.splitlines(), result.text.splitlines()) if one != two]
    assert not different and result.text == other, "\n".join(different) + result.describe()
    assert seen() == before


def test_others_objects_are_out_of_reach(box, objects):
    name, ids, seen = objects
    program = box.program("prog_objects")
    before = seen()
    assert before == "memory secret mode 600 semaphore 42 message 6 queue 1\n", before
    control = box.run([program, "show", *name, *ids], supervised=False)
    assert control.text == before, "the control reaches them"
    held = box.run([program, "show", *name, *ids], rules(box))
    assert held.text == UNSEEN, held.describe()
    box.run([program, "foreign", *name, *ids], rules(box))
    box.run([program, "remove", *name], rules(box))
    after = seen()
    assert after == before, after
    # the attack reaches its goal bare: what it changes and removes is gone
    box.run([program, "foreign", *name, *ids], supervised=False)
    assert seen() == UNSEEN


@pytest.mark.parametrize("call", ["SHM_STAT", "SHM_STAT_ANY", "SEM_STAT", "SEM_STAT_ANY", "MSG_STAT", "MSG_STAT_ANY"])
def test_a_walk_over_all_indices_shows_only_the_runs_own(box, objects, call):
    _, ids, _ = objects
    script = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
number = dict(SHM_STAT=13, SHM_STAT_ANY=15, SEM_STAT=18, SEM_STAT_ANY=20, MSG_STAT=11, MSG_STAT_ANY=13)["{call}"]
kind = "{call}"[:3].lower()
state = ctypes.create_string_buffer(512)
own = dict(shm=libc.shmget, sem=libc.semget, msg=libc.msgget)[kind](0, *dict(shm=(100, 0o600), sem=(1, 0o600), msg=(0o600,))[kind])
def look(index):
    return dict(shm=lambda: libc.shmctl(index, number, state), sem=lambda: libc.semctl(index, 0, number, state), msg=lambda: libc.msgctl(index, number, state))[kind]()
seen = sorted(one for one in map(look, range(4096)) if one >= 0)
print(own in seen, {ids["shm sem msg".split().index(call[:3].lower())]} in seen, len(seen))
dict(shm=lambda: libc.shmctl(own, 0, 0), sem=lambda: libc.semctl(own, 0, 0), msg=lambda: libc.msgctl(own, 0, 0))[kind]()
"""
    bare = box.run(["/usr/bin/python3", "-c", script], supervised=False)
    assert bare.text.startswith("True True"), bare.describe()
    result = box.run(["/usr/bin/python3", "-c", script], rules(box))
    assert result.text == "True False 1\n", result.describe()


def test_threads_that_want_the_same_key_all_get_it(box):
    name = names(box)
    result = box.run([box.program("prog_objects"), "together", *name], rules(box))
    assert result.text == "wrong 0\n", result.describe()


def gone(box, name) -> bool:
    script = ("import ctypes,sys\nlibc=ctypes.CDLL(None)\nkey=int(sys.argv[1])\n"
              "print(libc.shmget(key,0,0), libc.semget(key,0,0), libc.msgget(key,0))")
    return box.run(["/usr/bin/python3", "-c", script, name[0]], supervised=False).text == "-1 -1 -1\n" \
        and box.run([box.program("prog_objects"), "show", *name, "-1", "-1", "-1"], supervised=False).text == UNSEEN


def test_what_a_run_leaves_is_removed_with_it(box):
    program, name = box.program("prog_objects"), names(box)
    bare = box.run([program, "make", *name], supervised=False)
    assert bare.code == 0 and not gone(box, name)
    box.run([program, "remove", *name], supervised=False)
    result = box.run([program, "make", *name], rules(box))
    assert result.code == 0 and len(result.text.split()) == 3, result.describe()
    assert gone(box, name)


def test_what_a_run_leaves_is_removed_when_callgate_is_killed(box):
    program, name = box.program("prog_objects"), names(box)
    line, _ = box.command([program, "leave", *name], rules(box))
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    harness.read_until(process.stdout.fileno(), b"ready")
    assert not gone(box, name)
    process.send_signal(signal.SIGKILL)
    harness.until(lambda: gone(box, name), "the guardian removes what the run made")


def test_ipcrm_removes_nothing_of_others(box, objects):
    name, ids, seen = objects
    before = seen()
    for line in (["ipcrm", "-m", ids[0]], ["ipcrm", "-M", name[0]], ["ipcrm", "-s", ids[1]], ["ipcrm", "-q", ids[2]]):
        result = box.run(line, rules(box))
        assert result.code != 0, result.describe()
    assert seen() == before
