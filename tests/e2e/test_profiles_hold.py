"""Profiles keep what their description says: `open` protects homes and system, `network` leaves this machine out."""
from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import harness

TABLE = Path(__file__).resolve().parents[2] / "docs/credentials.md"


def explain(box: harness.Box, profile: str, *words: str, env: dict[str, str] | None = None) -> harness.Result:
    return box.run([str(box.callgate), "explain", "-p", profile, *words], supervised=False, env=env or {})


def in_profile(box: harness.Box, profile: str, script: str, **words) -> harness.Result:
    return box.run(["/bin/sh", "-c", script], options=["-p", profile, "--ask", "never"], **words)


def rows() -> list[list[str]]:
    return [[cell.strip().strip("`") for cell in line.strip("|\n").split("|")] for line in TABLE.read_text().splitlines()
            if line.startswith("| `")]


def test_the_table_of_credentials_is_what_the_profiles_deny(box):
    """Each file of the table is denied by `open` and by `agent`, for reading and for writing, and its source is named."""
    table = rows()
    assert len(table) >= 120 and len({one[0] for one in table}) == len(table)
    assert all(len(one) == 3 and one[1] and (re.search(r"\(\d\w*\)|https://", one[2]) or "`" in one[2]) for one in table), \
        [one for one in table if len(one) != 3 or not one[2]]
    for profile in ("open", "agent"):
        checks = {"version": 1, "extends": profile,
                  "examples": {"deny": [f"{word} {one[0]}" for one in table for word in ("read", "create")]}}
        found = box.run([str(box.callgate), "check", str(box.rules_file(json.dumps(checks)))], supervised=False)
        assert found.code == 0, found.describe()
    # Twin: a neighbour that is no credential.
    twin = {"version": 1, "extends": "open", "examples": {"allow": ["read ~/.config/other/file", "create ~/notes.txt", "read ~/.ssh/known_hosts"]}}
    assert box.run([str(box.callgate), "check", str(box.rules_file(json.dumps(twin)))], supervised=False).code == 0


def account_home(box: harness.Box) -> Path:
    import pwd
    return Path(pwd.getpwuid(box.user.uid).pw_dir)


def test_open_protects_both_homes(box):
    """HOME is the test's; the account's home is another. Control: without HOME both are one, and it is protected."""
    home = account_home(box)
    assert home != box.home
    for directory in (box.home, home):
        for words, expected in ((("read", f"{directory}/.ssh/id_ed25519"), 1), (("create", f"{directory}/.bashrc"), 1),
                                (("create", f"{directory}/.local/bin/tool"), 1), (("create", f"{directory}/notes"), 0)):
            told = explain(box, "open", *words)
            assert ("denied" in told.text or "deny" in told.text.splitlines()[0]) == bool(expected), told.describe()


# These run later: at a log-in, when a program is called by name, or when a tool or an interpreter starts.
RUNS_LATER = ["~/.local/bin/ls", "~/bin/ls", "~/.cargo/bin/x", "~/.pyenv/shims/python", "~/.nodenv/shims/node", "~/.bashrc", "~/.bashrc.d/x.sh", "~/.zshrc",
         "~/.zshrc.d/x.zsh", "~/.profile.d/x.sh", "~/.config/fish/config.fish", "~/.config/nushell/env.nu", "~/.config/bash/x", "~/.config/zsh/.zshrc",
         "~/.config/elvish/rc.elv", "~/.config/powershell/profile.ps1", "~/.zinit/x", "~/.fzf.bash", "~/miniconda3/bin/conda",
         "~/.config/nvim/init.lua", "~/.vimrc", "~/.config/emacs/init.el", "~/.config/Code/User/settings.json", "~/.config/helix/config.toml",
         "~/.config/kak/kakrc", "~/.config/zed/settings.json", "~/.config/sublime-text/Packages/x.py", "~/.config/micro/init.lua",
         "~/.local/share/applications/x.desktop", "~/.config/autostart/x.desktop", "~/.config/systemd/user/x.service", "~/.config/mimeapps.list",
         "~/.local/lib/python3.11/site-packages/x.pth", "~/.local/lib/python3.13/site-packages/usercustomize.py", "~/.config/environment.d/x.conf",
         "~/.rbenv/shims/ruby", "~/.rvm/bin/ruby", "~/.rvm/scripts/rvm", "~/.rubies/ruby-3.3.0/bin/ruby", "~/.asdf/shims/ruby",
         "~/.local/share/gem/ruby/3.3.0/bin/rails", "~/.gem/ruby/3.1.0/bin/rails", "~/.gemrc", "~/.config/gem/gemrc", "~/.bundle/config", "~/.bundle/plugin/index",
         "~/.Xsession", "~/.Xclients", "~/.xserverrc", "~/.fehbg", "~/.config/pipewire/pipewire.conf", "~/.config/pulse/daemon.conf", "~/.config/pulse/default.pa",
         "~/.config/user-tmpfiles.d/x.conf", "~/.local/share/vulkan/implicit_layer.d/x.json", "~/.direnvrc", "~/.tmux/plugins/tpm/tpm", "~/.rhosts",
         "~/.nvm/versions/node/v22.1.0/bin/node", "~/.pyenv/versions/3.12.1/bin/python", "~/.rbenv/versions/3.3.0/bin/ruby",
         "~/.rustup/toolchains/stable-x/bin/cargo", "~/.sdkman/candidates/java/current/bin/java", "~/.opam/default/bin/ocaml",
         "~/.local/share/uv/tools/ruff/bin/ruff", "~/.local/share/pipx/venvs/black/bin/black", "~/.linuxbrew/bin/x",
         "~/.irbrc", "~/.pryrc", "~/.rspec", "~/.rdbgrc", "~/.rubocop.yml", "~/.config/rubocop/config.yml", "~/.phpenv/shims/php",
         "~/.phpbrew/php/8.3/bin/php", "~/.composer/vendor/bin/phpunit", "~/.config/composer/vendor/autoload.php",
         "~/.config/composer/config.json", "~/.config/composer/composer.json", "~/.mix/archives/hex-2.0/x", "~/perl5/bin/cpanm", "~/.proverc",
         "~/.local/share/jupyter/kernels/x/kernel.json", "~/.eslintrc.js", "~/.prettierrc.mjs", "~/.pylintrc", "~/.mypy.ini", "~/.config/pylintrc", "~/.config/mypy/config", "~/.latexmkrc",
         "~/.config/latexmk/latexmkrc", "~/.sbclrc", "~/.duckdbrc", "~/.gnuplot", "~/.actrc", "~/.config/lftp/rc", "~/.config/swi-prolog/init.pl",
         "~/.gitconfig", "~/.ssh/config", "~/.ssh/rc", "~/.config/pip/pip.conf", "~/.npmrc", "~/.gdbinit", "~/.tmux.conf"]
RUNS_NEVER = ["~/.local/share/fonts/x.ttf", "~/.fonts/x.ttf", "~/.config/fontconfig/fonts.conf", "~/project/.venv/lib/python3.11/site-packages/x.pth",
             "~/.local/lib/python3.11/site-packages/x/module.py", "~/.config/pulse/cookie", "~/.pyenv/versions/3.12.1/lib/python3.12/x.py",
             "~/.nvm/versions/node/v22.1.0/lib/node_modules/x/x.js", "~/.cache/x", "~/.config/other/settings", "~/.local/share/other/x", "~/notes.txt"]


def test_open_keeps_what_runs_later_and_leaves_the_rest(box):
    rules = {"version": 1, "extends": "open", "examples": {"deny": [f"{word} {one}" for one in RUNS_LATER for word in ("create", "modify")],
                                                           "allow": [f"create {one}" for one in RUNS_NEVER]}}
    found = box.run([str(box.callgate), "check", str(box.rules_file(json.dumps(rules)))], supervised=False)
    assert found.code == 0, found.describe()


# Names that an agent's commands write, and that programs outside of the run read.
KEPT = {
    "opencode": (".local/share/opencode/snapshot/p/h", ("commondir", "remotes/x", "branches/x", "hooks/post-index-change"),
                 ("info/exclude", "index", "COMMIT_EDITMSG"), ("HEAD", "info/exclude", "objects/pack/x"), ("tXzvDRJ",)),
    "claude": (".claude/shell-snapshots", ("snapshot-bash-1-other.sh",), (), ("snapshot-bash-2-own.sh",), ()),
    "vibe": (".vibe", ("trusted_folders.toml", "hooks.toml"), ("trusted_folders.toml",), ("cache.toml", "logs/x"), ()),
}
WRITE = 'mkdir -p "$(dirname "$1")" && echo later > "$1"'
LINK = 'mkdir -p "$(dirname "$1")" && rm -f "$1" && ln -s /tmp "$1"'


@pytest.mark.parametrize("profile", KEPT)
def test_what_an_agent_keeps_for_its_tools_runs_nothing_outside(box, profile):
    """Control: bare, each name is written, or becomes a link. Twin: the names beside, which the tools need."""
    where, written, linked, free, free_links = KEPT[profile]
    place = box.home / where

    def tries(supervised: bool, script: str, names: tuple[str, ...]) -> set[str]:
        harness.remove_tree(place)
        above = box.home
        for part in where.split("/"):
            above = box.directory(above / part)
        if profile == "claude":
            box.file(place / "snapshot-bash-1-other.sh", b"another session's\n")
        if profile == "vibe":  # its start has made it
            box.file(place / "trusted_folders.toml", b"")
        lines = "; ".join(["true", *(f"sh -c '{script}' sh {place / one}" for one in names), "true"])
        result = in_profile(box, profile, lines) if supervised else box.run(["/bin/sh", "-c", lines], supervised=False)
        assert result.code == 0, result.describe()
        return {one for one in names if (place / one).is_symlink() or (place / one).is_file() and "later" in (place / one).read_text()}

    for script, held, others in ((WRITE, written, free), (LINK, linked, free_links)):
        assert tries(False, script, held) == set(held)
        assert tries(True, script, held) == set()
        assert tries(True, script, others) == set(others)


SYSTEM = ["/etc/cg-test", "/boot/cg-test", "/etc/cron.d/cg-test", "/var/spool/cron/cg-test", "/etc/profile.d/cg-test.sh",
          "/etc/systemd/system/cg-test.service", "/usr/lib/systemd/system/cg-test.service", "/usr/local/bin/cg-test", "/usr/lib/cg-test.so", "/usr/share/cg-test", "/lib/cg-test.so"]


def test_open_writes_no_system_directory_as_root(box):
    """Control: bare, root makes each of these files. Twin: a file in /var/lib, and in the work directory."""
    if box.user.kind != "root":
        pytest.skip("only root could write there")
    made = [one for one in SYSTEM if Path(one).parent.is_dir()]
    assert len(made) >= 4
    for one in made:
        Path(one).write_text("control")
        Path(one).unlink()
    lines = "; ".join(f"echo x > {one}" for one in made)
    value = Path("/proc/sys/kernel/core_pattern").read_text()
    result = in_profile(box, "open", f"{lines}; echo '|/tmp/x' > /proc/sys/kernel/core_pattern; echo 1 > /sys/kernel/uevent_seqnum; echo inside > here")
    left = [one for one in made if Path(one).exists()]
    for one in left:
        Path(one).unlink()
    assert left == [] and Path("/proc/sys/kernel/core_pattern").read_text() == value, result.describe()
    assert (box.tree / "here").read_text() == "inside\n"
    denied = {one["object"]: one["rule"] for one in result.report["denials"]}
    assert set(denied.values()) == {"open.system", "open.shared"} and "/sys/kernel/uevent_seqnum" in denied, result.describe()


IN_A_NETWORK = 'ip link set lo up && ip addr add 203.0.113.77/32 dev lo && ip addr add 2606:db8::77/128 dev lo nodad; exec "$@"'
SERVE = """
import socket, subprocess, sys, threading
hits = []
def serve(family, host):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, 8080))
    server.listen()
    def accept():
        while True:
            one = server.accept()[0]
            hits.append(host)
            one.close()
    threading.Thread(target=accept, daemon=True).start()
serve(socket.AF_INET, "0.0.0.0")
server6 = socket.socket(socket.AF_INET6)
server6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
server6.bind(("::", 8080)); server6.listen()
def accept6():
    while True:
        one = server6.accept()[0]
        hits.append("::")
        one.close()
threading.Thread(target=accept6, daemon=True).start()
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)
print("hits", len(hits))
"""
CONNECT = """
import socket, sys
for family, host in ((socket.AF_INET, "203.0.113.77"), (socket.AF_INET6, "2606:db8::77"), (socket.AF_INET6, "::ffff:203.0.113.77")):
    try:
        with socket.create_connection((host, 8080), 2) as one:
            one.recv(1)  # the server counts before it closes
        print("connected", host)
    except OSError as error:
        print("refused", host, error.errno)
"""


def in_a_network(box: harness.Box, line: list[str], setup: str = IN_A_NETWORK) -> str:
    """Runs `line` where this machine has a public address of its own and a server on all addresses."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a network of its own")
    user = box.user
    drop = ["setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"] if user.uid != 0 else []
    whole = ["unshare", "--net", "sh", "-c", setup, "sh", *drop, "/usr/bin/python3", "-c", SERVE, *line]
    done = subprocess.run(whole, capture_output=True, cwd=box.tree, env=box.environment(), timeout=harness.DEADLINE, check=False)
    assert b"hits" in done.stdout, done
    return done.stdout.decode()


def test_network_takes_the_machines_own_addresses_for_loopback(box):
    """Control: bare, all three names of the own address lead to the server. Twin: `open` may connect there."""
    connect = ["/usr/bin/python3", "-c", CONNECT]
    assert "hits 3" in in_a_network(box, connect)
    held = [str(box.callgate), "run", "-q", "--no-audit", "--ask", "never", "-p", "network", "--", *connect]
    assert "hits 0" in in_a_network(box, held)
    twin = [word if word != "network" else "open" for word in held]
    assert "hits 3" in in_a_network(box, twin)


# The address comes when the command has made a name. The kernel routes an IPv6 address to its host a little later.
LATER = ('ip link set lo up; (until test -e begun; do sleep 0.02; done; ip addr add 203.0.113.77/32 dev lo;'
         ' ip addr add 2606:db8::77/128 dev lo nodad;'
         ' until ip -6 route get 2606:db8::77 >/dev/null 2>&1; do sleep 0.02; done; touch added) & exec "$@"')
WHEN_ADDED = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('added'): time.sleep(0.02)\n" + CONNECT


def test_an_address_that_the_machine_gets_meanwhile_is_its_own(box):
    """Control: bare, all three names lead to the server. Twin: a rule that names the addresses opens them."""
    connect = ["/usr/bin/python3", "-c", WHEN_ADDED]

    def hits(*before: str) -> str:
        for name in ("begun", "added"):
            (box.tree / name).unlink(missing_ok=True)
        return in_a_network(box, [*before, *connect], LATER)
    network = [str(box.callgate), "run", "-q", "--no-audit", "--ask", "never", "-p", "network"]
    assert "hits 3" in hits()
    held = hits(*network, "--")
    assert "hits 0" in held and held.count("refused") == 3, held
    assert "hits 3" in hits(*network, "-c", "203.0.113.77:8080", "-c", "[2606:db8::77]:8080", "--")


@pytest.mark.parametrize("port", ["6000", "6010"])
def test_the_display_over_tcp_is_denied_and_other_ports_are_not(box, port):
    for profile in ("open", "agent"):
        assert "base.display" in explain(box, profile, "connect", f"127.0.0.1:{port}").text
    assert "base.display" not in explain(box, "open", "connect", "127.0.0.1:7000").text


@pytest.mark.parametrize("address", ["169.254.169.254:80", "[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80", "[fd20:ce::254]:80",
                                     "[fe80::a9fe:a9fe]:80", "[64:ff9b::a9fe:a9fe]:80", "169.254.169.254:53/udp", "169.254.42.42:80"])
def test_metadata_services_are_denied_in_both_families(box, address):
    for profile in ("open", "network"):
        assert "base.cloud-metadata" in explain(box, profile, "connect", address).text


# ---- what check warns of ----

@pytest.mark.parametrize("rule, offered", [
    ({"deny": "read", "path": "{tree}/folder"}, '"{tree}/folder/**"'),
    ({"deny": "read", "path": "{tree}/folder/"}, '"{tree}/folder/**"'),
    ({"deny": "execute", "path": "**/git", "argv": ["*", "push", "**"]}, '["*", "**", "push", "**"]'),
    ({"deny": "execute", "path": "**/git", "argv": ["git", "push", "**"]}, '["*", "**", "push", "**"]'),
])
def test_check_offers_what_holds(box, rule, offered):
    """The rule as written is passed; the rule as offered holds."""
    folder = box.directory(box.tree / "folder")
    box.file(folder / "file", b"content")
    filled = json.loads(json.dumps(rule).replace("{tree}", str(box.tree)))
    offered = offered.replace("{tree}", str(box.tree))
    told = box.run([str(box.callgate), "check", str(box.rules_file({"version": 1, "extends": "open", "rules": [{"id": "mine", **filled}]}))],
                   supervised=False)
    assert offered in told.text + told.errors, told.describe()
    better = dict(filled)
    better["argv" if "argv" in filled else "path"] = json.loads(offered)
    for one, holds in ((filled, False), (better, True)):
        rules = harness.rule_set({"id": "all", "allow": ["read", "write", "execute"], "path": "/**"}, {"id": "mine", **one})
        script = "cat folder/file" if "argv" not in filled else "exec -a other git -C . push nowhere 2>&1 | grep -c repository"
        result = box.run(["/bin/bash", "-c", script], rules)
        reached = result.text.strip() in ("content", "1")
        assert reached is not holds, result.describe()
    fine = box.run([str(box.callgate), "check", str(box.rules_file({"version": 1, "extends": "open", "rules": [{"id": "mine", **better}]}))],
                   supervised=False)
    assert "write " not in fine.text + fine.errors, fine.describe()


# ---- what is offered to those who have not asked ----

def test_no_option_that_opens_what_a_rule_denies_is_offered(box):
    """The footer and the report name the rule alone. `explain` shows the exception."""
    key = box.file(box.home / ".ssh" / "id_ed25519", b"private")
    other = box.file(box.root / "other", b"x")
    result = in_profile(box, "agent", f"cat {key}; echo x >> {box.home}/.bashrc; cat {other}")
    assert "base.keys" in result.errors and "base.start-up-files" in result.errors, result.describe()
    assert "--except" not in result.errors and f"--read {key}" not in result.errors and f"--write {box.home}" not in result.errors
    assert f"--read {other}" in result.errors, result.describe()  # twin: what no rule denies
    hints = {one["object"]: one["hint"] for one in result.report["denials"]}
    assert hints[str(key)] == "" and hints[f"{box.home}/.bashrc"] == "" and hints[str(other)], hints
    assert "--except" in explain(box, "agent", "read", str(key)).text
