"""smolagents: `CodeAgent(executor=CallgatePythonExecutor(…))`: the agent's Python, stateful, in one supervised process."""
from __future__ import annotations

import sys
from typing import Any

from smolagents import AgentError
from smolagents.local_python_executor import DEFAULT_MAX_LEN_OUTPUT, CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor

from .adapter import choose
from .code import interpreter_places
from .errors import CallgateError
from .result import CUT, Denial, ended_by, fitted, shown_to_program
from .sandbox import Sandbox
from .smolagents_session import Session

__all__ = ["CallgatePythonExecutor"]
SETTING_UP = 60.0  # seconds for each part of what an agent is given: no step of the model
NO_PICKLE = ("allow_pickle=True is refused: the sandboxed step chooses the bytes, and to unpickle them would run its code "
             "outside the sandbox. Answer with what JSON can hold, or write a file in the work directory and name it.")
LOST = "Variables that steps had set are lost; the tools and the given variables are there again."


class CallgatePythonExecutor(RemotePythonExecutor):
    """Takes the words of the Sandbox. `timeout` (60 s) is that of each step, and ends the process with its state.
    `max_output` bounds the text of each step, in bytes; the default is the framework's own bound. `allow_pickle=True` is
    refused: a step chooses the bytes of its answer, and bytes that are unpickled run code in this program."""

    def __init__(self, sandbox: Sandbox | None = None, *, additional_imports: list[str] | None = None, logger: Any = None,
                 allow_pickle: bool = False, timeout: float = 60.0, max_output: int = DEFAULT_MAX_LEN_OUTPUT,
                 **options: Any) -> None:
        if allow_pickle:
            raise ValueError(NO_PICKLE)
        super().__init__(additional_imports or [], logger or AgentLogger(level=LogLevel.ERROR))
        chosen = choose(sandbox, options)
        places = [*chosen.paths("execute"), *interpreter_places(python())]
        self.sandbox, self.timeout, self.max_output = chosen.with_options(execute=places, timeout=None), timeout, max_output
        self._session: Session | None = None
        self._recorded: list[str] | None = None
        self._restoring = False
        self._tools: dict[str, None] = {}  # code that defines them, in order
        self._variables: dict[str, Any] = {}
        if self.additional_imports:
            self.installed_packages = self.install_packages(self.additional_imports)

    def send_tools(self, tools: dict[str, Any]) -> None:
        """As the framework's. What it runs is kept, so that a new process has the tools, too."""
        self._recorded = recorded = list[str]()
        try:
            super().send_tools(tools)
        finally:
            self._recorded = None
        self._tools.update(dict.fromkeys(code for code in recorded if not code.startswith("!")))

    def send_variables(self, variables: dict[str, Any]) -> None:
        super().send_variables(variables)
        self._variables.update(variables or {})

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        if self._recorded is not None and not self._restoring:
            self._recorded.append(code)
        session = self._ready()
        try:
            told = session.step(code, self.timeout if self._recorded is None and not self._restoring else max(self.timeout, SETTING_UP))
        except (OSError, ValueError) as error:
            raise AgentError(self._ended(session, error), self.logger) from error
        denials, cut = session.process.log_denials(), [CUT] if session.cut else []
        if told["error"] is None:
            logs = fitted(session.text, self.max_output, shown_to_program(denials), cut)
            return CodeOutput(output=told["value"], logs=logs, is_final_answer=False)
        name, value, trace = told["error"]
        if name == self.FINAL_ANSWER_EXCEPTION:
            logs = fitted(session.text, self.max_output, shown_to_program(denials), cut)
            return CodeOutput(output=self._deserialize_final_answer(value), logs=logs, is_final_answer=True)
        raise AgentError(self._failed(session.text, denials, cut, f"Executing code yielded an error:\n{name}\n{value}\n{trace}"),
                         self.logger)

    def _ready(self) -> Session:
        """The session; a new one has the tools and variables that were given to an earlier one."""
        if self._restoring and self._session is not None:
            return self._session
        if self._session is None or self._session.process.poll() is not None:
            self.cleanup()
            self._session, self._restoring = Session(self.sandbox, python(), self.max_output), True
            try:
                for code in self._tools:
                    self.run_code_raise_errors(code)
                super().send_variables(self._variables)
            finally:
                self._restoring = False
        return self._session

    def _ended(self, session: Session, error: Exception) -> str:
        """Ends the session. Returns what its step had written, and why it is over."""
        why = str(error)
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            session.await_end()
            why = f"the interpreter ended with exit status {session.process.returncode}"
        denials = session.process.log_denials()
        self.cleanup()
        if not isinstance(error, (TimeoutError, ValueError)):
            try:
                session.process.check()
            except CallgateError as reason:
                return str(reason)
        more = [*ended_by(session.process.report), *([CUT] if session.cut else [])]
        return self._failed(session.text, denials, more, f"The step was ended: {why}. {LOST}")

    def _failed(self, text: str, denials: list[Denial], more: list[str], reason: str) -> str:
        """The text of a step and the reason behind it, which is cut last."""
        half = self.max_output // 2
        if len(reason) > half:
            reason = f"{reason[:half // 2]}\n...\n{reason[-half // 2:]}"
        return fitted(text, self.max_output - len(reason.encode("utf-8", "replace")) - 1, denials, more) + f"\n{reason}"

    def cleanup(self) -> None:
        """Ends the process and all that it started."""
        if self._session is not None:
            session, self._session = self._session, None
            session.end()

    def delete(self) -> None:
        self.cleanup()


def python() -> str:
    """The interpreter of this program, so that its packages are there."""
    return sys.executable
