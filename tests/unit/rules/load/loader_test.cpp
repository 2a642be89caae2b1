// Files, profiles and options merged into one rule set.
#include "rules/load/loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "rules/model/address.hpp"
#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RuleSources files(std::initializer_list<const char*> paths) {
    RuleSources sources;
    for (const char* path : paths) sources.parts.emplace_back(RuleSources::File{path});
    return sources;
}

IpAddress address(const std::string& text) { return parse_address(text).value(); }

Action connect(const LoadedRules& loaded, const std::string& host, std::uint16_t port) {
    Request request;
    request.operations = Operation::connect;
    request.object = Endpoint{address(host), port, Protocol::tcp};
    return loaded.rules->evaluate(request).action;
}

std::string testdata(const std::string& name) {
    std::ifstream file(std::string(TESTDATA) + "/rules/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    REQUIRE_MESSAGE(!text.str().empty(), name);
    return text.str();
}

}  // namespace

TEST_CASE("extends takes profiles, user profiles and files relative to the including one") {
    TestMachine machine;
    machine.rule_files["/r/main.json"] = R"({"extends":["base","mine","sub/other.json"],"rules":[]})";
    machine.rule_files["/r/sub/other.json"] =
        R"({"extends":"../third.json","rules":[{"id":"o","allow":"read","path":"/o"}]})";
    machine.rule_files["/r/third.json"] = R"({"rules":[{"id":"t","allow":"read","path":"/t"}]})";
    machine.rule_files["/home/u/.config/callgate/profiles/mine.json"] =
        R"({"rules":[{"id":"m","allow":"read","path":"/m"}]})";
    const LoadedRules loaded = load(files({"/r/main.json"}), machine.context());
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    for (const char* path : {"/o", "/t", "/m", "/etc/passwd"})
        CHECK(decide(loaded, Operation::read, path) == Action::allow);
    CHECK(loaded.files == std::vector<std::string>{"/r/main.json",
                                                   "/home/u/.config/callgate/profiles/mine.json",
                                                   "/r/sub/other.json", "/r/third.json"});
}

TEST_CASE("a cycle of files is an error that names it") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] = "{\"extends\":\"./b.json\"}";
    machine.rule_files["/r/b.json"] = "{\n\"extends\":[\"base\", \"a.json\"]}";
    const LoadedRules loaded = load(files({"/r/a.json"}), machine.context());
    CHECK(findings(loaded) ==
          "/r/b.json:2:20: error: rule files extend each other: /r/a.json -> /r/b.json -> /r/a.json\n");
    CHECK(loaded.rules == nullptr);
    machine.rule_files["/r/self.json"] = "{\"extends\":\"./self.json\"}";
    CHECK(has(findings(load(files({"/r/self.json"}), machine.context())), "/r/self.json -> /r/self.json"));
}

TEST_CASE("a file that is reached twice is merged once") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] = R"({"extends":["./b.json","./c.json"]})";
    machine.rule_files["/r/b.json"] = R"({"extends":"./c.json"})";
    machine.rule_files["/r/c.json"] = R"({"rules":[{"allow":"read","path":"/x"}]})";
    const LoadedRules loaded = load(files({"/r/a.json", "/r/c.json", "/r/a.json"}), machine.context());
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(loaded.rules->rules().size() == 1);
    CHECK(loaded.rules->rules()[0].id == "/r/c.json#1");
}

TEST_CASE("what cannot be read or found is an error at the place that asked for it") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] = "{\"extends\":[\"agnet\",\n \"./none.json\"]}";
    machine.rule_files["/r/big.json"] = std::string(2 * 1024 * 1024, ' ');
    const std::string text =
        findings(load(files({"/r/a.json", "/r/big.json", "/r/absent.json"}), machine.context()));
    CHECK(has(text, "/r/a.json:1:13: error: unknown profile \"agnet\": did you mean \"agent\"?"));
    CHECK(has(text, "/r/a.json:2:2: error: cannot read \"/r/none.json\": No such file or directory"));
    CHECK(has(text, "error: cannot read \"/r/big.json\": larger than 1 MiB"));
    CHECK(has(text, "error: cannot read \"/r/absent.json\": No such file"));
    CHECK(has(findings(machine.load_text(R"({"extends":"./x.json"})")),
              "test.json:1:12: error: \"./x.json\": a relative name means nothing here"));
    CHECK(has(findings(machine.load_text(R"({"extends":"../../etc/passwd"})")),
              "a relative name means nothing"));
}

TEST_CASE("the default: own before inherited, the strictest among several, deny where nobody states one") {
    TestMachine machine;
    machine.rule_files["/r/allow.json"] = R"({"default":"allow"})";
    machine.rule_files["/r/ask.json"] = R"({"default":"ask"})";
    machine.rule_files["/r/none.json"] = "{}";
    machine.rule_files["/r/both.json"] = R"({"extends":["./allow.json","./ask.json"]})";
    machine.rule_files["/r/own.json"] = R"({"default":"allow","extends":["./ask.json"]})";
    machine.rule_files["/home/u/.config/callgate/rules.json"] = R"({"default":"deny"})";
    const auto fallback = [&](std::initializer_list<const char*> paths) {
        return load(files(paths), machine.context()).rules->fallback();
    };
    CHECK(fallback({"/r/none.json"}) == Action::deny);
    CHECK(fallback({"/r/both.json"}) == Action::ask);
    CHECK(fallback({"/r/own.json"}) == Action::allow);
    CHECK(fallback({"/r/own.json", "/r/both.json"}) == Action::ask);
    CHECK(fallback({"/r/own.json", "/r/none.json"}) == Action::allow);
    CHECK(fallback({"/r/own.json", "/home/u/.config/callgate/rules.json"}) == Action::allow);
    CHECK(fallback({"/home/u/.config/callgate/rules.json"}) == Action::deny);
    RuleSources sources = files({"/r/both.json"});
    sources.fallback = Action::allow;
    CHECK(load(sources, machine.context()).rules->fallback() == Action::allow);
}

TEST_CASE("limits: the tighter; environment: union of pass, set of the including file") {
    TestMachine machine;
    machine.rule_files["/r/in.json"] =
        R"({"limits":{"wall":"10s","open_files":9},"environment":{"pass":["A","B"],"set":{"X":"in","Y":"in"}}})";
    machine.rule_files["/r/out.json"] =
        R"({"extends":"./in.json","limits":{"wall":"20s","file_size":5},"environment":{"pass":["B","C"],"set":{"X":"out"}}})";
    const LoadedRules loaded = load(files({"/r/out.json"}), machine.context());
    REQUIRE_MESSAGE(loaded.ok(), findings(loaded));
    CHECK(loaded.limits.wall == std::chrono::seconds(10));
    CHECK(loaded.limits.open_files == 9);
    CHECK(loaded.limits.file_size == 5);
    auto pass = loaded.environment.pass;
    std::sort(pass.begin(), pass.end());
    CHECK(pass == std::vector<std::string>{"A", "B", "C"});
    CHECK(loaded.environment.set == std::map<std::string, std::string>{{"X", "out"}, {"Y", "in"}});
}

TEST_CASE("ids are unique over all merged files") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] =
        R"({"extends":"./b.json","rules":[{"id":"x","allow":"read","path":"/a"}]})";
    machine.rule_files["/r/b.json"] = R"({"rules":[{"id":"x","allow":"read","path":"/b"}]})";
    CHECK(findings(load(files({"/r/a.json"}), machine.context())) ==
          "/r/b.json:1:11: error: the id \"x\" is taken: /r/a.json:1:32\n");
}

TEST_CASE("an expanded rule whose pattern finds nothing covers nothing, not everything") {
    TestMachine machine;
    const LoadedRules loaded = machine.load_text(
        R"({"default":"ask","rules":[{"allow":"read","path":"${workdir}/**/*.none","expand":true},
                                     {"deny":"read","path":"${workdir}/**/.env","expand":true}]})");
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(loaded.rules->rules().empty());
    CHECK(decide(loaded, Operation::read, "/etc/shadow") == Action::ask);
}

TEST_CASE("an expanded denial follows a link to what it names, an expanded allowance does not") {
    TestMachine machine;
    machine.tree.file("/srv/secret");
    machine.tree.link("/home/u/work/.env", "/srv/secret");
    const char* rules =
        R"({"default":"ask","rules":[{"%s":"read","path":"${workdir}/**/.env","expand":true}]})";
    const auto load_as = [&](const std::string& action) {
        std::string text = rules;
        return machine.load_text(text.replace(text.find("%s"), 2, action));
    };
    CHECK(decide(load_as("deny"), Operation::read, "/srv/secret") == Action::deny);
    CHECK(decide(load_as("allow"), Operation::read, "/srv/secret") == Action::ask);
    CHECK(decide(load_as("allow"), Operation::read, "/home/u/work/.env") == Action::allow);
}

TEST_CASE("rules are loaded again as they were: what patterns became is taken from then") {
    TestMachine machine;
    machine.tree.file("/home/u/work/.env");
    const char* text =
        R"({"default":"ask","rules":[{"deny":"read","path":"${workdir}/**/.env","expand":true}]})";
    LoadContext context = machine.context();
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{text, "test"});
    const LoadedRules first = load(sources, context);
    REQUIRE_MESSAGE(first.rules, findings(first));
    CHECK(decide(first, Operation::read, "/home/u/work/.env") == Action::deny);

    machine.tree.file("/home/u/work/later/.env");
    const LoadedRules now = load(sources, context);
    CHECK(decide(now, Operation::read, "/home/u/work/later/.env") == Action::deny);
    context.earlier = &first.snapshot;
    const LoadedRules again = load(sources, context);
    CHECK(again.sha256 == first.sha256);
    CHECK(decide(again, Operation::read, "/home/u/work/.env") == Action::deny);
    CHECK(decide(again, Operation::read, "/home/u/work/later/.env") == Action::ask);

    // An untrusted log: an invalid pattern is ignored.
    LoadSnapshot broken = first.snapshot;
    broken.expanded.front().paths = {"/home/u/work/[unclosed"};
    context.earlier = &broken;
    CHECK(decide(load(sources, context), Operation::read, "/home/u/work/later/.env") == Action::deny);
}

TEST_CASE("options add rules and exceptions; a wrong rule name is an error with a suggestion") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] = R"({"rules":[{"id":"all","allow":"read","path":"/**"},
        {"id":"secrets","deny":"read","path":"/s/**"},{"id":"net","deny":"connect","address":"10.0.0.0/8"},
        {"id":"odd","deny":"read","path":"/p/**","except":{"program":"/bin/x"}},
        {"id":"links","deny":"create","links":true,"path":"/l/**","except":{"path":"/l/try"}}]})";
    RuleSources sources = files({"/r/a.json"});
    Rule option;
    option.id = "option";
    option.action = Action::allow;
    option.operations = Operation::connect;
    option.source.file = "option --connect";
    sources.option_rules.push_back(option);
    sources.exceptions = {{"secrets", "/s/ok"}, {"secrets", "/s/fine/**"}, {"net", "10.1.0.0/16:443"}};
    const LoadedRules loaded = load(sources, machine.context());
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/s/no") == Action::deny);
    CHECK(decide(loaded, Operation::read, "/s/ok") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/s/fine/x") == Action::allow);
    CHECK(connect(loaded, "10.1.2.3", 443) == Action::allow);
    CHECK(connect(loaded, "10.1.2.3", 80) == Action::deny);
    const auto error_of = [&](const std::string& rule, const std::string& pattern) {
        RuleSources wrong = files({"/r/a.json"});
        wrong.exceptions = {{rule, pattern}};
        return findings(load(wrong, machine.context()));
    };
    CHECK(has(error_of("secret", "/s/x"), "there is no rule \"secret\": did you mean \"secrets\"?"));
    CHECK(has(error_of("secrets", "s/x"), "expected a pattern that begins with"));
    CHECK(has(error_of("odd", "/p/x"), "has an exception of another kind"));
    CHECK(error_of("net", "*.example.org") == "");
    CHECK(error_of("links", "/l/x") == "");
}

TEST_CASE("a file narrows the deny rules of what it extends, and of nothing else") {
    TestMachine machine;
    machine.rule_files["/r/base.json"] =
        R"({"default":"allow","rules":[{"id":"keys","deny":"read","path":"/k/**"}]})";
    machine.rule_files["/r/middle.json"] = R"({"extends":"base.json","rules":[]})";
    machine.rule_files["/r/main.json"] =
        R"({"extends":"middle.json","rules":[],"exceptions":{"keys":["/k/a","/k/b/**"]}})";
    const LoadedRules loaded = load(files({"/r/main.json"}), machine.context());
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/k/a") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/k/b/c") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/k/c") == Action::deny);

    machine.rule_files["/r/other.json"] = R"({"rules":[],"exceptions":{"keys":"/k/c"}})";
    const LoadedRules beside = load(files({"/r/main.json", "/r/other.json"}), machine.context());
    CHECK_FALSE(beside.rules);
    CHECK(has(findings(beside), "no file that this one extends has a rule \"keys\""));
}

TEST_CASE("a profile's text on this host replaces the shipped one, also where it is extended") {
    TestMachine machine;
    machine.rule_files["/r/main.json"] = R"({"extends":"node+net","rules":[]})";
    RuleSources sources = files({"/r/main.json"});
    sources.profile_text = [](const std::string& name) -> std::optional<std::string> {
        if (name != "node+net") return std::nullopt;
        return R"({"rules":[{"id":"own","allow":"read","path":"/own"}]})";
    };
    const LoadedRules loaded = load(sources, machine.context());
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    CHECK(decide(loaded, Operation::read, "/own") == Action::allow);
    CHECK(decide(loaded, Operation::read, "/etc/passwd") == Action::deny);
}

TEST_CASE("built-in rules have no exceptions and stand before all others") {
    TestMachine machine;
    machine.rule_files["/r/a.json"] =
        R"({"rules":[{"deny":"read","path":"/state/**"},{"allow":"read","path":"/**"}]})";
    RuleSources sources = files({"/r/a.json"});
    Rule rule;
    rule.id = "built-in.state";
    rule.action = Action::deny;
    rule.operations = Operation::read;
    rule.built_in = true;
    rule.when.path.push_back(Glob::beneath("/state"));
    sources.built_in.push_back(rule);
    CHECK(load(sources, machine.context()).rules->rules()[0].built_in);
    sources.exceptions = {{"built-in.state", "/state/x"}};
    CHECK(has(findings(load(sources, machine.context())), "has no exceptions"));
}

TEST_CASE("a host is allowed by its name, at whatever address a look-up gave") {
    const TestMachine machine;
    const LoadedRules loaded = machine.load_text(
        R"({"rules":[{"allow":"connect","host":["packages.example.org","*.files.example.net"],"port":443}]})");
    REQUIRE_MESSAGE(loaded.rules, findings(loaded));
    const auto to = [&](std::vector<std::string> names, std::uint16_t port) {
        Endpoint endpoint{address("203.0.113.7"), port};
        endpoint.names = names;
        return loaded.rules->evaluate({Operation::connect, endpoint, "/bin/x", {}}).action;
    };
    CHECK(to({"packages.example.org"}, 443) == Action::allow);
    CHECK(to({"other.example.org", "packages.example.org"}, 443) == Action::allow);
    CHECK(to({"a.files.example.net"}, 443) == Action::allow);
    CHECK(to({"a.b.files.example.net"}, 443) == Action::allow);
    CHECK(to({"packages.example.org"}, 80) == Action::deny);
    for (const char* other : {"files.example.net", "evilfiles.example.net", "packages.example.org.evil.test",
                              "xpackages.example.org", "example.org", ""})
        CHECK(to({other}, 443) == Action::deny);
    CHECK(to({}, 443) == Action::deny);
}

TEST_CASE("a check asks no name server: an example with a host is about its name") {
    const TestMachine machine;
    const std::string rules =
        R"({"extends":"base","rules":[{"allow":"connect","host":["localhost","a.example.org","*.b.example.org"],"port":80},
                                      {"allow":"connect","address":"127.0.0.1","port":81}],
        "examples":{"allow":["connect localhost:80","connect a.example.org:80","connect x.b.example.org:80"],
                    "deny":["connect b.example.org:80","connect 127.0.0.1:80","connect localhost:81"]}})";
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{rules, "t"});
    const std::string found = findings(load(sources, machine.context(true)));
    CHECK(has(found, "connect localhost:81"));  // one of its addresses is allowed, and one is not
    CHECK_FALSE(has(found, "connect localhost:80\""));
    CHECK_FALSE(has(found, "example.org"));
}

TEST_CASE("the machine's services for look-ups are closed where look-ups are decided, and only there") {
    const TestMachine machine;
    const auto closed = [&](const char* text) {
        Rule door;
        door.id = "door";
        door.operations = Operation::connect;
        door.action = Action::deny;
        RuleSources with;
        with.parts.emplace_back(RuleSources::Text{text, "t"});
        with.name_services = [&door] { return std::vector{door}; };
        const LoadedRules loaded = load(with, machine.context());
        REQUIRE_MESSAGE(loaded.rules, findings(loaded));
        return loaded.rules->rules().front().id == "door";
    };
    CHECK(closed(R"({"rules":[{"allow":"connect","host":"a.example"}]})"));
    CHECK(closed(R"({"default":"allow","rules":[{"deny":"connect","host":"a.example"}]})"));
    CHECK(closed(R"({"default":"ask","rules":[{"allow":"read","path":"/x"}]})"));
    CHECK_FALSE(closed(R"({"default":"ask","rules":[{"allow":"connect","protocol":"udp","port":53}]})"));
    CHECK_FALSE(closed(R"({"rules":[{"allow":"connect","address":"10.0.0.0/8"}]})"));
    CHECK_FALSE(closed(R"({"default":"allow","rules":[{"allow":"read","path":"/x"}]})"));
}

TEST_CASE("rules of execution are loaded, whatever they depend on") {
    const TestMachine machine;
    const auto errors = [&](const std::string& rules) {
        return findings(machine.load_text("{\"rules\":[\n" + rules + "]}"));
    };
    CHECK(errors(R"({"allow":"execute","path":"/usr/bin/**"},{"deny":"execute","path":"/usr/bin/git"})")
              .empty());
    CHECK(errors(R"({"allow":"execute","path":"/usr/bin/git","argv":["*","status"]})").empty());
    CHECK(errors(R"({"allow":"execute","path":"/usr/bin/g*","program":"/bin/sh"})").empty());
}

TEST_CASE("variables count in abstract names of sockets, too") {
    TestMachine machine;
    const LoadedRules loaded = machine.load_text(R"({"rules":[
        {"id":"own","allow":"bind","unix":"@${tmp}/**"}]})");
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    CHECK(loaded.rules->rules()[0].when.unix_socket.at(0).matches("@" + machine.tmp + "/x"));
    CHECK(has(findings(machine.load_text(R"({"rules":[{"allow":"bind","unix":"@${tmpdir}"}]})")),
              "unknown variable ${tmpdir}"));
}

TEST_CASE("examples are evaluated by check and fail at their line with the rule that decided") {
    TestMachine machine;
    machine.tree.link("/home/u/link", "/srv");
    machine.tree.directory("/srv");
    const std::string rules = R"({"default":"ask","rules":[
        {"id":"w","allow":["read","write"],"path":"${workdir}/**"},
        {"id":"s","deny":["read","write"],"path":["~/.ssh/**","/srv/**"]},
        {"id":"p","allow":"connect","host":"packages.example.org","port":443},
        {"id":"m","deny":"connect","address":"169.254.0.0/16"},
        {"id":"u","allow":["connect","bind"],"unix":["${tmp}/**","@ok*"]},
        {"id":"by","allow":"read","path":"/data","program":"/usr/bin/x"}],)";
    const LoadedRules good = machine.load_text(rules + R"("examples":{
        "allow":["read ${workdir}/main.py","write ${workdir}/x","connect packages.example.org:443","connect @okay","bind ${tmp}/s",
                 "read /data by /usr/bin/x"],
        "ask":["read /data","connect 203.0.113.1:443","read /data by /usr/bin/y","connect packages.example.org:80"],
        "deny":["read ~/.ssh/id_ed25519","connect 169.254.169.254:80","read ~/link/x"]}})",
                                               true);
    for (const Diagnostic& one : good.diagnostics)
        CHECK_MESSAGE(one.severity == Diagnostic::Severity::warning, one.text());
    REQUIRE(good.rules);
    const LoadedRules bad = machine.load_text(rules + R"(
"examples":{"allow":["read ~/.ssh/id",
  "read /data"],
  "deny":["raed /x","connect 10.0.0.1","read x","connect 10.0.0.0/8:1","read"]}})",
                                              true);
    const std::string text = findings(bad);
    CHECK(bad.rules == nullptr);
    CHECK(has(text,
              "test.json:8:22: error: example \"read ~/.ssh/id\" failed: it is deny by rule \"s\" "
              "(test.json:3:9), expected allow"));
    CHECK(has(text,
              "test.json:9:3: error: example \"read /data\" failed: it is ask by default, expected allow"));
    CHECK(has(text, "unknown operation \"raed\""));
    CHECK(has(text, "expected a port"));
    CHECK(has(text, "is not an absolute path"));
    CHECK(has(text, "expected one address"));
    CHECK(has(text, "example \"read\": expected"));
    CHECK(machine.load_text(rules + R"("examples":{"allow":"read ~/.ssh/id"}})").rules);
}

TEST_CASE("the hash is the same for the same sources and another for others") {
    TestMachine machine;
    const std::string one = machine.load_text(R"({"default":"ask","rules":[]})").sha256;
    CHECK(one.size() == 64);
    CHECK(machine.load_text("{ /* c */ \"rules\": [],\n \"default\": \"ask\" }").sha256 == one);
    CHECK(machine.load_text(R"({"default":"deny","rules":[]})").sha256 != one);
    machine.tmp = "/tmp/callgate-1000-other";
    CHECK(machine.load_text(R"({"default":"ask","rules":[]})").sha256 == one);
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{R"({"default":"ask","rules":[]})", "x"});
    sources.fallback = Action::allow;
    CHECK(load(sources, machine.context()).sha256 != one);
}

TEST_CASE("check warns of what does less or more than it seems") {
    TestMachine machine;
    machine.tree.file("/home/u/file");
    machine.tree.file("/home/u/secret");
    machine.links["/home/u/secret"] = 2;
    const std::string text = findings(machine.load_text(R"({"default":"deny","rules":[
        {"id":"hidden","allow":"read","path":"/a/b/**"},
        {"id":"wins","deny":["read","write"],"path":"/a/**"},
        {"id":"dots","allow":"read","path":"/x/../y"},
        {"id":"beneath","allow":"read","path":"~/file/*.txt"},
        {"id":"wide","allow":"read","path":"~/**"},
        {"id":"asker","allow":"read","path":"/p","program":"/bin/x"},
        {"id":"words","allow":"execute","path":"/p","argv":["*","status"]},
        {"id":"linked","deny":"read","path":"~/secret"},
        {"id":"copy","deny":"execute","path":"~/bin/**"}]})",
                                                        true));
    CHECK(has(text, "rule \"hidden\": can never decide: rule \"wins\" always wins"));
    CHECK(has(text, "rule \"dots\": the pattern \"/x/../y\" matches nothing"));
    CHECK(has(text,
              "rule \"beneath\": the pattern \"/home/u/file/*.txt\" matches nothing: \"/home/u/file\" is not "
              "a directory"));
    CHECK(has(text, "rule \"wide\": so wide that it covers secrets"));
    CHECK(has(text, "rule \"asker\": depends on the asking program"));
    CHECK(has(text, "rule \"words\": depends on arguments"));
    CHECK(has(text, "rule \"linked\": \"/home/u/secret\" has 2 hard links"));
    CHECK(has(text, "rule \"copy\": what is not executed under its name may be copied"));
    CHECK(has(text, "no dynamically linked program could start"));
    CHECK(has(findings(machine.load_text(R"({"rules":[{"allow":"read","path":"/a"}]})", true)),
              "no program could start: nothing may be executed"));
    CHECK_FALSE(has(text,
                    "rule \"wins\""
                    ": can"));
    CHECK(findings(
              machine.load_text(
                  R"({"extends":"base","rules":[{"allow":["read","write"],"path":"${workdir}/**"}]})", true))
              .empty());
    CHECK(has(findings(machine.load_text(R"({"rules":[{"allow":"execute","path":"/opt/**"}]})", true)),
              "no dynamically linked program could start"));
}

TEST_CASE("check warns of what an extended rule always overrules, and names the way out") {
    TestMachine machine;
    const auto said = [&](const std::string& rule) {
        return findings(machine.load_text(R"({"extends":"base","rules":[)" + rule + "]}", true));
    };
    CHECK(has(said(R"({"id":"key","allow":"read","path":"~/.ssh/id_rsa"})"),
              "rule \"key\": can never decide: rule \"base.keys\" always wins; if it is to be allowed, start "
              "with --except base.keys=/home/u/.ssh/id_rsa, or write \"exceptions\": {\"base.keys\": "
              "[\"/home/u/.ssh/id_rsa\"]} into the file"));
    CHECK(has(said(R"({"id":"keys","ask":"read","path":"~/.ssh/keys/**"})"),
              "rule \"keys\": can never decide: rule \"base.keys\" always wins"));
    CHECK(has(said(R"({"id":"two","allow":"read","path":["~/.ssh/id_rsa","/srv/x"]})"),
              "rule \"two\": \"/home/u/.ssh/id_rsa\" can never decide: rule \"base.keys\" always wins"));
    CHECK(has(said(R"({"id":"start","allow":["read","write"],"path":"~/.bashrc"})"),
              "rule \"start\": \"/home/u/.bashrc\" can never decide write: rule "
              "\"base.start-up-files\" always wins"));
    // Its exception leaves these out, or part of them.
    for (const char* open : {"~/.ssh/known_hosts", "~/.ssh/a.pub", "~/.ssh/*", "~/.ssh/**", "~/**"})
        CHECK_MESSAGE(
            !has(said(R"({"id":"key","allow":"read","path":")" + std::string(open) + "\"}"), "always wins"),
            open);
    const std::string own = findings(machine.load_text(R"({"rules":[{"id":"d","deny":"read","path":"/a/**"},
        {"id":"a","allow":"read","path":"/a/b"}]})",
                                                       true));
    CHECK(has(own, "rule \"a\": can never decide: rule \"d\" always wins"));
    CHECK_FALSE(has(own, "--except"));
}

TEST_CASE("check warns of a directory whose contents were meant") {
    TestMachine machine;
    machine.tree.directory("/home/u/projects");
    machine.tree.directory("/srv/data");
    const auto said = [&](const std::string& rules) {
        return findings(machine.load_text(R"({"extends":"base","rules":[)" + rules + "]}", true));
    };
    const std::string words =
        "\"/home/u/projects\" is a directory, and what lies in it is not covered: write "
        "\"/home/u/projects/**\"";
    CHECK(has(said(R"({"id":"a","allow":"read","path":"~/projects"})"), "rule \"a\": " + words));
    CHECK(has(said(R"({"id":"a","ask":["read","write"],"path":"~/projects"})"), "rule \"a\": " + words));
    CHECK(has(said(R"({"id":"a","deny":"read","path":"~/projects"})"), "rule \"a\": " + words));
    CHECK(has(said(R"({"id":"a","allow":"read","path":"/srv/data/"})"),
              "the final slash of \"/srv/data/\" means nothing: for all that lies in a directory write "
              "\"/srv/data/**\""));
    CHECK(said(R"({"allow":"read","path":"~/projects/**"})").empty());
    CHECK(said(R"({"allow":"read","path":["~/projects","~/projects/one/**"]})").empty());
    CHECK(said(R"({"allow":"read","path":"~/projects"},{"allow":"read","path":"~/projects/*.txt"})").empty());
    CHECK(said(R"({"allow":"create","path":"~/projects"})").empty());
}

TEST_CASE("check warns of connects that nothing limits") {
    TestMachine machine;
    const auto said = [&](const std::string& rule) {
        return findings(machine.load_text(R"({"extends":"base","rules":[)" + rule + "]}", true));
    };
    CHECK(has(said(R"({"id":"c","allow":"connect"})"), "rule \"c\": allows connecting everywhere"));
    CHECK(has(said(R"({"id":"c","allow":"connect","protocol":"tcp"})"), "allows connecting everywhere"));
    for (const char* one :
         {R"("host":"example.com")", R"("address":"10.0.0.0/8")", R"("port":443)", R"("unix":"/run/x.sock")"})
        CHECK_MESSAGE(said(R"({"allow":"connect",)" + std::string(one) + "}").empty(), one);
    CHECK(said(R"({"deny":"connect"})").empty());
}

TEST_CASE("check warns of writes that nothing limits") {
    TestMachine machine;
    const auto said = [&](const std::string& rule) {
        return findings(machine.load_text(R"({"extends":"base","rules":[)" + rule + "]}", true));
    };
    CHECK(has(said(R"({"id":"w","allow":["read","write"]})"),
              "rule \"w\": allows write wherever no rule denies it: add \"path\""));
    CHECK(!has(said(R"({"id":"w","allow":"write","path":"/srv/**"})"), "wherever no rule"));
    CHECK(!has(said(R"({"id":"w","ask":"write"})"), "wherever no rule"));
}

TEST_CASE("check warns of a rule that needs what the kernel lacks") {
    TestMachine machine;
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{
        R"({"extends":"base","rules":[{"id":"x","allow":["read","execute"],"path":"/usr/**"}]})", "t"});
    LoadContext context = machine.context(true);
    context.landlock_abi = 0;
    CHECK(has(findings(load(sources, context)), "rule \"x\": needs Landlock"));
    context.landlock_abi = 1;
    CHECK(findings(load(sources, context)).empty());
}

TEST_CASE("check names the directories that were not expanded") {
    TestMachine machine;
    machine.tree.directory("/home/u/work/a/closed");
    machine.tree.unreadable("/home/u/work/a/closed");
    const char* rules =
        R"({"extends":"base","rules":[{"id":"e","deny":"read","path":"${workdir}/**/.x","expand":true}]})";
    CHECK(has(findings(machine.load_text(rules, true)),
              "rule \"e\" was not expanded beneath \"/home/u/work/a/closed\""));
    CHECK(findings(machine.load_text(rules)).empty());
}

TEST_CASE("the example of the contract loads") {
    const TestMachine machine;
    CHECK(findings(machine.load_text(testdata("contract.json"))) == "");
}

TEST_CASE("a set that uses most of the vocabulary passes its own check") {
    TestMachine machine;
    machine.tree.directory("/usr/lib");
    const LoadedRules loaded = machine.load_text(testdata("good.json"), true);
    CHECK(findings(loaded) == "");
    CHECK(loaded.rules != nullptr);
}

TEST_CASE("hostile texts give an error and nothing else") {
    const TestMachine machine;
    for (const char* name :
         {"not-utf8.json", "deep.json", "duplicate.json", "huge-number.json", "truncated.json"}) {
        const LoadedRules loaded = machine.load_text(testdata(name));
        CHECK_MESSAGE(loaded.rules == nullptr, name);
        CHECK_MESSAGE(has(findings(loaded), "test.json:"), name);
    }
}
