"""Audit mode: nothing is denied, and what enforcement would have said of each call is on record."""
from __future__ import annotations

import copy
import json
import socket
from pathlib import Path

import pytest

import harness
from toolchains import PATIENCE, Place, Program, cleaned, differences, free_port, require, timed

# Makes a call of every operation, each on objects of its own, so that none depends on another's result. Prints which of them
# failed.
EVERY_OPERATION = r"""
import ctypes, errno, os, socket, sys
top, port = sys.argv[1], int(sys.argv[2])
failed = {}
def attempt(name, action):
    try:
        action()
    except OSError as error:
        failed[name] = errno.errorcode.get(error.errno, str(error.errno))
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", port))
def tcp():
    with socket.create_connection(("127.0.0.1", port), 5):
        pass
def listen(address, family=socket.AF_INET):
    with socket.socket(family) as one:
        one.bind(address)
def run(path):
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, "execv")
attempt("read", lambda: os.close(os.open(top + "/read", os.O_RDONLY)))
attempt("list", lambda: os.listdir(top + "/listed"))
attempt("modify", lambda: os.close(os.open(top + "/modify", os.O_WRONLY)))
attempt("both", lambda: os.close(os.open(top + "/both", os.O_RDWR)))
attempt("truncate", lambda: os.truncate(top + "/truncate", 1))
attempt("create", lambda: os.close(os.open(top + "/create", os.O_WRONLY | os.O_CREAT)))
attempt("mkdir", lambda: os.mkdir(top + "/mkdir"))
attempt("symlink", lambda: os.symlink("nowhere", top + "/symlink"))
attempt("fifo", lambda: os.mkfifo(top + "/fifo"))
attempt("delete", lambda: os.unlink(top + "/delete"))
attempt("rmdir", lambda: os.rmdir(top + "/rmdir"))
attempt("rename", lambda: os.rename(top + "/old", top + "/new"))
attempt("widen", lambda: os.rename(top + "/secret", top + "/open/plain"))
attempt("link", lambda: os.link(top + "/linked", top + "/link"))
attempt("chmod", lambda: os.chmod(top + "/chmod", 0o600))
attempt("times", lambda: os.utime(top + "/times", (1, 1)))
attempt("execute", lambda: run(top + "/program"))
attempt("connect", tcp)
attempt("udp", udp)
attempt("bind", lambda: listen(("127.0.0.1", 0)))
attempt("unix", lambda: listen(top + "/socket", socket.AF_UNIX))
attempt("abstract", lambda: listen("\0callgate-audit-%d" % os.getpid(), socket.AF_UNIX))
print(sorted(failed))
"""
FILES = ("read", "modify", "both", "truncate", "delete", "old", "secret", "linked", "chmod", "times")
ATTEMPTED = 22


def prepare(box: harness.Box, name: str) -> Path:
    top = box.directory(box.tree / name)
    for one in FILES:
        box.file(top / one, b"content")
    for one in ("listed", "rmdir", "open"):
        box.directory(top / one)
    box.file(top / "program", Path("/bin/true").read_bytes(), 0o755)
    return top


def rules(box: harness.Box, default: str = "deny") -> dict:
    """Denies all that the script attempts, by a rule or by the default; reading of `secret` is what a rename would free."""
    return harness.rule_set(
        {"id": "closed", "deny": ["read", "write", "execute"], "path": f"{box.tree}/**", "reason": "the test's own tree",
         "except": {"path": [f"{box.tree}/*/open/**", f"{box.tree}/*/symlink"]}},
        {"id": "open", "allow": ["read", "write"], "path": f"{box.tree}/*/open/**"},
        {"id": "udp", "deny": "connect", "address": "127.0.0.0/8", "protocol": "udp"}, default=default)


def said(records: list[dict], top: Path) -> list[tuple]:
    """The decisions, whatever the directory was called. A question that nobody answers is a denial."""
    found = []
    for one in records:
        ours = one.get("callgate", {})
        if "verdict" not in ours or ours["verdict"] == "allow":
            continue
        object_ = one.get("file", {}).get("path") or one.get("destination", {}).get("address") or \
            f"{one['destination']['ip']}/{one['network']['transport']}"
        found.append((ours["operation"], object_.replace(str(top), "TOP").rstrip("0123456789"),
                      one["rule"]["name"], {"ask": "deny"}.get(ours["verdict"], ours["verdict"])))
    return sorted(found)


@pytest.mark.parametrize("default", ["deny", "ask"])
def test_what_would_be_denied_happens_and_the_record_says_what_enforcement_says(box, default):
    script = box.file(box.root / "every.py", EVERY_OPERATION.encode())
    python = ["/usr/bin/python3", "-S", str(script)]
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        allowed = rules(box, default)
        allowed["rules"].append({"id": "script", "allow": "read", "path": str(script)})
        control = box.run([*python, str(prepare(box, "bare")), str(port)], supervised=False)
        top = prepare(box, "audited")
        audited = box.run([*python, str(top), str(port)], allowed, options=["--mode", "audit"])
        again = prepare(box, "enforced")
        enforced = box.run([*python, str(again), str(port)], allowed)
    assert control.text.strip() == "[]", control.describe()
    assert audited.code == 0 and audited.text.strip() == "[]", audited.describe()
    # With questions names may be looked up: the datagram then goes to callgate's own network, where nobody is.
    in_room = default == "ask"
    assert enforced.text.count("'") // 2 == ATTEMPTED - in_room, enforced.describe()
    # Effects, from outside.
    assert (top / "create").exists() and not (top / "delete").exists() and (top / "open/plain").exists()
    assert (top / "truncate").stat().st_size == 1 and (top / "chmod").stat().st_mode & 0o777 == 0o600
    assert not (again / "create").exists() and (again / "delete").exists()
    # Datagram sockets cannot be made where the rules open none, so enforcement has no record of them.
    would = [one for one in said(audited.audit, top) if not one[1].endswith("/udp")]
    assert would == said(enforced.audit, again), audited.describe()
    assert ("connect", "127.0.0.1/udp", "udp", "deny") in said(audited.audit, top)
    counts = audited.report["counts"]
    assert counts["deny"] == counts["ask"] == 0 and counts["would_deny"] + counts["would_ask"] >= ATTEMPTED
    assert audited.report["mode"] == "audit" and audited.audit[0]["callgate"]["mode"] == "audit"
    assert {one["callgate"]["mechanism"] for one in audited.decisions()} <= {"on_behalf", "continue"}


def test_the_banner_and_the_closing_summary_say_what_would_have_been(box):
    secret = box.file(box.tree / "secret", b"s3cret")
    allowed = harness.rule_set({"id": "mine", "deny": "read", "path": f"{box.tree}/**"})
    port = free_port()  # nobody listens there
    result = box.run(["/bin/bash", "-c", f"cat {secret}; cat {secret} >/dev/null; > {box.tree}/made; "
                      f"for n in 1 2 3 4; do exec 3<>/dev/tcp/127.0.0.1/{port}; done 2>/dev/null; true"], allowed, options=["--mode", "audit"])
    assert result.out == b"s3cret" and (box.tree / "made").exists(), result.describe()
    lines = [line.removeprefix("callgate: ") for line in result.errors.splitlines()]
    assert "NOTHING IS ENFORCED" in lines[0] and "io_uring" in lines[1], result.describe()
    assert "nothing was enforced: the rules would have denied 7 calls" in lines[2]
    # By rule, most frequent first, and within it by directory or host; a single file stands for itself.
    assert lines[3:8] == ["  the default ×5", f"    deny connect 127.0.0.1:{port} ×4", f"    deny create {box.tree}/made ×1", "  rule mine ×2",
                          f"    deny read {secret} ×2"], result.describe()
    box.file(box.tree / "other", b"x")
    two = box.run(["/bin/cat", str(secret), str(box.tree / "other")], allowed, options=["--mode", "audit"])
    assert f"callgate:     deny read {box.tree} ×2\n" in two.errors, two.describe()
    quiet = box.run(["/bin/true"], allowed, options=["--mode", "audit", "-q"])
    assert quiet.errors == ""


def test_callgate_itself_stays_out_of_reach(box):
    allowed = harness.rule_set(default="allow")
    log_name = box.state / "other.jsonl"
    box.file(log_name, b"{}\n")
    control = box.run(["/bin/cat", str(log_name)], supervised=False)
    assert control.out == b"{}\n"
    state = box.state / "callgate"
    box.directory(state)
    kept = box.file(state / "older.jsonl", b"kept\n")
    result = box.run(["/bin/sh", "-c", f"cat {kept}; echo x >> {kept}; rm -f {kept}; mv {state} {state}.moved; true"],
                     allowed, options=["--mode", "audit"])
    assert kept.read_bytes() == b"kept\n" and b"kept" not in result.out, result.describe()
    assert result.report["counts"]["deny"] >= 3 and result.report["counts"]["would_deny"] == 0
    assert all(one["rule"]["name"] == "callgate-directories" for one in result.decisions(verdict="deny")), result.describe()


def test_all_records_what_landlock_would_have_decided_alone_and_minimal_only_what_would_be_denied(box):
    readable = box.file(box.tree / "readable", b"1")
    allowed = harness.rule_set({"id": "tree", "allow": "read", "path": f"{box.tree}/**"})

    def audited(record: str) -> harness.Result:
        result = box.run(["/bin/cat", str(readable), "/proc/self/comm", "/etc/no-such-file"], allowed,
                         options=["--mode", "audit", "--record", record])
        assert b"1cat" in result.out, result.describe()
        return result

    def of_file(result: harness.Result) -> list[dict]:
        return [one for one in result.decisions() if one.get("file", {}).get("path") == str(readable)]

    everything = audited("all")
    assert [one["callgate"]["tier"] for one in of_file(everything)] == ["kernel"], everything.describe()
    assert any(one["callgate"]["operation"] == "execute" for one in everything.decisions(verdict="allow"))
    assert not of_file(audited("contested"))
    assert not audited("minimal").decisions(verdict="allow")


def test_the_run_s_own_terminal_is_no_finding(box):
    script = "import os, pty; m, s = pty.openpty(); os.close(os.open(os.ttyname(s), os.O_WRONLY | os.O_NOCTTY))"
    allowed = copy.deepcopy(harness.rule_set())
    allowed["rules"][-1]["path"].remove("/dev/pts/**")
    for mode in ("enforce", "audit"):
        result = box.run(["/usr/bin/python3", "-S", "-c", script], allowed, options=["--mode", mode])
        of_terminal = [one for one in result.decisions() if one.get("file", {}).get("path", "").startswith("/dev/pts/")]
        assert result.code == 0 and all(one["callgate"]["verdict"] == "allow" for one in of_terminal), result.describe()
        assert of_terminal or mode == "audit", result.describe()


def test_the_interpreter_of_a_script_that_the_run_makes_is_judged_as_in_enforcement(box):
    """A person who allows the script alone meets its interpreter next. Both are on record, and one more rule for each lets
    it run."""
    interpreter = box.file(box.tree / "own" / "sh", Path("/bin/dash").read_bytes(), 0o755)
    made = box.directory(box.tree / "made")
    script = made / "script"
    write = f"printf '#!{interpreter}\\necho ran\\n' > {script}; chmod 755 {script}; {script}"
    command = ["/bin/sh", "-c", write]

    def allowed(*programs: Path) -> dict:
        return harness.rule_set(
            {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
            *({"id": f"program{number}", "allow": "execute", "path": str(one)} for number, one in enumerate(programs)))

    def denied(result: harness.Result) -> list[str]:
        return [one["file"]["path"] for one in result.decisions(operation="execute", verdict="deny")]

    beneath = Path(f"{made}/**")
    assert box.run(command, supervised=False).out == b"ran\n"
    for programs, audited, enforced in (((), [script, interpreter], [script]), ((beneath,), [interpreter], [interpreter]),
                                        ((interpreter,), [script], [script]), ((beneath, interpreter), [], [])):
        observed = box.run(command, allowed(*programs), options=["--mode", "audit"])
        assert observed.out == b"ran\n" and denied(observed) == [str(one) for one in audited], observed.describe()
        assert observed.report["counts"]["would_deny"] == len(audited), observed.describe()
        held = box.run(command, allowed(*programs))
        assert denied(held) == [str(one) for one in enforced], held.describe()
        assert (held.out == b"ran\n") == (not enforced), held.describe()


NOTHING_ALLOWED = {"version": 1, "default": "deny", "rules": [{"id": "one", "allow": "read", "path": "/etc/hostname"}]}
AUDITED = [
    Program("git", ("git",), varying=("*.git/index", "*.git/worktrees/*/index", "*.git/logs/*", "*.git/FETCH_HEAD", "*.mtimes")),
    Program("make", ("gcc", "make", "ar"), varying=("made",)),
    Program("sqlite", ("sqlite3",), varying=("*.db*", "dump.sql")),
    Program("tar", ("tar", "xz", "diff")),
]
if harness.SOAK:
    AUDITED += [
        Program("python", ("python3",), varying=("*.pyc",)),
        Program("npm-test", ("node", "npm"), rewrites=((r"\b(duration_ms:?) [\d.]+", r"\1 TIME"),)),
        Program("cargo", ("cargo", "rustc"), varying=("*/target/*",)),
        Program("go", ("go",)),
        Program("rsync", ("rsync", "diff", "setfacl", "/usr/bin/python3")),
    ]


@pytest.mark.parametrize("program", AUDITED, ids=str)
def test_a_program_gives_under_audit_what_it_gives_bare(box, program):
    """Under rules that allow it nothing at all: every call of it would have been denied."""
    require("bash", *program.needs)
    place = Place(box)
    bare, _ = timed(place, program, ["bash", "run.sh"], supervised=False)
    before = place.contents(program)
    assert bare.code == program.status, bare.describe()
    audited, _ = timed(place, program, ["bash", "run.sh"], options=["-R", str(box.rules_file(NOTHING_ALLOWED)), "--mode", "audit"],
                       timeout=PATIENCE)
    assert audited.code == bare.code, audited.describe()
    assert cleaned(audited.out, *program.rewrites) == cleaned(bare.out, *program.rewrites), audited.describe()
    assert cleaned(audited.err, *program.rewrites) == cleaned(bare.err, *program.rewrites), audited.describe()
    assert not differences(before, place.contents(program))
    assert audited.report["counts"]["deny"] == 0 and audited.report["counts"]["would_deny"] > 50, json.dumps(audited.report["counts"])
