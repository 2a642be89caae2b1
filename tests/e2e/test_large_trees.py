"""Deep and large trees in the work directory: moves, opens, and the secrets in them. The bounds of the walk are unit tests."""
from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import harness
import toolchains

DEEP = "src/main/java/com/example/app/web/admin/forms"
MOVE = "import os, sys; os.rename(sys.argv[1], sys.argv[2])"


class Tree(toolchains.Place):
    """A deep project, made anew for each run, with `more` files (path beneath the work directory: content)."""

    def __init__(self, box, **more: bytes) -> None:
        super().__init__(box)
        self.more = more

    def renew(self, program: str | None = None) -> None:
        super().renew(program)
        for name, content in {f"{DEEP}/A.java": b"class A {}\n", "a/file": b"near\n", **self.more}.items():
            self.box.file(self.work / name, content)


def clean(result) -> None:
    assert result.code == 0 and not result.report["denials"], result.describe()


def test_a_deep_directory_is_renamed_and_committed(box):
    place = Tree(box)
    place.renew()
    begin = ("git init -q && git config user.email me@example.com && git config user.name Me && git add . && git commit -qm begin")
    made = place.run(["sh", "-c", begin], supervised=False)
    assert made.code == 0, made.describe()
    clean(place.run(["sh", "-c", "git mv src lib && git mv lib/main/java/com lib/main/java/org && git commit -qam moved"]))
    moved = DEEP.replace("src", "lib", 1).replace("/com/", "/org/")
    assert (place.work / moved / "A.java").read_bytes() == b"class A {}\n" and not (place.work / "src").exists()
    listed = place.run(["git", "ls-files"], supervised=False)
    assert f"{moved}/A.java" in listed.text, listed.describe()


def test_a_tree_of_packages_is_renamed(box):
    """As pnpm lays it out: a store of packages, and links to it from each member."""
    store = "node_modules/.pnpm/left@1.0.0/node_modules/left"
    place = Tree(box, **{f"{store}/lib/a/b/c/d/index.js": b"left\n", "packages/app/src/a/b/c/d/e/f/g.js": b"g\n",
                         "packages/app/node_modules/own/a/b/c/d/e/f/own.js": b"own\n"})
    place.renew()
    link = place.work / "packages/app/node_modules/left"
    link.symlink_to(f"../../../{store}")
    box.own(link)
    read = "cat members/app/node_modules/left/lib/a/b/c/d/index.js members/app/node_modules/own/a/b/c/d/e/f/own.js"
    result = place.run(["sh", "-c", f"mv packages members && {read} && mv node_modules modules && mv modules node_modules && {read}"])
    clean(result)
    assert result.text == "left\nown\n" * 2, result.describe()


def test_a_secret_goes_to_no_name_beneath_a_moved_deep_directory(box):
    """The control is the same move bare; the twin is the same tree without the secret."""
    attack = ["/usr/bin/python3", "-c", MOVE + "; print(open(sys.argv[2] + sys.argv[3]).read())", "src", "lib"]
    secret = DEEP.removeprefix("src") + "/.env"
    place = Tree(box, **{f"{DEEP}/.env": b"SECRET=1\n"})
    place.renew()
    control = place.run([*attack, secret], supervised=False)
    assert control.code == 0 and "SECRET" in control.text, control.describe()
    place.renew()
    held = place.run([*attack, secret])
    assert held.code != 0 and "SECRET" not in held.text and "Invalid cross-device link" in held.errors, held.describe()
    assert (place.work / DEEP / ".env").exists()
    copied = place.run(["sh", "-c", f"mv src lib; cat lib{secret} {DEEP}/.env"])
    assert "SECRET" not in copied.text and (place.work / DEEP / ".env").exists(), copied.describe()
    twin = Tree(box, **{f"{DEEP}/notes": b"notes\n"})
    twin.renew()
    result = twin.run([*attack, DEEP.removeprefix("src") + "/notes"])
    clean(result)
    assert "notes" in result.text, result.describe()


def test_a_secret_stays_closed_beneath_a_directory_that_could_not_be_read_at_start(box):
    """The run may open its own directory; the pattern has stayed in force there."""
    place = Tree(box, **{"closed/deep/.env": b"SECRET=1\n", "closed/deep/notes": b"notes\n"})
    attack = ["sh", "-c", "chmod 755 closed && cat closed/deep/notes closed/deep/.env"]

    def renew() -> None:
        place.renew()
        (place.work / "closed").chmod(0)

    renew()
    control = place.run(attack, supervised=False)
    assert control.code == 0 and "SECRET" in control.text, control.describe()
    renew()
    held = place.run(attack)
    assert held.code != 0 and "notes" in held.text and "SECRET" not in held.text, held.describe()


def test_a_secret_stays_closed_at_its_new_name_after_a_walk_that_stopped(box):
    """A user's 257 closed directories stop the walk; root reads them all, and the move is refused. The twin is another name."""
    place = Tree(box, **{f"{DEEP}/.env": b"SECRET=1\n", f"{DEEP}/notes": b"notes\n"})
    place.renew()
    for number in range(257):
        box.directory(place.work / f"closed{number}", 0)
    moved = "lib" + DEEP.removeprefix("src")
    attack = ["sh", "-c", f"mv -T src lib; cat {moved}/notes {moved}/.env"]
    held = place.run(attack)
    assert held.code != 0 and "notes" in held.text and "SECRET" not in held.text, held.describe()
    assert (place.work / "src").exists() == (box.user.uid == 0), held.describe()
    control = place.run(["cat", f"{moved if box.user.uid else DEEP}/.env"], supervised=False)
    assert control.code == 0 and "SECRET" in control.text, control.describe()


def test_an_open_beside_a_deep_directory_is_left_to_the_kernel(box):
    """A new file beside it is made without a round trip, as Landlock holds the whole of `a`."""
    place = Tree(box, **{"a/b/c/d/e/f/g/h/file": b"deep\n"})
    place.renew()
    # Before ABI 3 Landlock cannot hold an open that truncates.
    make = "echo new > a/new" if place.run(["true"]).report["effective"]["landlock_abi"] >= 3 else "mkdir a/new"
    result = place.run(["sh", "-c", f"cat a/file && {make} && mkdir a/b/made && cat .env"])
    assert result.code == 1, result.describe()
    names = [json.dumps(one) for one in result.decisions()]
    assert not [name for name in names if "/work/a/" in name], names


def wide(box) -> Tree:
    """A tree of so many directories that a start keeps what it found. Only a change time that is over counts."""
    place = Tree(box, **{f"wide/d{number}/notes": b"notes\n" for number in range(200)}, **{"wide/d7/.env": b"SECRET=1\n"})
    place.renew()
    made = max(path.stat().st_ctime for path in (place.work / "wide").iterdir())
    harness.until(lambda: time.time() > made + 3, "the change times are over")
    return place


def read_secrets(place: Tree, *names: str) -> str:
    result = place.run(["cat", "wide/d1/notes", *(f"wide/{name}/.env" for name in names)])
    assert "notes" in result.text, result.describe()
    return result.text


def kept(box) -> Path:
    """The record of what a start found, for later ones."""
    [record] = [path for path in (box.state / "callgate/listings").iterdir() if b"/wide/d7\0" in path.read_bytes()]
    return record


def test_a_later_start_sees_secrets_that_were_put_there_since(box):
    """The control is each of them bare. The run cannot reach what starts keep."""
    place = wide(box)
    assert "SECRET" not in read_secrets(place, "d7")
    record = kept(box)
    before = (record.stat().st_ino, record.stat().st_mode & 0o777, record.read_bytes())
    assert before[1] == 0o600 and record.stat().st_uid == box.user.uid
    reach = place.run(["sh", "-c", f"echo >> {record}; mv {record} record; ln {record} record; rm {record}; cat {record}; ls {record.parent}; touch {record}"])
    assert reach.code != 0 and not reach.text and not (place.work / "record").exists(), reach.describe()
    assert (record.stat().st_ino, record.stat().st_mode & 0o777, record.read_bytes()) == before
    box.file(place.work / "wide/d9/.env", b"SECRET=2\n")
    (place.work / "wide/d11/notes").rename(place.work / "wide/d11/.env")
    (place.work / "wide/d13").rename(place.work / "wide/d15/inner")
    os.link(place.work / "wide/d7/.env", place.work / "wide/d17/.env")
    (place.work / "wide/d7").rename(place.work / "wide/d19/inner")
    later = ("d9", "d17", "d19/inner")
    bare = place.run(["cat", *(f"wide/{name}/.env" for name in later)], supervised=False)
    assert bare.code == 0 and bare.text.count("SECRET") == len(later), bare.describe()
    assert "SECRET" not in read_secrets(place, *later)
    assert "notes" not in place.run(["cat", "wide/d11/.env"]).text
    clean(place.run(["cat", "wide/d15/inner/notes"]))


EXCHANGE = """
import ctypes, select, sys
library, turned = ctypes.CDLL(None), 0
print("begins", flush=True)
while turned % 2 or not select.select([0], [], [], 0)[0]:
    for _ in range(99):
        turned += library.renameat2(-100, b"one", -100, b"other", 2) == 0
"""


def test_directories_that_another_run_exchanges_meanwhile_hide_no_secret(box):
    """A start asks for a directory's time and lists it by one name. The control is the secrets bare, the twin the notes beside them."""
    place = Tree(box, **{f"{top}/d{number}/notes": b"notes\n" for top in ("one", "other") for number in range(100)},
                 **{f"one/d{number}/.env": b"SECRET=1\n" for number in range(100)})
    place.renew()
    harness.until(lambda: time.time() > max(path.stat().st_ctime for path in place.work.glob("o*/*")) + 3, "the change times are over")
    exchange = box.start(["/usr/bin/python3", "-c", EXCHANGE], cwd=place.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    harness.read_until(exchange.stdout.fileno(), b"begins\n")
    for _ in range(10):
        assert place.run(["true"]).code == 0
    exchange.communicate(b"\n", timeout=harness.DEADLINE)
    line = ["sh", "-c", "cat one/*/notes one/*/.env"]
    bare = place.run(line, supervised=False)
    assert bare.code == 0 and bare.text.count("SECRET") == 100, bare.describe()
    held = place.run(line)
    assert held.text.count("notes") == 100 and "SECRET" not in held.text, held.describe()


def test_what_a_start_found_is_believed_only_if_the_user_alone_can_have_written_it(box):
    """The control is a record that its user has forged."""
    place = wide(box)
    assert "SECRET" not in read_secrets(place, "d7")
    record = kept(box)
    whole = record.read_bytes()
    assert b"\0f.env\0" in whole
    record.write_bytes(whole.replace(b"\0f.env\0", b"\0"))
    assert "SECRET" in read_secrets(place, "d7")
    record.chmod(0o660)
    assert "SECRET" not in read_secrets(place, "d7")
    assert b"\0f.env\0" in kept(box).read_bytes()
