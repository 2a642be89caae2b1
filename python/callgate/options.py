"""Turns the options of Sandbox into options of `callgate run`."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path]]
Rules = Union[Path, Mapping[str, Any], Sequence[Union[Path, Mapping[str, Any]]]]
Amount = Union[int, str]
Seconds = Union[int, float]

# An argument of exec may be 128 KiB long; longer texts go into memory files.
LONGEST_ARGUMENT = 96 * 1024
# callgate sets NAME for the command alone by this. Under its own name a value would be callgate's, too: of rules that follow
# the user's settings, and of programs that callgate starts.
SET = "CALLGATE_SETENV_"


@dataclasses.dataclass(frozen=True)
class Given:
    """The options of a Sandbox as they were given (see `Sandbox`)."""

    workdir: Path | None = None
    profile: None | str | Sequence[str] = None
    rules: Rules | None = None
    read: Paths = ()
    write: Paths = ()
    execute: Paths = ()
    connect: str | Sequence[str] = ()
    bind: str | Sequence[str] = ()
    deny: Paths = ()
    env: Mapping[str, str] | None = None
    keep_env: bool | str | Sequence[str] = ()
    memory: Amount | None = None
    processes: int | None = None
    audit: None | bool | Path = None
    ask: str = "never"
    background: str = "end"
    options: Sequence[str] = ()


class MemoryFiles:
    """Texts that the program reads by descriptor. They leave nothing behind, even if a process is killed."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def add(self, name: str, content: bytes) -> int:
        descriptor = os.memfd_create(name)
        self.descriptors.append(descriptor)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view):]
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def several(value: Any) -> list[Any]:
    """Returns a list: of the value itself if it is a text, a path or a mapping, else of its elements."""
    return [value] if isinstance(value, (str, os.PathLike, Mapping)) else list(value)


def milliseconds(seconds: Seconds) -> int:
    if not seconds > 0:
        raise ValueError(f"timeout is {seconds}; expected more than 0 seconds, or None for no limit")
    return max(1, round(seconds * 1000))


def rule_arguments(given: Given, files: MemoryFiles) -> list[str]:
    """The options that say what is allowed. Long rule sets go into `files`."""
    arguments = [f"--profile={name}" for name in several(given.profile or ())]
    for one in several(given.rules) if given.rules is not None else []:
        if not isinstance(one, Mapping):
            arguments.append(f"--rules={os.fspath(one)}")
            continue
        text = json.dumps(one)
        if len(text) <= LONGEST_ARGUMENT:
            arguments.append(f"--rules-json={text}")
        else:
            arguments.append(f"--rules=/proc/self/fd/{files.add('rules', text.encode())}")
    for option, value in (("read", given.read), ("write", given.write), ("execute", given.execute), ("deny", given.deny),
                          ("connect", given.connect), ("bind", given.bind)):
        arguments += [f"--{option}={os.fspath(one)}" for one in several(value)]
    return arguments


def run_arguments(given: Given, files: MemoryFiles) -> list[str]:
    """The options that are the same for every run of a Sandbox."""
    arguments = rule_arguments(given, files)
    if given.workdir is not None:
        arguments.append(f"--workdir={os.fspath(given.workdir)}")
    if given.memory is not None:
        arguments.append(f"--memory={given.memory}")
    if given.processes is not None:
        arguments.append(f"--processes={given.processes}")
    if given.audit is None or given.audit is False:
        arguments.append("--no-audit")
    elif given.audit is not True:
        arguments.append(f"--audit={os.fspath(given.audit)}")
    if given.background != "end":
        arguments.append(f"--background={given.background}")
    return [*arguments, *given.options]


def environment(given: Given, more: Mapping[str, str] | None, by_option: bool = False) -> tuple[list[str], dict[str, str]]:
    """Options that name the command's variables, and the environment of callgate.

    Values go through callgate's environment, where other users cannot see them, and have no meaning for callgate itself.
    With `by_option` they go by option, for a line that the caller starts. The caller's CALLGATE_* are left out: the Sandbox
    alone says what is allowed.
    """
    arguments: list[str] = []
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CALLGATE_")}
    if given.keep_env is True:
        arguments.append("--keep-env")
    elif given.keep_env:
        arguments += [f"--env={name}" for name in several(given.keep_env)]
    for name, value in {**(given.env or {}), **(more or {})}.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"env: {name!r} cannot be a variable: names have no '=', and nothing has NUL bytes")
        if by_option:
            arguments.append(f"--env={name}={value}")
        else:
            variables[SET + name] = value
    return arguments, variables
