"""The verbs that people type: runs in a list, records by filter and in colour, counts by any field. They answer at once,
however long the log is, and read a log of several segments from a real run."""
from __future__ import annotations

import collections
import fcntl
import json
import os
import pty
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

import harness
from harness import audit
from toolchains import free_port

RECORDS = 1_000_000 if harness.SOAK else 50_000
BLOCK = 1 << 20  # how far a reader may be ahead of what it has shown
ordinary = pytest.mark.parametrize("user", ["user"], indirect=True)  # once is enough


def rules(box: harness.Box) -> dict:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "none", "deny": ["read", "write"], "path": "**/the-secret"})


def newest(box: harness.Box) -> Path:
    return max((box.state / "callgate").glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns)


# --- several runs ---------------------------------------------------------------------------------------------------------


def test_runs_are_listed_with_what_became_of_them_and_the_last_is_at_hand(box):
    file = box.rules_file(rules(box))
    box.file(box.tree / "the-secret", b"x")
    scripts = {"exited 0": f"> {box.tree}/made; cat {box.tree}/made", "exited 3": f"cat {box.tree}/the-secret; exit 3",
               "signaled": f"> {box.tree}/other; kill -9 $$"}
    results = [box.run(["/bin/sh", "-c", script], audit=False, options=["-R", str(file), "-q"]) for script in scripts.values()]
    listed = [json.loads(line) for line in audit(box, "ls", "--json").text.splitlines()]
    by_run = {one["run"]: one for one in listed}
    assert [one["run"] for one in listed] == [one.report["run"] for one in reversed(results)]  # newest first
    assert len(listed) == len(results) == len(by_run)
    for result, (outcome, script) in zip(results, scripts.items()):
        one = by_run[result.report["run"]]
        assert one["command"] == ["/bin/sh", "-c", script] and one["ended"] and one["outcome"] == outcome, one
        assert one["counts"] == result.report["counts"] and one["file"] == result.report["audit"]["file"]
    text = audit(box, "ls").text
    assert all(run in text for run in by_run) and "exited 3" in text and "1 denied" in text, text
    # The last, by the verb and by leaving out a name; any, by its name.
    last, first = results[-1].report, results[0].report
    assert audit(box, "last").text.strip() == last["audit"]["file"] == str(newest(box))
    assert audit(box, "show", "--json").text == audit(box, "show", "--json", last["run"]).text != ""
    shown = [json.loads(line)["callgate"]["run"] for line in audit(box, "show", "--json", first["run"]).text.splitlines()]
    assert set(shown) == {first["run"]} and len(shown) == first["audit"]["records"]
    assert audit(box, "show", "nobody").code == 125


@pytest.fixture
def run(box) -> harness.Result:
    """A log with operations, objects, hosts, programs and verdicts of several kinds."""
    allowed, closed = free_port(), free_port()
    box.file(box.tree / "the-secret", b"x")
    stated = rules(box)
    stated["rules"] += [{"id": "local", "allow": "connect", "address": "127.0.0.1", "port": allowed}]
    connect = "import socket\nfor port in ({}, {}, {}):\n try: socket.create_connection(('127.0.0.1', port)).close()\n except OSError: pass"
    script = f"> {box.tree}/made; > {box.tree}/more; cat {box.tree}/the-secret {box.tree}/the-secret; " \
        f"python3 -c \"{connect.format(allowed, closed, closed)}\"; true"
    with socket.create_server(("127.0.0.1", allowed)):
        return box.run(["/bin/sh", "-c", script], stated)


def test_each_filter_and_each_count_says_what_the_records_say(box, run):
    log = run.report["audit"]["file"]
    of = {"verdict": lambda one: one["callgate"]["verdict"], "operation": lambda one: one["callgate"]["operation"],
          "rule": lambda one: one.get("rule", {}).get("name"), "program": lambda one: one["process"]["executable"],
          "object": lambda one: one["file"]["path"] if "file" in one else f"{one['destination']['ip']}:{one['destination']['port']}"}
    decisions = [one for one in run.audit if "verdict" in one.get("callgate", {})]
    for name, member in of.items():
        counted = collections.Counter(member(one) for one in decisions)
        assert len(counted) > 1, (name, counted)
        for value, count in counted.items():
            shown = audit(box, "show", "--json", f"--{name}", value, log).text.splitlines()
            assert [json.loads(line) for line in shown] == [one for one in decisions if member(one) == value], (name, value)
            assert len(audit(box, "show", f"--{name}", value, log).text.splitlines()) == count + 1, "a heading, and a row for each"
        if name in ("rule", "object", "program"):
            summed = json.loads(audit(box, "summary", "--by", name, "--json", log).text)
            found = {one[name]: sum(one[verdict] for verdict in ("allow", "ask", "deny", "kill")) for one in summed}
            assert found == dict(counted), (name, summed)
    globbed = audit(box, "show", "--json", "--object", f"{box.tree}/m*", log).text.splitlines()
    assert len(globbed) == sum("file" in one and Path(one["file"]["path"]).name in ("made", "more") for one in decisions) >= 2
    middle = decisions[len(decisions) // 2]["@timestamp"]
    before, after = (audit(box, "show", "--json", option, middle, log).text.splitlines() for option in ("--until", "--since"))
    assert {json.loads(line)["@timestamp"] for line in after if "verdict" in json.loads(line)["callgate"]} >= {middle}
    assert before and after and len(before) + len(after) - len(run.audit) in (0, 1)
    hosts = json.loads(audit(box, "summary", "--by", "host", "--json", log).text)
    assert [(one["host"], one["allow"], one["deny"]) for one in hosts] == [("127.0.0.1", 1, 2)], hosts


def test_colours_are_for_a_terminal_that_wants_them(box, run):
    line = [str(box.stage.callgate), "audit", "show", "--verdict", "deny", run.report["audit"]["file"]]

    def on_terminal(**more: str) -> bytes:
        outer, inner = pty.openpty()
        process = box.start(line, stdin=subprocess.DEVNULL, stdout=inner, stderr=inner, env=box.environment({"TERM": "xterm", **more}))
        os.close(inner)
        seen = b""
        try:
            while piece := os.read(outer, 65536):
                seen += piece
        except OSError:  # its other side is closed
            pass
        os.close(outer)
        assert process.wait(harness.DEADLINE) == 0
        return seen

    assert b"\x1b[" in on_terminal() and b"the-secret" in on_terminal()
    assert b"\x1b" not in on_terminal(NO_COLOR="1") and b"the-secret" in on_terminal(NO_COLOR="1")
    assert "\x1b" not in box.run(line, supervised=False).text


# --- long logs ------------------------------------------------------------------------------------------------------------


def reading_at(process: subprocess.Popen, directory: Path) -> int:
    """How many bytes of the log it has read."""
    for one in Path(f"/proc/{process.pid}/fd").iterdir():
        if os.readlink(one).startswith(str(directory)):
            fields = Path(f"/proc/{process.pid}/fdinfo/{one.name}").read_text().split()
            return int(fields[fields.index("pos:") + 1])
    raise AssertionError("it reads no log")


def is_writing(process: subprocess.Popen) -> bool:
    """Whether it waits in write(2) or writev(2)."""
    assert process.poll() is None, "it has ended, and everything was buffered"
    return Path(f"/proc/{process.pid}/syscall").read_text().split()[0] in ("1", "20", "64", "66")


def test_show_prints_what_it_has_found_while_it_reads_on(stage):
    """Its output is a pipe without room: it must wait there with the first record that it found, and not at the log's end."""
    directory = stage.root / "at-once"
    directory.mkdir(mode=0o700)
    try:
        log = Path(subprocess.run([stage.bin / "callgate_make_log", directory, str(RECORDS)], capture_output=True, text=True, check=True).stdout.strip())
        assert log.stat().st_size > 16 * BLOCK
        with log.open() as lines:
            next(lines)
            wanted = json.loads(next(lines))["file"]["path"]  # of the first decision; few others have it
        for options in (["--object", wanted], ["--object", wanted, "--json"], ["--verdict", "deny"]):
            reading, writing = os.pipe()
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
            os.write(writing, b"-" * fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ))
            process = subprocess.Popen([stage.callgate, "audit", "show", *options, log], stdout=writing, stderr=subprocess.PIPE)
            os.close(writing)
            try:
                harness.until(lambda: is_writing(process), "it waits to write")
                assert reading_at(process, directory) <= 4 * BLOCK, options
                with os.fdopen(reading, "rb") as pipe:
                    text = pipe.read()
                assert process.wait(harness.DEADLINE) == 0 and text.count(b"\n") >= 1, process.stderr.read()
            finally:
                process.kill()
                process.communicate()
    finally:
        shutil.rmtree(directory)


@ordinary
def test_a_run_whose_log_has_several_segments_is_one_log(box):
    file = box.deep_file()
    times = 20_000
    script = f"import os\nfor n in range({times}): os.close(os.open({str(file)!r}, os.O_RDONLY))"
    result = box.run(["/usr/bin/python3", "-S", "-c", script], rules(box), audit=False)
    assert result.code == 0, result.describe()
    log, head = Path(result.report["audit"]["file"]), result.report["audit"]["head"]
    segments = sorted(log.parent.glob("*.jsonl*"), key=lambda one: one.stat().st_mtime_ns)
    assert len(segments) >= 2 and all(one.stat().st_size <= 64 << 20 for one in segments), segments
    assert segments[0].stat().st_size > 60 << 20
    whole = audit(box, "verify", "--head", head, str(log))
    assert whole.code == 0 and f"{result.report['audit']['records']} records" in whole.text, whole.describe()
    assert len(audit(box, "ls").text.splitlines()) == 2, "one run"
    (summary,) = [one for one in json.loads(audit(box, "summary", "--by", "object", "--json", str(log)).text) if one["object"] == str(file)]
    assert summary["allow"] == times
    last = json.loads(audit(box, "tail", "-n", "1", "--json", str(log)).text)
    assert last["event"]["action"] == "run.end" and head.endswith(last["integrity"]["hash"])
    aside = box.root / "aside"
    segments[1].rename(aside)
    assert audit(box, "verify", "--head", head, str(log)).code in (1, 2)
    aside.rename(segments[1])
    for one in segments:
        os.utime(one, (1_000_000_000, 1_000_000_000))
    pruned = audit(box, "prune", "--keep", "30d")
    assert "removed 1 log " in pruned.text and list(log.parent.glob("*.jsonl*")) == [], pruned.describe()
