#include "rules/rule_set.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include "rules/address.hpp"

using namespace callgate::rules;

namespace {

Glob glob(std::string_view pattern, GlobKind kind = GlobKind::path) {
    std::string error;
    const auto compiled = Glob::compile(pattern, kind, error);
    REQUIRE_MESSAGE(compiled.has_value(), pattern << ": " << error);
    return *compiled;
}

IpAddress address(std::string_view text) {
    std::string error;
    const auto parsed = parse_address(text, error);
    REQUIRE_MESSAGE(parsed.has_value(), error);
    return *parsed;
}

Cidr block(std::string_view text) {
    std::string error;
    const auto parsed = parse_cidr(text, error);
    REQUIRE_MESSAGE(parsed.has_value(), error);
    return *parsed;
}

Rule rule(std::string id, Action action, OperationSet operations) {
    Rule made;
    made.id = std::move(id);
    made.action = action;
    made.operations = operations;
    return made;
}

Rule path_rule(std::string id, Action action, OperationSet operations, std::string_view pattern) {
    Rule made = rule(std::move(id), action, operations);
    made.when.path.push_back(glob(pattern));
    return made;
}

Request file(OperationSet operations, std::string_view path, std::string_view program = "") {
    return {operations, FileObject{path, false}, program, {}};
}

Request endpoint(std::string_view to, std::uint16_t port, Protocol protocol = Protocol::tcp,
                 Operation operation = Operation::connect) {
    return {operation, Endpoint{address(to), port, protocol}, "", {}};
}

Request socket(std::string_view name, UnixType type = UnixType::stream,
               Operation operation = Operation::connect) {
    return {operation, UnixObject{name, type}, "", {}};
}

/// "deny secrets", "allow default".
std::string verdict(const RuleSet& rules, const Request& request) {
    const Verdict found = rules.evaluate(request);
    CHECK((found.decided_by == DecidedBy::rule) == (found.rule != nullptr));
    return std::string(name(found.action)) + " " + std::string(found.rule_name());
}

RuleSet make(std::vector<Rule> rules, Action fallback = Action::deny) { return {std::move(rules), fallback}; }

}  // namespace

TEST_CASE("the words of actions and deciders are those of the log") {
    CHECK(name(Action::allow) == "allow");
    CHECK(name(Action::ask) == "ask");
    CHECK(name(Action::deny) == "deny");
    CHECK(name(Action::kill) == "kill");
    CHECK(name(DecidedBy::rule) == "rule");
    CHECK(name(DecidedBy::fallback) == "default");
    CHECK(name(DecidedBy::grant) == "grant");
    CHECK(name(DecidedBy::person) == "person");
    CHECK(name(DecidedBy::program) == "program");
    CHECK(name(DecidedBy::timeout) == "timeout");
    CHECK(name(DecidedBy::failure) == "failure");
}

TEST_CASE("a verdict names its rule and its reason") {
    Rule secrets = path_rule("secrets", Action::deny, Operation::read, "/s/**");
    secrets.reason = "credentials";
    const RuleSet rules = make({secrets});
    CHECK(rules.evaluate(file(Operation::read, "/s/x")).reason() == "credentials");
    CHECK(rules.evaluate(file(Operation::read, "/x")).rule_name() == "default");
    CHECK(rules.evaluate(file(Operation::read, "/x")).reason().empty());
}

TEST_CASE("the stricter action wins whatever the order of rules") {
    const std::vector<Action> actions = {Action::allow, Action::ask, Action::deny, Action::kill};
    for (const Action one : actions) {
        for (const Action other : actions) {
            const RuleSet rules = make({path_rule("one", one, Operation::read, "/a/**"),
                                        path_rule("other", other, Operation::read, "/a/b")},
                                       Action::allow);
            CHECK(rules.evaluate(file(Operation::read, "/a/b")).action == std::max(one, other));
            CHECK(verdict(rules, file(Operation::read, "/a/c")) == std::string(name(one)) + " one");
        }
    }
}

TEST_CASE("an allow beats the default, also a strict one") {
    const RuleSet rules = make({path_rule("work", Action::allow, Operation::read, "/w/**")});
    CHECK(verdict(rules, file(Operation::read, "/w/x")) == "allow work");
    CHECK(verdict(rules, file(Operation::read, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::modify, "/w/x")) == "deny default");
}

TEST_CASE("of several rules of the winning action the first in file order names the verdict") {
    const RuleSet rules = make({path_rule("allowed", Action::allow, Operation::read, "/a/b/c"),
                                path_rule("first", Action::deny, Operation::read, "/a/**"),
                                path_rule("second", Action::deny, Operation::read, "/a/b/c"),
                                rule("third", Action::deny, Operation::read)});
    CHECK(verdict(rules, file(Operation::read, "/a/b/c")) == "deny first");
    CHECK(verdict(rules, file(Operation::read, "/b")) == "deny third");
}

TEST_CASE("the strictest operation of a request decides") {
    const RuleSet rules = make({path_rule("reading", Action::allow, Operation::read, "/w/**"),
                                path_rule("writing", Action::ask, write_operations, "/w/**"),
                                path_rule("no-delete", Action::deny, Operation::remove, "/w/**")},
                               Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/w/x")) == "allow reading");
    const Verdict both = rules.evaluate(file({Operation::read, Operation::modify}, "/w/x"));
    CHECK(both.action == Action::ask);
    CHECK(both.operation == Operation::modify);
    const Verdict rename = rules.evaluate(file({Operation::create, Operation::remove}, "/w/x"));
    CHECK(rename.rule_name() == "no-delete");
    CHECK(rename.operation == Operation::remove);
}

TEST_CASE("an operation without a rule falls back although another one is allowed") {
    const RuleSet rules = make({path_rule("reading", Action::allow, Operation::read, "/w/**")});
    const Verdict both = rules.evaluate(file({Operation::read, Operation::modify}, "/w/x"));
    CHECK(both.action == Action::deny);
    CHECK(both.decided_by == DecidedBy::fallback);
    CHECK(both.operation == Operation::modify);
}

TEST_CASE("a rule names the verdict before a default of the same action") {
    const RuleSet rules = make({path_rule("writing", Action::deny, Operation::modify, "/w/**")});
    CHECK(verdict(rules, file({Operation::read, Operation::modify}, "/w/x")) == "deny writing");
}

TEST_CASE("of operations that are decided alike the first is named") {
    const RuleSet rules = make({path_rule("all", Action::deny, file_operations, "/w/**")});
    const OperationSet both{Operation::modify, Operation::execute};
    CHECK(rules.evaluate(file(both, "/w/x")).operation == Operation::modify);
    CHECK(rules.evaluate(file(both, "/x")).operation == Operation::modify);
    CHECK(rules.evaluate(file(both, "/x")).error == EACCES);
}

TEST_CASE("a file rule without a path covers every file and no socket") {
    const RuleSet rules = make({rule("all", Action::deny, file_operations)}, Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/")) == "deny all");
    CHECK(verdict(rules, file(Operation::execute, "/bin/sh")) == "deny all");
    CHECK(verdict(rules, socket("/run/x")) == "allow default");
    CHECK(verdict(rules, endpoint("127.0.0.1", 80)) == "allow default");
}

TEST_CASE("an exception takes its objects out of the rule") {
    Rule secrets = path_rule("secrets", Action::deny, Operation::read, "/h/.ssh/**");
    secrets.except.emplace();
    secrets.except->path.push_back(glob("/h/.ssh/known_hosts"));
    secrets.except->path.push_back(glob("/h/.ssh/*.pub"));
    const RuleSet rules = make({secrets}, Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/id")) == "deny secrets");
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/known_hosts")) == "allow default");
    CHECK(verdict(rules, file(Operation::read, "/h/.ssh/id.pub")) == "allow default");
}

TEST_CASE("all conditions of an exception must hold") {
    Rule metadata = rule("private", Action::deny, Operation::connect);
    metadata.when.address = {block("10.0.0.0/8")};
    metadata.except.emplace();
    metadata.except->address = {block("10.0.0.53")};
    metadata.except->port = {{53, 53}};
    metadata.except->protocol.udp = true;
    const RuleSet rules = make({metadata}, Action::allow);
    CHECK(verdict(rules, endpoint("10.0.0.53", 53, Protocol::udp)) == "allow default");
    CHECK(verdict(rules, endpoint("10.0.0.53", 53)) == "deny private");
    CHECK(verdict(rules, endpoint("10.0.0.53", 54, Protocol::udp)) == "deny private");
    CHECK(verdict(rules, endpoint("10.0.0.54", 53, Protocol::udp)) == "deny private");
}

TEST_CASE("a program condition looks at who asks") {
    Rule git = path_rule("git", Action::allow, Operation::read, "/h/.git-credentials");
    git.when.program.push_back(glob("**/git"));
    const RuleSet rules = make({git});
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials", "/usr/bin/git")) == "allow git");
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials", "/usr/bin/cat")) == "deny default");
    CHECK(verdict(rules, file(Operation::read, "/h/.git-credentials")) == "deny default");
    CHECK(rules.needs_program());
    CHECK_FALSE(make({path_rule("x", Action::allow, Operation::read, "/**")}).needs_program());
    Rule excepted = path_rule("x", Action::deny, Operation::read, "/**");
    excepted.except.emplace().program.push_back(glob("/bin/ls"));
    CHECK(make({excepted}).needs_program());
}

TEST_CASE("arguments are matched element by element") {
    const auto matches = [](std::vector<std::string_view> patterns, std::vector<std::string> arguments) {
        Rule push = path_rule("push", Action::ask, Operation::execute, "**/git");
        push.when.argv.emplace();
        for (const std::string_view pattern : patterns)
            push.when.argv->push_back(glob(pattern, GlobKind::text));
        const RuleSet rules = make({push}, Action::allow);
        const Request request{Operation::execute, FileObject{"/usr/bin/git", false}, "", arguments};
        return rules.evaluate(request).action == Action::ask;
    };
    CHECK(matches({"*", "push", "**"}, {"git", "push"}));
    CHECK(matches({"*", "push", "**"}, {"git", "push", "origin", "main"}));
    CHECK_FALSE(matches({"*", "push", "**"}, {"git", "pull"}));
    CHECK_FALSE(matches({"*", "push", "**"}, {"git"}));
    CHECK_FALSE(matches({"*", "push"}, {"git", "push", "origin"}));
    CHECK(matches({"*", "**", "--force"}, {"git", "push", "--force"}));
    CHECK(matches({"*", "**", "-c", "*", "**"}, {"git", "-c", "-c", "x", "y"}));
    CHECK_FALSE(matches({"*", "**", "--force"}, {"git", "--force", "x"}));
    CHECK(matches({"**"}, {}));
    CHECK(matches({}, {}));
    CHECK_FALSE(matches({}, {"git"}));
    CHECK(matches({"*", "a/*"}, {"git", "a/b/c"}));
}

TEST_CASE("a default of ask denies execution") {
    const RuleSet rules =
        make({path_rule("git", Action::ask, Operation::execute, "/usr/bin/git")}, Action::ask);
    CHECK(verdict(rules, file(Operation::read, "/x")) == "ask default");
    CHECK(verdict(rules, file(Operation::execute, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::execute, "/usr/bin/git")) == "ask git");
    CHECK(rules.evaluate(file(Operation::execute, "/x")).decided_by == DecidedBy::fallback);
}

TEST_CASE("an object without a name is allowed by the default only") {
    const std::vector<Rule> all = {rule("everything", Action::allow, file_operations),
                                   path_rule("asked", Action::ask, Operation::read, "/asked/**"),
                                   path_rule("denied", Action::deny, Operation::read, "/denied/**"),
                                   path_rule("killed", Action::kill, Operation::read, "/killed/**")};
    const auto nameless = [&](Action fallback, std::string_view path) {
        return verdict(make(all, fallback), {Operation::read, FileObject{path, true}, "", {}});
    };
    for (const Action fallback : {Action::deny, Action::ask}) {
        CHECK(nameless(fallback, "/x") == "deny default");
        CHECK(nameless(fallback, "/asked/x") == "deny default");
    }
    CHECK(nameless(Action::allow, "/x") == "allow default");
    CHECK(nameless(Action::allow, "/asked/x") == "ask asked");
    for (const Action fallback : {Action::deny, Action::ask, Action::allow}) {
        CHECK(nameless(fallback, "/denied/x") == "deny denied");
        CHECK(nameless(fallback, "/killed/x") == "kill killed");
    }
}

TEST_CASE("a denial carries the rule's errno, else that of its operation") {
    Rule hidden = path_rule("hidden", Action::deny, Operation::read, "/hidden");
    hidden.error = ENOENT;
    const RuleSet rules = make({hidden, path_rule("asked", Action::ask, Operation::execute, "/bin/git")});
    CHECK(rules.evaluate(file(Operation::read, "/hidden")).error == ENOENT);
    CHECK(rules.evaluate(file(Operation::read, "/x")).error == EACCES);
    CHECK(rules.evaluate(file(Operation::execute, "/x")).error == EPERM);
    CHECK(rules.evaluate(file(Operation::execute, "/bin/git")).error == EPERM);
    CHECK(rules.evaluate(endpoint("127.0.0.1", 1)).error == ECONNREFUSED);
    CHECK(rules.evaluate(endpoint("127.0.0.1", 1, Protocol::tcp, Operation::bind)).error == EACCES);
    CHECK(make({}, Action::ask).evaluate(file(Operation::read, "/x")).error == EACCES);
    CHECK(make({}, Action::allow).evaluate(file(Operation::read, "/x")).error == 0);
}

TEST_CASE("a request that makes no sense is denied, whatever the default") {
    const RuleSet rules = make({rule("all", Action::allow, OperationSet::from_bits(0xff))}, Action::allow);
    CHECK(verdict(rules, file({}, "/x")) == "deny default");
    CHECK(verdict(rules, file(Operation::connect, "/x")) == "deny default");
    CHECK(verdict(rules, endpoint("127.0.0.1", 1, Protocol::tcp, Operation::read)) == "deny default");
    CHECK(rules.evaluate(file({}, "/x")).error != 0);
}

TEST_CASE("a connect rule without conditions covers endpoints and unix sockets") {
    const RuleSet rules = make({rule("all", Action::allow, Operation::connect)});
    CHECK(verdict(rules, endpoint("192.0.2.1", 443)) == "allow all");
    CHECK(verdict(rules, endpoint("::1", 443)) == "allow all");
    CHECK(verdict(rules, socket("/run/x")) == "allow all");
    CHECK(verdict(rules, socket("@x")) == "allow all");
    CHECK(verdict(rules, endpoint("192.0.2.1", 443, Protocol::tcp, Operation::bind)) == "deny default");
}

TEST_CASE("without a protocol an allow or ask leaves datagrams out, a deny or kill does not") {
    for (const Action action : {Action::allow, Action::ask, Action::deny, Action::kill}) {
        const Action fallback =
            action == Action::allow || action == Action::ask ? Action::deny : Action::allow;
        const RuleSet rules = make({rule("it", action, network_operations)}, fallback);
        const bool narrow = fallback == Action::deny;
        CHECK(rules.evaluate(endpoint("::1", 1)).action == action);
        CHECK(rules.evaluate(socket("/s")).action == action);
        CHECK(rules.evaluate(socket("/s", UnixType::seqpacket)).action == action);
        CHECK(rules.evaluate(endpoint("::1", 1, Protocol::udp)).action == (narrow ? fallback : action));
        CHECK(rules.evaluate(socket("/s", UnixType::datagram)).action == (narrow ? fallback : action));
    }
}

TEST_CASE("a stated protocol is the only one") {
    Rule udp = rule("udp", Action::allow, Operation::connect);
    udp.when.protocol.udp = true;
    Rule datagram = rule("datagram", Action::allow, Operation::connect);
    datagram.when.protocol.datagram = true;
    const RuleSet rules = make({udp, datagram});
    CHECK(verdict(rules, endpoint("::1", 53, Protocol::udp)) == "allow udp");
    CHECK(verdict(rules, endpoint("::1", 53)) == "deny default");
    CHECK(verdict(rules, socket("/dev/log", UnixType::datagram)) == "allow datagram");
    CHECK(verdict(rules, socket("/dev/log")) == "deny default");
    Rule stream = rule("stream", Action::deny, Operation::connect);
    stream.when.protocol.stream = true;
    const RuleSet denied = make({stream}, Action::allow);
    CHECK(verdict(denied, socket("/s", UnixType::seqpacket)) == "deny stream");
    CHECK(verdict(denied, socket("/s", UnixType::datagram)) == "allow default");
    CHECK(verdict(denied, endpoint("::1", 1)) == "allow default");
}

TEST_CASE("datagram sockets are opened by an allow or ask rule that names them, by nothing else") {
    Rule udp = rule("udp", Action::ask, Operation::connect);
    udp.when.protocol.udp = true;
    CHECK(make({udp}).opens_udp());
    CHECK_FALSE(make({udp}).opens_unix_datagram());
    udp.action = Action::deny;
    CHECK_FALSE(make({udp}).opens_udp());
    CHECK_FALSE(make({rule("all", Action::allow, Operation::connect)}, Action::allow).opens_udp());
    Rule datagram = rule("log", Action::allow, Operation::connect);
    datagram.when.protocol.datagram = true;
    CHECK(make({datagram}).opens_unix_datagram());
}

TEST_CASE("addresses and ports must both hold") {
    Rule local = rule("local", Action::allow, Operation::connect);
    local.when.address = {block("127.0.0.0/8"), block("::1")};
    local.when.port = {{80, 80}, {8000, 8999}};
    const RuleSet rules = make({local});
    CHECK(verdict(rules, endpoint("127.0.0.1", 80)) == "allow local");
    CHECK(verdict(rules, endpoint("127.9.9.9", 8999)) == "allow local");
    CHECK(verdict(rules, endpoint("::1", 8000)) == "allow local");
    CHECK(verdict(rules, endpoint("::ffff:127.0.0.1", 80)) == "allow local");
    CHECK(verdict(rules, endpoint("127.0.0.1", 81)) == "deny default");
    CHECK(verdict(rules, endpoint("128.0.0.1", 80)) == "deny default");
    CHECK(verdict(rules, endpoint("::2", 80)) == "deny default");
}

TEST_CASE("a host matches by the addresses that were found for it") {
    Rule packages = rule("packages", Action::allow, Operation::connect);
    packages.when.host.push_back({"packages.example", false, {address("192.0.2.7"), address("2001:db8::7")}});
    packages.when.port = {{443, 443}};
    Rule unresolved = rule("unresolved", Action::allow, Operation::connect);
    unresolved.when.host.push_back({"*.example", true, {}});
    const RuleSet rules = make({packages, unresolved});
    CHECK(verdict(rules, endpoint("192.0.2.7", 443)) == "allow packages");
    CHECK(verdict(rules, endpoint("2001:db8::7", 443)) == "allow packages");
    CHECK(verdict(rules, endpoint("192.0.2.7", 80)) == "deny default");
    CHECK(verdict(rules, endpoint("192.0.2.8", 443)) == "deny default");
}

TEST_CASE("host and address together narrow each other") {
    Rule both = rule("both", Action::allow, Operation::connect);
    both.when.host.push_back({"a.example", false, {address("10.0.0.1"), address("192.0.2.1")}});
    both.when.address = {block("192.0.2.0/24")};
    const RuleSet rules = make({both});
    CHECK(verdict(rules, endpoint("192.0.2.1", 1)) == "allow both");
    CHECK(verdict(rules, endpoint("10.0.0.1", 1)) == "deny default");
    CHECK(verdict(rules, endpoint("192.0.2.2", 1)) == "deny default");
}

TEST_CASE("port, address and host rules never match unix sockets, nor unix rules endpoints") {
    Rule port = rule("port", Action::deny, Operation::connect);
    port.when.port = {{0, 65535}};
    Rule any_address = rule("address", Action::deny, Operation::connect);
    any_address.when.address = {block("0.0.0.0/0"), block("::/0")};
    Rule sockets = rule("sockets", Action::deny, Operation::connect);
    sockets.when.unix_socket = {glob("/**"), glob("@*", GlobKind::text)};
    CHECK(verdict(make({port, any_address}, Action::allow), socket("/run/x")) == "allow default");
    CHECK(verdict(make({sockets}, Action::allow), endpoint("::1", 1)) == "allow default");
    CHECK(verdict(make({sockets}, Action::allow), socket("/run/x")) == "deny sockets");
    CHECK(verdict(make({sockets}, Action::allow), socket("@x")) == "deny sockets");
}

TEST_CASE("unix sockets are matched by path or by abstract name") {
    Rule docker = rule("docker", Action::deny, Operation::connect);
    docker.when.unix_socket = {glob("{/var,}/run/docker.sock"), Glob::beneath("/run/user")};
    Rule display = rule("display", Action::deny, network_operations);
    display.when.unix_socket = {glob("@/tmp/.X11-unix/*", GlobKind::text), glob("@exact", GlobKind::text)};
    const RuleSet rules = make({docker, display}, Action::allow);
    CHECK(verdict(rules, socket("/run/docker.sock")) == "deny docker");
    CHECK(verdict(rules, socket("/run/user/0/bus")) == "deny docker");
    CHECK(verdict(rules, socket("/run/docker.sock2")) == "allow default");
    CHECK(verdict(rules, socket("@/tmp/.X11-unix/X0")) == "deny display");
    CHECK(verdict(rules, socket("/tmp/.X11-unix/X0")) == "allow default");
    CHECK(verdict(rules, socket("@exact", UnixType::stream, Operation::bind)) == "deny display");
    CHECK(verdict(rules, socket("@exactly")) == "allow default");
    CHECK(verdict(rules, socket("@run/docker.sock")) == "allow default");
}

TEST_CASE("a rule with both path and unix speaks of files and of sockets") {
    Rule denied = rule("denied", Action::deny, OperationSet::from_bits(0xff));
    denied.when.path.push_back(Glob::beneath("/d"));
    denied.when.unix_socket.push_back(Glob::beneath("/d"));
    const RuleSet rules = make({denied}, Action::allow);
    CHECK(verdict(rules, file(Operation::read, "/d/x")) == "deny denied");
    CHECK(verdict(rules, socket("/d/s")) == "deny denied");
    CHECK(verdict(rules, socket("/e/s")) == "allow default");
    CHECK(verdict(rules, endpoint("::1", 1)) == "allow default");
}

TEST_CASE("every matching rule can be listed, in file order, for one operation") {
    const RuleSet rules = make({path_rule("b", Action::allow, Operation::read, "/a/**"),
                                path_rule("a", Action::deny, file_operations, "/a/b"),
                                path_rule("c", Action::kill, Operation::modify, "/a/b")});
    const auto listed = [&](Operation operation) {
        std::string ids;
        for (const Rule* found : rules.matching(file(file_operations, "/a/b"), operation)) ids += found->id;
        return ids;
    };
    CHECK(listed(Operation::read) == "ba");
    CHECK(listed(Operation::modify) == "ac");
    CHECK(listed(Operation::execute) == "a");
    CHECK(listed(Operation::connect).empty());
}

TEST_CASE("a rule set keeps its rules when it is moved") {
    RuleSet first = make({path_rule("a", Action::deny, Operation::read, "/a")}, Action::allow);
    const Verdict before = first.evaluate(file(Operation::read, "/a"));
    const RuleSet second = std::move(first);
    CHECK(second.evaluate(file(Operation::read, "/a")).rule == before.rule);
    CHECK(second.rules().size() == 1);
    CHECK(second.fallback() == Action::allow);
}
