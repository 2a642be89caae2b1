"""Runs that keep capabilities, and become other users: the same as bare, decided call by call or not.

Only root can do so. The rules contest every name of the tree, so that callgate makes each call on behalf.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from conftest import KINDS
from test_containers import ADDED, DOCKER, TRACES, contained

PYTHON = "/usr/bin/python3"
TABLE = Path(__file__).parent / "identitytable.py"
OF_USERS = "chown,dac_override,fowner,kill,setgid,setuid,net_bind_service,sys_chroot"  # --keep-capabilities=users
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
WAYS = {"all": ([], "--keep-capabilities"), "users": (["setpriv", "--inh-caps=-all", "--bounding-set", "-all," + ",".join(
    f"+{name}" for name in OF_USERS.split(","))], "--keep-capabilities=users")}


# Only root becomes another user.
ROOT = pytest.mark.parametrize("user", [kind for kind in KINDS if kind == "root"], indirect=True)


def everything(box: harness.Box, *more):
    """All is allowed, and everything is decided: a name that nothing uses is denied everywhere."""
    return harness.rule_set({"id": "never", "deny": ["read", "write", "execute", "metadata"], "path": "/**/.never*"},
                            {"id": "no-socket", "deny": ["connect", "bind"], "unix": "/**/.never*"},
                            {"id": "datagrams", "allow": ["connect", "bind"], "unix": "/**", "protocol": ["stream", "datagram"]},
                            *more, default="allow")


def same(box: harness.Box, line: list[str], way: str, switched_abi: int | None = None, prepare=lambda: None) -> harness.Result:
    """`line` in an empty tree, bare and supervised, with the same capabilities. The same must come out."""
    inside, option = WAYS[way]
    results = []
    for supervised in (False, True):
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        prepare()
        if supervised and switched_abi is not None:
            box.switch(abi=switched_abi)
        results.append(box.run([*([] if supervised else inside), *line], everything(box), supervised=supervised,
                               options=[option] if supervised else []))
    bare, under = results
    assert bare.code == 0, bare.describe()
    different = [(one, two) for one, two in zip(bare.text.splitlines(), under.text.splitlines()) if one != two]
    assert not different and under.text == bare.text and under.code == 0, (different[:20], under.describe())
    return under


@ROOT
@pytest.mark.parametrize(("way", "abi"), [("users", None), ("users", 1), *([("all", None)] if harness.SOAK else [])])
def test_calls_of_every_identity_answer_as_bare_and_leave_the_same(box, way, abi):
    amount = "all" if harness.SOAK else "few"
    under = same(box, [PYTHON, str(TABLE), str(box.tree), amount], way, abi)
    assert under.text.count("=done") > 100 and under.text.count("EACCES") > 100 and under.text.count("EPERM") > 50, under.describe()


ENDED = """
import os, signal
for n in range(400):
    child = os.fork()
    while child == 0:
        os.close(os.open("file", os.O_RDWR))
    for _ in range(50 * n): pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@ROOT
def test_who_ends_in_the_middle_of_a_call_was_denied_nothing(box):
    box.file(box.tree / "file")
    under = box.run([PYTHON, "-c", ENDED], everything(box), options=["--keep-capabilities"])
    assert under.code == 0 and under.decisions(verdict="allow") and not under.decisions(verdict="deny"), under.describe()


GROWN = """
import os, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9)); os.setresuid(65534, 65534, 65534)
try: os.truncate("file", 10)
except OSError as error: print(error.errno)
os.truncate("file", 9)
"""


@ROOT
def test_a_size_limit_holds_whoever_the_caller_is(box):
    def prepare():
        os.chmod(box.file(box.tree / "file", b""), 0o666)
    assert same(box, [PYTHON, "-c", GROWN], "users", prepare=prepare).text == "27\n"
    assert (box.tree / "file").stat().st_size == 9


MANY = """
import os, sys
name, times = sys.argv[1], int(sys.argv[2])
def open_often():
    for _ in range(times): os.close(os.open(name, os.O_RDONLY))
os.seteuid(65534); open_often()
os.seteuid(0); open_often()
"""


@ROOT
def test_a_log_of_several_segments_goes_on_whoever_the_caller_is(box):
    """The second segment is due while another user calls, who could not make it."""
    result = box.run([PYTHON, "-S", "-c", MANY, str(box.deep_file()), "9000"], everything(box), options=["--keep-capabilities=users"], audit=False)
    assert result.code == 0 and "could not be" not in result.errors, result.describe()
    first = Path(result.report["audit"]["file"])
    second = first.with_name(first.name.replace(".jsonl", ".2.jsonl"))
    assert first.stat().st_size > 64 << 20 and (second.stat().st_uid, second.stat().st_mode & 0o777) == (0, 0o600), result.describe()
    whole = box.run([box.callgate, "audit", "verify", "--head", result.report["audit"]["head"], str(first)], supervised=False)
    assert whole.code == 0 and f"{result.report['audit']['records']} records" in whole.text, whole.describe()


@ROOT
def test_another_user_has_the_temporary_directory_that_is_named_for_it(box):
    shared = box.directory(box.root / "shared")
    shared.chmod(0o1777)
    line = [*NOBODY, "mktemp"]
    without = box.run(line, options=["--keep-capabilities=users"])
    assert without.code != 0 and "Permission denied" in without.errors, without.describe()
    named = box.run(line, options=["--keep-capabilities=users", "--write", str(shared), "--env", f"TMPDIR={shared}"])
    assert named.code == 0 and named.text.startswith(f"{shared}/") and not named.report["denials"], named.describe()


SOCKETS = """
import os, socket, struct, sys
def seen(one):
    pid, user, group = struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    raw = one.getsockopt(socket.SOL_SOCKET, 59, 64)  # SO_PEERGROUPS
    return user, group, struct.unpack(f"{len(raw) // 4}I", raw)
os.umask(0)
outer = socket.socket(socket.AF_UNIX); outer.bind("server"); outer.listen(9)
for name, change in (("real", lambda: (os.setresgid(7, 0, 8), os.setresuid(65534, 0, 65533))),
                     ("effective", lambda: (os.setresgid(0, 0, 0), os.setresuid(0, 0, 0), os.seteuid(65534))), ("saved", lambda: (os.seteuid(0), os.setgroups([7, 20]), os.setresgid(5, 6, 7),
                     os.setresuid(65534, 65533, 65532)))):
    change()
    client = socket.socket(socket.AF_UNIX); client.connect("server")
    server, _ = outer.accept()
    one = os.lstat("server")
    print(name, seen(server), one.st_uid)
    mine = socket.socket(socket.AF_UNIX); mine.bind(f"mine-{name}"); mine.listen(1)
    back = socket.socket(socket.AF_UNIX); back.connect(f"mine-{name}")
    print(seen(back), os.lstat(f"mine-{name}").st_uid, os.lstat(f"mine-{name}").st_gid)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); receiver.bind(f"datagrams-{name}")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for ids in (None, (0, 0), (65534, 5), (65533, 6), (65532, 7), (65531, 5)):
        sent = [] if ids is None else [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), *ids))]
        try:
            sender.sendmsg([b"x"], sent, 0, f"datagrams-{name}")
            print(ids, struct.unpack("3i", receiver.recvmsg(1, 100)[1][0][2])[1:])
        except OSError as error:
            print(ids, error.strerror)
"""


@ROOT
def test_peers_see_the_callers_ids(box):
    """SO_PEERCRED, SO_PEERGROUPS and SCM_CREDENTIALS: what getpeereid, D-Bus and PostgreSQL's `peer` go by."""
    under = same(box, [PYTHON, "-c", SOCKETS], "all", prepare=lambda: box.tree.chmod(0o777))
    assert "real (0, 0" in under.text and "None (65534, 7)" in under.text, under.describe()
    assert "saved (65533, 6, (7, 20))" in under.text and "(0, 0) Operation not permitted" in under.text, under.describe()


FORGED = """
import os, socket, struct
def say(*ids):
    receiver, sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(f"to-{ids}")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    try:
        sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), *ids))], 0, f"to-{ids}")
        print(ids, struct.unpack("3i", receiver.recvmsg(1, 100)[1][0][2])[1:])
    except OSError as error:
        print(ids, error.strerror)
os.setresgid(7, 0, 8)  # what callgate itself is, but for the real group
for ids in ((0, 7), (0, 9), (65534, 0)):
    say(*ids)
"""


@ROOT
def test_no_other_user_is_named_without_the_capability_for_it(box):
    """callgate has CAP_SETUID for taking identities, and the program has not."""
    only = ["setpriv", "--inh-caps=-all", "--bounding-set", "-all,+setgid"]
    bare = box.run([*only, PYTHON, "-c", FORGED], supervised=False)
    for name in box.tree.iterdir():
        name.unlink()
    under = box.run([PYTHON, "-c", FORGED], everything(box), options=["--keep-capabilities=setgid"])
    assert under.text == bare.text and "(65534, 0) Operation not permitted" in under.text, (bare.describe(), under.describe())
    assert "(0, 9) (0, 9)" in under.text, under.describe()


GROUPS = """
import os, signal, sys
os.setgroups(range(1_000_000_000, 1_000_000_000 + int(sys.argv[1])))
open("made", "w").close()
os.mkfifo("fifo")
def alarmed(*_): raise InterruptedError
signal.signal(signal.SIGALRM, alarmed)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    open("fifo")
except InterruptedError:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("interrupted", os.stat("made").st_uid)
"""


@ROOT
@pytest.mark.parametrize("count", [500, 5000])
def test_a_caller_may_have_many_groups(box, count):
    """The kernel lists them before the signals that interrupt a call, and before what it is capable of."""
    assert same(box, [PYTHON, "-c", GROUPS, str(count)], "users").text == "interrupted 0\n"


BACK_AND_FORTH = """
import os
user = os.getuid()
os.setresuid(0, 0, 0)
with open("roots", "w") as out: out.write("text")
os.setresuid(user, user, user)
with open("own", "w") as out: out.write("text")
print(os.stat("roots").st_uid, os.stat("own").st_uid == user)
os.unlink("roots")
"""


@pytest.mark.parametrize("user", [kind for kind in KINDS if kind == "user"], indirect=True)
def test_a_thread_of_an_ordinary_user_comes_back_from_root(box):
    """The kernel takes the capabilities of a thread that leaves user 0 with all its ids."""
    if os.geteuid() != 0:
        pytest.skip("only root starts an ordinary user with capabilities")
    capabilities = "+setuid,+setgid,+sys_ptrace,+dac_read_search"
    within = ["setpriv", "--reuid", str(box.user.uid), "--regid", str(box.user.gid), "--clear-groups", "--inh-caps", capabilities,
              "--ambient-caps", capabilities]
    box.tree.chmod(0o777)
    bare = [PYTHON, "-c", BACK_AND_FORTH]
    held, _ = box.command(bare, everything(box), ["--keep-capabilities=setuid,setgid"])
    for line in (bare, held):
        done = subprocess.run([*within, *line], cwd=box.tree, env=box.environment(), capture_output=True, timeout=harness.DEADLINE, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"0 True\n", b""), line
        os.unlink(box.tree / "own")


WAITING = """
import ctypes, os, sys, threading
said = []
def read():
    try:
        said.append(open("pipe").read())
    except OSError as error:
        said.append(error.strerror)
one = threading.Thread(target=read)
one.start()
print("begun", flush=True)
input()
if sys.argv[1] == "all":
    os.setuid(65534)  # the C library interrupts the other thread, which changes itself
else:
    ctypes.CDLL(None).syscall(105, 65534)  # this thread alone
print("changed", flush=True)
one.join()
print(said[0])
"""


@ROOT
@pytest.mark.parametrize("change", ["all", "one"])
def test_a_caller_that_waits_is_answered_under_the_identity_that_it_has_then(box, change):
    """Threads of one process have their own ids. A call that waits while its thread changes comes anew, under the new ones."""
    pipe = box.tree / "pipe"
    os.mkfifo(pipe, 0o600)
    line, _ = box.command([PYTHON, "-c", WAITING, change], everything(box), ["--keep-capabilities"])
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.read_until(process.stdout.fileno(), b"begun\n")
    harness.until(lambda: acting_threads(process.pid, 0) > 0, "a thread that opens the FIFO")
    process.stdin.write(b"\n")
    process.stdin.flush()
    said = harness.read_until(process.stdout.fileno(), b"changed\n")  # and maybe more
    if change == "one":
        with open(pipe, "wb") as out:
            out.write(b"content")
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (said + out).decode().split("\n")[1] == ("content" if change == "one" else "Permission denied"), (out, err)


def acting_threads(process: int, user: int) -> int:
    """How many threads of callgate wait for a FIFO to be opened as `user`."""
    found = 0
    for one in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):
            ids = next(line.split() for line in (one / "status").read_text().splitlines() if line.startswith("Uid:"))
            found += int(ids[2]) == user and (one / "wchan").read_text() in ("wait_for_partner", "fifo_open")
    return found


@ROOT
@pytest.mark.parametrize("option", ["--keep-capabilities", "--keep-capabilities=setuid,setgid"])
@pytest.mark.parametrize("struck", ["callgate", "guardian"])
def test_a_tree_of_other_users_ends_with_callgate(box, option, struck):
    script = f"{' '.join(NOBODY)} sh -c 'setsid sleep 9999 & echo $! $$; kill -STOP $!; exec sleep 9999'"
    line, _ = box.command(["sh", "-c", script], everything(box), [option])
    process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pids = [int(one) for one in harness.read_until(process.stdout.fileno(), b"\n").split()]
    assert all(Path(f"/proc/{pid}").stat().st_uid == 65534 for pid in pids)
    os.kill(process.pid if struck == "callgate" else harness.children(process.pid)[0], signal.SIGKILL)
    harness.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "their end")


LEFT = """
import ctypes, os, socket
libc = ctypes.CDLL(None)
print(libc.shmget(0x77, 4096, 0o1600))
os.setgid(65534); os.setuid(65534)
print(libc.shmget(0x78, 4096, 0o1600))
"""


@ROOT
@pytest.mark.parametrize("option", ["--keep-capabilities", "--keep-capabilities=setuid,setgid,dac_override"])
def test_what_other_users_leave_is_removed(box, option):
    """In the run's private directory, and as an object of the kernel."""
    script = f'chmod 711 $TMPDIR; mkdir $TMPDIR/d; chmod 777 $TMPDIR/d; {" ".join(NOBODY)} mkdir -m 700 $TMPDIR/d/e; ' \
             f'{" ".join(NOBODY)} touch $TMPDIR/d/e/f; echo $TMPDIR; {PYTHON} -c "$0"'
    result = box.run(["sh", "-c", script, LEFT], everything(box), options=[option])
    place, *objects = result.text.split()
    assert result.code == 0 and len(objects) == 2 and all(int(one) >= 0 for one in objects), result.describe()
    assert not os.path.exists(place), result.describe()
    assert not any(line.split()[1] in objects for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])


@ROOT
@pytest.mark.parametrize(("value", "held"), [
    ("setuid,cap_setgid", {6, 7}), ("users", {0, 1, 3, 5, 6, 7, 10, 18})])
def test_only_what_is_named_is_kept(box, value, held):
    result = box.run(["sh", "-c", "grep Cap /proc/self/status"], harness.rule_set(), options=[f"--keep-capabilities={value}"])
    sets = {line.split()[0]: int(line.split()[1], 16) for line in result.text.splitlines()}
    wanted = sum(1 << one for one in held)
    assert sets == {"CapInh:": 0, "CapPrm:": wanted, "CapEff:": wanted, "CapBnd:": wanted, "CapAmb:": 0}, result.describe()
    names = "setgid,setuid" if value != "users" else OF_USERS
    assert result.report["effective"]["degraded"] == [f"capabilities:{names}"], result.report


@pytest.mark.parametrize(("value", "said"), [
    ("setuidd", "unknown capability; did you mean setuid?"), ("nothing_like_it", "capabilities(7) lists them"),
    ("setuid,,kill", "unknown capability")])
def test_a_name_that_is_no_capability_is_an_error(box, value, said):
    result = box.run(["/bin/true"], harness.rule_set(), options=[f"--keep-capabilities={value}"])
    if said.startswith("unknown") and box.user.uid != 0 and value == "setuid,,kill":
        said = "does not hold"
    assert result.code == 125 and said in result.errors and "--keep-capabilities=" in result.errors, result.describe()


@pytest.mark.parametrize("user", ["user"], indirect=True)
def test_who_holds_no_capability_can_keep_none(box):
    for value, said in (("chown", "does not hold this capability"), ("users", "holds none of these capabilities")):
        result = box.run(["/bin/true"], harness.rule_set(), options=[f"--keep-capabilities={value}"])
        assert result.code == 125 and said in result.errors, result.describe()


SU = "su -s /bin/sh nobody -c 'id -u; touch by-su; stat -c %u by-su'; runuser -u nobody -- id -g; chown nobody c && stat -c %u c"
APT = """
set -e
mkdir -p made/DEBIAN made/usr/share/made repo state/lists/partial cache/archives/partial root/var/lib/dpkg/info root/var/lib/dpkg/updates log etc
chmod 755 . repo made/DEBIAN
echo hello > made/usr/share/made/hello
printf 'Package: made\\nVersion: 1\\nArchitecture: all\\nMaintainer: t <t@localhost>\\nDescription: test\\n' > made/DEBIAN/control
dpkg-deb --root-owner-group -b made repo/made_1_all.deb
(cat made/DEBIAN/control; cd repo; printf 'Filename: ./made_1_all.deb\\nSize: %s\\nSHA256: %s\\n\\n' $(stat -c %s *.deb) $(sha256sum *.deb | cut -d' ' -f1)) > repo/Packages
touch root/var/lib/dpkg/status root/var/lib/dpkg/available
echo "deb [trusted=yes] copy:$PWD/repo ./" > etc/sources.list
printf 'Dir::State "%s"; Dir::State::status "%s"; Dir::Cache "%s"; Dir::Etc::sourcelist "%s"; Dir::Etc::sourceparts "-"; Dir::Log "%s";' \\
    $PWD/state $PWD/root/var/lib/dpkg/status $PWD/cache $PWD/etc/sources.list $PWD/log > etc/apt.conf
printf 'DPkg::Options { "--root=%s"; "--log=%s"; }; Dir::Etc::parts "-"; APT::Sandbox::Verify "1"; DPkg::Use-Pty "0";' $PWD/root $PWD/log/dpkg.log >> etc/apt.conf
export APT_CONFIG=$PWD/etc/apt.conf DEBIAN_FRONTEND=noninteractive
apt-get -qq update
stat -c %U state/lists/partial
apt-get -qq install -y made
cat root/usr/share/made/hello
"""
POSTGRESQL = f"""
set -e
PATH=$PATH:$(dirname "$(readlink -f "$(command -v initdb)")")
as="{' '.join(NOBODY)}"
mkdir run; chown 65534 . run
$as initdb --no-sync -D data -U nobody -A peer > made.log
$as pg_ctl -D data -l log -o "-k $PWD/run -c listen_addresses='' -c fsync=off -c shared_buffers=1MB -c max_connections=5" -w start > made.log
$as psql -h $PWD/run -U nobody postgres -Atc 'create table t(a int); insert into t values(7); select a from t'
psql -h $PWD/run -U nobody postgres -Atc 'select 1' 2>&1 | grep -o 'Peer authentication failed'
$as pg_ctl -D data -m immediate stop > made.log
stat -c '%u %a' data data/PG_VERSION
"""
NGINX = """
set -e
chmod 711 .
printf 'user nobody nogroup; worker_processes 2; pid %s/pid; error_log %s/error; events {} ' "$PWD" "$PWD" > conf
printf 'http { access_log %s/access; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;' "$PWD" >> conf
printf 'server { listen unix:%s/socket; root %s; } }' "$PWD" "$PWD" >> conf
echo page > page; chmod 644 page; echo secret > secret; chmod 600 secret
nginx -p "$PWD" -c "$PWD/conf"
curl -s --unix-socket socket http://localhost/page
curl -s -o /dev/null -w '%{http_code}\\n' --unix-socket socket http://localhost/secret
ps -o user= -p $(cat /proc/$(cat pid)/task/*/children)
stat -c '%U %a' access
nginx -p "$PWD" -c "$PWD/conf" -s stop
"""
PROGRAMS = {"su": (SU, ["su", "runuser"]), "apt": (APT, ["apt-get", "dpkg-deb"]), "PostgreSQL": (POSTGRESQL, ["initdb", "psql"]),
            "nginx": (NGINX, ["nginx", "curl"])}


@ROOT
def test_in_a_container_that_may_not_trace_it_is_said_what_was_not_taken(box):
    """A process that became another user and executed nothing since is not dumpable: only CAP_SYS_PTRACE reads it."""
    box.file(box.tree / "c")
    result = contained(box, DOCKER, [PYTHON, "-c", "import os; os.setuid(65534); print(open('c').read())"], everything(box),
                       ["--keep-capabilities=users"])
    (denied,) = result.report["denials"]
    assert result.code != 0 and "it is not dumpable" in denied["reason"] and "--cap-add SYS_PTRACE" in denied["reason"], result.describe()


# A long run tries all. A plain one tries the two that are quick.
@ROOT
@pytest.mark.parametrize("place", ["outside", "container"])
@pytest.mark.parametrize("program", [name for name in PROGRAMS if harness.SOAK or name in ("su", "apt")])
def test_programs_that_become_other_users_work_as_bare(box, program, place):
    script, needed = PROGRAMS[program]
    absent = [one for one in needed if shutil.which(one, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin") is None]
    if absent:
        pytest.skip(f"{', '.join(absent)}: not installed")
    if place == "outside":
        box.file(box.tree / "c")
        under = same(box, ["sh", "-c", script], "users", prepare=lambda: box.file(box.tree / "c"))
        assert not under.report["denials"], under.describe()
        return
    box.file(box.tree / "c")
    under = contained(box, f"{DOCKER},{ADDED},{TRACES}", ["sh", "-c", script], everything(box), ["--keep-capabilities=users"])
    assert under.code == 0 and not under.report["denials"], under.describe()
