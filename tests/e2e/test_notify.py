"""`--notify desktop`: a stand-in for the desktop's notification service, on a bus of the test."""
from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess
import threading

import pytest

import harness
from approvers import Asked
from test_approval import Room, room  # noqa: F401 (a fixture)

BUS, NAME = b"org.freedesktop.DBus", b"org.freedesktop.Notifications"
CALL, REPLY = 1, 2


def aligned(data: bytes, to: int) -> bytes:
    return data + bytes(-len(data) % to)


def value(data: bytes, signature: bytes, one: bytes | int) -> bytes:
    """`data` and behind it one value of D-Bus's wire format: a string, a signature or a number."""
    if isinstance(one, int):
        return aligned(data, 4) + struct.pack("<I", one)
    if signature == b"g":
        return data + bytes([len(one)]) + one + b"\0"
    return aligned(data, 4) + struct.pack("<I", len(one)) + one + b"\0"


def message(kind: int, serial: int, body: bytes, fields: list[tuple[int, bytes, bytes | int]]) -> bytes:
    listed = b""
    for code, signature, one in fields:
        listed = value(aligned(listed, 8) + bytes([code, 1]) + signature + b"\0", signature, one)
    return aligned(struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), serial, len(listed)) + listed, 8) + body


def sender_of(fields: bytes) -> bytes:
    at = 0
    while at < len(fields):
        at += -at % 8
        code, signature = fields[at], fields[at + 2:at + 3]
        at += 4
        if signature == b"g":
            at += fields[at] + 2
            continue
        at += -at % 4
        (number,) = struct.unpack_from("<I", fields, at)
        at += 4
        if code == 7:
            return fields[at:at + number]
        at += 0 if signature == b"u" else number + 1
    raise AssertionError(f"a message without a sender: {fields!r}")


class Notifications:
    """A bus, and on it a service that takes notifications: D-Bus as it is on the wire."""

    def __init__(self, box: harness.Box) -> None:
        self.path = box.root / "bus"
        self.come: list[list[str]] = []
        self.ready = threading.Event()
        self.daemon = box.start(["/usr/bin/dbus-daemon", "--session", "--nofork", "--nopidfile", "--nosyslog", f"--address=unix:path={self.path}"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.bus, tests = socket.socket(socket.AF_UNIX), os.geteuid()
        os.seteuid(box.user.uid)  # the bus takes its own user
        try:
            harness.until(self.connected, "the bus listens")
        finally:
            os.seteuid(tests)
        self.bus.sendall(b"\0AUTH EXTERNAL " + str(box.user.uid).encode().hex().encode() + b"\r\n")
        said = self.bus.recv(4096)
        assert said.startswith(b"OK"), said
        self.bus.sendall(b"BEGIN\r\n")
        to_bus = [(1, b"o", b"/org/freedesktop/DBus"), (2, b"s", BUS), (6, b"s", BUS)]
        self.bus.sendall(message(CALL, 1, b"", [*to_bus, (3, b"s", b"Hello")]))
        named = value(value(b"", b"s", NAME), b"u", 0)
        self.bus.sendall(message(CALL, 2, named, [*to_bus, (3, b"s", b"RequestName"), (8, b"g", b"su")]))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        assert self.ready.wait(harness.DEADLINE), "the service has its name"

    def connected(self) -> bool:
        """A socket has its name before it listens."""
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            self.bus.connect(str(self.path))
            return True
        return False

    def read(self) -> None:
        stream, replies = self.bus.makefile("rb"), 0
        while len(head := stream.read(16)) == 16:
            size, serial, length = struct.unpack("<III", head[4:])
            fields = stream.read(length + -length % 8)[:length]
            body = stream.read(size)
            replies += head[1] == REPLY
            if replies == 2:
                self.ready.set()
            if head[1] == CALL:
                self.take(body)
                self.bus.sendall(message(REPLY, 2 + len(self.come), value(b"", b"u", 7),
                                         [(5, b"u", serial), (6, b"s", sender_of(fields)), (8, b"g", b"u")]))

    def take(self, body: bytes) -> None:
        texts, at = [], 0
        for kind in "susss":
            at += -at % 4
            (number,) = struct.unpack_from("<I", body, at)
            at += 4
            if kind == "s":
                texts.append(body[at:at + number].decode())
                at += number + 1
        self.come.append(texts)

    def close(self) -> None:
        self.daemon.terminate()
        self.daemon.wait()
        self.reader.join()
        self.bus.close()


def asked(room: Room, name: os.PathLike[str], bus: os.PathLike[str]) -> Asked:
    return Asked(room.box, ["/bin/cat", str(name)], room.rules(), ("--notify", "desktop"), {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}"})


needs_bus = pytest.mark.skipif(not all(map(os.path.exists, ("/usr/bin/dbus-daemon", "/usr/bin/busctl"))), reason="no dbus-daemon or busctl here")


@needs_bus
def test_the_desktop_is_told_that_a_question_waits(room):
    desktop = Notifications(room.box)
    try:
        name = room.asked / ("<b>\x1b[1mx" + "y" * 200)
        room.box.file(name, b"asked")
        run = asked(room, name, desktop.path)
        ask = run.ask()
        harness.until(lambda: desktop.come, "the notification")
        run.decide(ask, "allow")
        ended = run.end()
        assert ended.text == "asked" and "the desktop" not in ended.errors, ended.describe()
        ((application, icon, summary, body),) = desktop.come
        assert (application, icon) == ("callgate", "") and re.fullmatch("callgate: run [a-z0-9]{6} asks", summary), summary
        assert re.fullmatch(r"read /[^<>]*/&lt;b&gt;\\x1b\[1mxy*\.\.\[\+\d+ bytes\]\.\.y+\nby cat", body), body
    finally:
        desktop.close()


@needs_bus
def test_a_desktop_that_cannot_be_told_is_said_and_the_question_waits(room):
    run = asked(room, room.file, room.box.root / "nowhere")
    ask = run.ask()
    harness.read_until(run.process.stderr.fileno(), b"the desktop was not told that a question waits")
    run.decide(ask, "allow")
    assert run.end().text == "asked content"
