"""Memory that changes between what is judged and what happens, and memory that is odd."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.execution import JudgedRace, WordRace
from cases.worlds.listeners import RacedReach, UnixReach
from cases.worlds.place import Door, ExecRace, Race, executable
from cases.worlds.races import CarriedRace

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
    "read_trunc": ("thread",),
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
WITH_ABI = {"openat.thread", "truncate.thread", "read_trunc.thread", "rename.thread"}

# The denied operation, if it is not reading and writing: a read-only file is truncated by opening it for reading.
VERBS = {"read_trunc": ("write",)}

# Ways in which the path lies in memory, and arguments with more bits than the kernel looks at.
ODD = ("longest", "too_long", "page_end", "read_only_page", "high_bits", "high_bits_dirfd", "long_how")

CASES = [
    *(Case(f"race.{operation}.{racer}", Race(operation, racer, verbs=VERBS.get(operation, ("read", "write"))),
           ABI if f"{operation}.{racer}" in WITH_ABI else frozenset())
      for operation, all_racers in RACES.items() for racer in all_racers),
    # Landlock lets everything be read here, because it lets it be executed: reads are notify-only.
    Case("race.notify_only.thread", Race("openat", "thread", more=executable)),
    # Landlock's grants belong to directories, and would go with them.
    Case("race.carried.thread", CarriedRace("openat", "thread")),
    Case("race.carried_twice.thread", CarriedRace("openat", "thread", by_way=True)),
    # Execution is allowed everywhere else: what then runs is judged again.
    Case("race.judged.thread", JudgedRace("exec", "thread")),
    Case("race.judged.argument", WordRace("exec", "argument")),
    # Truncating what may only be read: the flags lie in memory, the file itself is readable.
    Case("race.openhow.how", Race("openhow", "how", verbs=("write",)), ABI),
    Case("race.exec.thread", ExecRace("exec", "thread")),
    Case("race.exec_vfork.thread", ExecRace("exec_vfork", "thread")),
    Case("race.execveat.thread", ExecRace("execveat", "thread")),
    Case("race.connect.address", RacedReach("race_connect"), ABI),
    Case("race.connect6.address", RacedReach("race_connect6")),
    Case("race.unix.address", UnixReach("race_unix", raced=True)),
    Case("race.abstract.address", UnixReach("race_unix", abstract=True, raced=True)),
    *(Case(f"memory.{mode}", Door("attack_read", mode)) for mode in ODD),
    Case("memory.high_bits_unlink", Door("attack_change", "high_bits_unlink", "change")),
]
