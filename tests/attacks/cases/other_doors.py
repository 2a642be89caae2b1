"""Other calls that reach the same object, and calls that would undo the confinement."""
from __future__ import annotations

from cases.case import Case
from cases.worlds.execution import Executed
from cases.worlds.kernel import Call, Delayed, Typed
from cases.worlds.native import NOBODY, Beyond, NotKept, OtherUser, StickyFile, StickyLink
from cases.worlds.place import Door, Place, contested

PARAGRAPH = "Other doors to the same room"
ABI = frozenset({"abi"})

READ_PLAIN = ("attack_read", "plain")
CREATE_PLAIN = ("attack_change", "create")

CHANGES = ("truncate", "open_trunc", "rdonly_trunc_openat2", "creat", "append", "unlink", "unlinkat", "unlink_link", "rename_away",
           "rename_onto", "renameat", "rename_into", "renameat2_noreplace", "exchange_into", "rename_folder_onto", "plant_folder", "chmod", "chmod_fd",
           "fchmodat2", "chown", "lchown", "fchownat", "utimensat", "utimensat_fd", "utimensat_omitted", "utime", "utimes", "futimesat",
           "mkdir", "mkdirat", "mknod", "mkfifo", "mknodat", "mksocket", "mkwhiteout", "mksymlink", "symlinkat", "mklink", "tmpfile", "tmpfile_empty", "dangling", "dangling_chain",
           "create", "through_link", "trailing_slash", "proc_cwd_create", "bind_socket", "rmdir_folder", "core", "whiteout")
CHANGES_WITH_ABI = {"truncate", "open_trunc", "creat", "unlink", "rename_onto", "rename_into", "chmod", "mkdir", "mklink", "bind_socket"}
# Through a descriptor of reading, where reading is allowed and changing is not.
READERS = ("reader_fchmod", "reader_fchown", "reader_futimens", "reader_reopen", "reader_dev_fd")
# attack_attribute: by name, and through a descriptor of reading.
ATTRIBUTES = ("setxattr", "lsetxattr", "setxattr_link", "setxattr_proc", "setxattrat", "removexattr", "lremovexattr", "removexattrat",
              "acl", "acl_default", "file_setattr")
READER_ATTRIBUTES = ("reader_fsetxattr", "reader_fremovexattr", "reader_setxattrat", "reader_removexattrat", "reader_acl",
                     "reader_setflags", "reader_setflags_high", "reader_setxflags", "reader_setxflags_high", "reader_file_setattr")
ATTRIBUTES_WITH_ABI = {"setxattr", "reader_fsetxattr"}

# attack_entry: closed for every object, so the twin is the ordinary way. Bare, an ordinary user has not all of them.
ENTRIES_READ = ("ring", "int80", "x32", "userns", "userns_clone", "userns_clone3", "userns_tree", "userns_chroot", "open_tree")
ENTRIES_ROOT = ("handle", "chroot", "bind")
ENTRIES_CHANGE = ("ring_unlink", "int80_unlink")

# attack_kernel: the mode, and what programs need of the same kind.
CALLS = {
    "keyctl": "unknown", "add_key": "unknown", "request_key": "unknown", "memfd_secret": "memory_file", "bpf": "filter", "perf": "usage", "userfaultfd": "thread",
    "userfaultfd_device": "thread", "ring": "epoll", "listener": "filter", "listener_more_flags": "filter",
    "listener_high_bits": "filter_prctl", "fanotify": "epoll", "unshare_user": "unshare_files", "unshare_mount": "unshare_files",
    "unshare_net": "unshare_files", "unshare_ipc": "unshare_files", "unshare_time": "unshare_files", "clone_user": "fork",
    "executable_data": "personality", "other_arguments": "names",
}
PRIVILEGED = {
    "fanotify_permission": "epoll", "setns_mount": "fork", "mount_tmpfs": "directory", "kernel_log": "usage", "iopl": "personality",
    "ioperm": "personality", "reboot": "names", "kexec_load": "names", "kexec_file_load": "names", "init_module": "names",
    "finit_module": "names", "delete_module": "names", "quotactl": "usage", "quotactl_fd": "usage", "swapon": "usage", "swapoff": "usage",
    "clock_settime": "clock", "settimeofday": "clock", "acct": "usage", "sethostname": "names", "setdomainname": "names",
    "mount": "directory", "umount": "directory", "pivot_root": "directory", "move_mount": "directory",
    "open_tree": "directory", "open_tree_attr": "directory", "fsconfig": "directory", "fsmount": "directory", "fspick": "directory",
    "mount_setattr": "directory", "setns_nothing": "fork", "open_by_handle": "directory",
}
# Arguments that the filter refuses: setsockopt and ioctl.
OPTIONS = ("addrform", "old_routing", "old_options", "flow_label", "routing")
REQUESTS = ("console", "userfaultfd", "add_key", "remove_key", "snapshot", "snapshot2", "destroy", "destroy2", "subvolume", "subvolume2", "version",
            "ext4_version", "verity", "policy", "fat", "subvolume_flags", "received",
            "bcachefs", "bcachefs_destroy", "bcachefs2", "bcachefs_destroy2", "bcachefs_inherit", "reflink", "discipline")
# Requests and options that change interfaces, routes and firewalls. The kernel answers the latter only to a privileged caller.
INTERFACES = ("namespace", "add_route", "delete_route", "flags", "addresses", "mtu", "interface_name", "hardware_address", "multicast",
              "multicast_off", "private_flags", "broadcast", "old_bridge", "queue", "phy", "wan", "arp", "rarp", "map", "vlan", "bond",
              "bond_release", "bridge", "time_stamp", "device")
FIREWALLS = ("ip_tables", "arp_tables", "bridge_tables", "virtual_server", "ip6_tables", "policy", "policy6")
# Calls that the kernel refuses by itself must be refused on behalf too.
NATIVE = {"protected_file": StickyFile(), "protected_link": StickyLink(), "other_user": OtherUser(),
          "no_capabilities": OtherUser("attack_identity", "no_capabilities", NOBODY), "file_system_user": OtherUser("attack_identity", "file_system_user"),
          "not_kept": NotKept(), "signal": Beyond("signal", ""), "forged": Beyond("forged", ""),
          "acting_thread": Beyond("acting_thread", "plain", "plain")}


def abi(mode: str) -> frozenset[str]:
    return ABI if mode in CHANGES_WITH_ABI | ATTRIBUTES_WITH_ABI else frozenset()


def all_contested(place: Place) -> dict[str, object]:
    return place.rules(*contested(place))


def contested_creation(place: Place) -> dict[str, object]:
    return place.rules({"id": "contest", "deny": "create", "path": f"{place.free}/**/.never*"})


CASES = [
    *(Case(f"door.{mode}", Door("attack_change", mode, "change"), abi(mode)) for mode in CHANGES),
    *(Case(f"execute.{way}", Executed(way)) for way in ("fork", "at", "script")),
    *(Case(f"native.{name}", attack) for name, attack in NATIVE.items()),
    Case("door.tmpfile_inside", Door("attack_change", "tmpfile_inside", "call")),
    *(Case(f"door.{mode}", Door("attack_change", mode, "change", verbs=("write",))) for mode in READERS),
    *(Case(f"door.{mode}", Door("attack_attribute", mode, "change"), abi(mode)) for mode in ATTRIBUTES),
    *(Case(f"door.{mode}", Door("attack_attribute", mode, "change", verbs=("write",)), abi(mode)) for mode in READER_ATTRIBUTES),
    # Refused for every object where a rule limits metadata.
    Case("door.reader_setversion", Door("attack_attribute", "reader_setversion", "change", verbs=("write",), twin_mode="reader_setflags")),
    # No device under another name: neither where creation is held by Landlock nor where it is decided, with capabilities or without.
    *(Case(f"device.{where}.{whose}", Door("attack_change", "mkdevice", "call", rules=rules, options=options, twin_mode="mksocket"), only="root")
      for where, rules in (("static", Place.rules), ("contested", contested_creation))
      for whose, options in (("bare", ()), ("capable", ("--keep-capabilities",)))),
    *(Case(f"entry.{mode}", Door("attack_entry", mode, twin_mode=READ_PLAIN)) for mode in ENTRIES_READ),
    # If all is performed on behalf, a name means what it means to callgate.
    Case("entry.userns_contested", Door("attack_entry", "userns", twin_mode=READ_PLAIN, rules=all_contested)),
    *(Case(f"entry.{mode}", Door("attack_entry", mode, twin_mode=READ_PLAIN), only="root") for mode in ENTRIES_ROOT),
    *(Case(f"entry.{mode}", Door("attack_entry", mode, "change", twin_mode=CREATE_PLAIN)) for mode in ENTRIES_CHANGE),
    *(Case(f"call.{mode}", Call(mode, twin)) for mode, twin in CALLS.items()),
    *(Case(f"call.{mode}", Call(mode, twin, privileged=True)) for mode, twin in PRIVILEGED.items()),
    *(Case(f"option.{mode}", Call(f"option_{mode}", "option_ipv6")) for mode in OPTIONS),
    *(Case(f"request.{mode}", Call(f"request_{mode}", "pipe_size")) for mode in REQUESTS),
    *(Case(f"interface.{mode}", Call(f"interface_{mode}", "interface_read")) for mode in INTERFACES),
    *(Case(f"firewall.{mode}", Call(f"firewall_{mode}", "option_usual", privileged=True), only="root") for mode in FIREWALLS),
    *(Case(f"delay.{mode}", Delayed(mode)) for mode in ("lease", "lease_high_bits", "delegation")),
    *(Case(f"terminal.{mode}", Typed(mode)) for mode in ("tiocsti", "tiocsti_stdin", "tiocsti_high_bits")),
]
