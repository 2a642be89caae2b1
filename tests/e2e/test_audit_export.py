"""`callgate audit export`: each format as the systems that take it have published it, every record in it, whatever a
program's names are."""
from __future__ import annotations

import csv
import io
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

import harness
from toolchains import free_port

# The names of the Elastic Common Schema 8.11 that may be in a document, with the JSON type of each.
ECS = {
    "@timestamp": str, "message": str, "ecs.version": str, "event.kind": str, "event.category": list, "event.type": list,
    "event.action": str, "event.outcome": str, "event.sequence": int, "event.duration": int, "event.module": str,
    "event.dataset": str, "event.provider": str, "process.pid": int, "process.entity_id": str, "process.executable": str,
    "process.parent.pid": int, "user.id": str, "host.hostname": str, "file.path": str, "file.inode": str, "file.device": str,
    "destination.ip": str, "destination.port": int, "destination.domain": str, "destination.address": str,
    "network.transport": str, "network.type": str, "rule.name": str,
}
ECS_TYPES = {  # event.type that the schema expects of each event.category
    "file": {"access", "change", "creation", "deletion", "info"}, "process": {"access", "change", "end", "info", "start"},
    "network": {"access", "allowed", "connection", "denied", "end", "info", "protocol", "start"},
}
# The packages that publish the schemas of the other two; installed once into a place of the tests' own.
PACKAGES = ["ocsf-json-schema==1.2.0", "opentelemetry-proto==1.45.2", "jsonschema"]
CHECK_OCSF = r"""
import json, sys
import jsonschema
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema
schema, checks, seen = OcsfJsonSchemaEmbedded(get_ocsf_schema(version="1.5.0")), {}, set()
for line in sys.stdin:
    event = json.loads(line)
    uid = event["class_uid"]
    if uid not in checks:
        name = schema.lookup_class_name_from_uid(class_uid=uid)
        checks[uid] = jsonschema.Draft202012Validator(schema.get_class_schema(name, profiles=event["metadata"]["profiles"]))
    for error in checks[uid].iter_errors(event):
        sys.exit(f"{error.json_path}: {error.message}\n{line}")
    seen.add(uid)
print(json.dumps(sorted(seen)))
"""
CHECK_OTLP = r"""
import json, sys
from google.protobuf.json_format import Parse
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
names = []
for line in sys.stdin:
    data = Parse(line, LogsData())
    for resource in data.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                names.append([record.time_unix_nano, record.severity_number, record.event_name, record.body.string_value])
print(json.dumps(names))
"""


@pytest.fixture(scope="session")
def schemas() -> str:
    """A Python that has the packages of PACKAGES. It is kept between runs: nothing is fetched twice."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callgate-tests" / "schemas"
    python = place / "bin" / "python"
    done = place / "done"
    if not (done.exists() and done.read_text() == repr(PACKAGES)):
        place.parent.mkdir(parents=True, exist_ok=True)
        for command in (["/usr/bin/python3", "-m", "venv", "--clear", str(place)],
                        [str(python), "-m", "pip", "install", "-q", "--no-input", *PACKAGES]):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                pytest.skip(f"the packages that publish the schemas cannot be had: {made.stderr[-200:]}")
        done.write_text(repr(PACKAGES))
    return str(python)


def check(python: str, script: str, text: str):
    done = subprocess.run([python, "-c", script], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


HOSTILE = ["plain", "=HYPERLINK(\"x\")", "comma, \"quote\"", "new\nline", "<script>", "bidi\u202etxt", "\x1b]0;x\x07", b"\xff\xfe".decode("latin-1")]


@pytest.fixture
def log(box) -> Path:
    """A run with calls of every kind of object, verdict and mechanism, and names as hostile as can be."""
    for name in HOSTILE[:-1]:
        box.file(box.tree / name, b"x")
    raw = os.fsencode(box.tree) + b"/\xff\xfe"
    with open(raw, "wb") as file:
        os.chmod(file.fileno(), 0o644)
    script = box.file(box.root / "many.py", rf"""
import os, socket
for name in os.listdir(os.fsencode({str(box.tree)!r})):
    try: os.close(os.open(os.path.join(os.fsencode({str(box.tree)!r}), name), os.O_RDONLY))
    except OSError: pass
def attempt(act):
    try: act()
    except OSError: pass
top = {str(box.tree)!r}
attempt(lambda: os.mkdir(top + "/made"))
attempt(lambda: os.close(os.open(top + "/made/file", os.O_WRONLY | os.O_CREAT)))
attempt(lambda: os.close(os.open(top + "/made/file", os.O_WRONLY)))
attempt(lambda: os.chmod(top + "/made/file", 0o600))
attempt(lambda: os.rename(top + "/made/file", top + "/made/other"))
attempt(lambda: os.rmdir(top + "/made"))
attempt(lambda: os.unlink(top + "/made/other"))
def connect(address, family):
    with socket.socket(family) as one: one.connect(address)
attempt(lambda: connect(("127.0.0.1", {free_port()}), socket.AF_INET))
attempt(lambda: connect(("127.0.0.2", 9), socket.AF_INET))
attempt(lambda: connect(("::1", 9), socket.AF_INET6))
attempt(lambda: connect("\0=formula", socket.AF_UNIX))
attempt(lambda: socket.socket().bind(("127.0.0.1", 0)))
os.spawnv(os.P_WAIT, "/bin/true", ["true"])
try: os.execv("/usr/bin/env", ["env"])
except OSError: pass
""".encode())
    rules = harness.rule_set(
        {"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"}, {"id": "script", "allow": "read", "path": str(script)},
        {"id": "no", "deny": ["read", "write", "execute"], "path": ["**/<script>", "**/no-such-secret", "/usr/bin/env"], "reason": "a \"reason\""},
        {"id": "local", "allow": ["connect", "bind"], "address": "127.0.0.1"})
    result = box.run(["/usr/bin/python3", "-S", str(script)], rules)
    assert {one["callgate"]["operation"] for one in result.decisions()} == {
        "read", "modify", "create", "delete", "metadata", "execute", "connect", "bind"}, result.describe()
    assert any(one["event"]["action"] == "act.failed" for one in result.audit), result.describe()
    return Path(result.report["audit"]["file"])


def export(box: harness.Box, log: Path, form: str, *options: str) -> str:
    done = box.run([str(box.stage.callgate), "audit", "export", "--format", form, *options, str(log)], supervised=False)
    assert done.code == 0 and not done.errors, done.describe()
    assert all(one >= 32 or one in (10, 13) for one in done.out) and done.out.isascii() or form == "csv", done.describe()
    return done.out.decode()


def leaves(value, path: str = ""):
    """Dotted names with values; what is callgate's own is left out."""
    for name, member in value.items():
        if isinstance(member, dict):
            if name != "callgate" or path:
                yield from leaves(member, f"{path}{name}.")
        else:
            yield path + name, member


def test_ecs_has_the_schema_s_names_and_types(box, log):
    documents = [json.loads(line) for line in export(box, log, "ecs").splitlines()]
    records = harness.read_log(log)
    assert len(documents) == len(records)
    for one, record in zip(documents, records):
        for name, value in leaves(one):
            assert type(value) is ECS[name], (name, value)
        event = one["event"]
        assert all(set(event["type"]) <= ECS_TYPES[category] for category in event["category"]), event
        assert event["outcome"] in ("success", "failure", "unknown") and one["ecs"]["version"] == "8.11.0"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", one["@timestamp"]) and one["message"]
        assert one["host"]["hostname"] == socket.gethostname()
        assert one["callgate"]["integrity"] == record["integrity"] and one["event"]["sequence"] == record["event"]["sequence"]


def test_ocsf_is_what_the_published_schema_says(box, log, schemas):
    text = export(box, log, "ocsf")
    assert check(schemas, CHECK_OCSF, text) == [0, 1001, 1007, 4001]
    # The check can fail: a member that the schema does not know is found.
    broken = subprocess.run([schemas, "-c", CHECK_OCSF], input=text.replace('"class_name"', '"class_nome"'), capture_output=True,
                            text=True, check=False)
    assert broken.returncode != 0 and "class_nome" in broken.stderr
    events = [json.loads(line) for line in text.splitlines()]
    assert len(events) == len(harness.read_log(log))
    denied = next(one for one in events if one.get("policy", {}).get("name") == "no" and one["class_uid"] == 1001)
    assert (denied["activity_id"], denied["action_id"], denied["disposition_id"], denied["type_uid"]) == (2, 2, 2, 100102)
    assert denied["file"] == {"name": "<script>", "path": f"{box.tree}/<script>", "type_id": 0, "uid": denied["file"]["uid"]}
    assert denied["status_detail"] == 'a "reason"' and denied["unmapped"]["callgate"]["verdict"] == "deny"
    assert denied["actor"]["process"]["file"]["name"].startswith("python3")
    moved = next(one for one in events if one["class_uid"] == 1001 and one["activity_id"] == 5)
    assert moved["file_result"]["path"] == f"{box.tree}/made/other"
    began = next(one for one in events if one["class_uid"] == 1007 and one.get("policy", {}).get("name") == "no")
    assert began["process"]["file"]["path"] == "/usr/bin/env" and began["action_id"] == 2
    assert {one["dst_endpoint"].get("name") or one["dst_endpoint"]["ip"] for one in events if one["class_uid"] == 4001} >= {
        "127.0.0.1", "127.0.0.2", "::1", "@=formula"}


def test_otlp_is_read_by_the_published_protocol(box, log, schemas):
    records = harness.read_log(log)
    read = check(schemas, CHECK_OTLP, export(box, log, "otlp-json"))
    assert len(read) == len(records)
    assert [name for _, _, name, _ in read if name in ("callgate.run.start", "callgate.run.end")] == ["callgate.run.start", "callgate.run.end"]
    assert all(time > 1_700_000_000 * 10**9 and body for time, _, _, body in read)
    denied = sum(one.get("callgate", {}).get("verdict") == "deny" for one in records)
    assert denied and sum(severity == 13 for _, severity, _, _ in read) == denied


def test_csv_is_one_row_a_record_and_no_cell_is_a_formula(box, log):
    records = harness.read_log(log)
    rows = list(csv.reader(io.StringIO(export(box, log, "csv"), newline="")))
    header, rows = rows[0], rows[1:]
    assert len(rows) == len(records) and all(len(row) == len(header) for row in rows)
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]
    by_name = [dict(zip(header, row)) for row in rows]
    assert [row["hash"] for row in by_name] == [one["integrity"]["hash"] for one in records]
    assert {row["verdict"] for row in by_name} == {"", "allow", "deny"}
    assert f'{box.tree}/comma, "quote"' in {row["object"] for row in by_name}


def test_a_filter_chooses_and_lines_that_are_none_are_said(box, log):
    box.replays.leave_out("the test damages its log")
    some = [json.loads(line) for line in export(box, log, "ecs", "--verdict", "deny").splitlines()]
    assert some and all(one["callgate"]["verdict"] == "deny" for one in some)
    assert all(one["host"]["hostname"] for one in some)
    box.file(log, log.read_bytes().replace(b"\n", b"\nnot a record\n", 1), 0o600)
    for form in ("ecs", "ocsf", "otlp-json", "csv"):
        done = box.run([str(box.stage.callgate), "audit", "export", "--format", form, str(log)], supervised=False)
        assert done.code == 1 and f"{log}:2: not JSON" in done.errors and len(done.out) > 1000, done.describe()
    for options in (["--format", "xml"], []):
        done = box.run([str(box.stage.callgate), "audit", "export", *options, str(log)], supervised=False)
        assert done.code == 125 and "expected ecs, ocsf, otlp-json or csv" in done.errors, done.describe()
