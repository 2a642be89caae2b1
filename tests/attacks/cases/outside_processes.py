"""Processes outside the run, and callgate's own: their memory, descriptors, limits, and signals to them."""
from __future__ import annotations

import signal

from cases.case import Case
from cases.worlds.objects import QueueByPath, UserObject
from cases.worlds.processes import CallgateItself, OutsideProcess, RealTime, SameJob
from cases.worlds.shared_memory import Shared

PARAGRAPH = "Outside processes and callgate itself"
ABI = frozenset({"abi"})

# No own child of the attack's has a descriptor 3, a working directory with a secret or a process group of its own.
LOOKS = {"ptrace": "", "vm_readv": "", "mem_read": "", "environ": "", "auxv": "", "maps": "", "fd": "environ", "root": "environ",
         "cwd": "environ", "map_files": "maps", "pidfd_getfd": "environ", "kcmp": "", "prlimit_read": "", "robust_list": "",
         "migrate_pages": "", "move_pages": ""}
TOUCHES = {"seize": "", "vm_writev": "", "mem_write": "", "prlimit": "", "setpriority": "", "affinity": "", "scheduler": "",
           "schedattr": "", "ioprio": "", "oom": ""}
# F_SETOWN and its like succeed themselves: whether a signal came is what counts.
OWNERS = ("setown", "setown_ex", "setown_file", "setown_group")
SIGNALS = ("kill", "killpg", "tgkill", "tkill", "sigqueue", "tgsigqueue", "pidfd_signal", *OWNERS)
WITH_ABI = {"kill", "tgkill", "pidfd_signal", "setown", "setown_ex", "setown_group", "prlimit", "vm_readv"}
# System V objects and queues of the same user: the call, and whether it only looks.
OBJECTS = {"shmget": True, "shmat": True, "shmctl": False, "semget": True, "semop": False, "semtimedop": False, "semctl": False, "msgget": True,
           "msgsnd": False, "msgrcv": False, "msgctl": False, "mq_open": False, "mq_unlink": False}
# POSIX shared memory and semaphores of the same user (attack_shared.c).
SHARED = ("read", "write", "create", "trunc", "truncate", "unlink", "chmod", "rename_away", "rename_onto", "exchange", "link", "link_inside",
          "symlink", "dotdot", "inner_read", "inner_write", "inner_create", "inner_temporary", "directory_away")
SHARED_FREE = ("read", "write", "unlink", "chmod", "rename_onto", "link_inside", "inner_create")

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
    *(Case(f"outside.{mode}", OutsideProcess(mode, "look", twin_mode=twin), abi(mode)) for mode, twin in LOOKS.items()),
    *(Case(f"outside.{mode}", OutsideProcess(mode, "touch", twin_mode=twin), abi(mode)) for mode, twin in TOUCHES.items()),
    *(Case(f"outside.{mode}", OutsideProcess(mode, "touch", str(int(signal.SIGUSR1)), "kill" if mode == "killpg" else "", mode in OWNERS), abi(mode))
      for mode in SIGNALS),
    Case("outside.schedparam", RealTime("schedparam", "touch")),
    *(Case(f"object.{call}", UserObject(call, looks)) for call, looks in OBJECTS.items()),
    Case("object.queue_by_path", QueueByPath(), only="root"),
    *(Case(f"shared.{mode}", Shared(mode)) for mode in SHARED),
    *(Case(f"shared.{mode}.free", Shared(mode, free=True)) for mode in SHARED_FREE),
    # Memory of others is advised on with CAP_SYS_NICE alone, which nothing in a run has.
    Case("outside.madvise", OutsideProcess("madvise", "look", twin_mode="environ"), only="root"),
    *(Case(f"job.{mode}", SameJob(mode)) for mode in ("nice_group", "io_group")),
    *(Case(f"job.{mode}", SameJob(mode), only="user") for mode in ("nice_user", "io_user")),
    Case("job.io_group_race", SameJob("io_group_race", "io_group"), frozenset({"race"})),
    Case("job.kill_group", SameJob("kill_group", succeeds=True), ABI),
    *own("guardian"),
    *own("supervisor"),
]
