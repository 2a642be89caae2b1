"""Attacks on the network and on unix sockets: a denied connect means that the listener saw nothing."""
from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path

import pytest

import harness
from attackbox import BUDGET, ROUNDS, UNSUPPORTED, wins

BOTH = ["tcp", "udp"]


class Listener:
    """Takes callers and datagrams on one address and remembers that they came, even those that said nothing."""

    def __init__(self, family: int, kind: int, address) -> None:
        self.socket = socket.socket(family, kind)
        self.kind = kind
        if family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.bind(address)
        if kind == socket.SOCK_STREAM:
            self.socket.listen(128)
        self.seen = 0
        self.thread = threading.Thread(target=self.take, daemon=True)
        self.thread.start()

    def take(self) -> None:
        """Until one says `end`; who says nothing, or breaks off, counts too."""
        said = b""
        while said != b"end":
            if self.kind == socket.SOCK_STREAM:
                caller, _ = self.socket.accept()
                with caller:
                    try:
                        said = caller.recv(100)
                    except ConnectionError:
                        said = b""
            else:
                said = self.socket.recv(100)
            self.seen += said != b"end"

    def close(self) -> int:
        """Everything that came before this call is counted: the queue is in order, and this caller is its last."""
        address = self.socket.getsockname()
        with socket.socket(self.socket.family, self.kind) as last:
            last.connect(address)
            last.send(b"end")
            self.thread.join(20)
        assert not self.thread.is_alive(), "the listener did not come to its end"
        self.socket.close()
        return self.seen


class Servers:
    """A good and a bad port, each with tcp on 127.0.0.1 and ::1 and udp on 127.0.0.1."""

    def __init__(self) -> None:
        self.good_port, self.bad_port = self.free_port(), self.free_port()
        self.good, self.bad = self.listen(self.good_port), self.listen(self.bad_port)

    @staticmethod
    def free_port() -> int:
        for _ in range(100):
            with socket.socket() as one, socket.socket(socket.AF_INET6) as two, socket.socket(type=socket.SOCK_DGRAM) as three:
                one.bind(("127.0.0.1", 0))
                port = one.getsockname()[1]
                try:
                    two.bind(("::1", port))
                    three.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue
        raise AssertionError("no free port")

    @staticmethod
    def listen(port: int) -> list[Listener]:
        return [Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)), Listener(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port)),
                Listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port))]

    def close(self) -> tuple[int, int]:
        return sum(one.close() for one in self.good), sum(one.close() for one in self.bad)


def rules(box: harness.Box, port: int, udp: bool, *more):
    return harness.rule_set(
        {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "good", "allow": "connect", "address": ["127.0.0.0/8", "::1", "0.0.0.0", "::"], "port": port, "protocol": "tcp"},
        *([{"id": "datagrams", "allow": "connect", "address": "127.0.0.1", "port": port, "protocol": "udp"}] if udp else []),
        *more)


STREAM = ["connect", "connect6", "mapped", "zero", "zero6", "mapped_zero", "scope", "without_scope", "long", "high_bits", "unspec", "nonblocking",
          "fastopen_sendto", "fastopen_sendto_high", "fastopen_sendmsg", "fastopen_sendmmsg", "fastopen_connect", "mptcp", "ring"]
DATAGRAM = ["udp_connect", "udp_sendto", "udp_redirected", "udp_unspec", "udp_v4_on_v6", "udp_sendmsg", "udp_sendmmsg", "udp_sendmmsg_second"]
NO_TWIN = {"fastopen_sendto", "fastopen_sendto_high", "fastopen_sendmsg", "fastopen_sendmmsg", "mptcp", "ring"}  # closed for every address


@pytest.mark.parametrize("mode", STREAM + DATAGRAM + ["connect_no_udp_rule"])
def test_a_denied_listener_sees_nothing(box, table, mode):
    without_udp_rule = mode == "connect_no_udp_rule"
    way = "udp_sendto" if without_udp_rule else mode
    program = box.program("attack_net")
    servers = Servers()
    control = box.run([program, way, str(servers.good_port), str(servers.bad_port)], supervised=False)
    _, seen = servers.close()
    if control.code == UNSUPPORTED:
        pytest.skip(f"{mode}: this kernel has no such thing")
    assert seen > 0, f"the control did not reach the listener\n{control.describe()}"
    servers = Servers()
    wanted = rules(box, servers.good_port, mode in DATAGRAM)
    result = box.run([program, way, str(servers.good_port), str(servers.bad_port)], wanted)
    twin = box.run([program, way, str(servers.good_port), str(servers.good_port)], wanted)
    good, bad = servers.close()
    table.append((box.user.kind, f"net {mode}", f"seen {seen}", f"seen {bad}", f"seen {good}"))
    assert bad == 0, f"the denied listener saw {bad}\n{result.describe()}"
    assert result.code != 0, result.describe()
    if mode not in NO_TWIN and not without_udp_rule:
        assert twin.code == 0 and good > 0, f"the allowed listener was not reached\n{twin.describe()}"


@pytest.mark.parametrize("mode", ["race_connect", "race_connect6", "race_socket"])
def test_a_raced_connect_reaches_only_what_was_judged(box, table, mode):
    program = box.program("attack_net")
    for factor in (1, 4, 16):
        budget = str(int(BUDGET) * factor)
        servers = Servers()
        control = box.run([program, mode, str(servers.good_port), str(servers.bad_port), budget, ROUNDS], supervised=False)
        won, _ = wins(control)
        good, bad = servers.close()
        if won >= 5:
            break
    assert won >= 5, control.describe()
    servers = Servers()
    udp_good = servers.good[2]
    # race_socket: datagrams may go to the bad port, so that there is a datagram socket, but not to the good one
    datagrams = {"id": "datagrams", "allow": "connect", "address": "127.0.0.1", "port": servers.bad_port, "protocol": "udp"}
    wanted = rules(box, servers.good_port, False, *([datagrams] if mode == "race_socket" else []))
    result = box.run([program, mode, str(servers.good_port), str(servers.bad_port), budget, ROUNDS], wanted)
    claimed, twin = wins(result)
    good, bad = servers.close()
    table.append((box.user.kind, f"net {mode}", f"{won} wins", f"{claimed} wins", f"{twin} reached"))
    assert claimed == 0 and bad == 0, result.describe()
    assert mode != "race_socket" or udp_good.seen == 0, f"a datagram reached the listener\n{result.describe()}"
    assert twin > 0 and good > 0, result.describe()


UNIX = ["unix", "unix_relative", "unix_symlink", "unix_hardlink", "unix_proc_fd", "unix_datagram", "unix_pair_datagram", "abstract",
        "race_unix", "race_unix_link", "race_abstract"]


@pytest.mark.parametrize("mode", UNIX)
def test_a_denied_unix_socket_sees_nothing(box, table, mode):
    program, way = box.program("attack_net"), {"abstract": "unix", "race_abstract": "race_unix"}.get(mode, mode)
    kind = socket.SOCK_DGRAM if "datagram" in mode else socket.SOCK_STREAM
    marker = f"{box.root.name}-{mode}"

    def place(turn: str) -> tuple[str, str, Listener, Listener]:
        if "abstract" in mode:
            good, bad = f"@cg-{marker}-{turn}-A", f"@cg-{marker}-{turn}-B"
            return good, bad, Listener(socket.AF_UNIX, kind, "\0" + good[1:]), Listener(socket.AF_UNIX, kind, "\0" + bad[1:])
        top = box.directory(box.tree / turn)
        good, bad = str(box.directory(top / "A") / "sock"), str(box.directory(top / "B") / "sock")
        pair = Listener(socket.AF_UNIX, kind, good), Listener(socket.AF_UNIX, kind, bad)
        for one in (good, bad):
            Path(one).chmod(0o777)
            box.own(Path(one))
        return good, bad, *pair

    good, bad, good_listener, bad_listener = place("control")
    control = box.run([program, way, good, bad, BUDGET, ROUNDS], supervised=False)
    seen = bad_listener.close()
    good_listener.close()
    assert seen > 0, f"the control did not reach the socket\n{control.describe()}"
    good, bad, good_listener, bad_listener = place("held")
    folder = good if "abstract" in mode else f"{box.tree}/held/A/**"
    wanted = rules(box, 9, False, {"id": "unix", "allow": "connect", "unix": folder})
    result = box.run([program, way, good, bad, BUDGET, ROUNDS], wanted)
    for left in ("-link", "-hard"):
        Path(good + left).unlink(missing_ok=True)
    twin = box.run([program, way, good, good], wanted) if "race" not in mode else result
    good_seen, bad_seen = good_listener.close(), bad_listener.close()
    table.append((box.user.kind, f"net {mode}", f"seen {seen}", f"seen {bad_seen}", f"seen {good_seen}"))
    assert bad_seen == 0, f"the denied socket saw {bad_seen}\n{result.describe()}"
    if "datagram" not in mode:
        assert good_seen > 0, f"the allowed socket was not reached\n{twin.describe()}"


@pytest.mark.parametrize("mode", ["listen_unbound", "listen_unbound6", "bind", "bind_zero", "bind_unspec", "bind6"])
def test_nothing_listens_without_leave(box, table, mode):
    """Judged by a caller from outside: it is refused."""
    program = box.program("attack_net")

    def call(line: list[str]) -> tuple[bool, bytes, int]:
        process = box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.readline().decode()
        reached = False
        if first.startswith("PORT"):
            family, host = (socket.AF_INET6, "::1") if mode.endswith("6") else (socket.AF_INET, "127.0.0.1")
            with socket.socket(family) as caller:
                reached = caller.connect_ex((host, int(first.split()[1]))) == 0
                out, err = process.communicate(timeout=harness.DEADLINE)
        else:
            out, err = process.communicate(timeout=harness.DEADLINE)
        return reached, first.encode() + out + err, process.returncode

    port = Servers.free_port()
    reached, out, _ = call([program, mode, "1", str(port)])
    assert reached and b"ACCEPTED" in out, f"the control was not reached: {out!r}"
    line, _ = box.command([program, mode, "1", str(port)], rules(box, 9, False))
    held, out, code = call(line)
    allowed = {"id": "listen", "allow": "bind", "address": ["0.0.0.0/0", "::/0"]}
    line, _ = box.command([program, mode, "1", str(Servers.free_port())], rules(box, 9, False, allowed))
    twin, twin_out, _ = call(line)
    table.append((box.user.kind, f"net {mode}", "reached", "reached" if held else "refused", "works" if twin else "refused"))
    assert not held and code == 1, out
    assert twin, twin_out
