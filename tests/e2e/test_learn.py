"""`callgate learn`: from a command to a rule set that lets it run, with a person's yes between, and nothing that opens a secret."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import pwd
import shutil
import signal
import termios
from pathlib import Path

import pytest

import harness

KILLS = 100 if harness.SOAK else 6
QUESTION = b"Enter: neither > "
# Needs what no profile knows, beside what a person should look at.
JOB = """for i in 1 2 3 4; do echo $i > "$HOME/reports/$i"; done
cat "$HOME/.ssh/id_ed25519" "$HOME/.tool/token" "$HOME/.tool/data/index"
echo x >> "$HOME/.bashrc"; echo x > .git/hooks/post-commit
exit 0
"""


def furnish(box: harness.Box) -> None:
    """A job in the work directory, and what it reaches for."""
    for name in ("reports", ".ssh"):
        box.directory(box.home / name)
    box.file(box.home / ".ssh/id_ed25519", b"private-key")
    box.file(box.home / ".tool/token", b"private-token")
    box.file(box.home / ".tool/data/index", b"index")
    box.file(box.tree / ".git/hooks/x.sample")
    box.file(box.tree / "job.sh", JOB.encode())


def learn(box: harness.Box, *words: str, **keywords) -> harness.Result:
    box.replays.leave_out("the test changes the rules of its run")
    return box.run([str(box.callgate), "learn", *words], supervised=False, **keywords)


def rules_of(text: str) -> list[dict]:
    return json.loads(text.partition("\n//")[0])["rules"]


def beside(file: Path) -> list[str]:
    return sorted(one.name for one in file.parent.iterdir() if one.name.startswith(file.name))


class Person:
    """`callgate learn` on a terminal of its own."""

    def __init__(self, box: harness.Box, *words: str) -> None:
        box.replays.leave_out("the test changes the rules of its run")
        self.master, slave = pty.openpty()
        self.process = box.start([str(box.callgate), "learn", *words], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                 env=box.environment(), preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave = slave

    def sees(self, wanted: bytes) -> str:
        return harness.read_until(self.master, wanted).decode()

    def types(self, text: bytes) -> None:
        os.write(self.master, text)

    def ends(self) -> int:
        code = self.process.wait(harness.DEADLINE)
        os.close(self.slave)
        os.close(self.master)
        return code


def test_what_it_writes_lets_the_command_run_and_opens_nothing_that_is_held(box):
    furnish(box)
    file = box.root / "learnt.json"
    words = ["--into", str(file), "--", "/bin/sh", "job.sh"]
    told = learn(box, *words)
    assert told.code == 1 and "nobody can be asked" in told.errors and not file.exists(), told.describe()
    assert '"~/reports/**"' in told.errors and b"private-key" in told.out and b"callgate" not in told.out, told.describe()
    written = learn(box, "--yes", *words)
    assert written.code == 0 and f"callgate run -R {file} -- /bin/sh job.sh" in written.errors, written.describe()
    text = file.read_text()
    (rule,) = rules_of(text)
    assert rule["allow"] == ["read", "write"] and rule["path"] == ["~/reports/**"], text
    comments = text.partition("\n//")[2]
    for held in (".ssh/id_ed25519", ".tool/token", ".tool/data/index", ".bashrc", ".git/hooks/post-commit"):
        assert held in comments, text
    assert '{"allow":["read"],"path":"~/.tool/data/**"' in comments, text
    checked = box.run([str(box.callgate), "check", str(file)], supervised=False)
    assert checked.code == 0, checked.describe()
    # Under it, what it allows works, and the rest is denied.
    hook, start = box.tree / ".git/hooks/post-commit", box.home / ".bashrc"
    hook.unlink(), start.unlink()
    for one in (box.home / "reports").iterdir():
        one.unlink()
    held = box.run(["/bin/sh", "job.sh"], options=["-R", str(file)])
    assert held.out == b"" and not hook.exists() and not start.exists(), held.describe()
    assert len(list((box.home / "reports").iterdir())) == 4, held.describe()
    again = learn(box, *words)
    assert again.code == 0 and "1 rule for" not in again.errors and file.read_text() == text, again.describe()


def test_a_profile_of_the_work_directorys_name_is_the_place(box):
    box.directory(box.home / "out")
    place = box.home / ".config/callgate/profiles/tree.json"
    script = 'echo x > "$HOME/out/made"'
    held = learn(box, "-y", "-p", "readonly", "--", "/bin/sh", "-c", script)
    assert held.code == 0 and "callgate run -p readonly -- /bin/sh -c" in held.errors and not place.exists(), held.describe()
    (box.home / "out/made").unlink()
    written = learn(box, "-y", "-p", "python", "--", "/bin/sh", "-c", script)
    assert written.code == 0 and "callgate run -p tree -- /bin/sh -c" in written.errors, written.describe()
    assert json.loads(place.read_text())["extends"] == ["python"] and place.stat().st_mode & 0o777 == 0o600
    (box.home / "out/made").unlink()
    run = box.run(["/bin/sh", "-c", script], options=["-p", "tree"])
    assert run.code == 0 and run.err == b"" and (box.home / "out/made").exists(), run.describe()
    # A file that exists is added to, under what it extends.
    more = learn(box, "-y", "-p", "agent", "--", "/bin/sh", "-c", 'echo x > "$HOME/more"')
    assert more.code == 0 and "what it extends counts" in more.errors and len(rules_of(place.read_text())) == 2, more.describe()
    other = box.directory(box.root / "agent")
    named = learn(box, "--", "true", cwd=other)
    assert named.code == 125 and "--into FILE" in named.errors, named.describe()


def test_a_rule_set_without_the_rules_of_base_gets_nothing_that_they_hold(box):
    """The profile base says what is held, whatever the rule set says. A rule for a directory would open all that is in it."""
    box.file(box.tree / ".env", b"private")
    for name in ("one", "two", "three", "four"):
        box.file(box.tree / "in" / name, b"x")
    file = box.rules_file(harness.rule_set())
    done = learn(box, "-y", "--into", str(file), "--", "/bin/cat", ".env", *(f"in/{name}" for name in ("one", "two", "three")))
    assert done.code == 0, done.describe()
    assert f"{box.tree}/.env (seen 1 time): the profile base denies it (base.workdir-secrets" in done.errors, done.describe()
    rule = rules_of(file.read_text())[-1]
    assert rule["path"] == ["${workdir}/in/one", "${workdir}/in/three", "${workdir}/in/two"], file.read_text()
    run = box.run(["/bin/cat", "in/one", ".env", "in/four"], options=["-R", str(file)])
    assert run.out == b"x", run.describe()


ABSTRACT = """import os, socket, sys
open(os.path.expanduser("~/plain")).close()
for name in sys.argv[1:]:
    try: socket.socket(socket.AF_UNIX).connect("\\0" + name)
    except ConnectionError: pass
"""


def test_a_name_in_the_abstract_namespace_is_no_pattern(box):
    """A name with a star is learnt as it is: no other socket is opened by it."""
    box.file(box.home / "plain", b"plain")
    file = box.root / "learnt.json"
    words = ["/usr/bin/python3", "-c", ABSTRACT]
    names = ["callgate-*", "callgate-{a,b}"]
    done = learn(box, "-y", "--into", str(file), "--", *words, *names)
    assert done.code == 0, done.describe()
    run = box.run([*words, *names, "callgate-other", "callgate-a"], options=["-R", str(file)])
    assert [one["object"] for one in run.report["denials"]] == ["@callgate-other", "@callgate-a"], run.describe() + file.read_text()


@pytest.mark.parametrize("name", ["two words", "word"])
def test_a_rule_set_is_good_where_no_example_can_say_what_it_allows(box, name):
    box.file(box.home / name, b"content")
    file = box.root / "learnt.json"
    done = learn(box, "-y", "--into", str(file), "--", "/bin/cat", str(box.home / name))
    assert done.code == 0 and rules_of(file.read_text())[0]["path"] == [f"~/{name}"], done.describe()


def test_the_accounts_own_home_is_private_too_where_home_is_another(box):
    """Its dot directories are no rule, and it is none itself. Twin: what is not hidden there."""
    account = Path(pwd.getpwuid(box.user.uid).pw_dir)
    assert account != box.home
    if not os.access(account, os.W_OK):
        pytest.skip("the account has no home that the test may change")
    hidden, shown = account / f".learn-{os.getpid()}", account / f"learn-{os.getpid()}"
    try:
        for top in (hidden, shown):
            top.mkdir()
            for name in "abc":
                (top / name).write_text("x")
        result = learn(box, "--into", "learnt.json", "--yes", "/bin/sh", "-c", f"cat {hidden}/a {hidden}/b {hidden}/c {shown}/a; ls {account}; true")
        allowed = [path for one in rules_of((box.tree / "learnt.json").read_text()) for path in one["path"]]
        assert f"{shown}/a" in allowed, result.describe()
        assert not any(one.startswith(str(hidden)) for one in allowed) and str(account) not in allowed, result.describe()
        assert f"read {hidden}/a (seen 1 time): in a dot directory of the home" in result.errors, result.describe()
        assert f"read {account} (seen 1 time): the home itself" in result.errors, result.describe()
    finally:
        for top in (hidden, shown):
            shutil.rmtree(top, ignore_errors=True)


def test_a_name_that_no_rule_can_hold_is_a_comment(box):
    """The text of a name that is not UTF-8 is another file's name. A run with such a name ends, too."""
    odd = os.fsdecode(os.fsencode(box.home) + b"/odd\xff")
    box.file(Path(odd), b"odd")
    box.file(box.home / "plain", b"plain")
    file = box.root / "learnt.json"
    done = learn(box, "-y", "--into", str(file), "--", "/bin/cat", odd, str(box.home / "plain"))
    assert done.code == 0 and "its name is not UTF-8" in done.errors, done.describe()
    assert rules_of(file.read_text())[0]["path"] == ["~/plain"], file.read_text()
    again = learn(box, "-y", "--into", str(file), "--", "/bin/cat", odd, str(box.home / "plain"))
    assert again.code == 0 and "--- " not in again.errors and len(rules_of(file.read_text())) == 1, again.describe()


def test_a_name_with_a_nul_byte_keeps_nothing_else_from_being_learnt(box):
    """Any program can connect to such a name in the abstract namespace. JSON could write it, and no rule holds it."""
    box.file(box.home / "plain", b"plain")
    file = box.root / "learnt.json"
    command = ["/usr/bin/python3", "-c", ABSTRACT.replace("sys.argv[1:]", '("odd\\0name", "callgate-plain")')]
    done = learn(box, "-y", "--into", str(file), "--", *command)
    assert done.code == 0 and "odd\\x00name (seen 1 time): its name holds a NUL byte, which no rule can hold" in done.errors, done.describe()
    assert [rule.get("unix") or rule.get("path") for rule in rules_of(file.read_text())] == [["~/plain"], "@callgate-plain"], file.read_text()
    run = box.run(command, options=["-R", str(file)])
    assert [one["object"] for one in run.report["denials"]] == ["@odd\0name"], run.describe()


SWAPS = {
    "held": "mkdir .vscode; echo x > .vscode/tasks.json",
    "renamed": "mkdir own; mv own .vscode; echo x > .vscode/tasks.json",
    "refused": "mkdir own; mv -T own .git; echo x > .git/hooks/post-commit",
    "aside": "mv .git aside; mkdir -p .git/hooks; echo x > .git/hooks/post-commit",
}


@pytest.mark.parametrize("how", SWAPS)
def test_what_lets_code_in_stays_closed_in_a_directory_that_only_seems_the_runs(box, how):
    """A directory of the run's own is one that it made. A name that the profile base holds is none, nor is one at which something stood."""
    box.file(box.tree / ".git/hooks/x.sample", b"x")
    box.file(box.tree / ".git/HEAD", b"ref: refs/heads/main")
    file = box.rules_file(harness.rule_set())
    script = f"{SWAPS[how]}; mkdir clone; mkdir -p clone/.git/hooks; echo x > clone/.git/hooks/post-commit; true"
    done = learn(box, "-y", "--into", str(file), "--", "/bin/sh", "-c", script)
    assert done.code in (0, 1), done.describe()
    learnt = str([rule.get("path") for rule in rules_of(file.read_text())])
    held = ".vscode/tasks.json" if ".vscode" in SWAPS[how] else "${workdir}/.git/hooks/post-commit"
    assert held not in learnt and "the profile base denies it" in done.errors, learnt + done.describe()
    assert "clone/.git/hooks/post-commit" in learnt, learnt + done.describe()


AGENT = """#!/usr/bin/python3
import os, subprocess
home = os.path.expanduser("~")
open(home + "/.claude/state", "a").write(open(home + "/notes.txt").read())
subprocess.run(["/bin/sh", "-c", 'cat ~/table.csv; for i in 1 2 3 4; do echo $i > ~/reports/$i || exit 1; done; cat ~/.claude/login'])
"""


def test_what_an_agent_and_its_tools_need_is_learnt_for_each(box):
    """A rule for the agent gives its tools nothing. The login stays closed to them, and the next run has nothing to add."""
    for name in ("reports", ".claude"):
        box.directory(box.home / name)
    for name in ("notes.txt", "table.csv", ".claude/login"):
        box.file(box.home / name, name.encode())
    program = box.file(box.home / ".local/share/claude/versions/2.1.331", AGENT.encode(), 0o755)
    file = box.root / "learnt.json"
    words = ["--into", str(file), "--", str(program)]
    done = learn(box, "-y", "-p", "claude", *words)
    assert done.code == 0 and "table.csv" in done.text, done.describe()
    text = file.read_text()
    found = {(one["path"] if isinstance(one["path"], str) else one["path"][0], one["party"]): one["allow"] for one in rules_of(text)}
    assert {one: "read" if found[one] in ("read", ["read"]) else "more" for one in found} == {
        ("~/notes.txt", "agent"): "read", ("~/table.csv", "tools"): "read", ("~/reports/**", "tools"): "more"}, text
    assert ".claude/login" in text.partition("\n//")[2], text
    held = box.run([str(program)], options=["-R", str(file), "--no-user-rules"])
    assert held.out == b"table.csv" and [one["object"] for one in held.report["denials"]] == [str(box.home / ".claude/login")], held.describe()
    again = learn(box, *words)
    assert again.code == 0 and file.read_text() == text, again.describe()


def test_a_person_is_asked_and_an_interrupt_leaves_the_old_file(box):
    box.directory(box.home / "out")
    place = box.home / ".config/callgate/profiles/tree.json"
    command = ["--", "/bin/sh", "-c", 'echo x > "$HOME/out/made"; echo began; read line; echo "got $line"']

    def asked(*before: bytes) -> Person:
        person = Person(box, *command)
        person.sees(b"began")
        for text in before:
            person.types(text)
        return person

    # At the question: an interrupt, a line without a word, and the end of input.
    for answer, code in ((b"\x03", -signal.SIGINT), (b"\n", 1), (b"\x04", 1), (b"no\n", 1)):
        person = asked(b"first\n")
        assert '"~/out/made"' in person.sees(QUESTION)
        assert not place.exists()
        person.types(answer)
        assert person.ends() == code and not place.exists()
    # While the command runs an interrupt ends that alone. What was typed for the command answers no question.
    person = asked(b"\x03")
    person.sees(QUESTION)
    person.types(b"w\n")
    assert person.ends() == 0 and beside(place) == ["tree.json"]
    text = place.read_text()
    person = Person(box, "--", "/bin/sh", "-c", 'echo x > "$HOME/more"; echo began; read line')
    person.sees(b"began")
    person.types(b"y\ny\ny\n")
    person.sees(QUESTION)
    assert place.read_text() == text
    person.types(b"y\n")
    person.sees(b"began")
    assert place.read_text() != text and len(rules_of(place.read_text())) == 2
    person.types(b"\x03")
    person.sees(b"from now on: callgate run -p tree")
    assert person.ends() == 0


def test_an_interrupt_at_any_moment_leaves_the_old_file_or_the_new_one(box):
    box.directory(box.home / "out")
    box.replays.leave_out("the test changes the rules of its run")
    old = json.dumps(harness.rule_set())
    whole = set()
    for number in range(KILLS):
        file = box.rules_file(old)
        line = [str(box.callgate), "learn", "-y", "--into", str(file), "--", "/bin/sh", "-c", 'echo x > "$HOME/out/made"']
        process = box.start(line, stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
        made = box.home / "out/made"
        harness.until(lambda: made.exists() or process.poll() is not None, "the command wrote")
        for _ in range(number * 2000):
            process.poll()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(harness.DEADLINE)
        made.unlink(missing_ok=True)
        whole.add(file.read_text())
        assert beside(file) == [file.name]
    assert all(text == old or len(json.loads(text)["rules"]) == len(json.loads(old)["rules"]) + 1 for text in whole), whole


def test_a_file_that_the_command_made_is_not_replaced(box):
    file = box.tree / "rules.json"
    done = learn(box, "-y", "--into", "rules.json", "--", "/bin/sh", "-c", f'echo "{{}}" > {file}; echo x > "$HOME/made"')
    assert done.code == 125 and "was changed while the command ran; nothing was written" in done.errors, done.describe()
    assert file.read_text() == "{}\n"
    link = box.tree / "link.json"
    harness.as_user(box.user, lambda: link.symlink_to(box.home / "elsewhere.json"))
    refused = learn(box, "-y", "--into", str(link), "--", "/bin/sh", "-c", 'echo x > "$HOME/made"')
    assert refused.code == 125 and "symbolic link" in refused.errors and not (box.home / "elsewhere.json").exists(), refused.describe()


@pytest.mark.parametrize("command, code", [("no-such-command", 127), ("./plain", 126)])
def test_a_command_that_cannot_start_is_no_lesson(box, command, code):
    box.file(box.tree / "plain", b"no program")
    done = learn(box, "-y", "--", command)
    assert done.code == code and "from now on" not in done.errors and "wrote" not in done.errors, done.describe()


def test_variables_of_rules_do_not_hide_what_the_file_needs(box):
    file = box.root / "learnt.json"
    script = 'echo x > "$HOME/made"'
    done = learn(box, "-y", "--into", str(file), "--", "/bin/sh", "-c", script,
                 env={"CALLGATE_WRITE": str(box.home), "CALLGATE_QUIET": "1", "CALLGATE_NO_AUDIT": "1", "CALLGATE_MODE": "enforce"})
    assert done.code == 0 and rules_of(file.read_text())[0]["path"] == ["~/made"], done.describe()
