"""A caller in another user or mount namespace, or with another root: its paths are not ours, so its contested calls are denied.

The filter lets nobody go there; only in the build whose checks can be left out does the target get that far.
"""
from __future__ import annotations

import pytest

import harness
from conftest import KINDS


@pytest.fixture
def place(box):
    box.file(box.tree / "file", b"of the tree")
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "never", "deny": "read", "path": f"{box.tree}/**/.never*"})


PYTHON = "/usr/bin/python3"
READ = ["/usr/bin/unshare", "--user", "/bin/cat", "file"]


def test_contested_calls_of_a_caller_in_another_namespace_are_denied(box, place):
    control = box.run(READ, supervised=False)
    if control.code != 0:
        pytest.skip(f"no user namespaces here: {control.errors.strip()}")
    assert b"of the tree" in control.out
    refused = box.run(READ, place)
    assert refused.code != 0 and b"unshare" in refused.err and not refused.decisions(verdict="deny"), refused.describe()

    box.switch("new namespaces")
    denied = box.run(READ, place)
    assert denied.code != 0 and b"of the tree" not in denied.out, denied.describe()
    reasons = {one["callgate"]["reason"] for one in denied.decisions(verdict="deny", decided_by="failure")}
    assert reasons == {"the caller has another root, user or mount namespace"}, denied.describe()

    box.switch("new namespaces,caller-elsewhere")
    reached = box.run(READ, place)
    assert b"of the tree" in reached.out, reached.describe()

    box.switch("new namespaces")
    twin = box.run(["/bin/cat", "file"], place)
    assert twin.code == 0 and b"of the tree" in twin.out, twin.describe()


JAILED = """
import os, sys
tree = sys.argv[1]
print(open(f"{tree}/file").read())
os.chroot(f"{tree}/jail")
try: print(open(f"{tree}/file").read())
except OSError as error: print(error.errno)
os.chdir("/"); print(os.getcwd(), os.listdir("/"))
"""


@pytest.mark.parametrize("user", [kind for kind in KINDS if kind == "root"], indirect=True)
def test_contested_calls_after_a_chroot_are_denied(box, place):
    """The same name is there in both roots. callgate would give the outer file."""
    inner = box.directory(box.tree / "jail")
    for part in (box.tree / "jail").relative_to("/").parts[:-1]:
        inner = box.directory(inner / part)
    box.file(inner / "file", b"of the jail")
    line = [PYTHON, "-c", JAILED, str(box.tree)]
    control = box.run(line, supervised=False)
    assert control.text.split("\n")[:2] == ["of the tree", "of the jail"], control.describe()
    without = box.run(line, place)
    assert without.code != 0 and "PermissionError" in without.errors, without.describe()
    denied = box.run(line, place, options=["--keep-capabilities=sys_chroot"])
    assert denied.text.split("\n")[:2] == ["of the tree", "1"] and "of the jail" not in denied.text, denied.describe()
    reasons = {one["callgate"]["reason"] for one in denied.decisions(verdict="deny", decided_by="failure")}
    assert reasons == {"the caller has another root, user or mount namespace"}, denied.describe()
