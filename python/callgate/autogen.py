"""AutoGen: `CallgateCommandLineCodeExecutor`, in place of the local command-line executor. Needs autogen-core only.

Arguments, results, file names, warnings and messages are the same. It also takes the options of Sandbox, and those
proposed for a sandboxed executor: fs_read, fs_write, net_allow, max_memory_mb, max_procs.
"""
from __future__ import annotations

import asyncio
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from types import SimpleNamespace
from typing import Any, ClassVar

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor
from typing_extensions import Self

from . import autogen_files as files
from . import policy
from .adapter import MOST, Told, choose, merged
from .autogen_files import PROMPT, SUPPORTED, BlockFile, CommandLineCodeResult, Config
from .code import interpreter_places
from .held import HeldDirectory
from .made import MadeDirectory
from .sandbox import Sandbox

__all__ = ["CallgateCommandLineCodeExecutor", "CommandLineCodeResult"]
WRITE = 'cat > "$1"'
PROPOSED = ("fs_read", "fs_write", "net_allow", "max_memory_mb", "max_procs")


class CallgateCommandLineCodeExecutor(CodeExecutor, Component[Config]):
    component_config_schema = Config
    component_provider_override = "callgate.autogen.CallgateCommandLineCodeExecutor"
    SUPPORTED_LANGUAGES: ClassVar[list[str]] = SUPPORTED
    FUNCTION_PROMPT_TEMPLATE: ClassVar[str] = PROMPT

    def __init__(self, timeout: int = 60, work_dir: Path | str | None = None, functions: Sequence[Callable[..., Any]] = (),
                 functions_module: str = "functions", cleanup_temp_files: bool = True,
                 virtual_env_context: SimpleNamespace | None = None, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        if timeout < 1:
            raise ValueError("Timeout must be greater than or equal to 1.")
        if not functions_module.isidentifier():
            raise ValueError("Module name must be a valid Python identifier")
        self._work_dir = Path(work_dir) if work_dir is not None else None
        if self._work_dir is not None:
            if self._work_dir.resolve() == Path.cwd().resolve():
                warnings.warn("Using the current directory as work_dir is deprecated.", DeprecationWarning, stacklevel=2)
            self._work_dir.mkdir(exist_ok=True)
        self._temp_dir: MadeDirectory | None = None
        self._resolved: Path | None = None
        self.timeout, self.functions_module, self.cleanup_temp_files = timeout, functions_module, cleanup_temp_files
        self._functions, self._ready, self._venv = functions, not functions, virtual_env_context
        self._options, self._given = options, sandbox
        rest = {name: value for name, value in options.items() if name not in PROPOSED}
        proposed = policy.from_autogen(**{name: options[name] for name in PROPOSED if name in options})
        self._sandbox = choose(sandbox, merged(rest, proposed))

    @property
    def work_dir(self) -> Path:
        """The work directory; a temporary one is made at the first use where none was given."""
        if self._work_dir is not None:
            return self._work_dir
        if self._temp_dir is None:
            self._temp_dir = MadeDirectory()
        return Path(self._temp_dir.name)

    def format_functions_for_prompt(self, prompt_template: str = PROMPT) -> str:
        return Template(prompt_template).substitute(module_name=self.functions_module,
                                                    functions="\n\n".join(map(files.stub, self._functions)))

    async def execute_code_blocks(self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken) -> CommandLineCodeResult:
        if not self._ready:
            await self._set_up(cancellation_token)
        return await self._execute(code_blocks, cancellation_token)

    async def _execute(self, blocks: list[CodeBlock], token: CancellationToken) -> CommandLineCodeResult:
        told, status, written = Told(self._sandbox.max_output), 0, list[BlockFile]()
        late = ""
        with HeldDirectory(self._root()) as place:
            for block in blocks:
                try:
                    file = files.block_file(block, place.path)
                except LookupError as unknown:
                    status, late = 1, f"\nunknown language {unknown.args[0]}"
                    break
                except ValueError:
                    return CommandLineCodeResult(1, "Filename is not in the workspace", None)
                status, late = await self._write(file, place, token, told)
                if status == 0:
                    written.append(file)
                    program = [self._python()] if file.program == "python" else [file.program, *file.options]
                    status, late = await self._run([*program, str(file.path)], token, told)
                if status != 0:
                    break
            if self.cleanup_temp_files:
                for file in written:
                    await self._remove(file, place)
        return CommandLineCodeResult(status, told.text(late), str(written[0].path) if written else None)

    def _root(self) -> Path:
        """The work directory, resolved once: later a run may have put a link in its place."""
        if self._resolved is None:
            self._resolved = self.work_dir.resolve()
        return self._resolved

    async def _write(self, file: BlockFile, place: HeldDirectory, token: CancellationToken, told: Told) -> tuple[int, str]:
        """As `_run`. A name that the model chose is written under the rules: an earlier block may have left a link there."""
        if file.chosen:
            return await self._run(["sh", "-c", WRITE, "sh", str(file.path)], token, told, file.code.encode())
        place.write(file.path.name, file.code)
        return 0, ""

    async def _remove(self, file: BlockFile, place: HeldDirectory) -> None:
        why = ""
        if file.chosen:
            told = Told(MOST)
            status, _ = await self._run(["rm", "-f", "--", str(file.path)], CancellationToken(), told)
            why = told.text().strip() if status != 0 else ""
        else:
            try:
                place.unlink(file.path.name)
            except OSError as error:
                why = str(error)
        if why:
            logging.error(f"Failed to delete temporary file {file.path}: {why}")

    async def _run(self, command: list[str], token: CancellationToken, told: Told, input: bytes | None = None) -> tuple[int, str]:
        """Exit status, and what the framework says last of a run that was ended. `told` gets stderr, then stdout."""
        env = None
        if self._venv is not None:
            env = {"PATH": f"{os.path.abspath(self._venv.bin_path)}{os.pathsep}{os.environ['PATH']}"}
        places = [*self._sandbox.paths("execute"), *interpreter_places(self._python())]
        sandbox = self._sandbox.with_options(workdir=self._root(), execute=places)
        task = asyncio.ensure_future(sandbox.arun(command, input=input, env=env, timeout=self.timeout))
        token.link_future(task)
        try:
            result = await task
        except asyncio.CancelledError:
            if not token.is_cancelled():
                raise  # this task itself was cancelled, not the code alone
            return 125, "\nCancelled"
        told.add(result)
        return (124, "\nTimeout") if result.timed_out else (result.exit_code, "")

    def _python(self) -> str:
        return os.path.abspath(self._venv.env_exe) if self._venv is not None else sys.executable

    async def _set_up(self, token: CancellationToken) -> None:
        """Writes the functions' module, installs what they need, and loads it once."""
        content = files.functions_file(self._functions)
        with HeldDirectory(self._root()) as place:
            place.write(f"{self.functions_module}.py", content)
        if packages := files.packages_of(self._functions):
            logging.info("Ensuring packages are installed in executor.")
            told = Told(MOST)
            status, _ = await self._run([self._python(), "-m", "pip", "install", *packages], token, told)
            if status != 0:
                known = {124: "Pip install timed out", 125: "Pip install was cancelled"}
                raise ValueError(known.get(status, f"Pip install failed. {told.text()}"))
        result = await self._execute([CodeBlock(content, "python")], token)
        if result.exit_code != 0:
            raise ValueError(f"Functions failed to load: {result.output}")
        self._ready = True

    async def start(self) -> None:
        """Makes the work directory."""
        _ = self.work_dir

    async def stop(self) -> None:
        """Removes the work directory if it was a temporary one."""
        if self._temp_dir is not None:
            self._temp_dir.cleanup()
            self._temp_dir = self._resolved = None

    async def restart(self) -> None:
        warnings.warn("Restarting local command line code executor is not supported. No action is taken.", stacklevel=2)

    def _to_config(self) -> Config:
        if self._functions:
            logging.info("Functions will not be included in serialized configuration")
        if self._venv:
            logging.info("Virtual environment context will not be included in serialized configuration")
        if self._given is not None or self._sandbox.on_ask is not None:
            raise ValueError("an executor with a Sandbox object or on_ask cannot be dumped; give the Sandbox's words instead")
        return Config(timeout=self.timeout, work_dir=str(self.work_dir), functions_module=self.functions_module,
                      cleanup_temp_files=self.cleanup_temp_files, options=self._options)

    @classmethod
    def _from_config(cls, config: Config) -> Self:
        words = config.model_dump()
        return cls(**words.pop("options"), **words)
