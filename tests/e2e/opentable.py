"""The table of open-family calls: flags × kinds of object × kinds of path, and the tree that they act on."""
from __future__ import annotations

import itertools
import os
import socket
import subprocess
from pathlib import Path
from urllib.parse import quote_from_bytes

READ, WRITE, BOTH = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREAT, EXCL, TRUNC, APPEND = os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND
NOFOLLOW, DIRECTORY, NONBLOCK, CLOEXEC = os.O_NOFOLLOW, os.O_DIRECTORY, os.O_NONBLOCK, os.O_CLOEXEC
TMPFILE, OPATH, NOATIME, SYNC, DSYNC, DIRECT, ASYNC = (os.O_TMPFILE, os.O_PATH, os.O_NOATIME, os.O_SYNC, os.O_DSYNC,
                                                       os.O_DIRECT, os.O_ASYNC)
LARGEFILE, NOCTTY = 0o100000, os.O_NOCTTY
EMPTYPATH, REGULAR = 1 << 26, 1 << 32  # of Linux 7.2; an older kernel ignores the first, and openat2 refuses both
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, CACHED = 1, 2, 4, 8, 16, 32

OBJECTS = ["regular", "readonly", "none", "writeonly", "dir", "dir/", "dir/inner", "dirnone", "dirnone/inner", "dirnox/inner",
           "link", "link/", "linkdir", "linkdir/", "linkdir/inner", "dangling", "chain5", "chain40", "chain41", "loop", "selfloop",
           "abslink", "fifo", "fifolink", "sock", "null", "missing", "missing/", "missing/child", "regular/", "regular/child",
           "name with space", ".hidden", "%ff%fe", "%01%1b[31m", "n" * 255, "n" * 256, "", ".", "..", "./regular", "dir/../regular",
           "dir/./inner", "dir//inner", "linkdir/../regular", "missing/../regular", "acl", "acl/inner", "parentlink"]
FLAGS = [READ, WRITE, BOTH, 3, READ | NOFOLLOW, WRITE | NOFOLLOW, READ | DIRECTORY, BOTH | DIRECTORY, OPATH, OPATH | NOFOLLOW,
         OPATH | DIRECTORY, READ | CREAT | EXCL, READ | TRUNC, WRITE | APPEND]


def quote(path: bytes | str) -> str:
    raw = path if isinstance(path, bytes) else path.encode()
    return quote_from_bytes(raw, safe="/._- ")


def make_tree(tree: Path) -> None:
    """Makes a fresh tree that belongs to the calling user."""
    os.umask(0o022)

    def put(name: str, mode: int = 0o644, content: str = "hello\n") -> None:
        path = tree / name
        path.write_text(content)
        path.chmod(mode)

    for name in ("dir", "dirnone", "dirnox", "acl", "sgid", "sticky", "made"):
        (tree / name).mkdir()
    for name in ("regular", "a", "name with space", ".hidden", "n" * 255, "dir/inner", "dirnone/inner", "dirnox/inner", "acl/inner"):
        put(name)
    put("readonly", 0o444)
    put("none", 0)
    put("writeonly", 0o200)
    put("long", 0o644, "0123456789" * 1000)
    for raw in (b"\xff\xfe", b"\x01\x1b[31m"):
        with open(os.path.join(os.fsencode(tree), raw), "wb") as odd:
            odd.write(b"odd")
    links = {"link": "regular", "linkdir": "dir", "dangling": "made/through-link", "loop": "pool", "pool": "loop",
             "selfloop": "selfloop", "abslink": str(tree / "regular"), "fifolink": "fifo", "null": "/dev/null",
             "parentlink": "dir/../regular", "trailing": "dir/", "toproc": "/proc/self/cwd/regular", "absdangling": str(tree / "made/abs")}
    for name, value in links.items():
        os.symlink(value, tree / name)
    for length in (5, 40, 41):
        for step in range(1, length + 1):
            name = f"chain{length}" if step == length else f"hop{length}-{step}"
            os.symlink("regular" if step == 1 else f"hop{length}-{step - 1}", tree / name)
    os.mkfifo(tree / "fifo", 0o644)
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(tree)  # sun_path is short
        one.bind("sock")
        os.chdir(here)
    (tree / "sgid").chmod(0o2755)
    (tree / "sticky").chmod(0o1777)
    subprocess.run(["setfacl", "-d", "-m", "u::rwx,g::r-x,o::---,u:65534:rw-,m::rwx", str(tree / "acl")], check=True)
    make_deep(tree / "deep", 60, "d" * 100)
    (tree / "dirnone").chmod(0)
    (tree / "dirnox").chmod(0o600)


def make_deep(top: Path, depth: int, name: str) -> None:
    """A directory whose path is longer than PATH_MAX."""
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    with open(os.open("leaf", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=at), "w", encoding="ascii") as leaf:
        leaf.write("deep")
    os.close(at)


class Cases:
    def __init__(self, tree: Path) -> None:
        self.tree, self.lines = str(tree), []

    def add(self, call: str, path: str, flags: int = 0, mode: int = 0o644, dirfd: str = "cwd", resolve: int | str = 0,
            size: str = "-") -> None:
        note = f"{call}({dirfd},{path[:60]},{flags:#x},{mode:o},{resolve},{size})".replace(" ", "_")
        self.lines.append("\t".join([f"{len(self.lines)}:{note}", call, dirfd, path, str(flags), f"{mode:o}", str(resolve), size]))

    def say(self, *directive: str) -> None:
        self.lines.append("\t".join([f"{len(self.lines)}:", *directive]))

    def leave_out(self, call: str, flags: int) -> None:
        self.lines = [line for line in self.lines if line.split("\t")[1::3][:2] != [call, str(flags)]]

    def text(self) -> bytes:
        return ("\n".join(self.lines) + "\n").encode()


def objects(cases: Cases) -> None:
    for name, flags in itertools.product(OBJECTS, FLAGS):
        blocks = name in ("fifo", "fifolink") and not flags & (OPATH | NONBLOCK | DIRECTORY | EXCL)
        if blocks and flags not in (READ, WRITE):
            flags |= NONBLOCK
        cases.add("openat", name if "%" in name else quote(name), flags)
    for name in ("regular", "link", "dir", "missing", "fifo", "chain40", "chain41", "acl/inner"):
        for flags in (READ, BOTH | NONBLOCK, OPATH):
            cases.add("openat", quote(f"{cases.tree}/{name}"), flags | NONBLOCK)
            cases.add("open", quote(name), flags | NONBLOCK)
            cases.add("open", quote(f"/proc/self/cwd/{name}"), flags | NONBLOCK)
            cases.add("open", quote(f"/proc/self/root{cases.tree}/{name}"), flags | NONBLOCK)
            cases.add("openat", quote(name), flags | NONBLOCK, dirfd=f"dir:{cases.tree}")
            cases.add("openat", quote(name), flags | NONBLOCK, dirfd=f"opath:{cases.tree}")
            cases.add("openat", quote(name), flags | NONBLOCK, dirfd=f"file:{cases.tree}/regular")
            cases.add("openat", quote(name), flags | NONBLOCK, dirfd=f"opath:{cases.tree}/linkdir/..")


def flags_and_descriptors(cases: Cases) -> None:
    for extra in (CLOEXEC, NONBLOCK, SYNC, DSYNC, ASYNC, NOATIME, LARGEFILE, NOCTTY, DIRECT, APPEND | NONBLOCK, 0x80000000,
                  EMPTYPATH, 1 << 27, 1 << 30, 1 << 33, CLOEXEC | NOATIME | NOFOLLOW):
        for access in (READ, WRITE, BOTH):
            cases.add("openat", "regular", access | extra)
            cases.add("open", "long", access | extra)
    for dirfd in ("bad", "max", "minus"):
        for path in ("regular", "", ".", quote(f"{cases.tree}/regular"), "@null", "@fault", "missing"):
            cases.add("openat", path, READ, dirfd=dirfd)
    for path in ("@null", "@fault", "@edge:regular", "@unterminated:regular", "@long:256", "@long:4095", "@long:4096", "@long:5000",
                 "@exact:100", "@exact:4095", "@exact:4096", "@exact:4097"):
        for call, flags in (("open", READ), ("openat", WRITE), ("openat", READ | CREAT), ("openat2", READ), ("creat", 0)):
            cases.add(call, path, flags)
    for path in ("", "inner", "/", ".", ".."):
        cases.add("openat", path, READ, dirfd=f"dir:{cases.tree}/dir")
        cases.add("openat", path, OPATH, dirfd=f"opath:{cases.tree}/dir")
        cases.add("openat", path, READ | DIRECTORY, dirfd=f"file:{cases.tree}/regular")


def special_files(cases: Cases) -> None:
    for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/proc/self/comm", "/proc/thread-self/comm", "/proc/self/cmdline",
                 "/proc/self/exe", "/proc/self/cwd", "/proc/self/root", "/proc/self/fd", "/proc/self/ns/mnt", "/proc/self/fd/0",
                 "/proc/self/fd/987", "/proc/thread-self/fd/0", "/proc/self", "/proc/thread-self", "/dev/fd/0", "/dev/fd/987", "/dev/stdin",
                 "/proc/self/../self/comm", "/proc/self/task", "/proc/self/missing", "/proc/999999999/comm", "/dev/fd", "toproc",
                 "/proc/version", "/proc/self/mounts", "/proc/mounts"):
        for flags in (READ, WRITE, READ | NOFOLLOW, READ | DIRECTORY, OPATH, OPATH | NOFOLLOW, READ | CREAT):
            cases.add("openat", quote(path), flags | NONBLOCK)


def creation(cases: Cases) -> None:
    number = itertools.count()
    for mask in ("022", "077", "0", "0777"):
        cases.say("umask", mask)
        for directory, mode in itertools.product(("made", "acl", "sgid", "sticky"), (0o666, 0o777, 0o640, 0o4755, 0o2755, 0o1777, 0)):
            cases.add("openat", f"{directory}/f{next(number)}", WRITE | CREAT | EXCL, mode)
            cases.add("openat2", f"{directory}/f{next(number)}", BOTH | CREAT, mode)
        cases.add("creat", f"made/f{next(number)}", 0, 0o666)
        for directory in ("made", "acl", "sgid", "missing", "regular", "linkdir", "dirnone"):
            cases.add("openat", directory, WRITE | TMPFILE, 0o640)
            cases.add("openat", directory, BOTH | TMPFILE | EXCL, 0o666)
            cases.add("openat", directory, READ | TMPFILE, 0o666)
    cases.say("umask", "022")
    for flags in (READ | CREAT, WRITE | CREAT, BOTH | CREAT | TRUNC, WRITE | CREAT | APPEND, READ | CREAT | NOFOLLOW,
                  WRITE | CREAT | DIRECTORY, WRITE | CREAT | OPATH, READ | CREAT | EXCL | NOFOLLOW, WRITE | TRUNC | APPEND, BOTH | TRUNC):
        cases.add("openat", f"made/g{next(number)}", flags)
        for name in ("regular", "dir", "dir/", "dangling", "absdangling", "loop", "link", "linkdir", "made/new/", "missing/new",
                     "regular/new", "dirnone/new", "dirnox/new", "none", "readonly", "null", ".", "..", "/", "trailing", "%ff-new", "fifo"):
            cases.add("openat", name, flags | NONBLOCK)
        for mode in (0o10644, 0o177777):
            cases.add("openat", f"made/h{next(number)}", flags, mode)
            cases.add("openat2", f"made/h{next(number)}", flags, mode)


def openat2_cases(cases: Cases) -> None:
    for resolve in (0, NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, CACHED, BENEATH | IN_ROOT, NO_SYMLINKS | BENEATH, 64, 1 << 40):
        for path in ("regular", "link", "abslink", "dir/../regular", "../tree/regular", "/regular", "/proc/self/comm", "/proc/self/cwd/regular",
                     "/proc/self/exe", "/dev/null", "missing", "linkdir/inner", "loop"):
            if resolve == CACHED and path.startswith("/proc"):
                continue  # whether procfs answers from the cache is chance
            cases.add("openat2", quote(path), READ, 0, resolve=resolve)
        cases.add("openat2", "regular", READ, 0, dirfd=f"dir:{cases.tree}", resolve=resolve)
        cases.add("openat2", "../regular", READ, 0, dirfd=f"dir:{cases.tree}/dir", resolve=resolve)
        cases.add("openat2", f"made/r{resolve:x}", WRITE | CREAT, 0o644, resolve=resolve)
        cases.add("openat2", "regular", OPATH, 0, resolve=resolve)
    for size in ("0", "8", "16", "23", "24", "32", "4096", "4097", "8000", "+32", "+4096"):
        cases.add("openat2", "regular", READ, 0, size=size)
    for flags in (EMPTYPATH, REGULAR, 1 << 33, 1 << 40, 1 << 63, 3, OPATH | WRITE, OPATH | CREAT, TMPFILE | READ, TRUNC, READ | CREAT | DIRECTORY):
        cases.add("openat2", "regular", flags, 0)
    for flags, dirfd in itertools.product((READ, BOTH, READ | DIRECTORY, READ | NOFOLLOW, WRITE | TRUNC, BOTH | CREAT, BOTH | CREAT | EXCL,
                                           BOTH | TMPFILE), ("cwd", f"file:{cases.tree}/a", f"opath:{cases.tree}/a", f"opath:{cases.tree}/dir",
                                                             f"opath:{cases.tree}/linkdir/..", "bad")):
        mode = 0o640 if flags & (CREAT | TMPFILE) else 0
        cases.add("openat", "", flags | EMPTYPATH, mode, dirfd=dirfd)
        for resolve in (0, BENEATH) if flags in (READ, BOTH | CREAT) else (0,):
            cases.add("openat2", "", flags | EMPTYPATH, mode, dirfd=dirfd, resolve=resolve)
    for name, flags in itertools.product(("regular", "dir", "fifo", "sock", "null", "link", "linkdir", "missing", "none", "made/regular"),
                                         (READ, BOTH | NONBLOCK, READ | NOFOLLOW, READ | DIRECTORY, BOTH | CREAT, BOTH | CREAT | EXCL)):
        cases.add("openat2", name, flags | REGULAR, 0o644 if flags & CREAT else 0)
    cases.add("openat2", "regular", READ, 0o644)          # a mode without O_CREAT
    cases.add("openat2", "regular", READ, 0, resolve="@fault")
    cases.add("openat2", "regular", READ, 0, dirfd="bad")
    cases.add("openat2", "@fault", READ, 0, dirfd="bad")


def working_directories(cases: Cases) -> None:
    cases.say("cd", quote(f"{cases.tree}/deep"))
    cases.say("deep", "60", "d" * 100)
    for path in ("leaf", ".", "..", "./leaf", "missing", "../" + "d" * 100 + "/leaf", "../../" + "d" * 100 + "/" + "d" * 100 + "/leaf"):
        for flags in (READ, OPATH, BOTH | CREAT, READ | DIRECTORY):
            cases.add("openat", path, flags)
    cases.add("openat", "new", WRITE | CREAT | EXCL)
    cases.add("openat", quote("/proc/self/cwd/leaf"), READ)
    cases.say("cd", quote(f"{cases.tree}/made"))
    cases.say("gone")
    for path in (".", "..", "new", "missing/new", "../x", quote(f"{cases.tree}/regular")):
        for flags in (READ, READ | CREAT, OPATH):
            cases.add("openat", path, flags)
    cases.say("cd", "/")
    for path in (quote(cases.tree.lstrip("/") + "/regular"), "..", "../../proc/self/comm", "/", "//", "/.."):
        cases.add("openat", path, READ)


def open_cases(tree: Path) -> Cases:
    cases = Cases(tree)
    for part in (objects, flags_and_descriptors, special_files, openat2_cases, creation, working_directories):
        part(cases)
    return cases
