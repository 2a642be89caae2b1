"""Contested but allowed must be native: the same table of calls bare and under callgate, line by line.

The rule set denies a name that no case uses (`.never*`), by a glob over the whole tree. So every call beneath it is
contested and, being allowed, performed on behalf.
"""
from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess

import pytest

import changetable
import harness
import opentable


def contested(box: harness.Box, *more):
    return harness.rule_set(
        {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "above", "allow": ["read", "modify"], "path": ["/", "/tmp", str(box.stage.root), str(box.root)]},
        {"id": "own", "allow": "modify", "path": ["/proc/**", f"{box.stage.bin}/prog_openprobe"]},
        {"id": "never", "deny": ["read", "write"], "path": f"{box.tree}/**/.never*"},
        *more,
    )


def rebuild(box: harness.Box, make) -> None:
    """The same tree again, at the same place, made by the user."""
    if box.tree.exists():
        harness.remove_tree(box.tree)
    box.directory(box.tree)
    harness.as_user(box.user, lambda: make(box.tree))


MODE = re.compile(r"(mode=|after=|\| (?:fd )?)(?!4\d{4}\b)(\d{1,2})([0-7])(\d{3})\b")  # of anything but a directory, as the probes print it


def without_set_ids(text: str) -> str:
    """The modes of files lose set-user-id and set-group-id bits: docs/differences.md."""
    return MODE.sub(lambda mode: f"{mode[1]}{mode[2]}{int(mode[3], 8) & 1}{mode[4]}", text)


def compare(native: harness.Result, supervised: harness.Result, least: int, keeps: bool = False) -> None:
    left, right = (native.text if keeps else without_set_ids(native.text)).splitlines(), supervised.text.splitlines()
    assert native.code == 0, native.describe()
    assert len(left) >= least, f"only {len(left)} cases ran bare\n{native.describe()}"
    different = [(one, two) for one, two in zip(left, right) if one != two]
    if different or len(left) != len(right) or supervised.code != 0:
        text = "\n".join(f"bare       {one}\nsupervised {two}" for one, two in different[:200])
        pytest.fail(f"{len(different)} of {len(left)} cases differ ({len(right)} supervised)\n{text}\nexit {supervised.code}\n"
                    f"{supervised.errors[-2000:]}", pytrace=False)


def both(box: harness.Box, program: str, make, stdin: bytes, least: int, *more, keeps: bool = False,
         without: bytes | None = None) -> harness.Result:
    """`without`: lines that hold it are not compared."""
    rebuild(box, make)
    native = box.run([box.program(program)], supervised=False, stdin=stdin)
    rebuild(box, make)
    supervised = box.run([box.program(program)], contested(box, *more), stdin=stdin, options=["--keep-capabilities"] if keeps else [])
    if without is not None:
        for one in (native, supervised):
            one.out = b"".join(line for line in one.out.splitlines(True) if without not in line)
    compare(native, supervised, least, keeps)
    return supervised


# The probes have no capabilities, so root's run with --keep-capabilities would not be as the bare one.
KINDS = ["root", "user"] if os.geteuid() == 0 else ["user"]
KEEPS = pytest.mark.parametrize(("user", "keeps"), [*((kind, False) for kind in KINDS), ("user", True)], indirect=["user"],
                                ids=[*KINDS, "user, --keep-capabilities"])


@KEEPS
def test_open_family_gives_what_it_gives_bare(box, keeps):
    table = opentable.open_cases(box.tree)
    if not keeps or box.run(["/bin/true"], contested(box)).report["effective"]["landlock_abi"] < 3:
        table.leave_out("openat2", opentable.OPATH)  # docs/differences.md, and the test after this one
    result = both(box, "prog_openprobe", opentable.make_tree, table.text(), 300, keeps=keeps)
    assert len(result.decisions(mechanism="on_behalf")) >= 300, "the table must have been answered on behalf"
    noted = [one for one in result.decisions() if "set-group-id" in (one["callgate"].get("reason") or "")]
    assert (len(noted) >= 10) != keeps, f"{len(noted)} records say that bits were left out"


@pytest.mark.parametrize(("abi", "options"), [(None, []), (2, ["--keep-capabilities"])], ids=["set-id bits", "truncation"])
def test_openat2_leaves_o_path_to_openat(box, abi, options):
    """It does so where notification alone holds what its flags and mode in memory could become."""
    rebuild(box, opentable.make_tree)
    cases = opentable.Cases(box.tree)
    cases.add("openat2", "regular", opentable.OPATH, 0)
    cases.add("openat", "regular", opentable.OPATH)
    if abi:
        box.switch(abi=abi)
    result = box.run([box.program("prog_openprobe")], contested(box), stdin=cases.text(), options=options)
    lines = result.text.splitlines()
    assert " -1 errno=38 " in lines[0] and " fd " in lines[1], result.describe()


@pytest.mark.parametrize(("user", "keeps", "container"), [*((kind, False, False) for kind in KINDS), ("user", True, False), ("user", False, True)],
                         indirect=["user"], ids=[*KINDS, "user, --keep-capabilities", "user, in a container"])
def test_changes_of_files_and_names_give_what_they_give_bare(box, keeps, container):
    if container:
        box.contain("docker")
    table = changetable.change_cases(box.tree)
    result = both(box, "prog_changeprobe", changetable.make_tree, table.text(), 250, keeps=keeps)
    assert len(result.decisions(mechanism="on_behalf")) >= 150


def test_changes_of_attributes_give_what_they_give_bare(box):
    table = changetable.attribute_cases(box.tree)
    null = {"id": "null", "allow": ["read", "metadata"], "path": "/dev/null"}
    result = both(box, "prog_changeprobe", changetable.make_tree, table.text(), 800, null)
    assert len(result.decisions(mechanism="on_behalf", operation="metadata")) >= 300  # fewer calls before Linux 6.13
    file = box.file(box.tree / "probe", b"")
    try:
        os.setxattr(file, "user.probe", b"x")
    except OSError:
        pytest.skip("this file system has no attributes: only errors were compared")
    assert " 0 errno=0 | 100644" in result.text and ":user.one=5,76616c7565" in result.text, "no attribute was ever set"
    assert result.text.count(":F") > 100, "no inode flags were seen"


COPIES = {
    "setfacl": "setfacl -m u:65534:r,m::rw file && setfacl -d -m g::rwx folder && setfacl -b folder && cp -p file again",
    "cp": "cp -a folder copied && cp --preserve=all file copied-file",
    "tar": "tar --xattrs --acls -cf all.tar folder && mkdir out && tar --xattrs --xattrs-include='*' --acls -xf all.tar -C out",
    "rsync": "rsync -aAX folder/ synced/ && rsync -aAX file synced-file",
    "chattr": "chattr +d file && chattr +A folder && lsattr -d file folder && chattr -d file",
}
SHOW = """
import os
for top, folders, files in os.walk('.'):
    for name in sorted(folders + files):
        path = os.path.join(top, name)
        st = os.lstat(path)
        print(path, oct(st.st_mode), [(one, os.getxattr(path, one)) for one in sorted(os.listxattr(path))] if not name.endswith('.tar') else '')
    folders.sort()
"""


@pytest.mark.parametrize("tool", COPIES)
def test_tools_that_copy_attributes_copy_them(box, tool):
    """The same attributes and access control lists come out, bare and contested."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")

    def make(tree) -> None:
        (tree / "folder").mkdir()
        for path in (tree / "file", tree / "folder/inner"):
            path.write_text("content")
            try:
                os.setxattr(path, "user.origin", b"here")
            except OSError:
                pytest.skip("this file system has no attributes")
        subprocess.run(["setfacl", "-m", "u:65534:rw", tree / "folder/inner"], check=True)
        subprocess.run(["setfacl", "-d", "-m", "u:65534:rx", tree / "folder"], check=True)

    null = {"id": "null", "allow": "modify", "path": "/dev/null"}
    runs = []
    for rules in (None, contested(box, null)):
        rebuild(box, make)
        result = box.run(["/bin/sh", "-ec", COPIES[tool]], rules, supervised=rules is not None)
        shown = subprocess.run(["/usr/bin/python3", "-c", SHOW], cwd=box.tree, capture_output=True, text=True, check=True).stdout
        assert result.code == 0, result.describe()
        runs.append((result.text, shown))
    assert runs[0] == runs[1]
    assert "user.origin" in runs[0][1] and "posix_acl" in runs[0][1]
    assert [one for one in result.decisions(operation="metadata") if "xattr" in one["event"]["action"] or one["event"]["action"] == "ioctl"]


OWN_DOMAIN = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
handled = ctypes.c_uint64(1 << 3)  # LANDLOCK_ACCESS_FS_READ_DIR
ruleset = call(444, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint(0))
call(157, ctypes.c_int(38), ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))  # PR_SET_NO_NEW_PRIVS
call(446, ctypes.c_int(ruleset), ctypes.c_uint(0))
for path in sys.argv[1:]:
    try:
        os.listdir(path)
        print('listed')
    except OSError as error:
        print(error.strerror)
"""


def test_a_domain_of_the_programs_own_holds_what_the_kernel_performs(box):
    """A listed difference: not what is performed on behalf."""
    line = ["/usr/bin/python3", "-c", OWN_DOMAIN, ".", "/etc"]
    bare = box.run(line, supervised=False)
    if bare.code != 0:
        pytest.skip(f"no Landlock for programs here: {bare.errors.splitlines()[-1]}")
    assert bare.text.split("\n") == ["Permission denied", "Permission denied", ""]
    under = box.run(line, contested(box))
    assert under.text.split("\n") == ["listed", "Permission denied", ""], under.describe()
    free = box.run(["/usr/bin/python3", "-c", "import os; print(len(os.listdir('/etc')) > 0)"], contested(box))
    assert free.text == "True\n", "the rules themselves do not let /etc be listed"


APPEARING = """
import os, sys, threading
base, seen = sys.argv[1], set()
def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        seen.add(error.strerror)
def comes_and_goes():
    for _ in range(1000):
        attempt(os.mkdir, base)
        attempt(os.rename, base + "/below", sys.argv[1] + "-away")
        attempt(os.rmdir, sys.argv[1] + "-away")
        attempt(os.rmdir, base)
other = threading.Thread(target=comes_and_goes)
other.start()
while other.is_alive():
    attempt(os.mkdir, base + "/below")
    attempt(os.listdir, base)
other.join()
print(sorted(seen - {"No such file or directory", "File exists", "Directory not empty"}))
"""


def test_a_name_that_appears_during_a_call_is_absent_or_there(box):
    """`mkdir -p` in two threads: the one that finds no parent must not meet Landlock's refusal when the other makes it."""
    line = ["/usr/bin/python3", "-c", APPEARING, str(box.tree / "parent")]
    assert box.run(line, supervised=False).text == "[]\n"
    result = box.run(line, contested(box))
    assert result.text == "[]\n", result.describe()
    assert len(result.decisions(operation="create")) >= 100


# A call may give these while others change its names; the bare program shows that no other errno is among them.
OF_NAMES = {"0", "ENOENT", "EEXIST", "ENOTDIR", "EISDIR", "ELOOP", "ENOTEMPTY"}
OF_CALLS = {"rename": {"EINVAL"}, "exchange": {"EINVAL"}, "unlink": {"EPERM"}, "link": {"EPERM"}}


@pytest.mark.parametrize("rules", ["contested", "agent"])
def test_names_that_change_all_the_time_give_what_they_give_bare(box, rules):
    """Directories, files and links take each other's place. No call may meet another errno than one that the bare program met."""
    rounds = 60_000 if harness.SOAK else 3_000

    def unheard(result: harness.Result) -> dict[tuple[str, str], int]:
        assert result.code == 0, result.describe()
        counts = {(call, error): int(count) for call, error, count in map(str.split, result.text.splitlines())}
        assert sum(counts.values()) >= 4 * rounds and len({call for call, _ in counts}) == 18, result.describe()
        return {one: count for one, count in counts.items() if one[1] not in OF_NAMES | OF_CALLS.get(one[0], set())}

    bare, under = box.directory(box.tree / "bare"), box.directory(box.tree / "under")
    storm = [box.program("prog_name_storm")]
    assert not unheard(box.run([*storm, str(10 * rounds)], supervised=False, cwd=bare))
    chosen = {"rules": contested(box)} if rules == "contested" else {"options": ["-p", "agent", "-x", str(box.stage.bin)]}
    result = box.run([*storm, str(rounds)], cwd=under, **chosen)
    assert not unheard(result) and result.report["denials"] == [], result.describe()


EXECUTING = """
import os, threading
def calls(number):
    while True:
        for act in (os.mkdir, os.rmdir):
            try:
                act(f'made-{number}')
            except OSError:
                pass
for _ in range(100):
    child = os.fork()
    if child == 0:
        for number in range(3):
            threading.Thread(target=calls, args=[number], daemon=True).start()
        os.execv('/bin/true', ['true'])
    if os.waitpid(child, 0)[1] != 0:
        print('a child failed')
"""


@pytest.mark.parametrize("rules", ["contested", "agent"])
def test_an_execve_ends_calls_of_other_threads_without_a_denial(box, rules):
    """The kernel ends the other threads in the middle of their calls. Nothing was refused to them."""
    line = ["/usr/bin/python3", "-c", EXECUTING]
    bare = box.run(line, supervised=False)
    assert bare.code == 0 and bare.text == "", bare.describe()
    result = box.run(line, **({"rules": contested(box)} if rules == "contested" else {"options": ["-p", "agent"]}))
    assert result.code == 0 and result.text == "" and result.report["denials"] == [], result.describe()


BINDING = """
import errno, os, socket, threading
seen, done = set(), False
def binds():
    while not done:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind('server')
        os.unlink('server')
other = threading.Thread(target=binds)
other.start()
for _ in range(3000):
    with socket.socket(socket.AF_UNIX) as client:
        seen.add(client.connect_ex('server'))
done = True
other.join()
print(sorted(seen - {errno.ENOENT, errno.ECONNREFUSED}))
"""


def test_a_connect_during_a_bind_is_no_denial(box):
    """A socket has its name before bind returns. A connect in between is refused by the kernel, not as to a socket of others."""
    line = ["/usr/bin/python3", "-c", BINDING]
    assert box.run(line, supervised=False).text == "[]\n"
    sockets = {"id": "sockets", "allow": ["connect", "bind"], "unix": f"{box.tree}/**"}
    result = box.run(line, contested(box, sockets))
    assert result.text == "[]\n" and result.report["denials"] == [], result.describe()


REMOVED = """
import os
os.mkdir('gone')
os.chdir('gone')
os.rmdir('../gone')
for act in (lambda: os.listdir('.'), lambda: os.listdir('/proc/self/cwd'), lambda: os.close(os.open('.', os.O_RDONLY | os.O_DIRECTORY)),
            lambda: os.mkdir('new'), lambda: os.open('new', os.O_RDWR | os.O_CREAT), lambda: os.listdir('..') == []):
    try:
        print(act())
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("rules", ["contested", "default"])
def test_a_removed_directory_can_be_listed(box, rules):
    line = ["/usr/bin/python3", "-c", REMOVED]
    native = box.run(line, supervised=False)
    assert native.code == 0 and native.text.startswith("[]\n"), native.describe()
    result = box.run(line, contested(box) if rules == "contested" else None)
    assert result.text == native.text and result.report["denials"] == [], result.describe()


WITHOUT_FOLLOWING = """
import os, sys, threading
def attempt(act, *arguments):
    try:
        return act(*arguments)
    except OSError as error:
        return error.strerror
seen, done = set(), False
def goes():
    while not done:
        attempt(os.unlink, 'name')
other = threading.Thread(target=goes)
other.start()
for _ in range(1000):
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC):
        made = attempt(os.open, 'name', flags | os.O_CREAT | os.O_NOFOLLOW)
        seen.add(made if isinstance(made, str) else '')
        if not isinstance(made, str):
            os.close(made)
done = True
other.join()
print(sorted(seen))
os.mkfifo('fifo')
print(isinstance(attempt(os.open, 'fifo', os.O_RDWR | os.O_NONBLOCK | os.O_TRUNC | os.O_NOFOLLOW), int))
os.makedirs('closed/inner')
os.chdir('closed/inner')
open('file', 'w').close()
os.chmod('..', 0)
print(isinstance(attempt(os.open, 'file', os.O_RDWR | os.O_NOFOLLOW), int))
os.chmod('/proc/self/cwd/..', 0o755)
"""


@pytest.mark.parametrize("rules", ["contested", "agent"])
def test_opens_that_follow_no_link_give_what_they_give_bare(box, rules):
    """A name that goes meanwhile is made, a FIFO is not cut, and a directory above may be closed to the caller."""
    line = ["/usr/bin/python3", "-c", WITHOUT_FOLLOWING]
    assert box.run(line, supervised=False, cwd=box.directory(box.tree / "bare")).text == "['']\nTrue\nTrue\n"
    under = box.directory(box.tree / "under")
    chosen = {"rules": contested(box)} if rules == "contested" else {"options": ["-p", "agent"]}
    result = box.run(line, cwd=under, **chosen)
    assert result.text == "['']\nTrue\nTrue\n" and result.report["denials"] == [], result.describe()


WITHOUT_NAME = """
import os, subprocess, sys
def attempt(act, *arguments):
    try:
        return act(*arguments)
    except OSError as error:
        return error.strerror
def removed(flags):
    os.close(os.open('gone', os.O_RDWR | os.O_CREAT, 0o600))
    made = os.open('gone', flags)
    os.unlink('gone')
    return made
def opened(number, flags):
    return isinstance(attempt(os.open, f'/proc/self/fd/{number}', flags), int)
temporary = os.open('.', os.O_RDWR | os.O_TMPFILE, 0o600)
for one in (temporary, removed(os.O_RDWR), removed(os.O_WRONLY), removed(os.O_RDONLY), removed(os.O_PATH | os.O_RDWR)):
    print(attempt(os.fchmod, one, 0o640), oct(os.fstat(one).st_mode), attempt(os.fchown, one, -1, -1), attempt(os.utime, one, (5, 5)),
          os.fstat(one).st_mtime, attempt(os.setxattr, one, 'user.probe', b'x'), attempt(os.removexattr, one, 'user.probe'),
          opened(one, os.O_RDONLY), opened(one, os.O_WRONLY), opened(one, os.O_RDWR | os.O_TRUNC))
os.link(f'/proc/self/fd/{temporary}', 'named', src_dir_fd=temporary, follow_symlinks=True)
print(oct(os.stat('named').st_mode))
text = 'line of a document\\n' * 10000
script = 'cat /dev/stdin <<END\\n' + text + 'END\\n'
here = {'PATH': '/usr/bin:/bin', 'TMPDIR': os.getcwd()}
print(subprocess.run(['/bin/bash'], input=script, env=here, stdout=subprocess.PIPE, text=True).stdout == text)
for flags in (os.O_RDONLY, os.O_PATH):
    one = removed(flags)
    print([(attempt(os.chmod, f'/proc/self/fd/{one}', mode), oct(os.fstat(one).st_mode)) for mode in (0o400, 0o600, 0)])
"""
CLOSED = ["Permission denied 0o100600 Permission denied Permission denied", "Permission denied Permission denied"]


@pytest.mark.parametrize("rules", ["contested", "default"])
def test_a_file_without_a_name_is_open_to_who_has_it_open(box, rules):
    """A temporary file gets its mode before its name, and shells give here-documents as removed files. A descriptor gives no more than it
    has: one that only reads may be of somebody else's file."""
    line = ["/usr/bin/python3", "-c", WITHOUT_NAME]
    native = box.run(line, supervised=False, cwd=box.directory(box.tree / "bare"))
    result = box.run(line, contested(box) if rules == "contested" else None, cwd=box.directory(box.tree / "under"))
    bare, under = native.text.splitlines(), result.text.splitlines()
    assert native.code == 0 and len(bare) == 9 and bare[3].endswith("True True True") and bare[6] == "True", native.describe()
    assert under[:2] == bare[:2] and under[5:7] == bare[5:7], result.describe()
    assert under[2].endswith("None None False True False") and under[2].startswith("None 0o100640"), result.describe()
    assert under[3].startswith(CLOSED[0]) and under[3].endswith(f"{CLOSED[1]} True False False"), result.describe()
    assert under[4].endswith("False False False"), result.describe()
    assert under[7] == "[(None, '0o100400'), ('Permission denied', '0o100400'), (None, '0o100000')]", result.describe()
    assert under[8] == str([("Permission denied", "0o100600")] * 3), result.describe()
    assert not [one for one in result.decisions(verdict="deny") if one["process"]["executable"].endswith("/bash")], result.describe()


def make_socket_tree(tree) -> None:
    (tree / "dir").mkdir()
    (tree / "regular").write_text("no socket")
    for name, value in (("link", "sock-stream"), ("link-datagram", "sock-datagram"), ("dangling", "nowhere"), ("loop", "loop")):
        (tree / name).symlink_to(value)


@pytest.mark.parametrize("container", [False, True], ids=["", "in a container"])
def test_connect_and_bind_give_what_they_give_bare(box, container):
    """In a container callgate makes the sockets. What dissolves a connected stream is refused there (docs/containers.md)."""
    if container:
        box.contain("docker")
    both_kinds = ["tcp", "udp"]
    result = both(box, "prog_netprobe", make_socket_tree, b"", 150,
                  {"id": "net", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1"], "protocol": both_kinds},
                  {"id": "any", "allow": "bind", "address": ["0.0.0.0/0", "::/0"], "protocol": both_kinds},
                  {"id": "sockets", "allow": ["connect", "bind"], "unix": [f"{box.tree}/**", "@*"]},
                  {"id": "contest", "deny": ["connect", "bind"], "address": "127.99.99.99"}, without=b"unspec" if container or harness.CONTAINER == "docker" else None)
    assert len(result.decisions(operation="connect")) >= 20


def test_sends_give_what_they_give_bare(box):
    harness.not_in_container("some sends are denied where pidfd_getfd is refused (docs/containers.md)", engine="docker")
    both_kinds = ["tcp", "udp"]
    result = both(box, "prog_sendprobe", make_socket_tree, b"", 390,
                  {"id": "net", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1", "255.255.255.255"], "protocol": both_kinds},
                  {"id": "sockets", "allow": ["connect", "bind"], "unix": [f"{box.tree}/**", "@*"], "protocol": ["stream", "datagram"]},
                  {"id": "contest", "deny": ["connect", "bind"], "address": "127.99.99.99"})
    assert len(result.decisions(operation="connect", mechanism="on_behalf")) >= 100


def test_a_socket_of_each_listed_kind_can_be_made(box):
    """The filter must not take these away: streams, seqpacket, netlink route (name look-ups need it)."""
    script = ("import socket\n"
              "for f, t, p in [(2,1,0),(2,1,6),(10,1,0),(1,1,0),(1,5,0),(16,3,0)]:\n"
              "    socket.socket(f, t, p).close()\n"
              "print(len(socket.if_nameindex()) > 0)\n")
    bare = box.run(["/usr/bin/python3", "-c", script], supervised=False)
    under = box.run(["/usr/bin/python3", "-c", script], contested(box))
    assert bare.code == 0 and socket.if_nameindex()
    assert (under.code, under.out) == (bare.code, bare.out), under.describe()


# Names of two mounts: a rename and a link from one to the other, of what is there and of what is missing.
ACROSS = r"""
import errno, os, sys
def attempt(call, old, new):
    try:
        call(old, new)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
for old in ("other/file", "other/directory", "other/missing"):
    for new in ("here", "full", "absent/x"):
        print(old, new, attempt(os.rename, old, new), attempt(os.link, old, new))
print("back", attempt(os.rename, "file", "other/moved"), attempt(os.link, "file", "other/moved"))
print("layers", attempt(os.link, "layers/low", "layers/linked"), attempt(os.rename, "layers/low", "layers/moved"))
"""


@pytest.fixture
def mounts(box, request):
    """In the work directory `other`, a mount of its own kind, and `layers`, whose files have other device numbers than their directory."""
    if os.geteuid() != 0:
        pytest.skip("a file system is mounted by root")
    made = []

    def mount(*words: str) -> None:
        done = subprocess.run(["mount", *words], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no such mount here: {done.stderr}")
        made.append(words[-1])

    try:
        beside = box.directory(box.root / "beside")
        for name in ("other", "layers"):
            box.directory(box.tree / name)
        mount("-t", "tmpfs", "none", str(beside))
        for name in ("other", "low"):
            box.directory(beside / name)
        mount("--bind", str(beside / "other" if request.param == "tmpfs" else box.directory(box.root / "same")), str(box.tree / "other"))
        box.file(beside / "low/low", b"x")
        upper = box.directory(box.root / "upper")
        mount("-t", "tmpfs", "none", str(upper))
        for name in ("up", "work"):
            box.directory(upper / name)
        mount("-t", "overlay", "-o", f"lowerdir={beside}/low,upperdir={upper}/up,workdir={upper}/work,xino=off", "none", str(box.tree / "layers"))
        assert os.stat(box.tree / "layers").st_dev != os.stat(box.tree / "layers/low").st_dev
        yield
    finally:
        for place in reversed(made):
            subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("mounts", ["tmpfs", "bind"], indirect=True)
def test_names_of_two_mounts_answer_as_natively_and_are_no_denial(box, mounts):
    """Also where the rules would refuse such a move: what the kernel refuses to everybody is no matter of theirs. Device numbers do
    not tell one mount from another."""
    def prepare() -> None:
        for name in ("linked", "moved"):
            (box.tree / "layers" / name).unlink(missing_ok=True)
        for name in ("file", "full", "other/file", "layers/low"):
            if not (box.tree / name).exists():
                box.file(box.tree / name, b"x")
        (box.tree / "other/directory").mkdir(exist_ok=True)

    line = ["/usr/bin/python3", "-c", ACROSS]
    rules = contested(box, {"id": "fewer-rights", "deny": "execute", "path": f"{box.tree}/other/**"},
                      {"id": "more-rights", "allow": "execute", "path": f"{box.tree}/**"})
    prepare()
    bare = box.run(line, supervised=False)
    prepare()
    supervised = box.run(line, rules)
    assert bare.code == 0 and "layers done done" in bare.text and "other/missing here EXDEV ENOENT" in bare.text, bare.describe()
    assert supervised.text == bare.text, f"{bare.describe()}\n{supervised.describe()}"
    assert not supervised.decisions(verdict="deny"), supervised.describe()


PEERS = """
import ctypes, errno, fcntl, os
library = ctypes.CDLL(None, use_errno=True)
def name_of(terminal):
    number = ctypes.c_uint()
    library.ioctl(terminal, ctypes.c_ulong(0x80045430), ctypes.byref(number))
    return f"/dev/pts/{number.value}"
def master():
    made = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    library.unlockpt(made)
    return made
def say(what, descriptor, flags, request=0x5441, opened=lambda fd: ""):
    fd = library.ioctl(descriptor, ctypes.c_ulong(request), ctypes.c_ulong(flags))
    if fd < 0:
        print(what, hex(flags), errno.errorcode[ctypes.get_errno()])
        return
    same = os.readlink(f"/proc/self/fd/{fd}") == name_of(descriptor)
    status = os.fstat(fd)
    kept = fcntl.fcntl(fd, fcntl.F_GETFL) & ~(0 if flags & os.O_PATH else os.O_CLOEXEC | 0o100000)  # docs/differences.md
    print(what, hex(flags), fcntl.fcntl(fd, fcntl.F_GETFD), oct(kept), oct(status.st_mode), same, opened(fd))
    os.close(fd)
def talks(terminal):
    def both_ways(fd):
        os.write(fd, b"shown\\n")
        shown = b""
        while not shown.endswith(b"\\r\\n"):
            shown += os.read(terminal, 100)
        os.write(terminal, b"typed\\n")  # its echo is left unread
        return shown, os.read(fd, 100)
    return both_ways
terminal = master()
for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CLOEXEC, os.O_RDWR | os.O_NONBLOCK, os.O_RDWR | os.O_APPEND, os.O_PATH,
              os.O_PATH | os.O_CLOEXEC, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_DIRECT):
    say("master", terminal, flags | os.O_NOCTTY)
say("talks", terminal, os.O_RDWR | os.O_NOCTTY, opened=talks(terminal))
say("high word", terminal, os.O_RDWR | os.O_NOCTTY, 0xdeadbeef00005441)
slave = os.open(name_of(terminal), os.O_RDWR | os.O_NOCTTY)
say("slave", slave, os.O_RDWR | os.O_NOCTTY)
say("master by O_PATH", os.open("/dev/ptmx", os.O_PATH), os.O_RDWR)
say("locked", os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY), os.O_RDWR | os.O_NOCTTY)
say("null", os.open("/dev/null", os.O_RDWR), os.O_RDWR)
say("file", os.open("/etc/passwd", os.O_RDONLY), os.O_RDWR)
say("pipe", os.pipe()[0], os.O_RDWR)
say("closed", 900, os.O_RDWR)
"""


@pytest.mark.parametrize("rules", ["contested", "agent"])
def test_a_terminal_opens_by_its_master_as_bare(box, rules):
    """TIOCGPTPEER, by which terminal programs open the other end. Where rules decide opens, Landlock alone would refuse it."""
    line = ["/usr/bin/python3", "-c", PEERS]
    bare = box.run(line, supervised=False)
    chosen = {"rules": contested(box)} if rules == "contested" else {"options": ["-p", "agent"]}
    supervised = box.run(line, **chosen)
    compare(bare, supervised, 19)
    assert "(b'shown\\r\\n', b'typed\\n')" in bare.text, bare.describe()
