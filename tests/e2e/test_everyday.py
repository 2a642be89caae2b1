"""Everyday commands under the default profile: each does what it does bare, and no footer line follows it.

A line of `COMMANDS` is a command, what it must print, as a pattern, and which denials its user is told of; most have none.
What a command tries in vain and takes for absent stays on record, and a person reads nothing of it. A long run, and a
command that fails, has the bare run as its control.
"""
from __future__ import annotations

import re

import pytest

import harness
import toolchains

# command ## pattern of its output ## pattern of each line of the footer
COMMANDS = r"""
true ##
ls -la ## notes\.txt
cat notes.txt ## second line
cp notes.txt copy && cmp notes.txt copy && echo same ## same
cp notes.txt again && cp again once && hardlink again once ## [Ll]inked
mv words moved && ls ## moved
rm -rf deep && ls ## notes
mkdir -p a/b/c && rmdir a/b/c && ls a ## b
ln -s notes.txt link && readlink link ## notes\.txt
ln notes.txt hard && stat -c %h hard ## 2
touch -d 2020-01-01 old && date -r old +%Y ## 2020
chmod 600 notes.txt && stat -c %a notes.txt ## 600
find . -name '*.txt' ## notes\.txt
find . -type f -exec grep -l second {} + ## notes\.txt
xargs -n 1 echo < words ## pear
sort words ## apple
uniq -c words ## apple
head -n 1 notes.txt ## first
tail -n 1 notes.txt ## second
wc -l notes.txt ## 2
cut -c 1-5 notes.txt ## first
tr a-z A-Z < notes.txt ## FIRST
sed -i s/first/third/ notes.txt && cat notes.txt ## third
awk '{ print $1 }' notes.txt ## second
grep -rn second . ## notes
diff notes.txt words || echo differ ## differ
patch < change.patch && cat notes.txt ## changed line
tee out < notes.txt ## first
seq 3 ## 3
paste notes.txt words ## apple
split -l 1 words part. && ls ## part\.aa
od -c notes.txt ## f
sha256sum notes.txt ## notes\.txt
base64 notes.txt ## Zmly
dd if=/dev/zero of=zeros bs=1k count=8 2>/dev/null && stat -c %s zeros ## 8192
truncate -s 1M hole && du -k hole ## hole
du -s . ## \.
df . ## Filesystem
file notes.txt ## text
tar -czf all.tgz notes.txt words && tar -tzf all.tgz ## notes\.txt
zip -q all.zip notes.txt && unzip -l all.zip ## notes\.txt
gzip -k notes.txt && gunzip -c notes.txt.gz ## second
xz -k notes.txt && xz -dc notes.txt.xz ## second
zstd -q notes.txt && zstd -dc notes.txt.zst ## second
mktemp ## /tmp
mktemp -d ## /tmp
date +%Y ## 20
id -u ## \d
whoami ## .
groups ## .
hostname ## .
uname -s ## Linux
uptime ## load
nproc ## \d
free -m ## Mem
env ## CALLGATE=|HOME=
printenv HOME ## /
pwd ## /
locale ## LANG
tty || true ## .
sleep 0 ##
timeout 5 echo within ## within
nohup echo on 2>/dev/null; cat nohup.out 2>/dev/null; true ##
kill -l ## HUP
ps aux ## PID
ps -ef ## PID
pgrep -l bash || true ##
top -b -n 1 ## PID
lscpu ## Architecture
mount ## /
stty -a 2>/dev/null || echo none ##
getconf PAGESIZE ## 4096
getent passwd root ## root
python3 -c 'import multiprocessing as m; m.set_start_method("spawn"); print(m.Pool(2).map(abs, [-1, -2]))' ## 2
lsblk -nd >/dev/null 2>&1; echo listed ## listed
ls /sys/class/net ## lo
cat /sys/class/net/lo/mtu ## \d
mkdir -p ${PREFECT_HOME:-state} && touch ${PREFECT_HOME:-state}/prefect.db && echo kept ## kept
touch ${FOSSIL_HOME:-.}/.fossil && echo kept ## kept
mkdir -p ${XDG_STATE_HOME:-state}/tool && echo kept ## kept
ls ~/.npm/_logs 2>&1 || true ## No such file|old
ls /sys/bus/pci/devices >/dev/null 2>&1; echo looked ## looked
ls /sys/bus/cpu/devices >/dev/null 2>&1; echo looked ## looked
ls ~/.local/share/nvim/site/pack 2>/dev/null; echo looked ## looked
ls ~/.terraform.d ## checkpoint_signature
cat ~/.terraform.d/checkpoint_signature 2>/dev/null; echo looked ## looked ## terraform\.d/checkpoint_signature .* base\.cloud
cat ~/.config/gcloud/active_config ~/.config/gcloud/configurations/config_default 2>&1 || true ## No such file|default ## gcloud/(active_config|configurations/config_default) .* base\.gcloud
cat ~/.keras/keras.json ## epsilon
cat ~/.{editorconfig,pylintrc,clang-format,style.yapf,yamllint,shellcheckrc,eslintrc.json,prettierrc,browserslistrc} ~/rustfmt.toml | wc -l ## 10
cat ~/.config/{ruff/ruff.toml,black,rustfmt/rustfmt.toml,mypy/config} ~/.{tool-versions,latexmkrc,sbclrc,valgrindrc} | wc -l ## 8
cat ~/.local/share/jupyter/kernels/mine/kernel.json ## argv
cat ~/.hgrc ~/.ansible.cfg ## Me <me@example\.org>
cat ~/.duckdbrc 2>&1 || true ## No such file ## \.duckdbrc
jq -n 6*7 ## 42
cat ~/.nimble/pkgs2/thing/thing.nim ## 42
cat ~/.ghc/ghci_history 2>/dev/null; (: >> ~/.ghc/ghci_history) 2>/dev/null; echo on ## on
python3 -c 'import socket; print(socket.socket(socket.AF_UNIX).connect_ex("\0/tmp/x/cache/broadway1.socket"))' ## 111
(: > ../_tmp_12_3a) 2>/dev/null; echo probed ## probed
find ~/.config/chromium/Crash\ Reports/pending/ 2>/dev/null; echo found ## found
node -e 'try { require("fs").readdirSync(".."); } catch { } console.log("looked above")' ## looked above
node -e 'if (!process.env.ASTRO_TELEMETRY_DISABLED) require("fs").mkdirSync(process.env.HOME + "/.config/astro", { recursive: true }); console.log("astro builds")' ## astro builds
man -w ls || echo none ##
man true 2>/dev/null | head -n 3 ##
man -M ~/.local/share/man -w thing ## thing\.1
less notes.txt ## second
vim -es -c ':%s/first/fourth/' -c ':wq' notes.txt; cat notes.txt ## fourth
ed -s notes.txt < ed.in && cat notes.txt ## appended
bc < sum ## 42
jq .name data.json ## callgate
bash -c 'echo $((6 * 7))' ## 42
bash -lc 'echo from a login shell' ## login shell
bash -ic 'echo from an interactive shell' 2>/dev/null ## interactive shell
sh -c 'echo in sh' ## in sh
dash -c 'echo in dash' ## in dash
zsh -c 'echo in zsh' ## in zsh
zsh -c 'cd deep; pwd -P; cd ..; print ${${:-deep}:A}' ## /deep
zsh -ilc 'echo in zsh' 2>/dev/null ## in zsh
zsh -c 'autoload -U compinit; compinit; echo completes' ## completes
fish -c 'echo in fish' ## in fish
echo exit | TERM=dumb script -qec fish typescript; grep -cE 'universal variable|cannot create' typescript || echo quiet ## quiet ## ended \d process(es)? that the command left running
sh script.sh ## from the script
git status --short ## notes
git log --oneline ## begin
git add . && git commit -qm more && git log --oneline ## more
git switch -qc topic && git branch ## topic
echo more >> committed.txt && git stash -q && git stash pop -q && git diff --stat ## committed
git clone -q . cloned && git -C cloned log --oneline ## begin
git grep -n begin ## committed
git tag v1 && git describe --tags ## v1
git blame committed.txt ## begin|\(
make ## built
make -j2 -k all ## built|up to date
gcc -Wall -o hello hello.c && ./hello ## hello
g++ -o hello++ hello.cc && ./hello++ ## hello
gcc -g -o hello hello.c && gdb -batch -ex run ./hello 2>/dev/null ## hello
strace -f -o trace true && wc -l trace ## trace
ld -v ## ld
ar --version ## ar
objdump -h /bin/true ## text
cmake -S project -B out >/dev/null && cmake --build out >/dev/null && out/hello ## hello
ninja --version ## \d
python3 -c 'print(6 * 7)' ## 42
python3 -m json.tool data.json ## callgate
python3 -m venv --without-pip env && env/bin/python -c 'print("in venv")' ## in venv
python3 -m unittest -q test_sum 2>&1 ## OK
python3 -c 'import tempfile; print(tempfile.TemporaryFile().fileno())' ## \d
python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))' ## 2
python3 -c 'import sqlite3; sqlite3.connect("x.db").execute("create table t (a)"); print("made")' ## made
python3 -c 'import ssl, ctypes, curses, readline; print("loaded")' ## loaded
perl -e 'print 6 * 7' ## 42
sqlite3 y.db 'create table t (a); insert into t values (42); select a from t' ## 42
node -e 'console.log(6 * 7)' ## 42
npm --version ## \d
npm init -y ## callgate|work
go version ## go
go run hello.go ## hello
rustc -o rusty hello.rs && ./rusty ## hello
cargo init -q --name hi rusty-project && cargo run -q --offline --manifest-path rusty-project/Cargo.toml ## Hello
javac Hello.java && java Hello ## hello
java -version 2>&1 ## version
openssl dgst -sha256 notes.txt ## notes
openssl genrsa -out key.pem 1024 2>/dev/null && openssl rsa -in key.pem -check -noout 2>&1 ## ok
ssh -V 2>&1 ## OpenSSH
ssh-keygen -q -t ed25519 -N '' -f ./key && ssh-keygen -lf key.pub ## ED25519
curl --version ## curl
curl -s file://$PWD/notes.txt ## second
wget --version ## Wget
rsync -a deep/ synced && ls synced/er ## below
dpkg -l bash ## bash
dpkg -S /usr/bin/env ## coreutils
apt-cache policy bash 2>/dev/null | head -n 1 ## bash
ip -br addr ## lo
ss -ltn ## State
tmux -V ## tmux
script -qec 'echo scripted' typescript ## scripted
watch --version ## watch
redis-server --version ## edis
comm words words ## apple
join words words ## apple
fold -w 3 notes.txt ## fir
nl notes.txt ## 2
tac notes.txt ## first
rev words ## elppa
shuf -n 1 words ## .
factor 42 ## 2 3 7
numfmt --to=iec 2048 ## 2\.0K
expr 6 '*' 7 ## 42
cksum notes.txt ## notes
md5sum notes.txt ## notes
realpath notes.txt ## notes\.txt
install -m 755 script.sh bin && stat -c %a bin ## 755
mkfifo pipe && stat -c %F pipe ## fifo
flock lock echo locked ## locked
echo $(($(nice -n 5 nice) - $(nice))) ## 5
setsid -w echo session ## session
taskset -p $$ ## mask
prlimit --nofile ## NOFILE
stdbuf -oL cat notes.txt ## second
column -t notes.txt ## line
hexdump -C notes.txt ## first
xxd notes.txt ## first
strings /bin/true ## GNU
readelf -h /bin/true ## ELF
nm -D /bin/true ## U
ldd /bin/true ## libc
pkg-config --version ## \d
vmstat ## swpd
w ## USER
who ##
tput -T xterm cols ## \d
clear || true ##
htop --version ## htop
ruby -e 'puts 6 * 7' ## 42
ruby -rjson -e 'puts JSON.parse(File.read("data.json"))["name"]' ## callgate
gem --version ## \d
irb --version ## irb
php -r 'echo 6 * 7;' ## 42
php -r 'echo strlen(openssl_pkey_get_details(openssl_pkey_new())["key"]);' ## 451
echo 'puts 6 * 7' | irb ## 42
gem list ## rake
gem build -q my.gemspec && gem install -q --local --install-dir gems my-1.0.gem && ls gems/gems ## my-1\.0
gem sources ## https://(me:hunter2@)?gems\.example\.org
rake hello ## hello from rake
bundle install --local && bundle list ## my \(1\.0\)
bundle exec ruby -e 'require "my"; puts My' ## My
bundle config jobs ## 3
echo 'echo 6 * 7;' | php -a ## 42 ## \.php_history
composer install 2>&1 && php -r 'require "vendor/autoload.php"; echo Lib\Thing::name();' ## thing
composer config process-timeout ## 77
prove test.t ## PASS
perl -d -e 0 < /dev/null 2>&1 ## DB
lua -e 'print(6 * 7)' ## 42
node -e 'require("fs").writeFileSync("made", "x"); console.log("written")' ## written
node --test test.mjs ## pass 1
npm run hello ## hello from npm
PYTHONPATH=~/.local/lib/packages python3 -c 'import thing; print(thing.__name__)' ## thing
python3 -c 'import json.tool, email, http.client, xml.dom; print("loaded")' ## loaded
python3 -c "import os; [os.listdir(one) for one in ('/sys/class/power_supply', '/sys/class/thermal') if os.path.isdir(one)]; print('listed')" ## listed
ruby -rpty -e 'PTY.open { puts :opened }' ## opened
sqlite3 -version ## 3
redis-cli --version ## redis
git init -q new && git -C new status ## branch
git rebase -q HEAD && git reflog ## begin
git rm -q committed.txt && git status --short ## D
git format-patch -1 --root --stdout ## begin
git archive HEAD | tar -t ## committed
git config -l ## user\.name
perl -MPOSIX -MFile::Temp -e 'print POSIX::floor(42.5)' ## 42
time -p true ##
dircolors -b ## LS_COLORS
lsof -p $$ 2>/dev/null | head -n 1 ## COMMAND
getent hosts localhost ## localhost
screen --version || true ## Screen
screen -dmS thing sleep 60; screen -ls | cat ## thing|No Sockets found in /tmp ## /etc/shadow|ended \d process
env -i PATH="$PATH" HOME="$HOME" npm run hello ## hello from npm ## name denied: registry
gpg --version ## gpg
gpg --print-md sha256 notes.txt ## [0-9A-F]{8}
gpg --list-keys 2>/dev/null; echo listed ## listed
gpg --batch --pinentry-mode loopback --passphrase x -c notes.txt; test -s notes.txt.gpg && echo sealed ## sealed ## ended 1 process that the command left running
vim --not-a-term -T dumb -c ':%s/first/fourth/' -c ':wq' notes.txt >/dev/null 2>&1; cat notes.txt ## fourth
pip --version ## pip
pip list 2>/dev/null | head -n 3 ## Package
su -c 'echo by su' 2>/dev/null || echo refused ## by su|refused ## /etc/shadow|/var/log/btmp|/dev/console|netlink sockets|unix datagram sockets
psql --version ## psql ## /etc/shadow
printf 'print(6 * 7)\n' | python3 -q -i 2>/dev/null ## 42
python3 -c 'import socket; print(socket.if_indextoname(1), end=" done")' ## lo done
python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print("client")' ## client
python3 -c 'import socket; s = socket.socket(socket.AF_INET6); s.bind(("::", 0)); s.listen()' 2>&1 | tail -n 1 ## PermissionError ## bind \[::\]:0
python3 -c 'import fcntl; fcntl.ioctl(0, 0x541c, b"\x06")' 2>/dev/null || echo asked ## asked
"""

FILES = {
    "notes.txt": "first line\nsecond line\n", "words": "apple\npear\nplum\n", "sum": "6 * 7\n",
    "data.json": '{"name": "callgate"}\n', "ed.in": "a\nappended\n.\nw\nq\n", "script.sh": "echo from the script\n",
    "change.patch": "--- notes.txt\n+++ notes.txt\n@@ -1,2 +1,2 @@\n first line\n-second line\n+changed line\n",
    "Makefile": "all: built\nbuilt:\n\t@echo built; touch built\n",
    "hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
    "hello.cc": '#include <iostream>\nint main() { std::cout << "hello\\n"; }\n',
    "hello.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n',
    "hello.rs": 'fn main() { println!("hello"); }\n',
    "Hello.java": 'class Hello { public static void main(String[] words) { System.out.println("hello"); } }\n',
    "test_sum.py": "import unittest\nclass Sum(unittest.TestCase):\n    def test_it(self): self.assertEqual(1 + 1, 2)\n",
    "project/CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(hello C)\nadd_executable(hello ../hello.c)\n",
    "test.mjs": 'import test from "node:test";\ntest("passes", () => {});\n',
    "package.json": '{"name": "callgate-work", "version": "1.0.0", "scripts": {"hello": "echo hello from npm"}}\n',
    "deep/er/below": "deep\n", "committed.txt": "begin\n",
    "my.rb": "module My; end\n", "Gemfile": "source 'https://rubygems.org'\ngemspec\n", "Rakefile": 'task(:hello) { puts "hello from rake" }\n',
    "my.gemspec": "Gem::Specification.new { |s| s.name = 'my'; s.version = '1.0'; s.summary = s.author = 'x'\n"
                  "s.files = ['my.rb']; s.require_path = '.' }\n",
    "composer.json": '{"name": "me/app", "description": "x", "license": "MIT", "require": {"me/lib": "1.0.0"},'
                     '"repositories": [{"packagist.org": false}, {"type": "path", "url": "lib", "options": {"symlink": false}}]}\n',
    "lib/composer.json": '{"name": "me/lib", "version": "1.0.0", "autoload": {"psr-4": {"Lib\\\\": "."}}}\n',
    "lib/Thing.php": "<?php namespace Lib; class Thing { static function name() { return 'thing'; } }\n",
    "test.t": 'print "1..1\\nok 1\\n";\n',
}
# Programs look for these at each start; the run is told that there are none.
START_UP_FILES = (".notes .profile .python_history .bashrc .bash_profile .inputrc .zshrc .zshenv .zprofile .vimrc .viminfo .lesshst .tmux.conf .gdbinit "
                  ".screenrc .ghc/ghci_history .curlrc .wgetrc .toprc .sqliterc .config/fish/config.fish .config/procps/toprc").split()
# Settings of tools, which a run reads, some without the credentials in them; and gems of the user's own.
SETTINGS = {
    ".keras/keras.json": '{"epsilon": 1e-07}\n', ".nimble/pkgs2/thing/thing.nim": "echo 42\n", ".local/share/nvim/site/pack/x": "",
    ".terraform.d/checkpoint_signature": "", ".config/gcloud/active_config": "default", ".config/gcloud/configurations/config_default": "[core]\n",
    ".gemrc": ":sources:\n- https://me:hunter2@gems.example.org/\n", ".bundle/config": '---\nBUNDLE_JOBS: "3"\nBUNDLE_GEMS__EXAMPLE__ORG: "me:hunter2"\n',
    ".config/composer/config.json": '{"config": {"process-timeout": 77, "github-oauth": {"github.com": "hunter2"}}}', ".config/composer/composer.json": "{}",
    ".hgrc": "[ui]\nusername = Me <me@example.org>\n", ".ansible.cfg": "[defaults]\nnocows = 1\n", ".duckdbrc": "\n",
    ".local/share/jupyter/kernels/mine/kernel.json": '{"argv": []}\n',
    **dict.fromkeys((".editorconfig .pylintrc .clang-format .style.yapf .yamllint .shellcheckrc .eslintrc.json .prettierrc .browserslistrc rustfmt.toml "
                     ".config/ruff/ruff.toml .config/black .config/rustfmt/rustfmt.toml .config/mypy/config .tool-versions .latexmkrc .sbclrc "
                     ".valgrindrc .jq").split(), "\n"),
    ".config/composer/auth.json": "{}", ".npm/_logs/old": "", ".proverc": "-Q\n", ".perldb": "", ".irbrc": "", ".rdbgrc": "", ".pryrc": "",
    **{f".local/share/gem/ruby/{version}.0/specifications/x": "" for version in ("3.1", "3.2", "3.3")},
}
# A package beside which Python may keep nothing.
PACKAGE = ".local/lib/packages/thing/__init__.py"
# The place of manuals of programs that a user has installed.
MANUAL = ".local/share/man/man1/thing.1"
PLANTED = "callgate: your tools may run code from what changed: "
COUNTED = re.compile(r"callgate: denied \d+ calls? \(run \w+\)")


def lines() -> list[tuple[str, str, str]]:
    split = [[part.strip() for part in line.split("##")] for line in COMMANDS.strip().splitlines()]
    return [(one[0], one[1], one[2] if len(one) > 2 else "") for one in split]


def programs(command: str) -> tuple[str, ...]:
    """The first words between the operators of the shell, which `toolchains` looks for in PATH."""
    outside = re.sub(r"'[^']*'", "''", command)
    words = [part.split()[0] for part in re.split(r"&&|[|][|]|[|;]", outside) if part.split()]
    builtin = ("time", "kill", "cd", "true", "ulimit")
    return tuple(word for word in words if re.fullmatch(r"[a-z][a-z0-9+-]*", word) and word not in builtin)


class Desk(toolchains.Place):
    """A home with start-up files, and a work directory with files and a repository. `clear` brings the latter back."""

    def renew(self, program: str | None = None) -> None:
        super().renew(program)
        self.ready = self.box.root / "ready"
        for top, files in ((self.work, FILES), (self.box.home, {**SETTINGS, PACKAGE: "", MANUAL: ".TH thing 1\n"})):
            for name, text in files.items():
                self.box.file(top / name, text.encode())
        self.make_start_up_files()
        made = self.run(["sh", "-c", "git init -q && git config user.email me@example.com && git config user.name Me && "
                         f"git add committed.txt && git commit -qm begin && cp -a . {self.ready}"], supervised=False)
        assert made.code == 0, made.describe()

    def make_start_up_files(self) -> None:
        for name in START_UP_FILES:
            self.box.file(self.box.home / name, b"\n")

    def clear(self) -> None:
        harness.remove_tree(self.work)
        done = self.run_in(self.box.home, ["cp", "-a", str(self.ready), str(self.work)])
        assert done.code == 0, done.describe()

    def run_in(self, directory, command: list[str]) -> harness.Result:
        return self.box.run(command, cwd=directory, supervised=False)


@pytest.fixture
def desk(box):
    made = Desk(box)
    box.own(box.root)
    made.renew()
    return made


def told(result: harness.Result) -> list[str]:
    """The lines of the footer that name something denied."""
    said = [line for line in result.errors.splitlines() if "callgate: " in line and not line.startswith(PLANTED)]
    return [line for line in said if not COUNTED.fullmatch(line)]


def wrong(desk: Desk, command: str, pattern: str, meant: str = "") -> str:
    """Returns what `command` does otherwise than it should, or nothing."""
    desk.clear()
    result = desk.run(["bash", "-c", command])
    fine = result.code == 0 and re.search(pattern, result.text) is not None and "hunter2" not in result.text
    unmeant = [line for line in told(result) if not (meant and re.search(meant, line))]
    if harness.SOAK or not fine:
        desk.clear()
        for name in START_UP_FILES:  # what is in them is nothing that all programs take
            (desk.box.home / name).unlink()
        bare = desk.run(["bash", "-c", command], supervised=False)
        desk.make_start_up_files()
        # The pattern is of what is denied, where something is meant to be.
        assert bare.code == 0 and (meant or re.search(pattern, bare.text)), f"the control itself failed\n{bare.describe()}"
    return "" if fine and not unmeant else f"{command}\n{result.describe()}\n"


def test_the_list_is_long_enough():
    commands = [command for command, _, _ in lines()]
    assert len(set(commands)) == len(commands) >= 180


def test_everyday_commands_work_and_leave_no_line(desk):
    absent, found = set(), ""
    for command, pattern, meant in lines():
        if missing := toolchains.missing(programs(command)):
            absent.update(missing)
            continue
        found += wrong(desk, command, pattern, meant)
    assert found == ""
    toolchains.require(*sorted(absent))


def test_what_no_quiet_rule_names_is_told(desk):
    """The control of the list: another program, another file or another operation leaves a line."""
    for command in ("cat ~/.notes", "cat ~/.bashrc", "cat ~/.curlrc", "cat ~/.python_history", "cat /var/log/dpkg.log", "bash -c 'echo x >> ~/.bashrc'",
                    "bash -c ': <> ~/.inputrc'", "touch ~/.local/lib/packages/thing/__init__.pyc",
                    "rm ~/.local/lib/packages/thing/__init__.py"):
        command = f"{{ {command}; }} 2>/dev/null; echo on"
        assert "callgate:   " in wrong(desk, command, "on"), command


@pytest.mark.parametrize("file, link", [(".profile", ""), (".bash_profile", "dotfiles/bash_profile")])
def test_a_login_shell_finds_what_the_run_finds(box, file, link):
    """/etc/profile sets PATH anew, and the user's file, which puts a version manager back, may hold credentials. It may be a link."""
    manager = box.directory(box.directory(box.home / ".nvm") / "it's bin")
    node = box.file(manager / "node", b"#!/bin/sh\n", 0o755)
    box.file(box.home / (link or file), f'PATH="{manager}:$PATH"; TOKEN=cg-token'.encode())
    if link:
        (box.home / file).symlink_to(link)
    environment = {"HOME": str(box.home), "PATH": f"{manager}:/usr/bin:/bin"}
    line = ["/bin/bash", "-lc", "command -v node; echo $TOKEN"]
    assert box.run(line, supervised=False, cwd=box.tree, env=environment).text == f"{node}\ncg-token\n", "the control"
    assert box.run(line, supervised=False, cwd=box.tree, env={**environment, "HOME": "/"}).text != f"{node}\n\n", "the control without the file"
    result = box.run(line, None, options=["--no-user-rules"], env=environment)
    assert result.text == f"{node}\n\n" and "callgate:   " not in result.errors, result.describe()
    assert [one["rule"]["name"] for one in result.decisions(mechanism="filtered")] == ["agent.login-files"], result.describe()
    box.file(box.home / "dotfiles" / "npmrc", b"registry=https://packages.example.org\n_authToken=cg-token\n")
    (box.home / ".npmrc").symlink_to("dotfiles/npmrc")
    closed = box.run(["/bin/sh", "-c", f"cat ~/{file}; echo x >> ~/{file}; cat ~/.npmrc"], None, options=["--no-user-rules", "--ask", "never"], env=environment)
    assert closed.text.endswith("registry = https://packages.example.org\n"), closed.describe()
    assert "cg-token" not in closed.text and "x" not in (box.home / file).read_text().splitlines(), closed.describe()


def test_a_place_that_is_missing_is_told_after_a_failure(desk, box):
    """A tool that fails because it could not make its directory leaves the line; one that goes on leaves none."""
    make = "import pathlib; pathlib.Path.home().joinpath('.cache/tool').mkdir(parents=True)"
    failed = desk.run(["python3", "-c", make])
    assert failed.code == 1 and f"create {box.home}/.cache ×1  rule agent.directories" in failed.errors, failed.describe()
    assert failed.report["quiet_denials"] == 0 and [one["rule"] for one in failed.report["denials"]] == ["agent.directories"]
    assert "--private-home" in failed.errors
    went_on = desk.run(["sh", "-c", f'python3 -c "{make}" 2>/dev/null; echo on'])
    assert went_on.text == "on\n" and went_on.errors == "" and went_on.report["quiet_denials"] == 1, went_on.describe()
    assert desk.run(["python3", "-c", make], options=["--private-home"]).code == 0


def test_terraform_and_keras_go_on_where_their_directories_are_missing(box):
    make = ["sh", "-c", "mkdir ~/.keras ~/.terraform.d 2>/dev/null; echo on"]
    places = box.home / ".keras", box.home / ".terraform.d"
    result = box.run(make, None, options=["--ask", "never"])
    assert result.text == "on\n" and result.errors == "" and not any(one.exists() for one in places), result.describe()
    assert box.run(make, supervised=False, cwd=box.tree).text == "on\n" and all(one.exists() for one in places), "the control"


def test_a_cargo_that_cannot_keep_what_it_downloads_is_told_which_profile_lets_it(desk):
    failed = desk.run(["sh", "-c", "mkdir ~/.cargo"])
    assert failed.code == 1 and re.search("create .*/[.]cargo ×1  rule agent.cargo-home .*-p rust[+]net", failed.errors), failed.describe()
    went_on = desk.run(["sh", "-c", "mkdir ~/.cargo 2>/dev/null; echo on"])
    assert went_on.text == "on\n" and went_on.errors == "", went_on.describe()


def test_the_directories_above_are_no_question_of_those_who_look_there_and_one_of_others(box):
    """A project lies mostly some directories beneath the home; `${above}` names all of them."""
    work = box.directory(box.directory(box.directory(box.home / "src") / "own [x]") / "project")
    look = ("import os, sys\nfor path in sys.argv[1:]:\n try: print(len(os.listdir(path)) > 0)\n except OSError as error: print(error.errno)")
    box.file(box.home / "src" / "own [x]" / "beside" / "note", b"")
    rules = box.root / "rules.json"
    box.file(rules, b'{"version": 1, "extends": "agent", "rules": [{"id": "looks", "deny": "read", "quiet": true, "path": "${above}"}]}')
    above = ["..", "../..", "../../.."]
    bare = box.run(["/usr/bin/python3", "-c", look, *above, "../beside"], supervised=False, cwd=work)
    assert bare.text == "True\n" * 4, f"the control\n{bare.describe()}"
    quiet = box.run(["/usr/bin/python3", "-c", look, *above], None, cwd=work, options=["-R", str(rules), "--ask", "never"])
    assert quiet.text == "13\n" * 3 and "callgate: " not in quiet.errors, quiet.describe()
    told_of = box.run(["/usr/bin/python3", "-c", look, *above, "../beside"], None, cwd=work, options=["-R", str(rules), "--ask", "never"])
    assert told_of.text == "13\n" * 4 and "read " in told_of.errors and "/beside" in told_of.errors, told_of.describe()
    assert "callgate: denied 1 call " in told_of.errors, told_of.describe()


def test_tools_give_up_soon_where_no_registry_is_open_and_try_as_ever_where_one_is(desk):
    """npm waits more than a minute between its tries, and a run's rules do not change meanwhile."""
    ask = ["sh", "-c", "printenv npm_config_fetch_retry_maxtimeout pnpm_config_fetch_retry_maxtimeout PIP_RETRIES"]
    for options, values in (([], "500 500 1"), (["-p", "node+net"], "60000 60000 1"), (["-p", "python+net"], "500 500 5")):
        assert desk.run(ask, options=options).text.split() == values.split(), options


def test_programs_that_keep_a_profile_in_the_home_have_one_of_the_runs_own(desk):
    names = "CABAL_DIR STACK_ROOT DISTCC_DIR UserInstallation INKSCAPE_PROFILE_DIR CHROME_CONFIG_HOME"
    result = desk.run(["sh", "-c", f'echo "$TMPDIR"; printenv {names}'])
    tmp, *values = result.text.split()
    assert len(values) == len(names.split()) and all(value.removeprefix("file://").startswith(tmp) for value in values), result.describe()


OFFICE = """
import hashlib, os, socket, sys
digest = hashlib.md5(sys.argv[1].encode("utf-16-le")).digest()
path = "/tmp/OSL_PIPE_%d_SingleOfficeIPC_" % os.getuid() + "".join("%x" % byte for byte in digest)
server = socket.socket(socket.AF_UNIX)
server.bind(path); server.listen()
socket.socket(socket.AF_UNIX).connect(path)
os.unlink(path)
print("served")
"""


def test_libreoffice_has_a_socket_of_the_runs_own_settings_and_no_other(desk):
    """A listener in the name of the user's own settings would get what the user opens; a client there could run macros."""
    own = ["sh", "-c", 'exec /usr/bin/python3 -c "$0" "$UserInstallation"', OFFICE]
    result = desk.run(own)
    assert result.text == "served\n" and result.errors == "", result.describe()
    users = ["/usr/bin/python3", "-c", OFFICE, f"file://{desk.box.home}/.config/libreoffice/4"]
    assert desk.run(users, supervised=False).text == "served\n"
    denied = desk.run(users)
    assert "PermissionError" in denied.errors and "bind /tmp/OSL_PIPE_" in denied.errors, denied.describe()


def test_a_look_through_the_directory_of_all_homes_is_no_question(desk):
    result = desk.run(["bash", "-c", "ls /home 2>/dev/null || echo none"])
    assert result.text == "none\n" and result.err == b"", result.describe()
    (denied,) = result.decisions(verdict="deny")
    assert denied["rule"]["name"] == "agent.homes" and denied["callgate"]["decided_by"] == "rule", result.describe()


def test_a_quiet_denial_is_on_record_and_counted(desk, box):
    result = desk.run(["bash", "-ic", "cat ~/.inputrc || echo none"])
    assert result.code == 0 and "none" in result.text and "callgate: " not in result.errors, result.describe()
    denied = {one["rule"]["name"]: one["callgate"] for one in result.decisions(verdict="deny")}
    assert set(denied) == {"agent.shell-files", "agent.tool-files"}, result.describe()
    assert {one["errno"] for one in denied.values()} == {"ENOENT"}
    assert result.report["denials"] == [] and result.report["quiet_denials"] == result.report["counts"]["deny"] >= 2
    shown = harness.audit(box, "show", str(result.report["audit"]["file"]))
    assert "agent.shell-files" in shown.text and "agent.tool-files" in shown.text, shown.describe()
    allowed = desk.run(["bash", "-c", "cat ~/.inputrc"], options=["-r", str(box.home / ".inputrc")])
    assert allowed.code == 0 and allowed.report["quiet_denials"] == 0, allowed.describe()
