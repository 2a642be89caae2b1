"""A run that asks: the attack wants to answer in the person's place, or to write where the person is asked."""
from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import socket
import termios
import threading
from pathlib import Path

import approvers
import harness
import prefixes
from cases.case import SECRET, Attack, Impossible, Outcome, Scene, check
from outer import Tmux

# Connects to the socket of a run, says its token, and allows whatever is asked.
ANSWER = """
import json, socket, sys
place, run = sys.argv[1:3]
client = socket.socket(socket.AF_UNIX)
client.connect(f"{place}/{run}.sock")
print("connected", flush=True)
client.sendall(json.dumps({"v": 1, "type": "auth", "token": open(f"{place}/{run}.token").read()}).encode() + b"\\n")
for line in client.makefile():
    ask = json.loads(line)
    if ask["type"] == "ask":
        client.sendall(json.dumps({"v": 1, "type": "decision", "id": ask["id"], "key": ask["key"], "verdict": "allow"}).encode() + b"\\n")
        break
"""


class OwnAnswer(Attack):
    """The run's own question, answered by itself, where the rules allow every file and socket but the secret."""

    def play(self, scene: Scene, inside: bool) -> harness.Result:
        box = scene.box
        secret = box.file(box.tree / "secret", SECRET)
        program = box.file(box.tree / "answer.py", ANSWER.encode())
        place = box.root / "runtime" / "callgate"
        answer = f"/usr/bin/python3 {program} {place} $run" if inside else "true"
        rules = {"version": 1, "default": "allow", "rules": [{"id": "secret", "ask": "read", "path": str(secret)}]}
        run = approvers.SocketRun(box, ["/bin/sh", "-c", f"read run; {answer} & cat {secret}; wait"], rules, timeout="3s")
        name = run.name()
        if not inside:
            box.start(["/usr/bin/python3", str(program), str(place), name], env=box.environment(approvers.runtime(box)))
        return run.end(name.encode() + b"\n")

    def control(self, scene: Scene) -> Outcome:
        result = self.play(scene, inside=False)
        return check({"from outside it is not answered": SECRET not in result.out}, "answered", result.describe())

    def held(self, scene: Scene) -> Outcome:
        result = self.play(scene, inside=True)
        return check({"the run answered itself": SECRET in result.out, "it was connected": b"connected" in result.out},
                     "refused", result.describe())

    def twin(self, scene: Scene) -> Outcome:
        box = scene.box
        program = box.file(box.tree / "answer.py", ANSWER.encode())
        place = box.directory(box.tree / "other")
        box.file(place / "run.token", b"token")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / "run.sock"))
            box.own(place / "run.sock")
            server.listen()
            threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
            result = scene.supervised(["/usr/bin/python3", str(program), str(place), "run"],
                                      {"version": 1, "default": "allow", "rules": []})
        return check({"another socket was not reached": b"connected" not in result.out}, "connected", result.describe())


class OuterTerminal(Attack):
    """The terminal on which the person is asked, opened by its name where the rules allow every terminal."""

    def play(self, scene: Scene, ask: str) -> tuple[bytes, str]:
        box = scene.box
        reading, writing = os.openpty()
        try:
            name = os.ttyname(writing)
            box.own(Path(name))
            line, _ = box.command(["/bin/sh", "-c", f"printf FORGED > {name}; printf own > /dev/tty; echo $?"],
                                  {"version": 1, "default": "allow", "rules": []}, ["--ask", ask] if ask else [])
            if not ask:
                line = line[line.index("--") + 1:]
            process = box.start(line, stdin=writing, stdout=writing, stderr=writing, start_new_session=True,
                                env=box.environment(approvers.runtime(box)),
                                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        finally:
            os.close(writing)
        seen = b""
        try:
            while got := os.read(reading, 65536):
                seen += got
        except OSError:
            pass
        process.wait(harness.DEADLINE)
        os.close(reading)
        return seen, " ".join(line)

    def control(self, scene: Scene) -> Outcome:
        seen, line = self.play(scene, "")
        return check({"the control did not write there": b"FORGED" not in seen}, "written", f"{line}\n{seen!r}")

    def held(self, scene: Scene) -> Outcome:
        seen, line = self.play(scene, "auto")
        return check({"it was written to": b"FORGED" in seen}, "refused", f"{line}\n{seen!r}")

    def twin(self, scene: Scene) -> Outcome:
        seen, line = self.play(scene, "auto")
        return check({"the run's own terminal was not written to": b"own0" not in seen}, "own written", f"{line}\n{seen!r}")


@dataclasses.dataclass(frozen=True)
class FooterHidden(Attack):
    """A command that was denied something leaves the terminal so that the footer is not seen there."""

    prefix: str  # what it sends last (prefixes.py)

    def play(self, scene: Scene, supervised: bool, prefix: str) -> str:
        """The screen with its attributes, once the command has ended."""
        if not shutil.which("tmux"):
            raise Impossible("tmux is not installed")
        box = scene.box
        secret, ended = box.file(box.tree / "secret", SECRET), box.tree / "ended"
        ended.unlink(missing_ok=True)
        sent = box.file(box.tree / "sent", prefix.encode("utf-8", "surrogateescape"))
        rules = {"version": 1, "default": "allow", "rules": [{"id": "secret", "deny": "read", "path": str(secret)}]}
        command = ["/bin/sh", "-c", f"cat {secret} > /dev/null 2>&1; cat {sent}"]
        line = box.command(command, rules, scene.options)[0] if supervised else command
        told = "" if supervised else "; echo callgate: denied 1 call"
        tmux = Tmux(box, ["/bin/sh", "-c", f'"$@"{told}; : > {ended}; read end', "sh", *line], columns=150, rows=30, term="tmux-256color")
        try:
            harness.until(ended.exists, "the end of the command")
            return tmux.do("capture-pane", "-e", "-p")
        finally:
            tmux.close()

    def control(self, scene: Scene) -> Outcome:
        """Bare, the words of a shell are not seen."""
        screen = self.play(scene, False, prefixes.ALL[self.prefix])
        return check({"it is seen all the same": "\ncallgate: denied 1 call" in f"\n{screen}"}, "hidden", screen)

    def held(self, scene: Scene) -> Outcome:
        screen = self.play(scene, True, prefixes.ALL[self.prefix])
        return check({"the footer is not seen": "callgate: denied 1 call" not in screen or "rule secret" not in screen,
                      "it has attributes or another character set": "\x1b[" in screen or "\x0e" in screen}, "seen", repr(screen))

    def twin(self, scene: Scene) -> Outcome:
        screen = self.play(scene, True, "last words")
        return check({"the command's own words are not seen": "last words" not in screen, "the footer is not seen": "rule secret" not in screen},
                     "seen", screen)
