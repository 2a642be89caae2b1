"""The build whose checks can be left out is a test's alone: what users run has nothing to switch."""
from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

import harness

SOURCES = Path(__file__).resolve().parents[2]
SECRET = b"SECRET-5c0f"
VARIABLES = dict(zip(harness.SWITCHES, ("openat,landlock", "1")))


def names_of_checks() -> set[str]:
    """Every check that the sources name, but for those that are a system call's own name."""
    found: set[str] = set()
    for folder in ("base", "rules", "agent", "supervisor"):
        for source in (SOURCES / folder).rglob("*.cpp"):
            found |= set(re.findall(r'check_enabled\("([^"]+)"\)', source.read_text()))
    return found


def segments(image: bytes, wanted: int) -> list[bytes]:
    """The segments of an ELF file that have this type."""
    offset, = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    found = []
    for header in range(offset, offset + size * count, size):
        kind, _, begin, _, _, length = struct.unpack_from("<IIQQQQ", image, header)
        if kind == wanted:
            found.append(image[begin : begin + length])
    return found


def loaded(binary: Path) -> bytes:
    """The bytes that get into memory: the names of debug information are not the program's."""
    return b"".join(segments(binary.read_bytes(), 1))  # PT_LOAD


def needs_a_loader(binary: Path) -> bool:
    return segments(binary.read_bytes(), 3) != []  # PT_INTERP


def secret(box):
    box.file(box.tree / "secret", SECRET)
    box.file(box.tree / "free", b"free to all")
    return harness.rule_set({"id": "tree", "allow": "read", "path": f"{box.tree}/**"},
                            {"id": "secret", "deny": "read", "path": f"{box.tree}/secret"})


def test_no_header_asks_for_a_switch():
    """Only the sources that ask are compiled once more: a header would be asked by others too, in vain."""
    asking = {str(header.relative_to(SOURCES)) for folder in ("base", "rules", "agent", "relay", "supervisor")
              for header in (SOURCES / folder).rglob("*.hpp") if re.search("check_enabled|injected_landlock_abi", header.read_text())}
    assert asking == {"base/test_switch.hpp"}


def test_the_release_build_knows_no_switch(box):
    binary = loaded(box.stage.callgate)
    # one word that other code has too proves nothing
    names = {name for name in names_of_checks() if "-" in name}
    assert len(names) >= 10
    assert [name for name in VARIABLES if name.encode() in binary] == []
    if not needs_a_loader(box.stage.callgate):  # as what users run; a developer's build, unoptimised, keeps unused words
        assert [name for name in names if name.encode() in binary] == []
    switched = loaded(box.stage.switched)
    assert [name for name in (*VARIABLES, *names) if name.encode() not in switched] == []


def test_the_release_build_ignores_the_variables(box):
    rules = secret(box)
    assert SECRET in box.run(["/bin/cat", "secret"], supervised=False, env=VARIABLES).out
    result = box.run(["/bin/cat", "secret"], rules, env=VARIABLES)
    assert SECRET not in result.out and result.code == 1, result.describe()
    assert result.report["effective"]["landlock_abi"] == box.run(["/bin/true"], rules).report["effective"]["landlock_abi"]
    assert b"free to all" in box.run(["/bin/cat", "free"], rules, env=VARIABLES).out


@pytest.mark.parametrize("off, reached", [("", False), ("unlink", False), ("openat,unlink", True)])
def test_the_test_build_leaves_out_what_it_is_told_to(box, off, reached):
    rules = secret(box)
    box.switch(off)
    result = box.run(["/bin/cat", "secret"], rules)
    assert (SECRET in result.out) == reached, result.describe()


def test_the_test_build_believes_in_an_older_landlock_and_never_in_a_newer_one(box):
    rules = secret(box)
    kernel = box.run(["/bin/true"], rules).report["effective"]["landlock_abi"]
    for abi in (1, kernel, 999):
        box.switch(abi=abi)
        assert box.run(["/bin/true"], rules).report["effective"]["landlock_abi"] == min(abi, kernel)


def test_no_command_inherits_the_variables(box):
    box.switch("unlink", 3)
    result = box.run(["/usr/bin/env"], options=["--keep-env", *(f"--env={name}" for name in VARIABLES)])
    assert result.code == 0 and not any(name in result.text for name in VARIABLES), result.describe()
    assert b"PATH=" in result.out
