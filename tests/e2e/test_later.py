"""Code that the user runs afterwards: what ordinary tools do in a work directory still works by the default profile."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from random import Random

import pytest

import harness
from approvers import Asked, records
from outer import Outer
from test_ask_tty import answers

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}


def works(box, script, options=(), **more):
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never", *options], env=IDENTITY, **more)
    denied = [one for one in result.decisions(verdict="deny") if one["callgate"]["mechanism"] != "filtered"]
    assert result.code == 0 and not denied and not result.report["denials"], result.describe()
    return result


def filtered(result):
    return [one["callgate"]["second_object"] for one in result.decisions() if one["callgate"]["mechanism"] == "filtered"]


def keys(path):
    """The settings that git reads from a file."""
    made = subprocess.run(["git", "config", "-f", str(path), "-l", "-z"], capture_output=True, check=False)
    return made.stdout if made.returncode == 0 else None


def repository(box, config=""):
    """A clone that the user has, of a repository beside the work directory."""
    box.run(["/bin/sh", "-ec", "git init -q -b main up && cd up && git commit -q --allow-empty -m one && cd .. && git clone -q up w"],
            supervised=False, env=IDENTITY)
    there = box.tree / "w"
    if config:
        with open(there / ".git/config", "a", encoding="utf-8") as file:
            file.write(config)
    return there


def test_a_repository_can_be_made(box):
    result = works(box, "git init -q . && echo x > x && git add x && git commit -qm one && git status")
    assert filtered(result) and set(filtered(result)) == {str(box.tree / ".git/config")}, result.describe()
    assert b"core.filemode\ntrue\0" in keys(box.tree / ".git/config")
    assert (box.tree / ".git/config").exists() and not (box.tree / ".git/hooks/pre-commit").exists()


def test_hooks_of_the_new_repository_are_closed(box):
    result = box.run(["/bin/sh", "-c", "git init -q . && echo code > .git/hooks/pre-commit"], options=["--ask", "never"])
    assert result.code != 0 and not (box.tree / ".git/hooks/pre-commit").exists(), result.describe()


def test_a_repository_is_cloned_into_the_work_directory(box):
    there = box.directory(box.tree / "tree")
    box.run(["/bin/sh", "-ec", "git init -q up && cd up && echo x > x && git add x && git commit -qm one"], supervised=False, env=IDENTITY)
    box.run(["/bin/mv", "up", str(there.parent / "up")], supervised=False)
    works(box, "git clone -q --no-hardlinks ../up .", ["--read", str(there.parent / "up")], cwd=there)
    assert (there / "x").exists()


@pytest.mark.parametrize(("script", "added"), [
    ("git checkout -q -b track origin/main", b"branch.track.remote\norigin\0branch.track.merge\nrefs/heads/main\0"),
    ("git remote add up https://example.org/x.git", b"remote.up.url\nhttps://example.org/x.git\0remote.up.fetch\n+refs/heads/*:refs/remotes/up/*\0"),
    ("git config user.name 'A; B' && git config user.email a@example.org", b"user.name\nA; B\0user.email\na@example.org\0"),
    ("git branch -q topic && git branch -q -u main topic", b"branch.topic.remote\n.\0branch.topic.merge\nrefs/heads/main\0"),
])
def test_an_existing_clone_gets_harmless_settings(box, script, added):
    """The user's own settings stay, with their comments."""
    there = repository(box, "# mine\n[alias]\n\tst = !status\n[credential]\n\thelper = store # mine\n")
    config = there / ".git/config"
    config.chmod(0o640)
    before, was = keys(config), config.stat()
    result = works(box, script, cwd=there)
    assert keys(config) == before + added and filtered(result), result.describe()
    assert "# mine\n[alias]" in config.read_text() and "helper = store # mine\n" in config.read_text()
    assert config.stat().st_mode == was.st_mode and result.errors.count("your tools") == 0, result.describe()
    assert sorted(one.name for one in (there / ".git").iterdir() if one.name.startswith("config")) == ["config"]


@pytest.mark.parametrize(("script", "why"), [
    ("git config core.fsmonitor /x", "core.fsmonitor is no setting that a run may change"),
    ("git remote set-url origin https://example.net/", "remote.origin.url is there already, and would change"),
    ("git branch -q topic && git config branch.main.merge refs/heads/topic", "branch.main.merge is there already, and would change"),
    ("git remote add up ext::x", "the value of remote.up.url is not one that a run may set"),
])
def test_other_settings_are_refused_with_the_reason(box, script, why):
    there = repository(box)
    before = (there / ".git/config").read_bytes()
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never"], cwd=there)
    assert result.code != 0 and why in result.errors and not filtered(result), result.describe()
    assert (there / ".git/config").read_bytes() == before


def asked_about(box, there, script):
    """A run whose questions come to the test, in the repository of the user."""
    return Asked(box, ["/bin/sh", "-c", f"cd {there} && {script}"], None)


SET_URL = "git remote set-url origin https://{}.example/x.git"


def test_the_change_of_a_remote_is_asked_with_both_values(box):
    there = repository(box)
    config = there / ".git/config"
    before = config.read_bytes()
    run = asked_about(box, there, f"{SET_URL.format('one')}; {SET_URL.format('two')}; echo $?")
    ask = run.ask()
    assert ask["changes"] == [f'remote.origin.url: "{box.tree}/up" -> "https://one.example/x.git"'], ask
    assert ask["object"]["path"] == f"{config}.lock" and ask["second_path"] == str(config) and "arguments" not in ask
    assert ask["scopes"] == ["once", "object"] and config.read_bytes() == before
    run.decide(ask, "allow")
    other = run.ask()
    assert other["changes"] == ['remote.origin.url: "https://one.example/x.git" -> "https://two.example/x.git"']
    assert b"remote.origin.url\nhttps://one.example/x.git\0" in keys(config)
    run.decide(other, "deny")
    result = run.end()
    assert result.text != "0\n" and b"https://one.example/x.git\0" in keys(config), result.describe()
    # On record first: shown, answered, decided.
    (decided,) = result.decisions(verdict="allow", decided_by="program")
    assert decided["callgate"]["mechanism"] == "filtered" and decided["callgate"]["input"]["argv"] == ask["changes"]
    shown, answered = records(result, "prompt.shown")[0], records(result, "prompt.answered")[0]
    order = [one["event"]["sequence"] for one in (shown, answered, decided)]
    assert order == sorted(order) and shown["callgate"]["argv"] == ask["changes"]


@pytest.mark.parametrize(("host", "undecidable"), [("one", 0), ("me:hunter2@one", 3)], ids=["twin", "password"])
def test_a_password_in_a_remote_is_shown_and_not_on_record(box, host, undecidable):
    """An answer for the run counts all the same. Replay cannot compare what is not on record, and says how often."""
    there = repository(box)
    box.run(["git", "remote", "set-url", "origin", "https://zero.example/x.git"], supervised=False, cwd=there)
    run = asked_about(box, there, f"{SET_URL.format(host)}; {SET_URL.format('zero')}; {SET_URL.format(host)}; echo $?")
    one, zero = f'"https://{host}.example/x.git"', '"https://zero.example/x.git"'
    for expected in (f"{zero} -> {one}", f"{one} -> {zero}"):
        ask = run.ask()
        assert ask["changes"] == [f"remote.origin.url: {expected}"], ask
        run.decide(ask, "allow", "object")
    result = run.end()
    assert result.text == "0\n" and f"https://{host}.example/x.git\0".encode() in keys(there / ".git/config"), result.describe()
    decided = result.decisions(verdict="allow", decided_by="program") + result.decisions(verdict="allow", decided_by="grant")
    shown = [one["callgate"]["input"]["argv"][0] for one in decided]
    assert len(shown) == 3 and all("one.example" in text and ("[redacted]@" in text) == (undecidable != 0) for text in shown), shown
    assert b"hunter2" not in run.log.read_bytes()
    replayed = json.loads(harness.audit(box, "replay", "--profile", "agent", "--json", str(run.log)).text)
    assert (replayed["changed"], replayed["contradicted"], replayed["answered"], replayed["undecidable"]) == (0, 0, 3, undecidable), replayed


@pytest.mark.parametrize("way", ["text", "json"])
def test_explain_says_what_becomes_of_a_change_of_settings(box, way):
    there = repository(box)
    told = box.run([str(box.callgate), "explain", *(["--json"] if way == "json" else []), "modify", f"{there}/.git/config"], supervised=False, cwd=there)
    assert "the change of a remote or branch that is there is asked with its old and new value" in told.text, told.describe()
    other = box.run([str(box.callgate), "explain", "modify", f"{there}/.git/hooks/pre-commit"], supervised=False, cwd=there)
    assert other.text.startswith("deny") and "is asked" not in other.text, other.describe()


def test_an_answer_for_the_run_is_for_these_values_alone(box):
    """Back to the old value is another change, and so is the same value in place of another."""
    there = repository(box)
    again = "git config remote.origin.url https://one.example/x.git; echo $?"
    box.run(["git", "remote", "set-url", "origin", "https://zero.example/x.git"], supervised=False, cwd=there)
    zero = SET_URL.format("zero")
    run = asked_about(box, there, f"{SET_URL.format('one')}; {zero}; {SET_URL.format('one')}; {SET_URL.format('two')}; {again}")
    for verdict, scope, old, new in (("allow", "object", "zero", "one"), ("allow", "object", "one", "zero"), ("deny", "once", "one", "two")):
        ask = run.ask()
        assert ask["changes"] == [f'remote.origin.url: "https://{old}.example/x.git" -> "https://{new}.example/x.git"'], ask
        run.decide(ask, verdict, scope)
    result = run.end()
    assert result.text == "0\n" and b"https://one.example/x.git\0" in keys(there / ".git/config"), result.describe()
    assert len(result.decisions(verdict="allow", decided_by="grant")) == 1, result.describe()


def test_what_changed_while_the_question_waited_is_not_written(box):
    there = repository(box)
    config = there / ".git/config"
    wanted = config.read_text().replace(f"{box.tree}/up", "https://one.example/x.git")
    box.file(there / "wanted", wanted.encode())
    run = asked_about(box, there, "cat wanted > .git/config.lock; mv -f .git/config.lock .git/config; echo $?")
    ask, lock = run.ask(), there / ".git/config.lock"
    before = config.read_bytes()
    lock.write_text(wanted.replace("one.example", "two.example"))
    run.decide(ask, "allow")
    result = run.end()
    assert result.text == "1\n" and config.read_bytes() == before, result.describe()
    assert "it has changed since it was asked about" in str(result.decisions(verdict="deny")), result.describe()


def test_the_change_of_a_branch_is_asked_on_the_terminal(box):
    there = repository(box)
    line, log = box.command(["/bin/sh", "-c", f"cd {there} && git config branch.main.merge refs/heads/topic; echo after $?"],
                            None, ["--ask", "tty"])
    outer = Outer(box, line)
    outer.log = log
    shown = outer.prompted()
    assert "wants to   change settings that are there" in shown, shown
    assert 'changes    branch.main.merge: "refs/heads/main" -> "refs/heads/topic"' in shown, shown
    outer.type("a\r")
    outer.sees("after 0")
    outer.end()
    assert answers(outer) == [("allow", "tty")] and b"branch.main.merge\nrefs/heads/topic\0" in keys(there / ".git/config")


def test_a_value_of_the_user_draws_nothing_on_the_terminal(box):
    """The user's own file holds control characters, as git writes them."""
    there = repository(box, '[remote "odd"]\n\turl = "https://odd.example/\\n\\t"\n')
    run = asked_about(box, there, "git config remote.odd.url https://new.example/; echo $?")
    ask = run.ask()
    assert ask["changes"] == [r'remote.odd.url: "https://odd.example/\x0a\x09" -> "https://new.example/"'], ask
    run.decide(ask, "allow")
    assert run.end().text == "0\n" and b"remote.odd.url\nhttps://new.example/\0" in keys(there / ".git/config")


def test_what_the_user_includes_is_left_to_the_user(box):
    there = repository(box, "[include]\n\tpath = more\n")
    result = box.run(["git", "config", "user.name", "a"], options=["--ask", "never"], cwd=there)
    assert result.code != 0 and "it includes another file" in result.errors, result.describe()


def test_the_new_repository_is_the_runs_own(box):
    """Until the next run its settings may change, and it can be removed."""
    works(box, "git init -q . && git remote add up https://example.org/ && git remote set-url up https://example.net/ && git remote remove up"
               " && git init -q . && rm .git/config && git config user.name a")
    assert keys(box.tree / ".git/config") == b"user.name\na\0"


@pytest.mark.parametrize("made", ["git init -q --bare sub", "ln -s ../up sub", "mkdir -p x && ln -s x/../../up sub"])
def test_a_local_repository_that_the_run_can_write_is_no_origin(box, made):
    """The run could also change a link on the way afterwards."""
    there = box.directory(box.tree / "tree")
    repository(box)
    result = box.run(["/bin/sh", "-c", f"{made} && git init -q . && git remote add up \"$PWD/sub\""],
                     options=["--ask", "never"], cwd=there)
    assert result.code != 0 and "the value of remote.up.url" in result.errors, result.describe()


def test_a_file_that_a_killed_callgate_left_is_no_obstacle(box):
    there = repository(box)
    box.file(there / ".git/config.callgate", b"[core]\n\tfsmonitor = x\n")
    works(box, "git config user.name a", cwd=there)
    assert not (there / ".git/config.callgate").exists() and b"fsmonitor" not in keys(there / ".git/config")


PIECES = ["[core]", "[a]", '[a "b"]', '[a "b\\"c"]', '[a "B.c d"]', "[a.b]", "[ a]", '[a"b"]', "[A-1]", "\n", "\n", "\n", "\n\t", "\n ", "x", "y-2",
          "Zz", " = ",
          "=", " =", "1", "true", '"', '""', "\\", "\\n", "\\t", "\\\\", '\\"', "\\b", "\\q", "#", " # c", ";", " ; d", "\t", " ", "  ", "a b", "\r\n", "\0",
          "\x01", "\u00e9", "!x", "[", "]", "\\\n", "'", "\ufeff", "\v"]


def fuzzed(random):
    """A file of settings, most of it as git writes it, some of it anything."""
    lines = []
    for _ in range(random.randint(1, 6)):
        if random.random() < 0.55:
            value = "".join(random.choice(['a', 'b c', ' ', '"', '""', '\\\\', '\\n', '\\t', '\\"', '#', ';', 'é', '=', '[', '  ', '\t']) for _ in range(random.randint(0, 4)))
            blank = random.choice(["", " ", "\t", "  "])
            lines.append(random.choice(["[core]", '[a "b"]', '[S "x\\\\y.Z"] ; c', "# c", "", f"{blank}k{blank}={blank}{value}{blank}", f"\tkEy-1 = {value}", f"{blank}alone{blank}"]))
        else:
            lines.append("".join(random.choice(PIECES) for _ in range(random.randint(1, 8))))
    return "[core]\n" + "\n".join(lines) + random.choice(["", "\n"])


def test_fuzzed_settings_keep_the_keys_that_git_reads(box):
    """The user's own files, with one harmless key added: what becomes of each, and of nothing else, is what git reads."""
    count, random = 1000 if harness.SOAK else 50, Random(2024)
    wanted, made = {}, box.directory(box.tree / "w")
    for number in range(count):
        text = fuzzed(random)
        folder = box.directory(box.directory(made / str(number)) / ".git")
        box.file(folder / "config", text.encode())
        wanted[number] = (text + ("" if text.endswith("\n") else "\n") + "[user]\n\tname = added\n").encode()
        box.file(folder / "wanted", wanted[number])
    script = "import os\nfor one in os.listdir('.'):\n git = one + '/.git/'\n open(git + 'config.lock', 'wb').write(open(git + 'wanted', 'rb').read())\n" \
             " try: os.rename(git + 'config.lock', git + 'config')\n except PermissionError: os.unlink(git + 'config.lock')\n"
    result = box.run(["/usr/bin/python3", "-c", script], options=["--ask", "never"], cwd=made)
    assert result.code == 0, result.describe()
    taken = {int(path.split("/")[-3]) for path in filtered(result)}
    reference = box.root / "reference"
    for number, text in wanted.items():
        config = made / str(number) / ".git/config"
        reference.write_bytes(text)
        if number in taken:
            expected = keys(reference)
            assert expected is not None and keys(config) == expected, (text, config.read_bytes())
        else:
            assert b"added" not in config.read_bytes(), text
        assert not (config.parent / "config.lock").exists()
    assert len(taken) > count // 8 and len(taken) < count * 7 // 8, len(taken)


def test_installed_packages_are_replaced_whatever_they_hold(box):
    """`npm ci` removes node_modules as a whole; packages hold editors' settings and keys of tests."""
    for name in (".vscode/settings.json", "test/server.key", ".env", ".idea/x.xml", ".git/config"):
        box.file(box.tree / "node_modules/one" / name, b"x")
        box.file(box.tree / "venv/lib/python3.11/site-packages/one" / name, b"x")
    box.file(box.tree / "venv/pyvenv.cfg", b"home = /usr/bin\n")
    works(box, "cat node_modules/one/test/server.key; rm -r node_modules venv/lib; mkdir -p node_modules/one/.vscode; echo x > node_modules/one/.env")


def test_a_planted_environment_hides_no_secret(box):
    """A run may make a `pyvenv.cfg` beside what the next one must not read."""
    for name in ("sub/pyvenv.cfg", "sub/lib/x.key", "sub/.env"):
        box.file(box.tree / name, b"SECRET")
    result = box.run(["/bin/cat", "sub/lib/x.key", "sub/.env"], options=["--ask", "never"])
    assert b"SECRET" not in result.out, result.describe()


@pytest.mark.parametrize("tool, script, made", [
    ("npm", "npm init -y >/dev/null && mkdir dep && (cd dep && npm init -y >/dev/null) && npm install ./dep --no-fund >/dev/null",
     "node_modules/dep/package.json"),
    ("python3", "/usr/bin/python3 -m venv --without-pip env && env/bin/python -c 'import sys'", "env/pyvenv.cfg"),
    ("cargo", "cargo init -q --vcs git --name one . && ls .git/HEAD", "Cargo.toml"),
])
def test_projects_are_begun(box, tool, script, made):
    path = shutil.which(tool, path=box.environment()["PATH"])
    if path is None:
        pytest.skip(f"there is no {tool}")
    works(box, script)
    assert os.path.exists(box.tree / made)


def test_a_tarball_that_holds_settings_and_keys_is_installed_and_replaced(box):
    """The second run finds the package there: its names are held nowhere in node_modules."""
    if shutil.which("npm", path=box.environment()["PATH"]) is None:
        pytest.skip("there is no npm")
    held = ("package/.vscode/tasks.json", "package/test/server.key", "package/.envrc", "package/.claude/settings.json")
    box.file(box.root / "package/package.json", b'{"name": "one", "version": "1.0.0"}')
    for name in held:
        box.file(box.root / name, b"x")
    pack = ["/bin/tar", "-czf", str(box.tree / "one-1.0.0.tgz"), "-C", str(box.root), "package"]
    assert box.run(pack, supervised=False).code == 0
    quiet = "--offline --no-audit --no-fund --loglevel=error"
    works(box, f"npm init -y >/dev/null && npm install {quiet} ./one-1.0.0.tgz")
    for again in ("npm ci", "npm update", "rm -r node_modules && npm install"):
        works(box, f"{again} {quiet}")
        for name in held:
            assert (box.tree / name.replace("package", "node_modules/one", 1)).read_bytes() == b"x", (again, name)


def test_husky_is_prepared(box):
    """The files that husky's `prepare` makes."""
    works(box, "git init -q . && mkdir -p .husky/_ && echo '*' > .husky/_/.gitignore && echo 'npm test' > .husky/pre-commit")


def checkout(box, base: str, held: str):
    """A repository with the branch `other`, made outside, and a supervised checkout of it. `base` and `held` make the two trees."""
    script = f"git init -q -b main . && echo 1 > .a && mkdir .vscode && {base} && git add . && git commit -qm one && " \
        f"git checkout -qb other && echo 2 > .a && {held} && git add . && git commit -qm two && git checkout -q main"
    made = box.run(["/bin/sh", "-ec", script], supervised=False, env=IDENTITY)
    assert made.code == 0, made.describe()
    return box.run(["git", "checkout", "-q", "other"], options=["--ask", "never"], env=IDENTITY)


FINISHED = "git restore . && git clean -fdq && git checkout -q other && git status --porcelain && git branch --show-current"


@pytest.mark.parametrize("base, held, name", [
    ("true", "mkdir -p .vscode && echo 2 > .vscode/tasks.json", ".vscode"),
    ("echo 1 > .vscode/tasks.json", "echo 2 > .vscode/tasks.json", ".vscode/tasks.json"),
    ("echo 1 > .vscode/tasks.json", "git rm -qr .vscode", ".vscode/tasks.json"),
], ids=["made", "changed", "removed"])
def test_a_half_switched_tree_is_said_first(box, base, held, name):
    """And what it says finishes the checkout."""
    result = checkout(box, base, held)
    after = [line for line in result.errors.splitlines() if line.startswith("callgate: ")]
    assert after[0] == f"callgate: the tree is half switched: git could not change {name}; outside callgate run git status, " \
        "undo what you did not change yourself, and run git again", result.describe()
    assert after[1].startswith("callgate: denied 1 call"), result.describe()
    finished = box.run(["/bin/sh", "-ec", FINISHED], supervised=False, env=IDENTITY)
    assert finished.text == "other\n" and (box.tree / ".a").read_text() == "2\n", finished.describe()


def test_a_tree_that_is_switched_wholly_is_not_called_half_switched(box):
    """Nor one that another program could not change, nor a hook that git could not make."""
    result = checkout(box, "true", "mkdir -p sub && echo 2 > sub/tasks.json")
    assert result.code == 0 and "half switched" not in result.errors, result.describe()
    result = box.run(["/bin/sh", "-c", "echo x > .envrc; echo x > .git/hooks/post-checkout"], options=["--ask", "never"])
    assert "denied 2 calls" in result.errors and "half switched" not in result.errors, result.describe()


def test_the_footer_names_what_the_user_runs_later(box):
    box.file(box.tree / "old/Makefile", b"all:\n")
    box.file(box.tree / "old/package.json", b"{}")
    result = box.run(["/bin/sh", "-c", "echo all: > old/Makefile; mkdir -p .husky node_modules/x; echo x > .husky/pre-commit; echo x > notes;"
                      "echo {} > node_modules/x/package.json; mkdir -p venv/share/jupyter/lab; echo {} > venv/share/jupyter/lab/package.json"],
                     options=["--ask", "never"])
    assert result.errors == "callgate: your tools may run code from what changed: .husky/pre-commit, old/Makefile\n", result.describe()
    nothing = box.run(["/bin/sh", "-c", "cat old/Makefile; echo y > notes"], options=["--ask", "never"])
    assert nothing.errors == "", nothing.describe()


def test_the_footer_counts_and_says_where_it_has_not_looked(box):
    script = "mkdir -p a/b/c/d/e/f/g/h; for one in 1 2 3 4 5 6 7 8; do mkdir n$one; echo x > n$one/Makefile; done; echo x > a/b/c/d/e/f/g/h/Makefile"
    result = box.run(["/bin/sh", "-c", script], options=["--ask", "never"])
    assert result.errors.endswith("changed: a/b/c/d/e/f/g/h/Makefile, n1/Makefile, n2/Makefile, n3/Makefile, n4/Makefile … and 4 more\n"), \
        result.describe()
    # A run can hide a name neither in a directory that cannot be read, nor behind many others. Another user's is closed to it.
    unread = "callgate: what your tools may run was not looked for in all directories\n"
    if box.user.uid != 0:
        result = box.run(["/bin/sh", "-c", "mkdir shut; echo x > shut/Makefile; chmod 0 shut"], options=["--ask", "never"])
        assert result.errors == unread, result.describe()
        (box.tree / "shut").chmod(0o755)
        if os.geteuid() == 0:
            box.directory(box.tree / "theirs", 0o700)
            os.chown(box.tree / "theirs", 0, 0)
        assert box.run(["/bin/true"], options=["--ask", "never"]).errors == ""
    many = "mkdir many many/sub; seq -f many/%.0f 20000 | xargs touch; echo x > many/sub/Makefile"
    result = box.run(["/bin/sh", "-c", many], options=["--ask", "never"])
    assert result.errors == unread, result.describe()
    result = box.run(["/bin/sh", "-c", "echo x > Makefile"], options=["--ask", "never"])
    assert result.errors == "callgate: your tools may run code from what changed: Makefile (not all directories were looked at)\n", \
        result.describe()


def test_a_changed_time_hides_nothing(box):
    result = box.run(["/bin/sh", "-c", "echo x > Makefile; touch -d 2001-01-01 Makefile; ln -s /etc/passwd setup.py"], options=["--ask", "never"])
    assert "changed: Makefile, setup.py\n" in result.errors, result.describe()


def test_many_changed_names_hide_none_that_runs_at_once(box):
    """A repository beneath is one: git reads its settings for `git status` above it, where it was added there."""
    script = "mkdir a b; for one in 1 2 3 4 5 6; do mkdir a/$one; echo x > a/$one/Makefile; done; git init -q zz; mkdir b/objects b/refs; " \
        "echo 'ref: refs/heads/x' > b/HEAD; mkdir other; echo x > other/x; mkdir sub; ln -s ../other sub/.vscode"
    result = box.run(["/bin/sh", "-c", script], options=["--ask", "never"])
    assert result.errors.endswith("changed: b/HEAD, sub/.vscode, zz/.git/config, a/1/Makefile, a/2/Makefile … and 4 more\n"), result.describe()


@pytest.mark.parametrize(("script", "named"), [
    ("mkdir h; echo x > h/pre-commit; rm -r .husky; ln -s h .husky", ".husky"),
    ("mkdir -p sub/.github w; echo x > w/ci.yml; ln -s ../../w sub/.github/workflows", "sub/.github/workflows"),
    ("mkdir -p sub c; echo x > c/config.toml; ln -s ../c sub/.cargo", "sub/.cargo"),
    ("git init -q sub; mkdir h; echo x > h/pre-push; rm -r sub/.git/hooks; ln -s ../../h sub/.git/hooks; rm sub/.git/config", "sub/.git/hooks"),
], ids=["husky", "workflows", "cargo", "hooks"])
def test_a_link_in_place_of_a_directory_is_named(box, script, named):
    """The walk follows none, and the tool would."""
    box.file(box.tree / ".husky/pre-commit", b"the user's\n")
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never", "--except", f"base.git-symlinks={box.tree}/sub/.git/hooks"])
    assert result.errors == f"callgate: your tools may run code from what changed: {named}\n", result.describe()


def test_what_the_users_settings_of_git_name_is_named(box):
    """The user's hooks lie in the tree, and so does a file that the settings include. Others beside them are not named."""
    there = repository(box, "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../tools/./git.conf\n[include]\n\tpath = /etc/none\n")
    script = "mkdir -p tools/hooks; for one in hooks/pre-commit hooks/pre-push.sample git.conf other; do echo x > tools/$one; done"
    result = box.run(["/bin/sh", "-c", script], options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: tools/git.conf, tools/hooks/pre-commit\n", result.describe()


def test_what_the_users_settings_name_within_git_is_named(box):
    """The walk leaves out most of .git, but for the way to these. git runs both."""
    there = repository(box)
    for key, value in (("include.path", "own/more/settings"), ("core.hooksPath", ".git/tools/hooks")):
        assert box.run(["git", "config", key, value], supervised=False, cwd=there).code == 0
    script = "mkdir -p .git/own/more .git/tools/hooks; git config -f .git/own/more/settings core.fsmonitor 'touch ran; false'; " \
        "printf 'touch ran-too' > .git/tools/hooks/pre-commit; chmod +x .git/tools/hooks/pre-commit; echo x > .git/own/other; echo x > .git/tools/other"
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: .git/own/more/settings, .git/tools/hooks/pre-commit\n", \
        result.describe()
    box.run(["/bin/sh", "-c", "git status; git commit -q --allow-empty -m one"], supervised=False, env=IDENTITY, cwd=there)
    assert (there / "ran").exists() and (there / "ran-too").exists()


def test_what_the_users_settings_of_git_run_is_named(box):
    """A filter, an alias and the like may name programs of the project."""
    there = repository(box)
    names = ("clean.sh", "alias.sh", "with space.sh", "watch.sh", "other.sh")
    for name in names:
        box.file(there / "tools" / name, b"#!/bin/sh\ncat\n", 0o755)
    for key, value in (("filter.x.clean", "./tools/clean.sh %f"), ("alias.go", "!tools/alias.sh && true"),
                       ("diff.x.textconv", f"'{there}/tools/with space.sh' -x"), ("core.fsmonitor", f"{there}/tools/watch.sh"),
                       ("branch.main.merge", "tools/other.sh"), ("core.pager", "less")):
        assert box.run(["git", "config", key, value], supervised=False, cwd=there).code == 0
    result = box.run(["/bin/sh", "-ec", "for one in tools/*; do echo 'touch ran' >> \"$one\"; done"], options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: tools/alias.sh, tools/clean.sh, tools/watch.sh, " \
        '"tools/with space.sh"\n', result.describe()
    box.run(["git", "status"], supervised=False, cwd=there)
    assert (there / "ran").exists()


def test_what_the_users_links_lead_to_is_named(box):
    """The user's hook is a link to a script of the project: git runs what the run wrote there. So it is with a task of an editor."""
    there = repository(box)
    for name in ("tools/check.sh", "tools/other.sh", "tools/tasks.json"):
        box.file(there / name, b"#!/bin/sh\n").chmod(0o755)
    for link, target in ((".git/hooks/pre-commit", "../../tools/check.sh"), (".git/hooks/pre-push", there / "tools/check.sh"),
                         (".vscode/tasks.json", "../tools/tasks.json"), ("notes", "tools/other.sh"), (".husky", "tools")):
        box.directory((there / link).parent)
        (there / link).symlink_to(target)
        box.own(there / link)
    change = ["/bin/sh", "-ec", "for one in check.sh other.sh tasks.json; do echo 'touch ran' >> tools/$one; done"]
    result = box.run(change, options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: tools/check.sh, tools/tasks.json\n", result.describe()
    box.run(["git", "commit", "-q", "--allow-empty", "-m", "one"], supervised=False, env=IDENTITY, cwd=there)
    assert (there / "ran").exists()
    nothing = box.run(["cat", "tools/check.sh"], options=["--ask", "never"], cwd=there)
    assert nothing.errors == "", nothing.describe()
    # The script's place is taken by what an earlier run left.
    result = box.run(["ln", "-sf", "other.sh", "tools/check.sh"], options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: tools/check.sh\n", result.describe()


def test_a_program_that_git_runs_to_go_on_is_named(box):
    """A strategy with a slash is a program beneath the work directory. Beside the repository's own state that of a worktree counts."""
    there = repository(box)
    pick = "git checkout -q -b side && for one in 1 2; do echo $one > f; git add f; git commit -q -m $one; done; git checkout -q main; echo 3 > f; " \
        "git add f; git commit -q -m 3; ! git cherry-pick side~1 side; echo 4 > f; git add f"
    box.run(["/bin/sh", "-ec", pick], supervised=False, env=IDENTITY, cwd=there)
    script = "mkdir git-merge-x; printf '#!/bin/sh\\ntouch %s' \"$PWD/ran\" > git-merge-x/y; chmod +x git-merge-x/y; " \
        "printf '[options]\\n\\tstrategy = x/y\\n' > .git/sequencer/opts; mkdir -p .git/worktrees/one/rebase-merge .git/other; " \
        "for one in worktrees/one/rebase-merge/strategy worktrees/one/rebase-merge/head-name other/opts; do echo x/y > .git/$one; done"
    result = box.run(["/bin/sh", "-ec", script], options=["--ask", "never"], cwd=there)
    assert result.errors == "callgate: your tools may run code from what changed: .git/sequencer/opts, .git/worktrees/one/rebase-merge/strategy\n", \
        result.describe()
    box.run(["/bin/sh", "-c", "git -c core.editor=true cherry-pick --continue"], supervised=False, env=IDENTITY, cwd=there)
    assert (there / "ran").exists()


def test_settings_of_an_old_bare_repository_of_any_name_are_named(box):
    """A work directory that is one counts too. Its own state is not named."""
    store = box.tree / "store"
    box.run(["/bin/sh", "-ec", "git init -q --bare store"], supervised=False)
    script = "echo x > hooks/post-update; echo x > hooks/post-update.sample; echo '[core]' >> config; echo x > description; " \
        "mkdir -p src/hooks; echo x > src/hooks/use.js; echo x > src/config"
    for there, name in ((store, ""), (box.tree, "store/")):
        result = box.run(["/bin/sh", "-ec", f"cd ./{name}; {script}"], options=["--ask", "never"], cwd=there)
        assert result.errors == f"callgate: your tools may run code from what changed: {name}config, {name}hooks/post-update\n", result.describe()


def test_a_hidden_name_that_no_list_holds_is_named(box):
    """At the top of the work directory, and a directory once for all its files. What is known to run nothing, and what lies deeper, is not."""
    script = "echo x > .newtool; mkdir -p .newer/bin sub .venv .pytest_cache; for one in .newer/x .newer/bin/{a,b,c,d,e,f} sub/.newtool " \
        ".venv/x .pytest_cache/x .gitignore .x.swp .coverage .editorconfig; do echo x > $one; done; echo A=b > .env; echo A= > .env.example"
    result = box.run(["/bin/bash", "-ec", script], options=["--ask", "never"])
    assert result.errors == "callgate: your tools may run code from what changed: .env, .newer/, .newtool\n", result.describe()


def test_not_held_a_repository_that_a_run_adds_beneath_runs_in_git_status_above(box):
    """docs/threat-model.md says so, and the footer names its settings. Twin: git is told to leave such repositories alone."""
    assert box.run(["/bin/sh", "-ec", "git init -q . && git commit -q --allow-empty -m one"], supervised=False, env=IDENTITY).code == 0
    made = "git init -q lib && cd lib && git commit -q --allow-empty -m two && git config core.fsmonitor 'touch ../ran; false' && cd .. && git add lib"
    result = box.run(["/bin/sh", "-ec", made], options=["--ask", "never"], env=IDENTITY)
    (box.tree / "ran").unlink(missing_ok=True)
    assert result.code == 0 and "changed: lib/.git/config\n" in result.errors, result.describe()
    for more, ran in ((["-c", "diff.ignoreSubmodules=dirty"], False), ([], True)):
        assert box.run(["git", *more, "status"], supervised=False).code == 0
        assert (box.tree / "ran").exists() == ran


SET_ID_TOOLS = {
    "install": "install -m 6755 /bin/true made",
    "cp": "cp -p old made",
    "tar": "tar xpf old.tar",
    "chmod": "cp /bin/true made && chmod u+s,g+s made",
    "python3": "/usr/bin/python3 -c 'import os; os.close(os.open(\"made\", os.O_CREAT | os.O_WRONLY, 0o6755))'",
}


@pytest.mark.parametrize("tool", SET_ID_TOOLS)
def test_tools_that_set_set_id_bits_go_on_without_them(box, tool):
    for name in ("old", "made"):
        harness.as_user(box.user, lambda path=box.file(box.tree / name, b"x"): path.chmod(0o6755))
    box.run(["/bin/tar", "cf", "old.tar", "made"], supervised=False)
    (box.tree / "made").unlink()
    result = works(box, SET_ID_TOOLS[tool], ["--record", "all"])
    assert (box.tree / "made").stat().st_mode & 0o7777 == 0o755, result.describe()
    assert [one for one in result.decisions(verdict="allow") if "were left out" in (one["callgate"].get("reason") or "")], result.describe()
    (box.tree / "made").unlink()
    bare = box.run(["/bin/sh", "-ec", SET_ID_TOOLS[tool]], supervised=False)
    assert (box.tree / "made").stat().st_mode & 0o7777 == 0o6755, bare.describe()


def test_directories_hand_on_their_group(box):
    """A set-group-id directory gives the bit to those made in it, and may be made one."""
    works(box, "umask 022; mkdir -m 2775 a; mkdir a/b; install -d -m 2750 c; mkdir d; chmod g+s d; mkdir d/e; echo x > d/e/f")
    modes = {name: (box.tree / name).stat().st_mode & 0o7777 for name in ("a", "a/b", "c", "d/e", "d/e/f")}
    assert modes == {"a": 0o2775, "a/b": 0o2755, "c": 0o2750, "d/e": 0o2755, "d/e/f": 0o644}
