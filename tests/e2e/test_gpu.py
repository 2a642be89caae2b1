"""-p gpu and --gpu N, with stand-ins for the nodes: character devices that are /dev/zero, in a mount namespace of each run."""
from __future__ import annotations

import os
import shutil
import subprocess

import pytest

import harness

NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "kfd", "dri/renderD128", "dri/card0")
# Opens each node as a driver's library does, and makes a call of each driver and one that no filter may know. /dev/zero answers ENOTTY.
TRIED = """
import errno, fcntl, os
for node in %r:
    try:
        fd = os.open("/dev/" + node, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        print(node, errno.errorcode[error.errno])
        continue
    said = set()
    for number in (0xc00c4601, 0xc020462b, 0x30000001, 25, 0x80084b01, 0xc0406400, 0xc0186444, 0x40104701):
        try:
            fcntl.ioctl(fd, number, bytearray(64))
        except OSError as error:
            said.add(errno.errorcode[error.errno])
    print(node, "open", *said)
""" % (NODES,)
NAMED = """
import os, threading
def named():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "r+") as comm:
        comm.write("cuda-EvtHandlr")
    print(open(f"/proc/self/task/{threading.get_native_id()}/comm").read().strip())
one = threading.Thread(target=named); one.start(); one.join()
os.makedirs(os.environ["CUDA_CACHE_PATH"]); open(os.environ["CUDA_CACHE_PATH"] + "/index", "w").close()
try:
    os.makedirs(os.path.expanduser("~/.nv/ComputeCache"))
except OSError as error:
    print(error.strerror)
"""
MADE = """
set -eu
mount -t tmpfs -o mode=755 none /dev/shm
mkdir /dev/shm/new
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/shm/new/
mkdir /dev/shm/new/dri /dev/shm/new/pts /dev/shm/new/shm
for node in $1; do mknod -m 666 /dev/shm/new/$node c 1 5; done
mount --bind /dev/shm/new /dev
shift
exec setpriv --reuid "$1" --regid "$2" --clear-groups -- "${@:3}"
"""


def with_nodes(box: harness.Box, line: list[str]) -> harness.Result:
    """Root makes the nodes, and the box's user runs the line."""
    done = subprocess.run(["unshare", "-m", "bash", "-c", MADE, "nodes", " ".join(NODES), str(box.user.uid), str(box.user.gid), *line],
                          cwd=box.tree, env=box.environment(), capture_output=True, check=False, timeout=harness.DEADLINE)
    return harness.Result(line, done.returncode, done.stdout, done.stderr)


def tried(box: harness.Box, options: list[str]) -> dict[str, str]:
    line, _ = box.command(["/usr/bin/python3", "-c", TRIED], None, ["--ask", "never", "-q", *options])
    result = with_nodes(box, line)
    assert result.code == 0, result.describe()
    return dict(one.split(" ", 1) for one in result.text.splitlines())


needs_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="root makes the nodes")
OPEN = "open ENOTTY"  # /dev/zero knows no ioctl, and no filter refused one


@needs_root
def test_gpus_are_closed_without_the_profile(box):
    assert with_nodes(box, ["/usr/bin/python3", "-c", TRIED]).text.splitlines() == [f"{node} {OPEN}" for node in NODES]
    assert tried(box, []) == dict.fromkeys(NODES, "EACCES")


@needs_root
def test_the_profile_opens_what_computes_and_nothing_of_a_display(box):
    closed = {"nvidia-uvm-tools", "nvidia-modeset", "dri/card0"}
    assert tried(box, ["-p", "gpu"]) == {node: "EACCES" if node in closed else OPEN for node in NODES}


@needs_root
def test_other_gpus_stay_closed(box):
    first = tried(box, ["--gpu", "0"])
    assert {node for node, said in first.items() if said == OPEN} == {"nvidia0", "nvidiactl", "nvidia-uvm", "kfd"}
    second = tried(box, ["--gpu", "1", "-w", "/dev/nvidia0"])
    assert second["nvidia1"] == OPEN and second["nvidia0"] == "EACCES"
    assert tried(box, ["-p", "open", "--gpu", "1"])["nvidia0"] == "EACCES"
    both = tried(box, ["--gpu", "0", "--gpu", "1"])
    assert both["nvidia0"] == both["nvidia1"] == OPEN
    said = with_nodes(box, box.command(["/bin/true"], None, ["--gpu", "7"])[0])
    assert said.code == 125 and "--gpu 7: no such GPU" in said.errors and "/dev/nvidia0, /dev/nvidia1, /dev/dri/renderD128" in said.errors
    assert "/dev/nvidia0, /dev/nvidia1, /dev/dri/renderD128: closed without -p gpu" in with_nodes(box, [str(box.callgate), "doctor"]).text


def test_what_cuda_writes(box):
    result = box.run(["/usr/bin/python3", "-c", NAMED], None, options=["-p", "gpu", "--ask", "never"])
    assert result.text.splitlines() == ["cuda-EvtHandlr", "No such file or directory"], result.describe()
    assert result.code == 0 and result.errors == "", result.describe()


def test_a_gpu_that_is_not_here(box):
    if any(os.path.exists(f"/dev/{node}") for node in ("nvidia0", "dri", "dxg")):
        pytest.skip("this machine has a GPU")
    result = box.run(["/bin/true"], None, options=["--gpu", "0"])
    assert result.code == 125 and "there is no GPU's node in /dev" in result.errors, result.describe()
