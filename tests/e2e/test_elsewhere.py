"""A caller in another user or mount namespace, or with another root: its paths are not ours, so its contested calls are denied.

The filter lets nobody go there; only in the build whose checks can be left out does the target get that far.
"""
from __future__ import annotations

import pytest

import harness


@pytest.fixture
def place(box):
    box.file(box.tree / "file", b"of the tree")
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "never", "deny": "read", "path": f"{box.tree}/**/.never*"})


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
