"""A log that cannot be written any more, and logs that somebody changed: no effect without a record, no change unseen."""
from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from harness import audit
from toolchains import require

EDITS = 10000 if harness.SOAK else 500
BATCH = 50
MAKER = "i=0; while [ $i -lt %d ]; do i=$((i+1)); true > %s/$i; done 2>/dev/null; true"


def contested(box: harness.Box) -> dict:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "none", "deny": ["read", "write"], "path": "**/no-such-secret"})


class Place:
    """A mount namespace in which `logs` is a file system of the test's own."""

    def __init__(self, box: harness.Box, mount: str) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root mounts a file system of its own")
        self.box, self.logs = box, box.directory(box.root / "logs", 0o700)
        self.kept = box.directory(box.root / "kept", 0o700)
        self.mount = mount.format(logs=self.logs, user=box.user.uid, group=box.user.gid)

    def run(self, script: str, during: str = "true", at_once: bool = False) -> tuple[subprocess.CompletedProcess[bytes], Path]:
        """Runs `script` with its log in `logs`; `during` runs as root in the same namespace, `at_once` or at the script's
        wish (which writes a line to `begin` and reads one from `done`). The log is copied to where it outlives the namespace."""
        box, log = self.box, self.logs / "run.jsonl"
        begin, done = box.root / "begin", box.root / "done"
        for fifo in (begin, done):
            fifo.unlink(missing_ok=True)
            os.mkfifo(fifo)
            box.own(fifo)
        line, _ = box.command(["/bin/sh", "-c", script.format(begin=begin, done=done)], contested(box),
                              ["--audit", str(log), "--report", str(box.root / "report.json"), "-w", str(begin), "-r", str(done)],
                              audit=False)
        drop = ["setpriv", f"--reuid={box.user.uid}", f"--regid={box.user.gid}", "--clear-groups"] if box.user.uid != 0 else []
        wish, told = ("", "") if at_once else (f"read x < {begin}; ", f"; echo > {done}")
        outer = f"{self.mount} || exit 99; ({wish}{during.format(logs=self.logs)}{told}) & helper=$!; " \
            f"\"$@\"; status=$?; kill $helper 2>/dev/null; cp {log} {self.kept}/ 2>/dev/null; cp {log}.torn {self.kept}/ 2>/dev/null; exit $status"
        found = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-c", outer, "sh", *drop, *line], cwd=box.tree,
                               env=box.environment(), capture_output=True, timeout=harness.DEADLINE, check=False)
        assert found.returncode != 99, found.stderr
        for one in self.kept.iterdir():
            box.own(one)
        return found, self.kept / "run.jsonl"


def check(box: harness.Box, found: subprocess.CompletedProcess[bytes], log: Path, count: int) -> None:
    """Some happened, not all; each that did is on record; the log is whole as far as it goes, and the run says so."""
    made = {str(one) for one in box.tree.iterdir()}
    records = harness.read_log(log)
    recorded = {one["file"]["path"] for one in records if one.get("callgate", {}).get("verdict") == "allow" and "file" in one}
    assert 0 < len(made) < count and made <= recorded, (len(made), len(recorded), found.stderr[-2000:])
    assert b"the audit log could not be written" in found.stderr and b"was denied" in found.stderr, found.stderr[-2000:]
    verdict = audit(box, "verify", str(log))
    assert verdict.code in (0, 2) and "TAMPERED" not in verdict.text, verdict.describe()
    assert "the audit log could not be written" in json.loads((box.root / "report.json").read_text())["error"]


def test_a_full_disk_denies_what_it_has_no_room_to_record(box):
    place = Place(box, "mount -t tmpfs -o size=256k,mode=700,uid={user},gid={group} none {logs}")
    found, log = place.run(MAKER % (2000, box.tree))
    check(box, found, log, 2000)
    assert os.strerror(errno.ENOSPC).encode() in found.stderr


def test_room_that_comes_back_lets_the_run_go_on(box):
    """Between two times of a full disk everything is on record again, behind a whole line."""
    place = Place(box, "mount -t tmpfs -o size=256k,mode=700,uid={user},gid={group} none {logs}")
    half = MAKER % (800, box.tree)
    script = f"{half}; until mkdir {box.tree}/after 2>/dev/null; do true; done"
    # Full, and the log has stood still although the script goes on: the last page has no room for a record either.
    full = 'while [ "$(stat -f -c %a {logs})" -gt 0 ]; do true; done; ' \
        'while a=$b; b=$(stat -c %s {logs}/run.jsonl); [ "$a" != "$b" ]; do sleep 0.2; done'
    found, log = place.run(script, during=full + "; mount -o remount,size=64m {logs}", at_once=True)
    check(box, found, log, 801)
    assert (box.tree / "after").is_dir(), found.stderr
    assert harness.read_log(log)[-1]["event"]["action"] == "run.end"
    assert audit(box, "verify", str(log)).code == 0


def test_a_file_system_that_becomes_read_only_denies_everything_from_then_on(box):
    """Shut down as after an error: descriptors that are open cannot write any more."""
    place = Place(box, "truncate -s 8M {logs}.image && mkfs.ext4 -q -F {logs}.image && mount -o loop {logs}.image {logs} && "
                       "chown {user}:{group} {logs} && chmod 700 {logs}")
    if not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None:
        pytest.skip("no loop devices, or no mkfs.ext4")
    probe = subprocess.run(["unshare", "--mount", "sh", "-c", f"{place.mount}; status=$?; umount {place.logs}; exit $status"],
                           capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no file system in a file can be mounted: {probe.stderr[-200:]!r}")
    # A descriptor that is open for writing keeps `remount,ro` from working; an emergency remount is for the whole machine.
    # EXT4_IOC_SHUTDOWN does the same to this file system alone.
    shutdown = "python3 -c 'import fcntl, os, struct; f = os.open(\"{logs}\", os.O_RDONLY); " \
        "fcntl.ioctl(f, 0x8004587d, struct.pack(\"I\", 2))'"
    script = f"mkdir {box.tree}/before; echo > {{begin}}; read x < {{done}}; {MAKER % (50, box.tree)}"
    found, _ = place.run(script, during=shutdown)
    assert b"the audit log could not be written" in found.stderr, found.stderr[-2000:]
    assert {one.name for one in box.tree.iterdir()} == {"before"}, sorted(box.tree.iterdir())


def test_a_quota_that_is_used_up_denies_what_it_has_no_room_to_record(box):
    """Btrfs holds its quotas without help of the kernel's other code for them, which is often left out, and root to it too."""
    if not Path("/dev/loop-control").exists() or "\tbtrfs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("no loop devices, or a kernel without Btrfs: no file system with quotas can be mounted")
    require("/usr/sbin/mkfs.btrfs")
    place = Place(box, "truncate -s 128M {logs}.image && mkfs.btrfs -q -f {logs}.image >/dev/null && mount -o loop {logs}.image {logs} "
                       "&& btrfs quota enable {logs} && btrfs qgroup limit 1M 0/5 {logs} && chown {user}:{group} {logs} && chmod 700 {logs}")
    found, log = place.run(MAKER % (2500, box.tree))
    check(box, found, log, 2500)
    assert os.strerror(errno.EDQUOT).encode() in found.stderr, found.stderr[-2000:]


def test_a_limit_on_the_log_s_size_holds_like_a_quota(box):
    """RLIMIT_FSIZE of callgate itself: the write is short, then fails."""
    log = box.state / "limited.jsonl"
    line, _ = box.command(["/bin/sh", "-c", MAKER % (2000, box.tree)], contested(box),
                          ["--audit", str(log), "--report", str(box.root / "report.json")], audit=False)
    process = box.start(["prlimit", "--fsize=200000", *line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=harness.DEADLINE)
    assert log.stat().st_size <= 200000
    check(box, subprocess.CompletedProcess(line, process.returncode, out, err), log, 2000)


def test_a_log_directory_that_is_removed_takes_no_decision_with_it(box):
    """The file goes on without a name: nothing is lost to the run; where the next segment cannot be made, it is denied."""
    directory = box.directory(box.root / "gone", 0o700)
    fifo = box.root / "go"
    os.mkfifo(fifo)
    box.own(fifo)
    line, _ = box.command(["/bin/sh", "-c", f"mkdir {box.tree}/one; read x < {fifo}; {MAKER % (20, box.tree)}"], contested(box),
                          ["--audit", str(directory / "log.jsonl"), "-r", str(fifo), "--report", str(box.root / "report.json")], audit=False)
    process = box.start(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.until(lambda: (box.tree / "one").exists(), "the first half")
    kept = os.open(directory / "log.jsonl", os.O_RDONLY)  # as anybody who had it open
    shutil.rmtree(directory)
    fifo.write_text("go\n")
    _, err = process.communicate(timeout=harness.DEADLINE)
    report = json.loads((box.root / "report.json").read_text())
    with os.fdopen(kept, "rb") as file:
        text = file.read()
    found = box.file(box.root / "found.jsonl", text, 0o600)
    recorded = {one["file"]["path"] for one in harness.read_log(found) if "file" in one}
    made = {str(one) for one in box.tree.iterdir()}
    assert len(made) == 21 and made <= recorded, err
    whole = audit(box, "verify", "--head", report["audit"]["head"], str(found))
    assert whole.code == 0, whole.describe()


# --- logs that were changed ---------------------------------------------------------------------------------------


class Editor:
    """A random edit of a log's bytes, and its name."""

    def __init__(self, seed: int, lines: list[bytes]) -> None:
        self.random, self.lines = random.Random(seed), lines

    def edit(self) -> tuple[str, bytes]:
        kind = self.random.choice(["byte", "byte", "bit", "remove", "swap", "repeat", "insert", "garbage", "cut", "field", "move", "forge"])
        while (changed := getattr(self, kind)()) == b"".join(self.lines):
            pass
        return kind, changed

    def one(self) -> int:
        return self.random.randrange(len(self.lines))

    def with_line(self, number: int, line: bytes) -> bytes:
        return b"".join([*self.lines[:number], line, *self.lines[number + 1:]])

    def byte(self) -> bytes:
        text = bytearray(b"".join(self.lines))
        text[self.random.randrange(len(text))] = self.random.randrange(256)
        return bytes(text)

    def bit(self) -> bytes:
        text = bytearray(b"".join(self.lines))
        text[self.random.randrange(len(text))] ^= 1 << self.random.randrange(8)
        return bytes(text)

    def remove(self) -> bytes:
        first = self.one()
        return b"".join(self.lines[:first] + self.lines[first + self.random.randint(1, 3):])

    def swap(self) -> bytes:
        one, other = self.one(), self.one()
        lines = self.lines.copy()
        lines[one], lines[other] = lines[other], lines[one]
        return b"".join(lines)

    def repeat(self) -> bytes:
        one = self.one()
        return b"".join([*self.lines[:one], self.lines[one], *self.lines[one:]])

    def move(self) -> bytes:
        lines = self.lines.copy()
        line = lines.pop(self.one())
        lines.insert(self.random.randrange(len(lines) + 1), line)
        return b"".join(lines)

    def insert(self) -> bytes:
        line = json.loads(self.lines[self.one()])
        line["event"]["sequence"] += 1
        at = self.random.randrange(len(self.lines) + 1)
        return b"".join([*self.lines[:at], json.dumps(line, separators=(",", ":")).encode() + b"\n", *self.lines[at:]])

    def garbage(self) -> bytes:
        at = self.random.randrange(len(self.lines) + 1)
        return b"".join([*self.lines[:at], self.random.randbytes(self.random.randint(1, 200)).replace(b"\n", b"") + b"\n", *self.lines[at:]])

    def cut(self) -> bytes:
        text = b"".join(self.lines)
        return text[:self.random.randrange(len(text))]

    def field(self) -> bytes:
        number = self.one()
        old, new = self.random.choice([(b"deny", b"allow"), (b"allow", b"deny"), (b"/tree/", b"/else/"), (b'"pid":', b'"pid":1'),
                                       (b"openat", b"unlink"), (b'"uid"', b'"gid"'), (b"integrity", b"integritz")])
        return self.with_line(number, self.lines[number].replace(old, new, 1))

    def forge(self) -> bytes:
        """A record that is changed and hashed anew by somebody who knows how: the next one does not follow it."""
        number = self.random.randrange(len(self.lines) - 1)
        body = self.lines[number].rpartition(b',"integrity":')[0].replace(b'"pid":', b'"pid":9', 1).replace(b"allow", b"deny", 1)
        previous = json.loads(self.lines[number])["integrity"]["previous"].encode()
        import hashlib
        hashed = hashlib.sha256(b"callgate/audit/1\n" + previous + body).hexdigest().encode()
        return self.with_line(number, body + b',"integrity":{"previous":"' + previous + b'","hash":"' + hashed + b'"}}\n')


def test_no_random_edit_of_a_log_passes_for_whole(box):
    """The head is the one that the report gave. Without it only an end that is cut off, or made anew, may count as
    incomplete. The newline of the last line is no part of any record."""
    script = f"for i in 1 2 3 4 5 6; do : > {box.tree}/$i; cat {box.tree}/no-such-secret; done 2>/dev/null; true"
    result = box.run(["/bin/sh", "-c", script], contested(box))
    log, head = Path(result.report["audit"]["file"]), result.report["audit"]["head"]
    lines = log.read_bytes().splitlines(keepends=True)
    assert len(lines) > 15 and audit(box, "verify", "--head", head, str(log)).code == 0
    editor = Editor(box.user.uid, lines)
    place = box.directory(box.root / "edited", 0o700)
    for start in range(0, EDITS // 2, BATCH):  # half of them for each of the two users
        edits = [editor.edit() for _ in range(BATCH)]
        for number, (_, text) in enumerate(edits):
            box.file(place / f"{number}.jsonl", text, 0o600)
        command = f"for i in $(seq 0 {BATCH - 1}); do {box.stage.callgate} audit verify --head {head} {place}/$i.jsonl >/dev/null 2>&1; " \
            f"a=$?; {box.stage.callgate} audit verify {place}/$i.jsonl >/dev/null 2>&1; echo $a $?; done"
        said = [tuple(map(int, line.split())) for line in box.run(["/bin/sh", "-c", command], supervised=False).text.splitlines()]
        assert len(said) == BATCH
        for (kind, text), (with_head, without) in zip(edits, said):
            only_end = b"".join(lines).startswith(text) or text.rstrip(b"\n") == b"".join(lines).rstrip(b"\n")
            shown = (start, kind, with_head, without)
            assert with_head in (1, 2), shown
            assert without == 1 or without == 2 and only_end, shown
