#include "supervisor/cli/registries.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

using namespace callgate::cli;
using nlohmann::json;

namespace {

struct Settings {
    std::map<std::string, std::string> files, variables;

    [[nodiscard]] Registries read(std::string_view profile) const {
        const auto find = [](const auto& all, const std::string& name) -> std::optional<std::string> {
            const auto found = all.find(name);
            return found == all.end() ? std::nullopt : std::optional(found->second);
        };
        return configured_registries(
            profile, {.home = "/home/u",
                      .file = [&](const std::string& path) { return find(files, path); },
                      .variable = [&](const std::string& name) { return find(variables, name); },
                      .names =
                          [&](const std::string& path) {
                              std::vector<std::string> names;
                              for (const auto& [file, content] : files)
                                  if (file.starts_with(path)) names.push_back(file.substr(path.size()));
                              return names;
                          }});
    }
};

std::string hosts(const Registries& found) {
    std::string text;
    for (const RegistryHost& one : found.hosts) text += one.host + ':' + std::to_string(one.port) + ' ';
    return text + (found.replace ? "instead" : "too");
}

}  // namespace

TEST_CASE("pnpm and Bun have settings of their own") {
    Settings settings;
    settings.files["/home/u/.config/pnpm/rc"] = "@corp:registry=https://pnpm.example/x/\n";
    CHECK(hosts(settings.read("node")) == "pnpm.example:443 too");
    settings.files["/home/u/.bunfig.toml"] = R"([install]
# registry = "https://old.example/"
registry = { token = "x", url = "https://u:p@bun.example:8443/" }
[install.scopes]
"@one" = "https://one.example/" # https://no.example/
"@two" = {
  url = "https://two.example/",
}
[run]
shell = "https://not.example/"
)";
    CHECK(hosts(settings.read("node")) ==
          "pnpm.example:443 bun.example:8443 one.example:443 two.example:443 instead");
}

TEST_CASE("hosts of URLs") {
    const auto host = [](std::string_view url) {
        const auto found = host_of_url(url);
        return found ? found->host + ':' + std::to_string(found->port) : "none";
    };
    CHECK(host("https://r.example/x") == "r.example:443");
    CHECK(host("http://u:p@r.example:8081/x?y") == "r.example:8081");
    CHECK(host("sparse+https://r.example/") == "r.example:443");
    CHECK(host("ssh://git@r.example/x") == "r.example:22");
    CHECK(host("http://[::1]:3141/") == "::1:3141");
    CHECK(host("http://127.0.0.1/") == "127.0.0.1:80");
    CHECK(host("https://good.example#@evil.example/") == "good.example:443");
    CHECK(host("file:///srv/x") == "none");
    CHECK(host("https://r.example:0/") == "none");
    CHECK(host("https://r.example:99999/") == "none");
    CHECK(host("https:///x") == "none");
    CHECK(host("https://*/") == "none");
    CHECK(host("r.example") == "none");
}

TEST_CASE("npm: registry replaces, scopes come in addition, other keys do not count") {
    Settings settings;
    CHECK(hosts(settings.read("node")) == "too");
    settings.files["/home/u/.npmrc"] =
        "# registry=https://old.example/\n@a:registry=https://scope.example/x\n"
        "//t.example/:_authToken=1\nfunding=https://f.example\n";
    CHECK(hosts(settings.read("node")) == "scope.example:443 too");
    settings.files["/home/u/.npmrc"] += "registry = http://u:p@npm.example:4873/\n";
    CHECK(hosts(settings.read("node")) == "scope.example:443 npm.example:4873 instead");
    Settings by_variable;
    by_variable.variables["npm_config_registry"] = "https://me:SECRET@v.example/";
    const Registries found = by_variable.read("node");
    CHECK(hosts(found) == "v.example:443 instead");
    CHECK(found.variables ==
          std::vector<std::pair<std::string, std::string>>{{"npm_config_registry", "https://v.example/"}});
}

TEST_CASE("pip and uv") {
    Settings settings;
    settings.files["/home/u/.config/pip/pip.conf"] =
        "[global]\nextra-index-url =\n    https://one.example/s\n    https://two.example:8443/s\ntimeout = "
        "3\n";
    CHECK(hosts(settings.read("python")) == "one.example:443 two.example:8443 too");
    settings.files["/etc/pip.conf"] = "[global]\nindex_url: https://corp.example/simple\n";
    CHECK(hosts(settings.read("python")) == "corp.example:443 one.example:443 two.example:8443 instead");
    Settings uv;
    uv.files["/home/u/.config/uv/uv.toml"] = "[[index]]\nurl = \"https://uv.example/simple\"\n";
    CHECK(hosts(uv.read("python")) == "uv.example:443 too");
}

TEST_CASE("cargo, go, Maven and git") {
    Settings settings;
    settings.files["/home/u/.cargo/config.toml"] =
        "[source.crates-io]\nreplace-with = 'corp'\n[source.corp]\nregistry = "
        "\"sparse+https://c.example/i/\"\n";
    CHECK(hosts(settings.read("rust")) == "c.example:443 instead");
    settings.variables["GOPROXY"] = "https://p.example|direct";
    settings.files["/home/u/.config/go/env"] = "GOSUMDB=sum.example+abc https://s.example\n";
    CHECK(hosts(settings.read("go")) == "p.example:443 s.example:443 instead");
    settings.variables["GOPROXY"] = "off";
    CHECK(settings.read("go").replace);
    settings.files["/home/u/.m2/settings.xml"] =
        "<settings><!-- <url>https://old.example</url> "
        "--><mirrors><mirror><mirrorOf>central</mirrorOf><url>https://m.example/x</url></mirror></mirrors></"
        "settings>";
    CHECK(hosts(settings.read("java")) == "m.example:443 instead");
    settings.files["/etc/maven/settings.xml"] =
        "<mirror><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url></mirror>";
    settings.files.erase("/home/u/.m2/settings.xml");
    CHECK_FALSE(settings.read("java").replace);
    settings.files["/home/u/.gitconfig"] = "[url \"https://git.example/\"]\n\tinsteadOf = gh:\n";
    CHECK(hosts(settings.read("git")) == "git.example:443 too");
    CHECK(hosts(settings.read("agent")) == "too");
}

TEST_CASE("RubyGems, Bundler and Composer") {
    Settings settings;
    settings.files["/home/u/.gemrc"] =
        "---\n:backtrace: true # https://no.example\n:sources:\n- https://rubygems.org/\n:x: "
        "https://no.example\n";
    CHECK(hosts(settings.read("ruby")) == "rubygems.org:443 too");
    settings.files["/home/u/.gemrc"] = "sources: [\"https://u:p@gems.example/\"]\n";
    CHECK(hosts(settings.read("ruby")) == "gems.example:443 instead");
    settings.files["/home/u/.gemrc"] = ":sources:\n# - https://old.example\n- http://gems.example:8808\n";
    CHECK(hosts(settings.read("ruby")) == "gems.example:8808 instead");
    settings.files.erase("/home/u/.gemrc");
    settings.files["/home/u/.bundle/config"] =
        "---\nBUNDLE_MIRROR__HTTPS://OTHER__EXAMPLE/: \"https://o.example\"\nBUNDLE_PATH: "
        "\"https://no.example\"\n";
    CHECK(hosts(settings.read("ruby")) == "o.example:443 too");
    settings.files["/home/u/.bundle/config"] +=
        "BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://u:p@m.example/\"\n";
    CHECK(hosts(settings.read("ruby")) == "o.example:443 m.example:443 instead");

    std::string& composer = settings.files["/home/u/.config/composer/config.json"];
    composer =
        R"({"config":{"x":"https://no.example"},"repositories":{"a":{"type":"composer","url":"https://p.example"}}})";
    CHECK(hosts(settings.read("php")) == "p.example:443 too");
    composer = R"({"repositories":[{"url":"https://p.example"},{"packagist.org":false},{"url":1},2]})";
    CHECK(hosts(settings.read("php")) == "p.example:443 instead");
    composer = R"({"repositories":{"packagist":false}})";
    CHECK(settings.read("php").replace);
    for (const char* wrong : {"[]", "{", "{\"repositories\":3}"}) {
        composer = wrong;
        CHECK(hosts(settings.read("php")) == "too");
    }
}

TEST_CASE("apt") {
    Settings settings;
    CHECK(hosts(settings.read("apt")) == "too");
    settings.files["/etc/apt/sources.list"] =
        "# deb http://old.example/ x main\ndeb [signed-by=/k] http://one.example/debian x main  # "
        "http://no.example/\n"
        "deb cdrom:[x]/ x main\n";
    CHECK(hosts(settings.read("apt")) == "one.example:80 _http._tcp.one.example:80 too");
    settings.files["/etc/apt/sources.list.d/a.sources"] =
        "# http://no.example/\nTypes: deb\nuris: https://two.example/d\n "
        "mirror+https://three.example:8443/l\n"
        "Suites: x\n http://no.example/\n\nURIs: http://off.example/\nEnabled: No\n\nURIs: "
        "http://four.example/";
    settings.files["/etc/apt/sources.list.d/b.list"] = "deb-src http://five.example/ x main\n";
    settings.files["/etc/apt/sources.list.d/c.list.save"] = "deb http://no.example/ x main\n";
    CHECK(hosts(settings.read("apt")) ==
          "one.example:80 _http._tcp.one.example:80 two.example:443 _https._tcp.two.example:443 "
          "three.example:8443 _https._tcp.three.example:8443 four.example:80 _http._tcp.four.example:80 "
          "five.example:80 _http._tcp.five.example:80 too");
}

TEST_CASE("own registries stand in the profile's rules") {
    const std::string_view shipped = R"({"version":1,"extends":"node","rules":[
        {"id":"node+net.registry","allow":"connect","host":["public.example"],"port":443}],"examples":{"ask":["connect 192.0.2.1:443"]}})";
    const json added = json::parse(with_registries(
        shipped, {.hosts = {{"own.example", 443}, {"10.1.2.3", 8081}}, .variables = {{"V", "x"}}}));
    REQUIRE(added["rules"].size() == 4);
    CHECK(added["rules"][0]["host"][0] == "public.example");
    CHECK(added["rules"][1]["host"][0] == "own.example");
    CHECK(added["rules"][2]["address"].back() == "${own}");  // the user's word for a private address
    CHECK(added["rules"][3]["address"][0] == "10.1.2.3");
    CHECK(added["rules"][3]["port"] == 8081);
    CHECK(added["environment"]["set"]["V"] == "x");
    const json replaced = json::parse(
        with_registries(shipped, {.hosts = {{"own.example", 443}}, .replace = true, .variables = {}}));
    REQUIRE(replaced["rules"].size() == 2);
    CHECK(replaced.dump().find("public.example") == std::string::npos);
}
