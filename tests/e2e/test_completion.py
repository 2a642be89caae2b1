"""Completions in the real shells: a line is typed, the tabulator key pressed, and the shell prints the words that came of it."""
from __future__ import annotations

import fcntl
import os
import pty
import shlex
import shutil
import struct
import termios

import pytest

import harness
from approvers import Asked

PROMPT = b"ready> "
NAMES = "/usr/share/bash-completion/bash_completion"
# In every shell: what is typed, and the words after the key.
TYPED = {
    "callgate exp": ["explain"],
    "callgate run --profi": ["run", "--profile"],
    "callgate run --ask so": ["run", "--ask", "socket"],
    "callgate run --ask fd": ["run", "--ask", "fd:"],
    "callgate run -p agent+": ["run", "-p", "agent+strict"],
    "callgate run --profile agent+": ["run", "--profile", "agent+strict"],
    "callgate run -p yo": ["run", "-p", "yours"],
    "callgate run -r some\\ f": ["run", "-r", "some file"],
    "callgate run --read=oth": ["run", "--read=other.json"],
    "callgate run --workdir sub": ["run", "--workdir", "subdirectory/"],
    "callgate run -q touc": ["run", "-q", "touch"],
    "callgate run -p agent -- touc": ["run", "-p", "agent", "--", "touch"],
    "callgate run cat oth": ["run", "cat", "other.json"],
    "callgate run --except base.tool-s": ["run", "--except", "base.tool-settings"],
    "callgate audit sum": ["audit", "summary"],
    "callgate audit summary --by ob": ["audit", "summary", "--by", "object"],
    "callgate explain exe": ["explain", "execute"],
    "callgate explain read oth": ["explain", "read", "other.json"],
    "callgate check oth": ["check", "other.json"],
    "callgate rules acc": ["rules", "accept"],
    "callgate profiles rea": ["profiles", "readonly"],
    "callgate completion fi": ["completion", "fish"],
}


class Shell:
    """An interactive shell that reads one file, at a terminal of its own."""

    def __init__(self, box: harness.Box, name: str) -> None:
        place = box.directory(box.root / "shell")
        script = box.run([str(box.callgate), "completion", name.partition(" ")[0]], supervised=False).out
        if name == "fish":
            box.file(place / "callgate.fish", script)
            start = f"set fish_complete_path {place} $fish_complete_path; function fish_prompt; printf 'ready> '; end"
            line = ["fish", "--no-config", "-i", "-C", start]
        elif name == "zsh":
            box.file(place / "_callgate", script)
            box.file(place / ".zshrc", f"unset zle_bracketed_paste\nfpath=({place} $fpath)\nautoload -Uz compinit\n"
                     f"compinit -u -d {place}/dump\nPROMPT='ready> '\n".encode())
            line = ["zsh", "-d", "-i"]
        else:
            box.file(place / "bash-completion/completions/callgate", script)
            # With the package of that name completions are found by themselves; alone they are read by name.
            source = NAMES if name == "bash with bash-completion" else f"{place}/bash-completion/completions/callgate"
            box.file(place / "rc", f"bind 'set enable-bracketed-paste off'\n. {source}\nPS1='ready> '\n".encode())
            line = ["bash", "--noprofile", "--rcfile", str(place / "rc"), "-i"]
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        environment = box.environment({"PATH": f"{box.callgate.parent}:/usr/bin:/bin", "ZDOTDIR": str(place),
                                       "XDG_DATA_DIRS": f"{place}:/usr/share"})
        try:
            self.process = box.start(line, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        finally:
            os.close(slave)
        harness.read_until(self.master, PROMPT)

    def words(self, typed: str) -> list[str]:
        """The words behind `callgate` on the line, once the key was pressed."""
        # To the end of the line, one more word; to its beginning, a command that prints each word.
        os.write(self.master, f"{typed}\t\x05 :end\x01printf '<%s>' \n".encode())
        shown, _, rest = harness.read_until(self.master, b"<:end>").decode().rpartition("<:end>")
        if PROMPT.decode() not in rest:
            harness.read_until(self.master, PROMPT)
        return shown[shown.rindex("<callgate>") + 1:].removesuffix(">").split("><")[1:]


@pytest.fixture(params=["bash", "bash with bash-completion", "zsh", "fish"])
def shell(request, box):
    name = request.param
    if not shutil.which(name.partition(" ")[0]) or (" " in name and not os.path.exists(NAMES)):
        pytest.skip(f"{name} is not installed: ./dev deps test")
    box.directory(box.tree / "subdirectory")
    box.file(box.tree / "other.json")
    box.file(box.tree / "some file")
    box.file(box.home / ".config/callgate/profiles/yours.json", b'{"version": 1}')
    return box, lambda: Shell(box, name)


def test_each_place_completes_what_belongs_there(shell):
    box, start = shell
    session = start()
    got = {typed: session.words(typed) for typed in TYPED}
    # Shells differ in the slash behind a directory that is completed.
    got = {typed: [word.rstrip("/") for word in words] for typed, words in got.items()}
    assert got == {typed: [word.rstrip("/") for word in words] for typed, words in TYPED.items()}


def test_runs_grants_logs_and_proposed_rules_are_completed_by_name(shell):
    box, start = shell
    asked = box.file(box.root / "asked", b"asked\n")
    rules = harness.rule_set({"id": "work", "allow": "read", "path": f"{box.tree}/**"}, {"id": "ask", "ask": "read", "path": str(asked)})
    run = Asked(box, ["/bin/bash", "-c", f"cat {asked}; read end"], rules)
    run.decide(run.ask(), "allow", "object")
    (name,) = [one["callgate"]["run"] for one in harness.read_log(run.log)[:1]]
    box.file(box.home / f".config/callgate/pending/{name}-7", b'{"id": "p", "allow": "read", "path": "/srv/x"}')
    box.file(box.state / "callgate/20261124T000000-k3f9ab.jsonl")
    harness.until(lambda: name in box.run([str(box.callgate), "ps"], supervised=False).text, "the run is listed")
    session = start()
    assert session.words(f"callgate stop {name[:5]}") == ["stop", name]
    assert session.words(f"callgate approve --run {name[:5]}") == ["approve", "--run", name]
    assert session.words(f"callgate revoke {name} ") == ["revoke", name, "1"]
    assert session.words(f"callgate rules accept {name[:5]}") == ["rules", "accept", f"{name}-7"]
    assert session.words("callgate audit show k3f9") == ["audit", "show", "k3f9ab"]
    run.end(b"\n")


def test_names_that_others_chose_are_never_run_or_typed(shell):
    """A name that a shell would expand is not offered, and one that looks like an option is not either."""
    box, start = shell
    ran = box.tree / "ran"
    for name in (f"zz$(touch {shlex.quote(ran.name)})", f"zz`touch {ran.name}`", f"zz;touch {ran.name}", "--help", "zz y"):
        box.file(box.home / f".config/callgate/profiles/{name}.json", b'{"version": 1}')
    session = start()
    assert session.words("callgate profiles zz") == ["profiles", "zz"]
    assert session.words("callgate run -p zz") == ["run", "-p", "zz"]
    assert not ran.exists()
    box.file(box.home / ".config/callgate/profiles/zz-good.json", b'{"version": 1}')
    assert session.words("callgate profiles zz") == ["profiles", "zz-good"]
