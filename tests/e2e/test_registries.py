"""Real package managers through the registries that their ordinary clients reach, each under `-p NAME+net` and nothing else."""
from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

import harness
import toolchains

# The small packages that are fetched, and a host of each registry. A registry that is not reached skips its test by name.
TOOLS = {
    "npm": ("node+net", "registry.npmjs.org", "npm init -y >/dev/null && npm install left-pad@1.3.0 && test -f node_modules/left-pad/index.js"),
    "pip": ("python+net", "pypi.org", "python3 -m pip install --no-deps --target=there six==1.16.0 && test -f there/six.py"),
    "uv": ("python+net", "pypi.org", "python3 -m pip install --no-deps --target=tools uv==0.5.11 && "
           "PYTHONPATH=tools python3 -m uv pip install --no-deps --target=there six==1.16.0 && test -f there/six.py && "
           "PYTHONPATH=tools python3 -m uv init -q --name one . && test -f .git/HEAD && git config core.bare >/dev/null && test -f pyproject.toml && "
           "PYTHONPATH=tools python3 -m uv tool run cowsay@6.1 -t hi"),
    "pnpm": ("node+net", "registry.npmjs.org", "npm install --no-save --prefix tools pnpm@12.21.0 && echo '{}' >package.json && "
             "tools/node_modules/.bin/pnpm add left-pad@1.3.0 && test -f node_modules/left-pad/index.js"),
    "git": ("git+net", "github.com", "git ls-remote https://github.com/git/git.git HEAD"),
    "cargo": ("rust+net", "index.crates.io", "cargo init --vcs none --name tiny . && cargo add itoa@1.0.1 && cargo fetch"),
    "go": ("go+net", "proxy.golang.org", "go mod init example.org/tiny && go get rsc.io/quote@v1.5.2"),
    "apt-get": ("apt+net", "deb.debian.org", "apt-get download hostname && test -f hostname_*.deb"),
    "mvn": ("java+net", "repo.maven.apache.org", "mvn -q -B dependency:get -Dartifact=junit:junit:4.12 -Dtransitive=false"),
}
# The tools that their tests install, and what installs them.
COMES_BY = {"uv": "python3", "pnpm": "npm"}
PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED = ["SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"]


def newer_cargo(box) -> str:
    """A directory with the cargo of rustup, which reads the registry's index by https; before 1.68 it clones it from a forge.

    "" where there is none. Users cannot read another's home, so what fetching needs is copied.
    """
    rustup = shutil.which("rustup")
    found = rustup and subprocess.run([rustup, "which", "cargo"], capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        return ""
    toolchain, own = Path(found).parents[1], box.directory(box.tree / "toolchain")
    for part in ("bin/cargo", "bin/rustc", *(str(one.relative_to(toolchain)) for one in toolchain.glob("lib/*.so*"))):
        (own / part).parent.mkdir(exist_ok=True)
        shutil.copy(toolchain / part, own / part)
    return f"{own}/bin"


def reached(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("tool", TOOLS)
def test_a_package_manager_works_on_its_first_try(box, tool):
    profile, host, script = TOOLS[tool]
    path = os.environ["PATH"] if box.user.name == "root" else PATH
    before = f"{newer_cargo(box)}:" if tool == "cargo" else ""
    if shutil.which(COMES_BY.get(tool, tool), path=before + path) is None:
        pytest.skip(f"{tool} is not here")
    if not reached(host, 80 if tool == "apt-get" else 443):
        pytest.skip(f"{tool}: {host} is not reached")
    locks = Path(f"/tmp/pnpm-store-operation-locks-{box.user.uid}")
    kept = tool != "pnpm" or locks.exists()
    home = box.directory(box.root / f"{tool}-home")
    variables = {"HOME": str(home), "PATH": before + PATH, **{name: os.environ[name] for name in PASSED if name in os.environ}}
    bare = box.directory(box.root / "bare")
    native = box.run(["/bin/sh", "-c", script], supervised=False, env=variables, cwd=bare, timeout=240)
    if native.code != 0:
        pytest.skip(f"{tool} does not work here by itself: {native.errors[-200:]}")
    shutil.rmtree(home)
    box.directory(home)
    becomes = ["--keep-capabilities=users"] if tool == "apt-get" and box.user.uid == 0 else []  # its sandbox is another user
    options = ["-p", profile, *becomes, "--ask", "never", *[word for name in PASSED if name in os.environ for word in ("--env", name)]]
    result = box.run(["/bin/sh", "-c", script], None, options=options, env=variables, timeout=240)
    if not kept:
        shutil.rmtree(locks)
    assert result.code == 0, result.describe()
    asked = [one for one in result.audit if one["event"]["action"].startswith("prompt.")]
    assert not asked, asked
    assert "callgate: denied" not in result.errors and " refused (" not in result.errors, result.describe()


def test_pnpm_locks_its_store_and_leaves_nothing_else_beside_it(box):
    """It locks in /tmp whatever TMPDIR says, and tries in each directory above the project whether it can link from there."""
    locks = Path(f"/tmp/pnpm-store-operation-locks-callgate-{box.user.uid}-{os.getpid()}")
    store = "printenv PNPM_HOME pnpm_config_store_dir pnpm_config_state_dir __UNSAFE_EXPO_HOME_DIRECTORY WRANGLER_LOG_PATH | grep -c ^$TMPDIR/"
    tried = "mkdir -m 700 LOCKS && chmod 700 LOCKS && flock LOCKS/all.lock echo locked; (: >../_tmp_12_3a) 2>/dev/null; echo x 2>/dev/null >LOCKS/other"
    line = ["/bin/sh", "-c", f"{store}; {tried}".replace("LOCKS", str(locks))]
    bare = box.run(["/bin/sh", "-c", f"({tried}); ls {locks}; rm -r {locks} ../_tmp_12_3a".replace("LOCKS", str(locks))], supervised=False, cwd=box.tree)
    assert bare.text == "locked\nall.lock\nother\n", bare.describe()
    try:
        result = box.run(line, None, options=["-p", "node+net", "--ask", "never"])
        assert result.text == "5\nlocked\n" and [one.name for one in locks.iterdir()] == ["all.lock"], result.describe()
        (told,) = [one for one in result.errors.splitlines() if one.startswith("callgate:   ")]
        assert f"create {locks}/other" in told, result.describe()
        assert {one["rule"]["name"] for one in result.decisions(verdict="deny")} == {"agent.pnpm-probes", "default"}, result.describe()
    finally:
        shutil.rmtree(locks, ignore_errors=True)


def test_tools_keep_what_they_install_and_remember_in_the_runs_directory(box):
    """uv, pipx, IPython, Jupyter and clients of databases work under the default profile, and make nothing in the home."""
    names = "UV_TOOL_DIR UV_TOOL_BIN_DIR PIPX_HOME PIPX_BIN_DIR IPYTHONDIR JUPYTER_RUNTIME_DIR REDISCLI_HISTFILE PSQL_HISTORY MYSQL_HISTFILE"
    script = f'for name in {names}; do eval "place=\\$$name"; case $place in "$TMPDIR"/*) mkdir -p "$place" && echo "$name";; esac; done'
    result = box.run(["/bin/sh", "-c", script], None, options=["--ask", "never"])
    assert result.text.split() == names.split() and result.errors == "", result.describe()
    home = box.run(["/bin/sh", "-c", "mkdir -p ~/.local/share/uv/tools"], None, options=["--ask", "never"])
    assert home.code != 0 and not (box.home / ".local/share/uv").exists(), home.describe()
    bare = box.run(["/bin/sh", "-c", "mkdir -p ~/.local/share/uv/tools"], supervised=False)
    assert bare.code == 0, bare.describe()


def test_browsers_that_the_user_installed_for_tests_are_found_and_stay_as_they_are(box):
    """Playwright looks for them by its variable, as the run's cache is another; Puppeteer in the home. The twin is another cache."""
    places = [box.home / ".cache" / name / "chromium-1/chrome" for name in ("ms-playwright", "puppeteer", "other")]
    for place in places:
        if not place.parents[2].exists():
            box.directory(place.parents[2])
        for parent in (place.parents[1], place.parent):
            box.directory(parent)
        place.write_bytes(b"#!/bin/sh\necho browser\n")
        place.chmod(0o755)
        box.own(place)
    assert box.run([str(places[0])], supervised=False).text == "browser\n"
    found = box.run(["/bin/sh", "-c", f'"$PLAYWRIGHT_BROWSERS_PATH/chromium-1/chrome"; {places[1]}'], None, options=["--ask", "never"])
    assert found.text == "browser\n" * 2 and found.errors == "", found.describe()
    for place in places[:2]:
        changed = box.run(["/bin/sh", "-c", f"echo echo other > {place}"], None, options=["--ask", "never"])
        assert changed.code != 0 and place.read_bytes().endswith(b"echo browser\n"), changed.describe()
    other = box.run([str(places[2])], None, options=["--ask", "never"])
    assert other.code == 126 and other.out == b"", other.describe()


def test_a_registry_of_the_users_own_settings_replaces_the_public_one(box):
    home = box.directory(box.root / "own-home")
    box.file(home / ".npmrc", b"registry=http://me:hunter2@127.0.0.1:4873/\n//127.0.0.1:4873/:_authToken=hunter2\n")
    box.file(box.tree / ".npmrc", b"registry=http://127.0.0.9:4873/\n")  # a project's own file opens nothing
    for target, verdict in (("127.0.0.1:4873", "allow"), ("127.0.0.9:4873", "ask"), ("127.0.0.1:4874", "ask")):
        said = box.run([str(box.stage.callgate), "explain", "-p", "node+net", "connect", target], supervised=False, env={"HOME": str(home)})
        assert said.text.startswith(verdict), said.describe()
    with socket.create_server(("127.0.0.1", 4873)) as server:
        code = "import socket; socket.create_connection(('127.0.0.1', 4873)).close(); print('reached')"
        result = box.run(["/usr/bin/python3", "-c", code], None, options=["-p", "node+net", "--ask", "never"], env={"HOME": str(home)})
        assert result.text == "reached\n", result.describe()
        server.settimeout(harness.DEADLINE)
        server.accept()[0].close()


class Mirror(http.server.ThreadingHTTPServer):
    """A server of `files` by path on loopback; `logins` are the credentials that requests bore."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.logins: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.files.get(self.path)
                if login := self.headers.get("Authorization"):
                    outer.logins.append(login)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def mirror():
    made = Mirror()
    yield made
    made.shutdown()
    made.server_close()


def installed(box: harness.Box, mirror: Mirror, home: Path, profile: str, script: str, text: str) -> None:
    """`script` works bare and under the profile, which knows the mirror from the user's settings; not without it, nor for another project."""
    env = {"HOME": str(home), "PATH": PATH, "COMPOSER_ALLOW_SUPERUSER": "1"}
    line = ["/bin/sh", "-c", script]
    bare = box.run(line, supervised=False, env=env, cwd=box.directory(box.root / "bare"))
    assert bare.code == 0 and text in bare.text and mirror.logins, bare.describe()
    mirror.logins.clear()
    options = ["--no-user-rules", "--ask", "never"]
    result = box.run(line, None, options=["-p", profile, *options], env=env)
    assert result.code == 0 and text in result.text and "callgate:   " not in result.errors and not mirror.logins, result.describe()
    agent = box.run(line, None, options=options, env=env, cwd=box.directory(box.home / "other"))
    assert agent.code != 0 and f"connect {mirror.url[7:]}" in agent.errors, agent.describe()


def test_bundler_takes_gems_from_the_mirror_of_the_users_settings(box, mirror):
    """The project names rubygems.org. Gems stay in the project for later runs, and `bundle exec` finds them."""
    toolchains.require("bundle", "gem")
    home = box.directory(box.home / "ruby-home")
    place = box.directory(box.home / "gem")
    box.file(place / "tiny.rb", b"module Tiny; NAME = 'a tiny gem'; end\n")
    box.file(place / "tiny.gemspec", b"Gem::Specification.new { |s| s.name = 'tiny'; s.version = '1.0'; s.summary = s.author = 'x'; s.files = ['tiny.rb']; s.require_path = '.' }\n")
    built = box.run(["gem", "build", "-q", "tiny.gemspec"], supervised=False, cwd=place, env={"HOME": str(home), "PATH": PATH})
    assert built.code == 0, built.describe()
    gem = (place / "tiny-1.0.gem").read_bytes()
    info = f"---\n1.0 |checksum:{hashlib.sha256(gem).hexdigest()}\n".encode()
    mirror.files = {"/versions": f"created_at: 2024-01-01T00:00:00Z\n---\ntiny 1.0 {hashlib.md5(info).hexdigest()}\n".encode(),
                    "/info/tiny": info, "/names": b"---\ntiny\n", "/gems/tiny-1.0.gem": gem}
    box.file(home / ".bundle/config", f'---\nBUNDLE_RETRY: "0"\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "{mirror.url.replace("//", "//me:hunter2@")}"\n'.encode())
    script = ("echo \"source 'https://rubygems.org'; gem 'tiny'\" > Gemfile && BUNDLE_PATH=vendor/bundle bundle install && ls vendor/bundle/ruby/*/gems && "
              "BUNDLE_PATH=vendor/bundle bundle exec ruby -e 'require \"tiny\"; puts Tiny::NAME'")
    installed(box, mirror, home, "ruby+net", script, "a tiny gem\n")
    kept = box.run(["bundle", "exec", "ruby", "-e", "require 'tiny'; puts Tiny::NAME"], None,
                   options=["-p", "ruby+net", "--no-user-rules"], env={"HOME": str(home), "PATH": PATH})
    assert kept.text == "a tiny gem\n", kept.describe()


def test_composer_takes_packages_from_the_repository_of_the_users_settings(box, mirror):
    toolchains.require("composer", "unzip")
    home = box.directory(box.home / "php-home")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("composer.json", '{"name": "me/tiny", "autoload": {"files": ["tiny.php"]}}')
        made.writestr("tiny.php", "<?php const TINY = 'a tiny package';\n")
    package = {"name": "me/tiny", "version": "1.0.0", "dist": {"type": "zip", "url": f"{mirror.url}/tiny.zip"}, "autoload": {"files": ["tiny.php"]}}
    mirror.files = {"/packages.json": json.dumps({"packages": {"me/tiny": {"1.0.0": package}}}).encode(), "/tiny.zip": archive.getvalue()}
    host = mirror.url[7:]
    settings = {"config": {"secure-http": False, "http-basic": {host: {"username": "me", "password": "hunter2"}}},
                "repositories": [{"packagist.org": False}, {"type": "composer", "url": mirror.url}]}
    box.file(home / ".config/composer/config.json", json.dumps(settings).encode())
    script = ("echo '{\"require\": {\"me/tiny\": \"*\"}}' > composer.json && composer install --no-interaction --no-progress 2>&1 && "
              "php -r 'require \"vendor/autoload.php\"; echo TINY, \"\\n\";'")
    installed(box, mirror, home, "php+net", script, "a tiny package\n")


def test_a_variable_that_names_a_registry_reaches_the_run_without_its_password(box):
    result = box.run(["/bin/sh", "-c", "echo $GOPROXY"], None, options=["-p", "go+net"], env={"GOPROXY": "http://me:hunter2@127.0.0.1:3000|direct"})
    assert result.text == "http://127.0.0.1:3000|direct\n", result.describe()


def test_the_shared_cache_is_the_users_own(box):
    home = box.directory(box.root / "cache-home")
    box.directory(home / ".npm")
    script = "echo $npm_config_cache; echo x > $HOME/.npm/x"
    shared = box.run(["/bin/sh", "-c", script], None, options=["-p", "node+net", "--shared-cache"], env={"HOME": str(home)})
    assert shared.code == 0 and shared.text == f"{home}/.npm\n" and (home / ".npm" / "x").exists(), shared.describe()
    (home / ".npm" / "x").unlink()
    own = box.run(["/bin/sh", "-c", script], None, options=["-p", "node+net", "--ask", "never"], env={"HOME": str(home)})
    assert own.code != 0 and "/cache/npm" in own.text and not (home / ".npm" / "x").exists(), own.describe()


def test_an_address_can_be_bound(box):
    code = "import socket,sys; s = socket.socket(); s.bind((sys.argv[1], 18437)); print('bound')"
    for address, text in (("127.0.0.1", "bound\n"), ("127.0.0.2", "")):
        result = box.run(["/usr/bin/python3", "-c", code, address], None, options=["--bind", "127.0.0.1:18437", "--ask", "never"])
        assert result.text == text, result.describe()
    wrong = box.run([str(box.stage.callgate), "run", "--bind", "localhost:80", "true"], supervised=False)
    assert wrong.code == 125 and "127.0.0.1:8080" in wrong.errors, wrong.describe()
