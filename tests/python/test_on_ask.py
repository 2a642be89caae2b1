"""Questions of a run, answered by a function."""
from __future__ import annotations

import asyncio
import threading

import pytest
from callgate import CallgateError, Sandbox
from questions import alive, sleeper


@pytest.mark.parametrize("way", ["run", "arun", "run, async answer", "arun, async answer", "popen"])
def test_questions_are_answered(way, tmp_path):
    asked = []

    def answer(question):
        asked.append((question.operation, question.object, "once" in question.scopes))
        return question.object.endswith("yes")

    async def later(question):
        await asyncio.sleep(0)
        return answer(question)
    sandbox = Sandbox(on_ask=later if "async" in way else answer)
    command = f"echo x > {tmp_path}/yes; echo x > {tmp_path}/no; echo done"
    if way == "popen":
        with sandbox.popen(command) as process:
            assert process.stdout.read() == b"done\n" and process.wait() == 0
        denied = process.denials
    else:
        result = asyncio.run(sandbox.arun(command)) if "arun" in way else sandbox.run(command)
        assert result.text == "done\n"
        denied = result.denials
    assert (tmp_path / "yes").read_text() == "x\n" and not (tmp_path / "no").exists()
    assert asked == [("create", f"{tmp_path}/yes", True), ("create", f"{tmp_path}/no", True)]
    assert [one.object for one in denied] == [f"{tmp_path}/no"]


@pytest.mark.parametrize("way", ["run", "arun"])
@pytest.mark.parametrize("fault", ["raises", "nonsense"])
def test_a_failing_answer_denies_ends_the_run_and_is_raised(way, fault, tmp_path):
    word = sleeper()

    def answer(_):
        if fault == "raises":
            raise KeyError("mine")
        return 17
    sandbox = Sandbox(on_ask=answer)
    command = f"sleep {word} & echo x > {tmp_path}/no; sleep {word}"
    with pytest.raises(KeyError if fault == "raises" else CallgateError, match="mine" if fault == "raises" else "on_ask gave 17"):
        if way == "run":
            sandbox.run(command)
        else:
            asyncio.run(sandbox.arun(command))
    assert not (tmp_path / "no").exists() and not alive(word)


def test_who_thinks_longer_than_the_run_does_not_hold_it(tmp_path):
    leave = threading.Event()
    try:
        assert Sandbox(on_ask=lambda _: leave.wait(60), timeout=1).run(f"echo x > {tmp_path}/no").timed_out
        assert not leave.is_set() and not (tmp_path / "no").exists()
    finally:
        leave.set()
