"""The base of every end-to-end test: users, a private place per test, and one way to run a command.

A `Box` is one test's place: a tree that belongs to the test's user, a home, a state directory. `Box.run` starts callgate, or
with `supervised=False` the bare command: the control. It waits with a deadline, and gives back the exit status, the output,
the report and the audit records. No test sleeps in place of a condition: `until` polls with a deadline. Processes are ended
by the pid that started them.
"""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Sequence

import jsonschema
import pytest

import replaying

SOAK = os.environ.get("CALLGATE_SOAK") == "1"
# A guest whose processor is emulated gets more time (tools/kernels.sh).
PATIENCE = float(os.environ.get("CALLGATE_TEST_PATIENCE", "1"))
# A deadline only ends a hang: a loaded host must stay within it.
DEADLINE = (600.0 if SOAK else 120.0) * PATIENCE
# The engine of tools/engines.sh in whose container the test runs.
CONTAINER = os.environ.get("CALLGATE_TEST_CONTAINER", "")
# landlock_create_ruleset(2) with LANDLOCK_CREATE_RULESET_VERSION
LANDLOCK_ABI = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
SWITCHES = ("CALLGATE_TEST_SWITCH_OFF", "CALLGATE_TEST_LANDLOCK_ABI")
# A build with sanitizers takes its options from these.
SANITIZERS = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS")


@dataclasses.dataclass(frozen=True)
class User:
    """The account that runs the command. `made` accounts are removed at the end of the session."""

    kind: str  # "root", "user"
    name: str
    uid: int
    gid: int
    home: str

    def popen_identity(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclasses.dataclass
class Result:
    args: list[str]
    code: int
    out: bytes
    err: bytes
    report: dict[str, Any] | None = None
    audit: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "backslashreplace")

    @property
    def errors(self) -> str:
        return self.err.decode("utf-8", "backslashreplace")

    def decisions(self, **wanted: str) -> list[dict[str, Any]]:
        """Audit records of decisions whose `callgate` members equal `wanted`."""
        return [
            one
            for one in self.audit
            if "verdict" in one.get("callgate", {})
            and all(one["callgate"].get(key) == value for key, value in wanted.items())
        ]

    def describe(self) -> str:
        return (
            f"$ {' '.join(self.args)}\nexit {self.code}\n--- stdout\n{self.text[-4000:]}\n--- stderr\n{self.errors[-4000:]}"
            f"\n--- report\n{json.dumps(self.report)[:3000]}"
        )


def part_of_today(all_of_them: Sequence[Any], parts: int) -> list[Any]:
    """Returns one of so many parts, and another one with every commit."""
    sources = Path(__file__).resolve().parents[2]
    done = subprocess.run(["git", "-C", str(sources), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    first = int(done.stdout[:8], 16) % parts if done.returncode == 0 else 0
    return list(all_of_them[first::parts])


def until(condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = DEADLINE) -> Any:
    """The first true value of `condition`; fails the test when `seconds` have passed without one."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def children(pid: int) -> list[int]:
    """Direct children, of any of its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(one) for one in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def name_of(pid: int) -> str:
    """The name of a process ("sleep"); "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for one in children(waiting.pop()):
            if one not in found:
                found.append(one)
                waiting.append(one)
    return found


def state(pid: int) -> str:
    """The letter of a process's state in proc(5), or "gone"."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def not_in_container(why: str, engine: str = "") -> None:
    """Skips what a container cannot do, of every engine or of this one."""
    if CONTAINER and engine in ("", CONTAINER):
        pytest.skip(f"in a container: {why}")


def marked(marker: str) -> list[int]:
    """Living processes whose environment holds `marker`: finds survivors wherever they were re-parented."""
    wanted = marker.encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except PermissionError:
            not_in_container("the processes of another user cannot be read")
            continue
        except OSError:
            continue
        if wanted in environment.split(b"\0") and alive(int(entry)):
            found.append(int(entry))
    return found


def as_user(user: User, action: Callable[[], None]) -> None:
    """Runs `action` in a child with the user's identity; its exception fails the caller."""
    if os.geteuid() != 0 or user.uid == os.geteuid():
        action()
        return
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user.gid)
            os.setuid(user.uid)
            action()
            status = 0
        except BaseException as error:  # the child must never return into the test runner
            os.write(writing, repr(error).encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise AssertionError(f"as {user.name}: {message.decode()}")


def remove_tree(top: Path) -> None:
    """Also what its owner may not search: who is not root must open it up first. A run that was just ended may still make
    and remove its own."""
    def failed(_function, _path, why) -> None:
        if not isinstance(why[1], FileNotFoundError):
            raise why[1]

    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "u+rwX", str(top)], capture_output=True, check=False)

    def removed() -> bool:
        try:
            shutil.rmtree(top, onerror=failed)
        except OSError as filled:
            if filled.errno != errno.ENOTEMPTY:
                raise
        return not top.exists()

    until(removed, f"{top} is removed")


class Stage:
    """The session's place: copies of the binary and the programs that any user can execute, and the accounts."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="cg-e2e-", dir="/tmp"))
        self.root.chmod(0o755)
        # Boxes in groups of blocks of their own: in one group ext4 looks at each of thousands of removed inodes before it makes a file.
        subprocess.run(["chattr", "+T", str(self.root)], capture_output=True, check=False)  # other file systems have no such flag
        os.chdir(self.root)  # the sources may lie where only root can look: what a user starts must not begin there
        self.bin = self.root / "bin"
        self.bin.mkdir(mode=0o755)
        self.bin.chmod(0o755)
        self.made: list[str] = []
        self.boxes = 0
        self.callgate = self._binary("CALLGATE", "callgate")
        self.switched = self._binary("CALLGATE_SWITCHED", "callgate-switched")
        if self._binary("CALLGATE", "callgate-tls", "-tls"):  # built where libssl-dev is installed
            (self.bin / "callgate-switched-tls").symlink_to("callgate-tls")
        programs = Path(os.environ.get("PROGRAMS", ""))
        for program in sorted(programs.iterdir()) if programs.is_dir() and str(programs) != "." else []:
            if program.is_file() and os.access(program, os.X_OK):
                self._copy(program, self.bin / program.name)

    def _binary(self, variable: str, name: str, suffix: str = "") -> Path | None:
        binary = os.environ.get(variable, "") + suffix
        if not os.access(binary, os.X_OK):
            return None
        self._copy(Path(binary), self.bin / name)
        return self.bin / name

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        shutil.copyfile(source, target)
        target.chmod(0o755)

    def users(self) -> dict[str, User]:
        me = pwd.getpwuid(os.geteuid())
        if me.pw_uid != 0:
            return {"user": User("user", me.pw_name, me.pw_uid, me.pw_gid, me.pw_dir)}
        return {"root": User("root", "root", 0, 0, me.pw_dir), "user": self._make_user()}

    def _make_user(self) -> User:
        for number in range(1, 100):
            name = f"cg-test-{number}"
            try:
                pwd.getpwnam(name)
                continue
            except KeyError:
                pass
            home = self.root / "homes" / name
            home.parent.mkdir(mode=0o755, exist_ok=True)
            home.parent.chmod(0o755)
            done = subprocess.run(
                ["useradd", "--system", "--user-group", "--create-home", "--home-dir", str(home), "--shell", "/bin/bash", name],
                capture_output=True, text=True, check=False,
            )
            if done.returncode == 9:  # another test session made it in between
                continue
            if done.returncode != 0:
                raise AssertionError(f"useradd {name}: {done.stderr}")
            self.made.append(name)
            entry = pwd.getpwnam(name)
            return User("user", name, entry.pw_uid, entry.pw_gid, str(home))
        raise AssertionError("no free name for a test account")

    def box(self, user: User) -> "Box":
        self.boxes += 1
        return Box(self, user, self.root / f"box{self.boxes}")

    def close(self) -> None:
        for name in self.made:
            subprocess.run(["userdel", name], capture_output=True, check=False)
        shutil.rmtree(self.root, ignore_errors=True)


SYSTEM_RULES: list[dict[str, Any]] = [
    {"id": "system", "allow": ["read", "execute"],
     "path": ["/usr/**", "/bin/**", "/sbin/**", "/lib/**", "/lib64/**", "/etc/**"]},
    {"id": "proc", "allow": "read", "path": ["/proc/**", "/sys/**"]},
    {"id": "devices", "allow": ["read", "modify"],
     "path": ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts/**"]},
]


def rule_set(*rules: dict[str, Any], default: str = "deny", system: bool = True, **more: Any) -> dict[str, Any]:
    """A rule set that stands by itself: what a dynamically linked program needs, and `rules`."""
    return {"version": 1, "default": default, "rules": [*(SYSTEM_RULES if system else []), *rules], **more}


class Box:
    """The place of a test, owned by its user."""

    def __init__(self, stage: Stage, user: User, root: Path) -> None:
        self.stage, self.user, self.root = stage, user, root
        self.tree, self.home, self.state = root / "tree", root / "home", root / "state"
        root.mkdir(mode=0o755)
        root.chmod(0o755)
        self.own(root)
        for one in (self.tree, self.home, self.state):
            one.mkdir()
            one.chmod(0o700 if one == self.state else 0o755)
            self.own(one)
        self.running: list[subprocess.Popen[bytes]] = []
        self.replays = replaying.Replays()
        self.noted: replaying.Noted | None = None  # of the process that was started last
        self.counter = 0
        self.callgate = stage.callgate
        self.within: list[str] = []  # what runs run in, bare and supervised: a container that is imitated
        self.switches = {name: os.environ[name] for name in SWITCHES if name in os.environ}

    def contain(self, profile: str) -> None:
        """From here on inside a container with that seccomp profile (tests/programs/prog_container.c)."""
        self.within = [self.program("prog_container"), profile]

    def switch(self, off: str = "", abi: int | None = None) -> None:
        """From here on the build whose checks can be left out (base/test_switch.hpp)."""
        assert self.stage.switched, "CALLGATE_SWITCHED names no program: ./dev build"
        self.callgate = self.stage.switched
        self.switches = dict(zip(SWITCHES, (off, "" if abi is None else str(abi))))

    def own(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)

    def file(self, path: Path, content: bytes = b"", mode: int = 0o644) -> Path:
        for parent in reversed(path.parents):
            if self.root in parent.parents and not parent.exists():
                self.directory(parent)
        path.write_bytes(content)
        path.chmod(mode)
        self.own(path)
        return path

    def directory(self, path: Path, mode: int = 0o755) -> Path:
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        self.own(path)
        return path

    def deep_file(self) -> Path:
        """A file in the tree whose name has nearly 4 kB: records of it fill a log soon."""
        deep = self.tree
        for _ in range(17):
            deep = self.directory(deep / ("d" * 200))
        return self.file(deep / "file", b"x")

    def program(self, name: str) -> str:
        path = self.stage.bin / name
        if not path.exists():
            raise AssertionError(f"{name} is not in PROGRAMS: build it, or name its directory")
        return str(path)

    def rules_file(self, rules: dict[str, Any] | str) -> Path:
        self.counter += 1
        text = rules if isinstance(rules, str) else json.dumps(rules, indent=1)
        return self.file(self.root / f"rules{self.counter}.json", text.encode())

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.home), "LANG": "C.UTF-8",
            "USER": self.user.name, "LOGNAME": self.user.name, "TERM": "dumb",
            "XDG_STATE_HOME": str(self.state), **self.switches,
            **{name: os.environ[name] for name in SANITIZERS if name in os.environ}, **(extra or {}),
        }

    def command(self, args: list[str], rules: dict[str, Any] | str | None = None, options: list[str] = (),  # type: ignore[assignment]
                audit: bool = True, report_fd: int | None = None) -> tuple[list[str], Path | None]:
        """The line that runs `args` supervised, and where its log will be."""
        if self.callgate is None:
            raise AssertionError("CALLGATE names no program")
        line = [*self.within, str(self.callgate), "run"]
        if rules is not None:
            line += ["-R", str(self.rules_file(rules))]
        log = None
        if audit:
            self.counter += 1
            log = self.state / f"run{self.counter}.jsonl"
            line += ["--audit", str(log)]
        if report_fd is not None:
            line += ["--report", f"fd:{report_fd}"]
        return [*line, *options, "--", *args], log

    def start(self, line: list[str], **keywords: Any) -> subprocess.Popen[bytes]:
        """Starts one process as the box's user; it is ended with the box."""
        keywords.setdefault("cwd", self.tree)
        keywords["env"] = keywords.get("env") or self.environment()
        self.noted = self.replays.note([str(word) for word in line], Path(keywords["cwd"]), keywords["env"])
        process = subprocess.Popen(line, **self.user.popen_identity(), **keywords)
        self.running.append(process)
        return process

    def run(self, args: list[str], rules: dict[str, Any] | str | None = None, *, supervised: bool = True,
            options: list[str] = (), stdin: bytes | None = b"", env: dict[str, str] | None = None,  # type: ignore[assignment]
            cwd: Path | None = None, timeout: float = DEADLINE, audit: bool = True,
            pass_fds: tuple[int, ...] = ()) -> Result:
        if not supervised:
            args = [*self.within, *args]
            return self.wait(self.start(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=cwd or self.tree, env=self.environment(env), pass_fds=pass_fds),
                             args, stdin, timeout)
        reading, writing = os.pipe()
        try:
            line, log = self.command(args, rules, options, audit, writing)
            process = self.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=cwd or self.tree, env=self.environment(env), pass_fds=(*pass_fds, writing))
            noted = self.noted
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            reports: list[bytes] = []
            collector = threading.Thread(target=lambda: reports.append(pipe.read()), daemon=True)
            collector.start()
            result = self.wait(process, line, stdin, timeout)
            collector.join(DEADLINE)
            if collector.is_alive():
                raise AssertionError("the report descriptor stayed open after callgate had ended\n" + result.describe())
        if reports and reports[0].strip():
            result.report = json.loads(reports[0])
            check_report(result.report)
            if noted is not None and (result.report["audit"] or {}).get("file"):
                noted.log = Path(result.report["audit"]["file"])
        if log is not None:
            result.audit = read_log(log)
        return result

    def wait(self, process: subprocess.Popen[bytes], line: list[str], stdin: bytes | None, timeout: float) -> Result:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired as expired:
            stacks = "\n".join(wait_channel(pid) for pid in [process.pid, *descendants(process.pid)])
            process.kill()
            out, err = process.communicate()
            raise AssertionError(
                f"still running after {timeout:.0f} s\n{stacks}\n{Result(line, -1, out or b'', err or b'').describe()}") from expired
        return Result(line, process.returncode, out or b"", err or b"")  # None: of a stream that is no pipe

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):  # what nobody read any more
                        stream.close()
        try:
            self.replays.check(self)
        finally:
            remove_tree(self.root)


def wait_channel(pid: int) -> str:
    """A line on what a process waits for, for the message of a run that hangs."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        call = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return f"{pid}: gone"
    return f"{pid} {name}: state {state}, in system call {call}"


# test_formats.py checks the schema itself, which takes longer than a report.
REPORTS = jsonschema.Draft202012Validator(json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text()))


def check_report(report: dict[str, Any]) -> None:
    """A report that its schema does not allow fails the test."""
    REPORTS.validate(report)


def audit(box: Box, *args: str) -> Result:
    """`callgate audit`, over the logs of this place unless others are named."""
    return box.run([str(box.stage.callgate), "audit", *args], supervised=False)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a log; a torn last line (crash) is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line.strip()]


def read_until(descriptor: int, wanted: bytes, seconds: float = DEADLINE) -> bytes:
    """Reads a descriptor until `wanted` has come."""
    seen = b""
    end = time.monotonic() + seconds
    while wanted not in seen:
        left = end - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise AssertionError(f"{wanted!r} did not come; so far: {seen!r}")
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # a pty whose other side is closed
            piece = b""
        if not piece:
            raise AssertionError(f"ended before {wanted!r}; so far: {seen!r}")
        seen += piece
    return seen


def kill_group_of(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signals the process group that `pid` leads (started with start_new_session by the test itself)."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass
