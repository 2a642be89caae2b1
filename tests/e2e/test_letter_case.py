"""No run begins where the case of letters makes no other name: `.ENV` opens there what a rule closes as `.env`."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

import harness
import one_case


KINDS = pytest.mark.parametrize("ignores", [True, False], ids=["ignored", "distinct"])


@pytest.fixture
def disk(box, ignores) -> Iterator[None]:
    """In place of the work directory."""
    if os.geteuid() != 0:
        pytest.skip("a file system is mounted by root")
    try:
        with one_case.mounted(box.tree, {".env": b"SECRET", "notes": b"a note\n"}, ignores):
            yield
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")


@KINDS
def test_no_run_begins_where_letters_of_both_cases_are_one(box, disk, ignores):
    options = ["--ask", "never", "-p", "agent"]
    bare = box.run(["/bin/cat", ".ENV"], supervised=False)
    assert (bare.out == b"SECRET") == ignores, bare.describe()
    result = box.run(["/bin/cat", "notes", ".ENV"], options=options)
    assert b"SECRET" not in result.out, result.describe()
    if ignores:
        assert result.code == 125 and "the current directory" in result.errors and "case of letters" in result.errors, result.describe()
    else:
        assert result.text == "a note\n", result.describe()
    elsewhere = box.directory(box.root / "elsewhere")
    rules = harness.rule_set({"id": "tree", "allow": "read", "path": f"{box.tree}/**"}, {"id": "env", "deny": "read", "path": "**/.env"})
    for given, more, named in ((None, ["-w", str(box.tree)], "-w"), (rules, ["-p", "agent"], "the path of rule tree")):
        result = box.run(["/bin/cat", f"{box.tree}/notes"], given, options=["--ask", "never", *more], cwd=elsewhere)
        assert (result.code == 125 and named in result.errors) if ignores else result.text == "a note\n", result.describe()


@KINDS
def test_no_job_begins_there(box, disk, ignores):
    job = {"command": ["/bin/cat", "notes"], "workdir": str(box.tree)}
    done = box.run([str(box.callgate), "exec"], supervised=False, stdin=json.dumps(job).encode(), cwd=box.root)
    assert ("case of letters" in done.text + done.errors) == ignores and ("a note" in done.text) != ignores, done.describe()


# FS_CASEFOLD_FL of ext4, f2fs and tmpfs, and FS_NODUMP_FL, which harms nobody.
CASEFOLD, NODUMP = 0x40000000, 0x40
SET = """
import fcntl, os, struct, sys
for name, flags in ((sys.argv[1], int(sys.argv[2])), (sys.argv[1], int(sys.argv[3]))):
    try:
        fcntl.ioctl(os.open(name, os.O_RDONLY), 0x40086602, struct.pack("<Q", flags))
        print("set")
    except OSError as error:
        print(os.strerror(error.errno))
"""


@pytest.mark.parametrize("supervised", [False, True], ids=["bare", "supervised"])
def test_a_run_lets_no_directory_ignore_the_case_of_letters(box, supervised):
    if os.geteuid() != 0:
        pytest.skip("a file system is mounted by root")
    try:
        with one_case.mounted(box.tree, {"notes": b""}, False, box.user.uid) as disk:
            result = box.run(["/usr/bin/python3", "-c", SET, ".", str(CASEFOLD), str(NODUMP)], supervised=supervised,
                             options=["--ask", "never", "-p", "agent"] if supervised else ())
            assert result.text == ("Operation not supported\nset\n" if supervised else "set\nset\n"), result.describe()
            assert disk.flags[0] == NODUMP, disk.flags
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
