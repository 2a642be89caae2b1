"""Translates options of other sandboxes into those of Sandbox: `Sandbox(**policy.from_sandlock(fs_readable=["/data"]))`.

Each function takes the options of one source and returns keyword arguments. An option that cannot be kept is an error.
"""
from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import CallgateError
from .options import Path, several


def from_autogen(*, fs_read: Sequence[Path] = (), fs_write: Sequence[Path] = (), net_allow: Sequence[str] = (),
                 max_memory_mb: int | None = None, max_procs: int | None = None,
                 work_dir: Path | None = None) -> dict[str, Any]:
    """Options of the sandboxed executor that was proposed for AutoGen. An empty `net_allow` (HOST:PORT) means no network."""
    words: dict[str, Any] = {"read": several(fs_read), "write": several(fs_write), "connect": several(net_allow)}
    return _limited(words, max_memory_mb, max_procs, work_dir)


def from_crewai(*, sandbox_fs_read: Sequence[Path] = (), sandbox_fs_write: Sequence[Path] = (),
                sandbox_net_allow: Sequence[str] = (), sandbox_max_memory_mb: int | None = None,
                sandbox_max_procs: int | None = None, execution_backend: str = "callgate") -> dict[str, Any]:
    """Settings that were proposed for CrewAI's code tools; each tool has its own."""
    if execution_backend != "callgate":
        raise CallgateError(f"execution_backend is {execution_backend!r}; this one is 'callgate'")
    return from_autogen(fs_read=sandbox_fs_read, fs_write=sandbox_fs_write, net_allow=sandbox_net_allow,
                        max_memory_mb=sandbox_max_memory_mb, max_procs=sandbox_max_procs)


def from_sandlock(*, fs_readable: Sequence[Path] = (), fs_writable: Sequence[Path] = (), net_allow: Sequence[str] = (),
                  max_memory: int | str | None = None, max_processes: int | None = None,
                  clean_env: bool = True, env: Mapping[str, str] | None = None,
                  cwd: Path | None = None) -> dict[str, Any]:
    """Options of sandlock's Sandbox. Here the system may be read as well as the listed paths."""
    words: dict[str, Any] = {"read": several(fs_readable), "write": several(fs_writable), "connect": several(net_allow)}
    if not clean_env:
        words["keep_env"] = True
    if env:
        words["env"] = dict(env)
    if max_memory is not None:
        words["memory"] = max_memory
    return _limited(words, None, max_processes, cwd)


def from_tool_safety(*, allow_network: bool = False, allow_filesystem: bool = False,
                     max_memory: int | str | None = None, timeout: float | None = None) -> dict[str, Any]:
    """AutoGen's ToolSafetyPolicy. `allow_network` keeps private and link-local ranges closed (profile `network`);
    `allow_filesystem` opens everything but secrets (profile `open`), with the network only if that is allowed, too."""
    words: dict[str, Any] = {"profile": ["agent"]}
    if allow_filesystem:
        words = {"profile": ["agent"], "write": ["/"]}
    if allow_network:
        words["profile"] = [*words["profile"], "network"]
    if max_memory is not None:
        words["memory"] = max_memory
    if timeout is not None:
        words["timeout"] = timeout
    return words


def _limited(words: dict[str, Any], megabytes: int | None, processes: int | None, workdir: Path | None) -> dict[str, Any]:
    for name, value in (("max_memory_mb", megabytes), ("max_procs", processes)):
        if value is not None and (not math.isfinite(value) or value < 1):
            raise CallgateError(f"{name} is {value}; expected 1 or more")
    for one in words["connect"]:
        if ":" not in one:
            raise CallgateError(f"net_allow has {one!r}; expected HOST:PORT")
    if megabytes is not None:
        words["memory"] = f"{megabytes}M"
    if processes is not None:
        words["processes"] = processes
    if workdir is not None:
        words["workdir"] = os.fspath(workdir)
    return words
