#include "supervisor/calls/files/settings_copy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "supervisor/calls/files/settings_formats.hpp"

using namespace callgate::calls;

namespace {

std::string copy(std::string_view path, std::string_view content) {
    const auto made = settings_copy(path, content, "PATH='/run'\n");
    return made ? *made : "(none)";
}

}  // namespace

TEST_CASE("URLs lose user, query and fragment") {
    CHECK(without_credentials("https://u:p@r.example/x") == "https://r.example/x");
    CHECK(without_credentials("https://token@r.example/x?key=1#2") == "https://r.example/x");
    CHECK(without_credentials("sparse+https://a@b@r.example/i/") == "sparse+https://r.example/i/");
    CHECK(without_credentials("https://r.example:8443/x") == "https://r.example:8443/x");
    CHECK(without_credentials("https://u:p/w@r.example/x") == "https://r.example/x");
    CHECK(without_credentials("u:p@proxy.example:3128") == "proxy.example:3128");
    CHECK(without_credentials("one https://u@a/ two https://v:w@b/") == "one https://a/ two https://b/");
    CHECK(without_credentials("https://u:SEC,RET@a/x,https://v:SEC'RET@b/") == "https://a/x,https://b/");
    CHECK(without_credentials("https://u:SEC|R<E>T\"@a/") == "https://a/");
    CHECK(without_credentials("https://u:SEC/R,ET@a/x") == "https://a/x");
    CHECK(without_credentials("[\"https://a/\", 'https://u@b:80']") == "[\"https://a/\", 'https://b:80']");
    CHECK(without_credentials("plain") == "plain");
    CHECK(without_credentials("https://") == "https://");
    CHECK(without_credentials("") == "");
}

TEST_CASE("npm: registries and switches stay, tokens go") {
    CHECK(copy("/home/u/.npmrc", R"(; was: _authToken=old
registry=https://u:p@npm.corp.example/
@corp:registry = https://npm.corp.example/corp/
//npm.corp.example/:_authToken=npm_SECRET
_auth = SECRET
email=me@corp.example
strict-ssl=false
unknown=SECRET
cache prefix=SECRET
)") == "registry = https://npm.corp.example/\n@corp:registry = https://npm.corp.example/corp/\nstrict-ssl = "
       "false\n");
}

TEST_CASE("What keeps code out of npm's installations, and what builds native modules, stays") {
    CHECK(copy("/home/u/.npmrc",
               "strict-allow-scripts=true\nallow-git=none\nnodedir=/usr\n"
               "python=/usr/bin/python3\nallow-x=SECRET\n") ==
          "strict-allow-scripts = true\nallow-git = none\nnodedir = /usr\n"
          "python = /usr/bin/python3\n");
}

TEST_CASE("Keys of several words stay") {
    CHECK(copy("/home/u/.npmrc",
               "save-prefix=~\nfetch-retries=2\nprefer-offline=true\nshamefully-hoist=true\n"
               "min-release-age=3\nsave-=x\n") ==
          "save-prefix = ~\nfetch-retries = 2\nprefer-offline = true\nshamefully-hoist = "
          "true\nmin-release-age = 3\n");
    CHECK(copy("/home/u/.config/pip/pip.conf",
               "[install]\nprefer-binary = true\ncache-dir = /c\nno-warn-script-location = 1\ndir = x\n") ==
          "[install]\nprefer-binary = true\ncache-dir = /c\nno-warn-script-location = 1\n");
}

TEST_CASE("pip: multi-line values keep their lines, and unknown keys lose theirs") {
    CHECK(copy("/home/u/.config/pip/pip.conf", R"([global]
index-url = https://u:SECRET@pypi.corp.example/simple
extra_index_url =
    https://v:SECRET@two.example/simple
    https://three.example/simple
token =
    SECRET
# password = SECRET
[install]
no-binary: :all:
)") == R"([global]
index-url = https://pypi.corp.example/simple
extra_index_url = 
    https://two.example/simple
    https://three.example/simple
[install]
no-binary = :all:
)");
    CHECK(copy("/home/u/.pypirc",
               "[pypi]\nrepository = https://up.example/\nusername = u\npassword = SECRET\n") ==
          "[pypi]\nrepository = https://up.example/\n");
}

TEST_CASE("cargo: sources stay, tokens and variables go") {
    CHECK(copy("/home/u/.cargo/config.toml", R"([source.crates-io]
replace-with = "corp"   # a mirror
[source.corp]
registry = "sparse+https://u:SECRET@cargo.corp.example/index/"
[registries.corp]
index = 'sparse+https://cargo.corp.example/index/'
token = "SECRET"
[env]
API_KEY = "SECRET"
[env.OTHER]
value = "SECRET"
[build]
rustflags = [
    "-C", "opt-level=2",  # fast
    "-C", "debuginfo=0",
]
jobs = 2
[http]
proxy = "u:SECRET@proxy.example:3128"
inline = { token = "SECRET" }
)") == R"([source.crates-io]
replace-with = "corp"
[source.corp]
registry = "sparse+https://cargo.corp.example/index/"
[registries.corp]
index = 'sparse+https://cargo.corp.example/index/'
[build]
rustflags = [ "-C", "opt-level=2", "-C", "debuginfo=0", ]
jobs = 2
[http]
proxy = "proxy.example:3128"
)");
    CHECK(copy("/home/u/.cargo/config.toml", "registry.token = \"SECRET\"\nregistry.default = \"corp\"\n") ==
          "registry.default = \"corp\"\n");
    CHECK(copy("/home/u/.cargo/config", "index = \"\"\"\nhttps://u:SECRET@x\n\"\"\"\n") == "(none)");
    CHECK(copy("/home/u/.cargo/config", "index = \"https://u:SECR\\u0045T@x\"\n") == "");
    CHECK(copy("/home/u/.cargo/config", "no line of toml\n") == "(none)");
    CHECK(copy("/home/u/.cargo/credentials.toml", "[registry]\ntoken = \"SECRET\"\n") == "");
}

TEST_CASE("uv: indexes stay") {
    CHECK(copy("/home/u/.config/uv/uv.toml",
               "[[index]]\nname = \"corp\"\nurl = \"https://u:SECRET@pypi.corp.example/simple\"\npassword = "
               "\"SECRET\"\n") == "[[index]]\nname = \"corp\"\nurl = \"https://pypi.corp.example/simple\"\n");
}

TEST_CASE("pnpm has npm's format") {
    CHECK(copy("/home/u/.config/pnpm/rc",
               "store-dir=/s\n//npm.corp.example/:_authToken=SECRET\n@corp:registry=https://u:SECRET@a/\n") ==
          "@corp:registry = https://a/\n");
}

TEST_CASE("Bun: registries stay, also in inline tables and of scopes") {
    CHECK(copy("/home/u/.bunfig.toml", R"(telemetry = false # SECRET
[install]
exact = true
registry = { url = "https://u:SECRET@npm.corp.example/", token = "SECRET,\"x", other = [1, "SECRET"] }
[install.scopes]
"@one" = "https://u:SECRET@one.example/?t=SECRET"
two = { token = "$SECRET", username = "SECRET",
  url = "https://two.example/" }
three = { token = "SECRET" }
four = "SECRET"
five = { url = { url = "https://SECRET/" } }
[define]
"process.env.KEY" = "'SECRET'"
)") == R"(telemetry = false
[install]
exact = true
registry = { url = "https://npm.corp.example/" }
[install.scopes]
"@one" = "https://one.example/"
two = { url = "https://two.example/" }
[define]
)");
    CHECK(copy("/home/u/.bunfig.toml", "registry = { url = \"https://a/\"\n") == "(none)");
    CHECK(copy("/home/u/.bunfig.toml", "registry = { url = \"https://u:SECR\\u0045T@a/\" }\n") == "");
}

TEST_CASE("PDM: indexes stay") {
    CHECK(copy("/home/u/.config/pdm/config.toml", R"(check_update = false
[pypi]
url = "https://u:SECRET@pypi.corp.example/simple"
username = "SECRET"
[repository.corp]
password = "SECRET"
url = "https://up.example/"
)") == "check_update = false\n[pypi]\nurl = \"https://pypi.corp.example/simple\"\n[repository.corp]\nurl = "
       "\"https://up.example/\"\n");
}

TEST_CASE("Hatch: all stays but who publishes") {
    CHECK(copy("/home/u/.config/hatch/config.toml", R"(mode = "local"
[dirs]
data = "/home/u/.local/share/hatch"
[publish.index]
repo = "main"
user = "SECRET"
auth = "SECRET"
[publish.index.repos.corp]
url = "https://u:SECRET@up.example/"
[template]
name = "me"
)") == "mode = \"local\"\n[dirs]\ndata = \"/home/u/.local/share/hatch\"\n[publish.index]\nrepo = \"main\"\n"
       "[publish.index.repos.corp]\nurl = \"https://up.example/\"\n[template]\nname = \"me\"\n");
}

TEST_CASE("Subversion: what counts for all servers stays, without passwords") {
    CHECK(copy("/home/u/.subversion/servers", R"([groups]
corp = svn.corp.example
[corp]
ssl-client-cert-password = SECRET
### http-proxy-password = SECRET
[global]
http-proxy-host = proxy.corp.example
http-proxy-port = 3128
http-proxy-username = SECRET
http-proxy-password = SECRET
  SECRET
ssl-trust-default-ca = no
)") == "[groups]\n[corp]\n[global]\nhttp-proxy-host = proxy.corp.example\nhttp-proxy-port = 3128\n"
       "ssl-trust-default-ca = no\n");
}

TEST_CASE("Mercurial: the user's name and extensions stay, passwords, paths and aliases go") {
    CHECK(copy("/home/u/.hgrc", R"([ui]
username = Me Myself <me@corp.example>
verbose = yes
[auth]
corp.prefix = hg.corp.example
corp.username = SECRET
corp.password = SECRET
username = SECRET
[paths]
default = https://me:SECRET@hg.corp.example/
[alias]
x = !curl -u SECRET https://corp.example
[extensions]
rebase =
)") == "[ui]\nverbose = yes\n[auth]\n[paths]\n[alias]\n[extensions]\nrebase = \n"
       "[ui]\nusername = Me Myself <me@corp.example>\n");
    CHECK(copy("/home/u/.config/hg/hgrc", "[ui]\nusername = https://me:SECRET@x\n color = SECRET\n") ==
          "[ui]\n");
}

TEST_CASE("Poetry: environments and repositories stay, passwords go") {
    CHECK(copy("/home/u/.config/pypoetry/config.toml", R"([virtualenvs]
in-project = true
[repositories.corp]
url = "https://me:SECRET@pypi.corp.example/simple"
[http-basic.corp]
username = "SECRET"
password = "SECRET"
[pypi-token]
corp = "SECRET"
)") == "[virtualenvs]\nin-project = true\n[repositories.corp]\nurl = "
       "\"https://pypi.corp.example/simple\"\n[http-basic.corp]\n"
       "[pypi-token]\n");
}

TEST_CASE("Streamlit: looks and servers stay, tokens go") {
    CHECK(copy("/home/u/.streamlit/config.toml", R"([theme]
base = "dark"
[server]
port = 8501
cookieSecret = "SECRET"
[mapbox]
token = "SECRET"
)") == "[theme]\nbase = \"dark\"\n[server]\nport = 8501\n[mapbox]\n");
}

TEST_CASE("Ansible: what says how to work stays, tokens and passwords go") {
    CHECK(copy("/home/u/.ansible.cfg", R"([defaults]
inventory = ./hosts
nocows = 1
fact_caching_connection = redis:6379:0:SECRET
[privilege_escalation]
become_password = SECRET
[galaxy]
server_list = corp
[galaxy_server.corp]
url = https://galaxy.corp.example/
token = SECRET
password = SECRET
)") == "[defaults]\ninventory = ./hosts\nnocows = 1\n[privilege_escalation]\n[galaxy]\nserver_list = corp\n"
       "[galaxy_server.corp]\nurl = https://galaxy.corp.example/\n");
}

TEST_CASE("Maven: mirrors stay, servers go") {
    const std::string made = copy("/home/u/.m2/settings.xml", R"(<?xml version="1.0"?>
<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
  <!-- <password>SECRET</password> -->
  <servers><server><id>corp</id><username>SECRET</username><password>SECRET</password></server></servers>
  <mirrors><mirror><id>corp</id><mirrorOf>*</mirrorOf><url>https://u:SECRET@maven.corp.example/x</url></mirror></mirrors>
  <proxies><proxy><host>proxy.example</host><port>1</port><username>SECRET</username></proxy></proxies>
  <profiles><profile><properties><key>SECRET</key></properties></profile></profiles>
</settings>)");
    CHECK(made.find("SECRET") == std::string::npos);
    CHECK(made.find("<mirrorOf>*</mirrorOf><url>https://maven.corp.example/x</url>") != std::string::npos);
    CHECK(made.find("<host>proxy.example</host>") != std::string::npos);
    CHECK(copy("/home/u/.m2/settings.xml", "<settings><mirrors>") == "(none)");
    std::string deep;
    for (int level = 0; level < 100'000; ++level) deep += "<a>";
    CHECK(copy("/home/u/.m2/settings.xml", deep) == "(none)");
}

TEST_CASE("yarn, go, gradle and NuGet") {
    CHECK(copy("/home/u/.yarnrc.yml", R"(npmAuthToken: SECRET
npmRegistryServer: "https://u:SECRET@npm.corp.example"
npmScopes:
  corp:
    npmRegistryServer: https://npm.corp.example/corp
    npmAuthToken: SECRET
nodeLinker: node-modules
unknown:
  npmRegistryServer: SECRET
)") == R"(npmRegistryServer: "https://npm.corp.example"
npmScopes:
  corp:
    npmRegistryServer: "https://npm.corp.example/corp"
nodeLinker: "node-modules"
)");
    CHECK(
        copy("/home/u/.yarnrc",
             "registry \"https://u:SECRET@npm.corp.example\"\n\"//npm.corp.example/:_authToken\" SECRET\n") ==
        "registry \"https://npm.corp.example\"\n");
    CHECK(copy("/home/u/.config/go/env",
               "GOPROXY=https://u:SECRET@proxy.corp.example|direct\nGOAUTH=command "
               "SECRET\nGOFLAGS=-mod=mod\n") ==
          "GOPROXY=https://proxy.corp.example|direct\nGOFLAGS=-mod=mod\n");
    CHECK(copy("/home/u/.gradle/gradle.properties",
               "signing.password=SECRET\norg.gradle.jvmargs=-Dp=SECRET\norg.gradle.daemon=false\n") ==
          "org.gradle.daemon = false\n");
    const std::string nuget = copy(
        "/home/u/.nuget/NuGet/NuGet.Config",
        R"(<configuration><packageSources><add key="corp" value="https://u:SECRET@nuget.example/v3" /></packageSources>
<packageSourceCredentials><corp><add key="ClearTextPassword" value="SECRET" /></corp></packageSourceCredentials></configuration>)");
    CHECK(nuget.find("SECRET") == std::string::npos);
    CHECK(nuget.find("https://nuget.example/v3") != std::string::npos);
}

TEST_CASE("RubyGems and Bundler: sources and mirrors stay, keys and passwords of hosts go") {
    CHECK(copy("/home/u/.gemrc", R"(---
:rubygems_api_key: SECRET
:backtrace: true
:sources:
- https://u:SECRET@gems.corp.example/
- "https://two.example/"
:corp_key:
- SECRET
# :verbose: SECRET
gem: --no-document
:ssl_client_cert: SECRET
:update_sources: {SECRET: 1}
)") == ":backtrace: true\n:sources:\n- https://gems.corp.example/\n- https://two.example/\ngem: "
       "--no-document\n");
    CHECK(copy("/home/u/.config/gem/gemrc", "sources: [https://u:p@gems.example/]\n") ==
          copy("/home/u/.gemrc", "sources: [https://u:p@gems.example/]\n"));
    CHECK(copy("/home/u/.gemrc",
               "sources: [\"https://u:SECRET@a.example\", https://b.example]\nupdate: [x\n") ==
          "sources: [\"https://a.example\", https://b.example]\n");
    CHECK(copy("/home/u/.bundle/config", R"(---
BUNDLE_JOBS: "4"
BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "https://u:SECRET@gems.corp.example/"
BUNDLE_GEMS__CORP__EXAMPLE: "u:SECRET"
BUNDLE_HTTPS://GEMS__CORP__EXAMPLE/: "u:SECRET"
BUNDLE_BUILD__PG: "--with-pg-config=/x"
BUNDLE_TOKEN: SECRET
)") == "BUNDLE_JOBS: \"4\"\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://gems.corp.example/\"\n"
       "BUNDLE_BUILD__PG: \"--with-pg-config=/x\"\n");
}

TEST_CASE("Composer: settings and repositories stay, logins and options of repositories go") {
    const std::string made = copy("/home/u/.config/composer/config.json", R"({
"config": {"sort-packages": true, "allow-plugins": {"a/b": true, "deep": {"x": "SECRET"}},
    "github-oauth": {"github.com": "SECRET"}, "http-basic": {"h": {"password": "SECRET"}}, "other": "SECRET"},
"repositories": {"packagist.org": false, "corp": {"type": "composer", "url": "https://u:SECRET@php.example/",
    "options": {"http": {"header": ["Authorization: SECRET"]}}}}, "extra": "SECRET"})");
    CHECK(made.find("SECRET") == std::string::npos);
    for (const char* kept : {"\"sort-packages\": true", "\"a/b\": true", "\"packagist.org\": false",
                             "\"url\": \"https://php.example/\""})
        CHECK_MESSAGE(made.find(kept) != std::string::npos, made);
    CHECK(
        copy("/home/u/.composer/config.json", R"({"repositories":[{"packagist.org":false},{"type":"path"}]})")
            .find("\"packagist.org\": false") != std::string::npos);
    CHECK(copy("/home/u/.composer/config.json", "{}") == "{}\n");
    CHECK(copy("/home/u/.composer/config.json", "[]") == "(none)");
    CHECK(copy("/home/u/.composer/config.json", "{\"config\": ") == "(none)");
    CHECK(copy("/home/u/.composer/config.json", std::string(200'000, '[')) == "(none)");
}

TEST_CASE("what holds only credentials is empty, what is not known is nothing") {
    CHECK(copy("/home/u/.netrc", "machine x login u password SECRET\n") == "");
    CHECK(copy("/home/u/.git-credentials", "https://u:SECRET@x\n") == "");
    CHECK(copy("/home/u/.composer/auth.json", "{\"http-basic\":{}}") == "{}\n");
    CHECK_FALSE(settings_copy("/home/u/.hex/hex.config", "x"));
    CHECK_FALSE(settings_known("/home/u/npmrc"));
    CHECK(settings_known("/home/u/.npmrc"));
    CHECK_FALSE(settings_copy("/home/u/.npmrc", std::string_view("registry=x\0y", 12)));
    CHECK_FALSE(settings_copy("/home/u/.npmrc", std::string(max_settings + 1, 'x')));
}

TEST_CASE("a credential in a comment behind a value is left out, and the value stays") {
    CHECK(copy("/home/u/.npmrc",
               "registry=https://a.example/ ; //a.example/:_authToken=SECRET\n"
               "cache=/c #SECRET\nproxy=\"http://p.example\" # SECRET\nfund=false;SECRET\n") ==
          "registry = https://a.example/\ncache = /c\nproxy = \"http://p.example\"\nfund = false\n");
    CHECK(
        copy("/home/u/.config/pip/pip.conf",
             "[global]\nextra-index-url = https://a.example/ # SECRET\n    https://b.example/ ; SECRET\n") ==
        "[global]\nextra-index-url = https://a.example/\n    https://b.example/\n");
    CHECK(
        copy("/home/u/.yarnrc.yml",
             "npmRegistryServer: \"https://a.example\" # npmAuthToken: SECRET\nnodeLinker: pnp # SECRET\n"
             "npmScopes: # SECRET\n  corp: # SECRET\n    npmRegistryServer: https://b.example # SECRET\n") ==
        "npmRegistryServer: \"https://a.example\"\nnodeLinker: \"pnp\"\nnpmScopes:\n  corp:\n"
        "    npmRegistryServer: \"https://b.example\"\n");
    CHECK(copy("/home/u/.yarnrc", "registry \"https://a.example\" # SECRET\n") ==
          "registry \"https://a.example\"\n");
    CHECK(copy("/home/u/.gemrc",
               ":sources: # SECRET\n- https://a.example/ # SECRET\n:backtrace: true # SECRET\n"
               "update: [x] # SECRET\n") ==
          ":sources:\n- https://a.example/\n:backtrace: true\nupdate: [x]\n");
    CHECK(copy("/home/u/.bundle/config", "BUNDLE_JOBS: \"4\" # SECRET\nBUNDLE_RETRY: 3# SECRET\n") ==
          "BUNDLE_JOBS: \"4\"\nBUNDLE_RETRY: \"3\"\n");
}

TEST_CASE("a value whose escapes could hide a URL is left out") {
    for (const char* path : {"/home/u/.npmrc", "/home/u/.yarnrc", "/home/u/.yarnrc.yml"})
        CHECK(copy(path,
                   "registry=\"https://u:SECRET\\u0040a\"\nregistry \"https://u:SECRET\\u0040a\"\n"
                   "httpProxy: \"https://u:SECRET\\x40a\"\n") == "");
    CHECK(copy("/home/u/.gemrc",
               "gem: \"https://u:SECRET\\x40a\"\nsources: [\"https://u:SECRET\\x40a\"]\n"
               "update:\n- \"https://u:SECRET\\x40a\"\n- {SECRET: 1}\n") == "update:\n");
}

TEST_CASE("cargo: a comment may stand anywhere in a list") {
    CHECK(copy("/home/u/.cargo/config.toml",
               "rustflags = [ # \"SECRET\n  \"a # b\", # SECRET\n  # SECRET\n]\njobs = 2 # SECRET\n") ==
          "rustflags = [ \"a # b\",  ]\njobs = 2\n");
}

TEST_CASE("nothing of a log-in file stays") {
    CHECK(copy("/home/u/.profile", "export TOKEN=SECRET\n") == "PATH='/run'\n");
    const std::vector<std::string> environment{"HOME=/h", "PATH=/a'b:/c"};
    CHECK(login_file_of(environment) == "PATH='/a'\\''b:/c'\nexport PATH\n");
    CHECK(login_file_of({}).empty());
}
