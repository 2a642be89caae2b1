"""Attacks on names, memory, descriptors and processes. What held is judged from outside (attackbox.py)."""
from __future__ import annotations

import array
import os
import pty
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import harness
from attackbox import ALLOWED, BUDGET, ROUNDS, SECRET, UNSUPPORTED, make_place, secret_beneath, snapshot, wins

MEMORY = [("open", "thread"), ("openat", "thread"), ("openat2", "thread"), ("openhow", "how"), ("append", "thread"), ("trunc", "thread"),
          ("creat", "thread"), ("truncate", "thread"), ("unlink", "thread"), ("chmod", "thread"), ("setxattr", "thread"), ("chown", "thread"), ("utimens", "thread"),
          ("mkdir", "thread"), ("symlink", "thread"), ("link", "thread"), ("linkfrom", "thread"), ("rename", "thread"),
          ("renamefrom", "thread"), ("open", "clonevm"), ("openat", "shared"), ("openat", "vmwritev"), ("openat", "procmem"),
          ("openat", "othermem"), ("unlink", "clonevm"), ("rename", "shared")]
NAMES = [("openat", "symlink"), ("openat", "leaf"), ("openat", "exchange"), ("openat", "replace"), ("openat", "dup2"), ("openat", "cwd"),
         ("openat2", "symlink"), ("trunc", "symlink"), ("trunc", "leaf"), ("creat", "leaf"), ("truncate", "leaf"), ("unlink", "symlink"),
         ("unlink", "dup2"), ("unlink", "cwd"), ("chmod", "leaf"), ("chmod", "exchange"), ("setxattr", "leaf"), ("setxattr", "exchange"), ("setxattrat", "symlink"), ("setxattrat", "dup2"), ("chown", "symlink"), ("utimens", "leaf"),
         ("mkdir", "symlink"), ("mkdir", "exchange"), ("symlink", "dup2"), ("link", "symlink"), ("linkfrom", "symlink"),
         ("rename", "symlink"), ("rename", "exchange"), ("rename", "cwd"), ("renamefrom", "symlink")]


@pytest.mark.parametrize("operation,racer", MEMORY + NAMES, ids=lambda one: one)
def test_a_race_never_reaches_the_denied_side(box, table, operation, racer):
    place = make_place(box)

    def race(supervised: bool, budget: str, rules=None):
        return box.run([box.program("attack_race"), operation, racer, str(place.allowed), str(place.denied), str(place.free), budget, ROUNDS],
                       rules, supervised=supervised)

    for factor in (1, 4, 16):
        place.rebuild()
        control = race(False, str(int(BUDGET) * factor))
        won, _ = wins(control)
        if won >= 5:
            break
    assert won >= 5, f"the race is won too seldom to prove anything\n{control.describe()}"
    place.rebuild()
    # truncating what may only be read: there the file itself is readable
    memory = {"id": "memory", "allow": "modify", "path": "/proc/**"}  # writing its own memory is the target's right
    rules = place.rules(memory, verbs=("write",)) if operation == "openhow" else place.rules(memory)
    before = snapshot(place.denied)
    result = race(True, str(int(BUDGET) * factor), rules)
    claimed, twin = wins(result)
    table.append((box.user.kind, f"race {operation} by {racer}", f"{won} wins", f"{claimed} wins", f"{twin} reached"))
    assert snapshot(place.denied) == before, f"the denied side changed\n{result.describe()}"
    if operation != "openhow":
        assert SECRET not in result.out + result.err, result.describe()
        assert secret_beneath(place.free) == [] == secret_beneath(place.allowed), "the secret was copied out"
    assert claimed == 0, result.describe()
    assert twin > 0, f"the allowed side was never reached\n{result.describe()}"


def test_an_exec_raced_in_memory_never_runs_the_denied_program(box, table):
    place = make_place(box)

    def prepare() -> None:
        place.rebuild()
        box.file(place.allowed / "victim", Path("/usr/bin/true").read_bytes(), 0o755)
        box.file(place.victim, Path(box.program("prog_exit42")).read_bytes(), 0o755)

    line = [box.program("attack_race"), "exec", "thread", str(place.allowed), str(place.denied), str(place.free), BUDGET, "300"]
    prepare()
    won, _ = wins(box.run(line, supervised=False))
    assert won >= 5 and (place.free / "executed").exists()
    prepare()
    rules = place.rules({"id": "run", "allow": ["read", "execute"], "path": f"{place.allowed}/**"})
    result = box.run(line, rules)
    claimed, twin = wins(result)
    table.append((box.user.kind, "race execve by thread", f"{won} wins", f"{claimed} wins", f"{twin} reached"))
    assert claimed == 0 and not (place.free / "executed").exists(), result.describe()
    assert twin > 0, result.describe()


READS = ["plain", "rdwr", "openat2", "hardlink", "hardlink_fd", "hardlink_empty", "symlink", "chain", "folder_link", "dotdot", "slashes",
         "relative", "proc_cwd", "proc_root", "thread_root", "child_root", "child_cwd", "proc_fd", "thread_fd", "dev_fd", "proc_fd_number",
         "stdin", "opath_folder", "rename", "exchange", "rename_folder", "exchange_folder", "rename_ancestor", "exchange_ancestor",
         "cwd_kept", "ring", "int80", "x32", "userns", "userns_clone", "userns_clone3", "userns_tree", "userns_chroot", "handle", "chroot",
         "bind", "open_tree"]
CHANGES = ["truncate", "open_trunc", "creat", "append", "unlink", "unlinkat", "unlink_link", "rename_away", "rename_onto", "rename_into",
           "chmod", "chmod_fd", "fchmodat2", "chown", "lchown", "fchownat", "utimensat", "utimensat_fd", "utime", "utimes", "futimesat",
           "setxattr", "lsetxattr", "mkdir", "mknod", "mksymlink", "mklink", "tmpfile", "tmpfile_inside", "dangling", "create",
           "bind_socket", "rmdir_folder", "ring_unlink", "int80_unlink", "setxattr_link", "setxattr_proc", "setxattrat", "removexattr",
           "lremovexattr", "removexattrat", "acl", "acl_default", "file_setattr", "mknodat", "mksocket", "mkwhiteout", "rename_whiteout"]
READERS = ["reader_fchmod", "reader_fchown", "reader_futimens", "reader_fsetxattr", "reader_fremovexattr", "reader_setxattrat",
           "reader_removexattrat", "reader_acl", "reader_setflags", "reader_setflags_high", "reader_setxflags", "reader_file_setattr",
           "reader_setversion", "reader_reopen", "reader_dev_fd"]
ONLY_ROOT = {"handle", "chroot", "bind"}            # bare, an ordinary user has no such door
NO_TWIN = {"ring", "ring_unlink", "int80", "int80_unlink", "x32", "userns", "userns_clone", "userns_clone3", "userns_tree", "userns_chroot",
           "handle", "chroot", "bind", "open_tree"}  # closed for every object: the twin is the ordinary way
# Where a rule limits metadata the filter refuses it for every object.
REFUSED_FOR_ALL = {"reader_setversion"}


@pytest.mark.parametrize("door", READS + CHANGES + READERS)
def test_a_door_to_the_denied_file_is_closed(box, table, door):
    if door in ONLY_ROOT and box.user.uid != 0:
        pytest.skip(f"{door}: needs privileges even without callgate")
    place = make_place(box)
    line = [box.program("attack_door"), door, str(place.victim), str(place.free)]
    before = snapshot(place.denied)
    control = box.run(line, supervised=False)
    if control.code == UNSUPPORTED:
        table.append((box.user.kind, f"door {door}", "unsupported", "-", "-"))
        pytest.skip(f"{door}: this kernel has no such door")
    if door in READS:
        assert SECRET in control.out, f"the control did not reach its goal\n{control.describe()}"
    else:
        assert control.code == 0 and (not place.denied.exists() or snapshot(place.denied) != before or door == "tmpfile_inside"), control.describe()

    place.rebuild()
    before = snapshot(place.root / "keep" / "dB")
    rules = place.rules(verbs=("write",)) if door in READERS else place.rules()
    more = {"id": "sockets", "allow": "bind", "unix": f"{place.free}/**"}
    rules["rules"].append(more)
    result = box.run(line, rules)
    assert place.denied.exists(), f"the denied directory is gone\n{result.describe()}"
    assert snapshot(place.denied) == before, f"the denied side changed\n{result.describe()}"
    if door not in READERS:
        assert SECRET not in result.out + result.err and secret_beneath(place.free) == [], result.describe()
    assert result.code != 0, result.describe()

    twin = run_twin(box, place, door, rules)
    table.append((box.user.kind, f"door {door}", "reached", f"exit {result.code}", "works" if twin.code == 0 else f"exit {twin.code}"))
    if door not in REFUSED_FOR_ALL:
        assert twin.code == 0, f"the benign twin does not work\n{twin.describe()}"


@pytest.mark.parametrize("options", [(), ("--keep-capabilities",)], ids=["bare of capabilities", "with them"])
@pytest.mark.parametrize("contested", [False, True], ids=["static", "contested"])
def test_no_device_is_made_under_another_name(box, table, options, contested):
    if box.user.uid != 0:
        pytest.skip("making devices needs privileges even without callgate")
    place = make_place(box)
    line = [box.program("attack_door"), "mkdevice", str(place.victim), str(place.free)]
    control = box.run(line, supervised=False)
    assert control.code == 0, control.describe()
    place.rebuild()
    more = [{"id": "contest", "deny": "create", "path": f"{place.free}/**/.never*"}] if contested else []
    result = box.run(line, place.rules(*more), options=list(options))
    table.append((box.user.kind, "door mkdevice", "reached", f"exit {result.code}", "see mkwhiteout"))
    assert result.code == 1 and not (place.free / "null").exists(), result.describe()
    assert "not permitted" in result.errors, result.describe()


def run_twin(box, place, door: str, rules) -> harness.Result:
    """The same way to an allowed file; the ordinary way where the door is closed for all."""
    place.rebuild()
    place.twin_folders()
    good = place.free / "twin" / "inner" / "victim"
    used = "plain" if door in NO_TWIN else door
    result = box.run([box.program("attack_door"), used, str(good), str(place.free)], rules)
    if used in READS and result.code == 0:
        assert ALLOWED in result.out, result.describe()
    return result


def test_a_directory_descriptor_that_was_inherited_opens_nothing_denied(box, table):
    place = make_place(box)
    descriptor = os.open(place.denied, os.O_RDONLY | os.O_DIRECTORY)
    good = os.open(place.allowed, os.O_RDONLY | os.O_DIRECTORY)
    try:
        line = [box.program("attack_door"), "inherited", str(place.victim), str(place.free)]
        control = box.run([*line, str(descriptor)], supervised=False, pass_fds=(descriptor,))
        assert SECRET in control.out, control.describe()
        passed = ["--pass-fd", str(descriptor), "--pass-fd", str(good)]
        result = box.run([*line, str(descriptor)], place.rules(), options=passed, pass_fds=(descriptor, good))
        twin = box.run([*line, str(good)], place.rules(), options=passed, pass_fds=(descriptor, good))
        unnamed = box.run([*line, str(good)], place.rules(), pass_fds=(good,))
    finally:
        os.close(descriptor)
        os.close(good)
    table.append((box.user.kind, "inherited directory", "reached", f"exit {result.code}", "works" if twin.code == 0 else "refused"))
    assert result.code == 1 and SECRET not in result.out, result.describe()
    assert ALLOWED in twin.out, twin.describe()
    assert unnamed.code == 1 and ALLOWED not in unnamed.out, "a descriptor above 2 was inherited without --pass-fd\n" + unnamed.describe()


def test_a_directory_descriptor_that_was_received_opens_nothing_denied(box, table):
    place = make_place(box)
    path = place.free / "giver"
    with socket.socket(socket.AF_UNIX) as giver:
        giver.bind(str(path))
        box.own(path)
        giver.listen(8)
        given: list[Path] = []

        def give() -> None:
            while True:
                try:
                    caller, _ = giver.accept()
                except OSError:
                    return
                with caller:
                    descriptor = os.open(given[-1], os.O_RDONLY | os.O_DIRECTORY)
                    caller.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
                    os.close(descriptor)

        threading.Thread(target=give, daemon=True).start()
        rules = place.rules({"id": "giver", "allow": "connect", "unix": str(path)})
        line = [box.program("attack_door"), "received", str(place.victim), str(place.free), str(path)]
        given.append(place.denied)
        control = box.run(line, supervised=False)
        result = box.run(line, rules)
        given.append(place.allowed)
        twin = box.run(line, rules)
        giver.shutdown(socket.SHUT_RDWR)
    assert SECRET in control.out, control.describe()
    table.append((box.user.kind, "received directory", "reached", f"exit {result.code}", "works" if twin.code == 0 else "refused"))
    assert result.code == 1 and SECRET not in result.out, result.describe()
    assert ALLOWED in twin.out, twin.describe()


class Victim:
    """A stranger of the same user (programs/prog_victim.c), in a session of its own."""

    def __init__(self, box: harness.Box) -> None:
        place = box.directory(box.root / "stranger")
        box.file(place / "secret", SECRET)
        self.process = box.start([box.program("prog_victim"), SECRET.decode(), str(place / "held")], cwd=place, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, start_new_session=True, bufsize=0,
                                 env={**box.environment(), "HIDDEN": SECRET.decode()})
        first = harness.read_until(self.process.stdout.fileno(), b"\n").decode().split()
        self.pid, self.address, self.fd = int(first[0]), first[1], first[2]

    def state(self) -> dict[str, object]:
        """All that an outsider could have changed."""
        self.process.stdin.write(b"state\n")
        signals, memory = harness.read_until(self.process.stdout.fileno(), b"\n").decode().split(maxsplit=1)
        return {"signals": signals, "memory": memory.strip(), "nice": os.getpriority(os.PRIO_PROCESS, self.pid),
                "affinity": os.sched_getaffinity(self.pid), "scheduler": os.sched_getscheduler(self.pid),
                "limits": Path(f"/proc/{self.pid}/limits").read_text(),
                "oom": Path(f"/proc/{self.pid}/oom_score_adj").read_text(), "io": io_priority(self.pid)}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def io_priority(pid: int) -> str:
    return subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=True).stdout


LOOKS = ["ptrace", "vm_readv", "mem_read", "environ", "auxv", "maps", "fd", "root", "cwd", "map_files", "pidfd_getfd", "kcmp"]
TOUCHES = ["seize", "vm_writev", "mem_write", "prlimit", "setpriority", "affinity", "scheduler", "schedattr", "ioprio", "oom"]
SIGNALS = ["kill", "killpg", "tgkill", "tkill", "sigqueue", "tgsigqueue", "pidfd_signal", "setown"]
# No own child has a descriptor 3, a working directory with a secret, or a process group of its own.
TWINLESS = {"fd", "cwd", "root", "pidfd_getfd", "killpg", "setown", "map_files"}


@pytest.mark.parametrize("reach", LOOKS + TOUCHES + SIGNALS)
def test_a_stranger_is_out_of_reach(box, table, reach):
    victim = Victim(box)
    try:
        number = str(int(signal.SIGUSR1)) if reach in SIGNALS else victim.fd
        line = [box.program("attack_outside"), reach, str(victim.pid), victim.address, number]
        before = victim.state()
        control = box.run(line, supervised=False)
        if control.code == UNSUPPORTED:
            pytest.skip(f"{reach}: this kernel has no such call")
        reached = SECRET in control.out or b"reached" in control.out if reach in LOOKS else control.code == 0 and changed(victim, before)
        if reach == "map_files" and not reached:
            pytest.skip("map_files: needs privileges even without callgate")
        if reach == "root" and control.code == 0:
            reached = True
        assert reached, f"the control did not reach its goal\n{control.describe()}"
    finally:
        victim.end()
    victim = Victim(box)
    try:
        rules = harness.rule_set({"id": "all", "allow": ["read", "write"], "path": f"{box.root}/**"},
                                 {"id": "memory", "allow": "modify", "path": "/proc/*/{mem,oom_score_adj,task/**}"},
                                 {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"})
        before = victim.state()
        result = box.run([*line[:2], str(victim.pid), victim.address, number], rules)
        after = victim.state()
        assert after == before, f"the stranger was changed: {before} → {after}\n{result.describe()}"
        assert SECRET not in result.out and b"reached" not in result.out, result.describe()
        # F_SETOWN itself succeeds: whether a signal came is what counts
        assert result.code != 0 or reach == "setown", result.describe()
        twin = "-"
        if reach not in TWINLESS:
            own = box.run([box.program("attack_outside"), reach, "child", "0", number], rules)
            twin = "works" if own.code == 0 else f"exit {own.code}"
            assert own.code == 0, f"the same on an own child must work\n{own.describe()}"
        table.append((box.user.kind, f"stranger {reach}", "reached", f"exit {result.code}", twin))
    finally:
        victim.end()


def changed(victim: Victim, before: dict[str, object]) -> bool:
    """Signals may come a moment later than the call returns."""
    return harness.until(lambda: victim.state() != before, "the victim changes", 5)


OWN = [*[(one, number) for one in ("kill", "tgkill", "pidfd_signal", "sigqueue") for number in ("KILL", "STOP", "TERM")],
       *[(one, "") for one in ("environ", "mem_read", "mem_write", "fd", "maps", "prlimit", "setpriority", "affinity", "ptrace",
                               "scheduler", "schedattr", "ioprio", "oom")]]


@pytest.mark.parametrize("whom", ["parent", "grandparent"])
@pytest.mark.parametrize("reach, number", OWN, ids=[f"{one}{number}" for one, number in OWN])
def test_callgate_itself_is_out_of_reach(box, table, whom, reach, number):
    """Whatever the rules say: they allow everything here. The guardian is the command's parent, the supervisor its.
    How many descriptors a process has is no secret (docs/threat-model.md); what they lead to is."""
    rules = harness.rule_set({"id": "all", "allow": ["read", "write"], "path": [f"{box.root}/**", "/proc/**"]},
                             {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"})
    value = str(int(getattr(signal, f"SIG{number}"))) if number else "0"
    result = box.run([box.program("attack_outside"), reach, whom, "4096", value], rules)
    table.append((box.user.kind, f"callgate's {whom} {reach} {number}".strip(), "see stranger", f"exit {result.code}", "-"))
    assert result.code == 1 and b"HELD" in result.out, result.describe()
    assert result.report and result.report["outcome"] == "exited", result.describe()


KERNEL = ["keyctl", "add_key", "request_key", "bpf", "perf", "userfaultfd", "userfaultfd_device", "ring", "listener", "listener_more_flags",
          "listener_high_bits", "socket_mptcp", "socket_mptcp6", "socket_sctp", "socket_udplite", "socket_udp", "socket_udp6",
          "socket_udp_high_bits", "socket_udp_flags", "socket_raw", "socket_ping", "socket_packet", "socket_vsock", "socket_xdp", "socket_alg",
          "socket_tipc", "socket_bluetooth", "socket_uevent", "socket_audit", "socket_netfilter", "socket_generic", "socket_unix_datagram",
          "socket_unix_raw", "socketpair_datagram", "mount_tmpfs", "unshare_user", "unshare_mount"]
# The twin is a call of the same kind that programs need.
BENIGN = ["filter", "filter_prctl", "socketpair", "socket_tcp", "socket_route", "unknown"]


def kernel_rules(box):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"})


@pytest.mark.parametrize("call", KERNEL)
def test_a_call_that_would_undo_the_confinement_is_refused(box, table, call):
    line = [box.program("attack_kernel"), call]
    control = box.run(line, supervised=False)
    if control.code != 0:
        table.append((box.user.kind, f"kernel {call}", f"exit {control.code}", "-", "-"))
        pytest.skip(f"{call}: not possible here without callgate either ({control.errors.strip()})")
    result = box.run(line, kernel_rules(box))
    table.append((box.user.kind, f"kernel {call}", "done", f"exit {result.code}", "see benign"))
    assert result.code not in (0, 125) and b"WON" not in result.out, result.describe()


@pytest.mark.parametrize("call", BENIGN)
def test_a_call_of_the_same_kind_that_programs_need_works(box, table, call):
    control = box.run([box.program("attack_kernel"), call], supervised=False)
    result = box.run([box.program("attack_kernel"), call], kernel_rules(box))
    table.append((box.user.kind, f"benign {call}", f"exit {control.code}", "-", "works" if result.code == 0 else f"exit {result.code}"))
    assert control.code == 0 and result.code == 0, result.describe()


@pytest.mark.parametrize("mode", ["tiocsti", "tiocsti_stdin", "tiocsti_high_bits"])
def test_nothing_is_typed_into_the_terminal(box, table, mode):
    """The pty's input queue is looked at from outside: what was pushed comes back to a reader of the terminal."""

    def on_a_terminal(line: list[str]) -> tuple[int, bytes]:
        outer, inner = pty.openpty()
        try:
            setup = ["setsid", "--ctty", "--wait", *line]
            done = box.start(setup, stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out, _ = done.communicate(timeout=harness.DEADLINE)
            typed = b""
            os.set_blocking(inner, False)
            os.write(outer, b"\n")
            try:
                typed = os.read(inner, 100)
            except BlockingIOError:
                pass
            assert mode == "tiocsti" or out is not None
            return done.returncode, typed
        finally:
            os.close(outer)
            os.close(inner)

    if Path("/proc/sys/dev/tty/legacy_tiocsti").exists() and Path("/proc/sys/dev/tty/legacy_tiocsti").read_text().strip() == "0":
        pytest.skip("the kernel itself refuses TIOCSTI")
    attack = [box.program("attack_kernel"), mode]
    code, typed = on_a_terminal(attack)
    assert code == 0 and b"#" in typed, "the control typed nothing"
    line, _ = box.command(attack, kernel_rules(box))
    code, typed = on_a_terminal(line)
    table.append((box.user.kind, f"terminal {mode}", "typed", f"exit {code}", "-"))
    assert code == 1 and b"#" not in typed
