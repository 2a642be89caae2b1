"""Contested but allowed must be native: the same table of calls bare and under callgate, line by line.

The rule set denies a name that no case uses (`.never*`), by a glob over the whole tree, so every call beneath it is
contested and, being allowed, performed on behalf.
"""
from __future__ import annotations

import socket

import pytest

import changetable
import harness
import opentable


def contested(box: harness.Box, *more):
    return harness.rule_set(
        {"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "above", "allow": ["read", "modify"], "path": ["/", "/tmp", str(box.stage.root), str(box.root)]},
        {"id": "own", "allow": "modify", "path": ["/proc/**", f"{box.stage.bin}/prog_openprobe"]},
        {"id": "never", "deny": ["read", "write"], "path": f"{box.tree}/**/.never*"},
        *more,
    )


def rebuild(box: harness.Box, make) -> None:
    """The same tree again, at the same place, made by the user."""
    if box.tree.exists():
        harness.remove_tree(box.tree)
    box.directory(box.tree)
    harness.as_user(box.user, lambda: make(box.tree))


def compare(native: harness.Result, supervised: harness.Result, least: int) -> None:
    left, right = native.text.splitlines(), supervised.text.splitlines()
    assert native.code == 0, native.describe()
    assert len(left) >= least, f"only {len(left)} cases ran bare\n{native.describe()}"
    different = [(one, two) for one, two in zip(left, right) if one != two]
    if different or len(left) != len(right) or supervised.code != 0:
        text = "\n".join(f"bare       {one}\nsupervised {two}" for one, two in different[:200])
        pytest.fail(f"{len(different)} of {len(left)} cases differ ({len(right)} supervised)\n{text}\nexit {supervised.code}\n"
                    f"{supervised.errors[-2000:]}", pytrace=False)


def both(box: harness.Box, program: str, make, stdin: bytes, least: int, *more) -> harness.Result:
    rebuild(box, make)
    native = box.run([box.program(program)], supervised=False, stdin=stdin)
    rebuild(box, make)
    supervised = box.run([box.program(program)], contested(box, *more), stdin=stdin)
    compare(native, supervised, least)
    return supervised


def test_open_family_gives_what_it_gives_bare(box):
    table = opentable.open_cases(box.tree)
    result = both(box, "prog_openprobe", opentable.make_tree, table.text(), 300)
    assert len(result.decisions(mechanism="on_behalf")) >= 300, "the table must have been answered on behalf"


def test_changes_of_files_and_names_give_what_they_give_bare(box):
    table = changetable.change_cases(box.tree)
    result = both(box, "prog_changeprobe", changetable.make_tree, table.text(), 250)
    assert len(result.decisions(mechanism="on_behalf")) >= 150


def make_socket_tree(tree) -> None:
    (tree / "dir").mkdir()
    (tree / "regular").write_text("no socket")
    for name, value in (("link", "sock-stream"), ("link-datagram", "sock-datagram"), ("dangling", "nowhere"), ("loop", "loop")):
        (tree / name).symlink_to(value)


def test_connect_and_bind_give_what_they_give_bare(box):
    both_kinds = ["tcp", "udp"]
    result = both(box, "prog_netprobe", make_socket_tree, b"", 150,
                  {"id": "net", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1"], "protocol": both_kinds},
                  {"id": "any", "allow": "bind", "address": ["0.0.0.0/0", "::/0"], "protocol": both_kinds},
                  {"id": "sockets", "allow": ["connect", "bind"], "unix": [f"{box.tree}/**", "@*"]},
                  {"id": "contest", "deny": ["connect", "bind"], "address": "127.99.99.99"})
    assert len(result.decisions(operation="connect")) >= 20


def test_sends_give_what_they_give_bare(box):
    both_kinds = ["tcp", "udp"]
    result = both(box, "prog_sendprobe", make_socket_tree, b"", 390,
                  {"id": "net", "allow": ["connect", "bind"], "address": ["127.0.0.0/8", "::1", "255.255.255.255"], "protocol": both_kinds},
                  {"id": "sockets", "allow": ["connect", "bind"], "unix": [f"{box.tree}/**", "@*"], "protocol": ["stream", "datagram"]},
                  {"id": "contest", "deny": ["connect", "bind"], "address": "127.99.99.99"})
    assert len(result.decisions(operation="connect", mechanism="on_behalf")) >= 100


def test_a_socket_of_each_listed_kind_can_be_made(box):
    """What the filter must not take away: streams, seqpacket, netlink route (name look-ups need it)."""
    script = ("import socket\n"
              "for f, t, p in [(2,1,0),(2,1,6),(10,1,0),(1,1,0),(1,5,0),(16,3,0)]:\n"
              "    socket.socket(f, t, p).close()\n"
              "print(len(socket.if_nameindex()) > 0)\n")
    bare = box.run(["/usr/bin/python3", "-c", script], supervised=False)
    under = box.run(["/usr/bin/python3", "-c", script], contested(box))
    assert bare.code == 0 and socket.if_nameindex()
    assert (under.code, under.out) == (bare.code, bare.out), under.describe()
