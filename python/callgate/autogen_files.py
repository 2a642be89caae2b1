"""Files that AutoGen's local executor has in its work directory: code blocks, and the module of user-defined functions.

This module only says what they are called and what they hold. It touches none of them.
"""
from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from autogen_core.code_executor import (
    Alias,
    CodeBlock,
    CodeResult,
    FunctionWithRequirements,
    FunctionWithRequirementsStr,
    ImportFromModule,
)
from pydantic import BaseModel

SUPPORTED = ["bash", "shell", "sh", "pwsh", "powershell", "ps1", "python"]
POWERSHELL = ("pwsh", "powershell", "ps1")


PROMPT = """You have access to the following user defined functions. \
They can be accessed from the module called `$module_name` by their function names.

For example, if there was a function called `foo` you could import it by writing `from $module_name import foo`

$functions"""


class Config(BaseModel):
    """The values that are dumped and loaded. `options` are those of Sandbox."""

    timeout: int = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    options: dict[str, Any] = {}


@dataclasses.dataclass
class CommandLineCodeResult(CodeResult):
    """As autogen_ext has it; importing that would ask for its docker extra."""

    code_file: str | None


@dataclasses.dataclass
class BlockFile:
    """The file of a block. `chosen`: the model named it, so only supervised commands touch it."""

    path: Path
    code: str
    program: str
    options: list[str]
    chosen: bool


def block_file(block: CodeBlock, directory: Path) -> BlockFile:
    """`directory` is absolute. LookupError: the language is not known; ValueError: the file named in the first line is
    outside `directory`. Links are not looked at: the rules decide about what they lead to."""
    language = block.language.lower()
    language = "python" if language == "py" else language
    if language not in SUPPORTED:
        raise LookupError(language)
    pip = r"(?m)^! ?pip install(?!.*-qqq)" if language == "python" else r"(?m)^pip install(?!.*-qqq)"
    code = re.sub(pip, lambda found: f"{found[0]} -qqq", block.code)
    first = code.split("\n", 1)[0]
    chosen = first.startswith("# filename:")
    if chosen:
        file = Path(os.path.normpath(directory / first.split(":")[1].strip()))
        if file == directory:
            raise ValueError(file)
        file.relative_to(directory)
    else:
        ending = "py" if language == "python" else "ps1" if language in POWERSHELL else language
        file = directory / f"tmp_code_{hashlib.sha256(code.encode()).hexdigest()}.{ending}"
    program, options = language if language != "shell" else "sh", []
    if language in POWERSHELL:
        program = next((one for one in ("pwsh", "powershell") if shutil.which(one)), "")
        if not program:
            raise RuntimeError("Powershell or pwsh is not installed. Please install one of them.")
        options = ["-NoProfile", "-ExecutionPolicy", "Bypass", "-File"]
    return BlockFile(file, code, program, options, chosen)


def _import(one: Any) -> str:
    def named(alias: Any) -> str:
        return f"{alias.name} as {alias.alias}" if isinstance(alias, Alias) else str(alias)
    if isinstance(one, ImportFromModule):
        return f"from {one.module} import {', '.join(map(named, one.imports))}"
    return f"import {named(one)}"


def _source(function: Any) -> str:
    if isinstance(function, FunctionWithRequirementsStr):
        return function.func
    code = inspect.getsource(function.func if isinstance(function, FunctionWithRequirements) else function)
    return code.split("\n", 1)[1] if code.startswith("@") else code


def functions_file(functions: Sequence[Callable[..., Any]]) -> str:
    """The module's text: imports that the functions ask for, then the functions without their decorator."""
    imports = {line: None for one in functions for line in map(_import, getattr(one, "global_imports", ()))}
    return "\n".join(imports) + "\n\n" + "".join(f"{_source(one)}\n\n" for one in functions)


def packages_of(functions: Sequence[Callable[..., Any]]) -> list[str]:
    return sorted({package for one in functions if isinstance(one, FunctionWithRequirements) for package in one.python_packages})


def stub(function: Any) -> str:
    """The function as a model is shown it: its signature and what it says of itself."""
    if isinstance(function, FunctionWithRequirementsStr):
        return stub(function.compiled_func)
    told = f'{indent(chr(34) * 3 + dedent(function.__doc__) + chr(34) * 3, "    ")}\n' if function.__doc__ else ""
    return f"def {function.__name__}{inspect.signature(function)}:\n{told}    ..."
