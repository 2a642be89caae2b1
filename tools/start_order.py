#!/usr/bin/python3
"""Writes cmake/start_order.ld: which functions a start calls, in that order, so that the linker lays them
together.

    tools/start_order.py [build/callgate]

The kernel maps a program's pages as they are touched, sixteen neighbours at once, and unmaps each at the end.
What one start calls is a seventh of the program and lay all over it: nearly all of it was mapped for that.

Every instruction of `callgate run -- /bin/true` is looked at by ptrace(2) (some minutes), supervisor, guardian
and agent until the command begins. A name that is no longer in the program does no harm, and a new function
lies behind the others: to be run again when the way of a start has changed much. x86-64 only; what is written
serves every architecture.
"""

import bisect
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACEME, PEEKUSER, SINGLESTEP, DETACH, SETOPTIONS = 0, 3, 9, 17, 0x4200
FOLLOW_ALL = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000  # fork, vfork, clone, exec; who is traced ends with us
EXEC = 4
RIP = 16 * 8  # in struct user_regs_struct
EVERY_CHILD = 0x40000000  # __WALL
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def mapped_at(pid: int, program: str) -> int:
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith(program):
            return int(line.split("-")[0], 16)
    raise SystemExit(f"start_order: {program} is not mapped")


def addresses(program: str, place: str) -> list[int]:
    """Of the instructions, each once, as they come. The run works, and keeps its log, in `place`."""
    first = os.fork()
    if first == 0:
        LIBC.ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.chdir(place)
        os.execve(program, [program, "run", "--", "/bin/true"], {**os.environ, "XDG_STATE_HOME": place})
    os.waitpid(first, 0)
    LIBC.ptrace(SETOPTIONS, first, None, FOLLOW_ALL)
    LIBC.ptrace(SINGLESTEP, first, None, None)
    base, seen = 0, {}
    while True:
        try:
            thread, status = os.waitpid(-1, EVERY_CHILD)
        except ChildProcessError:
            break
        if not os.WIFSTOPPED(status):
            if thread == first and status != 0:
                raise SystemExit(f"start_order: the run ended with status {status}")
            continue
        stopped, event = os.WSTOPSIG(status), status >> 16
        passed = 0
        if event == EXEC and base != 0:  # the command
            LIBC.ptrace(DETACH, thread, None, None)
            continue
        if event == EXEC:
            base = mapped_at(thread, program)
        elif event == 0 and stopped == signal.SIGTRAP:
            seen.setdefault(LIBC.ptrace(PEEKUSER, thread, RIP, None) & (2**64 - 1))
        elif event == 0 and stopped != signal.SIGSTOP:
            passed = stopped
        LIBC.ptrace(SINGLESTEP, thread, None, passed)
    return [address - base for address in seen if 0 <= address - base < 1 << 32]


def functions(program: str) -> list[tuple[int, int, list[str]]]:
    """Where each begins and ends, and its names, sorted."""
    found: dict[int, tuple[int, list[str]]] = {}
    listed = subprocess.run(["nm", "-S", program], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        fields = line.split()
        if len(fields) != 4 or fields[2] not in "tTwW" or fields[3].endswith(".cold"):
            continue
        start, size = int(fields[0], 16), int(fields[1], 16)
        found.setdefault(start, (size, []))[1].append(fields[3].split("@")[0])
    return [(start, start + size, sorted(names)) for start, (size, names) in sorted(found.items())]


def section(name: str) -> str:
    """Where compilers put it: what runs before main, and main, apart."""
    return f".text.startup.{name}" if name == "main" or name.startswith("_GLOBAL__sub_I_") else f".text.{name}"


def main() -> None:
    program = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "callgate").resolve())
    known = functions(program)
    starts = [start for start, _, _ in known]
    called: dict[str, None] = {}
    with tempfile.TemporaryDirectory() as place:
        instructions = addresses(program, place)
    for address in instructions:
        start, end, names = known[max(bisect.bisect_right(starts, address) - 1, 0)]
        if start <= address < end:
            called.update(dict.fromkeys(names))
    lines = [
        "/* Written by tools/start_order.py: what a start calls, as it calls it. */",
        "SECTIONS",
        "{",
        "  .text.start :",
        "  {",
        *(f"    *({section(name)})" for name in called),
        "  }",
        "}",
        "INSERT BEFORE .text;",
    ]
    (ROOT / "cmake" / "start_order.ld").write_text("\n".join(lines) + "\n")
    print(f"start_order: {len(called)} functions")


if __name__ == "__main__":
    main()
