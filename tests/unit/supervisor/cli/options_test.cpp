#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/cli/verbs.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace {

using namespace callgate;
using cli::Arguments;
using Words = std::vector<std::string>;

std::optional<std::string> no_environment(const std::string&) { return std::nullopt; }

Arguments parse(const char* verb, Words words, cli::Environment environment = no_environment) {
    return cli::parse(*cli::find_verb(verb), std::move(words), environment);
}

Places places() {
    Places all;
    all.home = "/home/u";
    all.state = "/state";
    all.runtime = "/run/user/1000/callgate";
    return all;
}

/// The message of the Failure that `action` throws; "" if it throws none.
template <class Action>
std::string failure(Action action) {
    try {
        action();
    } catch (const cli::Failure& failed) {
        return failed.what();
    }
    return "";
}

std::string parse_failure(const char* verb, Words words) {
    return failure([&] { (void)parse(verb, words); });
}

Request read_options(const Arguments& arguments) {
    Request request;
    request.mode = cli::read_mode(arguments);
    cli::LinkedPaths linked;
    cli::read_run_options(arguments, places(), request, linked);
    return request;
}

std::string run_failure(Words words) {
    words.insert(words.end(), {"--", "true"});
    return failure([&] { (void)read_options(parse("run", words)); });
}

Request run_options(Words words) {
    words.insert(words.end(), {"--", "true"});
    return read_options(parse("run", words));
}

rules::LoadContext fake_context() {
    rules::LoadContext context;
    context.home = "/home/u";
    context.config = "/home/u/.config/callgate";
    return context;
}

std::vector<rules::Rule> option_rules(Words words) {
    words.insert(words.end(), {"--", "true"});
    cli::RuleChoice choice;
    cli::add_option_rules(choice, parse("run", words), fake_context());
    return choice.sources.option_rules;
}

std::string rule_failure(Words words) {
    return failure([&] { (void)option_rules(words); });
}

}  // namespace

TEST_CASE("options after the command belong to the command, with and without two dashes") {
    const Arguments bare = parse("run", {"-q", "--timeout", "5", "ls", "-la", "--quiet", "--", "-x"});
    CHECK(bare.rest() == Words{"ls", "-la", "--quiet", "--", "-x"});
    CHECK(bare.value("timeout") == "5");
    CHECK(bare.has("quiet"));
    CHECK(parse("run", {"-q", "--", "--weird", "-v"}).rest() == Words{"--weird", "-v"});
    CHECK_FALSE(parse("run", {"ls", "-q"}).has("quiet"));
    CHECK(parse("run", {"--", "--"}).rest() == Words{"--"});
    CHECK(parse("run", {"-"}).rest() == Words{"-"});
}

TEST_CASE("values are taken as they are: joined, separate, with brackets, commas and leading dashes") {
    const Arguments arguments =
        parse("run", {"-c[::1]:80", "-c", "[::1]", "--connect=a,b", "--read=-x", "--nice", "-5", "true"});
    CHECK(arguments.values("connect") == Words{"[::1]:80", "[::1]", "a,b"});
    CHECK(arguments.values("read") == Words{"-x"});
    CHECK(arguments.value("nice") == "-5");
    CHECK(parse("run", {"--timeout", "1", "--timeout", "2", "true"}).value("timeout") == "2");
    CHECK(parse("run", {"-qv", "true"}).has("verbose"));
}

TEST_CASE("a misspelt option is named with the nearest one, and nothing else is guessed") {
    CHECK(parse_failure("run", {"--tiemout", "5", "ls"}) ==
          "unknown option --tiemout; did you mean --timeout?");
    CHECK(parse_failure("run", {"--conect=x", "ls"}) == "unknown option --conect; did you mean --connect?");
    CHECK(parse_failure("run", {"-z", "ls"}) == "unknown option -z; see callgate run --help");
    CHECK(parse_failure("explain", {"read", "x", "--jsn"}) == "unknown option --jsn; did you mean --json?");
}

TEST_CASE("a missing or empty value is an error, never the next word") {
    CHECK(parse_failure("run", {"--timeout"}) == "option --timeout needs a value: --timeout DURATION");
    CHECK(parse_failure("run", {"-r"}) == "option -r needs a value: --read PATH");
    CHECK(parse_failure("run", {"--workdir=", "ls"}) == "option --workdir has an empty value; expected DIR");
    CHECK(parse_failure("run", {"ls", "--workdir="}).empty());
}

TEST_CASE("options that this version cannot honour are errors that say so") {
    CHECK(run_failure({"--ask", "fd:999"}).find("not open") != std::string::npos);
    CHECK(run_failure({"--ask", "fd:0"}).find("expected") != std::string::npos);
    CHECK(run_failure({"--ask", "sockets"}).find("did you mean socket?") != std::string::npos);
    CHECK(run_failure({"--ask", "socket"}).empty());
    CHECK(run_failure({"--mode", "audits"}).find("expected enforce or audit") != std::string::npos);
    CHECK(run_failure({"--ask", "never"}).empty());
    CHECK(run_failure({"--mode", "enforce"}).empty());
}

TEST_CASE("every option has a variable, which an option on the command line beats") {
    const auto environment = [](const std::string& name) -> std::optional<std::string> {
        if (name == "CALLGATE_READ") return "/a b\n/c";
        if (name == "CALLGATE_TIMEOUT") return "9";
        if (name == "CALLGATE_QUIET") return "1";
        if (name == "CALLGATE_VERBOSE") return "0";
        if (name == "CALLGATE_NO_USER_RULES") return "yes";
        return std::nullopt;
    };
    const Arguments arguments = parse("run", {"--timeout", "3", "true"}, environment);
    CHECK(arguments.values("read") == Words{"/a b", "/c"});
    CHECK(arguments.value("timeout") == "3");
    CHECK(arguments.origin("timeout") == "--timeout");
    CHECK(arguments.origin("read") == "CALLGATE_READ");
    CHECK(arguments.has("quiet"));
    CHECK_FALSE(arguments.has("verbose"));
    CHECK(arguments.has("no-user-rules"));
}

TEST_CASE("a wrong value names the variable that it came from") {
    const auto environment = [](const std::string& name) -> std::optional<std::string> {
        return name == "CALLGATE_TIMEOUT" ? std::optional<std::string>("soon") : std::nullopt;
    };
    const Arguments arguments = parse("run", {"true"}, environment);
    CHECK(failure([&] {
              (void)read_options(arguments);
          }).starts_with("CALLGATE_TIMEOUT soon: expected a duration"));
}

TEST_CASE("verbs refuse a wrong number of arguments and show their usage") {
    CHECK(parse_failure("revoke", {"k3f9ab"}) == "an argument is missing; usage: callgate revoke RUN GRANT");
    CHECK(parse_failure("plan", {"x"}) == "too many arguments; usage: callgate plan [OPTIONS]");
    CHECK(parse_failure("check", {}) == "an argument is missing; usage: callgate check FILE...");
    CHECK(parse("explain", {"read", "--", "-x"}).rest() == Words{"read", "-x"});
}

TEST_CASE("wrong values of limits, descriptors and words say what is expected") {
    CHECK(run_failure({"--timeout", "5x"}) ==
          "--timeout 5x: expected a duration above 0 such as 90, 1500ms, 30s, 2m or 1h");
    CHECK(run_failure({"--timeout", "0"}).starts_with("--timeout 0: expected"));
    CHECK(run_failure({"--file-size", "12Q"}) ==
          "--file-size 12Q: expected a size above 0 such as 100M or 2G (K, M, G, T; alone: bytes)");
    for (const char* count : {"open-files", "processes"})
        for (const char* value : {"-1", "0", "x", "4K", "18446744073709551616"})
            CHECK(run_failure({std::string("--") + count, value})
                      .starts_with(std::string("--") + count + " " + value + ": expected a whole number"));
    for (const char* size : {"memory", "disk", "file-size"})
        for (const char* value : {"-1", "0", "1Q", "18446744073709551616", "16777216T"})
            CHECK(run_failure({std::string("--") + size, value})
                      .starts_with(std::string("--") + size + " " + value + ": expected a size above 0"));
    CHECK(run_failure({"--memory", "4000T"}).starts_with("--memory 4000T: expected at most the "));
    for (const char* time : {"cpu", "idle-timeout"})
        CHECK(run_failure({std::string("--") + time, "0"})
                  .starts_with(std::string("--") + time + " 0: expected a duration"));
    CHECK(run_failure({"--pass-fd", "999"}) == "--pass-fd 999: this descriptor is not open");
    CHECK(run_failure({"--status", "file"}) == "--status file: expected fd:N");
    CHECK(run_failure({"--report", "fd:999"}) == "--report fd:999: this descriptor is not open");
    CHECK(run_failure({"--background", "wiat"}) ==
          "--background wiat: expected end or wait; did you mean wait?");
    CHECK(run_failure({"--ionice", "idle:9"}).starts_with("--ionice idle:9: expected"));
    CHECK(run_failure({"--nice", "x"}).starts_with("--nice x: expected"));
    CHECK(run_failure({"--audit", "x", "--no-audit"}) ==
          "--audit and --no-audit exclude each other; give one of them");
}

TEST_CASE("options of a run reach its configuration") {
    const int extra = ::dup(2);
    REQUIRE(extra > 2);
    const std::string number = std::to_string(extra);
    const Request config = run_options({"--timeout",
                                        "1500ms",
                                        "--grace",
                                        "1",
                                        "--open-files",
                                        "64",
                                        "--file-size",
                                        "2K",
                                        "--pass-fd",
                                        number,
                                        "--pass-fd",
                                        "1",
                                        "--background",
                                        "wait",
                                        "--nice",
                                        "3",
                                        "--ionice",
                                        "best-effort:2",
                                        "--audit",
                                        "log",
                                        "--report",
                                        "fd:" + number,
                                        "--status",
                                        "fd:" + number,
                                        "-qv",
                                        "--no-hints",
                                        "--json",
                                        "--die-with-parent",
                                        "--keep-capabilities"});
    CHECK(config.limits.wall == std::chrono::milliseconds(1500));
    CHECK(config.grace == std::chrono::seconds(1));
    CHECK(config.limits.open_files == 64);
    CHECK(config.limits.file_size == 2048);
    CHECK(config.pass == std::vector<int>{extra});
    CHECK(config.background == agent::Background::wait);
    CHECK(config.nice == 3);
    CHECK(config.io_priority == ((2 << 13) | 2));
    CHECK(config.audit.kind == AuditTarget::Kind::file);
    CHECK(config.audit.path == (std::filesystem::current_path() / "log").string());
    CHECK(config.report.descriptor == extra);
    CHECK(config.status.descriptor == extra);
    CHECK(config.quiet);
    CHECK(config.verbose);
    CHECK_FALSE(config.hints);
    CHECK(config.json);
    CHECK(config.die_with_parent);
    CHECK(config.keep_capabilities == all_capabilities);
    ::close(extra);
    const Request plain = run_options({});
    CHECK(plain.audit.kind == AuditTarget::Kind::directory);
    CHECK(plain.audit.path == "/state");
    CHECK(run_options({"--no-audit"}).audit.kind == AuditTarget::Kind::none);
}

TEST_CASE("path options allow a file, or everything beneath a directory") {
    const tests::TemporaryDirectory directory;
    std::ofstream(directory.path + "/file*") << "x";
    std::filesystem::create_directory(directory.path + "/dir");
    std::filesystem::create_symlink("dir", directory.path + "/link");
    const auto rules = option_rules(
        {"-r", directory.path + "/file*", "-w", directory.path + "/link", "-x", directory.path + "/absent"});
    REQUIRE(rules.size() == 3);
    CHECK(rules[0].when.path[0].matches(directory.path + "/file*"));
    CHECK_FALSE(rules[0].when.path[0].matches(directory.path + "/file2"));
    CHECK_FALSE(rules[0].when.path[0].matches(directory.path + "/file*/x"));
    CHECK(rules[0].operations == rules::OperationSet{rules::Operation::read});
    CHECK(rules[1].when.path[0].matches(directory.path + "/dir/x"));
    CHECK(rules[1].operations == (rules::write_operations | rules::OperationSet{rules::Operation::read}));
    CHECK(rules[2].when.path[0].matches(directory.path + "/absent/x"));
    CHECK(rules[2].operations == rules::OperationSet{rules::Operation::read, rules::Operation::execute});
    CHECK(rules[0].id == "option-read#1");
    CHECK(rules[0].action == rules::Action::allow);
}

TEST_CASE("a path option can name a pattern of names in one directory, which is no pattern itself") {
    const tests::TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path + "/di[r]");
    std::filesystem::create_symlink("di[r]", directory.path + "/link");
    const auto rules = option_rules({"-w", "glob:" + directory.path + "/link/x.tmp.*", "-d", "glob:/a*/b*"});
    CHECK(rules[0].when.path[0].matches(directory.path + "/di[r]/x.tmp.17"));
    CHECK_FALSE(rules[0].when.path[0].matches(directory.path + "/dir/x.tmp.17"));
    CHECK_FALSE(rules[0].when.path[0].matches(directory.path + "/di[r]/x.tmp.17/beneath"));
    CHECK(rules[1].when.path[0].matches("/a*/bc"));
    CHECK_FALSE(rules[1].when.path[0].matches("/ac/bc"));
    const auto sockets = option_rules(
        {"--bind", "unix:glob:" + directory.path + "/link/x.*", "-c", "unix:" + directory.path + "/*"});
    CHECK(sockets[1].when.unix_socket[0].matches(directory.path + "/di[r]/x.17"));
    CHECK_FALSE(sockets[1].when.unix_socket[0].matches(directory.path + "/di[r]/y.17"));
    CHECK_FALSE(sockets[0].when.unix_socket[0].matches(directory.path + "/x"));
    CHECK(option_rules({"-r", "glob:~/.x*"})[0].when.path[0].matches("/home/u/.xy"));
    CHECK_FALSE(option_rules({"-r", "glob:~/*"})[0].when.path[0].matches("/home/u"));
    for (const char* wrong : {"glob:/a/", "glob:", "glob:/a/**", "glob:/a/["}) {
        CAPTURE(wrong);
        CHECK(failure([&] {
                  (void)option_rules({"-r", wrong});
              }).find("expected glob:DIRECTORY/PATTERN") != std::string::npos);
    }
}

TEST_CASE("deny closes reading, writing, executing and the unix sockets beneath") {
    const auto rules = option_rules({"-d", "/nowhere/secret"});
    REQUIRE(rules.size() == 2);
    CHECK(rules[0].action == rules::Action::deny);
    CHECK(rules[0].operations == rules::file_operations);
    CHECK(rules[1].operations == rules::network_operations);
    CHECK(rules[1].when.unix_socket[0].matches("/nowhere/secret/socket"));
}

TEST_CASE("connect takes names, addresses, blocks, protocols and unix sockets") {
    const auto rules = option_rules({"-c", "server:443", "-c", "10.0.0.0/8", "-c", "[::1]:53/udp", "-c",
                                     "unix:/run/x.sock", "-c", "@name"});
    REQUIRE(rules.size() == 5);
    CHECK(rules[0].when.host[0].text == "server");
    CHECK(rules[0].when.port == std::vector<rules::PortRange>{{443, 443}});
    CHECK_FALSE(rules[0].when.protocol.stated());
    CHECK(rules[1].when.address[0].prefix == 8);
    CHECK(rules[1].when.port.empty());
    CHECK(rules[2].when.address[0].address.v6);
    CHECK(rules[2].when.protocol.udp);
    CHECK(rules[3].when.unix_socket[0].matches("/run/x.sock"));
    CHECK(rules[4].when.unix_socket[0].matches("@name"));
}

TEST_CASE("connect and bind say what is wrong with an end") {
    CHECK(option_rules({"-c", "*.example.org"})[0].when.host[0].suffix);
    CHECK(rule_failure({"-c", "127.0.0.1:99999"}).find("expected HOST[:PORT][/udp]") != std::string::npos);
    for (const char* every : {"*", "*:443", "*/udp"})
        CHECK(rule_failure({"-c", every}).find("allowed by -p network") != std::string::npos);
    CHECK(rule_failure({"--bind", "abc"}).starts_with("--bind abc: "));
    const auto rules =
        option_rules({"--bind", "8000-8999", "--bind", "53/udp", "--bind", "unix:/run/x.sock"});
    CHECK(rules[0].when.port[0] == rules::PortRange{8000, 8999});
    CHECK(rules[1].when.protocol.udp);
    CHECK(rules[2].operations == rules::OperationSet{rules::Operation::bind});
    CHECK(rules[2].when.unix_socket[0].matches("/run/x.sock"));
}

TEST_CASE("rule sources: agent is the default profile, and only rule sets of one's own replace it") {
    const auto choice = [](Words words) {
        words.emplace_back("true");
        return cli::read_rule_options(parse("run", words), fake_context());
    };
    const std::string shipped(rules::shipped_profiles()[0].name);
    CHECK(choice({"--rules-json", "{}"}).profiles.empty());
    CHECK(choice({"-p", shipped}).profiles == Words{shipped});
    CHECK(choice({"-p", shipped, "--default", "ask"}).sources.fallback == rules::Action::ask);
    CHECK(choice({"-p", shipped, "--except", "a=b=c"}).sources.exceptions ==
          std::vector<std::pair<std::string, std::string>>{{"a", "b=c"}});
    CHECK(failure([&] {
              (void)choice({"-p", "no-such-profile-at-all"});
          }).starts_with("unknown profile no-such-profile-at-all"));
    CHECK(failure([&] { (void)choice({"-p", "../" + shipped}); }).starts_with("unknown profile"));
    CHECK(failure([&] { (void)choice({"-R", "/no/file"}); }).starts_with("--rules /no/file: No such file"));
    CHECK(failure([&] { (void)choice({"-R", "/tmp"}); }).starts_with("--rules /tmp: not a regular file"));
    CHECK(failure([&] { (void)choice({"-p", shipped, "--default", "kill"}); }).starts_with("--default kill"));
    CHECK(failure([&] {
              (void)choice({"-p", shipped, "--except", "a"});
          }).starts_with("--except a: expected"));
}

TEST_CASE("home, the root and what lies above home are work directories only by name") {
    const tests::TemporaryDirectory directory;
    std::filesystem::create_directories(directory.path + "/home/project");
    const Places places{.home = directory.path + "/home",
                        .config = "",
                        .state = "",
                        .runtime = "",
                        .homes = "",
                        .binary = ""};
    CHECK(cli::is_wide("/", places));
    CHECK(cli::is_wide(directory.path + "/home", places));
    CHECK(cli::is_wide(directory.path, places));
    CHECK_FALSE(cli::is_wide(directory.path + "/home/project", places));
    CHECK_FALSE(cli::is_wide(directory.path + "/ho", places));
    const Arguments named = parse("run", {"--workdir", directory.path + "/home", "true"});
    CHECK(cli::choose_workdir(named, places, true) == directory.path + "/home");
    const Arguments absent = parse("run", {"--workdir", directory.path + "/none", "true"});
    CHECK(failure([&] { (void)cli::choose_workdir(absent, places, true); }).find("No such file") !=
          std::string::npos);
}

TEST_CASE("the command gets an allow-list of variables, what the rules pass and set, and what options add") {
    const Words current = {"PATH=/bin",    "LC_ALL=C",   "AWS_SECRET_ACCESS_KEY=s", "MINE=1",
                           "FROM_RULES=2", "PREFIX_A=3", "TMPDIR=/elsewhere",       "PWD=/old"};
    cli::EnvironmentChoice choice{
        .current = current,
        .rules = {.pass = {"FROM_RULES", "PREFIX_*"}, .agent = {}, .set = {{"CACHE", "${tmp}/c:${no}"}}},
        .keep = false,
        .home = "",
        .options = {"NEW=a=b", "ABSENT"},
        .directory = "/work",
        .run = "k3f9ab",
        .temporary_directory = "/tmp/run",
        .denials = "/tmp/run.denials",
        .variables = {{"tmp", "/tmp/run"}}};
    CHECK(cli::make_environment(choice) == Words{"PATH=/bin", "LC_ALL=C", "FROM_RULES=2", "PREFIX_A=3",
                                                 "PWD=/work", "TMPDIR=/tmp/run", "CALLGATE=1",
                                                 "CALLGATE_RUN=k3f9ab", "CALLGATE_DENIALS=/tmp/run.denials",
                                                 "CACHE=/tmp/run/c:${no}", "NEW=a=b"});
    CHECK(cli::not_set(choice, cli::make_environment(choice)) == Words{"ABSENT"});
    choice.options = {"AWS_SECRET_ACCESS_KEY", "CACHE=mine"};
    choice.keep = true;
    const Words kept = cli::make_environment(choice);
    const auto has = [&kept](const char* one) {
        return std::find(kept.begin(), kept.end(), one) != kept.end();
    };
    CHECK(has("MINE=1"));
    CHECK(has("AWS_SECRET_ACCESS_KEY=s"));
    CHECK(has("CACHE=mine"));
}

TEST_CASE("a private home is the run's own directory, also for what looks beneath it by XDG names") {
    const Words current = {"HOME=/home/u", "XDG_RUNTIME_DIR=/run/user/1"};
    cli::EnvironmentChoice choice;
    choice.current = current;
    choice.home = choice.temporary_directory = "/tmp/run";
    choice.options = {"XDG_DATA_HOME=/mine"};
    for (const std::string& one : cli::make_environment(choice)) {
        CAPTURE(one);
        CHECK((one == "XDG_DATA_HOME=/mine" || one == "PWD=" || one.starts_with("CALLGATE") ||
               one.find("=/tmp/run") != std::string::npos));
    }
    CHECK(cli::make_environment(choice).front() == "HOME=/tmp/run");
}

TEST_CASE("credentials and the desktop's sockets are held back by --keep-env") {
    for (const char* name : {"GITHUB_TOKEN", "api_key", "PGPASSWORD", "SSH_AUTH_SOCK", "DISPLAY",
                             "DBUS_SESSION_BUS_ADDRESS", "COOKIE_FILE", "DOCKER_HOST", "CALLGATE_RULES"}) {
        CAPTURE(name);
        CHECK(cli::holds_credential(name, "x"));
    }
    CHECK(cli::holds_credential("DATABASE", "postgres://me:secret@host/db"));
    CHECK_FALSE(cli::holds_credential("PROXY", "http://host:8080/a@b:c"));
    CHECK_FALSE(cli::holds_credential("GOPATH", "/home/u/go"));
}

TEST_CASE("proxies, certificates and the settings of package managers are passed") {
    const Words current = {"HTTPS_PROXY=http://u:p@h:3128",
                           "no_proxy=localhost",
                           "NODE_EXTRA_CA_CERTS=/etc/ca.pem",
                           "PIP_KEYRING_PROVIDER=disabled",
                           "PIP_EXTRA_INDEX_URL=https://a/simple https://u:p@b/simple",
                           "GIT_SSL_KEY=/k",
                           "CARGO_HTTP_CAINFO=/c",
                           "GOPROXY=https://g",
                           "CALLGATE_QUIET=1"};
    cli::EnvironmentChoice choice;
    choice.current = current;
    Words made = cli::make_environment(choice);
    CHECK(made.size() == 11);  // and TMPDIR, PWD
    CHECK(cli::held_back(choice) == Words{"PIP_EXTRA_INDEX_URL"});
    CHECK(cli::not_passed(choice, made, cli::held_back(choice)) == Words{"GOPROXY"});
    CHECK(cli::proxies_with_password(made) == Words{"HTTPS_PROXY"});
    made = {"ALL_PROXY=u:p@h:1", "http_proxy=h:1", "FTP_PROXY=http://h/a@b:c", "OTHER=u:p@h"};
    CHECK(cli::proxies_with_password(made) == Words{"ALL_PROXY"});
}

TEST_CASE("one line says which variables the command does not get") {
    const Words none, one = {"A_TOKEN"}, many = {"A", "B", "C", "D", "E"}, other = {"X", "Y"};
    CHECK(cli::withheld_line(none, none, true).empty());
    CHECK(cli::withheld_line(one, none, false) ==
          "not passed to the command: A_TOKEN (looks like a credential); --env NAME passes one");
    CHECK(cli::withheld_line(many, other, false) ==
          "not passed to the command: A, B, C, D and 1 more (look like credentials), and 2 other variables; "
          "--env NAME passes one, -v lists all");
    CHECK(cli::withheld_line(none, other, false).empty());
    CHECK(cli::withheld_line(none, other, true) == "not passed to the command: X, Y; --env NAME passes one");
    CHECK(
        cli::withheld_line(many, other, true) ==
        "not passed to the command: A, B, C, D, E (look like credentials), and X, Y; --env NAME passes one");
}

TEST_CASE("a command is looked for as execvpe does") {
    const Words environment = {"PATH=/a::/b"};
    CHECK(cli::executable_candidates("ls", environment) == Words{"/a/ls", "./ls", "/b/ls"});
    CHECK(cli::executable_candidates("./ls", environment) == Words{"./ls"});
    CHECK(cli::executable_candidates("ls", Words{}) == Words{"/bin/ls", "/usr/bin/ls"});
}

TEST_CASE("what keeps a run from working is named with what to do") {
    using Listener = cli::Platform::Listener;
    cli::Platform platform;
    platform.kernel = "6.1.0";
    platform.listener = Listener::available;
    platform.landlock_abi = 2;
    CHECK_FALSE(cli::obstacle(platform));
    platform.ptrace_scope = 2;
    CHECK(cli::obstacle(platform).value_or("").find("ptrace_scope is 2") != std::string::npos);
    platform.capabilities = 1ULL << 19;
    CHECK_FALSE(cli::obstacle(platform));
    platform.ptrace_scope = 3;
    CHECK(cli::obstacle(platform).value_or("").find("ptrace_scope is 3") != std::string::npos);
    platform.ptrace_scope = 1;
    platform.landlock_abi = 0;
    CHECK(cli::obstacle(platform).value_or("").find("Landlock") != std::string::npos);
    platform.listener = Listener::nested;
    CHECK(cli::obstacle(platform).value_or("").find("within callgate") != std::string::npos);
    platform.listener = Listener::not_killable;
    CHECK(cli::obstacle(platform).value_or("").find("5.19") != std::string::npos);
}

TEST_CASE("features follow the Landlock ABI, so that --require can name them") {
    cli::Platform platform;
    platform.listener = cli::Platform::Listener::available;
    platform.landlock_abi = 3;
    const auto all = cli::features(platform, {});
    const auto present = [&all](std::string_view name) {
        const auto found =
            std::find_if(all.begin(), all.end(), [name](const auto& one) { return one.name == name; });
        REQUIRE(found != all.end());
        return found->present;
    };
    CHECK(present("listener"));
    CHECK(present("landlock-truncate"));
    CHECK_FALSE(present("landlock-net"));
    CHECK_FALSE(present("sync-wake-up"));
}

TEST_CASE("every verb has a help text of at most 80 columns that names its options and shows an example") {
    for (const cli::VerbSpec& verb : cli::verbs()) {
        const std::string text = cli::help(verb);
        CAPTURE(verb.name);
        CHECK(text.find("Examples:\n  callgate " + std::string(verb.name)) != std::string::npos);
        for (const cli::OptionSpec* option : cli::options(verb))
            CHECK(text.find("--" + std::string(option->name)) != std::string::npos);
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            CAPTURE(line);
            CHECK(line.size() <= 80);
        }
    }
    std::istringstream lines(cli::help());
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("no verb has two options of one name or letter") {
    for (const cli::VerbSpec& verb : cli::verbs()) {
        std::vector<std::string> names;
        for (const cli::OptionSpec* option : cli::options(verb)) {
            names.emplace_back(option->name);
            if (option->letter != 0) names.emplace_back(1, option->letter);
        }
        std::sort(names.begin(), names.end());
        CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    }
}

TEST_CASE("verbs of later versions and misspelt ones end with 125") {
    CHECK(cli::dispatch({"exec", "--sever"}) == 125);
    CHECK(cli::dispatch({"exec", "--serve", "--audit", "file"}) == 125);
    CHECK(cli::dispatch({"exec", "--ask", "tty"}) == 125);
    CHECK(cli::dispatch({"exec", "--jobs", "0"}) == 125);
    CHECK(cli::dispatch({"exec", "--max-output", "1T"}) == 125);
    CHECK(cli::dispatch({"audit", "exprot"}) == 125);
    CHECK(cli::dispatch({"rnu", "ls"}) == 125);
    CHECK(cli::dispatch({}) == 125);
    CHECK(cli::dispatch({"run"}) == 125);
    CHECK(cli::dispatch({"--version"}) == 0);
}
