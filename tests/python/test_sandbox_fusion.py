"""`callgate exec --http` behind SandboxFusion's own client, and behind requests as verl's reward function sends them."""
from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from base64 import b64decode, b64encode

import pytest
import requests
from questions import with_time
from served import TOKEN, encrypted, serving

sandbox_fusion = pytest.importorskip("sandbox_fusion")
from sandbox_fusion import (  # noqa: E402
    CommandRunStatus,
    RunCodeRequest,
    RunJupyterRequest,
    RunStatus,
    SummaryMapping,
    run_code,
    run_code_async,
    run_jupyter,
    summary_run_code_result,
)

AT_ONCE = 128

PROGRAMS = {
    "python": ("python3", "print(input()[::-1])"),
    "bash": ("bash", "rev"),
    "nodejs": ("node", "console.log(require('fs').readFileSync(0, 'utf8').trim().split('').reverse().join(''))"),
    "cpp": ("g++", "#include <bits/stdc++.h>\nusing namespace std;\n"
            "int main() { string s; cin >> s; reverse(s.begin(), s.end()); cout << s << '\\n'; }"),
    "java": ("javac", "public class Main { public static void main(String[] a) { "
             "System.out.println(new StringBuilder(new java.util.Scanner(System.in).next()).reverse()); } }"),
    "perl": ("perl", "chomp($_ = <STDIN>); print scalar reverse($_), \"\\n\";"),
    "ruby": ("ruby", "puts gets.chomp.reverse"),
    "lua": ("lua", "print(string.reverse(io.read()))"),
    "php": ("php", "echo strrev(trim(fgets(STDIN))), PHP_EOL;"),
}


@pytest.fixture
def service(binary, workdir, monkeypatch):
    """Its jobs have the interpreter of this environment, which has IPython."""
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:{os.environ['PATH']}")
    with serving(binary, workdir, monkeypatch, "-x", sys.prefix) as served:
        address = f"{served}/{TOKEN}"
        sandbox_fusion.set_sandbox_endpoint(address)
        yield address


def run(language, code, **more):
    return run_code(RunCodeRequest(language=language, code=code, **more), max_attempts=1)


def test_languages(service):
    tried = []
    for language, (program, code) in PROGRAMS.items():
        if shutil.which(program):
            told = run(language, code, stdin="callgate\n", compile_timeout=60)
            assert (told.status, told.run_result.stdout) == (RunStatus.Success, "etagllac\n"), (language, told)
            assert (told.compile_result is not None) == (language in ("cpp", "java"))
            tried.append(language)
    assert len(tried) >= 2, tried


def test_over_tls(binary, workdir, monkeypatch):
    with serving(binary, workdir, monkeypatch, *encrypted(binary, workdir, monkeypatch)) as address:
        assert address.startswith("https://")
        sandbox_fusion.set_sandbox_endpoint(f"{address}/{TOKEN}")
        told = run("bash", "rev", stdin="callgate\n")
        assert (told.status, told.run_result.stdout) == (RunStatus.Success, "etagllac\n"), told


def test_every_end(service):
    mapping = SummaryMapping(Success="ok", Failed="failed", CompileFailed="compile", RunFailed="run", RunTimeout="late")
    for language, code, word in (("python", "print(1)", "ok"), ("python", "1/0", "run"), ("python", "while 1: pass", "late"),
                                 ("cpp", "int main() {", "compile"), ("cpp", "int main() { return 7; }", "run"),
                                 ("cpp", "int main() { while (1); }", "late")):
        if language == "python" or shutil.which("g++"):
            told = run(language, code, run_timeout=1 if word == "late" else 60, compile_timeout=60)
            assert summary_run_code_result(told, mapping) == word, code
    told = run("python", "import os; print(os.getcwd()); print(open('/etc/shadow').read())")
    assert (told.status, told.run_result.status) == (RunStatus.Failed, CommandRunStatus.Finished)
    assert "Permission denied" in told.run_result.stderr
    with pytest.raises(Exception, match="501.*verilog"):
        run("verilog", "")


def test_files(service):
    told = run("python", "data = open('in/data', 'rb').read()\nopen('out', 'wb').write(data[::-1])",
               files={"in/data": b64encode(bytes(range(256))).decode(), "none": None}, fetch_files=["out", "absent"])
    assert told.status == RunStatus.Success and list(told.files) == ["out"]
    assert b64decode(told.files["out"]) == bytes(range(255, -1, -1))
    assert run("python", "import os; print(os.listdir())").run_result.stdout == "['main.py']\n", "the next job finds nothing"


def notebook(*cells, **more):
    return run_jupyter(RunJupyterRequest(cells=list(cells), **more), max_attempts=1)


def test_notebooks(service):
    """The first three are SandboxFusion's own tests of it."""
    assert notebook("print(123)").cells[0].stdout == "123\n"
    told = notebook('a = "hello"', "a", "print(a)")
    assert (told.cells[0].stdout, told.cells[1].display[0]["text/plain"], told.cells[2].stdout) == ("", "'hello'", "hello\n"), told
    told = notebook('a = "hello"', 'import sys\nsys.stderr.write("This is an error message\\n")', "assert False", "print(a)")
    assert told.status == RunStatus.Success and told.cells[1].stderr == "This is an error message\n"
    assert told.cells[2].error[0]["ename"] == "AssertionError" and told.cells[3].stdout == "hello\n"
    cells = ("while True: pass", "data = open('in', 'rb').read()", "open('out', 'wb').write(data * 2); None", "%time 1", "5;",
             "from IPython.display import HTML\nHTML('<b>')")
    told = with_time(lambda seconds: notebook(*cells, cell_timeout=seconds, files={"in": "aGk="}, fetch_files=["out", "absent"]),
                     lambda told: not any(one.error for one in told.cells[1:]), 0.3)
    assert told.cells[0].error[0]["ename"] == "TimeoutError" and told.files == {"out": "aGloaQ=="}
    assert told.cells[3].stdout and not told.cells[4].display and told.cells[5].display[0]["text/html"] == "<b>"
    late = notebook("import os; os.system('exec sleep 1000')", total_timeout=1)
    assert (late.status, late.driver.status, late.cells) == (RunStatus.Failed, CommandRunStatus.TimeLimitExceeded, [])


def test_many_at_once(service):
    async def all_of_them():
        requests = [RunCodeRequest(language="bash", code=f"echo {number}") for number in range(AT_ONCE)]
        return await asyncio.gather(*[run_code_async(one, max_attempts=1) for one in requests])
    assert [told.run_result.stdout for told in asyncio.run(all_of_them())] == [f"{number}\n" for number in range(AT_ONCE)]


def test_as_verl_asks(service):
    """Its `call_sandbox_api` posts this text with these headers, and looks at these members."""
    payload = json.dumps({"compile_timeout": 10, "run_timeout": 10, "code": "print(int(input()) * 2)", "stdin": "21",
                          "memory_limit_MB": 1024, "language": "python", "files": {}, "fetch_files": []})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    answer = requests.post(f"{service}/run_code", headers=headers, data=payload, timeout=60)
    assert answer.status_code == 200
    told = answer.json()
    ran = told["run_result"]
    assert (told["status"], ran["status"], ran["return_code"], ran["stdout"]) == ("Success", "Finished", 0, "42\n")
    assert told["compile_result"] is None and told["report"]["limits"]["memory"]["limit"] == 1024 << 20, told["report"]["limits"]
