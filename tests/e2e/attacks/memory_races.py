"""Memory that changes between what is judged and what happens, and memory that is odd."""
from __future__ import annotations

from attacks.case import Case
from attacks.worlds.listeners import RacedReach, UnixReach
from attacks.worlds.place import Door, ExecRace, Race

PARAGRAPH = "Races on memory"
ABI = frozenset({"abi"})

# operation of attack_race.c: who writes the path
RACES = {
    "open": ("thread", "clonevm"),
    "openat": ("thread", "shared", "vmwritev", "procmem", "othermem", "remap"),
    "openat2": ("thread",),
    "nofollow": ("thread",),
    "vfork_open": ("thread",),
    "append": ("thread",),
    "trunc": ("thread",),
    "creat": ("thread",),
    "create": ("thread",),
    "truncate": ("thread",),
    "unlink": ("thread", "clonevm"),
    "chmod": ("thread",),
    "fchmodat2": ("thread",),
    "chown": ("thread",),
    "setxattr": ("thread",),
    "utimens": ("thread",),
    "mkdir": ("thread",),
    "mknod": ("thread",),
    "symlink": ("thread",),
    "link": ("thread",),
    "linkfrom": ("thread",),
    "rename": ("thread", "shared"),
    "renamefrom": ("thread",),
    "swap": ("thread",),
}
WITH_ABI = {"openat.thread", "truncate.thread", "trunc.thread", "rename.thread", "linkfrom.thread"}

# Ways in which the path lies in memory, and arguments with more bits than the kernel looks at.
ODD = ("longest", "too_long", "page_end", "read_only_page", "high_bits", "high_bits_dirfd", "long_how")

CASES = [
    *(Case(f"race.{operation}.{racer}", Race(operation, racer), ABI if f"{operation}.{racer}" in WITH_ABI else frozenset())
      for operation, all_racers in RACES.items() for racer in all_racers),
    # Truncating what may only be read: the flags lie in memory, the file itself is readable.
    Case("race.openhow.how", Race("openhow", "how", verbs=("write",)), ABI),
    Case("race.exec.thread", ExecRace("exec", "thread"), ABI),
    Case("race.exec_vfork.thread", ExecRace("exec_vfork", "thread")),
    Case("race.execveat.thread", ExecRace("execveat", "thread")),
    Case("race.connect.address", RacedReach("race_connect"), ABI),
    Case("race.connect6.address", RacedReach("race_connect6")),
    Case("race.unix.address", UnixReach("race_unix", raced=True)),
    Case("race.abstract.address", UnixReach("race_unix", abstract=True, raced=True)),
    *(Case(f"memory.{mode}", Door("attack_read", mode)) for mode in ODD),
    Case("memory.high_bits_unlink", Door("attack_change", "high_bits_unlink", "change")),
]
