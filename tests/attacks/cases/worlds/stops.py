"""Commands that stop themselves, or reach for the terminal of the shell in whose background they run."""
from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import select
import shlex
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import harness
from approvers import runtime
from cases.case import Attack, Outcome, Scene, check

PYTHON = "/usr/bin/python3"
ALL = {"version": 1, "default": "allow", "rules": []}

# Each stops the first process of the command, as callgate's guardian sees it. It says `ready` right before.
HOWS = {
    "stop": "os.kill(os.getpid(), signal.SIGSTOP)",
    "tstp": "os.kill(os.getpid(), signal.SIGTSTP)",
    "ttin": "os.kill(os.getpid(), signal.SIGTTIN)",
    "ttou": "os.kill(os.getpid(), signal.SIGTTOU)",
    "child": "parent = os.getpid()\nif os.fork() == 0: os.kill(parent, signal.SIGSTOP)\nwhile True: signal.pause()",
    "session": "os.fork() and signal.pause()\nos.setsid(); os.kill(os.getppid(), signal.SIGSTOP)\nwhile True: signal.pause()",
    "traceme": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGINT)",
    "traceme_stop": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP)",
    "traceme_exec": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.execv('/bin/sleep', ['sleep', '1000'])",
    "tracer": ("parent = os.getpid()\nctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)\n"
               "if os.fork() == 0:\n    ctypes.CDLL(None).ptrace(16, parent, 0, 0)\n    while True: signal.pause()\n"
               "while True: signal.pause()"),
    "group": "os.kill(0, signal.SIGSTOP)",
    "twice": "[os.kill(os.getpid(), one) for one in (signal.SIGSTOP, signal.SIGTSTP)]",
    "shell": "os.system('kill -STOP $PPID')",
    "again": "while True: os.kill(os.getpid(), signal.SIGSTOP)",
    "ignored": "[signal.signal(one, signal.SIG_IGN) for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]\nos.kill(os.getpid(), signal.SIGSTOP)",
}
PROGRAM = "import ctypes, os, signal, sys\nos.write(1, b'ready\\n')\n{}\nsignal.pause()\n"
PATIENCE = 4.0  # seconds beyond the deadline that a busy machine may take


class Pty:
    """A terminal with one session on it, whose leader is `line`. All that appears is kept."""

    def __init__(self, scene: Scene, line: list[str]) -> None:
        box = scene.box
        self.master, slave = os.openpty()
        self.name = os.ttyname(slave)
        box.own(Path(self.name))
        self.process = box.start(line, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                 env={**box.environment(runtime(box)), "PS1": "outer$ ", "TERM": "dumb"},
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        os.set_blocking(self.master, False)  # a terminal that nobody reads any more takes no more
        self.seen = b""

    def read(self, seconds: float) -> bool:
        """Reads once. False: nothing comes any more."""
        if not select.select([self.master], [], [], max(0.0, seconds))[0]:
            return True
        try:
            got = os.read(self.master, 65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.seen += got
        return bool(got)

    def until(self, what: bytes, seconds: float = harness.DEADLINE) -> bool:
        end = time.monotonic() + seconds
        while what not in self.seen and time.monotonic() < end:
            if not self.read(end - time.monotonic()):
                break
        return what in self.seen

    def type(self, text: str) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self.master, text.encode())

    def ended(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """Ends the session and whatever it has started."""
        for one in (*harness.descendants(self.process.pid), self.process.pid):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(harness.DEADLINE)
        os.close(self.master)


@dataclasses.dataclass(frozen=True)
class StopsItself(Attack):
    """The command stops, and whoever waits for it would wait for ever. `where`: with callgate as the foreground of a `terminal`,
    with no terminal (`pipes`), or as a `job` of a server. The deadline of the run must hold, with record and report."""

    how: str
    where: str

    def program(self, scene: Scene) -> list[str]:
        return [PYTHON, str(scene.box.file(scene.box.tree / "stops.py", PROGRAM.format(HOWS[self.how]).encode()))]

    def control(self, scene: Scene) -> Outcome:
        """Bare, it stops, as a job of a shell."""
        terminal = Pty(scene, ["/bin/bash", "-c", "set -m; " + shlex.join(self.program(scene)) + " & sleep 1000"])
        try:
            harness.until(lambda: any(harness.state(one) in "Tt" for one in harness.descendants(terminal.process.pid)), "the command has stopped", 20)
        finally:
            terminal.end()
        return Outcome(True, "stopped")

    def run(self, scene: Scene, command: list[str], seconds: float) -> tuple[dict[str, Any], list[dict[str, Any]], float, str]:
        """The report, the log, and how long it took."""
        box = scene.box
        report = box.root / f"report-{len(box.running)}.json"
        line, log = box.command(command, ALL, [*scene.options, "-q", f"--timeout={int(seconds * 1000)}ms", "--grace=200ms", "--report", str(report)])
        began = time.monotonic()
        if self.where == "terminal":
            terminal = Pty(scene, line)
            while time.monotonic() < began + seconds + 10 * PATIENCE and terminal.read(0.1) and terminal.process.poll() is None:
                pass
            process, shown = terminal.process, repr(terminal.seen)
        else:
            process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            shown = ""
        try:
            process.wait(max(0.1, began + seconds + 10 * PATIENCE - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(harness.DEADLINE)
        took = time.monotonic() - began
        told = json.loads(report.read_text()) if report.exists() and report.read_text() else {}
        return told, harness.read_log(log), took, shown  # type: ignore[arg-type]

    def held(self, scene: Scene) -> Outcome:
        if self.where == "job":
            return self.served(scene)
        told, log, took, shown = self.run(scene, self.program(scene), 0.5)
        return check({"the deadline did not end it": told.get("outcome") != "timeout",
                      f"it took {took:.1f} s": took > 0.7 + PATIENCE,
                      "the log does not end": not log or log[-1]["event"]["action"] != "run.end"},
                     "ended", f"{took:.2f} s {told} {shown}")

    def served(self, scene: Scene) -> Outcome:
        """The server has one slot, which the next job gets."""
        box = scene.box
        server = box.start([str(box.callgate), "exec", "--serve", "--jobs", "1", "--no-audit", *scene.options], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                           bufsize=0)  # else two answers that come together would be one for select
        jobs = [{"id": 1, "command": self.program(scene), "rules": ALL, "timeout": 0.5, "grace": 0.2},
                {"id": 2, "command": ["/bin/echo", "next"], "rules": ALL}]
        began = time.monotonic()
        server.stdin.write("".join(json.dumps(one) + "\n" for one in jobs).encode())
        server.stdin.flush()
        answers = []
        while len(answers) < 2 and select.select([server.stdout], [], [], 10 * PATIENCE)[0]:
            answers.append(json.loads(server.stdout.readline()))
        took = time.monotonic() - began
        server.stdin.close()
        if len(answers) < 2:
            os.kill(server.pid, signal.SIGKILL)
        server.wait(harness.DEADLINE)
        first = next((one for one in answers if one.get("id") == 1), {})
        return check({"its answer did not come": first.get("report", {}).get("outcome") != "timeout",
                      "the next job got no slot": not any(one.get("output") == "next\n" for one in answers),
                      f"it took {took:.1f} s": took > 0.7 + PATIENCE}, "answered", f"{took:.2f} s {answers}")

    def twin(self, scene: Scene) -> Outcome:
        """A command that stops a child of its own and continues it is not ended."""
        script = "(kill -STOP $(exec sh -c 'echo $PPID'); exit 7) & child=$!; until grep -q 'T (stopped)' /proc/$child/status; do :; done; kill -CONT $child; wait $child"
        told, _, _, shown = self.run(scene, ["/bin/sh", "-c", script], 60)
        return check({"it did not end by itself": told.get("outcome") != "exited" or told.get("exit_code") != 7}, "continued", f"{told} {shown}")


@dataclasses.dataclass(frozen=True)
class StopFollowed(Attack):
    """callgate itself must not stop: for a tracer's stop, or in the background of a shell."""

    how: str
    background: bool

    def play(self, scene: Scene, supervised: bool, how: str = "", background: bool = False) -> tuple[bool, bool, str]:
        """Whether the command has stopped, and whether the job of the shell (callgate's own process) has."""
        program = scene.box.file(scene.box.tree / "stops.py", PROGRAM.format(HOWS[how or self.how]).encode())
        line = [PYTHON, str(program)]
        if supervised:
            line, _ = scene.box.command(line, ALL, [*scene.options, "-q"])
        pty = Pty(scene, ["/bin/bash", "-c", "set -m; " + shlex.join(line) + (" & sleep 1000" if background else "; sleep 1000")])
        try:
            def stopped() -> list[int]:
                return [one for one in harness.descendants(pty.process.pid) if harness.state(one) in "Tt"]

            harness.until(stopped, "the command has stopped", 20)
            end = time.monotonic() + 1.0
            job = False
            while time.monotonic() < end and not job:
                pty.read(0.02)
                job = any(harness.state(one) in "Tt" for one in harness.children(pty.process.pid))
            return bool(stopped()), job, repr(pty.seen)
        finally:
            pty.end()

    def control(self, scene: Scene) -> Outcome:
        _, job, seen = self.play(scene, False, background=self.background)
        return check({"the control did not stop": not job}, "stopped", seen)

    def held(self, scene: Scene) -> Outcome:
        command, job, seen = self.play(scene, True, background=self.background)
        return check({"callgate has stopped": job, "the command has not": not command}, "goes on", seen)

    def twin(self, scene: Scene) -> Outcome:
        """In the foreground the shell sees the job stopped."""
        _, job, seen = self.play(scene, True, "stop")
        return check({"the shell's job did not stop": not job}, "stopped", seen)


@dataclasses.dataclass(frozen=True)
class LimitWhileStopped(Attack):
    """The first process stops, and callgate with it; a child uses up what a limit bounds."""

    limit: str

    uses = {"cpu": "while True: pass",
            "memory": "time.sleep(0.3); kept = [bytearray(b'x' * (1 << 20)) for _ in range(400)]; time.sleep(1000)",
            "disk": "time.sleep(0.3)\nfor _ in range(100): out.write(b'x' * (1 << 20)); out.flush()\ntime.sleep(1000)"}
    options = {"cpu": "--cpu=1s", "memory": "--memory=100M", "disk": "--disk=20M"}

    def program(self, scene: Scene) -> list[str]:
        uses = "    " + self.uses[self.limit].replace("\n", "\n    ")
        text = f"import os, signal, sys, time\nout = open(sys.argv[1], 'wb')\nif os.fork() == 0:\n{uses}\nos.kill(os.getpid(), signal.SIGSTOP)\nsignal.pause()\n"
        return [PYTHON, str(scene.box.file(scene.box.tree / "uses.py", text.encode())), str(scene.box.tree / "filled")]

    def control(self, scene: Scene) -> Outcome:
        process = scene.box.start(self.program(scene), start_new_session=True)
        try:
            harness.until(lambda: harness.state(process.pid) == "T" and harness.children(process.pid), "the command has stopped, its child has not")
            (child,) = harness.children(process.pid)
            running = harness.state(child)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(harness.DEADLINE)
        return check({"the child was stopped": running == "T"}, "goes on", running)

    def held(self, scene: Scene) -> Outcome:
        box = scene.box
        report = box.root / "limit-report.json"
        line, _ = box.command(self.program(scene), ALL, [*scene.options, "-q", self.options[self.limit], "--workdir", str(box.tree), "--report", str(report)])
        terminal = Pty(scene, line)
        end = time.monotonic() + 30
        while time.monotonic() < end and terminal.read(0.1) and terminal.process.poll() is None:
            pass
        late = not terminal.ended(PATIENCE)
        terminal.end()
        told = json.loads(report.read_text()) if report.exists() and report.read_text() else {}
        return check({"the limit did not end it": told.get("outcome") != self.limit, "it went on": late}, "ended", str(told))

    def twin(self, scene: Scene) -> Outcome:
        result = scene.supervised(["/bin/sh", "-c", "(exit 3)"], ALL, [self.options[self.limit]])
        return check({"a small command was ended": result.code != 3}, "works", result.describe())


# A process in the background does this to the terminal that its shell reads from. Each says `begun()` before its last step.
REACHES = {
    "reads_session": "if os.fork(): signal.pause()\nos.setsid()\nbegun()\nwhile True: got(os.read(0, 100))",
    "reads_by_name": ("if os.fork(): signal.pause()\nos.setsid()\nfd = os.open(name, os.O_RDWR | os.O_NOCTTY)\nbegun()\n"
                      "while True: got(os.read(fd, 100))"),
    # The shell takes the terminal back when it has read a line.
    "takes_foreground": ("signal.signal(signal.SIGTTIN, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])\n"
                         "os.setpgid(0, 0)\nos.tcsetpgrp(0, os.getpgrp())\nbegun()\nwhile True:\n    try: got(os.read(0, 100))\n"
                         "    except OSError: os.tcsetpgrp(0, os.getpgrp())"),
    "takes_devtty": ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])\nfd = os.open('/dev/tty', os.O_RDWR)\nos.setpgid(0, 0)\n"
                     "os.tcsetpgrp(fd, os.getpgrp())\nbegun()\nwhile True: got(os.read(fd, 100))"),
    "sets_modes": ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])\nmodes = termios.tcgetattr(0)\nmodes[3] &= ~termios.ECHO\n"
                   "termios.tcsetattr(0, termios.TCSANOW, modes)\nbegun()\n"
                   "if os.fstat(0).st_rdev == os.stat(name).st_rdev: got(b'TYPED-9')\nsignal.pause()"),
}
REACH = """import os, signal, sys, termios
name, result = sys.argv[1:3]
def begun(): open(result + ".begun", "w").close()
def got(bytes):
    if b"TYPED-9" in bytes: open(result, "ab").write(bytes)
try:
    exec(open(sys.argv[3]).read())
except OSError as error:
    open(result + ".refused", "w").write(str(error))
"""


@dataclasses.dataclass(frozen=True)
class InTheBackground(Attack):
    """`callgate run ... &` in a shell: what is typed next is the shell's. `redirected`: no standard descriptor is the terminal."""

    how: str
    redirected: bool = False

    def play(self, scene: Scene, supervised: bool) -> tuple[bool, str]:
        """Whether the attack got what was typed for the shell, or changed the terminal."""
        box = scene.box
        result = box.tree / f"result-{supervised}"
        attack = box.file(box.tree / "how.py", REACHES[self.how].encode())
        program = box.file(box.tree / "reach.py", REACH.encode())
        pty = Pty(scene, ["/bin/bash", "--norc", "--noprofile", "-i"])
        try:
            pty.until(b"outer$ ")
            command = [PYTHON, str(program), pty.name, str(result), str(attack)]
            if supervised:
                command, _ = box.command(command, ALL, [*scene.options, "-q", "--timeout=60s"])
            line = shlex.join(command) + (" </dev/null >/dev/null 2>&1" if self.redirected else "") + " &\n"
            pty.type(line)
            begun, refused = Path(f"{result}.begun"), Path(f"{result}.refused")
            harness.until(lambda: begun.exists() or refused.exists(), "the attack has begun, or was refused")
            job = harness.children(pty.process.pid)
            # Typed until the attack has it or, where it is supervised, until the shell has it often enough.
            enough = (6 if refused.exists() else 40) if supervised else 10**9
            tried = count = unanswered = 0
            while not result.exists() and tried < 1000 and count < enough and unanswered < (20 if supervised else 6):
                tried += 1
                pty.type(f"echo TYPED-9 {tried} $((40 + 2))\n")
                answered = pty.until(f"TYPED-9 {tried} 42".encode(), 0.5)
                count, unanswered = (count + 1, 0) if answered else (count, unanswered + 1)
            # A shell that answers no more has lost its terminal, whoever reads there.
            return result.exists() or count < 5, f"{count} {pty.seen[-600:]!r} {refused.read_text() if refused.exists() else ''} {job}"
        finally:
            pty.end()

    def control(self, scene: Scene) -> Outcome:
        reached, detail = self.play(scene, False)
        return check({"the control did not reach the terminal": not reached}, "taken", detail)

    def held(self, scene: Scene) -> Outcome:
        reached, detail = self.play(scene, True)
        return check({"it reached the shell's terminal": reached}, "not reached", detail)

    def twin(self, scene: Scene) -> Outcome:
        """In the foreground the command reads what is typed for it."""
        line, _ = scene.box.command(["/bin/sh", "-c", "read -r word; echo got-$word; test -t 0 && echo own"], ALL, ["-q"])
        pty = Pty(scene, line)
        pty.type("mine\n")
        good = pty.until(b"got-mine") and pty.until(b"own")
        pty.process.wait(harness.DEADLINE)
        pty.end()
        return check({"the command did not read its line": not good}, "reads", repr(pty.seen))
