"""Processes outside the run, and callgate's own: their memory, descriptors, limits, and signals to them."""
from __future__ import annotations

import signal

from attacks.case import Case
from attacks.worlds.processes import CallgateItself, Stranger

PARAGRAPH = "Strangers and callgate itself"
ABI = frozenset({"abi"})

# No own child of the attack's has a descriptor 3, a working directory with a secret or a process group of its own.
LOOKS = {"ptrace": "", "vm_readv": "", "mem_read": "", "environ": "", "auxv": "", "maps": "", "fd": "environ", "root": "environ",
         "cwd": "environ", "map_files": "maps", "pidfd_getfd": "environ", "kcmp": ""}
TOUCHES = {"seize": "", "vm_writev": "", "mem_write": "", "prlimit": "", "setpriority": "", "affinity": "", "scheduler": "",
           "schedattr": "", "ioprio": "", "oom": ""}
SIGNALS = ("kill", "killpg", "tgkill", "tkill", "sigqueue", "tgsigqueue", "pidfd_signal", "setown")
WITH_ABI = {"kill", "tgkill", "pidfd_signal", "setown", "prlimit", "vm_readv"}

OWN_SIGNALS = ("kill", "tgkill", "pidfd_signal", "sigqueue")
OWN_LOOKS = {"environ": "", "mem_read": "", "mem_write": "", "fd": "environ", "maps": "", "pidfd_getfd": "environ", "ptrace": ""}
OWN_TOUCHES = ("prlimit", "setpriority", "affinity", "scheduler", "schedattr", "ioprio", "oom")


def abi(mode: str) -> frozenset[str]:
    return ABI if mode in WITH_ABI else frozenset()


def own(whom: str) -> list[Case]:
    signals = [Case(f"callgate.{whom}.{mode}.{name}", CallgateItself(whom, mode, str(int(getattr(signal, f"SIG{name}"))), "end"),
                    abi(mode) if name == "KILL" else frozenset()) for mode in OWN_SIGNALS for name in ("KILL", "STOP", "TERM")]
    looks = [Case(f"callgate.{whom}.{mode}", CallgateItself(whom, mode, "0", "look", twin)) for mode, twin in OWN_LOOKS.items()]
    return [*signals, *looks, *(Case(f"callgate.{whom}.{mode}", CallgateItself(whom, mode)) for mode in OWN_TOUCHES)]


CASES = [
    *(Case(f"stranger.{mode}", Stranger(mode, "look", twin_mode=twin), abi(mode)) for mode, twin in LOOKS.items()),
    *(Case(f"stranger.{mode}", Stranger(mode, "touch", twin_mode=twin), abi(mode)) for mode, twin in TOUCHES.items()),
    # F_SETOWN itself succeeds: whether a signal came is what counts
    *(Case(f"stranger.{mode}", Stranger(mode, "touch", str(int(signal.SIGUSR1)), "kill" if mode == "killpg" else "", mode == "setown"), abi(mode))
      for mode in SIGNALS),
    *own("guardian"),
    *own("supervisor"),
]
