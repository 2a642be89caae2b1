#!/usr/bin/python3
"""Measures callgate beside other sandboxes: the table of docs/performance.md.

usage: bench/beside.py CALLGATE [ROUNDS]     or ./dev bench --beside [ROUNDS]

Each round starts every variant once, in an order that turns. The table has the median and the fastest, and how many times the
median is that of no sandbox. A tool that is not installed is left out and named. No variant uses the network. The opens are
counted and timed within the command itself: on all processors and on one, of which the better counts. Each sandbox can read the
system and write the work directory. Real-time priority (`chrt --rr 10`) makes a busy machine's figures those of a quiet one.

bubblewrap, firejail, podman, runsc (gVisor) and dockerd are Debian's packages. podman and Docker run as root here, with runc. The
daemon of Docker is started here, on data of its own. The variant of `docker exec` starts no container: it finds one that runs.
Other tools are a Go program (landrun), a crate (nono-cli), npm's sandbox-runtime of Anthropic (srt), and a package of Python's
(sandlock). The third needs bubblewrap, socat and ripgrep. PYTHONPATH names the place of the last. It is started from Python,
whose own start is a line of the table.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Iterator

OPENS = 20000
LOOP = f"""
import os, time
for name in ("file", "/usr/bin/env"):
    began = time.perf_counter()
    for _ in range({OPENS}):
        os.close(os.open(name, os.O_RDONLY))
    print((time.perf_counter() - began) / {OPENS} * 1e6)
"""


SANDLOCK = "import os, sys; from sandlock import Sandbox; sys.stdout.buffer.write(Sandbox(fs_readable=['/'], fs_writable=[os.getcwd()]).run(sys.argv[1:]).stdout or b'')"
NO_NETWORK = '{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}'


@contextlib.contextmanager
def docker(place: pathlib.Path, options: list[str]) -> Iterator[dict[str, list[str]]]:
    """The variants of Docker, while a daemon runs on data of its own. Without a daemon there are none, and its last words are said."""
    if not shutil.which("dockerd") or not shutil.which("docker") or os.geteuid() != 0:
        print("not installed, or not root: Docker, docker exec", file=sys.stderr)
        yield {}
        return
    socket, data = f"unix://{place}/docker/socket", place / "docker"
    data.mkdir()
    client = ["docker", "--host", socket]
    with open(data / "said", "w", encoding="utf-8") as said:
        daemon = subprocess.Popen(["dockerd", "--host", socket, "--data-root", data / "data", "--exec-root", data / "run", "--pidfile", data / "pid",
                                   "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"],
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        while subprocess.run([*client, "version"], capture_output=True, check=False).returncode != 0:
            if daemon.poll() is not None:
                print("the daemon of Docker ended:", (data / "said").read_text()[-1000:], file=sys.stderr)
                yield {}
                return
            time.sleep(0.1)
        root = subprocess.run(["tar", "-c", "-C", place / "root", "."], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run([*client, "import", "-", "beside"], input=root, stdout=subprocess.DEVNULL, check=True)
        once = [*client, "run", "--rm", *options]
        subprocess.run([*once, "--detach", "--name", "running", "beside", "/bin/sleep", "infinity"], stdout=subprocess.DEVNULL, check=True)
        yield {"Docker": [*once, "beside"], "docker exec": [*client, "exec", "running"]}
        subprocess.run([*client, "rm", "--force", "running"], stdout=subprocess.DEVNULL, check=True)
    finally:
        daemon.terminate()
        daemon.wait()


def variants(callgate: str, place: pathlib.Path, options: list[str]) -> dict[str, list[str]]:
    root, work = place / "root", str(place / "work")
    for name in ("usr", "proc", "dev", "sys", "tmp", "etc", "run"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to("usr/" + name)
    (place / "srt.json").write_text(NO_NETWORK)
    rights = ["--block-net", "--read", "/usr", "--read", "/etc", "--allow", work]
    known = {
        "no sandbox": [],
        "callgate": [callgate, "run", "-q", "--"],
        "bubblewrap": ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", work, work, "--unshare-all", "--die-with-parent", "--"],
        "landrun": ["landrun", "--best-effort", "--rox", "/", "--rwx", work, "--"],
        "nono run": ["nono", "run", "--silent", "--no-audit", *rights, "--"],
        "nono wrap": ["nono", "wrap", "--silent", *rights, "--"],
        "firejail": ["firejail", "--quiet", "--noprofile", "--net=none", "--read-only=/", f"--read-write={work}", "--"],
        "podman": ["podman", "--runtime", shutil.which("runc") or "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--pids-limit=-1", *options, "--rootfs", str(root)],
        "gVisor": ["runsc", "--network=none", "--ignore-cgroups", "do"],
        "srt": ["srt", "-s", str(place / "srt.json")],
        "Python alone": ["/usr/bin/python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"],
        "sandlock from Python": ["/usr/bin/python3", "-c", SANDLOCK],
    }
    missing = [name for name, line in known.items() if line and not shutil.which(line[0])]
    if subprocess.run([*known["sandlock from Python"][:2], "import sandlock"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        missing += ["sandlock from Python", "Python alone"]
    for name in missing:
        print(f"not installed: {name}", file=sys.stderr)
        del known[name]
    return known


def main() -> int:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    callgate, rounds = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 60
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        work = place / "work"
        work.mkdir()
        (work / "file").write_text("x")
        (work / "loop.py").write_text(LOOP)
        (place / "home").mkdir()
        options = ["--network=none", "-v", "/usr:/usr:ro", "-v", "/etc:/etc:ro", "-v", f"{work}:{work}", "-w", str(work)]
        known = variants(callgate, place, options)
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | {"HOME": str(place / "home"), "LANG": "C.UTF-8"}

        def run(line: list[str]) -> str:
            # runsc gives its standard input to the user nobody: that must not be the machine's /dev/null.
            return subprocess.run(line, cwd=work, env=environment, input="", stdout=subprocess.PIPE, text=True, check=True).stdout

        loads = [os.getloadavg()[0]]
        with docker(place, options) as others:
            known |= others
            names = list(known)
            for name in names:
                outside = place / "home" / "outside"
                subprocess.run([*known[name], "/bin/sh", "-c", f"echo x > {outside}"], cwd=work, env=environment, input="", text=True, capture_output=True, check=False)
                if outside.exists() and name not in ("no sandbox", "Python alone"):
                    sys.exit(f"{name} confines nothing here: it let a file be written outside the work directory")
                outside.unlink(missing_ok=True)
            starts: dict[str, list[float]] = {name: [] for name in names}
            opens: dict[str, list[list[float]]] = {name: [] for name in names}
            for turn in range(rounds):
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    began = time.perf_counter()
                    run([*known[name], "/bin/true"])
                    starts[name].append((time.perf_counter() - began) * 1e3)
                    if turn % 6 == 0:
                        tries = [run([*where, *known[name], "/usr/bin/python3", "loop.py"]).split() for where in ([], ["taskset", "-c", "0"])]
                        opens[name].append([min(map(float, pair)) for pair in zip(*tries)])
                loads.append(os.getloadavg()[0])
        columns = {name: [starts[name], *([one[column] for one in opens[name]] for column in (0, 1))] for name in names}
        bare = [statistics.median(one) for one in columns["no sandbox"]]
        print("| median (fastest), times that of no sandbox | start of `/bin/true`, ms | | open in the work directory, µs | | open of a system file, µs | |"
              "\n|---|---|---|---|---|---|---|")
        for name in names:
            cells = [f"{statistics.median(one):.1f} ({min(one):.1f}) | ×{statistics.median(one) / base:.1f}" for one, base in zip(columns[name], bare)]
            print(f"| {name} | " + " | ".join(cells) + " |")
        print(f"{rounds} rounds, opens in {len(opens['no sandbox'])} of them; load average {min(loads):.1f} to {max(loads):.1f}, median {statistics.median(loads):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
