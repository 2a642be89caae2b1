"""Measures look-ups of a name, against a name server in a network of the bench's own. That takes root."""
from __future__ import annotations

import os
import subprocess
import sys

from place import Place
from rows import Row

SERVER, NAME = "198.51.100.53", "www.example.org"
MAKE = f"""
set -e
mount --make-rprivate /
ip link set lo up
ip address add {SERVER}/32 dev lo
ip route add default dev lo
for file in resolv.conf nsswitch.conf hosts; do mount --bind "$1/$file" "$(realpath /etc/$file)"; done
exec "$2" names {SERVER}
"""


def rows(place: Place, scale: float) -> list[Row]:
    if os.geteuid() != 0:
        print("skipped: a cached look-up, which needs a network of its own, and that needs root", file=sys.stderr)
        return []
    etc = place.root / "etc"
    etc.mkdir()
    (etc / "resolv.conf").write_text(f"nameserver {SERVER}\n")
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    world = subprocess.Popen(["unshare", "-n", "-m", "sh", "-c", MAKE, "sh", str(etc), str(place.target)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)

    def close() -> None:
        world.stdin.close()
        world.wait()
    place.at_close(close)
    assert world.stdout.readline() == "ready\n"
    inside = ["nsenter", "-t", str(world.pid), "-n", "-m", "--", "env", "-C", place.work]
    rules = place.rule_set("look-ups", [{"id": "name", "allow": "connect", "host": NAME}])
    line = [place.target, "look-up", max(40, int(2000 * scale)), NAME]
    return [Row("a cached look-up", {"native": lambda: place.run([*inside, *line]),
                                     "callgate": lambda: place.run([*inside, *place.supervised(rules), *line])})]
