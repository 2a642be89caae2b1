"""System V objects and message queues of an outside process of the same user: found by key or name, read, changed, removed."""
from __future__ import annotations

import dataclasses
import os
import zlib
from pathlib import Path

import harness
from cases.case import Attack, Outcome, Scene, check, possible
from cases.worlds.listeners import rules


class Objects:
    """An object of each kind with content, made outside the run (programs/prog_objects.c)."""

    def __init__(self, box: harness.Box, turn: str) -> None:
        self.box, self.program = box, box.program("prog_objects")
        self.names = own_names(box, turn)
        made = box.run([self.program, "make", *self.names], supervised=False)
        self.ids = made.text.split()
        assert len(self.ids) == 3, made.describe()

    def state(self) -> tuple[str, str]:
        """The content that they hold, and how much lies in the System V queue."""
        queues = [line.split() for line in Path("/proc/sysvipc/msg").read_text().splitlines()]
        return (self.box.run([self.program, "show", *self.names, *self.ids], supervised=False).text,
                " ".join(*[line[3:5] for line in queues if line[1] == self.ids[2]] or [[]]))

    def remove(self) -> None:
        self.box.run([self.program, "remove", *self.names], supervised=False)


def own_names(box: harness.Box, turn: str) -> list[str]:
    """A key and a queue's name that nobody else uses."""
    number = zlib.crc32(f"{box.root}-{turn}-{os.getpid()}".encode())
    return [str(0x10000000 + number % 0x10000000), f"cg-{number}"]


@dataclasses.dataclass(frozen=True)
class UserObject(Attack):
    """`attack_objects MODE`: reads or finds what is an outside process's, or changes it."""

    mode: str
    looks: bool = False  # nothing is changed: what is printed counts

    def play(self, scene: Scene, turn: str, supervised: bool) -> tuple[harness.Result, bool]:
        objects = Objects(scene.box, turn)
        try:
            line = [scene.box.program("attack_objects"), self.mode, *objects.names, *objects.ids]
            before = objects.state()
            result = scene.supervised(line, rules(scene.box)) if supervised else scene.bare(line)
            return result, objects.state() != before
        finally:
            objects.remove()

    def control(self, scene: Scene) -> Outcome:
        result, changed = self.play(scene, "control", supervised=False)
        possible(result)
        reached = b"reached" in result.out if self.looks else changed
        return check({"the control did not reach its goal": not reached}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, changed = self.play(scene, "held", supervised=True)
        return check({"it was changed": changed, "it was reached": b"reached" in result.out, "the call succeeded": result.code == 0},
                     f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        line = [scene.box.program("attack_objects"), self.mode, *own_names(scene.box, "twin")]
        result = scene.supervised(line, rules(scene.box))
        return check({"the same on an own object does not work": result.code != 0}, "works", result.describe())


# Opens a queue by its name in the file system of queues, takes a message and removes the queue.
BY_PATH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
queue = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
message = ctypes.create_string_buffer(65536)
got = libc.mq_receive(queue, message, len(message), None)
print("reached", got > 0)
os.unlink(sys.argv[1])
"""
# A queue of one's own, by the calls that are for it.
BY_CALL = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
name = b"/" + sys.argv[1].encode()
queue = libc.mq_open(name, 0o2 | 0o100 | 0o200, 0o600, None)
message = ctypes.create_string_buffer(65536)
assert libc.mq_send(queue, b"own", 3, 0) == 0 and libc.mq_receive(queue, message, len(message), None) == 3 and libc.mq_unlink(name) == 0
"""


class QueueByPath(Attack):
    """A message queue of an outside process, where the file system of queues is mounted and the rules allow everything."""

    def play(self, scene: Scene, turn: str, supervised: bool) -> tuple[harness.Result, str]:
        objects = Objects(scene.box, turn)
        place = scene.box.directory(scene.box.tree / "queues")
        line = ["/usr/bin/python3", "-c", BY_PATH, f"{place}/{objects.names[1]}"]
        if supervised:
            line, _ = scene.box.command(line, harness.rule_set(default="allow"), scene.options)
        try:
            before = objects.state()
            result = scene.bare(["unshare", "--mount", "sh", "-c", f'mount -t mqueue none {place} && exec "$@"', "sh", *line])
            return result, "changed" if objects.state() != before else "as before"
        finally:
            objects.remove()

    def control(self, scene: Scene) -> Outcome:
        result, state = self.play(scene, "control", supervised=False)
        return check({"the control did not reach its goal": b"reached True" not in result.out or state != "changed"}, "reached", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result, state = self.play(scene, "held", supervised=True)
        return check({"the queue was changed": state == "changed", "it was reached": b"reached" in result.out,
                      "it is not the built-in rule": "callgate-queues" not in result.errors}, f"exit {result.code}", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        result = scene.supervised(["/usr/bin/python3", "-c", BY_CALL, own_names(scene.box, "twin")[1]], harness.rule_set(default="allow"))
        return check({"an own queue does not work": result.code != 0}, "works", result.describe())
