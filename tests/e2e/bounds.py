"""Control groups around the test itself. What it starts cannot become more processes than a number, whatever fails, or its memory
is measured by the kernel."""
from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import harness


ROOT_MODE = 0o555  # of a hierarchy's root (kernel/cgroup/cgroup.c), which root's own files mostly have not


def own_group(controller: str) -> Path | None:
    """The directory of this process's group in this controller of version 1; nothing where there is none to write to."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind != "cgroup" or controller not in options.split(","):
            continue
        root, place = before.split()[3:5]
        for group in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = group.split(":", 2)
            if controller in controllers.split(",") and path.startswith(root.rstrip("/")):
                directory = Path(place) / path.removeprefix(root).lstrip("/")
                return directory if os.access(directory, os.W_OK) else None
    return None


def members(group: Path) -> list[int]:
    """Also of the groups beneath it: callgate makes one for its run."""
    found: list[int] = []
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(FileNotFoundError, OSError):
            found += [int(one) for one in file.read_text().split()]
    return [one for one in found if one != os.getpid()]


def ended(group: Path) -> bool:
    """Ends the processes that are left, which the test started. Returns whether none is left."""
    left = members(group)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not left


@contextlib.contextmanager
def around(controller: str) -> Iterator[Path | None]:
    """The calling process in a group of its own, for so long. Gives None, and holds nothing, where none can be made.

    The group has the mode of a hierarchy's root: only root's capability opens it for groups beneath."""
    own = own_group(controller) if os.geteuid() == 0 else None
    if own is None:
        yield None
        return
    group = own / f"cg-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        group.chmod(ROOT_MODE)
        yield group
    finally:
        harness.until(lambda: ended(group), f"{group} is empty")
        (own / "cgroup.procs").write_text(str(os.getpid()))
        for one in sorted(group.rglob("*/"), reverse=True):
            if one.is_dir():
                one.rmdir()
        group.rmdir()


@contextlib.contextmanager
def at_most(processes: int) -> Iterator[Path | None]:
    """As `around`, with no more than that many processes, the calling one among them."""
    with around("pids") as group:
        if group is not None:
            (group / "pids.max").write_text(str(processes))
        yield group
