"""A service of the user listens in the work directory of a run."""
from __future__ import annotations

import dataclasses
import os
import socket

import harness
from cases.case import RACE_ROUNDS, Attack, Outcome, Scene, check
from cases.worlds.listeners import Listener

# argv: WAY SERVICE OWN ROUNDS. Exits with 0 once it is connected to the service.
SCRIPT = r"""
import os, socket, sys, threading
way, service, own, rounds = sys.argv[1:]

def reach(name, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(name)
        one.send(b"x")

def server(name):
    made = socket.socket(socket.AF_UNIX)
    made.bind(name)
    made.listen()
    return made

def plain(): reach(service)
def relative():
    os.chdir(os.path.dirname(service)); reach(os.path.basename(service))
def proc_root(): reach("/proc/self/root" + service)
def proc_fd(): fd = os.open(service, os.O_PATH); reach(f"/proc/self/fd/{fd}")
def link(): os.symlink(service, own); reach(own)
def renamed(): os.rename(service, own); reach(own)
def hard_link(): os.link(service, own); reach(own)
def beside(): kept = server(own); reach(service)
def replaced():
    # The service's socket gets the name of a socket that the run has bound.
    kept = server(own); os.rename(service, own); reach(own)
def exchanged():
    import ctypes
    kept = server(own)
    if ctypes.CDLL(None).renameat2(-100, own.encode(), -100, service.encode(), 2): sys.exit(1)
    reach(own)
def child():
    if os.fork() == 0:
        try: reach(service)
        except OSError: os._exit(1)
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
def again():
    # The numbers of inodes come again.
    for _ in range(50):
        kept = server(own); os.unlink(own); kept.close()
    reach(service)
def raced():
    # A sibling moves the service's socket to the name while it is bound.
    ended = False
    def swap():
        while not ended:
            try: os.rename(service, own); os.rename(own, service)
            except OSError: pass
    for _ in range(int(rounds)):
        thread = threading.Thread(target=swap); ended = False; thread.start()
        try: kept = server(own); kept.close()
        except OSError: pass
        ended = True; thread.join()
        if os.path.exists(own):
            if os.path.exists(service): os.unlink(own)
            else: os.rename(own, service)
    reach(service)

globals()[way]()
"""

# The same, where the service is the run's own.
TWIN = SCRIPT.replace("globals()[way]()", """
first = server(own + ".1")
reach(own + ".1")
os.rename(own + ".1", own + ".2")
reach(own + ".2")
for _ in range(30):  # it is begun anew
    os.unlink(own + ".2"); first.close(); first = server(own + ".2"); reach(own + ".2")
service, own = own + ".2", own + ".3"
if way == "raced": rounds = "3"
globals()[way]()
""")


@dataclasses.dataclass(frozen=True)
class WorkSocket(Attack):
    """A run connects to the service, which no rule names. The default profile allows sockets of the work directory."""

    way: str

    def play(self, scene: Scene, script: str, supervised: bool) -> tuple[harness.Result, int]:
        box = scene.box
        harness.remove_tree(box.tree)
        box.directory(box.tree)
        service = box.tree / "service"
        outside = box.directory(box.root / "outside") / "listener"
        outside.unlink(missing_ok=True)
        listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, str(outside))  # whatever becomes of its name in the work directory
        try:
            outside.chmod(0o777)
            os.link(outside, service)
            box.own(service)
            line = ["/usr/bin/python3", "-c", script, self.way, str(service), str(box.tree / "own"), str(RACE_ROUNDS // 10)]
            result = scene.supervised(line, None, ["--ask", "never"]) if supervised else scene.bare(line)
        finally:
            seen = listener.close()
        return result, seen

    def control(self, scene: Scene) -> Outcome:
        result, seen = self.play(scene, SCRIPT, supervised=False)
        return check({"the control did not reach it": seen == 0 or result.code != 0}, f"seen {seen}", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, seen = self.play(scene, SCRIPT, supervised=True)
        denied = [one for one in result.decisions(verdict="deny") if one.get("rule", {}).get("name") == "callgate-others-sockets"]
        return check({"the service saw it": seen != 0, "the call succeeded": result.code == 0, "it is not on record": not denied},
                     f"seen {seen}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result, seen = self.play(scene, TWIN, supervised=True)
        return check({"its own service was not reached": result.code != 0, "the other one saw it": seen != 0}, "reached", result.describe())
