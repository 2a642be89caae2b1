"""Settings files with credentials: a run reads a copy without them, so that a tool keeps the registry that it was told."""
from __future__ import annotations

import os
import shutil

import pytest

import harness

SECRET = "hunter2-SECRET"
NPMRC = f"registry=https://me:{SECRET}@npm.corp.example/\n//npm.corp.example/:_authToken={SECRET}\n@corp:registry=https://npm.corp.example/corp/\n"
PIP = f"[global]\nindex-url = https://me:{SECRET}@pypi.corp.example/simple\n"
CARGO = f'[source.crates-io]\nreplace-with = "corp"\n[registries.corp]\nindex = "sparse+https://cargo.corp.example/"\ntoken = "{SECRET}"\n'
BUN = f'[install]\nregistry = {{ url = "https://npm.corp.example/", token = "{SECRET}" }}\n[install.scopes]\ncorp = "https://me:{SECRET}@npm.corp.example/corp/"\n'
PDM = f'[pypi]\nurl = "https://pypi.corp.example/simple"\npassword = "{SECRET}"\n'
HATCH = f'mode = "local"\n[publish.index]\nrepo = "main"\nauth = "{SECRET}"\n'
SVN = f"[groups]\ncorp = *.corp.example\n[global]\nhttp-proxy-host = proxy.corp.example\nhttp-proxy-password = {SECRET}\n"
POETRY = f'[virtualenvs]\nin-project = true\n[http-basic.corp]\npassword = "{SECRET}"\n'
STREAMLIT = f'[theme]\nbase = "dark"\n[mapbox]\ntoken = "{SECRET}"\n'
HG = f"[ui]\nusername = Me <me@corp.example>\n[auth]\ncorp.password = {SECRET}\n"
ANSIBLE = f"[defaults]\nnocows = 1\n[galaxy_server.corp]\ntoken = {SECRET}\n"
NETRC = f"machine npm.corp.example login me password {SECRET}\n"


@pytest.fixture
def home(box):
    made = box.directory(box.root / "settings-home")
    for name, content in {".npmrc": NPMRC, ".config/pip/pip.conf": PIP, ".cargo/config.toml": CARGO, ".netrc": NETRC,
                          ".config/pnpm/rc": NPMRC, ".bunfig.toml": BUN, ".config/.bunfig.toml": BUN, ".config/pdm/config.toml": PDM,
                          ".config/hatch/config.toml": HATCH, ".subversion/servers": SVN,
                          ".config/pypoetry/config.toml": POETRY, ".streamlit/config.toml": STREAMLIT, ".hgrc": HG, ".config/hg/hgrc": HG, ".ansible.cfg": ANSIBLE,
                          ".m2/settings-security.xml": f"<settingsSecurity><master>{SECRET}</master></settingsSecurity>",
                          ".m2/settings.xml": f"<settings><servers>{SECRET}"}.items():
        path = made / name
        while not path.parent.exists():
            box.directory(next(one for one in reversed([path.parent, *path.parent.parents]) if not one.exists()))
        box.file(path, content.encode(), 0o600)
    return made


def run(box, home, *command: str, profile: str = "agent", options: tuple[str, ...] = (), rules=None):
    return box.run([*command], rules, options=["-p", profile, *options], env={"HOME": str(home)})


def filtered(result) -> list[dict]:
    return [one for one in result.decisions() if one["callgate"]["mechanism"] == "filtered"]


NPM_KEPT = "registry = https://npm.corp.example/\n@corp:registry = https://npm.corp.example/corp/\n"
HG_KEPT = "[ui]\n[auth]\n[ui]\nusername = Me <me@corp.example>\n"
BUN_KEPT = '[install]\nregistry = { url = "https://npm.corp.example/" }\n[install.scopes]\ncorp = "https://npm.corp.example/corp/"\n'


@pytest.mark.parametrize(("name", "kept"), [
    (".npmrc", NPM_KEPT), (".config/pnpm/rc", NPM_KEPT), (".bunfig.toml", BUN_KEPT), (".config/.bunfig.toml", BUN_KEPT),
    (".config/pdm/config.toml", '[pypi]\nurl = "https://pypi.corp.example/simple"\n'),
    (".config/hatch/config.toml", 'mode = "local"\n[publish.index]\nrepo = "main"\n'),
    (".subversion/servers", "[groups]\n[global]\nhttp-proxy-host = proxy.corp.example\n"),
    (".config/pypoetry/config.toml", "[virtualenvs]\nin-project = true\n[http-basic.corp]\n"),
    (".streamlit/config.toml", '[theme]\nbase = "dark"\n[mapbox]\n'),
    (".hgrc", HG_KEPT), (".config/hg/hgrc", HG_KEPT), (".ansible.cfg", "[defaults]\nnocows = 1\n[galaxy_server.corp]\n"),
    (".config/pip/pip.conf", "[global]\nindex-url = https://pypi.corp.example/simple\n"),
    (".cargo/config.toml", '[source.crates-io]\nreplace-with = "corp"\n[registries.corp]\nindex = "sparse+https://cargo.corp.example/"\n'),
    (".netrc", "")])
def test_a_run_reads_a_copy_without_credentials(box, home, name, kept):
    bare = box.run(["/bin/cat", str(home / name)], supervised=False)
    assert SECRET in bare.text, bare.describe()
    result = run(box, home, "/bin/cat", str(home / name))
    assert result.code == 0 and result.text == kept and result.errors == "", result.describe()
    (one,) = filtered(result)
    assert one["file"]["path"] == str(home / name) and one["callgate"]["verdict"] == "deny" and one["rule"]["name"] == "base.registries"
    assert one["callgate"]["errno"] is None and result.report["denials"] == []
    assert SECRET in (home / name).read_text()


def test_the_copy_can_neither_be_changed_nor_lead_to_the_original(box, home):
    code = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
def tried(action):
    try: return action()
    except OSError as error: return error.errno
print(oct(os.fstat(fd).st_mode), tried(lambda: os.write(fd, b"x")), tried(lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR)) != 0)
print(tried(lambda: os.open(sys.argv[1], os.O_RDWR)), tried(lambda: os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)))
copy = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
print("SECRET" in os.read(copy, 9999).decode(), "SECRET" in os.readlink(f"/proc/self/fd/{fd}"))
path = os.open(sys.argv[1], os.O_PATH)
print("SECRET" in os.read(os.open(f"/proc/self/fd/{path}", os.O_RDONLY), 9999).decode())
"""
    result = run(box, home, "/usr/bin/python3", "-c", code, str(home / ".npmrc"))
    assert result.text == "0o100400 9 True\n13 13\nFalse False\nFalse\n", result.describe()
    assert (home / ".npmrc").read_text() == NPMRC


def test_a_link_to_a_settings_file_gives_the_same_copy(box, home):
    link = box.tree / "link"
    os.symlink(home / ".npmrc", link)
    result = run(box, home, "/bin/cat", str(link))
    assert result.code == 0 and SECRET not in result.text and "npm.corp.example" in result.text, result.describe()


@pytest.mark.parametrize("name", [".m2/settings-security.xml", ".m2/settings.xml"])
def test_what_is_not_understood_is_denied_with_a_message(box, home, name):
    result = run(box, home, "/bin/cat", str(home / name))
    assert result.code == 1 and "Permission denied" in result.errors and SECRET not in result.text, result.describe()
    (one,) = result.report["denials"]
    assert one["errno"] == "EACCES" and one["object"] == str(home / name)
    assert "credentials" in result.errors, result.describe()


def test_a_rule_of_the_user_that_denies_the_file_denies_the_copy_too(box, home):
    result = run(box, home, "/bin/cat", str(home / ".npmrc"), options=("-d", str(home / ".npmrc")))
    assert result.code == 1 and result.text == "" and not filtered(result), result.describe()


def test_an_exception_gives_the_whole_file(box, home):
    result = run(box, home, "/bin/cat", str(home / ".npmrc"), options=("--except", f"base.registries={home}/.npmrc", "-r", str(home / ".npmrc")))
    assert result.text == NPMRC, result.describe()


def test_npm_keeps_the_registry_of_the_company(box, home):
    npm = shutil.which("npm", path="/usr/bin:/usr/local/bin")
    if npm is None:
        pytest.skip("npm is not here")
    for scope in ("registry", "@corp:registry"):
        result = run(box, home, npm, "config", "get", scope, profile="node")
        assert result.code == 0 and result.text.startswith("https://npm.corp.example/"), result.describe()
        assert filtered(result), result.describe()


def test_pip_keeps_the_index_of_the_company(box, home):
    result = run(box, home, "/usr/bin/python3", "-m", "pip", "config", "list", profile="python")
    if "No module named pip" in result.errors:
        pytest.skip("pip is not here")
    assert "global.index-url='https://pypi.corp.example/simple'\n" in result.text and SECRET not in result.text, result.describe()


def test_the_log_shows_what_was_filtered_and_replays_the_same(box, home):
    result = run(box, home, "/bin/cat", str(home / ".npmrc"))
    log = result.report["audit"]["file"]
    assert "  filtered  read " in harness.audit(box, "show", log).text
    assert result.audit[-1]["callgate"]["counts"]["deny"] == 0, result.describe()
