"""`callgate agent`: real containers of runc and crun, whose calls are decided from outside.

A container is a bundle that the runtime itself starts: no engine, no image. All of it is in a room of its own, which ends
with the test session. The room has namespaces and a plain control group version 2, as the runtimes want it. Only root can make one.
"""
from __future__ import annotations

import array
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

import approvers
import changetable
import harness
import opentable
from test_equality import make_socket_tree

RUNTIMES = [one for one in ("runc", "crun") if shutil.which(one)]
BUSYBOX = shutil.which("busybox")
WHY_NOT = ("only root can make containers" if os.geteuid() != 0 else "callgate cannot enter containers of an engine's container"
           if harness.CONTAINER else "neither runc nor crun is installed" if not RUNTIMES else "busybox is not installed" if not BUSYBOX else "")
EACH = pytest.mark.parametrize("runtime", RUNTIMES or ["runc"])

ALL = {"id": "all", "allow": ["read", "execute"], "path": "/**"}
WRITES = {"id": "work", "allow": ["modify", "create", "delete", "metadata"], "path": ["/work/**", "/dev/null"]}
SECRET = {"id": "secret", "deny": ["read", "modify", "metadata", "delete"], "path": "/data/secret", "errno": "ENOENT"}
CONNECTS = {"id": "port", "allow": ["connect", "bind"], "address": "127.0.0.1", "port": 7000}
WEB = {"version": 1, "default": "deny", "rules": [ALL, WRITES, SECRET, CONNECTS]}


@pytest.fixture(scope="module")
def room() -> Iterator[list[str]]:
    """The words that run a command in the room."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    script = ("umount --lazy --recursive /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tmpfs tmpfs /run &&"
              " ip link set lo up && echo ready && cat; :")  # the shell takes what a runtime leaves, and ends with this process
    outside = subprocess.Popen(["unshare", "--net", "--mount", "--cgroup", "--pid", "--fork", "--kill-child", "--mount-proc",
                                "--propagation", "private", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if outside.stdout.readline() != b"ready\n":
        why = outside.stderr.read().decode().strip().splitlines()
        outside.wait()
        pytest.skip(f"no room for containers can be made here: {why[-1] if why else 'it ended'}")
    within = harness.children(outside.pid)[0]
    yield ["nsenter", "--target", str(within), "--mount", "--pid", "--cgroup", "--net", "--"]
    outside.kill()
    outside.wait()


class Agent:
    """A box's agent in the room, with rule sets and a root for containers."""

    def __init__(self, box: harness.Box, room: list[str], *options: str, **rules: dict[str, Any]) -> None:
        self.box, self.room, self.options, self.numbers = box, room, options, 0
        self.rules, self.logs, self.socket = box.root / "rules", box.root / "logs", box.root / "agent.sock"
        box.root.chmod(0o755)
        self.rules.mkdir()
        for name, one in rules.items():
            (self.rules / f"{name}.json").write_text(json.dumps(one))
        self.top = box.root / "container"
        self.make_root()
        self.begin()

    def begin(self) -> None:
        self.said = ""
        self.process = subprocess.Popen([*self.room, *self.words()], stderr=subprocess.PIPE, env=self.box.environment(approvers.runtime(self.box)), text=True)
        self.box.running.append(self.process)  # type: ignore[arg-type]
        threading.Thread(target=self.listen, daemon=True).start()
        self.await_line("the agent listens on")

    def words(self, *more: str) -> list[str]:
        return [str(self.box.callgate), "agent", "--listen", str(self.socket), "--rules-dir", str(self.rules), "--logs", str(self.logs), *self.options, *more]

    def listen(self) -> None:
        for line in self.process.stderr:  # type: ignore[union-attr]
            self.said += line

    def await_line(self, text: str) -> None:
        harness.until(lambda: text in self.said, f"the agent says {text!r}, and not {self.said!r}")

    def make_root(self) -> None:
        root = self.top / "rootfs"
        for name in ("bin", "proc", "dev", "tmp", "data", "work", "etc"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        (root / "work").chmod(0o777)
        shutil.copy(BUSYBOX, root / "bin/busybox")  # type: ignore[arg-type]
        for word in subprocess.run(["ldd", BUSYBOX], capture_output=True, text=True, check=False).stdout.split():  # type: ignore[list-item]
            if word.startswith("/"):
                (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, root / word[1:])
        for name in ("sh", "cat", "echo", "ln", "ls", "mv", "rm", "nc", "chmod", "sleep", "readlink", "mknod", "kill", "touch"):
            (root / "bin" / name).symlink_to("busybox")
        (root / "data/secret").write_text("the secret\n")
        (root / "data/open").write_text("open to all\n")
        (root / "data/private").write_text("of root\n")
        (root / "data/private").chmod(0o600)

    def profile(self, name: str) -> dict[str, Any]:
        done = subprocess.run(self.words("--seccomp-profile", name), capture_output=True, text=True, check=True, env=self.box.environment())
        return json.loads(done.stdout)

    def bundle(self, script: str, rules: str | None, *, profile: dict[str, Any] | None, user: int = 0, mapped: bool = False,
               capabilities: tuple[str, ...] = ("CAP_DAC_OVERRIDE", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"), share: tuple[str, ...] = (),
               mounted: str = "", beside: int = 0) -> None:
        namespaces = [one for one in ("mount", "pid", "ipc", "uts", "cgroup", *(["user"] if mapped else [])) if one not in share]
        linux: dict[str, Any] = {"namespaces": [{"type": one} for one in namespaces]}
        if beside:
            linux["namespaces"][namespaces.index("pid")]["path"] = f"/proc/{beside}/ns/pid"
        if mapped:
            linux["uidMappings"] = linux["gidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        if profile:
            linux["seccomp"] = profile
        config = {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": user, "gid": user}, "args": ["/bin/sh", "-c", script], "env": ["PATH=/bin"], "cwd": "/", "noNewPrivileges": True,
                        "capabilities": {one: list(capabilities) if user == 0 else [] for one in ("bounding", "effective", "permitted")}},
            "root": {"path": "rootfs"},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}],
            "annotations": {} if rules is None else {"callgate.rules": rules},
            "linux": linux,
        }
        if mounted:
            config["mounts"].append({"destination": "/outside", "type": "bind", "source": mounted, "options": ["rbind", "rw"]})
        (self.top / "config.json").write_text(json.dumps(config))

    def start(self, runtime: str, script: str, rules: str | None = "web", *, supervised: bool = True, profile: dict[str, Any] | None = None,
              **more: Any) -> subprocess.Popen[str]:
        self.bundle(script, rules, profile=(profile or self.profile("web")) if supervised else None, **more)
        self.numbers += 1
        name = f"callgate-{os.getpid()}-{self.box.root.name}-{self.numbers}"  # control groups are the whole machine's
        process = subprocess.Popen([*self.room, runtime, "--log", str(self.top / "log"), "run", "--bundle", str(self.top), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, bufsize=1)
        self.box.running.append(process)  # type: ignore[arg-type]
        return process

    def run(self, *args: Any, **more: Any) -> tuple[int, str]:
        """Its status, and what it printed: the output, then the errors."""
        process = self.start(*args, **more)
        said = "".join(process.communicate(timeout=harness.DEADLINE))
        return process.returncode, said

    def records(self) -> list[dict[str, Any]]:
        """The records of the log that was begun last, when its run is over."""
        def whole() -> list[dict[str, Any]] | None:
            logs = sorted(self.logs.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns)
            text = logs[-1].read_text() if logs else ""
            return [json.loads(line) for line in text.splitlines()] if text.endswith("\n") and '"run.end"' in text.splitlines()[-1] else None
        return harness.until(whole, "the log ends")

    def add(self, runtime: str, container: subprocess.Popen[str], script: str, *options: str) -> tuple[int, str]:
        """Another process of a container that runs: its status, and what it printed."""
        done = subprocess.run([*self.room, runtime, "--log", str(self.top / "log"), "exec", *options, container.args[-1], "/bin/sh", "-c", script],  # type: ignore[index]
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=harness.DEADLINE)
        return done.returncode, done.stdout + done.stderr

    def supervisors(self) -> list[int]:
        """Each has a process outside, which waits for it."""
        found = [self.process.pid]
        for _ in ("agents", "outside", "supervisors"):
            found = [one for parent in found for one in harness.children(parent)]
        return found


@pytest.fixture(params=["root"])
def administrator(stage, users, request) -> Iterator[harness.Box]:
    if request.param not in users:
        pytest.skip("only root can make containers")
    box = stage.box(users[request.param])
    yield box
    box.close()


@pytest.fixture
def made(administrator, room) -> Iterator[Any]:
    box = administrator
    yield lambda *options, **rules: Agent(box, room, *options, **(rules or {"web": WEB}))
    for process in box.running:  # nsenter waits for what it has started
        for one in harness.descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def denied(records: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["rule"]["name"], one["file"]["path"]) for one in records if one.get("callgate", {}).get("verdict") == "deny" and "file" in one}


RELEASE = tuple(int(one) for one in os.uname().release.split("-")[0].split(".")[:2])
TELLS = RELEASE >= (6, 15)  # how a process of others has ended


def ended(records: list[dict[str, Any]]) -> tuple[str, int | None, int | None]:
    """How the container ended, by the log. An older kernel is not expected to tell more than that it has."""
    end = records[-1]["callgate"]
    assert TELLS or (end["exit_code"], end["signal"]) == (None, None), end
    return end["outcome"], end["exit_code"] if TELLS else 0, end["signal"]


HELD = r"""
cat /data/open
echo made > /work/new && cat /work/new && mv /work/new /work/moved && chmod 600 /work/moved && rm /work/moved && echo changed
cat /proc/self/comm && readlink /proc/self/fd/0 > /dev/null && ls /proc/self/fd > /dev/null && echo itself
cat /data/secret
ln -s /data/secret /tmp/link
cat /proc/1/root/data/secret
cat /proc/self/cwd/data/secret
ln /data/secret /work/hard
cd /data && cat secret
echo more >> /data/open
echo rest
"""


@EACH
def test_rules_hold_and_are_on_record(made, runtime):
    agent = made()
    code, bare = agent.run(runtime, HELD, supervised=False)
    assert bare.count("the secret") == 4 and "rest" in bare, bare  # the control
    (agent.top / "rootfs/tmp/link").unlink()
    (agent.top / "rootfs/work/hard").unlink()
    (agent.top / "rootfs/data/open").write_text("open to all\n")
    code, said = agent.run(runtime, HELD)
    assert code == 0 and "the secret" not in said, said
    lines = said.splitlines()
    assert [one for one in ("open to all", "made", "changed", "cat", "itself", "rest") if one in lines] == ["open to all", "made", "changed", "cat", "itself", "rest"], said
    assert said.count("No such file or directory") >= 4 and "Permission denied" in said, said
    records = agent.records()
    assert {("secret", "/data/secret"), ("default", "/data/open"), ("default", "/tmp/link")} <= denied(records), denied(records)
    begun = next(one["callgate"] for one in records if one["event"]["action"] == "run.start")
    assert begun["command"][0] == "container" and begun["profiles"] == ["web"] and begun["landlock_abi"] == 0
    assert {"landlock", "guardian"} <= set(begun["degraded"])
    agent.await_line("denied")
    assert ended(records) == ("exited", 0, None)
    log = sorted(agent.logs.glob("*.jsonl"))[-1]
    checked = subprocess.run([str(agent.box.callgate), "audit", "verify", str(log)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked


SERVERS = """
import select, socket
servers = [socket.create_server(("127.0.0.1", port)) for port in (7000, 7001)]
print("ready", flush=True)
while True:
    for one in select.select(servers, [], [])[0]:
        client = one.accept()[0]
        client.sendall(b"hello of %d\\n" % one.getsockname()[1])
        client.close()
"""


@EACH
def test_connects_and_binds_are_decided(made, runtime, room):
    agent = made()
    servers = subprocess.Popen([*room, "/usr/bin/python3", "-c", SERVERS], stdout=subprocess.PIPE)
    agent.box.running.append(servers)
    assert servers.stdout.readline() == b"ready\n"
    script = "for port in 7000 7001; do nc 127.0.0.1 $port < /dev/null; done; (nc -l -p 7002 < /dev/null & sleep 0.2; kill $!) 2>&1"
    said = agent.run(runtime, script, supervised=False)[1]
    assert "hello of 7000" in said and "hello of 7001" in said and "denied" not in said, said  # the control
    code, said = agent.run(runtime, script)
    assert "hello of 7000" in said and "hello of 7001" not in said and "Permission denied" in said, said
    refused = {one["callgate"]["operation"] for one in agent.records() if one.get("callgate", {}).get("verdict") == "deny"}
    assert refused == {"connect", "bind"}, refused


def raced(made):
    """A container with attack_race, and two files of which its rules deny one."""
    agent = made(web={**WEB, "rules": [*WEB["rules"], {"id": "evil", "deny": "read", "path": "/evil/**"}]})
    root = agent.top / "rootfs"
    shutil.copy(agent.box.program("attack_race"), root / "bin/attack_race")
    for name, content in (("good", "allowed"), ("evil", "secret")):
        (root / name).mkdir()
        (root / name / "victim").write_text(content)
    return agent


def test_what_was_judged_is_what_is_opened(made):
    """A thread swaps the path while the call waits. Nothing but the supervisor holds it here."""
    agent = raced(made)

    def race(wins: int, **more: Any) -> dict[str, int]:
        said = agent.run(RUNTIMES[0], f"attack_race openat thread /good /evil /work 5000 200 {wins}", **more)[1]
        words = said[said.rindex("WON"):].split()
        return {word: int(number) for word, number in zip(words[::2], words[1::2])}

    assert race(1, supervised=False)["WON"] > 0  # the control

    def met() -> bool:
        """The thread has put its path there while the call was judged, which a busy machine may not let it do."""
        held = race(0)
        assert held["WON"] == 0 and held["TWIN"] > 0, held
        return ("evil", "/evil/victim") in denied(agent.records())
    harness.until(met, "a swap is met by the judgement")


RUNS = {"version": 1, "default": "deny", "rules": [
    {"id": "reads", "allow": "read", "path": "/**"}, {"id": "programs", "allow": "execute", "path": ["/bin/**", "/good/**"]}, WRITES]}


@EACH
def test_execution_is_decided(made, runtime):
    agent = made(web=RUNS)
    root = agent.top / "rootfs"
    (root / "opt").mkdir()
    shutil.copy(root / "bin/busybox", root / "opt/echo")
    (root / "opt/script").write_text("#!/bin/sh\nexec echo of a script\n")
    (root / "bin/script").write_text("#!/opt/echo\n")
    for script in ("opt/script", "bin/script"):
        (root / script).chmod(0o755)
    script = "echo began; /opt/echo outside; /opt/script; sh /opt/script; /bin/script; cat /data/open; exec echo ended"
    bare = agent.run(runtime, script, supervised=False)[1]
    assert "of a script\nof a script\n" in bare and "denied" not in bare, bare  # the control
    code, said = agent.run(runtime, script)
    assert code == 0 and {"began", "open to all", "ended"} <= set(said.splitlines()), said
    assert said.count("Operation not permitted") == 3 and said.count("of a script") == 1, said
    assert {("default", "/opt/echo"), ("default", "/opt/script")} <= denied(agent.records())
    code, said = agent.run(runtime, "exec /opt/echo outside")
    assert code != 0 and "outside" not in said, said


def test_the_first_program_is_decided_too(made):
    agent = made(web={**RUNS, "rules": [RUNS["rules"][0], {"id": "programs", "allow": "execute", "path": "/opt/**"}]})
    code, said = agent.run(RUNTIMES[-1], "cat /data/open")
    assert code != 0 and "open to all" not in said, said
    assert ("default", "/bin/busybox") in denied(agent.records())


def test_what_was_judged_is_what_runs(made):
    """A thread swaps the path while the call waits: what then runs is held at its start."""
    agent = made(web=RUNS)
    root = agent.top / "rootfs"
    sources = {"bin/attack_race": agent.box.program("attack_race"), "good/victim": "/usr/bin/true", "evil/victim": agent.box.program("prog_exit42")}
    for name, source in sources.items():
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, root / name)

    def race(wins: int, **more: Any) -> dict[str, int]:
        said = agent.run(RUNTIMES[0], f"attack_race exec thread /good /evil /work 5000 100 {wins}", **more)[1]
        words = said[said.rindex("WON"):].split()
        return {word: int(number) for word, number in zip(words[::2], words[1::2])}

    assert race(1, supervised=False)["WON"] > 0  # the control
    held = race(0)
    assert held["WON"] == 0 and held["TWIN"] > 0, held


def a_disk() -> int:
    """The number of one of this machine's block devices."""
    major, minor = next(iter(Path("/sys/block").glob("*/dev"))).read_text().split(":")
    return os.makedev(int(major), int(minor))


@EACH
def test_devices_are_those_of_the_container(made, runtime):
    """An image can hold any device. Its control group has none of them, and the supervisor is in another one."""
    agent = made()
    for name, kind, number in (("disk", stat.S_IFBLK, a_disk()), ("zero", stat.S_IFCHR, os.makedev(1, 5))):
        os.mknod(agent.top / "rootfs/data" / name, kind | 0o666, number)
        (agent.top / "rootfs/data" / name).chmod(0o666)
    script = "busybox head -c 1 /data/zero | busybox wc -c; (: < /data/disk) && echo opened the disk; echo rest"
    for supervised in (False, True) if runtime == "runc" else (True,):  # crun lists devices only for a bundle that lists some
        said = agent.run(runtime, script, supervised=supervised)[1].splitlines()
        assert {"1", "rest"} <= set(said) and "opened the disk" not in said and any("not permitted" in one for one in said), said


@EACH
def test_a_setting_of_another_pid_namespace_is_not_written(made, runtime, room):
    """The kernel gives whoever opens it the setting of its own namespace, and the supervisor is in the agent's."""
    if RELEASE < (6, 14):
        pytest.skip("this kernel has one pid_max for all PID namespaces")
    settings = {"id": "settings", "allow": "modify", "path": ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/msgmax"]}
    agent = made(web={**WEB, "rules": [*WEB["rules"], settings]})

    def outside() -> list[str]:
        return subprocess.run([*room, "cat", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/msgmax"], capture_output=True, text=True, check=True).stdout.split()
    script = "cd /proc/sys/kernel; for one in pid_max msgmax; do echo 12345 > $one && cat $one; done"
    before = outside()
    assert agent.run(runtime, script, supervised=False)[1].split() == ["12345", "12345"] and outside() == before  # the control
    said = agent.run(runtime, script)[1]
    assert said.splitlines().count("12345") == 1 and "can't create pid_max: Operation not permitted" in said, said  # msgmax is the twin
    assert outside() == before


SOCKETS = {**WEB, "rules": [*WEB["rules"], {"id": "sockets", "allow": ["connect", "bind"], "unix": "/work/**"}]}


@pytest.mark.parametrize("name", ["relative", "/work/absolute", "/tmp/none"])
def test_a_call_after_a_bound_socket_is_read_as_before(made, name):
    """The supervisor reads callers in a procfs that is its threads' working directory. Binding changes that for a while."""
    agent = made(web=SOCKETS)
    shutil.copy(agent.box.program("prog_bound"), agent.top / "rootfs/bin/prog_bound")
    allowed = not name.startswith("/tmp")
    script = f"cd /work; prog_bound {name} /data/open; cat /data/open /data/secret"
    said = agent.run(RUNTIMES[0], script, user=1000)[1]
    assert said.count("open to all") == 1 + allowed and "the secret" not in said and (f"bound {name}" in said) == allowed, (said, agent.said)


def test_the_supervisor_is_no_peer_whose_descriptors_can_be_taken(made):
    """A server in the container has a pidfd of whoever connects to it, on behalf of another process too."""
    agent = made(web=SOCKETS)
    shutil.copy(agent.box.program("prog_peer"), agent.top / "rootfs/bin/prog_peer")
    capable = {"capabilities": ("CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE")}
    said = agent.run(RUNTIMES[0], "prog_peer /work/peer", supervised=False, **capable)[1]
    if "SO_PEERPIDFD" in said:
        pytest.skip("this kernel gives no pidfd of a peer")
    assert "socket:" in said and "taken 0" not in said, said  # the control: a process of its own
    (agent.top / "rootfs/work/peer").unlink()
    said = agent.run(RUNTIMES[0], "prog_peer /work/peer", **capable)[1]
    assert "taken 0" in said, said


def test_a_user_namespace_has_no_rules_on_execution(made):
    agent = made(web=RUNS)
    subprocess.run(["chown", "-R", "100000:100000", str(agent.top / "rootfs")], check=True)
    code, said = agent.run(RUNTIMES[0], "cat /data/open", mapped=True)
    assert code != 0 and "open to all" not in said, said
    agent.await_line("it has a user namespace")


@EACH
def test_acts_have_no_more_than_the_caller(made, runtime):
    """The rules allow the file, and its mode does not."""
    agent = made()
    script = "cat /data/private; echo x > /work/mine && echo wrote; busybox stat -c %u /work/mine"
    assert "of root" in agent.run(runtime, script)[1]  # root may
    (agent.top / "rootfs/work/mine").unlink()
    code, said = agent.run(runtime, script, user=1000)
    assert "of root" not in said and "Permission denied" in said and {"wrote", "1000"} <= set(said.splitlines()), said


SENDS = {**WEB, "rules": [*WEB["rules"], {"id": "streams", "allow": ["connect", "bind"], "unix": ["/work/**", "@**"]},
                          {"id": "datagrams", "allow": ["connect", "bind"], "unix": ["/work/**", "@**"], "protocol": "datagram"},
                          {"id": "loopback", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1"], "protocol": ["tcp", "udp"]}]}


@pytest.mark.parametrize("probe", ["prog_openprobe", "prog_changeprobe", "prog_sendprobe"])
def test_calls_answer_as_they_do_bare(made, probe):
    """Opens that end with a slash, changes of files and names, and messages that hold credentials. What goes to and from /proc is left out."""
    agent = made(web=SENDS)
    tree = agent.top / "rootfs/work/tree"
    shutil.copy(agent.box.program(probe), agent.top / "rootfs/bin/probe")
    make, table, word = {"prog_openprobe": (opentable.make_tree, opentable.open_cases(Path("/work/tree")), "/,0x"),
                         "prog_changeprobe": (changetable.make_tree, changetable.change_cases(Path("/work/tree")), ""),
                         "prog_sendprobe": (make_socket_tree, None, "credentials")}[probe]
    told = []
    for supervised in (False, True):
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        make(tree)
        subprocess.run(["chown", "-Rh", "1000:1000", str(tree)], check=True)
        probing = agent.start(RUNTIMES[0], "cd /work/tree && exec probe", supervised=supervised, user=1000)
        said = probing.communicate(table.text().decode("latin-1") if table else "", timeout=harness.DEADLINE)[0]
        told.append([line for line in said.splitlines() if word in line and "/proc" not in line])
    assert len(told[0]) >= {"prog_openprobe": 20, "prog_changeprobe": 900, "prog_sendprobe": 9}[probe], told[0]
    assert told[1] == told[0], [(bare, one) for bare, one in zip(*told) if bare != one]


def test_a_user_namespace(made):
    agent = made()
    subprocess.run(["chown", "-R", "100000:100000", str(agent.top / "rootfs")], check=True)
    os.chmod(agent.box.root, 0o755)
    code, said = agent.run(RUNTIMES[0], "cat /data/open /data/private /data/secret; echo x > /work/mine && busybox stat -c %u /work/mine", mapped=True)
    assert "open to all\nof root\n" in said, (said, agent.said)
    assert "the secret" not in said and "\n0\n" in said, said
    assert (agent.top / "rootfs/work/mine").stat().st_uid == 100000
    agent.run(RUNTIMES[0], "for port in 7000 7001; do nc 127.0.0.1 $port; done", mapped=True)
    connects = {one["destination"]["port"]: one["callgate"]["verdict"] for one in agent.records() if one.get("callgate", {}).get("operation") == "connect"}
    assert connects == {7000: "allow", 7001: "deny"}


def test_a_rule_ends_the_container(made):
    agent = made(web={**WEB, "rules": [*WEB["rules"], {"id": "trap", "kill": "read", "path": "/data/private"}]})
    assert agent.run(RUNTIMES[0], "cat /data/open; echo rest") == (0, "open to all\nrest\n")  # the twin
    script = "sleep 1000 & cat /data/open; cat /data/private; sleep 1000; echo rest"
    code, said = agent.run(RUNTIMES[0], script)
    assert code == 128 + signal.SIGKILL and "open to all" in said and "rest" not in said and "of root" not in said, (code, said)
    killed = [one for one in agent.records() if one.get("callgate", {}).get("verdict") == "kill"]
    assert [one["rule"]["name"] for one in killed] == ["trap"]
    assert agent.records()[-1]["callgate"]["outcome"] == "killed_by_rule"
    if TELLS:
        assert ended(agent.records())[1:] == (None, signal.SIGKILL)
    agent.run(RUNTIMES[0], "exit 7")
    assert ended(agent.records()) == ("exited", 7 if TELLS else 0, None)


REFUSED = {
    "no annotation": ({"rules": None}, "it has no annotation callgate.rules"),
    "unknown": ({"rules": "other"}, "there are no rules other"),
    "a path": ({"rules": "../rules/web"}, "this is no plain name"),
    "the host's processes": ({"share": ("pid",)}, "it has the host's PID namespace"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_container_that_is_refused_does_not_start(made, what):
    agent = made()
    options, why = REFUSED[what]
    code, said = agent.run(RUNTIMES[-1], "echo began; cat /data/open", **options)
    assert code != 0 and "open to all" not in said, said
    agent.await_line(why)
    agent.await_line("its calls fail")
    assert agent.run(RUNTIMES[-1], "cat /data/open") == (0, "open to all\n")  # the twin


@EACH
def test_a_container_among_the_processes_of_another_does_not_start(made, runtime):
    """It could signal and trace processes that its rules do not hold, and act by them."""
    agent = made()
    ends = "busybox killall sleep && echo ended it"
    for supervised in (False, True):  # the control
        first = agent.start(runtime, "sleep 1000 & echo began; wait; echo woken; read -r line", supervised=False)
        assert first.stdout.readline() == "began\n"
        told = subprocess.run([*agent.room, runtime, "state", first.args[-1]], capture_output=True, text=True, check=True)  # type: ignore[index]
        code, said = agent.run(runtime, ends, supervised=supervised, beside=json.loads(told.stdout)["pid"])
        assert ("ended it" in said) != supervised and (code == 0) != supervised, said
        if supervised:
            agent.await_line("it has the PID namespace of another container")
            begun = "sleep 1000 & until busybox killall -q -0 sleep; do :; done; "
            assert agent.run(runtime, begun + ends) == (0, "ended it\n")  # the twin
            subprocess.run([*agent.room, runtime, "kill", first.args[-1], "KILL"], check=True, capture_output=True)  # type: ignore[index]
        said = first.communicate("", timeout=harness.DEADLINE)[0]
        assert ("woken" in said) != supervised, said


def test_another_profile_is_refused(made):
    """A profile that notified less than the rules contest would be unsound."""
    agent = made(web=WEB, wide={"version": 1, "default": "allow", "rules": []})
    code, said = agent.run(RUNTIMES[0], "cat /data/open", profile=agent.profile("wide"))
    assert code != 0 and "open to all" not in said, said
    agent.await_line("its seccomp profile is not that of the rules web")


def test_an_annotation_chooses_no_rules_but_those_of_the_profile(made):
    """An image can bring an annotation. Its rules have the very same filter here."""
    agent = made(web=WEB, lax={**WEB, "rules": [ALL, WRITES, {**SECRET, "path": "/data/other"}, CONNECTS]})
    calls = [agent.profile(one)["syscalls"] for one in ("web", "lax")]
    assert calls[0] == calls[1]
    assert agent.run(RUNTIMES[0], "cat /data/secret", rules="lax", profile=agent.profile("lax")) == (0, "the secret\n")  # the twin
    code, said = agent.run(RUNTIMES[0], "cat /data/secret", rules="lax")
    assert code != 0 and "the secret" not in said, said
    agent.await_line("its seccomp profile is not that of the rules lax")


def test_a_rule_that_leads_through_a_link_is_refused(made):
    """The one who changes the root could choose what the rule is about."""
    agent = made(web={**WEB, "rules": [*WEB["rules"], {"id": "var", "allow": "create", "path": "/var/**"}]})
    assert agent.run(RUNTIMES[0], "cat /data/open")[1] == "open to all\n"  # the twin
    (agent.top / "rootfs/var").symlink_to("data")
    code, said = agent.run(RUNTIMES[0], "echo x > /data/planted; cat /data/open")
    assert code != 0 and not (agent.top / "rootfs/data/planted").exists(), said
    agent.await_line("/var leads to /data in this container")


def test_supervisors_outlive_the_agent_and_calls_do_not_outlive_a_supervisor(made):
    agent = made()
    running = agent.start(RUNTIMES[0], "while read -r name; do cat /data/$name; echo done; done")

    def answer(name: str) -> str:
        running.stdin.write(name + "\n")  # type: ignore[union-attr]
        lines = ""
        while not lines.endswith("done\n"):
            line = running.stdout.readline()  # type: ignore[union-attr]
            assert line, lines
            lines += line
        return lines

    assert answer("open").startswith("open to all\n")
    supervisors = harness.until(agent.supervisors, "the container has a supervisor")
    for one in harness.children(agent.process.pid):
        os.kill(one, signal.SIGKILL)
    agent.process.wait()
    assert answer("open").startswith("open to all\n")
    assert "the secret" not in answer("secret")
    agent.begin()
    code, said = agent.add(RUNTIMES[0], running, "cat /data/open; cat /data/secret")  # the next agent finds them
    assert "open to all" in said and "No such file" in said, (said, agent.said)
    for one in supervisors:
        os.kill(one, signal.SIGKILL)
    harness.until(lambda: not any(map(harness.alive, supervisors)), "the supervisor has ended")
    agent.await_line("its supervisor was ended by signal 9; its calls fail")
    said = "".join(running.communicate("open\nsecret\n", timeout=harness.DEADLINE))
    assert "Function not implemented" in said and "to all" not in said and "the secret" not in said, said


def test_the_next_agent_removes_what_killed_supervisors_left(made):
    agent = made()
    names = Path(f"{agent.socket}.d")
    running = agent.start(RUNTIMES[0], "echo began; read -r line")
    assert running.stdout.readline() == "began\n"
    (first,) = names.iterdir()
    every = harness.descendants(agent.process.pid)
    for one in every:  # the agent, the process outside, the supervisor
        os.kill(one, signal.SIGKILL)
    agent.process.wait()
    # A thread may outlive the first one for a moment, with the descriptors of both.
    harness.until(lambda: not any(harness.alive(one) or len(glob.glob(f"/proc/{one}/task/*")) > 1 for one in every), "they have ended")
    assert first.exists()
    agent.begin()
    assert not list(names.iterdir())
    running.communicate("", timeout=harness.DEADLINE)


WAITS = "echo began; while read -r name; do cat /data/$name; done"


@EACH
def test_processes_that_are_added(made, runtime):
    """They have the rules and the log of their container, also when the administrator has changed the file since."""
    agent = made()
    script = "cat /data/open; cat /data/secret; echo rest"
    bare = agent.start(runtime, WAITS, supervised=False)
    assert bare.stdout.readline() == "began\n"
    assert agent.add(runtime, bare, script) == (0, "open to all\nthe secret\nrest\n")  # the control
    bare.communicate()
    running = agent.start(runtime, WAITS)
    assert running.stdout.readline() == "began\n"
    supervisors = agent.supervisors()
    (agent.rules / "web.json").write_text(json.dumps({**WEB, "rules": [ALL, WRITES, CONNECTS]}))
    for _ in range(2):
        code, said = agent.add(runtime, running, script)
        assert code == 0 and "open to all\nrest\n" in said and "the secret" not in said and "No such file" in said, (said, agent.said)
    assert len(supervisors) == 1 and agent.supervisors() == supervisors
    said = "".join(running.communicate("open\nsecret\n", timeout=harness.DEADLINE))
    assert "open to all" in said and "No such file" in said, said
    records = agent.records()
    assert [one["event"]["action"] for one in records].count("run.start") == 1 == len(list(agent.logs.glob("*.jsonl")))
    assert len({one["process"]["pid"] for one in records if one.get("callgate", {}).get("verdict") == "deny"}) == 3
    agent.await_line("denied 3 calls\n")
    assert agent.said.count("\n") == 2, agent.said  # it listens, and it has denied
    harness.until(lambda: not list(Path(f"{agent.socket}.d").iterdir()), "no name is left")


@EACH
def test_what_an_added_process_opens_is_what_was_judged(made, runtime):
    """Its listener is another one, and so are the numbers of its calls. Processes of both swap and open at the same time."""
    agent = raced(made)

    def race(wins: int, supervised: bool) -> list[str]:
        script = f"attack_race openat thread /good /evil /work 5000 200 {wins}"
        running = agent.start(runtime, f"echo began; read -r line; {script}; read -r line", supervised=supervised)
        assert running.stdout.readline() == "began\n"
        running.stdin.write("go\n")
        added = agent.add(runtime, running, script)[1]
        return [added, running.communicate("ended\n", timeout=harness.DEADLINE)[0]]

    assert any(won(said) for said in race(1, False))  # the control
    assert [won(said) for said in race(0, True)] == [0, 0]


def won(said: str) -> int:
    return int(said[said.rindex("WON"):].split()[1])


@EACH
def test_no_process_is_added_that_programs_could_trace(made, runtime):
    """Before it executes it is the runtime's, and its calls are continued."""
    agent = made()
    running = agent.start(runtime, WAITS, capabilities=("CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE"))
    assert running.stdout.readline() == "began\n"
    code, said = agent.add(runtime, running, "cat /data/open")
    assert code != 0 and "open to all" not in said, said
    agent.await_line("they could trace the runtime; its calls fail")
    assert running.communicate("open\n", timeout=harness.DEADLINE)[0] == "open to all\n"


@EACH
def test_no_process_is_added_that_an_added_one_could_trace(made, runtime):
    """The container's first process never had the capability."""
    agent = made()
    running = agent.start(runtime, WAITS)
    assert running.stdout.readline() == "began\n"
    for _ in range(2):
        assert agent.add(runtime, running, "cat /data/open") == (0, "open to all\n")  # the twin
    assert agent.add(runtime, running, "cat /data/open", "--cap", "CAP_SYS_PTRACE") == (0, "open to all\n")
    code, said = agent.add(runtime, running, "cat /data/open")
    assert code != 0 and "open to all" not in said, said
    agent.await_line("they could trace the runtime; its calls fail")
    running.communicate("", timeout=harness.DEADLINE)


@EACH
def test_a_flood_of_calls_keeps_no_added_process_waiting(made, runtime):
    agent = made()
    flood = "for one in " + "o " * 64 + "; do (while :; do : < /data/open; done) & done; "
    for supervised in (False, True):  # the control
        running = agent.start(runtime, flood + WAITS, supervised=supervised)
        assert running.stdout.readline() == "began\n"
        assert agent.add(runtime, running, "cat /data/open") == (0, "open to all\n")
        running.communicate("", timeout=harness.DEADLINE)


ASKS = {**WEB, "rules": [*WEB["rules"], {"id": "look", "ask": "read", "path": "/data/asked*"}]}
# Answers each question about one file, and keeps what it was asked.
DECIDER = """#!/bin/sh
read -r question
echo "$question" >> {asked}
case $question in *'"/data/asked"'*) echo '{{"verdict":"allow","scope":"once"}}' ;; *'"/data/asked-trap"'*) echo '{{"verdict":"kill"}}' ;; *) echo '{{"verdict":"deny"}}' ;; esac
"""


def asking(made, timeout: str) -> Any:
    agent = made("--ask", "socket", "--ask-timeout", timeout, web=ASKS)
    for name in ("asked", "asked-other", "asked-trap"):
        (agent.top / "rootfs/data" / name).write_text(f"the {name}\n")
    return agent


@EACH
def test_questions_are_answered_outside(made, runtime):
    agent = asking(made, "1h")
    asked = agent.box.root / "questions"
    program = agent.box.file(agent.box.root / "decide", DECIDER.format(asked=asked).encode(), 0o755)
    words = [*agent.room, str(agent.box.callgate), "approve", "--exec", str(program)]
    decider = subprocess.Popen(words, env=agent.box.environment(approvers.runtime(agent.box)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    agent.box.running.append(decider)
    running = agent.start(runtime, "cat /data/asked; cat /data/asked-other; " + WAITS)
    assert running.stdout.readline() == "the asked\n"
    assert running.stdout.readline() == "began\n"
    code, said = agent.add(runtime, running, "cat /data/asked; cat /data/asked-other")
    assert "the asked\n" in said and "other\n" not in said, (said, agent.said)
    said = "".join(running.communicate("asked-trap\nasked\n", timeout=harness.DEADLINE))
    assert running.returncode == 128 + signal.SIGKILL and "the asked" not in said and "Permission denied" in said, said
    records = agent.records()
    answered = [one["callgate"] for one in records if one["event"]["action"] == "prompt.answered"]
    assert [one["answer"] for one in answered] == ["allow", "deny", "allow", "deny", "kill"] and answered[0]["answered_by"]["channel"] == "socket", answered
    begun = records[0]["callgate"]
    assert "questions" not in begun["degraded"] and begun["run"].startswith(running.args[-1][:12] + "-"), begun
    assert records[-1]["callgate"]["outcome"] == "killed_by_rule"
    assert len(asked.read_text().splitlines()) == 5
    subprocess.run(["chown", "-R", "100000:100000", str(agent.top / "rootfs")], check=True)
    said = agent.run(runtime, "cat /data/asked; cat /data/asked-other", mapped=True)[1]  # who answers has no name in its user namespace
    assert "the asked\n" in said and "Permission denied" in said, (said, agent.said)
    decider.terminate()
    decider.wait()
    directory = Path(approvers.runtime(agent.box)["XDG_RUNTIME_DIR"]) / "callgate"
    harness.until(lambda: not list(directory.glob("*.sock")) and not list(directory.glob("*.token")), "no socket is left")


ANYTHING = {"version": 1, "default": "allow", "rules": [ASKS["rules"][-1]]}  # the kernel makes connects then
BEHALF = {**ASKS, "rules": [*ASKS["rules"], {"id": "outside", "allow": "connect", "unix": "/outside/**"}]}


@pytest.mark.parametrize("who", ["first", "added"])
@pytest.mark.parametrize("web", [ANYTHING, BEHALF], ids=["kernel", "behalf"])
def test_no_process_of_a_container_answers(made, web, who):
    """An administrator has mounted the directory of the sockets there, and callgate is there too."""
    agent = made("--ask", "socket", "--ask-timeout", "3s", web=web)
    root = agent.top / "rootfs"
    shutil.copy(agent.box.callgate, root / "bin/callgate")
    agent.box.file(root / "bin/decide", b"#!/bin/sh\nread -r question\necho '{\"verdict\":\"allow\",\"scope\":\"once\"}'\n", 0o755)
    agent.box.file(root / "data/asked", b"the asked\n")
    (root / "outside").mkdir()
    mounted = approvers.runtime(agent.box)["XDG_RUNTIME_DIR"]
    answers = "(HOME=/tmp XDG_RUNTIME_DIR=/outside callgate approve --exec /bin/decide 2> /dev/null & cat /data/asked; kill $!); "
    running = agent.start(RUNTIMES[0], (answers if who == "first" else "") + WAITS, mounted=mounted)
    said = running.stdout.readline()
    if who == "added":
        assert said == "began\n"
        said = agent.add(RUNTIMES[0], running, answers)[1]
    running.communicate("", timeout=harness.DEADLINE)
    assert "the asked" not in said, said
    assert "prompt.shown" in [one["event"]["action"] for one in agent.records()]


def test_a_question_without_an_answer_is_denied(made):
    agent = asking(made, "50ms")
    code, said = agent.run(RUNTIMES[0], "cat /data/open; cat /data/asked; echo rest")
    assert code == 0 and "open to all\nrest\n" in said and "the asked" not in said and "Permission denied" in said, said
    actions = [one["event"]["action"] for one in agent.records()]
    assert "prompt.shown" in actions and ("look", "/data/asked") in denied(agent.records()), actions


LISTENER = """
import ctypes, socket, sys
class Filter(ctypes.Structure): _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc, allow = ctypes.CDLL(None), (ctypes.c_uint16 * 4)(6, 0, 0, 0x7fff)
libc.prctl(38, 1, 0, 0, 0)
listener = libc.syscall(317 if sys.argv[3] == "x86_64" else 277, 1, 8, ctypes.byref(Filter(1, ctypes.addressof(allow))))
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
socket.send_fds(client, [sys.argv[2].encode()], [listener])
client.recv(1)
"""


@pytest.mark.parametrize("what", ["rules", "metadata"])
def test_an_added_process_of_other_rules_is_refused(made, what):
    agent = made()
    running = agent.start(RUNTIMES[0], WAITS)
    assert running.stdout.readline() == "began\n"
    state = {"fds": ["seccompFd"], "pid": 0, "metadata": "other" if what == "metadata" else agent.profile("web")["listenerMetadata"],
             "state": {"id": running.args[-1], "annotations": {"callgate.rules": "other" if what == "rules" else "web"}}}
    subprocess.run(["/usr/bin/python3", "-c", LISTENER, str(agent.socket), json.dumps(state), os.uname().machine], check=True, timeout=harness.DEADLINE)
    harness.until(lambda: len(harness.descendants(agent.process.pid)) == 3, "it is judged, and who handed it over has ended")
    send(agent.socket, b"").close()
    agent.await_line("no whole JSON object")
    assert "whose rules or seccomp profile are not the container's; its calls fail" in agent.said, agent.said
    running.communicate("", timeout=harness.DEADLINE)


def send(path: Path, text: bytes, descriptors: tuple[int, ...] = ()) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else [])
    return client


def test_hostile_clients(made):
    """Such a client keeps no container waiting, and nothing of its own is entered."""
    agent = made()
    state = {"fds": ["seccompFd"], "pid": 1, "state": {"id": "x\x1b[2J", "pid": os.getpid(), "annotations": {"callgate.rules": "web"}}}
    some = os.open("/dev/null", os.O_RDONLY)
    waiting = [send(agent.socket, b'{"half"') for _ in range(20)]
    for text in (b"\xff\0garbage", b"[" * 100000, b"[]" * 10, b"{}", json.dumps(state).encode(), json.dumps({**state, "pid": -5}).encode()):
        send(agent.socket, text, (some,)).close()
    send(agent.socket, json.dumps({**state, "pid": os.getpid()}).encode(), (some,) * 8).close()
    send(agent.socket, json.dumps({**state, "pid": os.getpid()}).encode(), (some,)).close()
    agent.await_line("carries no seccomp listener")
    agent.await_line("no whole JSON object")
    assert "\x1b" not in agent.said
    assert agent.run(RUNTIMES[0], "cat /data/open") == (0, "open to all\n")
    for one in waiting:
        one.close()
    os.close(some)
    harness.until(lambda: not agent.supervisors(), "nothing is left of them")


def test_another_user_is_refused(made, users):
    agent = made()
    agent.socket.chmod(0o666)  # an administrator's mistake
    script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(agent.socket)!r}); s.sendall(b'{{}}'); print(s.recv(1))"
    subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, check=False, **users["user"].popen_identity())
    harness.until(lambda: "refused" in agent.said or "lacks" in agent.said, "the agent says what it made of it")
    assert "a connection of another user was refused" in agent.said and "lacks a container's id" not in agent.said


NOT_HELD = {
    "give the agent --ask socket": {"rules": [ALL, {"id": "x", "ask": "read", "path": "/data/**"}]},
    "they name hosts": {"rules": [ALL, {"id": "x", "allow": "connect", "host": "example.com", "port": 443}]},
    "they are about servers": {"rules": [ALL, {"id": "x", "allow": "connect", "server": "run", "address": "127.0.0.1"}]},
    "they state limits": {"rules": [ALL], "limits": {"memory": "1G"}},
    "they state variables": {"rules": [ALL], "environment": {"set": {"A": "b"}}},
    "can extend shipped profiles alone": {"rules": [ALL], "extends": ["/etc/other.json"]},
}


@pytest.mark.parametrize("why", NOT_HELD)
def test_rules_that_cannot_be_held_have_no_profile(administrator, why):
    box = administrator
    rules = box.file(box.root / "rules/web.json", json.dumps({"version": 1, "default": "deny", **NOT_HELD[why]}).encode())
    line = [str(box.callgate), "agent", "--rules-dir", str(rules.parent), "--seccomp-profile", "web"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=box.environment())
    assert done.returncode == 125 and why in done.stderr, done


def test_rules_that_others_may_write_are_refused(administrator, users):
    box = administrator
    rules = box.file(box.root / "rules/web.json", json.dumps(WEB).encode())
    line = [str(box.callgate), "agent", "--rules-dir", str(rules.parent), "--seccomp-profile", "web"]
    ask = lambda: subprocess.run(line, capture_output=True, text=True, check=False, env=box.environment())  # noqa: E731
    assert ask().returncode == 0  # the twin
    for path in (rules, rules.parent, box.root):
        path.chmod(path.stat().st_mode | 0o020)
        assert "others may write there" in ask().stderr
        path.chmod(path.stat().st_mode & ~0o020)
    shared = box.root / "shared"  # whoever may make names there is handed containers
    shared.mkdir()
    shared.chmod(0o1777)
    started = subprocess.run([*line[:4], "--listen", str(shared / "agent.sock"), "--logs", str(box.root / "logs")], capture_output=True, text=True,
                             check=False, env=box.environment(), timeout=harness.DEADLINE)
    assert "others may write there" in started.stderr and not (shared / "agent.sock").exists(), started
    os.chown(rules, users["user"].uid, -1)
    assert "others may write there" in ask().stderr
