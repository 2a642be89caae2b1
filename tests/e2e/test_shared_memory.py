"""POSIX shared memory and semaphores: what a run makes is its own, works as bare, and is removed with it."""
from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import harness

PLACE = Path("/dev/shm")
AGENT = ["--ask", "never"]

MULTIPROCESSING = """
import multiprocessing, os
from multiprocessing import shared_memory

def work(name, lock, queue, count):
    memory = shared_memory.SharedMemory(name)
    for _ in range(count):
        with lock:
            memory.buf[0] += 1
    memory.close()
    queue.put(os.getpid())

if __name__ == "__main__":
    multiprocessing.set_start_method("START")
    memory = shared_memory.SharedMemory(create=True, size=4096)
    lock, queue = multiprocessing.Lock(), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(memory.name, lock, queue, 20)) for _ in range(3)]
    for one in workers: one.start()
    pids = {queue.get() for _ in workers}
    for one in workers: one.join()
    print(memory.buf[0], len(pids), sorted({one.exitcode for one in workers}))
    memory.close()
    memory.unlink()
"""

SEMAPHORE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.sem_open.restype = ctypes.c_void_p
libc.sem_wait.argtypes = libc.sem_post.argtypes = [ctypes.c_void_p]
def opened(flags):
    found = libc.sem_open(b"/" + sys.argv[1].encode(), flags, 0o600, 0)
    if not found: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
mine = opened(os.O_CREAT | os.O_EXCL)
if os.fork() == 0:
    libc.sem_post(opened(0))
    os._exit(0)
libc.sem_wait(mine)
print("posted", os.wait()[1])
"""


@pytest.fixture
def name(box):
    made = f"cg-test-{os.getpid()}-{box.user.uid}"
    yield made
    for left in PLACE.glob(f"*{made}*"):
        harness.remove_tree(left) if left.is_dir() else left.unlink()


def left(name: str) -> list[str]:
    return sorted(one.name for one in PLACE.glob(f"*{name}*"))


def others(box, *names: str) -> None:
    for one in names:
        harness.as_user(box.user, lambda path=PLACE / one: path.write_text("theirs"))


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_processes_of_python_share_memory_locks_and_queues(box, start):
    script = box.file(box.tree / "shared.py", MULTIPROCESSING.replace("START", start).encode())
    line = ["/usr/bin/python3", str(script)]
    bare = box.run(line, supervised=False)
    assert bare.text == "60 3 [0]\n", bare.describe()
    result = box.run(line, options=AGENT)
    assert result.out == bare.out and not result.decisions(verdict="deny"), result.describe()


def test_processes_of_a_run_open_one_semaphore_by_name(box, name):
    line = ["/usr/bin/python3", "-c", SEMAPHORE, name]
    bare = box.run(line, supervised=False)
    assert bare.text == "posted 0\n" and left(name) == [f"sem.{name}"], bare.describe()
    held = box.run(line, options=AGENT)
    assert held.code != 0 and "File exists" in held.errors, held.describe()
    (PLACE / f"sem.{name}").unlink()
    result = box.run(line, options=AGENT)
    assert result.out == bare.out and not left(name), result.describe()


MAKES = ("cd /dev/shm && echo x > {0}-file && mkdir {0}-directory && echo y > {0}-directory/inner && ln -s nowhere {0}-link && mkfifo {0}-fifo"
         " && ln {0}-file {0}-second && mv {0}-directory/inner {0}-moved && mv {0}-fifo {0}-directory && cat {0}-second {0}-moved")


def test_what_a_run_leaves_is_removed_with_it_and_nothing_of_others(box, name):
    others(box, f"{name}-theirs")
    result = box.run(["/bin/sh", "-ec", MAKES.format(name)], options=AGENT)
    assert result.text == "x\ny\n" and left(name) == [f"{name}-theirs"], result.describe()
    bare = box.run(["/bin/sh", "-ec", MAKES.format(name)], supervised=False)
    assert bare.out == result.out and len(left(name)) == 6, left(name)


def test_what_a_run_leaves_is_removed_when_callgate_is_killed(box, name):
    others(box, f"{name}-theirs")
    line, _ = box.command(["/bin/sh", "-ec", MAKES.format(name) + "; echo ready; exec sleep 1000"], options=AGENT)
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    harness.read_until(process.stdout.fileno(), b"ready")
    assert len(left(name)) == 6
    process.send_signal(signal.SIGKILL)
    harness.until(lambda: left(name) == [f"{name}-theirs"], "the guardian removes what the run made")


def test_others_objects_answer_as_another_users_do(box, name):
    """A program that tries names until one is free goes on, as PostgreSQL does."""
    others(box, f"{name}-1", f"{name}-2")
    script = (f"cd /dev/shm; for n in 1 2 3; do (set -C; echo mine > {name}-$n) 2>/dev/null && echo took $n; done; cat {name}-3;"
              f" rm -f {name}-1; cat {name}-1; echo evil >> {name}-1")
    result = box.run(["/bin/sh", "-c", script], options=AGENT)
    assert result.text == "took 3\nmine\n", result.describe()
    assert "Operation not permitted" in result.errors and "Permission denied" in result.errors, result.describe()
    assert left(name) == [f"{name}-1", f"{name}-2"] and (PLACE / f"{name}-1").read_text() == "theirs"
    denied = [one["rule"]["name"] for one in result.decisions(verdict="deny")]
    assert set(denied) == {"callgate-shared-memory"} and len(denied) >= 3, denied


def test_a_name_that_another_program_takes_over_is_closed(box, name):
    """The run's own object is known by its inode: what has its name later is somebody else's."""
    script = f"echo mine > /dev/shm/{name} && echo made && read word && cat /dev/shm/{name}"
    line, _ = box.command(["/bin/sh", "-c", script], options=AGENT)
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.read_until(process.stdout.fileno(), b"made")
    (PLACE / name).unlink()
    others(box, name)
    out, err = process.communicate(b"go\n", harness.DEADLINE)
    assert process.returncode != 0 and b"theirs" not in out and b"Permission denied" in err, (out, err)
    assert left(name) == [name]


def test_names_that_are_removed_again_use_up_nothing(box, name):
    """More than the list holds, one after the other; and no more than it holds at once."""
    script = f"""
import errno, os
for one in range(4200):
    os.close(os.open("/dev/shm/{name}-a", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink("/dev/shm/{name}-a")
count = 0
try:
    while count < 5000:
        os.close(os.open("/dev/shm/{name}-" + str(count), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        count += 1
except OSError as error:
    print(count, errno.errorcode[error.errno])
"""
    result = box.run(["/usr/bin/python3", "-c", script], options=AGENT)
    assert result.text == "4096 ENOSPC\n" and not left(name), result.describe()
