"""The packages, each used as a newcomer does. Long runs do so on roots of other distributions (tools/roots.sh), without a network."""
from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harness
from toolchains import require

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "demo"))

import record  # noqa: E402

TLS = (TOP / "build/callgate-tls").exists()  # test_exec_tls.py names what it needs
ROOTS = 3 if harness.SOAK else 0
SUITES = ("bookworm", "trixie", "noble")[:ROOTS]
KEY = "/home/newcomer/.ssh/id_ed25519"
JOB = f"callgate run -- sh -c 'echo working; cat {KEY}; echo status $?'"
# The lines of docs/guide.md: the way it is installed from /packages, the program's directory, and the way it is removed.
WAYS = {
    "deb": ("apt-get install -y -qq /packages/callgate_*.deb", "/usr/bin", "apt-get purge -y -qq callgate"),
    "wheel": ("python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /packages/*.whl", "/opt/venv/bin",
              "/opt/venv/bin/pip uninstall -q -y callgate"),
    "tar": ("tar -xzf /packages/callgate-*.tar.gz -C /opt", "/opt/callgate-*/bin", "rm -r /opt/callgate-*"),
}


def made(place: Path) -> Path:
    done = subprocess.run([TOP / "tools/package.sh"], capture_output=True, text=True, check=False, cwd=TOP,
                          env={**os.environ, "CALLGATE_PACKAGES": str(place)})
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def packages(stage):
    if Path(os.environ["CALLGATE"]).resolve() != TOP / "build/callgate":
        pytest.skip("packages are made of the release build only")
    return made(stage.root / "packages")


def test_the_same_build_makes_the_same_bytes(packages, stage):
    again = made(stage.root / "packages-again")
    names = sorted(one.name for one in packages.iterdir())
    assert len(names) == 6 and names == sorted(one.name for one in again.iterdir())
    assert filecmp.cmpfiles(packages, again, names, shallow=False) == (names, [], [])
    shutil.rmtree(again)


def test_what_is_installed_is_built_for_it():
    """`./dev install` and `./dev package` build one target of a new clone. It makes every program that is then installed."""
    build = Path(os.environ["CALLGATE"]).resolve().parent
    programs = re.findall(r'TYPE EXECUTABLE FILES "%s/([^"]*)"' % re.escape(str(build)), (build / "cmake_install.cmake").read_text())
    assert programs == (["callgate", "callgate-tls"] if TLS else ["callgate"])
    made = subprocess.run(["ninja", "-C", build, "-t", "query", "callgate_installed"], capture_output=True, text=True, check=True).stdout.split()
    assert {*programs, "callgate_share"} <= {*made}, made


def test_the_program_does_not_say_where_it_was_built(packages):
    """Else a build of the same sources in another directory would have other bytes: the program has a sum of its symbols' file."""
    symbols = (TOP / "build/callgate.debug").read_bytes()
    assert b"supervisor/" in symbols and os.fsencode(TOP) not in symbols


def test_checksums_and_bill_of_materials(packages):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=packages, check=True)
    (file,) = packages.glob("*.cdx.json")
    bill = json.loads(file.read_text())
    own = bill["metadata"]["component"]["hashes"][0]["content"]
    assert own == hashlib.sha256(Path(os.environ["CALLGATE"]).read_bytes()).hexdigest()
    known = {one["name"]: one["version"] for one in bill["components"]}
    for name in ("libc6-dev", "libsodium-dev", "libc-ares-dev", "publicsuffix", *(["libssl-dev"] if TLS else [])):
        shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True, check=True).stdout
        assert known[name] == shown


def test_lintian_finds_no_error(packages):
    require("lintian")
    said = subprocess.run(["lintian", "--fail-on", "none", *packages.glob("*.deb")], capture_output=True, text=True, check=False).stdout
    assert not [one for one in said.splitlines() if one.startswith("E:")] and "mismatched-override" not in said, said


def test_packages_that_install_services_hold_the_program_for_tls(packages):
    (deb,), (tar,), (npm,), (wheel,) = (packages.glob(one) for one in ("*.deb", "*-linux-*.tar.gz", "callgate-*.tgz", "*.whl"))
    for line, holds in ((["dpkg-deb", "-c", deb], True), (["tar", "-tf", tar], True), (["tar", "-tf", npm], False), (["unzip", "-l", wheel], False)):
        names = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        assert "bin/callgate" in names and ("callgate-tls" in names) == (holds and TLS), names


def test_npx_runs_the_program_of_the_package(packages, box, measured):
    """The control: without callgate the key is read."""
    require("node", "npm")
    key = box.file(box.home / ".ssh/id_ed25519", b"secret\n")
    (source,) = packages.glob("callgate-*.tgz")
    archive = box.file(box.root / source.name, source.read_bytes())
    steps = f"npm install --silent --offline --no-audit --no-fund {archive} && ls node_modules/callgate/share/man/man1/callgate-run.1.gz && "
    began = time.monotonic()
    done = box.run(["/bin/sh", "-c", steps + f"cat {key}; npx --offline callgate run -- cat {key}"], supervised=False)
    measured.append(f"npm, {box.user.kind}: installed, and the first command run, after {time.monotonic() - began:.1f} s")
    assert done.text.splitlines() == ["node_modules/callgate/share/man/man1/callgate-run.1.gz", "secret"], done.describe()
    assert done.code == 1 and "rule base.keys" in done.errors, done.describe()


def test_the_deb_is_installed_and_removed_by_dpkg(packages, box, measured):
    """dpkg has a database and a root of its own, so it changes nothing of the machine. The program runs from there."""
    require("dpkg")
    (source,) = packages.glob("*.deb")
    archive = box.file(box.root / source.name, source.read_bytes())
    key = box.file(box.home / ".ssh/id_ed25519", b"secret\n")
    place = box.directory(box.root / "installed")
    dpkg = ["dpkg", f"--root={place}", "--log=/dev/null", "--force-not-root", "--force-bad-path"]
    box.file(place / "var/lib/dpkg/status")
    for name in ("info", "updates", "triggers"):
        box.directory(place / "var/lib/dpkg" / name)
    began = time.monotonic()
    done = box.run([*dpkg, "--install", str(archive)], supervised=False)
    assert done.code == 0, done.describe()
    done = box.run(["/bin/sh", "-c", f"cat {key}; exec {place}/usr/bin/callgate run -- cat {key}"], supervised=False)
    measured.append(f"deb, {box.user.kind}: installed, and the first command run, after {time.monotonic() - began:.1f} s")
    assert done.text == "secret\n" and done.code == 1 and "rule base.keys" in done.errors, done.describe()
    assert (place / "usr/share/man/man1/callgate-run.1.gz").is_file() and (place / "usr/share/zsh/vendor-completions/_callgate").is_file()
    done = box.run([*dpkg, "--purge", "callgate"], supervised=False)
    assert done.code == 0, done.describe()
    left = [one for one in place.rglob("*") if place / "var/lib/dpkg" not in one.parents and not one.is_dir()]
    assert left == [] and not (place / "usr").exists()


def test_installing_and_removing_leaves_what_was_there(packages, box):
    """`./dev install` and `./dev uninstall` call tools/install.sh."""
    place = box.directory(box.root / "prefix")
    box.file(place / "bin/mine", b"mine")
    before = sorted(str(one) for one in place.rglob("*"))
    (source,) = packages.glob("*-linux-*.tar.gz")
    archive = box.file(box.root / source.name, source.read_bytes())
    script = box.file(box.root / "install.sh", (TOP / "tools/install.sh").read_bytes(), 0o755)
    for _ in range(2):  # over itself, too
        done = box.run([str(script), "install", str(archive), str(place)], supervised=False)
        assert done.code == 0 and "is not in PATH" in done.text, done.describe()
    said = box.run([str(place / "bin/callgate"), "--version"], supervised=False)
    assert said.code == 0 and said.text.startswith("callgate "), said.describe()
    for page in ("man/man1/callgate.1.gz", "man/man5/callgate-rules.5.gz", "bash-completion/completions/callgate",
                 "zsh/site-functions/_callgate", "fish/vendor_completions.d/callgate.fish", "doc/callgate/LICENSE"):
        assert (place / "share" / page).is_file()
    assert box.run([str(script), "remove", str(place)], supervised=False).code == 0
    assert sorted(str(one) for one in place.rglob("*")) == before
    again = box.run([str(script), "remove", str(place)], supervised=False)
    assert again.code == 1 and "nothing is installed" in again.errors, again.describe()


READ = b"""#include <stdio.h>
int main(int count, char **words) {
    char text[64];
    FILE *file = fopen(words[count - 1], "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL) return perror(words[count - 1]), 1;
    return fputs(text, stdout) < 0;
}
"""


def test_the_tarball_needs_nothing_of_a_system(packages, box):
    """It is unpacked in a root whose only other program is linked with musl. The control: that one reads the key."""
    require("musl-gcc")
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = box.directory(box.root / "bare")
    for name in ("proc", "dev", "tmp", "home", "home/work", "home/.ssh"):
        box.directory(place / name)
    key = box.file(place / "home/.ssh/id_ed25519", b"secret\n")
    plain = box.file(place / "home/work/plain", b"plain\n")
    subprocess.run(["musl-gcc", "-static", "-o", place / "read", box.file(box.root / "read.c", READ)], check=True)
    subprocess.run(["tar", "-xzf", *packages.glob("callgate-*-linux-*.tar.gz"), "--strip-components=1", "-C", place], check=True)
    enter = ('mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec env -i HOME=/home PATH=/ '
             f'/usr/sbin/chroot --userspec={box.user.uid}:{box.user.gid} --groups={box.user.gid} "$0" "$@"')

    def inside(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", enter, place, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=harness.DEADLINE)

    names = ["/" + str(one.relative_to(place)) for one in (key, plain)]
    assert [inside("/read", one).stdout for one in names] == ["secret\n", "plain\n"]
    run = ("/bin/callgate", "run", "--workdir", "/home/work", "-x", "/read", "--", "/read")
    denied, allowed = (inside(*run, one) for one in names)
    assert denied.returncode == 1 and denied.stdout == "" and "rule base.keys" in denied.stderr, denied.stdout + denied.stderr
    assert (allowed.returncode, allowed.stdout, allowed.stderr) == (0, "plain\n", "")


def unpacked(stage, name: str) -> Path:
    """A root that tools/roots.sh has made."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    archive = Path(subprocess.run([TOP / "tools/roots.sh", "--where"], capture_output=True, text=True, check=True).stdout.strip())
    archive /= f"{name}.tar"
    if not archive.exists():
        pytest.skip(f"there is no root: tools/roots.sh {name}")
    place = stage.root / "roots" / name
    place.mkdir(parents=True)
    subprocess.run(["tar", "-xpf", archive, "-C", place], check=True)
    return place


@pytest.fixture(scope="module", params=SUITES)
def root(request, stage, packages):
    """A root with the packages in it, and a user who has a key."""
    place = unpacked(stage, request.param)
    shutil.copytree(packages, place / "packages")
    in_root(place, f"useradd -m -s /bin/sh newcomer; mkdir /home/newcomer/.ssh /home/newcomer/project; echo secret > {KEY}; "
            f"chown -R newcomer: /home/newcomer; chmod 600 {KEY}")
    yield place, request.param
    shutil.rmtree(place)


def in_root(place: Path, script: str, timeout: float = harness.DEADLINE, network: str = "--net") -> subprocess.CompletedProcess[str]:
    """Runs a script as root there, in namespaces of its own, without a network. With another `network` it has this machine's.

    It is the root of a mount namespace: in one that chroot made the kernel lets nobody make a user namespace.
    """
    enter = ('mount --bind "$0" "$0" && cd "$0" && mount --rbind /dev dev && mount --rbind /sys sys && mount -t proc proc proc && '
             'pivot_root . mnt && cd / && umount -l /mnt && exec /usr/bin/env -i '
             'PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive PIP_CERT=/etc/ssl/certs/ca-certificates.crt /bin/sh -ec "$1"')
    done = subprocess.run(["unshare", "--mount", "--pid", *network.split(), "--fork", "--kill-child", "/bin/sh", "-ec", enter, place, script],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.skipif(not harness.SOAK, reason="a build for another processor: a long run")
def test_packages_for_aarch64_are_made_here(stage, measured):
    """An emulator of user programs has no seccomp, so it runs what needs none; `./dev test aarch64` has a kernel of that kind."""
    place, began = stage.root / "packages-aarch64", time.monotonic()
    done = subprocess.run([TOP / "dev", "package", "--aarch64"], capture_output=True, text=True, check=False, env={**os.environ, "CALLGATE_PACKAGES": str(place)})
    assert done.returncode == 0, done.stdout + done.stderr
    measured.append(f"aarch64: built, and packages made, after {time.monotonic() - began:.0f} s")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=place, check=True)
    (wheel,), (deb,), (tar,), (npm,), (bill,) = (list(place.glob(one)) for one in ("*.whl", "*.deb", "*-linux-*.tar.gz", "callgate-*.tgz", "*.cdx.json"))
    assert wheel.name.endswith("-py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl")
    assert subprocess.run(["dpkg-deb", "-f", deb, "Architecture"], capture_output=True, text=True, check=True).stdout == "arm64\n"
    described = subprocess.run(["tar", "-xzOf", npm, "package/package.json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(described)["cpu"] == ["arm64"]
    assert {one["name"]: one["purl"].rpartition("arch=")[2] for one in json.loads(bill.read_text())["components"]}["libsodium-dev"] == "arm64"
    subprocess.run(["tar", "-xzf", tar, "-C", place], check=True)
    (program,) = place.glob("callgate-*-linux-aarch64/bin/callgate")
    rules = place / "rules.json"
    rules.write_text('{"version": 1, "rules": [{"id": "keys", "deny": "read", "path": "/secret/**"}]}')
    for words, code, expected in ((["--version"], 0, "callgate "), (["explain", "-R", rules, "read", "/secret/key"], 0, "keys"), (["doctor"], 1, "listener            MISSING")):
        said = subprocess.run(["qemu-aarch64-static", program, *words], capture_output=True, text=True, check=False, cwd=place)
        assert said.returncode == code and expected in said.stdout, said.stdout + said.stderr


@pytest.mark.skipif(not ROOTS, reason="roots are fetched from a network: a long run")
@pytest.mark.parametrize("kind", WAYS)
def test_a_newcomer_installs_and_runs(root, kind, measured):
    place, suite = root
    install, programs, remove = WAYS[kind]
    listed = "find / -xdev -iname '*callgate*' -not -path '/packages/*' -not -path '/proc/*' -not -path '/dev/*'"
    began = time.monotonic()
    in_root(place, install)
    as_user = "cd /home/newcomer/project && setpriv --reuid newcomer --regid newcomer --init-groups env HOME=/home/newcomer "
    done = in_root(place, f"{as_user} PATH=$(echo {programs}):$PATH {JOB}")
    measured.append(f"{suite}, {kind}: installed, and the first command run, after {time.monotonic() - began:.1f} s")
    assert done.stdout == "working\nstatus 1\n" and "rule base.keys" in done.stderr, done.stdout + done.stderr
    assert in_root(place, f"{as_user} cat {KEY}").stdout == "secret\n"  # the control
    pages = in_root(place, f"{listed} -name '*.gz'").stdout
    assert "man1/callgate-run.1.gz" in pages and "man5/callgate-rules.5.gz" in pages, pages
    # Logs and, where a run took longer, the directory of sockets belong to the user, not to the package.
    in_root(place, f"{remove}; rm -rf /home/newcomer/.local /tmp/callgate-$(id -u newcomer)")
    assert in_root(place, listed).stdout == ""


def with_sources(stage, suite: str, owner: str, home: str) -> Path:
    """A root that has what a build needs, and a clone of this commit in the home of that user."""
    place = unpacked(stage, f"{suite}-build")
    for one in Path("/usr/local/share/ca-certificates").glob("*.crt"):  # of this machine's administrator
        shutil.copy(one, place / "usr/local/share/ca-certificates")
    in_root(place, "update-ca-certificates")
    in_root(place, f"id {owner} || useradd -m -s /bin/sh {owner}")
    subprocess.run(["git", "clone", "--quiet", TOP, place / home[1:] / "callgate"], check=True)
    in_root(place, f"chown -R {owner}: {home}/callgate")
    return place


@pytest.mark.skipif(not ROOTS, reason="roots are fetched from a network: a long run")
@pytest.mark.parametrize("suite", SUITES)
def test_a_newcomer_builds_from_source_and_sees_the_demonstration(stage, measured, suite):
    """The first commands of the README, on each distribution that it names, with the packages that ./dev installs there."""
    place = with_sources(stage, suite, "newcomer", "/home/newcomer")
    as_user = "cd /home/newcomer/callgate && exec setpriv --reuid newcomer --regid newcomer --init-groups env HOME=/home/newcomer CALLGATE_NO_DEPS=1"
    began = time.monotonic()
    done = in_root(place, f"{as_user} ./dev demo", timeout=3600, network="")  # the demonstration has a server on loopback
    measured.append(f"{suite}, from source: built, and the demonstration run, after {time.monotonic() - began:.0f} s")
    shown = record.SESSION.search(record.README.read_text())
    assert shown is not None and record.difference(shown[0], done.stdout.strip("\n")) == ""
    steps = f"./dev install && cd ~ && mkdir .ssh project && echo secret > .ssh/key && cd project && PATH=~/.local/bin:$PATH {JOB.replace(KEY, '~/.ssh/key')}"
    done = in_root(place, f"{as_user} sh -c {shlex.quote(steps)}", timeout=3600)
    assert done.stdout.endswith("working\nstatus 1\n") and "rule base.keys" in done.stderr, done.stdout + done.stderr
    in_root(place, f"{as_user} ./dev uninstall")
    assert not (place / "home/newcomer/.local/bin").exists()
    shutil.rmtree(place)


@pytest.mark.skipif(not ROOTS, reason="roots are fetched from a network: a long run")
@pytest.mark.parametrize("suite", SUITES)
def test_a_newcomer_passes_the_tests(stage, measured, suite):
    """The second command, which first installs what the tests need."""
    place = with_sources(stage, suite, "root", "/root")
    began = time.monotonic()
    done = in_root(place, "cd /root/callgate && exec ./dev test", timeout=4 * 3600, network="")
    measured.append(f"{suite}, from source: packages installed, built, and all tests passed, after {time.monotonic() - began:.0f} s")
    assert "100% tests passed" in done.stdout, done.stdout
    shutil.rmtree(place)
