#!/usr/bin/python3
"""Puts generated text into a page, between its marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

usage: COMMAND | insert.py PAGE NAME                writes the page where it says something else
       COMMAND | insert.py --check PAGE NAME        1 where it does
       COMMAND | insert.py [--check] --markdown PAGE NAME    text of the page, not a block
"""
from __future__ import annotations

import pathlib
import re
import sys


def main() -> int:
    options = {one for one in sys.argv[1:-2] if one in ("--check", "--markdown")}
    if len(sys.argv) != 3 + len(options):
        sys.exit(__doc__)
    check = "--check" in options
    page, name = pathlib.Path(sys.argv[-2]), re.escape(sys.argv[-1])
    text = page.read_text()
    marks = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    if not marks.search(text):
        sys.exit(f"{page} has no marks for {name}")
    text_of_page = "--markdown" in options
    generated = "{1}{0}{1}".format(sys.stdin.read().rstrip() + "\n", "\n") if text_of_page else f"```\n{sys.stdin.read().rstrip()}\n```\n"
    written = marks.sub(lambda found: found[1] + generated + found[2], text, count=1)
    if check or written == text:
        return int(written != text)
    page.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
