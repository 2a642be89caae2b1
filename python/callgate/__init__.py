"""callgate: commands and code that somebody else wrote, run supervised.

    from callgate import Sandbox
    result = Sandbox(workdir="/work", connect=["api.example.org:443"], timeout=60).run("python3 main.py")
    print(result.text, result.hint())
"""
from __future__ import annotations

from .audit import Audit
from .errors import CallgateError, CallgateNotFound
from .process import Process
from .question import Answer, Question
from .result import Denial, Result
from .sandbox import Sandbox

__version__ = "0.1.0"
__all__ = ["Answer", "Audit", "CallgateError", "CallgateNotFound", "Denial", "Process", "Question", "Result", "Sandbox",
           "__version__"]
