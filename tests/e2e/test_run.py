"""`callgate run` as its caller sees it: exit status, output, report, descriptors, environment, signals, terminal."""
from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness


def rules(box: harness.Box, *more):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


def shell(box: harness.Box, script: str, *more, options=(), **keywords) -> harness.Result:
    return box.run(["/bin/sh", "-c", script], rules(box, *more), options=list(options), **keywords)


# ---- exit status ----

@pytest.mark.parametrize("code", [0, 1, 2, 7, 77, 124, 125, 126, 127, 128, 255])
def test_the_exit_status_is_the_commands_own(box, code):
    result = shell(box, f"exit {code}")
    assert result.code == code, result.describe()
    assert (result.report["outcome"], result.report["exit_code"], result.report["signal"]) == ("exited", code, None), result.describe()


@pytest.mark.parametrize("number", ["TERM", "KILL", "SEGV", "INT", "USR1", "HUP", "PIPE"])
def test_a_command_that_died_of_a_signal_gives_128_and_its_number(box, number):
    value = int(getattr(signal, f"SIG{number}"))
    result = shell(box, f"kill -{number} $$")
    assert result.code == 128 + value, result.describe()
    assert (result.report["outcome"], result.report["signal"]) == ("signaled", value), result.describe()


def test_many_short_commands_each_give_their_own_status(box):
    """The command's end, the tree's end and the guardian's end come close together: none may be lost."""
    for turn in range(300 if harness.SOAK else 15):
        line, _ = box.command(["/bin/sh", "-c", f"exit {turn % 100}"], rules(box), audit=False)
        process = box.start([*line[:2], "--no-audit", *line[2:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=harness.DEADLINE)
        assert (process.returncode, out, err) == (turn % 100, b"", b""), f"turn {turn}"


def test_the_timeout_ends_the_tree_with_124(box):
    marker = f"CG_MARK={box.root}"
    result = shell(box, "sleep 1000 & setsid sleep 1000 & sleep 1000", options=["--timeout", "1", "--env", marker])
    assert result.code == 124 and result.report["outcome"] == "timeout", result.describe()
    assert harness.marked(marker) == []
    assert b"--timeout" in result.err, f"the user is not told why it ended\n{result.describe()}"


def test_a_file_that_is_not_executable_gives_126(box):
    path = box.file(box.tree / "plain", b"no program")
    result = box.run([str(path)], rules(box))
    assert result.code == 126 and result.report["outcome"] == "exec_failed", result.describe()


def test_a_program_outside_the_allowed_places_gives_126_and_is_named(box):
    path = box.file(box.tree / "tool", Path("/usr/bin/true").read_bytes(), 0o755)
    assert box.run([str(path)], supervised=False).code == 0
    result = box.run([str(path)], rules(box))
    assert result.code == 126, result.describe()
    assert str(path) in result.errors and "-x" in result.errors or "--execute" in result.errors, result.describe()
    allowed = box.run([str(path)], rules(box), options=["-x", str(path)])
    assert allowed.code == 0, allowed.describe()


def test_an_exec_within_the_run_is_denied_recorded_and_named(box):
    path = box.file(box.tree / "tool", Path("/usr/bin/true").read_bytes(), 0o755)
    result = shell(box, f"{path}; echo $?")
    assert result.out == b"126\n", result.describe()
    assert any(one["operation"] == "execute" and one["object"] == str(path) for one in result.report["denials"]), result.describe()
    assert result.decisions(operation="execute", verdict="deny"), result.describe()


@pytest.mark.parametrize("name", ["no-such-program-at-all", "/no/such/program"])
def test_a_program_that_is_not_there_gives_127(box, name):
    result = box.run([name], rules(box))
    assert result.code == 127 and result.report["outcome"] == "exec_failed", result.describe()
    assert name in result.errors and len(result.errors.splitlines()) == 1, result.describe()


def test_path_is_searched_as_a_shell_does(box):
    box.file(box.tree / "tool", b"#!/bin/sh\necho found\n", 0o755)
    result = box.run(["tool"], rules(box), options=["-x", str(box.tree)], env={"PATH": f"/nowhere:{box.tree}:/usr/bin:/bin"})
    assert result.out == b"found\n", result.describe()


# ---- output ----

def test_the_footer_names_what_was_denied_how_often_by_which_rule_and_what_allows_it(box):
    secret = box.file(box.root / "out of reach", b"x")
    box.file(box.tree / "key", b"k")
    result = shell(box, f"cat '{secret}'; cat '{secret}'; cat key; echo out",
                   {"id": "keys", "deny": "read", "path": f"{box.tree}/key", "reason": "a key"})
    assert result.out == b"out\n", result.describe()
    footer = [line for line in result.errors.splitlines() if line.startswith("callgate: ")]
    text = "\n".join(footer)
    assert f"{secret}" in text and "×2" in text and "default" in text and f"--read '{secret}'" in text, result.describe()
    assert f"{box.tree}/key ×1  rule keys (a key)\n" in text + "\n" and "--except" not in text, result.describe()
    for options in ([], ["--no-hints"], ["-q"]):
        again = shell(box, f"cat '{secret}' 2>&1", options=options)
        assert ("--read" in again.errors) == (options == []), again.describe()
        assert (again.err == b"") == (options == ["-q"]), again.describe()


def test_the_report_takes_the_place_of_the_footer(box):
    """It is the last line, and the one that --report gives."""
    secret = box.file(box.root / "closed", b"x")
    for script, code in ((f"cat {secret}; exit 3", 3), ("true", 0), ("exec /nowhere/x", 127)):
        result = shell(box, script, options=["--json"])
        said = [line for line in result.errors.splitlines() if not line.startswith("/bin/sh: ") and not line.startswith("cat: ")]
        assert [json.loads(line) for line in said] == [result.report] and result.report["exit_code"] == result.code == code, result.describe()
        assert shell(box, script, options=["--json", "-q"]).errors.count("{") == 0
    assert result.report["denials"] == [] and "callgate: " not in result.errors, result.describe()


def test_a_hard_link_that_would_give_rights_is_named_so_and_nothing_is_offered(box):
    """The file may be read, and in the work directory everything may be written. A program that may link there copies it."""
    outside = box.file(box.root / "data/file", b"text")
    result = box.run(["/bin/sh", "-c", f"ln {outside} linked; cp {outside} copied"], options=["--read", str(outside.parent), "--ask", "never"])
    line = f"callgate:   modify {box.tree}/linked ×1  rule agent.workdir (there it would have more rights; most programs copy it instead)\n"
    assert line in result.errors and not (box.tree / "linked").exists(), result.describe()
    assert (box.tree / "copied").read_bytes() == b"text" and result.report["denials"][0]["hint"] == "", result.describe()


def test_what_the_footer_offers_allows_it(box):
    secret = box.file(box.root / "out of reach", b"content")
    box.file(box.tree / "key", b"k")
    script = f"cat '{secret}' key"
    deny = {"id": "keys", "deny": "read", "path": f"{box.tree}/key"}
    assert shell(box, script, deny).out == b""
    result = shell(box, script, deny, options=["--read", str(secret), "--except", f"keys={box.tree}/key"])
    assert result.out == b"contentk" and result.err == b"", result.describe()


def test_following_the_footer_ends_and_opens_no_credential(box):
    """A profile where one is for the program, a pattern where names are made up anew, and nothing for a token."""
    tool = box.file(box.home / ".npm-global/bin/tool", b"#!/bin/sh\necho tool\n", 0o755)
    token = box.file(box.home / ".tool/token", b"private")
    script = f"""{tool} 2>/dev/null; cat {token} 2>/dev/null
for i in $NAMES; do echo {{}} > "$HOME/.tool.json.tmp.$i" && echo wrote; done 2>/dev/null; true"""

    def run(names: str, *options: str) -> harness.Result:
        return box.run(["/bin/sh", "-c", script], options=["--env", f"NAMES={names}", *options])

    first = run("17 4242.a1b2 9.beef00")
    assert first.out == b"", first.describe()
    offered = [line.partition("allow with: ")[2] for line in first.errors.splitlines() if "allow with: " in line]
    assert offered == ["-p node", f"--write 'glob:{box.home}/.tool.json.tmp.*'"], first.describe()
    assert f"read {token} ×1  default (no one to ask; by its name it may hold a credential)\n" in first.errors, first.describe()
    second = run("1 2 3 4 5", *(word for line in offered for word in shlex.split(line)))
    assert second.out == b"tool\n" + b"wrote\n" * 5 and "allow with" not in second.errors, second.describe()
    named = box.run(["/bin/sh", "-c", f"cat '{box.home}/.tool.json.tmp.1' '{box.home}/.tool.json'"],
                    options=["-r", "glob:~/.tool.json.tmp.*"])
    assert named.out == b"{}\n" and "No such file" in named.errors or b"denied" in named.err, named.describe()
    wrong = box.run(["/bin/true"], options=["-r", "glob:~/["])
    assert wrong.code == 125 and "glob:DIRECTORY/PATTERN" in wrong.errors, wrong.describe()


def offered_line(result) -> list[str]:
    """The words of the footer's line about a repository."""
    (line,) = [one for one in result.errors.splitlines() if "is part of a repository" in one]
    return shlex.split(line.partition("in all of it: ")[2])


def test_in_a_part_of_a_repository_the_footer_says_how_to_work_in_all_of_it(box):
    """Following it works on the first try, and opens no hook. Elsewhere there is no such line."""
    repository = box.root / "mono"
    part = repository / "packages/a"
    box.file(part / "x", b"x")
    box.file(repository / "package.json", b"{}\n")
    made = box.run(["git", "init", "-q", "."], supervised=False, cwd=repository)
    assert made.code == 0, made.describe()
    script = "git status --short && cat ../../package.json && echo x > ../b && pwd"
    bare = box.run(["/bin/sh", "-c", script], supervised=False, cwd=part)
    (repository / "packages/b").unlink()
    first = box.run(["/bin/sh", "-c", script], options=["--ask", "never"], cwd=part)
    assert first.code != 0 and f"allow with: --read {repository}/.git\n" in first.errors, first.describe()
    assert offered_line(first) == ["--workdir", str(repository), "--cwd", "."], first.describe()
    second = box.run(["/bin/sh", "-c", script], options=offered_line(first), cwd=part)
    assert second.code == 0 and second.text == bare.text and "denied" not in second.errors, second.describe()
    hook = box.run(["/bin/sh", "-c", "echo x > ../../.git/hooks/pre-commit"], options=offered_line(first), cwd=part)
    assert hook.code != 0 and "rule base.workdir-git" in hook.errors, hook.describe()
    # From elsewhere, the command starts where it did.
    moved = box.run(["/bin/sh", "-c", script], options=["--ask", "never", "--workdir", str(part)], cwd=repository)
    assert offered_line(moved) == ["--workdir", str(repository), "--cwd", str(part)], moved.describe()
    for options in (["--no-hints"], ["-q"]):
        assert "repository" not in box.run(["/bin/cat", "../../package.json"], options=options, cwd=part).errors
    # A file elsewhere, a work directory that is a repository itself, and a repository that is the home or above it.
    box.file(box.root / "other", b"x")
    box.directory(part / ".git")
    for line, cwd, env in ((["/bin/cat", str(box.root / "other")], repository / "packages", {}), (["/bin/cat", "../../package.json"], part, {}),
                           (["/bin/cat", "../package.json"], repository / "packages", {"HOME": str(repository)}),
                           (["/bin/cat", "../package.json"], repository / "packages", {"HOME": str(repository / "home")})):
        result = box.run(line, options=["--ask", "never"], cwd=cwd, env=env)
        assert "denied 1 call" in result.errors and "repository" not in result.errors, result.describe()


def test_of_a_repository_or_a_python_environment_all_is_offered_to_be_read(box):
    """Programs need all of it or nothing. To write it is offered name by name: a repository has hooks."""
    made = box.run(["/bin/sh", "-ec", "git init -q --bare up.git; /usr/bin/python3 -m venv --without-pip env; mkdir env/src; echo x > env/src/x"],
                   supervised=False, cwd=box.root)
    assert made.code == 0, made.describe()
    up, env = box.root / "up.git", box.root / "env"
    for line, option, path in ((["git", "ls-remote", str(up)], "--read", up), ([f"{env}/bin/python", "-c", "import sys; print(sys.prefix)"], "--execute", env)):
        bare = box.run(line, supervised=False)
        first = box.run(line, options=["--ask", "never"])
        assert first.code != 0 and f"  allow with: {option} {path}\n" in first.errors, first.describe()
        second = box.run(line, options=["--ask", "never", option, str(path)])
        assert second.code == bare.code == 0 and second.text == bare.text and "denied" not in second.errors, second.describe()
    for line, path in (([f"echo x > {up}/refs/x"], up / "refs/x"), ([f"echo x > {env}/bin/x"], env / "bin/x")):
        result = box.run(["/bin/sh", "-c", *line], options=["--ask", "never"])
        assert f"allow with: --write {path}\n" in result.errors, result.describe()
    # Other files of that directory may be a project's.
    result = box.run(["/bin/cat", str(env / "src/x")], options=["--ask", "never"])
    assert f"allow with: --read {env}/src/x\n" in result.errors, result.describe()


def test_no_option_for_the_whole_home_is_offered(box):
    """An option for a directory allows all that lies in it. The twin is a directory in the home."""
    box.directory(box.home / "data")
    for path, offered in ((box.home, False), (box.root, False), (box.home / "data", True)):
        result = box.run(["/bin/ls", str(path)], options=["--ask", "never"])
        assert f"read {path} ×1  default" in result.errors, result.describe()
        assert (f"allow with: --read {path}\n" in result.errors) == offered and ("allow with" in result.errors) == offered, result.describe()


def test_a_footer_names_what_a_call_makes_before_what_it_reads(box):
    made = "import os; os.open(os.environ['HOME'] + '/made', os.O_RDWR | os.O_CREAT)"
    assert box.run(["/usr/bin/python3", "-c", made], supervised=False).code == 0
    (box.home / "made").unlink()
    result = box.run(["/usr/bin/python3", "-c", made], options=["--ask", "never"])
    assert f"callgate:   create {box.home}/made ×1  default (no one to ask)  allow with: --write {box.home}/made\n" in result.errors, result.describe()
    box.file(box.home / "made", b"")
    result = box.run(["/usr/bin/python3", "-c", made], options=["--ask", "never"])
    assert f"callgate:   modify {box.home}/made ×1" in result.errors, result.describe()


def test_a_name_of_escapes_cannot_draw_on_the_terminal(box):
    name = b"\x1b[2J\x1b]0;owned\x07\r\ncallgate: all is well \xe2\x80\xae\xff"
    path = os.fsencode(box.root) + b"/" + name
    with open(path, "wb") as file:
        file.write(b"x")
    script = f"cat {box.root}/*well* 2>/dev/null; true"
    result = shell(box, script, {"id": "list", "allow": "read", "path": str(box.root)})
    assert b"\x1b" not in result.err and b"\r" not in result.err and b"\x07" not in result.err, repr(result.err)
    assert "\u202e" not in result.errors, repr(result.err)
    assert not any(line.startswith("callgate: all is well") for line in result.errors.splitlines()), result.describe()
    record = result.decisions(verdict="deny")
    assert record, result.describe()


def test_stdout_is_the_commands_alone_and_stdin_passes_byte_for_byte(box):
    data = bytes(range(256)) * 8192
    result = box.run(["/bin/cat"], rules(box), stdin=data, options=["-v"])
    assert result.code == 0 and result.out == data, f"{len(result.out)} of {len(data)} bytes"
    denied = shell(box, f"cat {box.root}/none/such /etc/../{box.root}/rules1.json 2>/dev/null; echo only this")
    assert denied.out == b"only this\n", denied.describe()


def test_the_report_has_every_member(box):
    box.file(box.root / "outside", b"x")
    result = shell(box, f"cat {box.root}/outside 2>/dev/null; echo x > file; exit 3")
    report = result.report
    assert report["version"] == 1 and report["outcome"] == "exited" and report["exit_code"] == 3 and report["signal"] is None
    assert report["mode"] == "enforce" and report["command"] == ["/bin/sh", "-c", f"cat {box.root}/outside 2>/dev/null; echo x > file; exit 3"]
    assert report["workdir"] == str(box.tree) and report["duration_ms"] >= 0 and report["error"] is None
    assert report["effective"]["landlock_abi"] >= 1 and report["effective"]["listener"] is True
    assert isinstance(report["effective"]["degraded"], list) and len(report["effective"]["rules_sha256"]) == 64
    assert report["counts"]["deny"] == 1 and report["counts"]["kill"] == 0
    denial = report["denials"][0]
    assert (denial["operation"], denial["object"], denial["rule"], denial["errno"], denial["count"]) == \
        ("read", f"{box.root}/outside", "default", "EACCES", 1), result.describe()
    assert denial["program"].endswith("/cat") and denial["hint"] == f"--read {box.root}/outside"
    assert report["usage"]["processes"] >= 1 and report["usage"]["max_rss_kb"] > 0
    assert report["audit"]["records"] == len(result.audit) and Path(report["audit"]["file"]).exists()


def test_the_report_is_written_to_a_file_too_whatever_the_end(box):
    for script, code, outcome in (("exit 0", 0, "exited"), ("kill -9 $$", 137, "signaled")):
        path = box.tree / f"report-{code}"
        result = shell(box, script, options=["--report", str(path)])
        assert result.code == code
        assert json.loads(path.read_text())["outcome"] == outcome
    path = box.tree / "report-failed"
    failed = box.run([str(box.stage.callgate), "run", "-R", "missing.json", "--report", str(path), "--", "/bin/true"], supervised=False)
    assert failed.code == 125 and json.loads(path.read_text())["outcome"] == "setup_error", failed.describe()


def test_without_audit_nothing_is_kept(box):
    result = shell(box, "echo x", audit=False, options=["--no-audit"])
    assert result.code == 0 and result.report["audit"] is None, result.describe()
    assert sorted(one.name for one in box.state.rglob("*") if not one.is_dir()) == ["link-roots", "name-lock", "pointer-roots"]


def test_the_log_lies_in_the_state_directory_for_its_owner_only(box):
    result = shell(box, "echo x > file", audit=False)
    log = Path(result.report["audit"]["file"])
    assert log.parent == box.state / "callgate" and oct(log.stat().st_mode)[-3:] == "600" and oct(log.parent.stat().st_mode)[-3:] == "700"
    actions = [one["event"]["action"] for one in harness.read_log(log)]
    assert actions[0] == "run.start" and actions[-1] == "run.end"


def test_denials_are_recorded_before_their_effect_with_what_decided(box):
    result = shell(box, f"cat {box.root}/rules1.json; cat key", {"id": "keys", "deny": "read", "path": f"{box.tree}/key", "reason": "why"})
    ours = [one for one in result.decisions(verdict="deny") if one["file"]["path"] == f"{box.root}/rules1.json"]
    assert len(ours) == 1, result.describe()
    one = ours[0]
    assert one["event"]["outcome"] == "failure" and one["callgate"]["decided_by"] in ("default", "rule") and one["callgate"]["errno"] == "EACCES"
    assert one["process"]["executable"].endswith("/cat") and one["user"]["id"] == str(box.user.uid)
    sequence = [record["event"]["sequence"] for record in result.audit]
    assert sequence == list(range(sequence[0], sequence[0] + len(sequence)))


# ---- descriptors and environment ----

def test_closed_descriptors_become_dev_null(box):
    line, _ = box.command(["/bin/sh", "-c", f"for n in 0 1 2; do readlink /proc/self/fd/$n >> {box.tree}/seen; done"], rules(box))
    process = box.start(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *line])
    assert process.wait(harness.DEADLINE) == 0
    # the shell's own redirection takes the place of 1 for readlink
    seen = (box.tree / "seen").read_text().split()
    assert seen[0] == "/dev/null" and seen[2] == "/dev/null", seen


def test_no_descriptor_above_two_is_inherited_but_those_named(box):
    extra = os.open("/dev/null", os.O_RDONLY)
    named = os.open("/dev/zero", os.O_RDONLY)
    try:
        # asks by number: to list /proc/self/fd would take a descriptor itself
        script = ("import os\nfor n in range(4096):\n try: print(n, os.readlink(f'/proc/self/fd/{n}'))\n except OSError: pass\n")
        line = ["/usr/bin/python3", "-c", script]
        plain = box.run(line, rules(box), pass_fds=(extra, named))
        passed = box.run(line, rules(box), pass_fds=(extra, named), options=["--pass-fd", str(named)])
    finally:
        os.close(extra)
        os.close(named)
    assert [one.split()[0] for one in plain.text.splitlines()] == ["0", "1", "2"], plain.describe()
    assert [one for one in passed.text.splitlines()[3:]] == [f"{named} /dev/zero"], passed.describe()


def test_no_descriptor_of_callgate_is_inherited(box):
    script = "ls -l /proc/self/fd | grep -cE 'seccomp|landlock|pidfd|jsonl|eventpoll|eventfd'; true"
    assert shell(box, script).out == b"0\n"


def test_the_environment_is_an_allow_list(box):
    extra = {"AWS_SECRET_ACCESS_KEY": "credential", "GITHUB_TOKEN": "credential", "PLAIN_THING": "plain", "EDITOR": "vi"}
    result = box.run(["/usr/bin/env"], rules(box), env=extra)
    names = {line.split("=")[0] for line in result.text.splitlines()}
    assert {"PATH", "HOME", "LANG"} <= names, result.describe()
    assert not names & {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PLAIN_THING"}, result.describe()
    named = box.run(["/usr/bin/env"], rules(box), env=extra, options=["--env", "PLAIN_THING", "--env", "MADE=new value"])
    assert {"PLAIN_THING=plain", "MADE=new value"} <= set(named.text.splitlines()), named.describe()
    kept = box.run(["/usr/bin/env"], rules(box), env=extra, options=["--keep-env"])
    assert "PLAIN_THING=plain" in kept.text and "credential" not in kept.text, kept.describe()


def test_proxies_and_certificates_are_passed_and_a_password_in_one_is_said(box):
    passed = {"HTTPS_PROXY": "http://me:cg-word@proxy.example:3128", "no_proxy": "localhost", "SSL_CERT_FILE": "/etc/ssl/a.pem",
              "NODE_EXTRA_CA_CERTS": "/etc/ssl/a.pem", "REQUESTS_CA_BUNDLE": "/etc/ssl/a.pem", "PIP_INDEX_URL": "https://pypi.example/simple",
              "GIT_SSL_CAINFO": "/etc/ssl/a.pem", "CARGO_HTTP_CAINFO": "/etc/ssl/a.pem"}
    held = {"PIP_EXTRA_INDEX_URL": "https://me:cg-word@pypi.example/simple", "GITHUB_TOKEN": "cg-word", "PLAIN_THING": "plain"}
    result = box.run(["/usr/bin/env"], rules(box), env=passed | held)
    found = dict(line.split("=", 1) for line in result.text.splitlines())
    assert {name: found.get(name) for name in passed | held} == passed | dict.fromkeys(held), result.describe()
    assert "HTTPS_PROXY holds a user and a password" in result.errors and "cg-word" not in result.errors, result.describe()
    assert "not passed to the command" not in result.errors, "that line is for a person on a terminal"
    environment = result.report["environment"]
    assert environment["exposed"] == ["HTTPS_PROXY"] and "PLAIN_THING" in environment["not_passed"], environment
    assert sorted(environment["held_back"]) == ["GITHUB_TOKEN", "PIP_EXTRA_INDEX_URL"], environment
    assert "cg-word" not in json.dumps(result.report)
    listed = box.run(["/usr/bin/env"], rules(box), env=held, options=["-v"])
    line = next(one for one in listed.errors.splitlines() if "not passed to the command" in one)
    assert all(name in line for name in held), listed.describe()
    quiet = box.run(["/usr/bin/env"], rules(box), env=passed | held, options=["-q", "-v"])
    assert "HTTPS_PROXY" not in quiet.errors and "not passed" not in quiet.errors, quiet.describe()


def test_a_person_on_a_terminal_reads_in_one_line_what_the_command_does_not_get(box):
    """Standard error alone is a terminal here: nothing of the command comes between."""
    reader, terminal = os.openpty()
    command = [str(box.callgate), "run", "--no-audit", "--ask", "never", "--rules-json", json.dumps(rules(box)), "--", "/bin/true"]
    environment = box.environment({"GITHUB_TOKEN": "cg-word", "PLAIN_THING": "plain"})
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal, env=environment, cwd=box.tree,
                          check=False, timeout=harness.DEADLINE, **box.user.popen_identity())
    os.close(terminal)
    said = os.read(reader, 65536).decode()
    os.close(reader)
    assert done.returncode == 0, said
    assert "not passed to the command: GITHUB_TOKEN (looks like a credential), and " in said, said
    assert "PLAIN_THING" not in said and "-v lists all" in said and "cg-word" not in said, said


PLACES = {"HOME", "TMPDIR", *(f"XDG_{one}" for one in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"))}


def test_a_rule_set_says_what_of_the_environment_passes_and_what_is_set(box):
    extra = {"PLAIN_ONE": "1", "PLAIN_TWO": "2", "GITHUB_TOKEN": "credential", "OTHER_TOKEN": "credential"}
    stated = rules(box) | {"environment": {"pass": ["PLAIN_ONE", "PLAIN_TWO", "GITHUB_TOKEN"], "set": {"CACHE": "${tmp}/cache", "LANG": "C"}}}
    result = box.run(["/usr/bin/env"], stated, env=extra, options=["--env", "LANG=POSIX"])
    found = dict(line.split("=", 1) for line in result.text.splitlines())
    assert {name: found.get(name) for name in extra} == extra | {"OTHER_TOKEN": None}, result.describe()
    assert found["CACHE"] == f"{found['TMPDIR']}/cache" and found["LANG"] == "POSIX", "an option goes before a rule set"
    assert result.report["environment"]["held_back"] == ["OTHER_TOKEN"], "what was named is not held back"


def test_a_private_home_is_the_runs_own_and_goes_with_it(box):
    """Under the default profile, which closes the real home; what a program keeps there would stay."""
    script = "cd && pwd && mkdir -p .config && echo x > .config/made && echo $HOME/.config = $XDG_CONFIG_HOME && cat ~/.config/made"
    assert box.run(["/bin/sh", "-c", "cd && pwd && mkdir .config && echo made"], supervised=False).text == f"{box.home}\nmade\n"
    result = box.run(["/bin/sh", "-c", script], options=["--private-home"])
    home = result.text.split("\n")[0]
    assert result.text == f"{home}\n{home}/.config = {home}/.config\nx\n" and home != str(box.home), result.describe()
    assert not Path(home).exists() and not (box.home / ".config/made").exists(), result.describe()
    found = box.run(["/usr/bin/env"], options=["--private-home"]).text.splitlines()
    places = {name: value for name, value in (line.split("=", 1) for line in found) if name in PLACES}
    assert set(places) == PLACES and all(value.startswith(places["HOME"]) for value in places.values()), places
    shared = box.run(["/bin/sh", "-c", "echo $HOME; echo x > ~/.config/made"])
    assert shared.text == f"{box.home}\n" and "Permission denied" in shared.errors, shared.describe()


def test_the_default_profile_starts_in_a_very_deep_directory(box):
    """Its patterns have the work directory's name in them, many times."""
    deep = box.tree / "/".join(["a,b{c}" * 10] * 40)
    deep.mkdir(parents=True)
    box.own(deep)
    result = box.run(["/bin/sh", "-c", "echo made > new && cat new"], {"rules": []}, options=["-p", "agent"], cwd=deep)
    assert result.code == 0 and result.text == "made\n" and len(str(deep)) > 2400, result.describe()


def test_the_command_starts_where_it_is_told(box):
    box.directory(box.tree / "below")
    assert shell(box, "pwd", options=["--cwd", str(box.tree / "below")]).out.decode().strip() == str(box.tree / "below")
    elsewhere = shell(box, "pwd", options=["--workdir", str(box.tree / "below")], cwd=box.tree)
    assert elsewhere.out.decode().strip() == str(box.tree / "below"), elsewhere.describe()
    relative = shell(box, "pwd; echo $PWD", options=["--cwd", "below"])
    assert relative.text.split() == [str(box.tree / "below")] * 2, relative.describe()
    outside = shell(box, "pwd; : > made", options=["--cwd", "/usr"])  # to begin there grants nothing
    assert outside.text == "/usr\n" and "made" in outside.errors and outside.report["workdir"] == str(box.tree), outside.describe()


def test_umask_limits_and_signal_dispositions_are_the_callers(box):
    """The settings of a caller reach the command: umask, ignored signals (nohup), resource limits."""
    script = "umask; grep -E 'SigIgn|SigBlk|SigCgt' /proc/self/status; ulimit -n; ulimit -s; ulimit -v"
    line, _ = box.command(["/bin/sh", "-c", script], rules(box))
    wrapper = ["/bin/sh", "-c", 'trap "" HUP USR1; umask 027; ulimit -n 500; ulimit -s 4096; exec "$@"', "sh"]
    bare = box.run([*wrapper, "/bin/sh", "-c", script], supervised=False)
    under = box.run([*wrapper, *line], supervised=False)
    assert under.out == bare.out, f"bare:\n{bare.text}\nsupervised:\n{under.text}{under.errors}"


def test_the_tree_is_offered_to_the_oom_killer_first(box):
    script = "cat /proc/self/oom_score_adj"
    bare = box.run(["/bin/sh", "-c", script], supervised=False)
    under = shell(box, script)
    assert int(under.out) == min(int(bare.out) + 500, 1000), under.describe()


# Runs its arguments with a session keyring that holds one key, for its possessor's eyes alone (keyctl(2)).
KEY_HOLDER = """
import ctypes, os, platform, sys
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
call = ctypes.CDLL(None, use_errno=True).syscall
join, set_permissions, session, possessor_all = 1, 5, -3, 0x3f000000
if call(keyctl, join, None) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
key = call(add_key, b"keyring", b"cg-held", None, 0, session)
if key < 0 or call(keyctl, set_permissions, key, possessor_all) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_the_session_keyring_of_the_caller_stays_outside(box):
    """The kernel lists in /proc/keys what the reader possesses: of a new session keyring nothing."""
    harness.not_in_container("there is no keyring to begin with")
    script = "grep -c 'keyring.*cg-held' /proc/keys; true"
    holder = ["/usr/bin/python3", "-c", KEY_HOLDER]
    assert box.run([*holder, "/bin/sh", "-c", script], supervised=False).out == b"1\n"
    line, _ = box.command(["/bin/sh", "-c", script], rules(box))
    under = box.run([*holder, *line], supervised=False)
    assert under.out == b"0\n", under.describe()


# ---- what is left running ----

def test_what_is_left_running_is_ended_and_said(box):
    marker = f"CG_MARK={box.root}"
    result = shell(box, "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & exit' &) ; echo started", options=["--env", marker])
    assert result.code == 0 and result.out == b"started\n", result.describe()
    assert harness.marked(marker) == []
    assert b"callgate: " in result.err, result.describe()


def test_one_that_ignores_sigterm_is_ended_too_and_its_pipe_closed(box):
    marker = f"CG_MARK={box.root}"
    result = box.run([box.program("prog_tree"), str(box.tree), "leave"], rules(box), options=["--env", marker])
    assert result.code == 5 and result.out == b"ready\n", result.describe()
    assert harness.marked(marker) == []


@pytest.mark.skipif(harness.PATIENCE > 1, reason="an emulated processor does little in 100 ms")
def test_what_ends_by_itself_with_the_command_is_given_the_time_for_it(box):
    """Python's resource tracker ends when the command's end closes their pipe. No line says that callgate ended it."""
    helper = "(read line <&3; sleep 0.01; echo ended >> done) 3< <(exec sleep 0.01) >/dev/null 2>&1 & echo started"
    for _ in range(10):  # a busy machine may take longer than callgate waits
        result = box.run(["/bin/bash", "-c", helper], rules(box))
        assert result.code == 0 and result.out == b"started\n", result.describe()
        if (box.tree / "done").exists() and b"callgate: ended" not in result.err:
            return
    raise AssertionError(result.describe())


def test_background_wait_waits_and_says_when_the_command_itself_has_ended(box):
    reading, writing = os.pipe()
    fifo = box.tree / "go"
    os.mkfifo(fifo)
    box.own(fifo)
    line, _ = box.command(["/bin/sh", "-c", f"(read line < {fifo}; echo late) & exit 4"], rules(box),
                          ["--background", "wait", "--status", f"fd:{writing}"])
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(writing,))
    os.close(writing)
    status = json.loads(harness.read_until(reading, b"\n"))
    os.close(reading)
    assert status == {"event": "command_ended", "exit_code": 4}
    assert process.poll() is None, "it did not wait for what was left running"
    with open(fifo, "w", encoding="ascii") as go:
        go.write("now\n")
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (process.returncode, out) == (4, b"late\n"), err


# ---- signals ----

def wait_for_trap(box: harness.Box, script: str, options=()):
    return wait_for(box, ["/bin/bash", "-c", script], options)


def wait_for(box: harness.Box, command: list[str], options=()):
    """A run of a command that says when it is ready."""
    line, _ = box.command(command, rules(box), list(options))
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    harness.read_until(process.stdout.fileno(), b"ready")
    return process


CALLER = """
import signal, subprocess, sys
hangups = []
signal.signal(signal.SIGHUP, lambda *_: hangups.append(1))
quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
code = subprocess.run(sys.argv[1:], **quiet).returncode
print(code, len(hangups))
"""


@pytest.mark.parametrize("contested", [False, True], ids=["static", "contested"])
def test_of_callgate_is_seen_what_is_seen_of_any_other_process(box, contested):
    """The guardian is the command's parent: what /proc shows everybody is shown, what it shows a debugger is not."""
    asked = ("stat", "statm", "status", "cmdline", "comm", "environ", "maps", "mem", "auxv", "syscall")
    script = f"for one in {' '.join(asked)}; do head -c 1 /proc/$PPID/$one >/dev/null 2>&1; echo $one $?; done"
    never = [{"id": "never", "deny": "read", "path": "/proc/*/task/*/never"}] if contested else []
    result = box.run(["/bin/sh", "-c", script],
                     harness.rule_set({"id": "processes", "allow": "read", "path": ["/proc", "/proc/**", "/dev/null"]},
                                      {"id": "null", "allow": "write", "path": "/dev/null"}, *never))
    assert result.text.splitlines() == [f"{one} {0 if place < 5 else 1}" for place, one in enumerate(asked)], result.describe()
    if not contested:
        bare = box.run(["/bin/sh", "-c", '/bin/sh -c "$0"; true', script], supervised=False)
        assert "environ 0" in bare.text, bare.describe()  # the control: nobody keeps a parent's from it


STOPPED_CHILD = "sh -c 'kill -STOP $$' & while ! grep -q '^State:.T' /proc/$!/status; do :; done; "


def hangups(box: harness.Box, line: list[str]) -> list[bytes]:
    """Exit status and SIGHUPs of a caller that leads an orphaned group (a service, a CI job), which the command joins."""
    caller = box.start(["/usr/bin/python3", "-c", CALLER, *line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = caller.communicate(timeout=harness.DEADLINE)
    finally:
        try:
            os.killpg(caller.pid, signal.SIGKILL)  # what a command that nobody supervises leaves behind
        except ProcessLookupError:
            pass
    assert len(out.split()) == 2, (out, err)
    return out.split()


def test_a_command_that_leaves_a_stopped_child_does_not_hang_up_its_callers_group(box):
    command = ["/bin/sh", "-c", STOPPED_CHILD + "exit 3"]
    assert hangups(box, command) == [b"3", b"0"]
    assert hangups(box, box.command(command, rules(box))[0]) == [b"3", b"0"]


def test_a_tree_that_is_ended_does_not_hang_up_its_callers_group(box):
    for _ in range(50 if harness.SOAK else 3):
        line, _ = box.command(["/bin/sh", "-c", "trap '' TERM; " + STOPPED_CHILD + "wait"], rules(box),
                              ["--timeout", "500ms", "--grace", "100ms"])
        assert hangups(box, line) == [b"124", b"0"]


@pytest.mark.parametrize("number", ["TERM", "INT", "HUP"])
def test_a_signal_sent_to_callgate_is_passed_on(box, number):
    process = wait_for_trap(box, f'trap "echo got; exit 9" {number}; echo ready; while :; do sleep 0.05; done',
                            ["--grace", str(harness.DEADLINE)])  # a shell on a slow machine takes its time
    process.send_signal(getattr(signal, f"SIG{number}"))
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert (process.returncode, out.strip()) == (9, b"got"), (out, err)


@pytest.mark.parametrize("number", ["TERM", "HUP"])
def test_a_command_that_dies_of_a_signal_passed_on_was_cancelled(box, number):
    report = box.tree / "report"
    process = wait_for_trap(box, "echo ready; while :; do sleep 0.05; done", ["--report", str(report)])
    process.send_signal(getattr(signal, f"SIG{number}"))
    process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 128 + getattr(signal, f"SIG{number}")
    assert json.loads(report.read_text())["outcome"] == "cancelled"


def test_a_second_sigterm_ends_what_ignores_the_first(box):
    marker = f"CG_MARK={box.root}"
    process = wait_for_trap(box, 'trap "echo one" TERM; echo ready; while :; do sleep 0.05; done',
                            ["--grace", "1000", "--env", marker])
    process.terminate()
    harness.read_until(process.stdout.fileno(), b"one")
    process.terminate()
    process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 128 + signal.SIGTERM and harness.marked(marker) == []


# A shell can lose a signal that comes while it runs the trap of the one before.
TAKES_THREE = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
os.write(1, b"ready")
for number in (1, 2, 3):
    signal.sigwait([signal.SIGINT])
    os.write(1, b"int-%d" % number)
sys.exit(6)
"""


def test_sigint_never_ends_what_ignores_it(box):
    """However often it comes, and whatever --grace is: it is the command's to decide."""
    process = wait_for(box, ["/usr/bin/python3", "-c", TAKES_THREE], ["--grace", "1ms"])
    for number in (1, 2, 3):
        process.send_signal(signal.SIGINT)
        harness.read_until(process.stdout.fileno(), f"int-{number}".encode())
    assert process.wait(harness.DEADLINE) == 6


def test_grace_ends_what_ignores_sigterm(box):
    process = wait_for_trap(box, 'trap "" TERM; echo ready; while :; do sleep 0.05; done', ["--grace", "0.2"])
    process.terminate()
    process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_signal_storm_during_contested_calls_loses_no_answer(box):
    """Every 200 µs a handled signal: each open is answered once and the program ends by itself."""
    script = ("import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)\n"
              "for i in range(2000):\n    os.close(os.open(f'f{i % 10}', os.O_CREAT | os.O_RDWR))\nprint('done')\n")
    result = box.run(["/usr/bin/python3", "-c", script], rules(box, {"id": "never", "deny": "read", "path": f"{box.tree}/**/.never"}))
    assert result.out == b"done\n", result.describe()


# ---- terminal ----

class Terminal:
    """An outer interactive bash on a pty of its own."""

    def __init__(self, box: harness.Box, line: list[str]) -> None:
        self.outer, inner = pty.openpty()
        if os.geteuid() == 0:
            os.fchown(inner, box.user.uid, box.user.gid)
        self.process = box.start(["setsid", "--ctty", "--wait", *line], stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)

    def shell(self) -> int:
        """The interactive shell: setsid forks where it leads a group already."""
        return next(pid for pid in [self.process.pid, *harness.descendants(self.process.pid)]
                    if harness.name_of(pid) == "bash")

    def type(self, text: str) -> None:
        os.write(self.outer, text.encode())

    def wait_for_shell(self) -> None:
        """Until the shell has the terminal back: what is typed before is the job's."""
        harness.until(lambda: os.tcgetpgrp(self.outer) == os.getpgid(self.shell()), "the shell is in the foreground")

    def expect(self, wanted: str) -> str:
        return harness.read_until(self.outer, wanted.encode()).decode(errors="replace")

    def close(self) -> None:
        for pid in harness.descendants(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(harness.DEADLINE)
        os.close(self.outer)


def test_ctrl_c_ctrl_z_and_fg_work_as_without_callgate(box):
    line, _ = box.command(["/bin/bash", "-c", 'trap "echo interrupted; exit 3" INT; echo running-$((40+2)); while :; do sleep 0.05; done'], rules(box))
    terminal = Terminal(box, ["/bin/bash", "--norc", "--noprofile", "-i"])
    try:
        terminal.type("PS1='$''> '; echo up-$((1+1))\n")
        terminal.expect("up-2")
        terminal.type(" ".join(line[:-1]) + " '" + line[-1] + "'\n")
        terminal.expect("running-42")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.type("jobs | wc -l; echo job-$((3*5))\n")
        terminal.expect("job-15")
        terminal.type("fg\n")
        # a key typed before the shell has handed over the terminal would be the shell's
        job = harness.children(terminal.shell())[0]
        harness.until(lambda: os.tcgetpgrp(terminal.outer) == os.getpgid(job), "the job is in the foreground")
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.wait_for_shell()
        terminal.type("echo status-$?\n")
        terminal.expect("status-3")
        terminal.type("exit\n")
        assert terminal.process.wait(harness.DEADLINE) == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_job_that_is_stopped_while_it_starts_goes_on_when_it_is_continued(box, number):
    """Ctrl-Z at a random moment of the start reaches callgate's group; a debugger or the freezer of a job may stop any of it."""
    line, _ = box.command(["/bin/sh", "-c", "exit 7"], rules(box), audit=False)
    choose = random.SystemRandom()
    stopped = 0
    for _ in range(300 if harness.SOAK else 15):
        process = box.start([*line[:2], "--no-audit", *line[2:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            process_group=0)
        time.sleep(choose.uniform(0, 0.012))  # the input of the test: nothing is waited for
        for pid in [process.pid] if number == signal.SIGTSTP else harness.descendants(process.pid)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number) if number == signal.SIGTSTP else os.kill(pid, number)
        if number == signal.SIGTSTP:
            stopped += harness.until(lambda: process.poll() is not None or stopped_of(process.pid), "it stops or ends") is not True
        until_ended(process)
        assert process.communicate() == (b"", b"") and process.returncode == 7, f"stopped before: {stopped}"


def stopped_of(pid: int) -> list[int]:
    """The process and those below it that are stopped."""
    return [one for one in [pid, *harness.descendants(pid)] if harness.state(one) == "T"]


def until_ended(process: subprocess.Popen) -> None:
    """Continues each process of the job that has stopped, as often as it stops."""
    def ended() -> bool:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGCONT)
        return process.poll() is not None
    harness.until(ended, "its end")


def test_ctrl_c_that_kills_the_command_gives_130(box):
    report = box.tree / "report"
    line, _ = box.command(["/bin/sleep", "1000"], rules(box), ["--report", str(report)])
    terminal = Terminal(box, ["/bin/bash", "--norc", "--noprofile", "-i"])
    try:
        terminal.type("PS1='$''> '; echo up-$((1+1))\n")
        terminal.expect("up-2")
        terminal.type(" ".join(line) + "\n")
        sleeper = harness.until(lambda: [one for one in harness.descendants(terminal.process.pid)
                                         if harness.name_of(one) == "sleep"], "sleep runs")
        assert sleeper
        terminal.type("\x03")
        terminal.wait_for_shell()
        terminal.type("echo status-$?\n")
        terminal.expect("status-130")
        assert json.loads(report.read_text())["signal"] == signal.SIGINT
        terminal.type("exit\n")
    finally:
        terminal.close()


# ---- what is refused at start ----

@pytest.mark.parametrize("place", ["missing", "not a directory", "read-only"])
def test_without_a_place_for_the_log_nothing_runs(box, place):
    ran = box.tree / "ran"
    if place == "missing":
        options, env = ["--audit", str(box.tree / "no" / "such" / "log")], None
    elif place == "not a directory":
        options, env = [], {"XDG_STATE_HOME": str(box.file(box.tree / "file", b""))}
    else:
        options, env = [], {"XDG_STATE_HOME": "/proc/sys"}  # not writable for root either
    result = shell(box, f"echo > {ran}", audit=False, options=options, env=env)
    assert result.code == 125 and not ran.exists(), result.describe()
    assert result.out == b"" and len(result.errors.splitlines()) == 1, result.describe()
    assert result.report and result.report["outcome"] == "setup_error", result.describe()


def test_who_has_no_home_is_told_once(stage, box):
    """A user who is nobody, as in containers that make up users: the profile names his home in two hundred patterns."""
    command = [stage.callgate, "run", "--no-audit", "--", "/bin/true"]
    number = "61234" if harness.CONTAINER else "3999999999"  # a rootless container has 65,536 users
    nobody = ["/usr/bin/setpriv", "--reuid", number, "--regid", number, "--clear-groups"]
    place = box.directory(box.tree / "place")  # others fill /tmp
    sanitizers = {name: os.environ[name] for name in harness.SANITIZERS if name in os.environ}
    environment = {"PATH": "/usr/bin:/bin", **sanitizers}
    homeless = subprocess.run([*nobody, *command], cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert homeless.returncode == 125 and "set HOME" in homeless.stderr and "more patterns" in homeless.stderr, homeless
    assert len(homeless.stderr.splitlines()) == 1, homeless.stderr
    told = subprocess.run([*nobody, *command], cwd=place, env={**environment, "HOME": "/"}, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, ""), told


def test_the_private_directory_is_gone_afterwards(box):
    result = shell(box, "echo $TMPDIR; : > $TMPDIR/file && echo made", {"id": "tmp", "allow": ["read", "write"], "path": "${tmp}/**"})
    lines = result.text.split()
    if len(lines) == 2:
        assert lines[1] == "made" and not Path(lines[0]).exists(), result.describe()
    assert not list(Path("/tmp").glob(f"callgate-{box.user.uid}-{result.report['run']}")), result.describe()
