#include "supervisor/run/report.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "rules/model/glob.hpp"
#include "rules/model/rule.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using audit::Decision;
using audit::Mechanism;
using nlohmann::json;
using rules::Action;
using rules::DecidedBy;
using rules::Operation;

namespace {

const RunFacts facts{.run = "k3f9",
                     .mode = Mode::enforce,
                     .workdir = "/w",
                     .rules_sha256 = "ab12",
                     .command = {"python3", "main.py"},
                     .degraded = {},
                     .landlock_abi = 7,
                     .limits = {},
                     .audit_file = "/state/20261120T101112Z-k3f9.jsonl",
                     .audited = true,
                     .held_back = {"GITHUB_TOKEN"},
                     .not_passed = {"EDITOR_2"},
                     .agents_own = {"OPENAI_API_KEY"},
                     .exposed = {"HTTPS_PROXY"}};

RunOutcome exited(int code) {
    RunOutcome outcome;
    outcome.outcome = Outcome::exited;
    outcome.exit_status = code;
    outcome.exit_code = code;
    return outcome;
}

rules::Rule make_rule(std::string id, Action action, rules::OperationSet operations,
                      std::string_view pattern) {
    rules::Rule rule;
    rule.id = std::move(id);
    rule.action = action;
    rule.operations = operations;
    rule.when.path.push_back(rules::Glob::compile(pattern, rules::GlobKind::path).value());
    return rule;
}

rules::Rule secrets() {
    rules::Rule rule = make_rule("secrets", Action::deny, Operation::read, "/home/u/.ssh/**");
    rule.reason = "credentials";
    return rule;
}

Decision denied(std::string_view path, const rules::Rule* rule = nullptr,
                Operation operation = Operation::read) {
    Decision decision;
    decision.call = "openat";
    decision.caller = {.pid = 9, .parent = 1, .start_time = 1, .executable = "/usr/bin/python3", .uid = 0};
    decision.operation = operation;
    decision.operations = operation;
    decision.object = rules::FileObject{.path = path};
    decision.verdict = {.action = Action::deny,
                        .decided_by = rule != nullptr ? DecidedBy::rule : DecidedBy::fallback,
                        .rule = rule,
                        .operation = operation,
                        .error = EACCES};
    return decision;
}

Decision denied_endpoint(const char* address, std::uint16_t port,
                         rules::Protocol protocol = rules::Protocol::tcp,
                         Operation operation = Operation::connect) {
    Decision decision = denied("", nullptr, operation);
    rules::Endpoint endpoint{.address = {}, .port = port, .protocol = protocol};
    endpoint.address.v6 = std::string_view(address).find(':') != std::string_view::npos;
    REQUIRE(::inet_pton(endpoint.address.v6 ? AF_INET6 : AF_INET, address, endpoint.address.bytes.data()) ==
            1);
    decision.object = endpoint;
    decision.verdict.error = ECONNREFUSED;
    return decision;
}

Decision denied_socket(std::string_view name, Operation operation = Operation::connect,
                       rules::UnixType type = rules::UnixType::stream) {
    Decision decision = denied("", nullptr, operation);
    decision.object = rules::UnixObject{.name = name, .type = type};
    return decision;
}

std::size_t line_count(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("the footer says what was denied, how often, by which rule, and what would allow it") {
    const rules::Rule rule = secrets();
    RunReport report;
    report.note(denied("/home/u/.ssh/id_ed25519", &rule));
    Decision connect = denied_endpoint("203.0.113.4", 443);
    connect.verdict.action = Action::ask;
    report.note(connect);
    report.note(connect);
    CHECK(report.footer(facts, exited(0), true) ==
          "callgate: denied 3 calls (run k3f9)\n"
          "callgate:   read /home/u/.ssh/id_ed25519 ×1  rule secrets (credentials)\n"
          "callgate:   connect 203.0.113.4:443 ×2  default (no one to ask)  allow with: --connect "
          "203.0.113.4:443\n");
    CHECK(report.footer(facts, exited(0), false).find("allow with") == std::string::npos);
}

TEST_CASE("nothing denied and nothing ended is no footer") {
    RunReport report;
    Decision allowed = denied("/w/x");
    allowed.verdict.action = Action::allow;
    allowed.mechanism = Mechanism::on_behalf;
    report.note(allowed);
    CHECK(report.footer(facts, exited(0), true).empty());
    CHECK(report.counts().allow == 1);
    RunOutcome outcome = exited(0);
    outcome.ended_background = 2;
    CHECK(report.footer(facts, outcome, true) ==
          "callgate: ended 2 processes that the command left running\n");
}

TEST_CASE("a quiet denial is no line and not counted by the footer") {
    rules::Rule quiet = make_rule("absent", Action::deny, Operation::read, "/home/u/.bashrc");
    quiet.quiet = true;
    RunReport report;
    for (int call = 0; call < 300; ++call) report.note(denied("/home/u/.bashrc", &quiet));
    CHECK(report.footer(facts, exited(0), true).empty());
    report.note(denied("/home/u/other", nullptr));
    const std::string text = report.footer(facts, exited(0), true);
    CHECK(text.find("denied 1 call ") != std::string::npos);
    CHECK(text.find("/home/u/other") != std::string::npos);
    CHECK(text.find(".bashrc") == std::string::npos);
}

TEST_CASE("what is quiet while the command succeeds is told after a failure") {
    rules::Rule rule = make_rule("places", Action::deny, Operation::create, "/home/u/.cache");
    rule.quiet = rule.told_on_failure = true;
    rule.reason = "a place";
    RunReport report;
    for (int call = 0; call < 2; ++call) report.note(denied("/home/u/.cache", &rule, Operation::create));
    CHECK(report.footer(facts, exited(0), true).empty());
    RunOutcome ended = exited(1);
    ended.outcome = Outcome::timeout;
    CHECK(report.footer(facts, ended, true).empty());
    const json fine = json::parse(report.json(facts, exited(0), 1, ""));
    CHECK(fine["quiet_denials"] == 2);
    CHECK(fine["denials"].empty());
    const std::string told =
        "callgate: denied 2 calls (run k3f9)\n"
        "callgate:   create /home/u/.cache ×2  rule places (a place)\n";
    CHECK(report.footer(facts, exited(1), true) == told);
    const json failed = json::parse(report.json(facts, exited(1), 1, ""));
    CHECK(failed["quiet_denials"] == 0);
    CHECK(failed["denials"].size() == 1);
    RunReport of_nested;
    of_nested.take(json::parse(report.gathered_json()));
    CHECK(of_nested.footer(facts, exited(0), true).empty());
    CHECK(of_nested.footer(facts, exited(1), true) == told);
}

TEST_CASE("the place that svn makes for its settings is no line, and what is in it is one") {
    rules::Rule settings = make_rule("base.tool-settings", Action::deny, Operation::create, "/home/u/.*/**");
    for (const auto& [program, path, quiet] : {std::tuple{"/usr/bin/svn", "/home/u/.subversion", true},
                                               {"/usr/bin/svnadmin", "/home/u/.subversion", true},
                                               {"/w/usr/bin/svn", "/home/u/.subversion", false},
                                               {"/usr/bin/python3", "/home/u/.subversion", false},
                                               {"/usr/bin/svn", "/home/u/.subversion/config", false}}) {
        RunReport report;
        Decision decision = denied(path, &settings, Operation::create);
        decision.caller.executable = program;
        CAPTURE(decision.caller.executable);
        report.note(decision);
        CHECK(report.footer(facts, exited(0), true).empty() == quiet);
    }
}

TEST_CASE("vim's look for its own history is no line, and another program's is one") {
    rules::Rule histories = make_rule("base.histories", Action::deny, Operation::read, "/home/u/.*");
    for (const auto& [program, path, quiet] : {std::tuple{"/usr/bin/vim.basic", "/home/u/.viminfo", true},
                                               {"/usr/bin/python3", "/home/u/.viminfo", false},
                                               {"/w/usr/bin/vim", "/home/u/.viminfo", false},
                                               {"/usr/bin/vim.basic", "/home/u/.bash_history", false}}) {
        RunReport report;
        Decision decision = denied(path, &histories);
        decision.caller.executable = program;
        CAPTURE(decision.caller.executable);
        report.note(decision);
        CHECK(report.footer(facts, exited(0), true).empty() == quiet);
        CHECK(json::parse(report.json(facts, exited(0), 1, ""))["quiet_denials"] == (quiet ? 1 : 0));
    }
}

TEST_CASE("Python's look for its own history and Jupyter's note are no line, and another program's are one") {
    rules::Rule histories = make_rule("base.histories", Action::deny, Operation::read, "/home/u/.*");
    rules::Rule settings = make_rule("base.tool-settings", Action::deny, Operation::modify, "/home/u/.*/**");
    for (const auto& [program, path, rule, quiet] :
         {std::tuple{"/usr/bin/python3.11", "/home/u/.python_history", &histories, true},
          {"/usr/local/bin/python3.12", "/home/u/.python_history", &histories, true},
          {"/w/usr/bin/python3.11", "/home/u/.python_history", &histories, false},
          {"/usr/bin/cat", "/home/u/.python_history", &histories, false},
          {"/usr/bin/python3.11", "/home/u/.bash_history", &histories, false},
          {"/usr/bin/python3.11", "/home/u/.jupyter/migrated", &settings, true},
          {"/usr/bin/tee", "/home/u/.jupyter/migrated", &settings, false},
          {"/usr/bin/python3.11", "/home/u/.jupyter/jupyter_lab_config.py", &settings, false}}) {
        RunReport report;
        Decision decision = denied(path, rule, rule == &settings ? Operation::modify : Operation::read);
        decision.caller.executable = program;
        CAPTURE(decision.caller.executable);
        report.note(decision);
        CHECK(report.footer(facts, exited(0), true).empty() == quiet);
    }
}

TEST_CASE("ten lines at most, the rest is counted") {
    RunReport report;
    for (int index = 0; index < 300; ++index) {
        const std::string path = "/p" + std::to_string(index);
        report.note(denied(path));
        report.note(denied(path));
    }
    const std::string footer = report.footer(facts, exited(0), true);
    CHECK(line_count(footer) == 12);
    CHECK(footer.starts_with("callgate: denied 600 calls"));
    CHECK(footer.ends_with("callgate:   … and 580 more: callgate audit show k3f9\n"));
    RunFacts elsewhere = facts;
    elsewhere.audit_file = "/my logs/x";
    CHECK(report.footer(elsewhere, exited(0), true).ends_with("callgate audit show '/my logs/x'\n"));
    const json parsed = json::parse(report.json(facts, exited(0), 1, ""));
    CHECK(parsed["denials"].size() == 256);
    CHECK(parsed["counts"]["deny"] == 600);
}

TEST_CASE("from three names of a directory on, the footer has one line, and names the directory") {
    RunFacts at_home = facts;
    at_home.home = "/home/u";
    const auto footer_of = [&at_home](const std::string& directory, int names, const rules::Rule* rule) {
        RunReport report;
        for (int name = 0; name < names; ++name) {
            const std::string path = directory + "/n" + std::to_string(name);
            report.note(denied(path, rule));
            report.note(denied(path, rule));
        }
        report.note(denied(directory + "/made", rule, Operation::create));
        return report.footer(at_home, exited(0), true);
    };
    CHECK(footer_of("/srv/my data", 3, nullptr) ==
          "callgate: denied 7 calls (run k3f9)\n"
          "callgate:   read \"/srv/my data/n0\" and 2 more names there ×6  default  allow with: --read "
          "'/srv/my "
          "data'\n"
          "callgate:   create \"/srv/my data/made\" ×1  default  allow with: --write '/srv/my data/made'\n");
    CHECK(footer_of("/home/u/.claude", 4, nullptr).find("--read /home/u/.claude\n") != std::string::npos);
    CHECK(footer_of("/srv/data", 2, nullptr).find("more names") == std::string::npos);
    // The home, what is above it, what all programs share, and what a rule denies is never offered.
    const rules::Rule rule = secrets();
    for (const char* wide : {"/home/u", "/home", "/srv", "", "/home/u/.config", "/home/u/.local/share",
                             "/var/tmp", "/dev/shm"}) {
        CAPTURE(wide);
        CHECK(line_count(footer_of(wide, 3, nullptr)) == 5);
    }
    CHECK(line_count(footer_of("/home/u/.ssh", 3, &rule)) == 5);
}

TEST_CASE("a server that tries one port after the other is one line, and the option names the first") {
    const auto footer_of = [](int ports, Operation operation) {
        RunReport report;
        for (int port = 8899; port < 8899 + ports; ++port)
            report.note(denied_endpoint("127.0.0.1", static_cast<std::uint16_t>(port), rules::Protocol::tcp,
                                        operation));
        return report.footer(facts, exited(1), true);
    };
    CHECK(footer_of(50, Operation::bind) ==
          "callgate: denied 50 calls (run k3f9)\n"
          "callgate:   bind 127.0.0.1:8899 and 49 more ports ×50  default  allow with: --bind "
          "127.0.0.1:8899\n");
    CHECK(line_count(footer_of(2, Operation::bind)) == 3);
    // Each port to connect to is another server.
    CHECK(line_count(footer_of(4, Operation::connect)) == 5);
}

TEST_CASE("a port that a server tried on loopback too is one line, and the option names loopback") {
    const auto note = [](RunReport& report, const char* address, std::uint16_t port) {
        report.note(denied_endpoint(address, port, rules::Protocol::tcp, Operation::bind));
    };
    RunReport report;
    for (const char* address : {"0.0.0.0", "::", "127.0.0.1"}) note(report, address, 5173);
    CHECK(report.footer(facts, exited(1), true) ==
          "callgate: denied 3 calls (run k3f9)\n"
          "callgate:   bind 0.0.0.0:5173 and 2 more of this port ×3  default  allow with: --bind "
          "127.0.0.1:5173\n");
    RunReport two;
    for (const char* address : {"127.0.0.1", "0.0.0.0"}) note(two, address, 5173);
    CHECK(line_count(two.footer(facts, exited(1), true)) == 2);
    RunReport wide;
    for (const char* address : {"0.0.0.0", "::"}) note(wide, address, 5173);
    note(wide, "127.0.0.1", 5174);
    const std::string text = wide.footer(facts, exited(1), true);
    CHECK(line_count(text) == 3);
    CHECK(text.find("0.0.0.0:5173 and 1 more of this port ×2  default  allow with: --bind 5173\n") !=
          std::string::npos);
}

/// The option that the footer offers where nothing else was denied.
std::string offered(const Decision& decision) {
    RunReport report;
    report.use_rules(std::make_shared<rules::RuleSet>(std::vector<rules::Rule>{}, Action::deny), "/home/u");
    report.note(decision);
    const std::string footer = report.footer(facts, exited(1), true);
    const std::string_view words = "allow with: ";
    const std::size_t at = footer.find(words);
    return at == std::string::npos ? "" : footer.substr(at + words.size());
}

TEST_CASE("R picks another port for each cluster of workers, and the option is for all of them") {
    const auto option = [](const char* program, const char* address, std::uint16_t port,
                           rules::Protocol protocol = rules::Protocol::tcp) {
        Decision decision = denied_endpoint(address, port, protocol, Operation::bind);
        decision.caller.executable = program;
        return offered(decision);
    };
    const char* const program = "/usr/lib/R/bin/exec/R";
    CHECK(option(program, "0.0.0.0", 11000) == "--bind 11000-11999\n");
    CHECK(option(program, "0.0.0.0", 11999) == "--bind 11000-11999\n");
    CHECK(option(program, "0.0.0.0", 12000) == "--bind 12000\n");
    CHECK(option(program, "127.0.0.1", 11255) == "--bind 127.0.0.1:11255\n");
    CHECK(option(program, "0.0.0.0", 11255, rules::Protocol::udp) == "--bind 11255/udp\n");
    CHECK(option("/usr/bin/python3.11", "0.0.0.0", 11255) == "--bind 11255\n");
}

TEST_CASE("a name with a long number, and a socket with a hash, are named by their pattern at once") {
    const auto created = [&](const char* path) { return offered(denied(path, nullptr, Operation::create)); };
    CHECK(created("/tmp/temp_1795857151.81-24308-155768060011863") == "--write 'glob:/tmp/temp_*'\n");
    CHECK(created("/tmp/gradle_fs_probing14171581736294627615.tmp") ==
          "--write 'glob:/tmp/gradle_fs_probing*.tmp'\n");
    CHECK(created("/tmp/tool-17f06c3b7bb59b3601f1b51469") == "--write 'glob:/tmp/tool-*'\n");
    for (const char* path :
         {"/tmp/callgate-1234567890123456", "/tmp/backup20261128090100", "/tmp/12345678901234567890",
          "/tmp/tooldeadbeefdeadbeef0", "/tmp/tool-deadbeefdeadbeef"})
        CHECK(created(path) == "--write " + std::string(path) + "\n");
    const char* const pipe = "/tmp/OSL_PIPE_1001_SingleOfficeIPC_17f06c3b7bb59b3601f1b514690b21b";
    CHECK(offered(denied_socket(pipe, Operation::bind)) ==
          "--bind 'unix:glob:/tmp/OSL_PIPE_*_SingleOfficeIPC_*'\n");
    CHECK(offered(denied_socket(pipe)) == "--connect unix:" + std::string(pipe) + "\n");
}

TEST_CASE("the read of a program that may not be executed has no line of its own") {
    const auto lines = [](std::initializer_list<Operation> operations) {
        RunReport report;
        for (const Operation operation : operations) report.note(denied("/srv/tool", nullptr, operation));
        return report.footer(facts, exited(126), true);
    };
    CHECK(lines({Operation::execute, Operation::read}) ==
          "callgate: denied 2 calls (run k3f9)\n"
          "callgate:   execute /srv/tool ×1  default  allow with: --execute /srv/tool\n");
    CHECK(line_count(lines({Operation::read})) == 2);
    CHECK(line_count(lines({Operation::execute, Operation::modify})) == 3);
}

TEST_CASE("a connect to a server that may not listen is offered the server's option") {
    const auto options = [](Action action, const char* bound, std::uint16_t port) {
        rules::Rule own;
        own.id = "own";
        own.action = action;
        own.operations = Operation::connect;
        own.when.run_server = true;
        own.when.port = {{.first = 5173, .last = 5173}};
        RunReport report;
        report.use_rules(std::make_shared<rules::RuleSet>(std::vector<rules::Rule>{own}, Action::deny),
                         "/home/u");
        report.note(denied_endpoint("127.0.0.1", 5173));
        report.note(denied_endpoint(bound, port, rules::Protocol::tcp, Operation::bind));
        const json told = json::parse(report.json(facts, exited(1), 0, ""))["denials"];
        return std::pair(told[0]["hint"].get<std::string>(), told[1]["hint"].get<std::string>());
    };
    using Pair = std::pair<std::string, std::string>;
    CHECK(options(Action::allow, "0.0.0.0", 5173) == Pair("--bind 5173", "--bind 5173"));
    CHECK(options(Action::allow, "127.0.0.1", 5173) ==
          Pair("--bind 127.0.0.1:5173", "--bind 127.0.0.1:5173"));
    CHECK(options(Action::allow, "127.0.0.2", 5173).first == "--connect 127.0.0.1:5173");
    CHECK(options(Action::allow, "0.0.0.0", 5174).first == "--connect 127.0.0.1:5173");
    CHECK(options(Action::ask, "0.0.0.0", 5173).first == "--connect 127.0.0.1:5173");
}

TEST_CASE("files of one repository are one line from the third name on") {
    const tests::TemporaryDirectory place;
    for (const char* name : {"/up/objects", "/up/refs", "/up/HEAD"})
        std::filesystem::create_directories(place.path + name);
    RunReport report;
    report.use_rules(std::make_shared<rules::RuleSet>(std::vector<rules::Rule>{}, Action::deny), "/home/u");
    const std::string up = place / "up";
    for (const char* name : {"/HEAD", "/config", "/objects/12/ab"}) report.note(denied(up + name));
    report.note(denied(up + "/x", nullptr, Operation::create));
    CHECK(report.footer(facts, exited(0), true) ==
          "callgate: denied 4 calls (run k3f9)\n"
          "callgate:   read " +
              up + "/HEAD and 2 more names there ×3  default  allow with: --read " + up +
              "\ncallgate:   create " + up + "/x ×1  default  allow with: --write " + up + "/x\n");
}

TEST_CASE("in a directory of all programs the footer names the pattern of names that a program makes up") {
    RunFacts at_home = facts;
    at_home.home = "/home/u";
    const auto footer_of = [&at_home](std::initializer_list<const char*> names) {
        RunReport report;
        for (const char* name : names)
            report.note(denied(std::string("/home/u/") + name, nullptr, Operation::create));
        return report.footer(at_home, exited(0), true);
    };
    CHECK(footer_of(
              {".claude.json.tmp.4242.a1b2c3", ".claude.json.tmp.77.beef00", ".claude.json.tmp.9.d0d0"}) ==
          "callgate: denied 3 calls (run k3f9)\n"
          "callgate:   create /home/u/.claude.json.tmp.* (3 names) ×3  default  allow with: --write "
          "'glob:/home/u/.claude.json.tmp.*'\n");
    CHECK(footer_of({"tool-1a2b-cwd", "tool-3c4d-cwd", "tool-5e6f-cwd"}).find("'glob:/home/u/tool-*-cwd'") !=
          std::string::npos);
    CHECK(footer_of({"a[1].tmp.1", "a[1].tmp.2", "a[1].tmp.3"}).find(R"(glob:/home/u/a\[1\].tmp.*)") !=
          std::string::npos);
    // Two names, names without anything made up, and names that say too little about their program.
    CHECK(line_count(footer_of({"tool.tmp.1", "tool.tmp.2"})) == 3);
    CHECK(line_count(footer_of({".bashrc", ".profile", ".inputrc"})) == 4);
    CHECK(line_count(footer_of({"a.1", "a.2", "a.3"})) == 4);
}

TEST_CASE("the pattern of temporary names is named at once") {
    const auto line_of = [](std::initializer_list<const char*> paths) {
        RunReport report;
        for (const char* path : paths) report.note(denied(path, nullptr, Operation::create));
        const std::string footer = report.footer(facts, exited(0), true);
        return footer.substr(footer.find('\n') + 1);
    };
    const std::string made_up(6, '?'),
        hint = "default  allow with: --write 'glob:/tmp/lua_" + made_up + "'\n";
    CHECK(line_of({"/tmp/lua_ApGBKF"}) == "callgate:   create /tmp/lua_ApGBKF ×1  " + hint);
    CHECK(line_of({"/tmp/lua_ApGBKF", "/tmp/lua_9x0aZ1"}) ==
          "callgate:   create /tmp/lua_" + made_up + " (2 names) ×2  " + hint);
    CHECK(line_of({"/var/tmp/a[1].0aB1cD"}).find(R"('glob:/var/tmp/a\[1\].)" + made_up) != std::string::npos);
    // A word, no separator, too little, and another directory.
    for (const char* path : {"/tmp/my_config", "/tmp/my_CONFIG", "/tmp/luaApGBKF", "/tmp/lua_ApGBK",
                             "/tmp/_ApGBKF.c", "/tmp/ApGBKF", "/srv/lua_ApGBKF", "/tmp/x/lua_ApGBKF"}) {
        CAPTURE(path);
        CHECK(line_of({path}).find("glob:") == std::string::npos);
    }
}

TEST_CASE("three names show the pattern of temporary names where one could be a word") {
    const auto lines_of = [](std::initializer_list<const char*> names) {
        RunReport report;
        for (const char* name : names)
            report.note(denied(std::string("/tmp/") + name, nullptr, Operation::create));
        return report.footer(facts, exited(0), true);
    };
    const std::string short_part(6, '?'), long_part(10, '?');
    CHECK(lines_of({"difApGBKF", "dif9x0aZ1", "difw4Yskd"}) ==
          "callgate: denied 3 calls (run k3f9)\n"
          "callgate:   create /tmp/dif" +
              short_part + " (3 names) ×3  default  allow with: --write 'glob:/tmp/dif" + short_part + "'\n");
    CHECK(lines_of({"job.ApGBKF9x0a", "job.Z1w4YskdQQ", "job.bbbBBB0000"})
              .find("'glob:/tmp/job." + long_part + "'") != std::string::npos);
    // Two names, words, names of different programs, and names that say too little about their program.
    CHECK(line_count(lines_of({"difApGBKF", "dif9x0aZ1"})) == 3);
    CHECK(line_count(lines_of({"difference", "difficulty", "diffusions"})) == 4);
    CHECK(line_count(lines_of({"oneApGBKF", "two9x0aZ1", "sixw4Yskd"})) == 4);
    CHECK(line_count(lines_of({"aApGBKF", "a9x0aZ1", "aw4Yskd"})) == 4);
}

TEST_CASE("the pattern of a temporary name with the process's number is named") {
    const auto line_of = [](const char* path, int pid) {
        RunReport report;
        Decision decision = denied(path, nullptr, Operation::create);
        decision.caller.pid = pid;
        report.note(decision);
        const std::string footer = report.footer(facts, exited(0), true);
        return footer.substr(footer.find('\n') + 1);
    };
    CHECK(line_of("/tmp/perf-4242.map", 4242).find("--write 'glob:/tmp/perf-*.map'\n") != std::string::npos);
    CHECK(line_of("/tmp/tool.4242", 4242).find("--write 'glob:/tmp/tool.*'\n") != std::string::npos);
    for (const char* path : {"/tmp/perf-14242.map", "/tmp/perf-42421.map", "/tmp/4242", "/tmp/4242x",
                             "/tmp/a-4242", "/srv/perf-4242.map"}) {
        CAPTURE(path);
        CHECK(line_of(path, 4242).find("glob:") == std::string::npos);
    }
}

TEST_CASE("the footer names a file of all processes in one line") {
    const rules::Rule rule = secrets();
    RunReport report;
    for (const char* path :
         {"/proc/1/environ", "/proc/77/environ", "/proc/4242/environ", "/proc/77/mem", "/proc/77x/environ"})
        report.note(denied(path, &rule));
    const std::string footer = report.footer(facts, exited(0), true);
    CHECK(footer.find("read /proc/*/environ (3 names) ×3  rule ") != std::string::npos);
    CHECK(line_count(footer) == 4);
}

TEST_CASE("no option is offered for a file whose name says that it may hold a credential") {
    for (const char* path : {"/srv/tool/token", "/srv/tool/accessToken.json", "/srv/.netrc",
                             "/srv/oauth_creds.json", "/srv/x.p12", "/srv/server-key.pem", "/srv/Cookies"}) {
        CAPTURE(path);
        RunReport report;
        report.note(denied(path));
        const std::string footer = report.footer(facts, exited(0), true);
        CHECK(footer.find("by its name it may hold a credential") != std::string::npos);
        CHECK(footer.find("allow with") == std::string::npos);
    }
    for (const char* path :
         {"/srv/tokenizer.json", "/srv/secrets.py", "/srv/auth.ts", "/srv/author", "/srv/cacert.pem"}) {
        CAPTURE(path);
        RunReport report;
        report.note(denied(path));
        CHECK(report.footer(facts, exited(0), true).find("allow with: --read ") != std::string::npos);
    }
}

TEST_CASE("a shipped profile is offered where one is for what was denied") {
    const auto offered = [](Decision decision, const char* loaded) {
        std::vector<rules::Rule> list{make_rule("x", Action::allow, Operation::read, "/x")};
        list.back().source.file = loaded;
        RunReport report;
        report.use_rules(std::make_shared<rules::RuleSet>(std::move(list), Action::deny), "/home/u");
        report.note(decision);
        const std::string footer = report.footer(facts, exited(0), true);
        const std::size_t at = footer.find("allow with");
        return at == std::string::npos ? "" : footer.substr(at);
    };
    const auto made = [&](const char* path) {
        return offered(denied(path, nullptr, Operation::create), "profile agent");
    };
    CHECK(made("/tmp/.ZendSem.aB3dE6") == "allow with: -p php\n");
    Decision by_java = denied("/tmp/probing1712345678.tmp", nullptr, Operation::create);
    by_java.caller.executable = "/usr/lib/jvm/java-17/bin/java";
    CHECK(offered(by_java, "profile agent") == "allow with: -p java\n");
    CHECK(offered(by_java, "profile java") == "allow with: --write /tmp/probing1712345678.tmp\n");
    by_java.object = rules::FileObject{"/tmp/input.json"};
    CHECK(offered(by_java, "profile agent") == "allow with: --write /tmp/input.json\n");
    // A profile that opens the network is more than a lock needs.
    CHECK(made("/tmp/pnpm-store-operation-locks-1").find("node+net") == std::string::npos);
    const Decision program = denied("/home/u/.npm-global/bin/tool", nullptr, Operation::execute);
    CHECK(offered(program, "profile agent") == "allow with: -p node\n");
    Decision registry = denied("", nullptr, Operation::connect);
    registry.object = rules::HostName{.name = "index.crates.io"};
    CHECK(offered(registry, "profile agent") == "allow with -p rust+net\n");
    registry.object = rules::HostName{.name = "repo.packagist.org"};
    CHECK(offered(registry, "profile php") == "allow with -p php+net\n");
    registry.object = rules::HostName{.name = "api.github.com"};
    CHECK(offered(registry, "profile php") == "allow with --connect api.github.com\n");
    CHECK(offered(denied("/home/u/.rvm/rubies/x/bin/ruby", nullptr, Operation::execute), "profile agent") ==
          "allow with: -p ruby\n");
    CHECK(offered(denied("/home/u/.phpenv/shims/php", nullptr, Operation::execute), "profile agent") ==
          "allow with: -p php\n");
    CHECK(offered(denied("/home/u/.config/ccache/ccache.conf"), "profile agent") == "allow with: -p build\n");
    // Only where it adds to a profile of the run, and never one with a login or for what is written.
    CHECK(offered(program, "rules.json") == "allow with: --execute /home/u/.npm-global/bin/tool\n");
    CHECK(offered(program, "profile base") == "allow with: --execute /home/u/.npm-global/bin/tool\n");
    CHECK(offered(program, "profile node") == "allow with: --execute /home/u/.npm-global/bin/tool\n");
    CHECK(offered(denied("/home/u/.npm-global/bin/tool", nullptr, Operation::create), "profile agent") ==
          "allow with: --write /home/u/.npm-global/bin/tool\n");
    CHECK(offered(denied("/home/u/.codex/x"), "profile agent") == "allow with: --read /home/u/.codex/x\n");
}

TEST_CASE("a footer is safe for a terminal") {
    rules::Rule rule = secrets();
    rule.id = "a\033[2Jb";
    rule.reason = "x\r\ny";
    RunReport report;
    report.note(denied("/home/u/.ssh/\033]0;x\a\n\u202e\xff", &rule));
    const std::string footer = report.footer(facts, exited(0), true);
    CHECK(line_count(footer) == 2);
    for (const char one : footer) CHECK((one == '\n' || static_cast<unsigned char>(one) >= 0x20));
    CHECK(footer.find("\u202e") == std::string::npos);
    CHECK(footer.find('\xff') == std::string::npos);
}

TEST_CASE("a name is no hint, whatever words it holds") {
    RunReport report;
    report.note(denied("/w/a ×1  default  allow with: --write /"));
    const std::string text = report.footer(facts, exited(1), true);
    CHECK(text.find("read \"/w/a \\xc3\\x971  default  allow with: --write /\" ×1  default") !=
          std::string::npos);
}

TEST_CASE("audit mode counts and says what would have been denied") {
    const rules::Rule rule = secrets();
    RunReport report;
    Decision noted = denied("/home/u/.ssh/id", &rule);
    noted.mechanism = Mechanism::continued;
    report.note(noted);
    noted.verdict.action = Action::ask;
    report.note(noted);
    noted.verdict.action = Action::kill;
    report.note(noted);
    CHECK(report.counts().deny == 0);
    CHECK(report.counts().would_deny == 1);
    CHECK(report.counts().would_ask == 1);
    CHECK(report.counts().would_kill == 1);
    RunFacts audited = facts;
    audited.mode = Mode::audit;
    const std::string footer = report.footer(audited, exited(0), true);
    CHECK(footer.starts_with(
        "callgate: audit mode, nothing was enforced: the rules would have denied 3 calls (run k3f9)\n"));
    CHECK(footer.find("callgate:     deny ") != std::string::npos);
    CHECK(RunReport().footer(audited, exited(0), true).find("would have denied nothing") !=
          std::string::npos);
}

TEST_CASE("a kill and an unanswered question are named as such") {
    const rules::Rule rule = secrets();
    RunReport report;
    Decision killed = denied("/a", &rule);
    killed.verdict.action = Action::kill;
    killed.mechanism = Mechanism::kill;
    report.note(killed);
    Decision late = denied("/b");
    late.verdict.action = Action::ask;
    late.verdict.decided_by = DecidedBy::timeout;
    report.note(late);
    Decision failure = denied("/c");
    failure.verdict.decided_by = DecidedBy::failure;
    failure.reason = "overload";
    report.note(failure);
    const std::string footer = report.footer(facts, exited(0), false);
    CHECK(footer.find("rule secrets (credentials; killed the run)\n") != std::string::npos);
    CHECK(footer.find("timeout (nobody answered in time)\n") != std::string::npos);
    CHECK(footer.find("read /c ×1  failure (overload)\n") != std::string::npos);
    CHECK(report.counts().kill == 1);
    CHECK(report.counts().ask == 1);
    CHECK(report.counts().deny == 1);
}

TEST_CASE("a hint is the option for the kind of object and operation") {
    CHECK(hint(denied("/a b")) == "--read '/a b'");
    CHECK(hint(denied("/a\nb\xff")) == R"(--read $'/a\x0ab\xff')");
    CHECK(hint(denied("/a", nullptr, Operation::modify)) == "--write /a");
    CHECK(hint(denied("/a", nullptr, Operation::create)) == "--write /a");
    CHECK(hint(denied("/a", nullptr, Operation::remove)) == "--write /a");
    CHECK(hint(denied("/a", nullptr, Operation::metadata)) == "--write /a");
    CHECK(hint(denied("/a", nullptr, Operation::execute)) == "--execute /a");
    Decision both = denied("/a");
    both.operations = rules::OperationSet{Operation::read, Operation::modify};
    CHECK(hint(both) == "--write /a");
    CHECK(hint(denied_endpoint("127.0.0.1", 80)) == "--connect 127.0.0.1:80");
    CHECK(hint(denied_endpoint("::1", 53, rules::Protocol::udp)) == "--connect '[::1]:53/udp'");
    CHECK(hint(denied_endpoint("0.0.0.0", 8080, rules::Protocol::tcp, Operation::bind)) == "--bind 8080");
    CHECK(hint(denied_endpoint("0.0.0.0", 53, rules::Protocol::udp, Operation::bind)) == "--bind 53/udp");
    CHECK(hint(denied_endpoint("127.0.0.1", 8080, rules::Protocol::tcp, Operation::bind)) ==
          "--bind 127.0.0.1:8080");
    CHECK(hint(denied_endpoint("::1", 53, rules::Protocol::udp, Operation::bind)) == "--bind '[::1]:53/udp'");
    CHECK(hint(denied_endpoint("::", 8080, rules::Protocol::tcp, Operation::bind)) == "--bind 8080");
    CHECK(hint(denied_socket("/run/x y.sock")) == "--connect 'unix:/run/x y.sock'");
    CHECK(hint(denied_socket("@name", Operation::bind)) == "--bind @name");
    CHECK(hint(denied_socket("@face1")).empty());  // the kernel picked it
    // Another run has another private directory.
    CHECK(hint(denied_socket("@/tmp/callgate-" + std::to_string(::getuid()) + "-ab12cd/socket")).empty());
    CHECK(hint(denied_socket("@/tmp/socket")) == "--connect @/tmp/socket");
    CHECK(hint(denied_socket("@face1", Operation::bind)) == "--bind @face1");
    CHECK(hint(denied_socket("@facet")) == "--connect @facet");
    CHECK(hint(denied_socket("/run/log", Operation::connect, rules::UnixType::datagram)).empty());
    Decision renamed = denied("/old", nullptr, Operation::create);
    renamed.second_object = rules::FileObject{.path = "/new"};
    CHECK(hint(renamed) == "--write /new");
}

TEST_CASE("a hint for a rule is its exception, with pattern characters quoted") {
    rules::Rule rule = secrets();
    CHECK(hint(denied("/home/u/.ssh/config", &rule)) == "--except secrets=/home/u/.ssh/config");
    const std::string hinted = hint(denied("/home/u/.ssh/a[1]*{b}", &rule));
    CHECK(hinted == R"(--except 'secrets=/home/u/.ssh/a\[1\]\*\{b\}')");
    const auto glob = rules::Glob::compile(R"(/home/u/.ssh/a\[1\]\*\{b\})", rules::GlobKind::path);
    REQUIRE(glob.has_value());
    CHECK(glob->matches("/home/u/.ssh/a[1]*{b}"));
    CHECK(hint(denied("/home/${workdir}", &rule)).empty());
    rule.built_in = true;
    CHECK(hint(denied("/home/u/.ssh/config", &rule)).empty());
}

TEST_CASE("a hint never names more than what was denied, whatever bytes the name has") {
    const auto look_up = [](std::string_view name, const rules::Rule* rule = nullptr) {
        Decision decision = denied("", rule, Operation::connect);
        decision.object = rules::HostName{name};
        return decision;
    };
    rules::Rule rule = secrets();
    CHECK(hint(look_up("www.example.org")) == "--connect www.example.org");
    CHECK(hint(look_up("www.example.org", &rule)) == "--except secrets=www.example.org");
    for (const std::string_view name : {"*.org", "*.example.org", "a b", "a,b"}) {
        CHECK(hint(look_up(name)).empty());
        CHECK(hint(look_up(name, &rule)).empty());
    }
    // A shell cuts a word at a NUL: the rest of it is another socket's name.
    const std::string_view padded("@other\0x", 8);
    Decision decision = denied_socket(padded);
    CHECK(hint(decision).empty());
    decision.verdict.rule = &rule;
    CHECK(hint(decision).empty());
    CHECK(hint(denied_socket("@other*")) == "--connect '@other*'");
}

TEST_CASE("there is no hint where no option would help") {
    Decision decision = denied("/a");
    for (const DecidedBy by : {DecidedBy::failure, DecidedBy::person, DecidedBy::program}) {
        decision.verdict.decided_by = by;
        CHECK(hint(decision).empty());
    }
    decision = denied("/a");
    decision.object = rules::FileObject{.path = "/a", .unlinked = true};
    CHECK(hint(decision).empty());
}

TEST_CASE("with the rules, a hint names every option that is needed, and following it allows the call") {
    std::vector<rules::Rule> list;
    list.push_back(make_rule("home", Action::allow, Operation::read, "/home/u/**"));
    list.push_back(make_rule("ssh", Action::deny, Operation::read, "/home/u/.ssh/**"));
    list.push_back(make_rule("keys", Action::ask, Operation::read, "**/id"));
    list.push_back(make_rule("etc", Action::deny, rules::file_operations, "/etc/**"));
    list.push_back(make_rule("own", Action::deny, Operation::read, "/own/**"));
    list.back().built_in = true;
    const rules::RuleSet set(list, Action::deny);
    const auto hinted = [&set](std::string_view path, rules::OperationSet operations) {
        Decision decision = denied(path);
        decision.operations = operations;
        decision.verdict = set.evaluate({operations, rules::FileObject{.path = path}, {}, {}});
        REQUIRE(decision.verdict.action != Action::allow);
        decision.operation = decision.verdict.operation;
        return hint(decision, set);
    };
    CHECK(hinted("/home/u/.ssh/config", Operation::read) == "--except ssh=/home/u/.ssh/config");
    CHECK(hinted("/home/u/.ssh/id", Operation::read) ==
          "--except ssh=/home/u/.ssh/id --except keys=/home/u/.ssh/id");
    CHECK(hinted("/etc/shadow", Operation::read) == "--except etc=/etc/shadow --read /etc/shadow");
    CHECK(hinted("/srv/x", Operation::read) == "--read /srv/x");
    CHECK(hinted("/home/u/x", rules::OperationSet{Operation::read, Operation::modify}) ==
          "--write /home/u/x");
    CHECK(hinted("/own/x", Operation::read).empty());

    // The first hint, applied to the rules: the call is then allowed.
    list[1].except.emplace();
    list[1].except->path.push_back(
        rules::Glob::compile("/home/u/.ssh/config", rules::GlobKind::path).value());
    const rules::RuleSet changed(list, Action::deny);
    const auto after =
        changed.evaluate({Operation::read, rules::FileObject{.path = "/home/u/.ssh/config"}, {}, {}});
    CHECK(after.action == Action::allow);
}

TEST_CASE("the report is one JSON object as documented") {
    const rules::Rule rule = secrets();
    RunReport report;
    report.note(denied_endpoint("203.0.113.4", 443));
    report.note(denied_endpoint("203.0.113.4", 443));
    report.note(denied("/home/u/.ssh/id", &rule));
    rules::Rule quiet = make_rule("absent", Action::deny, Operation::read, "/home/u/.bashrc");
    quiet.quiet = true;
    report.note(denied("/home/u/.bashrc", &quiet));
    RunOutcome outcome = exited(1);
    outcome.duration_ms = 812;
    outcome.cpu_ms = 430;
    outcome.max_rss_kb = 51200;
    outcome.processes = 3;
    outcome.notifications = 1210;
    outcome.continued = 1000;
    outcome.bytes_written = 8192;
    const std::string text = report.json(facts, outcome, 52, "");
    CHECK(line_count(text) == 1);
    CHECK(text.back() == '\n');
    const json expected = json::parse(R"({
      "version":1,"run":"k3f9","outcome":"exited","exit_code":1,"signal":null,"duration_ms":812,"mode":"enforce",
      "command":["python3","main.py"],"workdir":"/w",
      "effective":{"landlock_abi":7,"listener":true,"degraded":[],"rules_sha256":"ab12"},
      "counts":{"allow":0,"deny":4,"ask":0,"kill":0,"would_deny":0,"would_ask":0,"would_kill":0},
      "denials":[
        {"operation":"connect","object":"203.0.113.4:443","rule":"default","reason":"","pid":9,"program":"/usr/bin/python3",
         "errno":"ECONNREFUSED","count":2,"hint":"--connect 203.0.113.4:443"},
        {"operation":"read","object":"/home/u/.ssh/id","rule":"secrets","reason":"credentials","pid":9,"program":"/usr/bin/python3",
         "errno":"EACCES","count":1,"hint":""}],
      "quiet_denials":1,"refused":[],"usage":{"cpu_ms":430,"max_rss_kb":51200,"bytes_written":8192,"processes":3,"notifications":1210,
        "notifications_by_tier":{"continued":1000,"answered":210}},
      "limits":{},"environment":{"held_back":["GITHUB_TOKEN"],"not_passed":["EDITOR_2"],"agents_own":["OPENAI_API_KEY"],"exposed":["HTTPS_PROXY"]},
      "audit":{"file":"/state/20261120T101112Z-k3f9.jsonl","records":52,"head":null},"error":null})");
    CHECK(json::parse(text) == expected);

    RunFacts unrecorded = facts;
    unrecorded.audited = false;
    outcome.error = "a\xff";
    outcome.outcome = Outcome::setup_error;
    const json other = json::parse(report.json(unrecorded, outcome, 0, "sha256:00"));
    CHECK(other["audit"].is_null());
    CHECK(other["error"] == "a\\xff");
    CHECK(other["effective"]["listener"] == false);
    CHECK(json::parse(report.json(facts, outcome, 1, "sha256:00"))["audit"]["head"] == "sha256:00");
}

TEST_CASE("many threads note and none is lost") {
    RunReport report;
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index) {
        threads.emplace_back([&report] {
            for (int count = 0; count < 2000; ++count) {
                const std::string path = "/p" + std::to_string(count % 5);
                report.note(denied(path));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(report.counts().deny == 8000);
    std::uint64_t total = 0;
    const json parsed = json::parse(report.json(facts, exited(0), 1, ""));
    for (const json& denial : parsed["denials"]) total += denial["count"].get<std::uint64_t>();
    CHECK(parsed["denials"].size() == 5);
    CHECK(total == 8000);
}
