"""Names that lead elsewhere after the run."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.led import Led
from cases.worlds.links import Link
from cases.worlds.own_links import OwnLink

PARAGRAPH = "Links that outlive the run"
ABI = frozenset({"abi"})
RACE = frozenset({"race"})

# The work directory and the private one stay: none of these may even begin.
FIXED = ("symlink", "symlinkat", "relative", "from_inside", "through_proc", "moved_away", "renameat_away", "rename_link",
         "exchange_link", "exchange_back", "link_link", "other_directory", "exchange_directory", "above_moved", "above_moved_at",
         "above_exchanged", "carried", "carried_exchange")
FIXED_TMP = ("symlink", "symlinkat", "relative", "moved_away", "rename_link", "exchange_link", "other_directory", "above_moved",
             "above_exchanged")
# Any other root may be made anew, but never as a link.
ROOTS = ("symlink", "symlinkat", "through_proc", "moved_away", "rename_link", "noreplace_link", "exchange_link", "exchange_back",
         "link_link", "linkat_pin", "above_moved", "above_exchanged", "carried", "carried_exchange", "carried_hidden", "made_after")
RESERVED = ("symlink", "symlinkat", "rename_link", "noreplace_link", "link_link", "linkat_pin")
CARRIED = ("carried", "carried_exchange", "made_after")

CASES = (
    *(Case(f"link.workdir_{mode}", Link(mode, "workdir"), tags=ABI) for mode in FIXED),
    *(Case(f"link.tmp_{mode}", Link(mode, "tmp"), tags=ABI if mode == "symlink" else frozenset()) for mode in FIXED_TMP),
    *(Case(f"link.option_{mode}", Link(mode, "option"), tags=ABI) for mode in ROOTS),
    Case("link.option_swapped", Link("swapped", "option"), tags=RACE),
    Case("link.option_made_anew", Link("symlink", "option", twin_mode="made_anew")),
    Case("link.option_saved", Link("rename_link", "option", twin_mode="saved")),
    Case("link.option_directory_renamed", Link("moved_away", "option", twin_mode="directory_renamed")),
    *(Case(f"link.rule_{mode}", Link(mode, "rule")) for mode in ("symlink", "rename_link", "carried")),
    *(Case(f"link.reserved_{mode}", Link(mode, "secret", absent=True), tags=ABI) for mode in RESERVED),
    *(Case(f"link.reserved_{mode}", Link(mode, "secret")) for mode in CARRIED),
    Case("link.asked_symlink", Link("symlink", "asked", absent=True)),
    *(Case(f"link.config_{mode}", Link(mode, "config", absent=True)) for mode in ("symlink", "rename_link", "link_link")),
    # The next start comes through a link that an earlier run left.
    *(Case(f"led.{way}", Led(way)) for way in ("workdir", "relative", "beneath", "chain", "shell", "shell_relative", "read", "write",
                                               "rule", "except", "rules", "job")),
    *(Case(f"led.workdir_{planted}", Led("workdir", planted)) for planted in ("replaced", "renamed", "carried", "relative")),
    *(Case(f"led.{way}_same_rules", Led(way, same=True)) for way in ("workdir", "job")),
    *(Case(f"led.{way}_home", Led(way, wide=True)) for way in ("workdir", "read", "write", "job")),
    # callgate's own files behind links.
    *(Case(f"own.whole_{script}", OwnLink("whole", "home/.config", script)) for script in ("link", "removed", "renamed", "moved")),
    Case("own.whole_written", OwnLink("whole", "dots/config/callgate/rules.json", "written")),
    Case("own.whole_target_moved", OwnLink("whole", "dots/config", "moved")),
    *(Case(f"own.stow_{script}", OwnLink("stow", "home/.config/callgate", script)) for script in ("link", "renamed")),
    Case("own.stow_saved", OwnLink("stow", "dots/config/callgate/rules.json", "saved")),
    Case("own.stow_target_moved", OwnLink("stow", "dots/config", "moved")),
    *(Case(f"own.no_folding_{script}", OwnLink("no_folding", "dots/rules.json", script)) for script in ("written", "saved", "moved")),
    Case("own.no_folding_link", OwnLink("no_folding", "home/.config/callgate/rules.json", "renamed")),
    *(Case(f"own.home_manager_{script}", OwnLink("home_manager", "store/2-files", script)) for script in ("link", "renamed")),
    Case("own.home_manager_target", OwnLink("home_manager", "store/1-rules.json", "saved")),
)
