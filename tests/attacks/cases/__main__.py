"""The corpus from a shell, without pytest: `PYTHONPATH=tests/e2e:tests/attacks python3 -m cases [options] [PATTERN...]`.

PATTERN is a case's name with * and ?, or @TAG. CALLGATE and PROGRAMS name the program and the directory of attack programs, as
for the tests. Prints the table; exits 1 where a case is not as it must be.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import cases
import harness
from cases import table
from cases.case import run_case


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cases", description="Runs attacks with control, supervised and twin.")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="case names (net.*) or tags (@abi); all for none")
    parser.add_argument("--list", action="store_true", help="only print the names, paragraphs and tags")
    parser.add_argument("--user", choices=["root", "user"], help="only as this one")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the supervising process")
    parser.add_argument("--option", action="append", default=[], help="one more option of callgate run")
    parser.add_argument("--off", default="", metavar="CHECK[,CHECK]", help="checks to leave out (CALLGATE_SWITCHED names the build)")
    parser.add_argument("--container", default="", metavar="PROFILE", help="within an imitated container: docker, podman (prog_container.c)")
    parser.add_argument("--abi", type=int, help="an older Landlock ABI (CALLGATE_SWITCHED)")
    parser.add_argument("--runs", default="control,held,twin", help="which of the three")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there, one object per line")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    chosen = cases.select(given.patterns)
    if given.list:
        for case in chosen:
            print(f"{case.name:40} {case.paragraph:36} {' '.join(sorted(case.all_tags))}")
        return 0
    environment = dict(one.split("=", 1) for one in given.env) or None
    stage = harness.Stage()
    results = []
    try:
        users = [one for kind, one in stage.users().items() if given.user in (None, kind)]
        for case in chosen:
            for user in users:
                result = run_case(case, stage, user, environment=environment, options=given.option,
                                  switch_off=given.off, abi=given.abi, container=given.container, runs=given.runs.split(","))
                results.append(result)
                print(table.line(result.row()), flush=True)
                if not result.good:
                    print(result.explain(), flush=True)
    finally:
        stage.close()
    print(table.total(results))
    if given.json:
        given.json.write_text("".join(json.dumps({
            "case": one.case, "paragraph": one.paragraph, "user": one.user, "impossible": one.impossible, "good": one.good,
            **{name: {"good": outcome.good, "shown": outcome.shown} for name, outcome in one.outcomes.items()}}) + "\n" for one in results))
    return 0 if all(one.good for one in results) else 1


if __name__ == "__main__":
    if "CALLGATE" not in os.environ:
        sys.exit("cases: set CALLGATE and PROGRAMS")
    sys.exit(main())
