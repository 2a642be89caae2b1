"""Runs inside the sandbox: steps as JSON lines on stdin, answers as JSON lines on a descriptor of their own; variables stay.

A step's code owns this process, so the executor believes no answer. It counts them, and bounds them by itself.
"""
import ast
import json
import os
import shlex
import subprocess
import sys
import traceback

ANSWERS, LONGEST = int(sys.argv[1]), int(sys.argv[2])  # a descriptor; characters of a value as JSON
SHOWN = 20_000  # characters of anything longer


def without_commands(code):
    """Lines such as `!ls` are commands, which run first. `!pip` is that of this interpreter."""
    kept = []
    for line in code.split("\n"):
        if not line.startswith("!"):
            kept.append(line)
            continue
        program, space, rest = line[1:].partition(" ")
        if program in ("pip", "pip3"):
            program = f"{shlex.quote(sys.executable)} -m pip"
        subprocess.run(program + space + rest, shell=True, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    return "\n".join(kept)


def run(code, names):
    value = error = None
    try:
        tree = ast.parse(without_commands(code))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<step>", "exec"), names)
        if last is not None:
            value = plain(eval(compile(ast.Expression(last.value), "<step>", "eval"), names))
    except BaseException as raised:
        error = told(raised)
    return value, error


def plain(value):
    """Returns a value that JSON can hold: the value itself, else its repr. A long one is cut."""
    try:
        if len(json.dumps(value)) <= LONGEST:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return cut(repr(value))


def told(raised):
    name, text = type(raised).__name__, str(raised)
    long = len(json.dumps(text)) > LONGEST
    if long and name == "FinalAnswerException":
        return ["ValueError", f"the final answer is longer than {LONGEST} bytes; write it to a file and name the file", ""]
    return [cut(name), cut(text) if long else text, cut(traceback.format_exc())]


def cut(text):
    """Keeps beginning and end."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n... {len(text) - SHOWN} characters are left out ...\n{text[-half:]}"


names = {"__name__": "__main__"}
jobs = os.fdopen(os.dup(0), "rb")  # commands of a step inherit neither jobs nor answers
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
os.set_inheritable(ANSWERS, False)
sys.argv = [""]
own = os.getpid()
for line in jobs:
    job = json.loads(line)
    value, error = run(job["code"], names)
    if os.getpid() != own:  # a step forked, and this is the child
        os._exit(0)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the step closed or replaced it
            pass
    answer = memoryview(json.dumps({"step": job["step"], "value": value, "error": error}).encode() + b"\n")
    while answer:
        answer = answer[os.write(ANSWERS, answer):]
