"""A subtree of control groups (version 2) that belongs to a user, made by hand as a session of systemd's would be."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import harness

WANTED = {"memory", "pids"}


def mounted() -> Path | None:
    """The place where version 2 is mounted, if it has both controllers."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("cgroup2 "):
            continue
        place = Path(before.split()[4])
        return place if WANTED <= set((place / "cgroup.controllers").read_text().split()) else None
    return None


def own_group(place: Path) -> Path:
    line = next(one for one in Path("/proc/self/cgroup").read_text().splitlines() if one.startswith("0::"))
    return place / line[3:].lstrip("/")


def hand_over(group: Path, user: harness.User) -> None:
    for one in (group, *(group / name for name in ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control"))):
        os.chown(one, user.uid, user.gid)


@contextlib.contextmanager
def subtree(user: harness.User, most: int, owned: bool = True) -> Iterator[Path]:
    """Gives a group; the caller then runs in its `inside`. The group is the user's, unless it is not `owned`, and never has
    more than `most` processes."""
    place = mounted()
    before = own_group(place)
    for one in WANTED - set((place / "cgroup.subtree_control").read_text().split()):
        (place / "cgroup.subtree_control").write_text(f"+{one}")
    group = place / f"cg-test-{os.getpid()}"
    inside = group / "inside"
    group.mkdir()
    try:
        (group / "pids.max").write_text(str(most))
        (group / "cgroup.subtree_control").write_text("+memory +pids")
        inside.mkdir()
        for one in (group, inside) if owned else (inside,):
            hand_over(one, user)
        (inside / "cgroup.procs").write_text(str(os.getpid()))
        yield group
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        for one in [*group.rglob("*/"), group]:
            if (one / "cgroup.kill").exists():
                (one / "cgroup.kill").write_text("1")
        for one in sorted((one for one in group.rglob("*") if one.is_dir()), reverse=True):
            harness.until(lambda: "populated 0" in (one / "cgroup.events").read_text(), f"{one} is empty")
            one.rmdir()
        group.rmdir()
