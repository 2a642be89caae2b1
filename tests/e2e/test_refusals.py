"""Calls that the filter refuses by their arguments: on record once per program and kind, counted, and in the footer."""
from __future__ import annotations

import platform
import shutil

import pytest

import harness
from test_network import PYTHON, RAW, python, rules

# Refused calls by the names of the C library or by number, each with its errno; then the exit status.
CALLS = """
def refused(name, *arguments):
    print(name, raw(name, *arguments))
refused("socket", socket.AF_INET, socket.SOCK_DGRAM, 0)
refused("socket", socket.AF_INET, socket.SOCK_RAW, 1)
refused("socket", socket.AF_INET, socket.SOCK_DGRAM, 1)
refused("socket", socket.AF_INET, socket.SOCK_STREAM, 132)
refused("socket", socket.AF_UNIX, socket.SOCK_DGRAM, 0)
refused("socket", 40, socket.SOCK_STREAM, 0)
refused("socketpair", socket.AF_UNIX, socket.SOCK_RAW, 0, (ctypes.c_int * 2)())
refused("unshare", 0x10000000)
refused("mount", b"none", b"/mnt", b"tmpfs", 0, None)
refused("personality", 0x0400000)
print("open", [raw("socket", family, socket.SOCK_STREAM, 0) >= 0 for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)])
"""
WANTED = {"socket -93", "socket -1", "socket -97", "socketpair -93", "unshare -1", "mount -1", "personality -1"}
KINDS = {"UDP sockets", "raw and ICMP sockets", "sockets of other protocols", "unix datagram sockets", "sockets of other families",
         "new namespaces", "mounts", "personalities"}


def refused(result) -> list[dict]:
    return [one for one in result.audit if one["event"]["action"] == "call.refused"]


def lines(result, kind: str) -> list[str]:
    return [line for line in result.errors.splitlines() if line.startswith(f"callgate: {kind} refused")]


def test_each_kind_is_on_record_and_in_the_footer(box):
    result = python(box, CALLS, rules(box))
    assert result.code == 0 and set(result.text.splitlines()[:-1]) == WANTED, result.describe()
    assert result.text.endswith("open [True, True, True]\n"), result.describe()
    records = refused(result)
    first = {one["callgate"]["kind"]: one for one in records if "of_sequence" not in one["callgate"]}
    assert set(first) == KINDS, result.describe()
    for kind, one in first.items():
        assert one["callgate"]["reason"] and one["callgate"]["count"] == 1 and one["event"]["outcome"] == "failure", one
        assert "python" in one["process"]["executable"] and one["process"]["pid"] > 0, one
        if kind != "unix datagram sockets":
            assert len(lines(result, kind)) == 1 and one["callgate"]["reason"] in lines(result, kind)[0], result.describe()
    # Two kinds came twice: the total comes before the end of the run.
    totals = {one["callgate"]["kind"]: one["callgate"] for one in records if "of_sequence" in one["callgate"]}
    assert {kind: one["count"] for kind, one in totals.items()} == {"raw and ICMP sockets": 2, "unix datagram sockets": 2}, records
    for kind, total in totals.items():
        assert total["of_sequence"] == first[kind]["event"]["sequence"]
    assert result.audit[-1]["event"]["action"] == "run.end"
    # The refusals are no decisions of rules.
    assert result.audit[-1]["callgate"]["counts"]["deny"] == 0 and not lines(result, "denied"), result.describe()


def test_the_log_can_be_shown_and_verified(box):
    result = python(box, CALLS, rules(box))
    shown = harness.audit(box, "show", result.report["audit"]["file"])
    assert shown.code == 0 and "refused: UDP sockets (socket, EPROTONOSUPPORT) to python3" in shown.text, shown.describe()
    assert harness.audit(box, "verify", result.report["audit"]["file"]).code == 0, result.describe()


def test_a_program_that_probes_in_a_loop_writes_two_records(box):
    result = python(box, """
for count in range(1000):
    assert raw("socket", socket.AF_INET6, socket.SOCK_DGRAM, 0) == -93
""", rules(box))
    assert result.code == 0, result.describe()
    assert [one["callgate"]["count"] for one in refused(result)] == [1, 1000], result.describe()
    assert "UDP sockets refused (python3" in result.errors and ", 1000 times): " in result.errors, result.describe()


def test_each_program_is_named_once(box):
    names = []
    for name in ("one", "two", "three", "four", "five", "six"):
        shutil.copy("/usr/bin/perl", box.tree / name)
        names.append(name)
    ask = "use Socket; for (1..2) { socket(my $s, PF_INET, SOCK_DGRAM, 0) and exit 9 }"
    loop = "; ".join(f"{box.tree}/{name} -e '{ask}' || exit 1" for name in names)
    wanted = rules(box, {"id": "run", "allow": "execute", "path": f"{box.tree}/*"})
    result = box.run(["/bin/sh", "-c", loop + f"; {box.tree}/one -e '{ask}'"], wanted)
    assert result.code == 0, result.describe()
    assert lines(result, "UDP sockets")[0].startswith(
        "callgate: UDP sockets refused (one, 4 times; two, 2 times; three, 2 times; four, 2 times; 4 times by others): "), result.describe()
    assert len(refused(result)) == 2 * len(names), result.describe()


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(("kind", "call", "error"), [
    ("io_uring", '"syscall", 425, 1, 0', -38),
    ("fanotify", f'"syscall", {({"x86_64": 300, "aarch64": 262}[platform.machine()])}, 1, 0', -1),
    ("unix datagram sockets", '"socket", socket.AF_UNIX, socket.SOCK_DGRAM, 0', -93),
    ("requests of the Linux console", '"ioctl", 0, 0x541c, b"\\6"', -1)], ids=["io_uring", "fanotify", "datagram", "console"])
def test_a_mere_probe_is_in_the_footer_only_where_the_command_failed(box, kind, call, error, code):
    result = python(box, f'print(raw({call})); sys.exit({code})', rules(box))
    assert result.text == f"{error}\n" and result.code == code, result.describe()
    assert [one["callgate"]["kind"] for one in refused(result)] == [kind], result.describe()
    assert len(lines(result, kind)) == (1 if code else 0), result.describe()


def test_a_minimal_record_leaves_refusals_to_the_kernel(box):
    unix = {"id": "unix", "allow": "connect", "unix": f"{box.tree}/*"}
    result = box.run([PYTHON, "-c", RAW + CALLS], rules(box, unix), options=["--record", "minimal"])
    assert result.code == 0 and set(result.text.splitlines()[:-1]) == WANTED, result.describe()
    assert not refused(result) and "refused" not in result.errors, result.describe()


def test_without_a_log_the_footer_still_names_them(box):
    ask = "use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0) and exit 9"
    result = box.run(["/usr/bin/perl", "-e", ask], rules(box), options=["--no-audit"], audit=False)
    assert result.code == 0 and len(lines(result, "UDP sockets")) == 1, result.describe()
    assert result.report["refused"][0]["kind"] == "UDP sockets" and result.report["refused"][0]["count"] == 1, result.report
