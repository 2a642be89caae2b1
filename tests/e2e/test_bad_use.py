"""Wrong use: one line that says what to do, exit 125, and nothing ran."""
from __future__ import annotations

import shlex

import pytest


def wrong(box, *arguments: str, command: bool = True):
    """callgate run ARGUMENTS -- a command that would leave a file."""
    line = [str(box.stage.callgate), "run", *arguments]
    ran = box.tree / "ran"
    if command:
        line += ["--", "/bin/sh", "-c", f"echo > {ran}"]
    result = box.run(line, supervised=False)
    assert result.code == 125, result.describe()
    assert not ran.exists(), "the command ran"
    assert result.out == b"", result.describe()
    return result


def only_line(result) -> str:
    lines = result.errors.splitlines()
    assert len(lines) == 1, result.describe()
    assert lines[0].startswith("callgate: "), lines[0]
    return lines[0]


@pytest.mark.parametrize("arguments, words", [
    (["--raed", "/tmp"], ["--raed", "--read"]),
    (["-R", "missing.json"], ["missing.json"]),
    (["-p", "agnet"], ["agnet", "agent"]),
    (["-p", "python,git"], ["python,git", "each name by an option of its own"]),
    (["-c", "127.0.0.1:99999"], ["99999"]),
    (["-c", "127.0.0.1:http"], ["http"]),
    (["-c", "https://example.com/x"], ["is a URL", "example.com:443"]),
    (["--bind", "0x50"], ["0x50"]),
    (["--bind", "8000-70000"], ["is not a port (0 to 65535)"]),
    (["--report", "-"], ["--report -", "fd:1 is standard output"]),
    (["--audit", "-"], ["--audit -", "fd:1 is standard output"]),
    (["--workdir", ""], ["--workdir needs a directory"]),
    (["--cwd", ""], ["--cwd needs a directory"]),
    (["--workdir", "/does/not/exist"], ["/does/not/exist"]),
    (["--cwd", "/does/not/exist"], ["/does/not/exist"]),
    (["--default", "perhaps"], ["perhaps"]),
    (["--mode", "watch"], ["watch"]),
    (["--mode", "observe"], ["observe", "expected enforce or audit"]),
    (["--timeout", "soon"], ["soon"]),
    (["--pass-fd", "99"], ["99"]),
    (["--report", "fd:99"], ["99"]),
    (["--audit", "fd:99"], ["99"]),
    (["--background", "maybe"], ["maybe"]),
    (["--record", "some"], ["some"]),
    (["--except", "secrets"], ["secrets"]),
], ids=lambda one: " ".join(one) if isinstance(one, list) else None)
def test_a_wrong_option_is_one_line_that_says_what_to_do(box, arguments, words):
    line = only_line(wrong(box, *arguments))
    for word in words:
        assert word in line, line


def test_a_name_that_leads_nowhere_is_said_once(box):
    """An option that does nothing is mostly misspelt. -w may name what the command is to make."""
    options = ["-r", str(box.root / "none"), "-x", str(box.tree / "no"), "-w", str(box.tree / "out"), "--env", "UNSET", "--env", "HOME", "-r", "/etc"]
    lines = [line for line in box.run(["/bin/true"], options=options).errors.splitlines() if line.startswith("callgate: ")]
    assert lines == [f"callgate: --read {box.root}/none: nothing has this name yet",
                     f"callgate: --execute {box.tree}/no: nothing has this name yet",
                     "callgate: --env UNSET: this variable is not set, and is left out"], lines
    assert box.run(["/bin/true"], options=[*options, "-q"]).errors == ""


@pytest.mark.parametrize("option", ["read", "write", "execute", "deny"])
def test_a_name_that_looks_like_a_pattern_is_said(box, option):
    """A denied `keys/*` would deny nothing. Twins: `glob:`, and a file that is called so."""
    starred = box.file(box.tree / "real*", b"")
    meant = {f"{box.tree}/**": "a directory means all beneath it", f"{box.tree}/*.none": f"that is 'glob:{box.tree}/*.none'",
             f"{box.tree}/*/none": "patterns of directories are for rules (-R)"}
    options = [word for path in [*meant, f"glob:{box.tree}/*.none", str(starred)] for word in (f"--{option}", path)]
    lines = box.run(["/bin/true"], options=options).errors.splitlines()
    assert lines == [f"callgate: --{option} {path}: nothing has this name yet; it is no pattern: {what}" for path, what in meant.items()], lines


def test_a_file_of_rules_that_is_only_opened_for_reading_is_said(box):
    """Somebody who writes -r for -R would take its denials for granted. Twin: other JSON is read without a word."""
    rules = box.file(box.tree / "rules.json", b'{"version": 1, "rules": [{"id": "no", "deny": "read", "path": "/etc/hostname"}]}')
    other = box.file(box.tree / "package.json", b'{"version": "1.0.0", "name": "x"}')
    said = [line for line in box.run(["/bin/true"], options=["-r", str(rules), "-r", str(other)]).errors.splitlines()]
    assert said == [f"callgate: --read {rules} lets the command read it; -R {rules} makes its rules hold"], said


def test_the_command_can_tell_that_it_runs_under_callgate(box):
    bare = box.run(["/usr/bin/env"], supervised=False, env={"CALLGATE": "", "CALLGATE_RUN": "other"})
    assert "CALLGATE_RUN=other" in bare.text.splitlines(), bare.describe()
    result = box.run(["/usr/bin/env"], env={"CALLGATE_RUN": "other"})
    words = result.text.splitlines()
    assert "CALLGATE=1" in words and f"CALLGATE_RUN={result.report['run']}" in words, result.describe()
    own = box.run(["/usr/bin/env"], options=["--env", "CALLGATE=mine"])
    assert "CALLGATE=mine" in own.text.splitlines(), own.describe()


def test_a_missing_command_is_one_line_that_says_what_to_do(box):
    line = only_line(wrong(box, command=False))
    assert "command" in line.lower() and "--" in line, line


def test_a_shells_line_as_one_word_is_said_with_what_runs_it(box):
    """A name with blanks that is there runs, and one that is denied is no such line."""
    result = box.run(["echo 'a  b' && echo c"])
    said = only_line(result)
    assert result.code == 127 and said.endswith("; this is one word: give its words one by one, or run sh -c 'echo '\\''a  b'\\'' && echo c'"), said
    followed = box.run(shlex.split(said.partition("or run ")[2]))
    assert followed.text == "a  b\nc\n", followed.describe()
    box.file(box.tree / "my tool", b"#!/bin/sh\necho ran\n", 0o755)
    assert box.run(["./my tool"]).text == "ran\n"
    for words in (["nowhere"], ["no where", "x"]):
        assert "one word" not in box.run(words).errors


def test_what_only_a_shell_has_is_said_with_what_runs_it(box):
    result = box.run(["cd", "a b"])
    said, _, line = only_line(result).partition("; only a shell has this command: run ")
    assert result.code == 127 and shlex.split(line) == ["sh", "-c", "cd 'a b'"], said
    (box.tree / "a b").mkdir()
    assert box.run(shlex.split(line)).code == 0
    option = only_line(box.run(["NAME=a b", "/usr/bin/env"])).partition("; a variable is set by ")[2]
    assert option == "--env 'NAME=a b'"
    assert "NAME=a b" in box.run(["/usr/bin/env"], options=shlex.split(option)).text.splitlines()
    for words in (["=x"], ["no-name=x"], ["./cd"]):
        assert ";" not in only_line(box.run(words)), words


def test_a_state_directory_that_cannot_be_made_says_why(box):
    """The reason is that of the first directory that is missing: the next ones lack only that."""
    home, why = box.directory(box.tree / "shut", 0o555), "Permission denied"
    if box.user.uid == 0:
        home, why = box.file(box.tree / "file", b""), "Not a directory"
    line = [str(box.stage.callgate), "run", "--workdir", str(box.directory(box.tree / "work")), "--", "/bin/true"]
    result = box.run(line, supervised=False, env={"HOME": str(home), "XDG_STATE_HOME": ""})
    assert result.code == 125 and f"{home}/.local/state/callgate: {why};" in only_line(result), result.describe()
    assert box.run(line, supervised=False, env={"HOME": str(box.directory(box.tree / "open")), "XDG_STATE_HOME": ""}).code == 0


def test_an_unknown_verb_is_one_line_with_the_nearest(box):
    result = box.run([str(box.stage.callgate), "rnu", "--", "true"], supervised=False)
    assert result.code == 125 and "run" in only_line(result), result.describe()


def test_a_file_as_the_work_directory_is_refused(box):
    path = box.file(box.tree / "file", b"")
    assert "file" in only_line(wrong(box, "--workdir", str(path)))


def test_home_as_the_work_directory_is_refused_unless_named(box):
    result = box.run([str(box.stage.callgate), "run", "--no-audit", "--", "/bin/true"], supervised=False, cwd=box.home)
    assert result.code == 125 and "--workdir" in result.errors, result.describe()
    named = box.run([str(box.stage.callgate), "run", "--no-audit", "--workdir", str(box.home), "--", "/bin/true"], supervised=False, cwd=box.home)
    assert named.code == 0, named.describe()
    unset = box.run([str(box.stage.callgate), "run", "--no-audit", "--workdir", "", "--", "/bin/true"], supervised=False, cwd=box.home)
    assert unset.code == 125 and "--workdir needs a directory" in unset.errors, unset.describe()


@pytest.mark.parametrize("text, words", [
    ('{"version": 1, "default": "deny", "rules": [', ["rules1.json:1:"]),
    ('{"version": 1, "rules": [],}', ["rules1.json:1:28", "take the comma out"]),
    ("{'version': 1}", ["rules1.json:1:2", "double quotes"]),
    ('{"version": 1, "rules": [{"allow": "connect", "host": "https://example.com/x"}]}', ['"host": "example.com", "port": 443']),
    ('{"version": 1, "ruels": []}', ["ruels", "rules"]),
    ('{"version": 1, "rules": [{"allow": "raed", "path": "/x"}]}', ["raed", "read"]),
    ('{"version": 1, "rules": [{"allow": "read", "path": "relative"}]}', ["relative"]),
    ('{"version": 1, "rules": [{"allow": "read", "port": 80}]}', ["port"]),
    ('{"version": 2, "rules": []}', ["version"]),
], ids=["torn", "comma", "quotes", "url", "key", "operation", "pattern", "condition", "version"])
def test_a_rule_set_with_an_error_never_runs(box, text, words):
    result = wrong(box, "-R", str(box.rules_file(text)))
    for word in words:
        assert word in result.errors, result.describe()


def test_every_error_of_a_rule_set_is_said_at_once(box):
    text = '{"version": 1,\n "ruels": [],\n "default": "perhaps",\n "rules": [{"alow": "read", "path": "/x"}]}'
    result = wrong(box, "-R", str(box.rules_file(text)))
    for place in (":2:", ":3:", ":4:"):
        assert place in result.errors, result.describe()
