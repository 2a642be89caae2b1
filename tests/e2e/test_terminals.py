"""Interactive sessions on a terminal are, line for line, what they are bare: job control, keys, window size."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shlex
import signal
import termios
from typing import Callable, Iterator

import harness
from terminals import SETTINGS, SHELL, Session
from toolchains import Place, require


def both(box: harness.Box, steps: Callable[[Session], int]) -> tuple[list[Session], list[int]]:
    """Plays `steps` with a bare shell, then with one under callgate."""
    sessions, codes = [], []
    for supervised in (False, True):
        place = Place(box)
        place.renew()
        box.file(place.work / "rc", SETTINGS.encode())
        line = box.command(SHELL, options=["-q"])[0] if supervised else SHELL
        sessions.append(Session(box, line, place.work))
        codes.append(steps(sessions[-1]))
    return sessions, codes


def must_say(session: Session, *words: str) -> None:
    """Fails where the control did not do what is compared."""
    said = "".join(session.steps)
    absent = [word for word in words if word not in said]
    assert not absent, f"the bare session lacks {absent}: {said}"


def job_control(session: Session) -> int:
    session.do("sleep 300 &")
    session.do("jobs")
    session.type("fg\n")
    session.wait_for("sleep", "S", foreground=True)
    session.lines(2)
    session.type("\x1a")
    session.prompt()
    session.wait_for("sleep", "T")
    session.do("jobs")
    session.do("bg")
    session.wait_for("sleep", "S", foreground=False)
    session.do("jobs")
    session.do("kill %1; wait %1; echo ended $?")
    session.type("sleep 300\n")
    session.wait_for("sleep", "S", foreground=True)
    session.lines(1)
    session.type("\x03")
    session.prompt()
    session.do("echo interrupted $?")
    session.type("sleep 300 | cat\n")
    session.wait_for("sleep", "S", foreground=True)
    session.lines(1)
    session.type("\x1a")
    session.prompt()
    session.do("bg")
    session.do("kill -KILL %1; wait %1; echo killed $?")
    return session.leave("exit 3")


def terminal_use(session: Session) -> int:
    session.type("cat &\n")
    session.prompt()
    session.wait_for("cat", "T")
    session.do(":")
    session.one_step()
    session.type("fg\n")
    session.wait_for("cat", "S", foreground=True)
    session.type("typed\n\x04")
    session.prompt()
    session.do("tty >/dev/null && echo terminal; echo written >/dev/tty; read -r word </dev/tty; echo $word\nanswer")
    session.type("cat\n")
    session.wait_for("cat", "S", foreground=True)
    session.resize(50, 132)
    session.type("\x04")
    session.prompt()
    session.do("stty size; stty size </dev/tty")
    session.do("stty -echo; stty echo; stty -a | grep -o 'isig icanon'")
    session.do("script -qec 'tty >/dev/null && echo inner' /dev/null")
    session.do("python3 -c 'import pty, sys; sys.exit(pty.spawn([\"echo\", \"spawned\"]))'")
    return session.leave("exit 7")


def test_job_control_goes_on_a_terminal_as_bare(box):
    require("bash", "sleep", "cat")

    (bare, supervised), codes = both(box, job_control)
    assert supervised.transcript() == bare.transcript()
    assert codes == [3, 3]
    must_say(bare, "Stopped", "Running", "ended 143", "interrupted 130", "killed 137")


def test_programs_use_the_terminal_as_bare(box):
    require("bash", "script", "stty", "python3")
    (bare, supervised), codes = both(box, terminal_use)
    assert supervised.transcript() == bare.transcript()
    assert codes == [7, 7]
    must_say(bare, "Stopped", "terminal", "answer", "50 132", "isig icanon", "inner", "spawned")


# The shell sees callgate stop of SIGSTOP, and exit with 128+N where a bare command dies of the signal.
AS_A_JOB = ((r"\^C\n", "^C"), (r"^Terminated\n", ""), ("stopped 147", "stopped 148"))


def test_a_supervised_command_is_a_job_of_the_shell_as_a_bare_one(box):
    require("bash", "sleep")
    prefix = f"{box.stage.callgate} run -q --no-audit -- "
    transcripts = []
    for before in ("", prefix):
        place = Place(box)
        place.renew()
        box.file(place.work / "rc", SETTINGS.encode())
        session = Session(box, SHELL, place.work)
        for key, end in (("\x03", "interrupted"), ("\x1a", "stopped")):
            session.type(f"{before}sleep 300\n")
            session.wait_for("sleep", "S", foreground=True)
            session.lines(1)
            session.type(key)
            session.prompt()
            session.do(f"echo {end} $?")
        session.wait_for("sleep", "T")
        session.do("bg")
        session.wait_for("sleep", "S", foreground=False)
        session.type("fg\n")
        session.wait_for("sleep", "S", foreground=True)
        session.lines(2)
        session.type("\x1a")
        session.prompt()
        session.do("/bin/kill $(jobs -p); fg; echo ended $?")  # bash's own would continue it too, and it might end before fg
        assert session.leave("exit 5") == 5
        transcripts.append(session.transcript(*AS_A_JOB, (re.escape(prefix), "")))
    assert transcripts[1] == transcripts[0]


@contextlib.contextmanager
def raw_terminal(box: harness.Box) -> Iterator[tuple[int, list, int]]:
    """A terminal on which a shell that restores no modes waits for callgate, which has the keys: master, modes before, callgate."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(master)
    line = shlex.join(box.command(["/bin/sleep", "1000"], options=["-q"])[0])
    shell = box.start(["/bin/sh", "-c", f"{line}; read -r word; echo got-$word"], stdin=slave, stdout=slave, stderr=slave,
                      start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    try:
        harness.until(lambda: any(harness.name_of(one) == "sleep" for one in harness.descendants(shell.pid)), "the command runs")
        (callgate,) = harness.children(shell.pid)
        # Before the command, callgate asks this terminal what it is, in raw mode for as long.
        harness.until(lambda: termios.tcgetattr(master)[3] & termios.ICANON == 0, "callgate has set raw mode")
        yield master, before, callgate
    finally:
        for pid in (*harness.descendants(shell.pid), shell.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shell.wait(harness.DEADLINE)
        os.close(slave)
        os.close(master)


def test_the_terminal_has_its_modes_again_after_callgate_is_killed(box):
    with raw_terminal(box) as (master, before, callgate):
        (guardian,) = harness.children(callgate)
        os.kill(callgate, signal.SIGKILL)
        harness.until(lambda: not harness.alive(guardian), "the guardian has ended the tree")
        assert termios.tcgetattr(master) == before
        os.write(master, b"typed\n")
        harness.read_until(master, b"got-typed", harness.DEADLINE)


def test_modes_that_another_process_has_set_since_stay(box):
    with raw_terminal(box) as (master, before, callgate):
        (guardian,) = harness.children(callgate)
        own = termios.tcgetattr(master)
        own[3] |= termios.ISIG
        termios.tcsetattr(master, termios.TCSANOW, own)
        assert own[3] != before[3]
        os.kill(callgate, signal.SIGKILL)
        harness.until(lambda: not harness.alive(guardian), "the guardian has ended the tree")
        assert termios.tcgetattr(master) == own
