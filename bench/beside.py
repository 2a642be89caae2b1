#!/usr/bin/python3
"""Measures callgate beside other sandboxes: the table of docs/performance.md.

usage: bench/beside.py CALLGATE [ROUNDS]

Each round starts every variant once, in an order that turns; the table has the median and the fastest. A tool that is not
installed is left out and named. No variant uses the network. The opens are counted and timed within the command itself.

bubblewrap, firejail, podman and runsc (gVisor) are Debian's packages. podman runs as root here, with runc. The variant srt is npm's
sandbox-runtime of Anthropic, which needs bubblewrap, socat and ripgrep. sandlock is a package of Python's; PYTHONPATH names its
place. It is started from Python, whose own start is a line of the table.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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


def variants(callgate: str, place: pathlib.Path) -> dict[str, list[str]]:
    root, work = place / "root", str(place / "work")
    for name in ("usr", "proc", "dev", "sys", "tmp", "etc", "run"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to("usr/" + name)
    (place / "srt.json").write_text(NO_NETWORK)
    known = {
        "no sandbox": [],
        "callgate": [callgate, "run", "-q", "--"],
        "bubblewrap": ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", work, work, "--unshare-all", "--die-with-parent", "--"],
        "firejail": ["firejail", "--quiet", "--noprofile", "--net=none", "--read-only=/", f"--read-write={work}", "--"],
        "podman": ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--network=none", "-v", "/usr:/usr:ro", "-v", "/etc:/etc:ro",
                   "-v", f"{work}:{work}", "-w", work, "--rootfs", str(root)],
        "gVisor": ["runsc", "--network=none", "do"],
        "srt": ["srt", "-s", str(place / "srt.json")],
        "Python alone": ["/usr/bin/python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"],
        "sandlock, from Python": ["/usr/bin/python3", "-c", SANDLOCK],
    }
    missing = [name for name, line in known.items() if line and not shutil.which(line[0])]
    if subprocess.run([*known["sandlock, from Python"][:2], "import sandlock"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        missing += ["sandlock, from Python", "Python alone"]
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
        known = variants(callgate, place)
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | {"HOME": str(place / "home"), "LANG": "C.UTF-8"}

        def run(line: list[str]) -> str:
            # runsc gives its standard input to the user nobody: that must not be the machine's /dev/null.
            return subprocess.run(line, cwd=work, env=environment, input="", stdout=subprocess.PIPE, text=True, check=True).stdout

        starts: dict[str, list[float]] = {name: [] for name in known}
        opens: dict[str, list[list[float]]] = {name: [] for name in known}
        names = list(known)
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                began = time.perf_counter()
                run([*known[name], "/bin/true"])
                starts[name].append((time.perf_counter() - began) * 1e3)
                if turn % 6 == 0:
                    opens[name].append([float(one) for one in run([*known[name], "/usr/bin/python3", "loop.py"]).split()])
        print("| median (fastest) | start of `/bin/true`, ms | open in the work directory, µs | open of a system file, µs |\n|---|---|---|---|")
        for name in names:
            columns = [starts[name], *([one[column] for one in opens[name]] for column in (0, 1))]
            print(f"| {name} | " + " | ".join(f"{statistics.median(one):.1f} ({min(one):.1f})" for one in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
