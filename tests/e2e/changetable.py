"""The table of calls that change names and metadata, and the tree that they act on."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

from opentable import make_deep, quote

KINDS = ["regular", "dir", "full", "link", "linkdir", "dangling", "fifo", "missing", "missing/x", "regular/x", "dir/", "regular/", ".",
         "..", "", "loop", "%ff%fe", "locked/inner", "@fault", "@null", "@long:256", "@long:4096"]
FRESH = 6  # of every kind, so that a case that removes it leaves one for the next


def make_tree(tree: Path) -> None:
    os.umask(0o022)
    for index in range(FRESH):
        top = tree / f"s{index}"
        top.mkdir()
        for name in ("regular", "other"):
            (top / name).write_text("hello\n")
        for name in ("dir", "empty", "full", "locked"):
            (top / name).mkdir()
        (top / "full/inner").write_text("inner")
        (top / "locked/inner").write_text("inner")
        os.symlink("regular", top / "link")
        os.symlink("dir", top / "linkdir")
        os.symlink("nowhere", top / "dangling")
        os.symlink("loop", top / "loop")
        os.mkfifo(top / "fifo")
        with open(os.path.join(os.fsencode(top), b"\xff\xfe"), "wb") as odd:
            odd.write(b"odd")
    acl = tree / "acl"
    acl.mkdir()
    (tree / "sgid").mkdir()
    (tree / "sgid").chmod(0o2755)
    subprocess.run(["setfacl", "-d", "-m", "u::rwx,g::r-x,o::---,u:65534:rw-,m::rwx", str(acl)], check=True)
    make_deep(tree / "deep", 60, "d" * 100)


class Cases:
    def __init__(self, tree: Path) -> None:
        self.tree, self.lines = str(tree), []

    def add(self, call: str, *arguments: str) -> None:
        note = ",".join(one[2:40] for one in arguments).replace(" ", "_")
        self.lines.append("\t".join([f"{len(self.lines)}:{call}({note})", call, *arguments]))

    def say(self, *directive: str) -> None:
        self.lines.append("\t".join([f"{len(self.lines)}:", *directive]))

    def text(self) -> bytes:
        return ("\n".join(self.lines) + "\n").encode()


def path(name: str) -> str:
    return "p:" + (name if "%" in name or name.startswith("@") else quote(name))


def removal_and_making(cases: Cases) -> None:
    cases.say("cd", quote(f"{cases.tree}/s0"))
    for kind in KINDS:
        cases.add("mkdir", path(kind), "n:0755")
        cases.add("rmdir", path(kind))
        cases.add("symlink", "p:to", path(kind))
    cases.say("cd", quote(f"{cases.tree}/s1"))
    for kind in KINDS:
        cases.add("unlinkat", "d:cwd", path(kind), "n:0x200")
        cases.add("unlinkat", "d:cwd", path(kind), "n:0x400")
        cases.add("unlink", path(kind))
    for mask in ("022", "077", "0"):
        cases.say("umask", mask)
        for directory in ("acl", "sgid", "s2"):
            for mode in ("0777", "02750", "01777", "0"):
                cases.add("mkdir", path(f"../{directory}/m{mask}-{mode}"), f"n:{mode}")
    cases.say("umask", "022")
    for dirfd in ("bad", f"dir:{cases.tree}/s2", f"opath:{cases.tree}/s2/dir", f"file:{cases.tree}/s2/regular"):
        for call, rest in (("mkdirat", ["p:by-fd", "n:0700"]), ("unlinkat", ["p:other", "n:0"]), ("unlinkat", ["p:", "n:0"]),
                           ("mkdirat", ["p:", "n:0700"]), ("mkdirat", [path(f"{cases.tree}/s2/dir"), "n:0700"])):
            cases.add(call, f"d:{dirfd}", *rest)
        cases.add("symlinkat", "p:to", f"d:{dirfd}", "p:by-fd-link")
    cases.say("cd", quote(f"{cases.tree}/s2"))
    for number, mode in enumerate(("0100640", "010644", "0140600", "0640", "020600", "060600", "040700", "0120777", "0170000")):
        for device in ("0", "0x103"):
            cases.add("mknod", f"p:node{number}-{device}", f"n:{mode}", f"n:{device}")
            cases.add("mknodat", "d:cwd", "p:regular", f"n:{mode}", f"n:{device}")
            cases.add("mknod", "p:missing/x", f"n:{mode}", f"n:{device}")
    for kind in KINDS:
        cases.add("mknodat", "d:cwd", path(kind), "n:010644", "n:0")
    for name in ("", "@fault", "@long:4096"):
        cases.add("symlink", path(name), "p:new-link")
        cases.add("symlinkat", path(name), "d:cwd", "p:new-link-at")


def moving(cases: Cases) -> None:
    cases.say("cd", quote(f"{cases.tree}/s3"))
    for kind in KINDS:
        cases.add("rename", path(kind), "p:moved")
        cases.add("rename", "p:moved", path(kind))
        cases.add("renameat2", "d:cwd", path(kind), "d:cwd", "p:other", "n:1")
        cases.add("renameat2", "d:cwd", path(kind), "d:cwd", "p:empty", "n:2")
        cases.add("renameat2", "d:cwd", "p:empty", "d:cwd", path(kind), "n:2")
    for pair in (("regular", "regular"), ("dir", "full"), ("full", "dir"), ("dir", "dir/below"), ("regular", "dir"), ("dir", "regular"),
                 ("link", "regular"), ("fifo", "other"), ("empty", "/nowhere/at/all")):
        cases.add("rename", path(pair[0]), path(pair[1]))
    for flags in ("3", "4", "8", "5", "0x100"):
        cases.add("renameat2", "d:cwd", "p:regular", "d:cwd", "p:flagged", f"n:{flags}")
    for dirfd in ("bad", f"dir:{cases.tree}/s4", f"opath:{cases.tree}/s4", f"file:{cases.tree}/s4/regular"):
        cases.add("renameat", f"d:{dirfd}", "p:other", "d:cwd", "p:came")
        cases.add("renameat", "d:cwd", "p:came", f"d:{dirfd}", "p:other")


def linking(cases: Cases) -> None:
    cases.say("cd", quote(f"{cases.tree}/s4"))
    for number, kind in enumerate(KINDS):
        cases.add("link", path(kind), f"p:hard{number}")
        cases.add("linkat", "d:cwd", path(kind), "d:cwd", f"p:at{number}", "n:0x400")
        cases.add("link", "p:regular", path(kind))
    cases.add("linkat", "d:cwd", "p:regular", "d:cwd", "p:flags", "n:0x1")
    for dirfd in ("bad", f"dir:{cases.tree}/s4", f"file:{cases.tree}/s4/regular", f"opath:{cases.tree}/s4/regular"):
        cases.add("linkat", f"d:{dirfd}", "p:regular", "d:cwd", "p:from-fd", "n:0")
        cases.add("linkat", "d:cwd", "p:regular", f"d:{dirfd}", "p:into-fd", "n:0")
        cases.add("linkat", f"d:{dirfd}", "p:", "d:cwd", "p:empty-path", "n:0x1000")


def metadata(cases: Cases) -> None:
    cases.say("cd", quote(f"{cases.tree}/s5"))
    user, group = str(os.getuid()), str(os.getgid())
    for kind in KINDS:
        cases.add("chmod", path(kind), "n:0755")
        cases.add("chmod", path(kind), "n:04711")
        cases.add("fchmodat2", "d:cwd", path(kind), "n:0700", "n:0x100")
        cases.add("truncate", path(kind), "n:3")
        cases.add("chown", path(kind), "n:-1", "n:-1")
        cases.add("lchown", path(kind), f"n:{user}", f"n:{group}")
        cases.add("chown", path(kind), "n:12345", "n:-1")
        for call, rest in (("utime", ["t:set"]), ("utimes", ["t:set"]), ("utimes", ["t:bad"]), ("utimes", ["t:null"])):
            cases.add(call, path(kind), *rest)
        for times in ("null", "now", "omit", "set", "bad", "fault"):
            cases.add("utimensat", "d:cwd", path(kind), f"t:{times}", "n:0")
        cases.add("utimensat", "d:cwd", path(kind), "t:set", "n:0x100")
        cases.add("futimesat", "d:cwd", path(kind), "t:set")
    for length in ("-1", "0", "100000", "0x7fffffffffffffff"):
        cases.add("truncate", "p:other", f"n:{length}")
    for dirfd in ("bad", f"dir:{cases.tree}/s5", f"opath:{cases.tree}/s5/other", f"file:{cases.tree}/s5/other", f"rw:{cases.tree}/s5/other",
                  f"neither:{cases.tree}/s5/other"):
        cases.add("fchmod", f"d:{dirfd}", "n:0750")
        cases.add("fchown", f"d:{dirfd}", "n:-1", "n:-1")
        cases.add("ftruncate", f"d:{dirfd}", "n:2")
        cases.add("ftruncate", f"d:{dirfd}", "n:-1")
        cases.add("fchmodat", f"d:{dirfd}", "p:regular", "n:0600")
        cases.add("fchmodat2", f"d:{dirfd}", "p:", "n:0704", "n:0x1000")
        cases.add("fchownat", f"d:{dirfd}", "p:", "n:-1", "n:-1", "n:0x1000")
        cases.add("fchownat", f"d:{dirfd}", "p:link", "n:-1", "n:-1", "n:0x100")
        cases.add("fchownat", f"d:{dirfd}", "p:link", "n:-1", "n:-1", "n:0x4000000")
        cases.add("utimensat", f"d:{dirfd}", "p:@null", "t:set", "n:0")
        cases.add("utimensat", f"d:{dirfd}", "p:", "t:set", "n:0x1000")
        cases.add("futimesat", f"d:{dirfd}", "p:regular", "t:set")
    cases.say("cd", quote(f"{cases.tree}/deep/" + "/".join(["d" * 100] * 30)))
    cases.say("cd", quote("/".join(["d" * 100] * 30)))
    for call, rest in (("mkdir", ["p:new", "n:0755"]), ("chmod", ["p:leaf", "n:0600"]), ("rename", ["p:leaf", "p:new/leaf"]),
                       ("symlink", ["p:new", "p:link"]), ("link", ["p:link/leaf", "p:again"]), ("truncate", ["p:again", "n:1"]),
                       ("unlink", ["p:new/leaf"]), ("rmdir", ["p:new"]), ("utimensat", ["d:cwd", "p:again", "t:set", "n:0"])):
        cases.add(call, *rest)


GROUP_MAY_READ = ("%02%00%00%00" "%01%00%07%00%FF%FF%FF%FF" "%02%00%04%00%01%00%00%00" "%04%00%04%00%FF%FF%FF%FF"
                  "%10%00%04%00%FF%FF%FF%FF" "%20%00%00%00%FF%FF%FF%FF")  # an access control list of 44 bytes
NAMES = ["user.one", "user.", "user", "odd.name", "trusted.one", "security.one", "security.capability", "security.selinux",
         "system.one", "user.%ff%fe", "", "@fault", "@null", "@long:255", "@long:256", "@long:300"]
ACCESS, DEFAULT = "s:system.posix_acl_access", "s:system.posix_acl_default"
EXTENTS = 0x80000  # ext4's own: without it a file is laid out anew, which fails or not as its blocks lie
NODUMP, APPEND, IMMUTABLE, NOATIME = 0x40, 0x20, 0x10, 0x80
XNODUMP, XAPPEND, XIMMUTABLE, XPROJINHERIT, XUNKNOWN = 0x80, 0x10, 0x08, 0x200, 1 << 40
SET_FLAGS, SET_XFLAGS, OTHER_REQUEST = "n:0x40086602", "n:0x401c5820", "n:0x80086601"


def descriptors(cases: Cases) -> list[str]:
    place = f"{cases.tree}/s5"
    return ["bad", f"dir:{place}/dir", f"opath:{place}/other", f"file:{place}/other", f"rw:{place}/other", f"rw:{place}/fifo"]


def extended(cases: Cases) -> None:
    """setxattr, removexattr and relatives."""
    cases.say("cd", quote(f"{cases.tree}/s5"))
    for kind in KINDS:
        for prefix in ("", "l"):
            cases.add(f"{prefix}setxattr", path(kind), f"s:user.{prefix}kind", "s:value", "n:5", "n:0")
            cases.add(f"{prefix}removexattr", path(kind), f"s:user.{prefix}kind")
            cases.add(f"{prefix}setxattr", path(kind), "s:trusted.kind", "s:value", "n:5", "n:0")
        cases.add("setxattr", path(kind), ACCESS, "s:" + GROUP_MAY_READ, "n:44", "n:0")
        cases.add("setxattr", path(kind), DEFAULT, "s:" + GROUP_MAY_READ, "n:44", "n:0")
        cases.add("setxattrat", "d:cwd", path(kind), "n:0", "s:user.at", "x:value,5,0", "n:16")
        cases.add("setxattrat", "d:cwd", path(kind), "n:0x100", "s:user.at", "x:value,3,0", "n:16")
        cases.add("setxattrat", "d:cwd", path(kind), "n:0x1000", "s:user.empty", "x:value,2,0", "n:16")
        cases.add("removexattrat", "d:cwd", path(kind), "n:0x1100", "s:user.at")
        cases.add("setxattr", path(kind), "s:odd", "s:@fault", "n:5", "n:9")
        cases.add("setxattr", path(kind), "s:@long:300", "s:value", "n:5", "n:0")
        cases.add("removexattr", path(kind), "s:@fault")
    for name in NAMES:
        for target in ("regular", "dir", "link", "fifo"):
            cases.add("setxattr", path(target), f"s:{name}", "s:value", "n:5", "n:0")
            cases.add("removexattr", path(target), f"s:{name}")
        cases.add("lsetxattr", "p:link", f"s:{name}", "s:value", "n:5", "n:0")
        cases.add("lremovexattr", "p:link", f"s:{name}")
    for flags in ("1", "2", "1", "3", "4", "-1", "0x100000000"):
        cases.add("setxattr", "p:other", "s:user.flags", "s:v", "n:1", f"n:{flags}")
    cases.add("removexattr", "p:other", "s:user.flags")
    cases.add("setxattr", "p:other", "s:user.flags", "s:v", "n:1", "n:2")
    for size, value in (("0", "@null"), ("0", "@fault"), ("1", "@null"), ("1", "@fault"), ("100", "@long:100"), ("5000", "@long:5000"),
                        ("65536", "@long:65536"), ("65537", "@fault"), ("65537", "@long:65536"), ("-1", "value")):
        cases.add("setxattr", "p:other", "s:user.size", f"s:{value}", f"n:{size}", "n:0")
        cases.add("setxattrat", "d:cwd", "p:other", "n:0", "s:user.sizeat", f"x:{value},{size},0", "n:16")
    for value, size in ((GROUP_MAY_READ, 44), (GROUP_MAY_READ, 43), (GROUP_MAY_READ, 4), ("%03%00%00%00", 4), ("%02%00%00%00", 4), ("", 0)):
        for target in ("regular", "dir", "link"):
            cases.add("setxattr", path(target), ACCESS, f"s:{value}", f"n:{size}", "n:0")
            cases.add("setxattr", path(target), DEFAULT, f"s:{value}", f"n:{size}", "n:0")
    cases.add("removexattr", "p:regular", ACCESS)
    cases.add("removexattr", "p:dir", DEFAULT)
    for dirfd in descriptors(cases):
        cases.add("fsetxattr", f"d:{dirfd}", "s:user.fd", "s:value", "n:5", "n:0")
        cases.add("fsetxattr", f"d:{dirfd}", "s:user.fd", "s:@fault", "n:5", "n:0")
        cases.add("fsetxattr", f"d:{dirfd}", "s:@long:300", "s:value", "n:5", "n:0")
        cases.add("fsetxattr", f"d:{dirfd}", ACCESS, "s:" + GROUP_MAY_READ, "n:44", "n:0")
        cases.add("fremovexattr", f"d:{dirfd}", "s:user.fd")
        cases.add("fremovexattr", f"d:{dirfd}", "s:user.none")
        for name in ("", "@null", "@fault", "regular", "link"):
            for flags in ("0x1000", "0x1100", "0"):
                cases.add("setxattrat", f"d:{dirfd}", path(name), f"n:{flags}", "s:user.at-fd", "x:value,5,0", "n:16")
                cases.add("removexattrat", f"d:{dirfd}", path(name), f"n:{flags}", "s:user.at-fd")
    for size, value in (("0", "value,5,0"), ("15", "value,5,0"), ("24", "value,5,0"), ("24", "value,5,0,1"), ("4096", "value,5,0"),
                        ("4097", "value,5,0"), ("16", "fault"), ("16", "value,5,7"), ("16", "@fault,5,0")):
        cases.add("setxattrat", "d:cwd", "p:other", "n:0", "s:user.sized", f"x:{value}", f"n:{size}")
        cases.add("setxattrat", "d:cwd", "p:missing", "n:0", "s:user.sized", f"x:{value}", f"n:{size}")
    for flags in ("0x200", "0x400", "0x2000", "-1"):
        cases.add("setxattrat", "d:cwd", "p:other", f"n:{flags}", "s:user.at", "x:value,5,0", "n:16")
        cases.add("removexattrat", "d:cwd", "p:other", f"n:{flags}", "s:user.at")
    for name in ("@null", "", "other"):
        cases.add("setxattrat", "d:cwd", path(name), "n:0x1000", "s:user.here", "x:value,5,0", "n:16")


def inode_flags(cases: Cases) -> None:
    """The ioctls, and file_setattr."""
    cases.say("cd", quote(f"{cases.tree}/s5"))
    for dirfd in descriptors(cases):
        for flags in (NODUMP, 0, NODUMP | NOATIME, APPEND, IMMUTABLE, 0x80000000):
            cases.add("ioctl", f"d:{dirfd}", SET_FLAGS, f"i:{flags | EXTENTS}")
        cases.add("ioctl", f"d:{dirfd}", SET_FLAGS, "i:fault")
        for flags in (XNODUMP, 0, XAPPEND, XIMMUTABLE, 0x80000000):
            cases.add("ioctl", f"d:{dirfd}", SET_XFLAGS, f"a:{flags},0,0")
        cases.add("ioctl", f"d:{dirfd}", SET_XFLAGS, "a:0,4096,0")
        cases.add("ioctl", f"d:{dirfd}", SET_XFLAGS, "a:0,0,7")
        cases.add("ioctl", f"d:{dirfd}", SET_XFLAGS, "a:fault")
        cases.add("ioctl", f"d:{dirfd}", "n:0xdeadbeef40086602", f"i:{NODUMP | EXTENTS}")
        cases.add("ioctl", f"d:{dirfd}", OTHER_REQUEST, "i:0")
        for name in ("", "@null", "@fault", "regular", "link"):
            for flags in ("0x1000", "0x1100", "0"):
                cases.add("file_setattr", f"d:{dirfd}", path(name), f"f:{XNODUMP}", "n:24", f"n:{flags}")
    for request, value in ((SET_FLAGS, "i:0"), (SET_FLAGS, "i:fault"), (SET_XFLAGS, "a:0,0,0"), (SET_XFLAGS, "a:fault"), (OTHER_REQUEST, "i:0")):
        cases.add("ioctl", "d:file:/dev/null", request, value)  # a device, on which no kernel does anything
    for kind in KINDS:
        for flags in ("0", "0x100", "0x1000"):
            cases.add("file_setattr", "d:cwd", path(kind), f"f:{XNODUMP}", "n:24", f"n:{flags}")
        cases.add("file_setattr", "d:cwd", path(kind), f"f:{XUNKNOWN}", "n:24", "n:0")
        cases.add("file_setattr", "d:cwd", path(kind), "f:0", "n:24", "n:0")
    for xflags in (XNODUMP, XAPPEND, XIMMUTABLE, XPROJINHERIT, XUNKNOWN, 0):
        cases.add("file_setattr", "d:cwd", "p:other", f"f:{xflags}", "n:24", "n:0")
        cases.add("file_setattr", "d:cwd", "p:dir", f"f:{xflags}", "n:24", "n:0")
    for size, value in (("0", "0"), ("23", "0"), ("32", "128"), ("32", "128,1"), ("4096", "128"), ("4097", "128"), ("24", "fault")):
        for name in ("other", "missing"):
            cases.add("file_setattr", "d:cwd", path(name), f"f:{value}", f"n:{size}", "n:0")
    for flags in ("0x200", "0x2000", "-1"):
        cases.add("file_setattr", "d:cwd", "p:other", "f:0", "n:24", f"n:{flags}")


def attribute_cases(tree: Path) -> Cases:
    cases = Cases(tree)
    extended(cases)
    inode_flags(cases)
    return cases


def change_cases(tree: Path) -> Cases:
    cases = Cases(tree)
    for part in (removal_and_making, moving, linking, metadata):
        part(cases)
    return cases
