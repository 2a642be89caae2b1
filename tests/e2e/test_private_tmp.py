"""By the profile `agent`, which holds where none is named, /tmp is the run's own through TMPDIR, and the shared one is not writable."""
from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path

import pytest

import toolchains

PYTHON = "/usr/bin/python3"

# Each attempt at what lies in the shared directory, by the name that is given; then what a program does that asks where to go.
ATTEMPTS = """
import os, socket, stat, subprocess, sys, tempfile
name = sys.argv[1]
def attempt(what, action):
    try: action(); print(what, "done")
    except OSError as error: print(what, "refused")
attempt("file", lambda: open(f"/tmp/{name}-file", "w").close())
attempt("directory", lambda: os.mkdir(f"/tmp/{name}-directory"))
attempt("link", lambda: os.symlink("/etc/passwd", f"/tmp/{name}-link"))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind(f"/tmp/{name}-socket"))
attempt("read", lambda: open(f"/tmp/{name}-other").read())
attempt("append", lambda: open(f"/tmp/{name}-other", "a").close())
attempt("remove", lambda: os.unlink(f"/tmp/{name}-other"))
with tempfile.NamedTemporaryFile("w+") as own:
    own.write("mine"); own.flush()
    print("temporary", own.name.startswith(os.environ["TMPDIR"] + "/"), open(own.name).read())
made = subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip()
print("mktemp", made.startswith(os.environ["TMPDIR"] + "/"))
print("mode", oct(stat.S_IMODE(os.stat(os.environ["TMPDIR"]).st_mode)), os.environ["TMPDIR"])
"""
SHARED = ["file", "directory", "link", "socket", "read", "append", "remove"]


@pytest.fixture
def name(user):
    made = f"cg-test-{uuid.uuid4().hex}"
    other = Path(f"/tmp/{made}-other")
    other.write_text("somebody's")
    os.chmod(other, 0o666)
    if os.geteuid() == 0:
        os.chown(other, user.uid, user.gid)
    yield made
    for one in Path("/tmp").glob(f"{made}-*"):
        one.rmdir() if not one.is_symlink() and one.is_dir() else one.unlink()


def test_control_the_shared_directory_is_open_to_a_bare_command(box, name):
    bare = box.run([PYTHON, "-c", ATTEMPTS, name], supervised=False, env={"TMPDIR": "/tmp"})
    assert bare.text.splitlines()[:7] == [f"{one} done" for one in SHARED], bare.describe()


def test_a_run_has_a_directory_of_its_own_and_not_the_shared_one(box, name):
    box.file(box.tree / "attempts.py", ATTEMPTS.encode())
    result = box.run([PYTHON, "attempts.py", name], options=["--ask", "never"])
    lines = result.text.splitlines()
    assert result.code == 0 and lines[:7] == [f"{one} refused" for one in SHARED], result.describe()
    assert lines[7:9] == ["temporary True mine", "mktemp True"], result.describe()
    _, mode, place = lines[9].split()
    assert mode == oct(stat.S_IRWXU) and place.startswith("/tmp/callgate-") and not Path(place).exists(), result.describe()
    assert [one.name for one in Path("/tmp").glob(f"{name}-*")] == [f"{name}-other"]
    assert Path(f"/tmp/{name}-other").read_text() == "somebody's"


def test_the_lock_of_php_is_a_file_and_no_link(box):
    """PHP's web server makes it in /tmp and removes its name. Twin: another name there, one of another length, and a link."""
    lock = f"/tmp/.ZendSem.{uuid.uuid4().hex[:6]}"
    script = f"echo x > {lock} && chmod 666 {lock} && rm {lock} && echo made; for one in {lock}x /tmp/{lock[14:]}; do echo x > $one; done; ln -s /etc/passwd {lock}"
    try:
        bare = box.run(["/bin/sh", "-c", f"{script}; ls {lock} {lock}x /tmp/{lock[14:]}"], supervised=False)
        assert bare.code == 0 and bare.text.startswith("made\n"), bare.describe()
        for one in (lock, f"{lock}x", f"/tmp/{lock[14:]}"):
            Path(one).unlink()
        result = box.run(["/bin/sh", "-c", script], options=["-p", "php", "--ask", "never"])
        left = [one for one in (lock, f"{lock}x", f"/tmp/{lock[14:]}") if os.path.lexists(one)]
        assert result.text == "made\n" and left == [], result.describe()
    finally:
        for one in (lock, f"{lock}x", f"/tmp/{lock[14:]}"):
            Path(one).unlink(missing_ok=True)


WEB = """<?php $server = proc_open([PHP_BINARY, '-S', '127.0.0.1:0'], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
preg_match('~http://[0-9.]+:[0-9]+~', fgets($pipes[2]), $found); echo file_get_contents("$found[0]/page.php");
proc_terminate($server); proc_close($server);
"""


def test_the_web_server_of_php_starts_with_its_profile(box):
    toolchains.require("php")
    box.file(box.tree / "web.php", WEB.encode())
    box.file(box.tree / "page.php", b"<?php echo 'page';")
    result = box.run(["/usr/bin/php", "web.php"], options=["-p", "php", "--ask", "never"])
    assert (result.code, result.text, result.errors) == (0, "page", ""), result.describe()


def test_zsh_has_here_documents(box):
    """zsh makes a file for each, at the prefix in TMPPREFIX and not in TMPDIR, and removes it before it is read."""
    toolchains.require("zsh")
    line = ["/usr/bin/zsh", "-c", "cat <<END\nline\nEND\ncat /dev/stdin =(echo more) <<END\nother\nEND\n"]
    assert box.run(line, supervised=False).text == "line\nother\nmore\n"
    result = box.run(line, options=["--ask", "never"])
    assert (result.code, result.text, result.errors) == (0, "line\nother\nmore\n", ""), result.describe()
