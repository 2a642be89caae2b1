"""Programs that make themselves opaque (PR_SET_DUMPABLE) work under the default profile: key agents and keyrings.

That the others are kept from them is in the corpus of attacks (opaque.*).
"""
from __future__ import annotations

import platform

import pytest

import toolchains

AGENT = r"""set -e
trap 'ssh-agent -k >/dev/null' EXIT
eval "$(ssh-agent -s)" >/dev/null
ssh-keygen -q -t ed25519 -N '' -C callgate -f key
ssh-add -q key
ssh-add -l
rm key
git init -q
git config user.email me@example.com
git config user.name Me
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=gpg.format GIT_CONFIG_VALUE_0=ssh GIT_CONFIG_KEY_1=user.signingkey
export GIT_CONFIG_VALUE_1="$PWD/key.pub" GIT_CONFIG_KEY_2=gpg.ssh.allowedSignersFile GIT_CONFIG_VALUE_2="$PWD/signers"
echo "me@example.com $(cut -d ' ' -f 1,2 key.pub)" > signers
git add signers
git commit -qS -m signed
git log --format='%G? %s' -1
"""

GPG = r"""set -e
mkdir -m 700 keys; export GNUPGHOME="$PWD/keys"
trap 'gpgconf --kill gpg-agent' EXIT
gpg --batch -q --passphrase '' --quick-gen-key me@example.com ed25519 sign never 2>/dev/null
echo text > text
gpg --batch -q --detach-sign text
gpg --verify text.sig text 2>&1 | grep -o 'Good signature'
"""

# A keyring: it makes itself opaque, leaves its parent, and serves at a socket; a program that it starts is not opaque.
KEYRING = r"""
import ctypes, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
set_dumpable, get_dumpable = 4, 3
libc.prctl(set_dumpable, 0, 0, 0, 0)
ready, begun = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0: os._exit(0)
    server = socket.socket(socket.AF_UNIX)
    server.bind("keyring"); server.listen()
    os.write(begun, b"x")
    peer, _ = server.accept()
    started = subprocess.run([sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"], capture_output=True, text=True).stdout
    peer.sendall(f"opaque {libc.prctl(get_dumpable, 0, 0, 0, 0)} started {started.strip()} {open('secret').read()}".encode())
    os._exit(0)
os.read(ready, 1)
client = socket.socket(socket.AF_UNIX)
client.connect("keyring")
print(client.makefile().read())
"""


@pytest.fixture
def place(box):
    made = toolchains.Place(box)
    box.own(box.root)
    made.renew()
    return made


def test_a_commit_is_signed_by_an_ssh_agent_of_the_run(place):
    if missing := toolchains.missing(("ssh-agent", "ssh-add", "ssh-keygen", "git")):
        pytest.skip(f"no {', '.join(missing)}")
    result = place.run(["bash", "-c", AGENT])
    assert result.code == 0 and "callgate (ED25519)" in result.text and "G signed" in result.text, result.describe()
    marks = [one for one in result.decisions(verdict="allow") if one["event"]["action"] == "prctl"]
    assert marks and marks[0]["rule"]["name"] == "callgate-opaque", result.describe()


def test_gpg_signs_by_its_agent(place):
    if missing := toolchains.missing(("gpg", "gpg-agent")):
        pytest.skip(f"no {', '.join(missing)}")
    result = place.run(["bash", "-c", GPG])
    assert result.code == 0 and "Good signature" in result.text, result.describe()


def test_a_keyring_that_forks_binds_and_opens(place):
    place.box.file(place.work / "secret", b"token")
    result = place.run(["/usr/bin/python3", "-c", KEYRING])
    assert result.code == 0 and result.text.strip() == "opaque 0 started 1 token", result.describe()


LIMITS = r"""
import ctypes, resource
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 0, 0, 0, 0)
wanted = (ctypes.c_ulong * 2)(0, 0)
print(libc.syscall({number}, resource.RLIMIT_CORE, wanted), resource.getrlimit(resource.RLIMIT_CORE))
print(resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
print(resource.getrlimit(resource.RLIMIT_CORE))
"""


def test_an_opaque_process_keeps_its_limit_of_cores(place):
    """A program that takes cores gets one from a process with the limit 0, and none with 1."""
    number = {"x86_64": 160, "aarch64": 164}[platform.machine()]
    result = place.run(["/usr/bin/python3", "-c", LIMITS.format(number=number)])
    assert result.text == "0 (1, 1)\nNone (1, 1)\n(1, 1)\n", result.describe()
