"""`--ask tty`: every byte passes the relay, in both directions and beside a prompt."""
from __future__ import annotations

import hashlib
import os
import random
import re

import harness
from test_approval import Room, room  # noqa: F401 (a fixture)
from test_ask_tty import start

OUTPUT = 100_000_000 if harness.SOAK else 5_000_000
INPUT = 5_000_000 if harness.SOAK else 100_000
LINES = 200_000  # more than the relay holds

STREAM = b"""
import hashlib, os, random, sys, termios, tty
tty.setraw(0, termios.TCSANOW)
os.write(1, b"ready")
left, digest = int(sys.argv[1]), hashlib.sha256()
while left:
    got = os.read(0, 65536)
    digest.update(got)
    left -= len(got)
os.write(1, b"<" + digest.hexdigest().encode() + b">")
left, randomly = int(sys.argv[2]), random.Random(7)
while left:
    chunk = randomly.randbytes(min(left, 65536))
    left -= len(chunk)
    while chunk:
        chunk = chunk[os.write(1, chunk):]
"""


def test_every_byte_passes_the_relay_unchanged(room):
    program = room.box.file(room.free / "stream.py", STREAM)
    outer = start(room, f"exec /usr/bin/python3 {program} {INPUT} {OUTPUT}")
    outer.sees("ready")
    typed = memoryview(random.Random(5).randbytes(INPUT))
    wanted = hashlib.sha256(typed).hexdigest()
    while typed:
        typed = typed[os.write(outer.master, typed[:1024]):]
    outer.sees(f"<{wanted}>")
    digest, randomly, left = hashlib.sha256(), random.Random(7), OUTPUT
    first = outer.all[outer.all.index(wanted.encode()) + len(wanted) + 1:]
    while left:
        if not first:
            outer.all = b""
            outer.more()
        got, first = first or outer.all, b""
        digest.update(got[:left])
        left -= min(left, len(got))
    expected, left = hashlib.sha256(), OUTPUT
    while left:
        chunk = randomly.randbytes(min(left, 65536))
        expected.update(chunk)
        left -= len(chunk)
    assert digest.digest() == expected.digest()
    outer.text = ""
    assert outer.end() == 0


def test_what_is_written_beside_a_prompt_comes_afterwards_and_whole(room):
    """More than the relay holds: its writer waits."""
    outer = start(room, f"(seq -f %07.0f {LINES}; echo all) & cat {room.file}; wait; echo done")
    outer.prompted()
    outer.type("a\r")
    outer.sees("done")
    outer.end()
    # The prompt may come within a line. Before its own screen it ends what a program may have begun.
    begun = re.escape(b"\x18\x1b\\\x1b\x03\x18\x1b\\\x1b<")
    seen = re.sub(b"(?:%s)?" % begun + rb"\x1b\[\?1049h.*?\x1b\[\?1049l", b"", outer.all, flags=re.DOTALL)
    numbers = [int(one) for one in re.findall(rb"\d{7}", seen.replace(b"asked content", b""))]
    assert numbers == list(range(1, LINES + 1))
