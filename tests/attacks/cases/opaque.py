"""Processes that made themselves opaque to the others of the run."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.opaque import Core, Opaque

PARAGRAPH = "Opaque processes"
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")

CASES = [
    # Attaching and opening are told from the same on another process; the others are closed while one is opaque.
    *(Case(f"opaque.{mode}", Opaque(mode)) for mode in ("ptrace", "mem_read", "environ")),
    Case("opaque.seize", Opaque("seize", goal="touch")),
    Case("opaque.mem_write", Opaque("mem_write", goal="touch")),
    Case("opaque.maps", Opaque("maps", goal="call")),
    *(Case(f"opaque.{mode}", Opaque(mode, without="plain")) for mode in ("vm_readv", "pidfd_getfd")),
    Case("opaque.vm_writev", Opaque("vm_writev", goal="touch", without="plain")),
    Case("opaque.kcmp", Opaque("kcmp", goal="call", without="plain")),
    *(Case(f"opaque.{how}.{mode}", Opaque(mode, how)) for how in ("child", "orphan") for mode in ("ptrace", "mem_read")),
    *(Case(f"opaque.core.{how}", Core(how)) for how in ("itself", "child")),
    Case("opaque.core.sharing", Core("sharing", "shared")),
    Case("opaque.core.user", Core(options=("--keep-capabilities=users",), within=NOBODY)),
]
