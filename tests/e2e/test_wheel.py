"""The wheel, in a root that has the C library, Python and nothing to compile with."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import harness

TOP = Path(__file__).resolve().parents[2]
BUILDERS = re.compile(r"(.*-)?(cc1?|cc1plus|collect2|c\+\+|gcc|g\+\+|clang(\+\+)?|cpp|ld(\.bfd|\.gold|\.lld)?|as|g?make|cmake|ninja|callgate)(-[\d.]+)?")
TRY = """
import subprocess, sys
from callgate import Sandbox
sandbox = Sandbox()
print(sandbox.binary)
result = sandbox.run("echo hi; cat /etc/shadow")
print(result.text, result.exit_code, [one.object for one in result.denials])
print(sandbox.run_code("python", "import callgate; print(callgate.__version__)").text)
print(subprocess.run([sys.prefix + "/bin/callgate", "--version"], capture_output=True, text=True, check=True).stdout)
"""


@pytest.fixture(scope="session")
def wheel(stage):
    made = subprocess.run([TOP / "tools/wheel.sh", os.environ["CALLGATE"]], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    path = TOP / made.stdout.strip()
    copy = stage.bin / path.name
    shutil.copyfile(path, copy)
    copy.chmod(0o644)
    return copy


def test_what_is_in_it(wheel):
    machine = os.uname().machine
    parts = subprocess.run(["/usr/bin/objdump", "-p", os.environ["CALLGATE"]], capture_output=True, text=True, check=True).stdout
    # A developer's program is linked against the C library here, and needs it.
    platforms = f"manylinux_2_17_{machine}.musllinux_1_1_{machine}" if "NEEDED" not in parts else rf"manylinux_2_\d+_{machine}"
    assert re.search(rf"-py3-none-{platforms}\.whl$", wheel.name), wheel.name
    assert wheel.stat().st_size < 8 << 20
    with zipfile.ZipFile(wheel) as archive:
        names = {one.filename: one.external_attr >> 16 for one in archive.infolist()}
    assert names["callgate/_bin/callgate"] & 0o111 == 0o111 and "callgate/py.typed" in names
    assert not [one for one in names if "test" in one or "__pycache__" in one]
    shared = {one.partition(".data/data/")[2] for one in names}
    assert {"share/man/man1/callgate-run.1.gz", "share/zsh/site-functions/_callgate"} <= shared
    assert [one for one in names if one.endswith("/LICENSE")]


def bare_path(box: harness.Box) -> str:
    """A directory with what a small machine has: no compiler, no linker, no make, no other callgate."""
    place = box.directory(box.root / "path")
    for directory in ("/usr/bin", "/usr/sbin"):
        for program in Path(directory).iterdir():
            if not BUILDERS.fullmatch(program.name) and not (place / program.name).is_symlink():
                (place / program.name).symlink_to(program)
    return str(place)


def test_it_runs_where_nothing_can_be_compiled(box, wheel):
    """root: in a mount namespace in which compilers and linkers are empty files; both: with a PATH without them."""
    path = bare_path(box)
    venv = box.tree / "venv"
    steps = (f"set -e; /usr/bin/python3 -m venv --without-pip {venv}; ! command -v cc gcc clang make ld; "
             f"/usr/bin/python3 -m pip --python {venv}/bin/python install -q --no-index --disable-pip-version-check {wheel}; cd {box.tree}; {venv}/bin/python try.py")
    box.file(box.tree / "try.py", TRY.encode())
    line = ["/bin/sh", "-c", steps]
    if os.geteuid() == 0 and box.user.uid == 0:
        hide = "; ".join(f"mount --bind /dev/null {one}" for one in compilers())
        line = ["unshare", "--mount", "/bin/sh", "-c", f"{hide}; {steps}"]
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        env={**box.environment(), "PATH": path})
    result = box.wait(process, line, None, 120)
    assert result.code == 0, result.describe()
    first, *rest = result.text.split("\n")
    assert first == f"{venv}/lib/python3.{first.split('python3.')[1].split('/')[0]}/site-packages/callgate/_bin/callgate"
    *told, version = (one for one in rest if one)
    assert told == ["hi", " 1 ['/etc/shadow']", "0.2.0"], result.describe()
    assert re.fullmatch(r"callgate 0\.2\.0 \(([0-9a-f]{7,}\+?, )?\w+, \w+ [0-9.]+\)", version), result.describe()


def compilers() -> list[str]:
    """The files themselves, not their other names."""
    places = ("/usr/bin", "/usr/lib/gcc", "/usr/libexec/gcc", "/usr/lib/llvm-14/bin")
    found = {one.resolve() for place in places for one in Path(place).rglob("*") if BUILDERS.fullmatch(one.name) and one.is_file()}
    assert any("gcc" in one.name for one in found)
    return sorted(map(str, found))
