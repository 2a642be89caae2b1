"""Links on the way to what a start opens: those that a run could have made, and those to callgate's own files. The attacks are in the
corpus (led.*, own.*)."""
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import harness
from approvers import Asked


def rules(box: harness.Box, *more):
    return harness.rule_set({"id": "programs", "allow": ["read", "execute"], "path": f"{box.stage.bin}/**"},
                            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, *more)


def record(box: harness.Box) -> Path:
    return box.state / "callgate/link-roots"


def link(box: harness.Box, name: Path, target: Path) -> Path:
    name.symlink_to(target)
    box.own(name)
    return name


def test_the_record_says_where_runs_could_make_links(box):
    """The private directory goes with the run, and audit mode is for commands that are trusted."""
    assert box.run(["/bin/true"], rules(box), options=["--mode", "audit"]).code == 0
    assert not record(box).exists()
    more = {"id": "more", "allow": ["read", "write"], "path": [f"{box.root}/more/**", "${tmp}/**", f"{box.root}/one"]}
    assert box.run(["/bin/true"], rules(box, more)).code == 0
    assert record(box).read_text() == f"{box.root}/more/\n{box.tree}/\n"
    before = record(box).stat()
    assert box.run(["/bin/true"], rules(box)).code == 0
    assert (record(box).stat().st_ino, record(box).stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_record_that_cannot_be_written_stops_the_start(box):
    box.directory(box.state / "callgate")
    link(box, record(box), box.file(box.home / "notes", b"mine\n"))
    result = box.run(["/bin/sh", "-c", "echo > ran"], rules(box))
    assert result.code == 125 and f"cannot read {record(box)}" in result.errors, result.describe()
    assert not (box.tree / "ran").exists() and (box.home / "notes").read_bytes() == b"mine\n"


def test_without_a_state_directory_the_report_says_so(box):
    nowhere = box.file(box.root / "nowhere")
    result = box.run(["/bin/true"], rules(box), options=["--no-audit"], audit=False, env={"XDG_STATE_HOME": str(nowhere)})
    there = ["descriptor-copy"] if harness.CONTAINER == "docker" else []
    assert result.code == 0 and result.report["effective"]["degraded"] == ["link-record", *there], result.describe()


def test_after_the_open_profile_links_stand_for_programs_where_it_could_make_none(box):
    """Control: a link elsewhere in the home counts as one that the run could have made."""
    result = box.run(["/bin/sh", "-c", "ln -s /bin/true /usr/bin/callgate-test-link; ln -s x ~/.local/bin/it; ln -s x ~/it"],
                     options=["-p", "open"])
    assert result.code == 0 and (box.home / "it").is_symlink() and not Path("/usr/bin/callgate-test-link").is_symlink(), result.describe()
    tool = box.file(box.home / "venv/tool", b"#!/bin/sh\necho mine\n", 0o755)
    box.directory(box.home / ".local")
    known = link(box, box.directory(box.home / ".local/bin") / "tool", tool)
    for program in (known, Path("/bin/sh")):
        options = ["-x", str(program), "-x", "/bin/sh"]
        assert box.run([str(program), "-c", "exit"], rules(box), options=options).code == 0, program
    elsewhere = link(box, box.home / "tool", tool)
    refused = box.run([str(elsewhere)], rules(box), options=["-x", str(elsewhere)])
    assert refused.code == 125 and f"{elsewhere} to {tool}, and a run could have made that link; name {tool}" in refused.errors, \
        refused.describe()


def test_after_the_open_profile_a_profiles_directory_in_the_home_is_no_link(box):
    """Twin: before such a run the user's own link counts, and the profiles' links outside the home always do."""
    sdk = box.directory(box.root / "sdk")
    box.file(sdk / "tool", b"#!/bin/sh\necho ran\n", 0o755)
    name = link(box, box.home / "sdk", sdk)
    line, options = [str(name / "tool")], ["-p", "go"]
    assert box.run(line, options=options).text == "ran\n"
    assert box.run(["/bin/true"], options=["-p", "open"]).code == 0
    refused = box.run(line, options=options)
    assert refused.code == 125 and f"leads through the symbolic link {name} to {sdk}" in refused.errors, refused.describe()
    assert box.run(["/bin/true"], options=["-p", "python"]).code == 0


def test_a_report_goes_through_no_link_that_a_run_made(box):
    """Nor does the report of a start that fails for another reason. Twin: a link of the user's own."""
    outside = box.directory(box.home / "outside")
    link(box, box.tree / "out", outside)
    for arguments in ([], ["--no-such-option"]):
        line, _ = box.command(["/bin/true"], rules(box), ["--report", f"{box.tree}/out/report.json", *arguments])
        refused = box.run(line, supervised=False)
        assert refused.code == 125 and list(outside.iterdir()) == [], refused.describe()
    own = link(box, box.root / "own", outside)
    line, _ = box.command(["/bin/true"], rules(box), ["--report", f"{own}/report.json"])
    assert box.run(line, supervised=False).code == 0 and (outside / "report.json").exists()


@pytest.mark.parametrize("answer", ["tree", "once"])
def test_where_a_person_let_a_run_make_links_is_on_record(box, answer):
    """A single name that was shown and allowed is the person's own."""
    asked, secret = box.directory(box.root / "asked"), box.directory(box.home / "secret")
    box.file(secret / "file", b"secret content")
    question = {"id": "question", "ask": ["read", "write"], "path": f"{asked}/**"}
    run = Asked(box, ["/bin/sh", "-c", f"ln -s {secret} {asked}/it; ln -s {secret} {asked}/more"], rules(box, question))
    run.decide(run.ask(), "allow", answer)
    if answer == "once":
        run.decide(run.ask(), "deny")
    result = run.end()
    assert (asked / "it").is_symlink() and (asked / "more").is_symlink() == (answer == "tree"), result.describe()
    assert (str(asked) in record(box).read_text().splitlines()) == (answer == "tree")
    after = box.run(["/bin/cat", f"{secret}/file"], rules(box), options=["--read", f"{asked}/it"])
    assert after.code == (125 if answer == "tree" else 0) and ("secret content" in after.text) == (answer == "once"), after.describe()


def test_an_answer_that_cannot_be_put_on_record_denies(box):
    asked = box.directory(box.root / "asked")
    question = {"id": "question", "ask": ["read", "write"], "path": f"{asked}/**"}
    run = Asked(box, ["/bin/sh", "-c", f"ln -s x {asked}/it"], rules(box, question))
    wanted = run.ask()
    record(box).unlink()
    link(box, record(box), box.file(box.home / "notes"))
    assert not run.decide(wanted, "allow", "tree")["applied"]
    result = run.end()
    assert result.code != 0 and not (asked / "it").is_symlink(), result.describe()


def own_rules(box: harness.Box, name: Path, mode: int) -> Path:
    """The user's rules are a link to the file `name`, which opens the directory `mine`."""
    box.file(box.directory(box.root / "mine") / "file", b"my content")
    text = json.dumps({"version": 1, "rules": [{"id": "own", "allow": "read", "path": f"{box.root}/mine/**"}]})
    box.directory(box.home / ".config")
    return link(box, box.directory(box.home / ".config/callgate") / "rules.json", box.file(name, text.encode(), mode))


@pytest.mark.parametrize("writable", ["file", "directory"])
def test_a_link_to_rules_that_others_may_write_is_refused(box, writable):
    """Control: the link counts as long as nobody else may write there."""
    store = box.directory(box.root / "store")
    name = own_rules(box, store / "rules.json", 0o644)
    line = ["/bin/cat", f"{box.root}/mine/file"]
    assert box.run(line).text == "my content"
    (store / "rules.json" if writable == "file" else store).chmod(0o646 if writable == "file" else 0o757)
    refused = box.run(line)
    assert refused.code == 125 and str(name) in refused.errors and f"{store}/rules.json" in refused.errors, refused.describe()
    assert "others may write" in refused.errors
    (store / "rules.json" if writable == "file" else store).chmod(0o644 if writable == "file" else 0o755)  # the control is replayed


def test_a_link_to_another_users_rules_is_refused(box):
    if os.geteuid() != 0:
        pytest.skip("only root makes another user's file")
    name = own_rules(box, box.root / "theirs.json", 0o644)
    os.chown(box.root / "theirs.json", 65534, 65534)
    refused = box.run(["/bin/cat", f"{box.root}/mine/file"])
    assert refused.code == 125 and str(name) in refused.errors, refused.describe()


STOW = {"stow": ["stow"], "no_folding": ["stow", "--no-folding"]}


def dotfiles(box: harness.Box, layout: str) -> Path:
    """A home whose settings are links, as managers of dotfiles make them. Returns the place where the files lie."""
    place = box.directory(box.root / "dots")
    files = {"git/config": b"[user]\n\tname = linked\n", "gh/hosts.yml": b"SECRET"}
    config = box.home / ".config"
    for name, text in files.items():
        box.file(place / "config" / name, text)
    if layout == "whole":
        link(box, config, place / "config")
        return place / "config"
    box.directory(config)
    for name in files:
        if layout == "home_manager":  # by a tree of links in a store that nobody writes
            there = box.directory(box.directory(box.root / "store") / name.split("/")[0])
            link(box, there / name.split("/")[1], place / "config" / name)
            link(box, box.directory(config / name.split("/")[0]) / name.split("/")[1], there / name.split("/")[1])
            there.chmod(0o555)
    if layout != "home_manager":
        made = box.run([*STOW[layout], "-d", str(place), "-t", str(config), "config"], supervised=False)
        assert made.code == 0 and (config / "git").is_symlink() == (layout == "stow") and (config / "git/config").is_file(), made.describe()
    return place / "config"


@pytest.mark.parametrize("layout", ["whole", "stow", "no_folding", "home_manager"])
def test_settings_behind_links_are_read_and_held_as_files_are(box, layout):
    """Under `open` everything else is allowed: what a link in the home leads to is what the rules speak of."""
    place = dotfiles(box, layout)
    script = f"git config user.name; cat ~/.config/gh/hosts.yml {place}/gh/hosts.yml; echo x >> ~/.config/git/config; echo x >> {place}/git/config; " \
        f"echo other > {place}/other && cat {place}/other"
    assert b"SECRET" in box.run(["/bin/cat", f"{box.home}/.config/gh/hosts.yml"], supervised=False).out
    for profile, text in (("agent", "linked\n"), ("open", "linked\nother\n")):  # after `open` no link at such a place counts
        result = box.run(["/bin/sh", "-c", script], options=["-p", profile, "--ask", "never"], env={"HOME": str(box.home)})
        assert result.text == text and (place / "git/config").read_bytes() == b"[user]\n\tname = linked\n", result.describe()
        assert len([one for one in result.report["denials"] if one["rule"].startswith("base.")]) >= 2, result.describe()


@pytest.mark.parametrize("layout", ["whole", "stow", "no_folding", "home_manager"])
def test_a_run_makes_such_links_in_its_work_directory(box, layout):
    """Managers of dotfiles make links, and replace and remove them."""
    in_home = "mkdir home/.config; for again in -S -R -D -S; do {} -d dots -t home/.config $again config; done"
    make = {"whole": "ln -s ../dots/config home/.config", **{name: in_home.format(" ".join(line)) for name, line in STOW.items()},
            "home_manager": "mkdir -p home/.config/git store/1/git && ln -s $PWD/dots/config/git/config store/1/git/config && "
                            "chmod -R a-w store && ln -s $PWD/store/1/git/config home/.config/git/config"}[layout]
    again = "ln -sfn ../dots/config home/.again && ln -s ../dots/config home/.next && mv -fT home/.next home/.again && rm home/.again"
    result = box.run(["/bin/sh", "-ec", f"mkdir -p dots/config/git home && echo '[user] name = linked' > dots/config/git/config && {make} && {again} && "
                      "HOME=$PWD/home git config user.name"], options=["--ask", "never"])
    assert result.text == "linked\n" and not result.decisions(verdict="deny"), result.describe()
