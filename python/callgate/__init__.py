"""callgate: commands and code that somebody else wrote, run supervised.

    from callgate import Sandbox
    result = Sandbox(workdir="/work", connect=["api.example.org:443"], timeout=60).run("python3 main.py")
    print(result.text, result.hint())
"""
from __future__ import annotations

import sys

# `python -m callgate` puts the current directory before everything that is imported from here on. It is a project's,
# whose files a model may have written.
_words = getattr(sys, "orig_argv", [])
_isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
if sys.argv[:1] == ["-m"] and ("-m", __name__) in zip(_words, _words[1:]) and not _isolated:
    del sys.path[0]

from .audit import Audit
from .errors import CallgateError, CallgateNotFound, WorkerLost
from .job import Job, JobFuture
from .pool import Pool
from .process import Process
from .question import Answer, Question
from .result import Denial, Result
from .sandbox import Sandbox

__version__ = "0.2.0"
__all__ = ["Answer", "Audit", "CallgateError", "CallgateNotFound", "Denial", "Job", "JobFuture", "Pool", "Process", "Question",
           "Result", "Sandbox", "WorkerLost", "__version__"]
