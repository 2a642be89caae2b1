"""A tool that reaches for what only the agent may use: by an execution, by a name, or through the agent's process."""
from __future__ import annotations

import shutil
import signal
from pathlib import Path

import harness
from cases.case import Case
from cases.worlds.parties import Agent, Connect, Make, Reach, Read, Variable

PARAGRAPH = "Agent and tools"
USR1 = str(int(signal.SIGUSR1))


def cat(box: harness.Box, agent: Agent, file: Path) -> list[str]:
    return ["/bin/cat", str(file)]


def shell(text: str) -> Make:
    return lambda box, agent, file: ["/bin/sh", "-c", text.replace("FILE", str(file)).replace("TREE", str(box.tree))]


def own(box: harness.Box, agent: Agent, file: Path) -> list[str]:
    """The agent's program once more; its child shows the file."""
    return [agent.program, str(file), "fork", "-"]


def copy(box: harness.Box, agent: Agent, file: Path) -> None:
    target = box.tree / "agent"
    shutil.copyfile(agent.program, target)
    target.chmod(0o755)
    box.own(target)


def script(box: harness.Box, agent: Agent, file: Path) -> None:
    wrapper = box.file(box.tree / "wrapper", f"#!{agent.program} {file}\n".encode())
    wrapper.chmod(0o755)


def say(box: harness.Box, agent: Agent, name: str) -> list[str]:
    return ["/bin/sh", "-c", f"echo ${name}"]


def say_by_script(box: harness.Box, agent: Agent, name: str) -> list[str]:
    made = box.file(box.tree / "script", f"#!/bin/sh\necho ${name}\n".encode())
    made.chmod(0o755)
    return [str(made)]


# Looks through its whole stack: for the bytes, wherever the lists point.
BY_STACK = """
import ctypes, re, sys
line = next(one for one in open("/proc/self/maps") if "[stack]" in one)
start, end = (int(one, 16) for one in line.split()[0].split("-"))
for found in re.findall(sys.argv[1].encode() + b"=([^\\0]*)", ctypes.string_at(start, end - start)): print(found.decode(), flush=True)
"""
VARIABLE_BY_HANDLE = "import os, sys; os.execve(os.open('/bin/sh', os.O_RDONLY), ['sh', '-c', 'echo $' + sys.argv[1]], dict(os.environ))"
BY_HANDLE = "import os, sys; os.execve(os.open('/bin/cat', os.O_RDONLY), ['cat', sys.argv[1]], {})"

CASES = [
    *(Case(f"party.{how}", Read(how, cat, ends=how in ("exec", "thread"))) for how in ("child", "vfork", "spawn", "twice", "exec", "thread")),
    Case("party.child_denied", Read("child", cat, by_denial=True)),
    Case("party.fork", Read("fork", cat)),
    Case("party.shell", Read("child", shell("exec /bin/cat FILE"))),
    Case("party.redirected", Read("child", shell("/bin/cat < FILE"))),
    Case("party.daemon", Read("child", shell("(setsid /bin/cat FILE > TREE/out &); while ! grep -qs . TREE/out && [ $((n += 1)) -lt 300 ]; do :; done; /bin/cat TREE/out"))),
    Case("party.handle", Read("child", lambda box, agent, file: ["/usr/bin/python3", "-c", BY_HANDLE, str(file)])),
    Case("party.own_again", Read("child", own)),
    Case("party.own_in_place", Read("exec", own, ends=True)),
    Case("party.own_by_shell", Read("child", lambda box, agent, file: shell(" ".join(own(box, agent, file)))(box, agent, file))),
    Case("party.own_copied", Read("child", lambda box, agent, file: [f"{box.tree}/agent", str(file), "fork", "-"], prepare=copy)),
    Case("party.own_interprets", Read("child", lambda box, agent, file: [f"{box.tree}/wrapper", "fork", "-"], prepare=script)),
    Case("party.link", Read("child", shell("ln -sf FILE TREE/link && /bin/cat TREE/link"))),
    Case("party.hard_link", Read("child", shell("ln -f FILE TREE/hard && /bin/cat TREE/hard"), by_denial=True)),
    Case("party.kept", Read("kept", lambda box, agent, file: ["/bin/sh", "-c", "cat <&3"])),
    Case("party.working_directory", Read("child", lambda box, agent, file: ["/bin/cat", f"/proc/PID/root{file}"])),
    *(Case(f"party.variable.{how}", Variable(how, say, ends=how in ("exec", "thread"))) for how in ("child", "vfork", "spawn", "twice", "exec", "thread")),
    Case("party.variable.script", Variable("child", say_by_script)),
    Case("party.variable.later", Variable("child", lambda box, agent, name: ["/bin/sh", "-c", f"sh -c 'exec sh -c \"echo \\${name}\"'"])),
    Case("party.variable.own_again", Variable("child", lambda box, agent, name: [agent.program, str(agent.allowed), "child", *say(box, agent, name)])),
    Case("party.variable.stack", Variable("child", lambda box, agent, name: ["/usr/bin/python3", "-c", BY_STACK, name])),
    Case("party.variable.handle", Variable("child", lambda box, agent, name: ["/usr/bin/python3", "-c", VARIABLE_BY_HANDLE, name])),
    Case("party.connect", Connect()),
    *(Case(f"party.reach.{mode}", Reach(mode, closed=True)) for mode in ("ptrace", "vm_readv", "mem_read", "environ")),
    Case("party.reach.pidfd_getfd", Reach("pidfd_getfd", closed=True, twin_mode="environ")),
    Case("party.reach.fd", Reach("fd", closed=True, twin_mode="environ")),
    *(Case(f"party.reach.{mode}", Reach(mode, "touch", closed=True)) for mode in ("seize", "vm_writev", "mem_write")),
    *(Case(f"party.reach.{mode}", Reach(mode, "touch")) for mode in ("prlimit", "setpriority", "oom")),
    *(Case(f"party.reach.{mode}", Reach(mode, "touch", USR1)) for mode in ("kill", "tkill", "tgkill", "sigqueue", "tgsigqueue", "setown")),
    *(Case(f"party.reach.{mode}", Reach(mode, "touch", USR1, twin_mode="kill")) for mode in ("killpg", "kill_group")),
    *(Case(f"party.reach.{mode}", Reach(mode, "touch", USR1, closed=True)) for mode in ("pidfd_signal", "setown_ex", "setown_file", "setown_group")),
]
