"""Servers outside: a denied connect means that the listener saw nothing, not only that errno was set."""
from __future__ import annotations

import dataclasses
import errno
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any, Callable, ClassVar

import harness
from cases.case import ENOUGH_WINS, HELD_FACTOR, RACE_ROUNDS, Attack, Impossible, Outcome, Scene, check, possible, wins


class Listener:
    """Takes callers and datagrams on one address and remembers that they came, even those that said nothing."""

    def __init__(self, family: int, kind: int, address: Any) -> None:
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
            self.thread.join(harness.DEADLINE)
        if self.thread.is_alive():
            raise AssertionError("the listener did not come to its end")
        self.socket.close()
        return self.seen


class Servers:
    """A good and a bad port, each with tcp on 127.0.0.1 and ::1 and udp on 127.0.0.1."""

    def __init__(self) -> None:
        self.good_port, self.good = self.listen()
        self.bad_port, self.bad = self.listen()

    @staticmethod
    def listen() -> tuple[int, list[Listener]]:
        """A port that is free may be another test's before it is taken: then another one."""
        while True:
            port = free_port()
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)), (socket.AF_INET6, socket.SOCK_STREAM, ("::1", port)),
                         (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port))]
            made: list[Listener] = []
            try:
                for address in addresses:
                    made.append(Listener(*address))
                return port, made
            except OSError as error:
                for one in made:
                    one.close()
                if error.errno != errno.EADDRINUSE:
                    raise

    def close(self) -> tuple[int, int]:
        return sum(one.close() for one in self.good), sum(one.close() for one in self.bad)


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


def rules(box: harness.Box, *more: dict[str, Any]) -> dict[str, Any]:
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


def tcp(port: int) -> dict[str, Any]:
    return {"id": "tcp", "allow": "connect", "address": ["127.0.0.0/8", "::1", "0.0.0.0", "::"], "port": port, "protocol": "tcp"}


def udp(port: int) -> dict[str, Any]:
    return {"id": "udp", "allow": "connect", "address": "127.0.0.1", "port": port, "protocol": "udp"}


RulesFor = Callable[[int, int], list[dict[str, Any]]]  # good port, bad port


def run_between(servers: Servers, scene: Scene, words: list[str], allowed: RulesFor | None,
                options: tuple[str, ...] = ()) -> tuple[harness.Result, int, int]:
    """attack_net between the two, bare where nothing is `allowed`, and what the good and the bad one saw of it."""
    line = [scene.box.program("attack_net"), *words]
    try:
        if allowed is None:
            result = scene.bare(line)
        else:
            result = scene.supervised(line, rules(scene.box, *allowed(servers.good_port, servers.bad_port)), options)
    finally:
        good, bad = servers.close()
    return result, good, bad


@dataclasses.dataclass(frozen=True)
class Reach(Attack):
    """`attack_net MODE GOOD BAD`: one reach at the bad port. `twin_mode` where this way is closed for every address."""

    mode: str
    allowed: RulesFor = lambda good, bad: [tcp(good)]
    twin_mode: str = ""
    options: tuple[str, ...] = ()

    def play(self, scene: Scene, supervised: bool, twin: bool = False) -> tuple[harness.Result, int, int]:
        servers = Servers()
        mode = self.twin_mode or self.mode if twin else self.mode
        words = [mode, str(servers.good_port), str(servers.good_port if twin else servers.bad_port)]
        return run_between(servers, scene, words, self.allowed if supervised else None, self.options)

    def control(self, scene: Scene) -> Outcome:
        result, _, seen = self.play(scene, supervised=False)
        possible(result)
        return check({"the control did not reach the listener": seen == 0}, f"seen {seen}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, _, seen = self.play(scene, supervised=True)
        return check({"the denied listener saw it": seen != 0, "the call succeeded": result.code == 0}, f"seen {seen}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result, seen, _ = self.play(scene, supervised=True, twin=True)
        return check({"the allowed listener was not reached": seen == 0 or result.code != 0}, f"seen {seen}", result.describe())


@dataclasses.dataclass(frozen=True)
class RacedReach(Attack):
    """`attack_net race_... GOOD BAD MILLISECONDS ROUNDS`: the address, or the socket, changes while the call is judged.

    `victims`: which of the listeners must see nothing; the good ones too where it is the wrong socket that must not reach them.
    """

    mode: str
    allowed: RulesFor = lambda good, bad: [tcp(good)]
    victims: Callable[[Servers], list[Listener]] = lambda servers: servers.bad
    tags = frozenset({"race"})

    def play(self, scene: Scene, supervised: bool) -> tuple[harness.Result, int, int]:
        servers = Servers()
        rounds = RACE_ROUNDS * scene.factor * (HELD_FACTOR if supervised else 1)
        words = [self.mode, str(servers.good_port), str(servers.bad_port), str(scene.milliseconds), str(rounds),
                 "0" if supervised else str(ENOUGH_WINS)]
        result, good, _ = run_between(servers, scene, words, self.allowed if supervised else None)
        return result, good, sum(one.seen for one in self.victims(servers))

    def control(self, scene: Scene) -> Outcome:
        for scene.factor in scene.factors:
            result, _, seen = self.play(scene, supervised=False)
            won, _ = wins(possible(result))
            if won >= ENOUGH_WINS:
                break
        return check({"the race is won too seldom to prove anything": won < ENOUGH_WINS, "no listener saw it": seen == 0},
                     f"{won} wins", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, good, seen = self.play(scene, supervised=True)
        won, twin = wins(result)
        scene.kept.update(twin=twin, good=good, describe=result.describe())
        return check({"won by its own account": won != 0, "the denied listener saw it": seen != 0}, f"{won} wins", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        twin, good = scene.kept.get("twin", 0), scene.kept.get("good", 0)
        return check({"the allowed side was never reached": twin == 0 or good == 0}, f"{twin} reached", scene.kept.get("describe", ""))


@dataclasses.dataclass(frozen=True)
class UnixReach(Attack):
    """`attack_net MODE GOOD BAD` with two unix sockets, by path in two directories, or by abstract name."""

    mode: str
    kind: int = socket.SOCK_STREAM
    abstract: bool = False
    raced: bool = False
    datagrams: bool = False  # the rule says so; otherwise no datagram socket can be made
    twin_mode: str = ""
    options: tuple[str, ...] = ()
    denied_inside: bool = False  # both directories are in an allowed one, and the bad one is denied: where Landlock could hold sockets

    @property
    def tags(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"race"}) if self.raced else frozenset()

    def name(self, scene: Scene, side: str, turn: str) -> str:
        if self.abstract:
            return f"@cg-{scene.box.root.parent.name}-{scene.box.root.name}-{self.mode}-{turn}-{side}"
        top = scene.box.directory(scene.box.tree / turn)
        return str(scene.box.directory(top / side) / "sock")

    def listen(self, scene: Scene, name: str, kind: int) -> Listener:
        listener = Listener(socket.AF_UNIX, kind, "\0" + name[1:] if self.abstract else name)
        if not self.abstract:
            Path(name).chmod(0o777)
            scene.box.own(Path(name))
        return listener

    def play(self, scene: Scene, turn: str, supervised: bool, twin: bool = False) -> tuple[harness.Result, int, int]:
        mode, kind = self.mode, self.kind
        if twin and self.twin_mode:
            mode, kind = self.twin_mode, socket.SOCK_STREAM
        good, bad = self.name(scene, "A", turn), self.name(scene, "B", turn)
        listeners = [self.listen(scene, name, kind) for name in (good, bad)]
        line = [scene.box.program("attack_net"), mode, good, good if twin else bad]
        if self.raced:
            rounds = RACE_ROUNDS * scene.factor * (HELD_FACTOR if supervised else 1)
            line += [str(scene.milliseconds), str(rounds), "0" if supervised else str(ENOUGH_WINS)]
        above = Path(good).parent.parent if self.denied_inside else Path(good).parent
        allowed = [{"id": "unix", "allow": "connect", "unix": good if self.abstract else f"{above}/**"}]
        if self.denied_inside:
            allowed.append({"id": "inside", "deny": "connect", "unix": f"{Path(bad).parent}/**"})
        if self.datagrams:
            allowed.append({**allowed[0], "id": "datagrams", "protocol": "datagram"})
        try:
            result = scene.supervised(line, rules(scene.box, *allowed), self.options) if supervised else scene.bare(line)
        finally:
            seen = [one.close() for one in listeners]
        return result, seen[0], seen[1]

    def control(self, scene: Scene) -> Outcome:
        if self.denied_inside and harness.LANDLOCK_ABI < 9:
            raise Impossible("Landlock holds no unix sockets before ABI 9")
        for scene.factor in scene.factors if self.raced else (1,):
            result, _, seen = self.play(scene, f"control{scene.factor}", supervised=False)
            possible(result)
            won = wins(result)[0] if self.raced else seen
            if won >= (ENOUGH_WINS if self.raced else 1):
                break
        return check({"the control did not reach the socket": seen == 0 or won == 0,
                      "the race is won too seldom to prove anything": self.raced and won < ENOUGH_WINS}, f"seen {seen}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, good, bad = self.play(scene, "held", supervised=True)
        scene.kept.update(good=good, describe=result.describe())
        return check({"the denied socket saw it": bad != 0, "the call succeeded": not self.raced and result.code == 0},
                     f"seen {bad}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        if self.raced:
            good, described = scene.kept.get("good", 0), scene.kept.get("describe", "")
        else:
            result, good, _ = self.play(scene, "twin", supervised=True, twin=True)
            described = result.describe()
        return check({"the allowed socket was not reached": good == 0}, f"seen {good}", described)


@dataclasses.dataclass(frozen=True)
class UnspecifiedBound(Attack):
    """The kernel connects 0.0.0.0 to the address that a socket is bound to: here one that no rule names."""

    def play(self, scene: Scene, supervised: bool) -> tuple[harness.Result, int, int]:
        port = free_port()
        here, there = (Listener(socket.AF_INET, socket.SOCK_STREAM, (host, port)) for host in ("127.0.0.1", "127.0.0.2"))
        line = [scene.box.program("attack_net"), "zero_bound", "1", str(port)]
        allowed = [{"id": "here", "allow": "connect", "address": "127.0.0.1", "port": port}, {"id": "source", "allow": "bind", "port": 0}]
        try:
            result = scene.supervised(line, rules(scene.box, *allowed)) if supervised else scene.bare(line)
        finally:
            seen = here.close(), there.close()
        return result, *seen

    def control(self, scene: Scene) -> Outcome:
        result, _, there = self.play(scene, supervised=False)
        return check({"the control did not reach the other address": there == 0}, f"seen {there}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, here, there = self.play(scene, supervised=True)
        scene.kept.update(here=here, describe=result.describe())
        return check({"the other address was reached": there != 0}, f"seen {there}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        """It goes where it was judged to go."""
        here = scene.kept.get("here", 0)
        return check({"the allowed address was not reached": here == 0}, f"seen {here}", scene.kept.get("describe", ""))


@dataclasses.dataclass(frozen=True)
class Listening(Attack):
    """A mode of attack_net that listens: judged by a caller from outside, who is refused."""

    mode: str
    family: int = socket.AF_INET
    kind: int = socket.SOCK_STREAM
    callers: ClassVar[int] = 1

    def play(self, scene: Scene, line: list[str]) -> tuple[bool, str, int | None]:
        process = scene.box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.readline().decode()  # type: ignore[union-attr]
        reached = False
        host = "::1" if self.family == socket.AF_INET6 else "127.0.0.1"
        if first.startswith("PORT"):
            for _ in range(self.callers):
                with socket.socket(self.family, self.kind) as caller:
                    reached = caller.connect_ex((host, int(first.split()[1]))) == 0
                    if self.kind == socket.SOCK_DGRAM:
                        caller.send(b"hello")
            out, err = process.communicate(timeout=harness.DEADLINE)
        else:
            out, err = process.communicate(timeout=harness.DEADLINE)
        text = (first.encode() + out + err).decode("utf-8", "backslashreplace")
        return reached and "ACCEPTED" in text, text, process.returncode

    def line(self, scene: Scene) -> list[str]:
        return [scene.box.program("attack_net"), self.mode, "1", str(self.port(scene))]

    def port(self, scene: Scene) -> int:
        return free_port()

    def supervised(self, scene: Scene, *more: dict[str, Any]) -> tuple[bool, str, int | None]:
        line, _ = scene.box.command(self.line(scene), rules(scene.box, *more), scene.options)
        return self.play(scene, line)

    def opened(self) -> list[dict[str, Any]]:
        """So that there is a datagram socket at all."""
        return [udp(9)] if self.kind == socket.SOCK_DGRAM else []

    def control(self, scene: Scene) -> Outcome:
        reached, text, _ = self.play(scene, self.line(scene))
        return check({"the control was not reached": not reached}, "reached", text)

    def held(self, scene: Scene) -> Outcome:
        reached, text, code = self.supervised(scene, *self.opened())
        return check({"a caller from outside reached it": reached, "it listens": "PORT" in text, "it failed otherwise": code != 1},
                     f"exit {code}", text)

    def twin(self, scene: Scene) -> Outcome:
        protocol = "udp" if self.kind == socket.SOCK_DGRAM else "tcp"
        allowed = {"id": "listen", "allow": "bind", "address": ["0.0.0.0/0", "::/0"], "protocol": protocol}
        reached, text, _ = self.supervised(scene, allowed)
        return check({"it was not reached": not reached}, "works", text)


class ListeningAfterwards(Listening):
    """Listens with a socket whose connect was allowed and failed."""

    def opened(self) -> list[dict[str, Any]]:
        return [{"id": "refused", "allow": "connect", "address": "127.0.0.1"}]

    def supervised(self, scene: Scene, *more: dict[str, Any]) -> tuple[bool, str, int | None]:
        return super().supervised(scene, *self.opened(), *(one for one in more if one["id"] != "refused"))


HOLDER = """
import socket, sys
held = socket.socket(); held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
held.bind(("127.0.0.1", 0)); held.listen(128); print(held.getsockname()[1], flush=True); sys.stdin.read()
"""


@dataclasses.dataclass(frozen=True)
class PortShared(Listening):
    """A port on which a process of the same user listens already: SO_REUSEPORT would hand some of its callers over."""

    callers: ClassVar[int] = 64  # the kernel shares them out among the listeners

    def port(self, scene: Scene) -> int:
        holder = scene.box.start(["/usr/bin/python3", "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return int(harness.read_until(holder.stdout.fileno(), b"\n"))  # type: ignore[union-attr]
