"""A home that lasts (--home): whose it is, what is copied into it, and how an earlier run may not make it lead elsewhere."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import harness
from jobs import execute
from test_agents import LOGIN, codex

NOTE = "cg-note"


def run(box: harness.Box, script: str, *options: str, tree: Path | None = None, **more) -> harness.Result:
    return box.run(["/bin/sh", "-c", script], None, options=["--no-user-rules", *options], cwd=tree or box.tree,
                   env={"HOME": str(box.home)}, **more)


def bare(box: harness.Box, script: str) -> harness.Result:
    return box.run(["/bin/sh", "-c", script], supervised=False, cwd=box.tree, env={"HOME": str(box.home)})


def project_home(box: harness.Box, tree: Path | None = None) -> Path:
    """The home of a work directory, which holds a note."""
    made = run(box, f"echo {NOTE} > ~/note && echo $HOME", "--home", "project", tree=tree)
    assert made.code == 0, made.describe()
    return Path(made.text.strip())


def test_a_home_lasts_and_the_users_own_stays_as_it_is(box):
    home = project_home(box)
    assert home.parent == box.home / ".local/share/callgate/homes" and home.stat().st_mode & 0o777 == 0o700, home
    again = run(box, "cat ~/note; echo $XDG_CONFIG_HOME $XDG_DATA_HOME; test $XDG_RUNTIME_DIR = $TMPDIR && echo x > ~/.bashrc", "--home", "project")
    assert again.text == f"{NOTE}\n{home}/.config {home}/.local/share\n", again.describe()
    assert "Permission denied" in again.errors and not (home / ".bashrc").exists(), again.describe()
    assert not (box.home / "note").exists()
    named = box.home / "kept" / "agent"
    assert run(box, f"echo {NOTE} > ~/note", "--home", str(named)).code == 0 and (named / "note").read_text() == f"{NOTE}\n"
    other = box.directory(box.home / "other")
    assert project_home(box, other) != home


def test_the_home_of_another_project_is_closed(box):
    """Also where an option opens the directory of all homes, and for a run without such a home."""
    other = box.directory(box.home / "other")
    victim = project_home(box, other) / "note"
    home = project_home(box)
    script = f"cat {victim}; echo x > {victim}; cat ~/note; ls {home.parent}"
    assert bare(box, f"cat {victim}").text == f"{NOTE}\n", "the control"
    for options in (("--home", "project"), ("--home", "project", "--write", str(home.parent))):
        tried = run(box, script, *options)
        assert tried.text == f"{NOTE}\n" and tried.errors.count("Permission denied") >= 3, tried.describe()
    without = run(box, f"cat {victim}", "--write", str(home.parent))
    assert NOTE not in without.text and "callgate-homes" in without.errors, without.describe()
    assert victim.read_text() == f"{NOTE}\n"


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('reached')"


def test_a_socket_in_the_home_of_another_project_is_closed(box):
    """An agent's daemon could listen there. An option that opens it does not help."""
    home = project_home(box, box.directory(box.home / "other"))
    for place, reached in ((home, False), (box.directory(box.home / "open"), True)):
        name = place / "s"
        server = box.start(["/usr/bin/python3", "-c", f"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind({str(name)!r}); s.listen(); print('up', flush=True); time.sleep(600)"],
                           stdout=subprocess.PIPE)
        try:
            assert server.stdout.readline() == b"up\n"
            script = f'/usr/bin/python3 -c "{CONNECT}" {name}'
            assert bare(box, script).text == "reached\n", "the control"
            tried = run(box, script, "--connect", f"unix:{name}")
            assert (tried.text == "reached\n") == reached, tried.describe()
        finally:
            server.kill()
            server.wait()


def test_a_link_that_a_run_left_is_no_home(box):
    room = box.directory(box.home / "room")
    victim = box.directory(box.home / "victim")
    planted = run(box, f"ln -s {victim} {room}/h && mkdir {room}/d", "--write", str(room))
    assert planted.code == 0 and (room / "h").is_symlink(), planted.describe()
    assert bare(box, f"HOME={room}/h; echo x > ~/made").code == 0 and (victim / "made").exists(), "the control"
    (victim / "made").unlink()
    led = run(box, "echo x > ~/made", "--home", f"{room}/h")
    assert led.code == 125 and "a run could have made that link" in led.errors and not list(victim.iterdir()), led.describe()
    twin = run(box, "echo x > ~/made", "--home", f"{room}/d")
    assert twin.code == 0 and (room / "d/made").exists(), twin.describe()


def test_no_copy_goes_through_a_link_in_the_home(box):
    box.directory(box.home / "tools")
    box.file(box.home / "tools" / "own.conf", b"copied")
    victim = box.directory(box.home / "victim")
    home = project_home(box)
    planted = run(box, f"ln -s {victim} ~/tools && ln -s {victim}/two ~/two", "--home", "project")
    assert planted.code == 0 and (home / "tools").is_symlink(), planted.describe()
    assert bare(box, f"cp ~/tools/own.conf {home}/tools/").code == 0 and (victim / "own.conf").exists(), "the control"
    (victim / "own.conf").unlink()
    led = run(box, "true", "--home", "project", "--home-from", str(box.home / "tools/own.conf"))
    assert led.code == 125 and "tools in the lasting home is no directory" in led.errors, led.describe()
    box.file(box.home / "two", b"copied")
    assert run(box, "true", "--home", "project", "--home-from", str(box.home / "two")).code == 0
    assert not list(victim.iterdir()) and (home / "two").is_symlink()
    (home / "tools").unlink()
    twin = run(box, "cat ~/tools/own.conf", "--home", "project", "--home-from", str(box.home / "tools/own.conf"))
    assert twin.text == "copied" and (home / "tools").stat().st_mode & 0o77 == 0, twin.describe()


def test_what_is_copied_is_a_file_of_the_users_home_once(box):
    box.file(box.home / ".gitconfig", b"[user]\n\tname = n\n")
    box.file(box.home / "run.sh", b"#!/bin/sh\necho ran\n", 0o755)
    (box.home / "linked").symlink_to(box.home / ".gitconfig")
    options = ("--home", "project", "--home-from", str(box.home / ".gitconfig"), "--home-from", str(box.home / "run.sh"))
    first = run(box, "git config user.name; sh ~/run.sh; echo mine > ~/run.sh; echo $HOME", *options)
    assert first.text.splitlines()[:2] == ["n", "ran"], first.describe()
    home = Path(first.text.splitlines()[2])
    assert (home / "run.sh").stat().st_mode & 0o777 == 0o700 and (home / ".gitconfig").stat().st_mode & 0o777 == 0o600
    assert run(box, "cat ~/run.sh", *options).text == "mine\n", "what the home has is its own"
    for file, why in ((box.home / "linked", "symbolic link"), (box.home / "tools", "no regular file"), (Path("/etc/passwd"), "not in your home"),
                      (box.home / "absent", "No such file")):
        if file.name == "tools":
            box.directory(file)
        refused = run(box, "true", "--home", "project", "--home-from", str(file))
        assert refused.code == 125 and why in refused.errors and not (home / file.name).exists(), refused.describe()
    assert "give --home DIR" in run(box, "true", "--home-from", str(box.home / ".gitconfig")).errors


@pytest.mark.parametrize("name", [".ssh/id_ed25519", ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".qwen/settings.json", ".netrc"])
def test_files_of_credentials_are_never_copied(box, name):
    source = box.file(box.home / name, LOGIN.encode(), 0o600)
    home = project_home(box)
    assert bare(box, f"cp ~/{name} {home}/copy").code == 0 and (home / "copy").read_text() == LOGIN, "the control"
    refused = run(box, "true", "--home", "project", "--home-from", str(source))
    assert refused.code == 125 and "such files are never copied" in refused.errors, refused.describe()
    assert not (home / name).exists()


def test_a_home_lies_apart(box):
    inside = box.directory(box.tree / "h")
    for path, why in ((inside, "lies in the work directory"), (box.tree, "is or holds"), (box.home, "is or holds"), (box.home.parent, "is or holds"),
                      (Path("/"), "is or holds"), (box.home / ".local/share/callgate/homes", "is or holds")):
        refused = run(box, "true", "--home", str(path))
        assert refused.code == 125 and why in refused.errors, refused.describe()
    shared = box.directory(box.home / "shared")
    shared.chmod(0o777)
    refused = run(box, "true", "--home", str(shared))
    assert refused.code == 125 and "which others may write" in refused.errors, refused.describe()
    assert "exclude each other" in run(box, "true", "--home", "project", "--private-home").errors


def test_jobs_last_in_it_and_inspections_know_it(box):
    """Two jobs of `exec` share it. `explain` and `plan` speak of it, whether it exists or not."""
    env = {"HOME": str(box.home)}

    def said(*line: str) -> str:
        done = box.run([str(box.callgate), *line], supervised=False, env=env, cwd=box.tree)
        assert done.code == 0, done.describe()
        return done.text

    first = said("explain", "--home", "project", "write", "~/note")
    assert not (box.home / ".local/share/callgate/homes").exists(), "an inspection makes nothing"
    options = ("--no-user-rules", "--home=project")
    made = execute(box, {"language": "sh", "code": f"echo {NOTE} > ~/note; echo $HOME"}, *options, env=env)
    home = made["output"].strip()
    assert home.startswith(f"{box.home}/.local/share/callgate/homes/"), made
    assert execute(box, {"language": "sh", "code": "cat ~/note"}, *options, env=env)["output"] == f"{NOTE}\n"
    assert first.startswith(f"allow write {home}/note\n"), first
    assert said("explain", "--home", "project", "write", "~/note").startswith(f"allow write {home}/note\n")
    without = said("explain", "write", f"{home}/note")
    assert "callgate-homes" in without, without
    assert home in said("plan", "--home", "project") and home not in said("plan")


def test_the_home_itself_stays_where_it_is(box):
    home = project_home(box)
    moved = run(box, f"mv {home} {home}2; rm -rf ~; ln -s /etc {home}", "--home", "project")
    assert home.is_dir() and not home.is_symlink() and moved.report["denials"], moved.describe()


def test_an_agent_logs_in_within_its_lasting_home(box):
    """The program is the user's; the login is the home's, and the user's own login stays closed to the agent."""
    launcher, _ = codex(box, box.home / ".npm-global" / "lib")
    home = project_home(box)
    login = box.file(home / ".codex" / "auth.json", b"cg-lasting", 0o600)
    result = box.run([str(launcher)], None, options=["-p", "codex", "--no-user-rules", "--home", "project"], env={"HOME": str(box.home)})
    agent, tool, _ = result.text.splitlines()
    assert agent == "agent cg-lasting" and "Permission denied" in tool and LOGIN not in result.text, result.describe()
    read_own = box.run([str(launcher)], None, env={"HOME": str(box.home)},
                       options=["-p", "codex", "--no-user-rules", "--home", "project", "--env", f"HOME={box.home}"])
    assert LOGIN not in read_own.text and login.exists(), read_own.describe()
