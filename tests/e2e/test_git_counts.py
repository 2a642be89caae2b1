"""How far git has come in a rebase: a run writes numbers there and nothing else. git's own prompt lets the user's shell run it."""
from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from test_later import IDENTITY, repository, works

PROMPT = Path("/usr/lib/git-core/git-sh-prompt")
COUNTS = {"rebase-merge": ("msgnum", "end"), "rebase-apply": ("next", "last")}
# Two patches, of which the second one does not apply to the branch.
SERIES = "echo 1 > f; git add f; git commit -qm base; git checkout -qb side; for one in 2 3; do echo $one > f; git commit -qam $one; done; " \
    "git format-patch -q -o ../patches -2; git checkout -q -; echo 9 > f; git commit -qam 9"


def shown(there):
    return {f"{folder}/{name}": (there / ".git" / folder / name).read_bytes() for folder, names in COUNTS.items() for name in names
            if (there / ".git" / folder / name).exists()}


@pytest.mark.skipif(not PROMPT.exists() or not shutil.which("bash"), reason="no prompt of git's is installed")
@pytest.mark.parametrize("folder", COUNTS)
def test_the_users_prompt_runs_nothing(box, folder):
    there = repository(box)
    step, total = (f".git/{folder}/{name}" for name in COUNTS[folder])
    script = f"mkdir .git/{folder}; echo '$(>ran)' > {step}; echo 3 > {total}"

    def ran():
        """A shell of the user's that shows its prompt once, in a terminal."""
        ours, theirs = pty.openpty()
        line = f". {PROMPT}; PROMPT_COMMAND='__git_ps1 at \"> \"; PROMPT_COMMAND=exit'; PS1=x"
        box.file(there / "rc", line.encode())
        os.write(ours, b"\n\n")
        with open(theirs, "r+b", buffering=0) as terminal:
            subprocess.run(["bash", "--rcfile", str(there / "rc"), "-i"], stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, cwd=there,
                           check=False, timeout=harness.DEADLINE, env={"PATH": os.environ["PATH"], "HOME": str(there), "TERM": "dumb",
                                                                         "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
        os.close(ours)
        made = (there / "ran").exists()
        (there / "ran").unlink(missing_ok=True)
        return made

    box.run(["/bin/sh", "-c", script], supervised=False, cwd=there)
    assert ran(), "the control: bare, the prompt runs it"
    shutil.rmtree(there / ".git" / folder)
    result = box.run(["/bin/sh", "-c", script], options=["--ask", "never"], cwd=there)
    assert result.code == 0 and shown(there) == {step[5:]: b"", total[5:]: b"3\n"}, result.describe()
    assert not ran()


@pytest.mark.parametrize("end", ["continue", "skip", "abort"])
def test_patches_stop_and_go_on(box, end):
    """git am reads the numbers in another process, in the same run and in a later one."""
    there = repository(box)
    box.run(["/bin/sh", "-ec", SERIES], supervised=False, env=IDENTITY, cwd=there)
    works(box, "! git am ../patches/*.patch 2> /dev/null; cat .git/rebase-apply/next .git/rebase-apply/last > seen", cwd=there, options=["--read", str(box.tree / "patches")])
    assert (there / "seen").read_text() == "1\n2\n" and shown(there) == {"rebase-apply/next": b"1\n", "rebase-apply/last": b"2\n"}
    before = {"continue": "echo 2 > f; git add f; ", "skip": "", "abort": ""}[end]
    after = "|| { cat .git/rebase-apply/next; git am --abort; }" if end == "skip" else ""
    result = works(box, f"{before}git am --{end} > /dev/null 2>&1 {after}; git log --format=%s -3", cwd=there)
    assert result.text.split() == {"continue": ["3", "2", "9"], "skip": ["2", "9", "base", "one"], "abort": ["9", "base", "one"]}[end], result.describe()
    assert not (there / ".git/rebase-apply").exists(), result.describe()


def test_a_rebase_stops_and_goes_on(box):
    there = repository(box)
    box.run(["/bin/sh", "-ec", SERIES], supervised=False, env=IDENTITY, cwd=there)
    result = works(box, "git checkout -q side; ! git rebase - > /dev/null 2>&1; git status | head -3", cwd=there)
    assert shown(there).keys() == {"rebase-merge/msgnum", "rebase-merge/end"} and all(one[:-1].isdigit() for one in shown(there).values()), shown(there)
    made = {one["file"]["path"] for one in result.decisions() if one["callgate"]["mechanism"] == "filtered" and "/rebase-" in one["file"]["path"]}
    assert made == {str(there / ".git/rebase-merge" / name) for name in COUNTS["rebase-merge"]}, made
    works(box, "git rebase --skip > /dev/null 2>&1 || git rebase --abort", cwd=there)
    assert not (there / ".git/rebase-merge").exists()


@pytest.mark.parametrize(("written", "stays"), [
    ("7\n", b"7\n"), ("7", b""), ("7\n\n", b""), ("7 \n", b""), ("-1\n", b""), ("7\n\0", b"7\n"), ("x", b""), ("1" * 17 + "\n", b""), ("", b""),
], ids=["number", "no-line", "two-lines", "space", "sign", "zero", "letter", "long", "empty"])
@pytest.mark.parametrize("before", [None, b"5\n"], ids=["new", "there"])
def test_what_becomes_of_what_is_written(box, written, stays, before):
    """The run opens nothing afterwards: its end settles it."""
    if before is not None:
        box.file(box.directory(box.directory(box.tree / ".git") / "rebase-apply") / "next", before)
    else:
        box.directory(box.directory(box.tree / ".git") / "rebase-apply")
    code = f"import os; os._exit(os.write(os.open('.git/rebase-apply/next', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), {written[:16]!r}.encode()) < 0)"
    result = box.run(["/usr/bin/python3", "-c", code], options=["--ask", "never"])
    assert result.code == 0 and (box.tree / ".git/rebase-apply/next").read_bytes() == stays, result.describe()


def test_many_are_held_in_little_memory(box):
    """More counts than callgate keeps open, each kept open by the run as well."""
    box.directory(box.tree / ".git")
    code = "import os\nkept = []\nfor number in range(200):\n    os.makedirs(f'.git/worktrees/{number}/rebase-merge')\n" \
        "    kept.append(os.open(f'.git/worktrees/{number}/rebase-merge/end', os.O_WRONLY | os.O_CREAT | os.O_TRUNC))\n" \
        "for one in kept: os.write(one, b'3\\n')"
    result = box.run(["/usr/bin/python3", "-c", code], options=["--ask", "never"])
    numbers = [(box.tree / f".git/worktrees/{number}/rebase-merge/end").read_bytes() for number in range(200)]
    assert result.code == 0 and numbers[-1] == b"3\n" and set(numbers) == {b"", b"3\n"}, result.describe()
