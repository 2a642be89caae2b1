"""Prints the nanoseconds of one block of bash in AutoGen's own class (`native`) or in the adapter (`callgate`).

usage: PYTHON bench/autogen_blocks.py native|callgate COUNT DIRECTORY CALLGATE

PYTHON is that of the environment which tools/venvs.sh made for AutoGen.
"""
from __future__ import annotations

import asyncio
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.dont_write_bytecode = True
warnings.simplefilter("ignore")  # AutoGen's class warns that it runs code unconfined

from autogen_core import CancellationToken  # noqa: E402
from autogen_core.code_executor import CodeBlock  # noqa: E402


def executor(kind: str, directory: str, callgate: str):
    if kind == "native":
        from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
        return LocalCommandLineCodeExecutor(work_dir=directory)
    from callgate.autogen import CallgateCommandLineCodeExecutor
    return CallgateCommandLineCodeExecutor(work_dir=directory, binary=callgate)


async def measure(kind: str, count: int, directory: str, callgate: str) -> float:
    made, blocks = executor(kind, directory, callgate), [CodeBlock("echo 1", "bash")]
    for n in range(count + 1):
        if n == 1:  # the first one is not counted
            began = time.perf_counter_ns()
        told = await made.execute_code_blocks(blocks, CancellationToken())
        if told.output != "1\n":
            raise SystemExit(f"a block was not answered as it should be: {told}")
    return (time.perf_counter_ns() - began) / count


print(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])))
