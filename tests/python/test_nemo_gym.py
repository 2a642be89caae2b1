"""callgate.nemo_gym, by NeMo Gym's own Sandbox and registry."""
from __future__ import annotations

import asyncio
import os

import pytest
from callgate.nemo_gym import CallgateProvider
from examples import run_examples
from nemo_gym.sandbox import AsyncSandbox, Sandbox, SandboxCreateError, SandboxSpec, SandboxStatus, list_providers, register_provider
from questions import HINT, alive, sleeper


@pytest.fixture(scope="module", autouse=True)
def registered():
    if "callgate" not in list_providers():
        register_provider("callgate", CallgateProvider)


@pytest.fixture
def parent(workdir):
    (workdir / "sandboxes").mkdir()
    return workdir / "sandboxes"


def test_a_sandbox_by_the_registry(parent, workdir):
    spec = SandboxSpec(workdir="repo", env={"A": "1"}, files={"repo/main.py": "print(6 * 7)\n"}, resources={"memory_mib": 512})
    with Sandbox({"callgate": {"parent": str(parent)}}, spec) as one, Sandbox({"callgate": {"parent": str(parent)}}) as other:
        one.start()
        other.start(SandboxSpec())
        assert one.status() is SandboxStatus.RUNNING
        told = one.exec("python3 main.py; echo $A $B $(basename $PWD); echo err >&2; exit 3", env={"B": "2"})
        assert (told.stdout, told.stderr, told.return_code, told.error_type) == ("42\n1 2 repo\n", "err\n", 3, None)
        (workdir / "up").write_bytes(bytes(range(256)))
        one.upload(workdir / "up", "deep/er/file")
        one.download("deep/er/file", workdir / "down")
        assert (workdir / "down").read_bytes() == bytes(range(256))
        assert other.exec("ls").stdout == ""
        word = sleeper()
        late = one.exec(f"setsid sleep {word} & echo begun; exec sleep {word}", timeout_s=0.5)
        assert (late.return_code, late.error_type) == (125, "timeout") and "begun" in late.stdout and not alive(word)
    assert not list(parent.iterdir())


def test_the_rules_hold(parent, workdir):
    outside = workdir / "outside"
    outside.write_text("planted")

    async def work(**options):
        made = AsyncSandbox({"callgate": {"parent": str(parent), **options}})
        await made.start(SandboxSpec())
        told = await made.exec(f"cat {outside}; ln -s {outside} link; echo here > own; cat own")
        await made.exec("mkfifo fifo; ln -s /dev/zero zero; truncate -s 1T large")
        for name, word in (("fifo", "no regular file"), ("zero", "no regular file"), ("large", "more than")):
            with pytest.raises(OSError, match=word):
                await made.download(name, workdir / "down")
        with pytest.raises(OSError, match="no regular file"):
            await made.upload(__file__, "fifo")
        held = None
        try:
            await made.upload(__file__, "link")
        except OSError as error:
            held = str(error)
        elsewhere = await made.exec("true", user="nobody" if os.geteuid() else "daemon")
        await made.stop()
        return told, held, elsewhere
    told, held, elsewhere = asyncio.run(work())
    assert told.stdout == "here\n" and HINT in told.stderr and held and HINT in held
    assert elsewhere.error_type == "sandbox" and "as the user of this program" in elsewhere.stderr
    assert outside.read_text() == "planted"
    told, held, _ = asyncio.run(work(write=str(outside)))
    assert told.stdout == "plantedhere\n" and held is None and outside.read_text() != "planted"


def test_what_cannot_be_kept_is_refused(parent):
    for spec, word in ((SandboxSpec(image="python:3.12"), "image"), (SandboxSpec(resources={"cpu": 2}), "cpu"),
                       (SandboxSpec(provider_options={"binds": "/x"}), "binds"), (SandboxSpec(workdir="/nowhere"), "cannot be used")):
        with pytest.raises(SandboxCreateError, match=word), Sandbox({"callgate": {"parent": str(parent)}}, spec) as one:
            one.start()
    with pytest.raises(SandboxCreateError, match="unknown profile"), Sandbox({"callgate": {"profile": "nope"}}, SandboxSpec()) as one:
        one.start()
    with Sandbox({"callgate": {"parent": str(parent)}}, SandboxSpec(ttl_s=0.2)) as one:
        one.start()
        assert one.exec("exec sleep 86400").error_type == "timeout"
        assert one.status() is SandboxStatus.STOPPED and "time is over" in one.exec("true").stderr
    assert not list(parent.iterdir())


def test_the_page(workdir):
    assert run_examples("frameworks.md", workdir, "NeMo Gym") == 1
