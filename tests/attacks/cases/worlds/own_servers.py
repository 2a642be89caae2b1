"""Servers of a run on loopback, and a process outside that listens at their ports, or comes to them."""
from __future__ import annotations

import dataclasses
import socket
import subprocess

import harness
from cases.case import Attack, Impossible, Outcome, Scene, check
from cases.worlds.listeners import free_port

# argv: HOST PORT OPTION until|once. It says TRYING, then TAKEN or REFUSED, and at the end of its input how many came.
OUTSIDE = r"""
import errno, select, socket, sys
host, port, option, tries = sys.argv[1:]
six = ":" in host
print("TRYING", flush=True)
while True:
    one = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
    try:
        one.bind((host, int(port)))
        one.listen()
        break
    except OSError as error:
        one.close()
        if tries == "once" or select.select([sys.stdin], [], [], 0)[0]:
            print("REFUSED", errno.errorcode[error.errno], flush=True)
            sys.exit(0)
print("TAKEN", flush=True)
seen = 0
while True:
    ready, _, _ = select.select([one, sys.stdin], [], [])
    if one in ready:
        one.accept()[0].close()
        seen += 1
    elif sys.stdin in ready:
        break
print("SEEN", seen, flush=True)
"""

COMMON = r"""
import ctypes, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
LOOPBACK = "127.0.0.1"

def made(address=LOOPBACK, port=0, listens=True, before=(), family=None):
    one = socket.socket(family or (socket.AF_INET6 if ":" in address else socket.AF_INET))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for option in before: one.setsockopt(socket.SOL_SOCKET, option, 1)
    one.bind((address, port))
    if listens: one.listen()
    return one

def port_of(one): return one.getsockname()[1]

def meet(port):
    # The test starts what is outside, and answers.
    print("PORT", port, flush=True)
    os.read(0, 1)

def reach(port, address=LOOPBACK):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one:
        one.settimeout(20)
        one.connect((address, port))

def state(one): return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
SYN_SENT, LISTEN = 2, 10

IP_MINTTL = 21
def deaf():
    # It drops every packet that this host sends.
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 255)
    return one

def hears(one): one.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 0)
"""

# argv: WAY PORT. It exits with 0 once it is connected.
REACHES = COMMON + r"""
def closed(address="127.0.0.1"):
    one = made(); port = port_of(one); one.close(); meet(port); reach(port, address)
def taken_over(): closed()
def taken_over_zero(): closed("0.0.0.0")
def taken_over_mapped(): closed("::ffff:127.0.0.1")
def taken_over_zero6(): closed("::")
def never_given():
    meet(int(sys.argv[2])); reach(int(sys.argv[2]))
def other_address():
    kept = made("127.0.0.2"); meet(port_of(kept)); reach(port_of(kept))
def other_family():
    kept = made("::1"); meet(port_of(kept)); reach(port_of(kept))
def not_listening():
    kept = made(listens=False); meet(port_of(kept)); reach(port_of(kept))
def ended_child():
    # The holder has ended; nobody closed it.
    near, far = os.pipe()
    if os.fork() == 0:
        os.write(far, struct.pack("H", port_of(made()))); os._exit(0)
    os.wait()
    port, = struct.unpack("H", os.read(near, 2)); meet(port); reach(port)
def handed():
    one = made(); port = port_of(one)
    with socket.socket(fileno=os.dup(0)) as line: socket.send_fds(line, [b"F"], [one.fileno()])
    one.close(); meet(port); reach(port)
def unanswered():
    one, caller = made(), deaf(); port = port_of(one)
    caller.setblocking(False)
    caller.connect_ex(("127.0.0.1", port))
    one.close(); meet(port); hears(caller)
    while state(caller) == SYN_SENT: pass
    sys.exit(state(caller) != 1)
def put_off():
    one, caller = made(), socket.socket(); port = port_of(one)
    caller.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    caller.setsockopt(socket.IPPROTO_TCP, 34, 1)  # TCP_FASTOPEN_NO_COOKIE
    caller.connect(("127.0.0.1", port))
    one.close(); meet(port); caller.send(b"x"); caller.settimeout(20); caller.recv(1)
def dissolved(dissolve):
    one, caller = made(), deaf(); port = port_of(one)
    def connect():
        try: caller.connect(("127.0.0.1", port))
        except OSError: pass
    thread = threading.Thread(target=connect); thread.start()
    while state(caller) != SYN_SENT: pass
    meet(port); hears(caller); dissolve(one); thread.join()
def shut_down(): dissolved(lambda one: one.shutdown(socket.SHUT_RDWR))
def unspecified(): dissolved(lambda one: libc.connect(one.fileno(), bytes(16), 16))
def device(): socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
def interface(): socket.socket().setsockopt(socket.SOL_SOCKET, 62, 1)
globals()[sys.argv[1]]()
"""

# argv: WAY PORT. It listens, and exits with 0 once somebody came.
SITS = COMMON + r"""
def sit(one):
    meet(port_of(one)); one.settimeout(20); one.accept()
def fixed(): sit(made(port=int(sys.argv[2])))
def fixed6(): sit(made("::1", int(sys.argv[2])))
def fixed_mapped(): sit(made("::ffff:127.0.0.1", int(sys.argv[2])))
def any_address(): sit(made("0.0.0.0"))
def any_address6(): sit(made("::"))
def any_given():
    one = made(); port = port_of(one); one.close(); sit(made("0.0.0.0", port))
def unbound():
    one = socket.socket(); one.listen(); sit(one)
def shared():
    one = made(before=[socket.SO_REUSEPORT]); meet(port_of(one))
def shared_later():
    one = made()
    try: one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except PermissionError: pass
    meet(port_of(one))
def shared_unbound():
    # A listener that gave up its port gets another one by listen(2).
    one = made(); one.shutdown(socket.SHUT_RDWR)
    try: one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except PermissionError: pass
    one.listen(); meet(port_of(one))
globals()[sys.argv[1]]()
"""

# The same among the run's own.
TWIN = COMMON + r"""
def works(one, address="127.0.0.1"):
    reach(port_of(one), address); one.accept()[0].close()
one = made(); works(one); works(one, "0.0.0.0"); works(one, "::ffff:127.0.0.1")
six = made("::1"); works(six, "::1"); works(six, "::")
mapped = made("::ffff:127.0.0.1"); works(mapped); works(mapped, "::ffff:127.0.0.1")
works(made("127.0.0.2"), "127.0.0.2")
both = made(before=[socket.SO_REUSEPORT]); works(both)
for again in range(20):  # it is closed, and begun anew at once
    port = port_of(one); one.close()
    assert socket.socket().connect_ex(("127.0.0.1", port)) == 111
    one = made(port=port); works(one)
if os.fork() == 0:  # a child serves, and its parent has closed the server
    one.accept()[0].send(b"x"); os._exit(0)
port = port_of(one); one.close()
with socket.create_connection(("127.0.0.1", port)) as caller: assert caller.recv(1) == b"x"
one = made(); one.shutdown(socket.SHUT_RDWR); one.listen(); works(one)
"""


class Outside:
    """The process outside, as the box's user."""

    def __init__(self, scene: Scene, host: str, port: int, option: str, tries: str) -> None:
        line = ["/usr/bin/python3", "-c", OUTSIDE, host, str(port), option, tries]
        self.process = scene.box.start(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.line() == "TRYING"

    def line(self) -> str:
        return self.process.stdout.readline().decode().strip()  # type: ignore[union-attr]

    def close(self) -> int:
        """How many came."""
        out, _ = self.process.communicate(timeout=harness.DEADLINE)
        words = out.decode().split()
        return int(words[words.index("SEEN") + 1]) if "SEEN" in words else 0


def twin(scene: Scene) -> Outcome:
    result = scene.supervised(["/usr/bin/python3", "-c", TWIN], None, ["--ask", "never"])
    denied = result.decisions(verdict="deny")
    return check({"its own server does not work": result.code != 0, "a call was denied": bool(denied)}, "served", result.describe())


class Played:
    """The script, its line to the test, and what it said."""

    def __init__(self, scene: Scene, script: str, way: str, port: int, supervised: bool) -> None:
        args = ["/usr/bin/python3", "-c", script, way, str(port)]
        line = scene.box.command(args, None, ["--ask", "never", *scene.options])[0] if supervised else args
        self.mine, theirs = socket.socketpair()
        with theirs:
            self.process = scene.box.start(line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = b""
        self.port = 0
        for first in self.process.stdout:  # type: ignore[union-attr]
            self.said += first
            if first.startswith(b"PORT"):
                self.port = int(first.split()[1])
                break

    def go_on(self) -> None:
        self.mine.send(b"G")

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=harness.DEADLINE)
        self.mine.close()
        return self.process.returncode, (self.said + out + err).decode("utf-8", "backslashreplace")


@dataclasses.dataclass(frozen=True)
class ReachesOutside(Attack):
    """A run connects to a port where a process outside listens, which it may not under the default profile."""

    way: str
    host: str = "127.0.0.1"  # of the process outside
    handed: bool = False     # the process outside gets the run's listener
    early: bool = False      # it tries while the run still listens

    def play(self, scene: Scene, supervised: bool) -> tuple[int, int, str]:
        played = Played(scene, REACHES, self.way, free_port(), supervised)
        seen = 0
        if played.port and self.handed:
            _, numbers, _, _ = socket.recv_fds(played.mine, 1, 1)
            with socket.socket(fileno=numbers[0]) as listener:
                played.go_on()
                code, text = played.end()
                listener.setblocking(False)
                try:
                    listener.accept()[0].close()
                    seen = 1
                except BlockingIOError:
                    pass
            return code, seen, text
        outside = None
        if played.port:
            outside = Outside(scene, self.host, played.port, "SO_REUSEADDR", "until")
            if not self.early:
                assert outside.line() == "TAKEN"
            played.go_on()
        code, text = played.end()
        return code, outside.close() if outside else 0, text

    def control(self, scene: Scene) -> Outcome:
        code, seen, text = self.play(scene, supervised=False)
        return check({"the control did not reach it": seen == 0}, f"seen {seen}", f"exit {code}\n{text}")

    def held(self, scene: Scene) -> Outcome:
        code, seen, text = self.play(scene, supervised=True)
        return check({"the process outside saw it": seen != 0}, f"seen {seen}", f"exit {code}\n{text}")

    def twin(self, scene: Scene) -> Outcome:
        return twin(scene)


@dataclasses.dataclass(frozen=True)
class LeavesHost(Attack):
    """A socket that is bound to a device sends even to loopback addresses by it."""

    way: str

    def control(self, scene: Scene) -> Outcome:
        result = scene.bare(["/usr/bin/python3", "-c", REACHES, self.way])
        if result.code != 0:
            raise Impossible(f"not possible bare either: {result.errors.strip()}")
        return Outcome(True, "done")

    def held(self, scene: Scene) -> Outcome:
        result = scene.supervised(["/usr/bin/python3", "-c", REACHES, self.way], None, ["--ask", "never"])
        return check({"the call succeeded": result.code == 0}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        return twin(scene)


@dataclasses.dataclass(frozen=True)
class SitsThere(Attack):
    """A run listens where somebody outside will come, which it may not under the default profile."""

    way: str
    host: str = "127.0.0.1"  # to which the caller from outside comes

    def play(self, scene: Scene, supervised: bool) -> tuple[bool, str]:
        played = Played(scene, SITS, self.way, free_port(), supervised)
        reached = False
        if played.port:
            with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as caller:
                reached = caller.connect_ex((self.host, played.port)) == 0
                played.go_on()
                code, text = played.end()
        else:
            code, text = played.end()
        return reached and code == 0, text

    def control(self, scene: Scene) -> Outcome:
        reached, text = self.play(scene, supervised=False)
        return check({"the control was not reached": not reached}, "reached", text)

    def held(self, scene: Scene) -> Outcome:
        reached, text = self.play(scene, supervised=True)
        return check({"somebody outside came to it": reached}, "not reached", text)

    def twin(self, scene: Scene) -> Outcome:
        return twin(scene)


@dataclasses.dataclass(frozen=True)
class SharesPort(Attack):
    """A process outside can listen beside a server of the run, so that each gets callers of the other."""

    way: str

    def play(self, scene: Scene, supervised: bool) -> tuple[str, str]:
        played = Played(scene, SITS, self.way, free_port(), supervised)
        assert played.port, played.end()[1]
        outside = Outside(scene, "127.0.0.1", played.port, "SO_REUSEPORT", "once")
        said = outside.line()
        outside.close()
        played.go_on()
        return said, played.end()[1]

    def control(self, scene: Scene) -> Outcome:
        said, text = self.play(scene, supervised=False)
        return check({"the control did not share its port": said != "TAKEN"}, said, text)

    def held(self, scene: Scene) -> Outcome:
        said, text = self.play(scene, supervised=True)
        return check({"the process outside listens beside it": said != "REFUSED EADDRINUSE"}, said, text)

    def twin(self, scene: Scene) -> Outcome:
        return twin(scene)
