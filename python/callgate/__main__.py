"""`callgate VERB …`, the package's script, is the callgate program; `doctor` first says which one, and of which package.

`python -P -m callgate VERB …` is the same. Without -P (or -I before Python 3.11) Python looks for the package in the current
directory first, where a run may have left one.
"""
from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import __version__, binary
from .errors import CallgateError


def main(arguments: list[str] | None = None) -> NoReturn:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        named = os.environ.get("CALLGATE", "")  # within a run it is 1
        program = binary.find(None if named in ("", "1") else named)
        if words[:1] == ["doctor"] and "--json" not in words:
            version = ".".join(map(str, binary.version(program)))
            print(f"package   {__version__}, Python {sys.version.split()[0]}\nprogram   {program}, {version}", flush=True)
        os.execv(program, ["callgate", *words])
    except (CallgateError, OSError) as error:
        print(f"callgate: {error}", file=sys.stderr)
        raise SystemExit(125) from None


if __name__ == "__main__":
    main()
