"""The report of a log: the page in a real browser, and the Markdown, with names that mean to be markup."""
from __future__ import annotations

import json
import os
import random
import re
import stat
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

import harness
from browser import Browser
from harness import audit
from toolchains import require

NAMES = 600 if harness.SOAK else 40  # of random bytes
RECORDS = 100_000

# In paths the slash is free: a directory "<" with "script>…" in it makes a whole end tag.
HOSTILE = ["<script>window.pwned=1<", "</script><script>document.title=7*7</script>", "<img src=x onerror=window.pwned=1>",
           "<!--<script>", "]]><svg onload=window.pwned=1>", "quote'\"`$(id)|\\", "&lt;b&gt;&amp;", "new\nline\ttab\x1b[31m",
           "bidi\u202egnp.exe", "line\u2028separator\u2029", "zero\u200bwidth\ufeff", "\u05e2\u05d1\u05e8\u05d9\u05ea", "{{7*7}}${7*7}@@DATA@@",
           "javascript:window.pwned=1", "[link](http://127.0.0.1/)", "| a | b |", "```"]

PROGRAM = r'''
import json, os, socket, subprocess, sys
tree, names = sys.argv[1], json.load(open(sys.argv[2]))
def attempt(act):
    try: act()
    except OSError: pass
for name in [bytes.fromhex(one) for one in names]:
    path = os.fsencode(tree) + b"/closed/" + name
    attempt(lambda: open(path, "rb"))
for _ in range(3): attempt(lambda: open(tree + "/closed/.ssh/id_ed25519"))
for address in [("127.0.0.1", 5432), ("127.0.0.1", 5433), ("127.1.2.3", 80)]:
    attempt(lambda: socket.create_connection(address))
attempt(lambda: os.rename(tree + "/open", tree + "/closed/new"))
subprocess.run(["/bin/sh", "-c", "cat /etc/hostname >/dev/null; /bin/cat " + tree + "/open; :"])
'''


def rules(box: harness.Box) -> dict:
    return harness.rule_set({"id": "tree", "allow": ["read", "write"], "path": f"{box.tree}/**"},
                            {"id": "closed", "deny": ["read", "write"], "path": f"{box.tree}/closed/**", "reason": "<b>not</b> for you"})


def hostile_run(box: harness.Box, names: list[bytes], options: list[str] = ()) -> harness.Result:  # type: ignore[assignment]
    """A program that asks for files of these names, which are there and denied."""
    closed = box.directory(box.tree / "closed")
    for name in names:
        parts, at = name.split(b"/"), os.fsencode(closed)
        for part in parts[:-1]:
            at += b"/" + part
            os.makedirs(at, exist_ok=True)
        Path(os.fsdecode(at + b"/" + parts[-1])).write_bytes(b"secret")
    box.file(closed / ".ssh" / "id_ed25519", b"secret")
    box.file(box.tree / "open", b"open")
    program = box.file(box.tree / "program.py", PROGRAM.encode())
    list_of = box.file(box.tree / "names.json", json.dumps([one.hex() for one in names]).encode())
    result = box.run(["/usr/bin/python3", str(program), str(box.tree), str(list_of)], rules(box), options=list(options))
    assert result.code == 0, result.describe()
    return result


def log_of(result: harness.Result) -> str:
    return result.report["audit"]["file"]


def page_of(box: harness.Box, log: str, code: int = 0) -> Path:
    page = box.tree / "report.html"
    made = audit(box, "report", "--html", str(page), log)
    assert made.code == code and made.out == b"", made.describe()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    return page


class Structure(HTMLParser):
    """The elements of a page, and what its data say."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple] = []
        self.inside = ""
        self.scripts: list[str] = []
        self.title = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, tuple(sorted(name for name, _ in attributes))))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.tags.append(("/" + tag,))
        self.inside = ""

    def handle_comment(self, data):
        self.tags.append(("comment", data))

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        if self.inside == "title":
            self.title += data

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


@pytest.fixture
def browser(box):
    require("chromium")
    made = Browser(box.root / "profile", cwd=box.tree, env=box.environment(), **box.user.popen_identity())
    yield made
    made.close()


def keep(png: bytes, name: str) -> None:
    """Pictures stay in the build directory, for people."""
    if tables := os.environ.get("CALLGATE_TABLES"):
        place = Path(tables).parent / "screenshots"
        place.mkdir(exist_ok=True)
        (place / f"{name}.png").write_bytes(png)


def test_a_run_with_hostile_names_is_a_page_that_shows_them_and_runs_none(box, browser):
    names = [one.encode() for one in HOSTILE] + [b"bytes\xff\xfe", b"/".join([b"long" * 50] * 18)]
    result = hostile_run(box, names)
    decisions = result.decisions()
    denied = [one for one in decisions if one["callgate"]["verdict"] == "deny"]
    page = browser.page(f"file://{page_of(box, log_of(result))}")
    assert page.complaints() == [] and page.requested() == [f"file://{box.tree}/report.html"]
    assert page.run("document.documentElement.dataset.ready") == "yes"
    policy = page.run("document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    keep(page.picture(box.root / "light.png"), f"report-{box.user.kind}-light")

    shown = page.run("document.body.innerText")
    assert "python3" in page.run("document.title") and "exited 0" in shown and "closed" in shown
    assert page.run("document.querySelector('.tile.refused b').textContent") == str(len(denied))
    for expected in ("<b>not</b> for you", "--except", "127.1.2.3", "id_ed25519"):
        assert expected in shown, expected
    # Each name is text, whole, and what is hidden in it is a word.
    while page.run("!!document.querySelector('#denials .more')"):
        page.click("#denials .more")
    shown = page.run("document.getElementById('denials').textContent")
    for name in HOSTILE:
        visible = re.sub("[\n\t\x1b\u202e\u2028\u2029\u200b\ufeff]", lambda one: f"U+{ord(one[0]):04X}", name.replace("//", "/"))
        assert visible in shown, name
    assert "bytes\\xff\\xfe" in shown
    assert not re.search("[\u202a-\u202e\u2028\u2029\u200b\ufeff\x1b]", page.run("document.documentElement.textContent.replace(document.getElementById('data').textContent, '')"))
    assert page.run("[document.scripts.length, document.images.length, document.querySelectorAll('svg[onload], b b, iframe').length, window.pwned]") == [2, 0, 0, None]
    assert page.run("document.title").startswith("/usr/bin/python3 ")

    # A name of 4 kB is shortened; all of it is there when asked for.
    long = "/".join(["long" * 50] * 18)
    assert long not in shown and "more" in page.run("document.querySelector('#denials button.gap').textContent")
    page.run("document.querySelectorAll('#denials h3 button.gap').forEach(one => one.click())")
    assert long in page.run("document.getElementById('denials').textContent")
    assert page.complaints() == []


def test_searching_and_filtering_leaves_what_was_asked_for(box, browser):
    result = hostile_run(box, [b"one", b"two", b"<script>three"], ["--record", "all"])
    decisions = result.decisions()
    page = browser.page(f"file://{page_of(box, log_of(result))}")

    def found() -> str:
        return page.run("document.getElementById('found').textContent")

    def lines() -> list[str]:
        return page.run("[...document.querySelectorAll('.call:not(.call-head) .object')].map(one => one.textContent)")

    total = f"{len(decisions):,} calls"
    assert found() == total, result.describe()
    page.click("#search")
    page.type("id_ed25519")
    expected = [one for one in decisions if one.get("file", {}).get("path", "").endswith("/id_ed25519")]
    assert expected and found() == f"{len(expected)} of {total}"
    assert lines() == [f"{box.tree}/closed/.ssh/id_ed25519"] * len(expected)
    assert page.run("[...document.querySelectorAll('.denial h3')].map(one => one.textContent)") == [f"{box.tree}/closed/.ssh/id_ed25519"]
    assert page.run("document.querySelectorAll('#hosts .line').length") == 0
    page.click("#chips .link")
    assert found() == total

    page.click("#search")
    page.type("<SCRIPT>three")
    assert set(lines()) == {f"{box.tree}/closed/<script>three"}
    page.click("#chips .link")

    page.run("document.querySelector('.toggle.allowed').click()")
    denied = [one for one in decisions if one["callgate"]["verdict"] != "allow"]
    assert found() == f"{len(denied)} of {total}" and len(lines()) == len(denied)
    page.click("#chips .link")
    page.run("[...document.querySelectorAll('#hosts .line')].find(one => one.textContent.includes('127.0.0.1')).click()")
    assert found() == f"2 of {total}" and set(lines()) == {"127.0.0.1:5432", "127.0.0.1:5433"}
    page.click("#chips .link")
    page.run("(one => { one.value = 'connect'; one.dispatchEvent(new Event('change')); })(document.getElementById('operation'))")
    assert found() == f"3 of {total}"
    page.click("#chips .link")

    # The shell stands beneath the program that started it, and cat beneath the shell.
    tree = page.run("""(function walk(list) { return [...list.children].map(one =>
        [one.querySelector(".node-name").textContent, one.lastElementChild.tagName === "UL" ? walk(one.lastElementChild) : []]); })
        (document.querySelector("#processes .tree"))""")
    programs = {name: children for name, children in tree}
    python = next(children for name, children in programs.items() if "python3" in name)
    assert any("dash" in name or "sh" in name for name, _ in python), tree
    page.run("[...document.querySelectorAll('#paths .node-name')].find(one => one.textContent.includes('closed')).click()")
    assert all(one.startswith(f"{box.tree}/closed") for one in lines()) and len(lines()) > 3
    page.click(".call:not(.call-head):not(.event)")
    assert "Carried out" in page.run("document.querySelector('dialog[open]').textContent")
    page.run("document.querySelector('dialog').close()")
    page.click("#chips .link:last-child")

    # A span of time, drawn with the mouse; a call, chosen with the keyboard.
    page.run("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    left, top, width = page.run("(box => [box.left, box.top, box.width])(document.querySelector('.plot').getBoundingClientRect())")
    for kind, share in (("mousePressed", 0.0), ("mouseMoved", 0.5), ("mouseReleased", 1.0)):
        page.call("Input.dispatchMouseEvent", type=kind, x=left + 1 + (width - 2) * share, y=top + 20, button="left", buttons=1, clickCount=1)
    page.settle()
    assert found() == f"{len(decisions)} of {total}" and page.run("document.querySelectorAll('#chips .chip').length") == 1
    page.run("document.querySelector('.calls').focus()")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
    page.settle()
    first = decisions[0]["file"]["path"]
    assert first in page.run("document.querySelector('dialog[open]').textContent")
    assert page.complaints() == []


def test_a_page_that_did_not_escape_would_be_noticed(box, browser):
    """The control of the tests above: the same page with its data as they were in the log."""
    result = hostile_run(box, [one.encode() for one in HOSTILE])
    escaped = page_of(box, log_of(result)).read_text(encoding="utf-8", errors="surrogateescape")
    raw = escaped.replace("\\u003c", "<").replace("\\u003e", ">")
    assert Structure(escaped).tags != Structure(raw).tags
    guarded = browser.page(f"file://{box.file(box.tree / 'guarded.html', raw.encode())}")
    assert guarded.complaints() and guarded.run("document.scripts.length") > 2
    policy = re.search(r"<meta http-equiv.*?>", raw)[0]
    bare = browser.page(f"file://{box.file(box.tree / 'bare.html', raw.replace(policy, '').encode())}")
    assert bare.run("document.title") == "49"


def test_the_page_fits_a_phone_the_dark_and_paper(box, browser):
    result = hostile_run(box, [f"name{number}".encode() for number in range(30)])
    address = f"file://{page_of(box, log_of(result))}"
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = browser.page(address), browser.page(address, dark=True)
    colours = [light.run(background), dark.run(background)]
    assert len(set(colours)) == 2
    dark.click("#theme")
    assert dark.run(background) == colours[0]
    dark.click("#theme")
    assert dark.run(background) == colours[1]
    keep(dark.picture(box.root / "dark.png"), f"report-{box.user.kind}-dark")
    narrow = browser.page(address, width=400)
    assert narrow.run("document.documentElement.scrollWidth") == 400
    keep(narrow.picture(box.root / "narrow.png"), f"report-{box.user.kind}-narrow")
    light.run("window.printed = 0, window.addEventListener('beforeprint', () => { window.printed = document.querySelectorAll('.denial').length; })")
    before = light.run("document.querySelectorAll('.denial').length")
    assert light.pdf().startswith(b"%PDF")
    denials = result.report["denials"]
    assert before < light.run("window.printed") == len(denials), "all denials are on paper"
    for page in (light, dark, narrow):
        assert page.complaints() == []


def record(number: int, action: str, ours: dict, **more) -> dict:
    return {"@timestamp": f"2026-11-22T10:{number // 60_000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}000000Z", "ecs": {"version": "8.11.0"},
            "event": {"kind": "event", "action": action, "sequence": number + 1}, **more,
            "callgate": {"schema": "1.0", "run": "k3f9ab", "mode": "enforce", **ours}, "integrity": {"previous": "0" * 64, "hash": f"{number:064x}"}}


def decision(number: int, path: str, pid: int, denied: bool, **ours) -> dict:
    return record(number, "openat", {"operation": "read", "operations": ["read"], "verdict": "deny" if denied else "allow", "decided_by": "rule",
                                     "mechanism": "errno" if denied else "on_behalf", "errno": "EACCES" if denied else None, "tier": "contested",
                                     "reason": None, "count": 1, "input": {"dirfd": None, "cwd": None, "path": path, "path_b64": None, "flags": [], "mode": None}, **ours},
                  process={"pid": pid, "entity_id": f"{pid}@{pid}", "executable": f"/usr/bin/program{pid % 7}", "parent": {"pid": 150 + pid // 4}},
                  rule={"name": "secrets" if denied else "project"}, file={"path": path})


def written(box: harness.Box, records: list[dict]) -> str:
    return str(box.file(box.tree / "made.jsonl", "".join(json.dumps(one) + "\n" for one in records).encode(), 0o600))


def many(box: harness.Box, records: list[tuple[str, int, bool]]) -> str:
    """A log of decisions by path, pid, and whether they were denied."""
    line = {denied: json.dumps(decision(0, "@PATH@", 0, denied)) for denied in (False, True)}
    with open(box.file(box.tree / "made.jsonl", b"", 0o600), "w") as log:
        for number, (path, pid, denied) in enumerate(records):
            time_of = f"2026-11-22T10:{number // 60_000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}"
            log.write(line[denied].replace("@PATH@", path).replace('"pid": 0, "entity_id": "0@0"', f'"pid": {pid}, "entity_id": "{pid}@{pid}"')
                      .replace('"sequence": 1', f'"sequence": {number + 1}').replace("2026-11-22T10:00:00.000", time_of) + "\n")
    return log.name


ordinary = pytest.mark.parametrize("user", ["user"], indirect=True)  # once is enough


@ordinary
def test_a_hundred_thousand_records_are_listed(box, browser, measured):
    """How long it takes is printed with the tables, not asserted."""
    randomly = random.Random(1)
    log = many(box, [(f"/home/u/project/dir{randomly.randrange(600)}/file{randomly.randrange(400)}.c", 200 + randomly.randrange(600),
                      randomly.random() < 0.02) for _ in range(RECORDS)])
    begun = time.monotonic()
    file = page_of(box, log)
    made = time.monotonic() - begun
    page = browser.page(f"file://{file}")
    first = "performance.getEntriesByName('first-contentful-paint')"
    harness.until(lambda: page.run(f"{first}.length"), "the first paint")
    paint = page.run(f"{first}[0].startTime")
    drawn = page.run("performance.getEntriesByName('ready')[0].startTime")
    begun = time.monotonic()
    page.click("#search")
    page.type("dir17/file3")
    typed = time.monotonic() - begun
    measured.append(f"report of {RECORDS:,} records: made in {made:.1f} s, {file.stat().st_size / 1e6:.1f} MB, "
                    f"first paint after {paint / 1000:.2f} s, all of it after {drawn / 1000:.2f} s, a search typed and drawn in {typed:.2f} s")
    lines = Path(log).read_text().splitlines()
    expected = sum(1 for line in lines if "dir17/file3" in json.loads(line)["file"]["path"])
    assert page.run("document.getElementById('found').textContent") == f"{expected} of {RECORDS:,} calls"
    page.click("#chips .link")
    page.run("(box => { box.scrollTop = box.scrollHeight; })(document.querySelector('.calls'))")
    page.settle()
    drawn = page.run("document.querySelectorAll('.call').length")
    assert drawn < 100, "only what is in sight is drawn"
    last = json.loads(lines[-1])["file"]["path"]
    assert page.run("[...document.querySelectorAll('.call .object')].pop().textContent") == last
    keep(page.picture(box.root / "many.png"), f"report-{box.user.kind}-many")
    assert page.complaints() == []


@ordinary
def test_what_does_not_fit_is_counted_and_said(box):
    """Beyond the bounds memory stays where it is, the counts are of all records, and the page says what is left out."""
    count = 130_000
    page = page_of(box, many(box, [(f"/home/u/{number % 5}/{number}/" + "x" * 60, 200 + number, number % 1000 == 0) for number in range(count)]))
    data = Structure(page.read_text()).data
    assert data["records"] == count and data["totals"] == [count - count // 1000, count // 1000, 0]
    assert len(data["calls"]["time"]) == 100_000 + count // 1000
    assert data["cut"]["allowed"] == count - count // 1000 - 100_000 and data["cut"]["not_allowed"] == 0
    assert len(data["objects"]) < 125_000 and data["cut"]["objects"] > 0
    assert sum(sum(one[5:8]) for one in data["objects"]) == count
    assert sum(sum(one[7:10]) for one in data["processes"]) == count and data["cut"]["processes"] > 0
    assert sum(sum(step) for step in data["times"]["steps"]) == count


def test_names_of_random_bytes_stay_text(box):
    """Parsed by another parser, the page has the elements of any other report, and its data the log's names."""
    randomly = random.Random(box.user.uid)
    alphabet = [b"<", b">", b"\"", b"'", b"&", b"\\", b"script", b"--", b"!", b"\n", b"\x1b", b"`", b"|", b"@@", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xff", b"]]>", b" "]
    names = []
    for _ in range(NAMES):
        name = b"".join(randomly.choice(alphabet) if randomly.random() < 0.6 else bytes([randomly.randrange(1, 256)]) for _ in range(randomly.randrange(1, 24)))
        names.append(name.replace(b"/", b"").replace(b"\0", b"")[:200] or b"_")
    names = [one for one in dict.fromkeys(names) if one not in (b".", b"..")]
    result = hostile_run(box, names)
    log = log_of(result)
    page = Structure(page_of(box, log).read_text(encoding="utf-8"))
    benign = Structure(page_of(box, written(box, [decision(0, "/a", 1, True)])).read_text())
    assert page.tags == benign.tags and page.scripts[1] == benign.scripts[1]
    paths = {one["file"]["path"] for one in result.decisions() if "file" in one}
    assert len(paths) > len(names) / 2 and paths <= set(page.data["strings"])
    markdown = audit(box, "report", "--markdown", log)
    assert markdown.code == 0, markdown.describe()
    check_markdown(markdown.out.decode("utf-8"))


def check_markdown(text: str) -> list[str]:
    """Only text that the report itself writes means anything to Markdown or HTML. Gives the texts in `<code>`."""
    codes = []

    class Codes(HTMLParser):
        depth = 0

        def handle_starttag(self, tag, attributes):
            assert tag in ("code", "details", "summary", "sub") and not attributes, (tag, attributes)
            if tag == "code":
                codes.append("")
                self.depth = 1

        def handle_endtag(self, tag):
            self.depth = 0 if tag == "code" else self.depth

        def handle_data(self, data):
            if self.depth:
                codes[-1] += data

    parser = Codes(convert_charrefs=True)
    parser.feed(text)
    parser.close()
    for line in text.splitlines():
        for code in re.findall("<code>(.*?)</code>", line):
            assert re.fullmatch(r"(&#\d+;|[A-Za-z0-9/ ]|[^\x00-\x7f])*", code), code
        if line.startswith("| "):
            assert line.count("|") in (5, 6, 7), line
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2028\u2029]", text)
    return codes


def test_markdown_for_a_pull_request_says_what_was_denied_and_how_to_allow_it(box):
    result = hostile_run(box, [one.encode() for one in HOSTILE])
    log = log_of(result)
    made = audit(box, "report", "--markdown", log)
    assert made.code == 0, made.describe()
    codes = check_markdown(made.text)
    assert f"{box.tree}/closed/.ssh/id_ed25519" in codes and any("bidi\\u202egnp.exe" in one for one in codes)
    denied = sum(one["count"] for one in result.report["denials"])
    assert f"**{denied} calls denied**" in made.text and "<details><summary>Denied: " in made.text
    hints = {one["object"]: one["hint"] for one in result.report["denials"]}
    assert hints["127.1.2.3:80"] in codes, made.text
    # The rules that the report offers do allow it.
    fix = next(one for one in codes if one.startswith("--except") and one.endswith("id_ed25519"))
    allowed = box.run(["/bin/cat", f"{box.tree}/closed/.ssh/id_ed25519"], rules(box), options=fix.split(" "))
    assert allowed.code == 0 and allowed.out == b"secret", allowed.describe()
    file = box.tree / "comment.md"
    assert audit(box, "report", f"--markdown={file}", log).out == b"" and file.read_bytes() == made.out


def test_an_audited_run_says_that_nothing_was_enforced(box):
    result = hostile_run(box, [b"one"], ["--mode", "audit"])
    data = Structure(page_of(box, log_of(result)).read_text()).data
    counts = result.report["counts"]
    assert data["totals"][1] == 0 and data["totals"][2] == counts["would_deny"] > 0, result.describe()
    assert {one[0] for one in data["denials"]} == {2}
    assert "audit: nothing was enforced" in audit(box, "report", "--markdown", log_of(result)).text


def test_bad_use_and_bad_logs_are_said(box):
    good = json.dumps(decision(0, "/a", 1, True))
    log = str(box.file(box.tree / "made.jsonl", f"{good}\nnot JSON\n{{}}\n{good}\ntorn".encode(), 0o600))
    page = box.tree / "report.html"
    made = audit(box, "report", "--html", str(page), log)
    assert made.code == 1 and "made.jsonl:2: not JSON" in made.errors and "made.jsonl:3:" in made.errors, made.describe()
    data = Structure(page.read_text()).data
    assert data["records"] == 2 and data["bad_lines"] == 2 and data["torn"]
    bad = str(box.file(box.tree / "bad.jsonl", b"bad\n" * 5000, 0o600))
    assert len(audit(box, "report", "--html", str(page), bad).errors.splitlines()) == 21
    for line, said in [(["report", log], "needs a form"), (["report", "--html", "x.html", log, log], "takes one log"),
                       (["report", "--html", "-", "--markdown", log], "cannot both go to standard output"),
                       (["report", "--html", str(box.tree / "none" / "x.html"), log], "cannot write"),
                       (["report", "--html", "/dev/full", log], "cannot write /dev/full: No space left on device"),
                       (["report", "--html", "x.html", str(box.tree / "nothing.jsonl")], "no run and no file"),
                       (["show", "--html", "x.html", log], "does not fit callgate audit show"),
                       (["report", "--html", "x.html", "--json", log], "does not fit callgate audit report")]:
        wrong = audit(box, *line)
        assert wrong.code == 125 and said in wrong.errors and len(wrong.errors.splitlines()) <= 4, wrong.describe()
    assert sorted(one.name for one in box.tree.iterdir()) == ["bad.jsonl", "made.jsonl", "report.html"], "nothing half made is left"


def test_every_text_of_a_forged_log_stays_text(box, browser):
    """An attacker who edits a log can put any text into any field."""
    evil = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u202e\u2028"
    start = record(0, "run.start", {key: evil for key in ("workdir", "temporary_directory", "rules_sha256", "kernel", "version")} |
                   {"command": [evil, "'"], "profiles": [evil], "degraded": [evil], "landlock_abi": 2 ** 63, "run": evil, "mode": evil})
    forged = decision(1, "/" + evil, 1, True, operation=evil, operations=[evil], decided_by=evil, reason=evil, errno=evil, mechanism=evil, verdict=evil, run=evil)
    forged["rule"]["name"] = forged["process"]["executable"] = evil
    network = record(2, "connect", {"operation": "connect", "operations": ["connect"], "verdict": "deny", "mechanism": "errno", "decided_by": "default", "run": evil},
                     destination={"ip": evil, "port": 10 ** 30, "domain": evil}, rule={"name": "default"})
    end = record(3, "run.end", {"outcome": evil, "run": evil, "exit_code": -2 ** 31, "signal": 10 ** 20, "duration_ms": 2 ** 64 - 1})
    start["@timestamp"], end["@timestamp"] = evil, "0000-13-45T99:99:99.999999999Z"
    page = browser.page(f"file://{page_of(box, written(box, [start, forged, network, end, decision(4, evil * 300, -1, True)]))}")
    assert page.complaints() == []
    assert page.run("[document.scripts.length, document.images.length, window.pwned, document.documentElement.dataset.ready]") == [2, 0, None, "yes"]
    check_markdown(audit(box, "report", "--markdown", str(box.tree / "made.jsonl")).text)
