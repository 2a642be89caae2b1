"""The same rule set means the same under an older Landlock, which is injected: attacks are held, and programs work.

Rules that an ABI cannot hold are contested instead (rules/plan/plan.hpp). A plain run takes ABIs 2, 3 and 5 and the cases
that they concern (tag `abi`). A long run takes all six and every case. Each ABI is a test of its own, e2e.abi_N
(CALLGATE_TEST_ABI); this file alone runs them all. Real older kernels: ./dev test kernels.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cases
import harness
from cases.case import run_case, runs_of
from conftest import KINDS
from test_programs import PROGRAMS
from toolchains import compare

ALL_ABIS = (1, 2, 3, 4, 5, 6, 8, 9) if harness.SOAK else (2, 3, 5, 9)
# An ABI that is newer than the kernel's cannot be injected.
ABIS = [abi for abi in ALL_ABIS if abi <= harness.LANDLOCK_ABI and os.environ.get("CALLGATE_TEST_ABI") in (None, str(abi))]
CASES = [case for case in cases.CASES.values() if harness.SOAK or "abi" in case.all_tags]


def played() -> list[tuple[cases.Case, int, str]]:
    """In a long run each case runs for both users. In a plain one, and for races, it runs for one of them, and for the other
    under the next ABI."""
    return [(case, abi, kind) for number, case in enumerate(CASES) for turn, abi in enumerate(ALL_ABIS) for place, kind in enumerate(KINDS)
            if abi in ABIS and ((harness.SOAK and "race" not in case.all_tags) or (number + turn + place) % len(KINDS) == 0)]


@pytest.mark.parametrize("case, abi, kind", [pytest.param(*one, id=f"{one[0].name}-{one[1]}-{one[2]}") for one in played()])
def test_an_attack_is_held_under_an_older_landlock(stage, users, case, abi, kind):
    runs = runs_of(case, abi)
    if "race" not in case.all_tags:
        runs = runs[1:]  # of a race the control says how long it must be run
    result = run_case(case, stage, users[kind], abi=abi, runs=runs)
    if result.impossible is not None:
        pytest.skip(f"{case.name}: {result.impossible}")
    assert result.good, result.explain()


SCRIPT = r"""
set -eu
mkdir -p one/two other
printf 'some text\n' > one/file
mv one/file other/moved                       # to another directory
ln other/moved one/two/linked
mv one/two other/two                          # a directory, to another one
printf '' > other/moved; printf longer >> other/moved; truncate -s 3 other/moved
cp -a other copied; cat copied/two/linked
rm -r one; rmdir copied/two 2>/dev/null || rm -r copied
sleep 300 & kill $!; wait $! || :             # signals within the run
python3 - <<'PYTHON'
import os, signal, socket, tempfile
server = socket.socket(socket.AF_UNIX); server.bind("\0callgate-test-%d" % os.getpid()); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(server.getsockname())
with tempfile.NamedTemporaryFile(dir="other") as file:
    os.replace(file.name, "other/replaced"); open(file.name, "w").close()
os.kill(os.getpid(), 0)
seen = []
signal.signal(signal.SIGIO, lambda *_: seen.append(1))
reading, writing = os.pipe()
import fcntl
fcntl.fcntl(reading, fcntl.F_SETOWN, os.getpid()); fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
os.write(writing, b"x")
print("signals", len(seen))
PYTHON
find . | sort
"""


@pytest.mark.parametrize("contested", [False, True], ids=["static", "contested"])
@pytest.mark.parametrize("abi", ABIS)
def test_a_program_does_what_it_does_bare(box, abi, contested):
    def rules():
        never = [{"id": "never", "deny": ["read", "write"], "path": f"{box.root}/**/.never"}] if contested else []
        return harness.rule_set({"id": "tree", "allow": ["read", "write", "execute"], "path": f"{box.tree}/**"},
                                {"id": "abstract", "allow": ["connect", "bind"], "unix": "@callgate-test-*"}, *never)

    bare = box.run(["/bin/sh", "-c", SCRIPT], supervised=False)
    assert bare.code == 0 and b"signals 1" in bare.out, bare.describe()
    harness.remove_tree(box.tree)
    box.directory(box.tree)
    box.switch(abi=abi)
    result = box.run(["/bin/sh", "-c", SCRIPT], rules())
    assert (result.code, result.out) == (bare.code, bare.out), f"{bare.describe()}\n{result.describe()}"
    assert result.report["effective"]["landlock_abi"] == abi


@pytest.mark.parametrize("name, abi, kind", [one for one in (("git", 2, "user"), ("tar", 3, "user"), ("python", 5, "user")) if one[1] in ABIS])
def test_a_real_program_produces_what_it_produces_bare(stage, users, name, abi, kind):
    box = stage.box(users[kind])
    try:
        compare(box, next(one for one in PROGRAMS if one.name == name), abi=abi)
    finally:
        box.close()


FILES = ("test_programs.py", "test_large_programs.py")


@pytest.mark.skipif(not harness.SOAK, reason="all real programs under every ABI: a long run")
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("abi", ABIS)
def test_all_real_programs_produce_what_they_produce_bare(abi, file):
    """The very tests of the programs, with the other build and the older ABI; one repetition."""
    assert os.environ.get("CALLGATE_SWITCHED"), "CALLGATE_SWITCHED names no program: ./dev build switches"
    environment = {**os.environ, "CALLGATE": os.environ["CALLGATE_SWITCHED"], harness.SWITCHES[1]: str(abi), "CALLGATE_SOAK": ""}
    environment.pop("CALLGATE_TABLES", None)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent / file)],
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
