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
    for dirfd in ("bad", f"dir:{cases.tree}/s5", f"opath:{cases.tree}/s5/other", f"file:{cases.tree}/s5/other", f"rw:{cases.tree}/s5/other"):
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


def change_cases(tree: Path) -> Cases:
    cases = Cases(tree)
    for part in (removal_and_making, moving, linking, metadata):
        part(cases)
    return cases
