"""The host's disk and memory: logs, the footer, objects that outlive a run."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.costs import Flood, FloodAnswered, FloodEnded, FooterLost, Hidden, HiddenOnDisk, LogGrows, Semaphores

PARAGRAPH = "The host's disk and memory"

CASES = [
    *(Case(f"flood.{mode}", Flood(f"flood_{mode}", groups))
      for mode, groups in (("open", 1), ("spelt", 1), ("two", 2), ("chmod", 1), ("truncate", 1), ("mkdir", 1), ("rename", 1), ("processes", 1))),
    Case("flood.answered", FloodAnswered("flood_open")),
    *(Case(f"flood.ended_{end}", FloodEnded(end)) for end in ("signal", "timeout", "rule", "command", "guardian")),
    Case("log.grows_by_denials", LogGrows(denied=True)),
    Case("log.grows_by_effects", LogGrows(denied=False)),
    *(Case(f"memory.{shape}", Hidden(shape)) for shape in ("flight", "backlog", "undumpable", "unshared", "leaderless", "named", "mapped",
                                                               "unmapped", "deep", "unlisted", "descriptors")),
    Case("memory.semaphores", Semaphores()),
    *(Case(f"disk.{kind}", HiddenOnDisk(kind)) for kind in ("flight", "undumpable", "mapped", "unlisted")),
    Case("footer.stderr_full", FooterLost()),
]
