"""mini-swe-agent: `environment_class: callgate.minisweagent.CallgateEnvironment` in its settings, or the class itself."""
from __future__ import annotations

import platform
from typing import Any

from minisweagent.environments.local import LocalEnvironment
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, ConfigDict

from .adapter import choose, lateness, whole
from .errors import CallgateError
from .sandbox import Sandbox

__all__ = ["CallgateEnvironment", "CallgateEnvironmentConfig"]


class CallgateEnvironmentConfig(BaseModel):
    """The local environment's own words; all others are words of the Sandbox."""

    model_config = ConfigDict(extra="allow")
    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30


class CallgateEnvironment(LocalEnvironment):
    """`cwd` is the work directory. Only `config.env`, not this program's environment, is told to the model's prompts."""

    def __init__(self, *, sandbox: Sandbox | None = None, config_class: type = CallgateEnvironmentConfig, **options: Any) -> None:
        super().__init__(config_class=config_class, **options)
        words = {**(self.config.model_extra or {}), "env": self.config.env}
        if self.config.cwd:
            words["workdir"] = self.config.cwd
        self.sandbox = choose(sandbox, words)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: float | None = None) -> dict[str, Any]:
        limit = timeout or self.config.timeout
        try:
            result = self.sandbox.run(["sh", "-c", action.get("command", "")], cwd=cwd or None, timeout=limit, merge_stderr=True)
        except CallgateError as error:
            return failed("", error, f"An error occurred while executing the command: {error}")
        text = whole(result, result.text, self.sandbox.max_output)
        if result.timed_out:
            told = f"An error occurred while executing the command: it {lateness(result, limit)}"
            return failed(text, TimeoutError(told), told, "TimeoutExpired")
        output = {"output": text, "returncode": result.exit_code, "exception_info": ""}
        self._check_finished(output)
        return output

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Variables for templates. They leave out this program's environment, which may hold secrets."""
        merged: dict[str, Any] = recursive_merge(self.config.model_dump(), platform.uname()._asdict(), more)
        return merged


def failed(output: str, error: Exception, told: str, kind: str = "") -> dict[str, Any]:
    return {"output": output, "returncode": -1, "exception_info": told,
            "extra": {"exception_type": kind or type(error).__name__, "exception": str(error)}}
