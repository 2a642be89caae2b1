"""docs/dev/adding-a-call.md, followed: the page's own diff is applied to a copy of the sources, and the new call is run.

So the page cannot fall behind the sources.
"""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import harness
from rebuilt import BUILD, ROOT, Copy

PAGE = ROOT / "docs" / "dev" / "adding-a-call.md"


def diff_of_page() -> str:
    blocks = re.findall(r"^```diff\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, "the page shows no diff"
    return "".join(blocks)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (BUILD / "build.ninja").exists():
        pytest.skip("the tested program does not lie in its build tree")
    copy = Copy(tmp_path_factory.mktemp("adding-a-call"), "callgate")
    copy.apply(diff_of_page())
    return copy.build()


@pytest.fixture
def extended(stage, box, built):
    """A box whose callgate has the page's call."""
    program = stage.bin / "callgate-extended"
    shutil.copyfile(built, program)
    program.chmod(0o755)
    box.callgate = program
    return box


WATCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.inotify_init1(os.O_NONBLOCK)
watch = libc.inotify_add_watch(queue, os.fsencode(sys.argv[1]), 0x2)  # IN_MODIFY
if watch < 0:
    print(os.strerror(ctypes.get_errno()))
    sys.exit(1)
with open(sys.argv[2], "a") as file:
    file.write("more")
print("seen" if len(os.read(queue, 4096)) >= 16 else "nothing")
"""


def watch(box, watched: Path, written: Path, supervised: bool = True) -> harness.Result:
    rules = harness.rule_set(
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "secret", "deny": "read", "path": f"{box.tree}/secret/**"},
    )
    return box.run(["/usr/bin/python3", "-c", WATCH, str(watched), str(written)], rules, supervised=supervised)


def watches(result: harness.Result) -> list[tuple[str, str]]:
    """Verdict and rule of each decision on the new call."""
    return [(one["callgate"]["verdict"], one["rule"]["name"]) for one in result.decisions() if one["event"]["action"] == "inotify_add_watch"]


def place(box) -> tuple[Path, Path]:
    return box.file(box.tree / "secret" / "notes"), box.file(box.tree / "open" / "notes")


def test_the_new_call_is_denied_by_a_rule_and_on_record(extended):
    secret, _ = place(extended)
    result = watch(extended, secret, secret)
    assert (result.code, result.out) == (1, b"Permission denied\n"), result.describe()
    assert watches(result) == [("deny", "secret")], result.audit
    assert result.report["denials"][0]["object"] == str(secret), result.report["denials"]


def test_the_new_call_is_performed_where_it_is_allowed(extended):
    _, free = place(extended)
    result = watch(extended, free, free)
    assert (result.code, result.out) == (0, b"seen\n"), result.describe()
    assert watches(result) == [("allow", "tree")], result.audit


def test_without_the_diff_nothing_decides_the_call(box):
    secret, _ = place(box)
    result = watch(box, secret, secret)
    assert (result.code, result.out) == (0, b"seen\n"), result.describe()
    assert watches(result) == []
