"""`callgate explain`: what it says of a request is what a run does with it, and why."""
from __future__ import annotations

import json
import os
import random
import socket
from pathlib import Path

import pytest

import harness
from toolchains import free_port

STARTS = 100 if harness.SOAK else 5  # for each of the two users
REQUESTS = 50

# Makes the requests of one list, one after the other, and prints what became of each.
ATTEMPT = r"""
import errno, json, os, socket, sys
requests, results = json.load(open(sys.argv[1])), []
def connect(address, family):
    with socket.socket(family) as one:
        one.settimeout(10)
        one.connect(address)
def bind(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", port))
def execute(path):
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 42:
        raise OSError(status, "execv")
ACTS = {
    "read": lambda name: os.close(os.open(name, os.O_RDONLY)),
    "modify": lambda name: os.close(os.open(name, os.O_WRONLY)),
    "create": lambda name: os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
    "mkdir": lambda name: os.mkdir(name),
    "list": lambda name: os.listdir(name),
    "delete": lambda name: os.unlink(name),
    "metadata": lambda name: os.chmod(name, 0o600),
    "execute": execute,
    "connect": lambda name: connect((name.rpartition(":")[0], int(name.rpartition(":")[2])), socket.AF_INET),
    "unix": lambda name: connect(name.removeprefix("unix:"), socket.AF_UNIX),
    "abstract": lambda name: connect("\0" + name[1:], socket.AF_UNIX),
    "bind": lambda name: bind(int(name.rpartition(":")[2])),
}
for act, name in requests:
    try:
        ACTS[act](name)
        results.append("done")
    except OSError as error:
        results.append(errno.errorcode.get(error.errno, str(error.errno)))
    print(json.dumps(results[-1]), flush=True)
"""
OPERATIONS = {"mkdir": "create", "list": "read", "unix": "connect", "abstract": "connect"}
FILE_ACTS = ("read", "modify", "create", "mkdir", "list", "delete", "metadata", "execute")
NAMES = ("a", "b", "c")


class Course:
    """The place of one start, its random rules and its random requests. Each request has an object of its own."""

    def __init__(self, box: harness.Box, seed: int, sockets: "Sockets") -> None:
        self.box, self.random, self.sockets = box, random.Random(seed), sockets
        self.top = box.directory(box.tree / f"start{seed}")
        for one in NAMES:
            for other in NAMES:
                box.directory(box.directory(self.top / one) / other)
        self.requests = [self.request(number) for number in range(REQUESTS)]
        self.rules = self.rule_set()

    def request(self, number: int) -> tuple[str, str]:
        choose = self.random.choice
        kind = choose([*FILE_ACTS * 3, "connect", "connect", "unix", "abstract", "bind"])
        if kind == "connect":
            return kind, f"127.0.0.{self.random.randint(1, 4)}:{choose(self.sockets.ports)}"
        if kind in ("unix", "abstract"):
            return kind, choose(self.sockets.paths if kind == "unix" else self.sockets.names)
        if kind == "bind":
            return kind, f"127.0.0.1:{choose(self.sockets.free)}"
        path = self.top.joinpath(*(choose(NAMES) for _ in range(self.random.randint(0, 2)))) / f"{choose(NAMES)}{number}"
        if kind == "list":
            self.box.directory(path)
        elif kind == "execute":
            self.box.file(path, Path(self.box.program("prog_exit42")).read_bytes(), 0o755)
        elif kind not in ("create", "mkdir"):
            self.box.file(path, b"content")
            if self.random.random() < 0.1:  # what counts is what the name leads to
                link = path.with_name(path.name + "-link")
                if kind in ("read", "modify"):
                    link.symlink_to(path)
                    self.box.own(link)
                    path = link
        return kind, str(path)

    def pattern(self) -> str:
        choose, name = self.random.choice, lambda: self.random.choice(NAMES)
        head = "/".join([str(self.top), *(name() for _ in range(self.random.randint(0, 2)))])
        return choose([f"{head}/**", f"{head}/**", f"{head}/*", f"{head}/{name()}*", f"{head}/**/{name()}*",
                       f"{head}/{{{name()},{name()}}}*/**", f"{self.top}/**/*[0-4]", choose([path for _, path in self.requests
                                                                                             if path.startswith("/")])])

    def conditions(self) -> tuple[list[str], dict]:
        kind = self.random.choice(["file"] * 8 + ["address", "port", "unix", "abstract"])
        some = lambda all_: self.random.sample(all_, self.random.randint(1, min(3, len(all_))))
        if kind == "file":
            return some(["read", "write", "modify", "create", "delete", "metadata", "execute"]), \
                {"path": [self.pattern() for _ in range(self.random.randint(1, 2))]}
        if kind == "address":
            return some(["connect", "bind"]), {"address": self.random.choice(["127.0.0.2", "127.0.0.0/30", "127.0.0.0/8", "0.0.0.0/0"])}
        if kind == "port":
            return some(["connect", "bind"]), {"port": some([*self.sockets.ports, *self.sockets.free])}
        names = self.sockets.paths if kind == "unix" else self.sockets.names
        return ["connect"], {"unix": [one.removeprefix("unix:") for one in some(names)]}

    def rule(self, number: int) -> dict:
        operations, conditions = self.conditions()
        rule = {"id": f"r{number}", self.random.choice(["allow"] * 5 + ["deny", "deny", "ask"]): operations, **conditions}
        if "path" in conditions and self.random.random() < 0.3:
            rule["except"] = {"path": self.pattern()}
        if self.random.random() < 0.15:
            rule["program"] = self.random.choice(["**/python3*", "/usr/bin/nobody"])
        if "deny" in rule and self.random.random() < 0.4:
            rule["errno"] = self.random.choice(["ENOENT", "EROFS"])
        return rule

    def rule_set(self) -> dict:
        script = {"id": "script", "allow": "read", "path": str(self.box.root / "**")}
        own = [self.rule(number) for number in range(self.random.randint(1, 8))]
        default = self.random.choice(["deny", "deny", "ask", "allow"])
        # The script itself must be read; the tree's own rules decide over what is made in it.
        script["path"] = [str(self.box.root / "attempt.py"), str(self.box.root / "requests*.json")]
        return harness.rule_set(script, *own, default=default)


class Sockets:
    """The addresses that every start may connect to and bind."""

    def __init__(self, box: harness.Box) -> None:
        directory = box.directory(box.root / "sockets")
        self.listening = [socket.create_server(("0.0.0.0", 0), backlog=4096) for _ in range(2)]
        self.ports = [one.getsockname()[1] for one in self.listening]
        self.free = [free_port() for _ in range(2)]
        self.paths = [f"unix:{directory}/{name}" for name in NAMES]
        self.names = [f"@callgate-explain-{os.getpid()}-{box.user.uid}-{name}" for name in NAMES]
        for name in [*(one.removeprefix("unix:") for one in self.paths), *("\0" + one[1:] for one in self.names)]:
            one = socket.socket(socket.AF_UNIX)
            one.bind(name)
            one.listen(4096)
            if name.startswith("/"):
                os.chmod(name, 0o777)
            self.listening.append(one)

    def close(self) -> None:
        for one in self.listening:
            one.close()


@pytest.fixture
def sockets(box):
    made = Sockets(box)
    yield made
    made.close()


def explain(box: harness.Box, *words: str) -> harness.Result:
    return box.run([str(box.stage.callgate), "explain", *words], supervised=False)


def explained(box: harness.Box, rules: Path, act: str, name: str) -> dict:
    said = explain(box, "--json", "-R", str(rules), OPERATIONS.get(act, act), name, "by", "/usr/bin/python3")
    assert said.code == 0, said.describe()
    return json.loads(said.text)


def expected(act: str, said: dict, rules: dict) -> str:
    """The result that the program sees."""
    if said["verdict"] == "allow":
        return "done"
    if said["rule"]:
        own = next((one for one in rules["rules"] if one["id"] == said["rule"]["id"]), {})
        if "errno" in own:
            return own["errno"]
    return {"execute": "EPERM", "connect": "ECONNREFUSED"}.get(said["operation"], "EACCES")


@pytest.mark.parametrize("seed", range(STARTS))
def test_what_explain_says_of_random_requests_is_what_a_run_does(box, sockets, seed):
    """A random rule set, and requests as a real process makes them. Verdict, rule, tier and errno are those that `explain`
    gave. If it says that the kernel decides alone, there is no record."""
    course = Course(box, seed * 2 + (box.user.kind == "root"), sockets)
    script = box.file(box.root / "attempt.py", ATTEMPT.encode())
    requests = box.file(box.root / f"requests{seed}.json", json.dumps(course.requests).encode())
    rules = box.rules_file(course.rules)
    said = [explained(box, rules, act, name) for act, name in course.requests]
    result = box.run(["/usr/bin/python3", "-S", str(script), str(requests)], options=["-R", str(rules), "--ask", "never"])
    got = [json.loads(line) for line in result.text.splitlines()]
    assert result.code == 0 and len(got) == len(said) == REQUESTS, result.describe()
    records: dict[tuple[str, str], list[dict]] = {}
    for one in result.decisions():
        where = one.get("destination", {})
        name = one.get("file", {}).get("path") or where.get("address") or f"{where.get('ip')}:{where.get('port')}"
        records.setdefault((one["callgate"]["operation"], name), []).append(one)
    for (act, name), of, became in zip(course.requests, said, got):
        shown = f"{act} {name}: {became}\n{json.dumps(of, indent=1)}\n{json.dumps(course.rules, indent=1)}\n{result.describe()}"
        assert became == expected(act, of, course.rules), shown
        on_record = records.get((of["operation"], of["object"].removeprefix("unix:")), [])
        if act == "create" and "a file made by an open for writing" in of["why"] or of["tier"] == "contested" or \
                act in ("connect", "unix", "abstract", "bind"):
            # Connects and binds share their objects: each of them must be on record with that verdict.
            assert on_record or of["tier"] == "kernel" and act != "create", shown
        else:
            assert not on_record, shown
        for one in on_record:
            assert one["rule"]["name"] == (of["rule"] or {"id": "default"})["id"], shown
            assert one["callgate"]["verdict"] == {"ask": "deny"}.get(of["verdict"], of["verdict"]), shown


def test_it_says_which_rules_lost_which_nearly_matched_and_what_would_change_it(box):
    secret = box.file(box.tree / "secret" / "key", b"1")
    rules = box.rules_file(json.dumps({"version": 1, "default": "ask", "rules": [
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
        {"id": "secrets", "deny": "read", "path": f"{box.tree}/secret/**", "reason": "credentials"},
        {"id": "later", "deny": "read", "path": f"{box.tree}/**/key"},
        {"id": "but", "deny": "read", "path": f"{box.tree}/**", "except": {"path": f"{box.tree}/secret/*"}},
        {"id": "cat-only", "deny": "read", "path": f"{box.tree}/**", "program": "/bin/cat"},
    ]}, indent=1))
    line = 1 + next(number for number, text in enumerate(rules.read_text().splitlines()) if '"secrets"' in text)
    said = explain(box, "-R", str(rules), "read", str(secret), "by", "/usr/bin/python3")
    assert said.text.startswith(f"deny read {secret}\n"), said.describe()
    assert f"secrets: deny read {secret.parent}/** ({rules}:" in said.text and "): credentials" in said.text
    named = int(said.text.partition(f"({rules}:")[2].partition(")")[0])
    assert abs(named - line) <= 1, said.describe()  # the rule begins at its brace
    rows = {row.split()[1].rstrip(":"): row for row in said.text.splitlines() if row.startswith(("  lost", "  near"))}
    assert set(rows) == {"tree", "later", "but", "cat-only"}, said.describe()
    assert rows["tree"].endswith("-- deny wins over allow") and rows["later"].endswith("-- says the same, and stands later")
    assert rows["but"].endswith("-- its exception leaves this out") and rows["cat-only"].endswith("-- it is for other programs")
    # The option that it suggests does allow it.
    change = json.loads(explain(box, "--json", "-R", str(rules), "read", str(secret)).text)["hint"].split()
    again = box.run(["/bin/head", "-c1", str(secret)], harness.rule_set(), options=["-R", str(rules), *change])
    assert again.out == b"1", again.describe()
    assert box.run(["/bin/head", "-c1", str(secret)], harness.rule_set(), options=["-R", str(rules)]).out == b""
    # And the rule that it says would deny what is allowed does.
    allowed = explain(box, "-R", str(rules), "write", str(box.tree / "new"))
    denying = json.loads(allowed.text.partition("a rule that denies it: ")[2])
    assert allowed.text.startswith("allow") and denying["path"] == str(box.tree / "new"), allowed.describe()
    own = box.rules_file({"version": 1, "rules": [denying]})
    both = explain(box, "-R", str(rules), "-R", str(own), "write", str(box.tree / "new"))
    assert both.text.startswith("deny"), both.describe()
    kept = explain(box, "-R", str(rules), "modify", str(rules))
    assert "nothing changes it: callgate keeps this to itself" in kept.text, kept.describe()
    datagram = explain(box, "--default", "allow", "-R", str(own), "connect", "127.0.0.1:9/udp")
    assert datagram.text.startswith("deny") and "sockets cannot be made" in datagram.text, datagram.describe()


def test_a_command_line_is_explained_as_a_shell_would_run_it(box):
    tool = box.file(box.directory(box.tree / "bin") / "tool", b"#!/bin/sh\n", 0o755)
    rules = box.rules_file({"version": 1, "extends": "agent", "rules": [
        {"id": "pushes", "deny": "execute", "path": str(tool), "argv": ["*", "**", "push", "**"]}]})
    ask = lambda *words: box.run([str(box.stage.callgate), "explain", "-R", str(rules), "execute", *words], supervised=False,
                                 env={"PATH": f"{box.tree}/bin:/usr/bin:/bin"})
    for words in (["tool", "push"], ["tool", "-C", ".", "push", "--force"], [str(tool), "push", "by", "sh"]):
        denied = ask("--", *words) if "--force" in words else ask(*words)
        assert denied.code == 0 and denied.text.startswith(f"deny execute {tool}\n") and "pushes" in denied.text, denied.describe()
    for words in (["tool", "pull"], ["tool", "status", "by", "sh"]):
        other = ask(*words)
        assert other.text.startswith(f"allow execute {tool}\n") and "near    pushes" in other.text, other.describe()
    alone = ask("tool")
    assert alone.text.startswith(f"allow execute {tool}\n") and "where its argv matches" in alone.text, alone.describe()
    assert ask("absent", "push").text.startswith(f"allow execute {box.tree}/absent\n")
    wrong = explain(box, "read", str(tool), "push")
    assert wrong.code == 125 and "not push" in wrong.errors, wrong.describe()


def test_a_record_is_explained_under_the_rules_that_are_given(box):
    secret = box.file(box.tree / "secret", b"1")
    closed = harness.rule_set({"id": "closed", "deny": "read", "path": str(secret), "reason": "the test's"},
                              {"id": "tree", "allow": ["read", "write"], "path": "${workdir}/**"})
    rules = box.rules_file(closed)
    result = box.run(["/bin/sh", "-c", f"cat {secret}; > new; mv new /etc/no-such-place; true"], options=["-R", str(rules)])
    log = result.report["audit"]["file"]

    def record(**wanted: str) -> str:
        return str(result.decisions(**wanted)[0]["event"]["sequence"])

    denied = record(verdict="deny", operation="read")
    said = explain(box, "--from-log", denied, log, "-R", str(rules))
    assert said.code == 0 and f"record {denied} of run" in said.text and "by rule closed, EACCES: the test's" in said.text
    assert f"\ndeny read {secret}\n  rule    closed: " in said.text and "not the rules of that run" not in said.text, said.describe()
    moved = explain(box, "--from-log", record(verdict="deny", operation="create"), log, "-R", str(rules))
    assert f"allow delete {box.tree}/new" in moved.text and "deny create /etc/no-such-place" in moved.text, moved.describe()
    # ${workdir} is the run's, wherever explain is asked; other rules are named as such.
    other = box.run([str(box.stage.callgate), "explain", "--json", "--from-log", denied, log, "-R",
                     str(box.rules_file(harness.rule_set(closed["rules"][-1])))], supervised=False, cwd=box.home)
    found = json.loads(other.text)
    assert not found["same_rules"] and found["explained"][0]["verdict"] == "allow" and found["record"]["rule"] == "closed"
    for words, why in ((["99999", log], "has no record 99999"), (["1", log], "is run.start, no decision"), (["x", log], "the number of a record"),
                       ([denied, "no-such-run"], "no run and no file")):
        bad = explain(box, "--from-log", *words, "-R", str(rules))
        assert bad.code == 125 and why in bad.errors, bad.describe()


def test_no_name_of_a_program_makes_a_line_of_its_own(box):
    """The program chose the name under which it ran, and what it was denied."""
    forged = "cat (7)\n  note    you allowed this\nallow read all\n  rule    own: yes\n#"
    program, secret = box.tree / forged, box.file(box.tree / "secret", b"1")
    box.file(program, Path("/bin/cat").read_bytes(), 0o755)
    rules = box.rules_file(harness.rule_set({"id": "closed", "deny": "read", "path": str(secret)},
                                            {"id": "tree", "allow": ["read", "write", "execute"], "path": "${workdir}/**"}))
    result = box.run([str(program), str(secret)], options=["-R", str(rules)])
    denied = result.decisions(verdict="deny", operation="read")[0]
    assert denied["process"]["executable"] == str(program), denied  # the control: the name is on record as it is
    said = explain(box, "--from-log", str(denied["event"]["sequence"]), result.report["audit"]["file"], "-R", str(rules))
    lines = said.text.splitlines()
    assert said.code == 0 and lines[1].startswith(f"  call    openat by {box.tree}/cat (7)\\x0a  note    you allowed this\\x0a"), said.describe()
    assert lines[2] == f"deny read {secret}" and lines[3].startswith("  rule    closed: "), said.describe()


def test_what_became_of_a_record_leads_to_it(box):
    result = box.run(["/bin/sh", "-c", f"mkdir -p {box.tree}/full/of; rmdir {box.tree}/full"], harness.rule_set(
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, {"id": "none", "deny": ["read", "write"], "path": "**/no-such-secret"}))
    failed = next(one for one in result.audit if one["event"]["action"] == "act.failed")
    said = explain(box, "--from-log", str(failed["event"]["sequence"]), result.report["audit"]["file"], "-R",
                   str(box.rules_file(harness.rule_set())))
    assert said.code == 0, said.describe()
    assert f"is what came of record {failed['callgate']['of_sequence']}" in said.errors, said.describe()
