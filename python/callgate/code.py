"""Turns source code into a command line. Nothing is quoted and no file is written: long code comes by descriptor."""
from __future__ import annotations

import os
import pwd
import sys

from .errors import CallgateError
from .options import LONGEST_ARGUMENT, MemoryFiles

NAMES = {"python": "python", "python3": "python", "py": "python", "bash": "bash", "shell": "bash", "sh": "sh",
         "node": "node", "javascript": "node", "js": "node"}
# Each of these reads the program from descriptor {n} and becomes it.
LONG = {"python": 'exec(compile(open({n}, "rb").read(), "<code>", "exec"))', "bash": 'eval "$(cat <&{n})"',
        "sh": 'eval "$(cat /dev/fd/{n})"', "node": 'eval(require("fs").readFileSync({n}, "utf8"))'}
PROGRAMS = {"python": [sys.executable or "python3", "-c"], "bash": ["bash", "-c"], "sh": ["sh", "-c"], "node": ["node", "-e"]}
# Profiles allow these anyway; more rules there would only make the plan longer.
SYSTEM = ("/usr", "/bin", "/lib", "/opt")


def canonical(language: str) -> str:
    try:
        return NAMES[language.lower()]
    except KeyError:
        raise CallgateError(f"unknown language {language!r}; known: {', '.join(sorted(NAMES))}") from None


def command(language: str, code: str, files: MemoryFiles) -> tuple[list[str], list[str]]:
    """The command that runs `code`, and the options of callgate that it needs."""
    name = canonical(language)
    if "\0" in code:
        raise CallgateError("the code holds a NUL byte; no interpreter takes it")
    options = interpreter() if name == "python" else []
    encoded = code.encode()
    if len(encoded) > LONGEST_ARGUMENT:
        number = files.add("code", encoded)
        return [*PROGRAMS[name], LONG[name].format(n=number)], [*options, f"--pass-fd={number}"]
    return [*PROGRAMS[name], code], options


def interpreter() -> list[str]:
    """Options that let the Python that runs this program run there, too."""
    return [f"--execute={one}" for one in interpreter_places(sys.executable)] if sys.executable else []


def interpreter_places(executable: str) -> list[str]:
    """Directories of an interpreter that no profile covers: its environment and the installation behind it."""
    places = {os.path.dirname(os.path.dirname(os.path.realpath(executable)))}
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(executable)))
    if os.path.abspath(executable) == os.path.abspath(sys.executable or ""):
        places |= {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    elif os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        places.add(prefix)
    narrowed = {part for one in places for part in _parts(one, executable)}
    return [one for one in sorted(narrowed) if one != "/" and not any(one == top or one.startswith(top + "/") for top in SYSTEM)]


def _parts(place: str, executable: str) -> list[str]:
    """`place`, or what an interpreter has there where the user's home lies in it: a Python built with --prefix=$HOME must not
    open the home."""
    homes = {os.path.realpath(os.path.expanduser(one)) for one in ("~", f"~{_account()}")}
    if not any(f"{home}/".startswith(f"{os.path.realpath(place)}/") for home in homes):
        return [place]
    parts = [os.path.join(place, one) for one in ("bin", "lib", "lib64", "pyvenv.cfg")]
    return [one for one in (*parts, os.path.realpath(executable)) if os.path.exists(one)]


def _account() -> str:
    """The name of the user's account, whose home may be another than HOME says; empty if it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
