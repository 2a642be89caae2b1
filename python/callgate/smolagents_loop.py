"""Runs inside the sandbox: steps as JSON lines on stdin, answers as JSON lines behind a NUL on stdout; variables stay."""
import ast
import contextlib
import io
import json
import subprocess
import sys
import traceback


def pip_lines(code):
    """Lines such as `!pip install x` are commands."""
    kept, output = [], ""
    for line in code.split("\n"):
        if line.startswith("!"):
            done = subprocess.run(line[1:], shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            output += done.stdout.decode("utf-8", "replace")
        else:
            kept.append(line)
    return "\n".join(kept), output


def run(code, names):
    code, output = pip_lines(code)
    written = io.StringIO()
    value = error = None
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<step>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<step>", "eval"), names)
        except BaseException as raised:
            error = [type(raised).__name__, str(raised), traceback.format_exc()]
    return output + written.getvalue(), value, error


def plain(value):
    """Returns a value that JSON can hold: the value itself, else its repr."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value


names = {"__name__": "__main__"}
answers, jobs = sys.stdout, sys.stdin
sys.stdin = open("/dev/null")
for job in jobs:
    output, value, error = run(json.loads(job)["code"], names)
    answers.write("\0" + json.dumps({"output": output, "value": plain(value), "error": error}) + "\n")
    answers.flush()
