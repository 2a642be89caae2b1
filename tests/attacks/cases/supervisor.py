"""The supervisor killed, stopped, lied to; its log and its state."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.belongings import OwnSocket, RulesWritten
from cases.worlds.callgate import (Killed, KilledWhileWriting, ListDoor, ListenerLater, LogDoor, LogFull, LogPlanted, OwnEnviron, StateReached,
                                     Stopped)

PARAGRAPH = "The supervisor"

LOG_DOORS = {
    "attack_read": ("plain", "symlink", "proc_fd", "proc_root", "folder_link", "relative"),
    "attack_rename": ("hardlink", "hardlink_fd", "rename", "exchange", "rename_folder", "exchange_folder", "rename_ancestor",
                      "exchange_ancestor", "cwd_kept", "dirfd_kept"),
    "attack_change": ("open_trunc", "creat", "append", "truncate", "unlink", "unlinkat", "rename_away", "rename_onto", "exchange_into",
                      "chmod", "chmod_fd", "chown", "utimensat", "rmdir_folder"),
}

LIST_DOORS = {
    "attack_rename": ("hardlink", "hardlink_fd", "exchange"),
    "attack_change": ("open_trunc", "creat", "append", "truncate", "unlink", "unlinkat", "rename_away", "rename_onto", "exchange_into",
                      "chmod", "chmod_fd", "chown", "utimensat"),
}

CASES = [
    *(Case(f"killed.{whom}", Killed(whom)) for whom in ("supervisor", "guardian", "group", "session")),
    Case("killed.listener", ListenerLater()),
    Case("killed.while_writing", KilledWhileWriting()),
    Case("stopped.supervisor", Stopped()),
    *(Case(f"log.{mode}", LogDoor(program, mode)) for program, modes in LOG_DOORS.items() for mode in modes),
    *(Case(f"list.{mode}", ListDoor(program, mode)) for program, modes in LIST_DOORS.items() for mode in modes),
    Case("log.planted_link", LogPlanted()),
    Case("log.size_limit", LogFull("limit")),
    Case("log.disk_full", LogFull("full")),
    Case("log.state_directory", StateReached()),
    Case("rules.written", RulesWritten()),
    Case("log.socket", OwnSocket()),
    Case("environ.own", OwnEnviron()),
]
