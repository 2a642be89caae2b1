// Rules for endpoints and unix sockets.
#include "tests/unit/rules/rule_maker.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::tests;

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

/// An endpoint that look-ups of these names gave. `names` must outlive it.
Request named(const std::vector<std::string>& names, const char* to, std::uint16_t port) {
    Endpoint end{address(to), port};
    end.names = names;
    return {Operation::connect, end, "", {}};
}

/// A look-up. `name` must outlive it.
Request look_up(std::string_view name, std::string_view program = "") {
    return {Operation::connect, HostName{name}, program, {}};
}

TEST_CASE("a host matches by the names of the address") {
    Rule packages = rule("packages", Action::allow, Operation::connect);
    packages.when.host.push_back({"packages.example", false});
    packages.when.port = {{443, 443}};
    Rule below = rule("below", Action::allow, Operation::connect);
    below.when.host.push_back({"*.files.example", true});
    const RuleSet rules = make({packages, below});
    const std::vector<std::string> none, own{"packages.example"}, two{"x.test", "packages.example"},
        sub{"a.b.files.example"}, apex{"files.example"}, like{"evilfiles.example"};
    CHECK(verdict(rules, named(own, "192.0.2.7", 443)) == "allow packages");
    CHECK(verdict(rules, named(two, "2001:db8::7", 443)) == "allow packages");
    CHECK(verdict(rules, named(own, "192.0.2.7", 80)) == "deny default");
    CHECK(verdict(rules, named(none, "192.0.2.7", 443)) == "deny default");
    CHECK(verdict(rules, named(sub, "192.0.2.7", 1)) == "allow below");
    CHECK(verdict(rules, named(apex, "192.0.2.7", 1)) == "deny default");
    CHECK(verdict(rules, named(like, "192.0.2.7", 1)) == "deny default");
}

TEST_CASE("host and address together narrow each other") {
    Rule both = rule("both", Action::allow, Operation::connect);
    both.when.host.push_back({"a.example", false});
    both.when.address = {block("192.0.2.0/24")};
    const RuleSet rules = make({both});
    const std::vector<std::string> own{"a.example"}, other{"b.example"};
    CHECK(verdict(rules, named(own, "192.0.2.1", 1)) == "allow both");
    CHECK(verdict(rules, named(own, "10.0.0.1", 1)) == "deny default");
    CHECK(verdict(rules, named(other, "192.0.2.1", 1)) == "deny default");
}

TEST_CASE("a look-up is allowed where some connect to the name may be, and denied only where none is") {
    Rule port = rule("port", Action::allow, Operation::connect);
    port.when.host.push_back({"a.example", false});
    port.when.port = {{443, 443}};
    Rule block_only = rule("block", Action::allow, Operation::connect);
    block_only.when.address = {block("192.0.2.0/24")};
    Rule both = rule("both", Action::allow, Operation::connect);
    both.when.host.push_back({"*.corp.example", true});
    both.when.address = {block("10.0.0.0/8")};
    Rule ssh = rule("ssh", Action::deny, Operation::connect);
    ssh.when.port = {{22, 22}};
    Rule bad = rule("bad", Action::deny, Operation::connect);
    bad.when.host.push_back({"bad.corp.example", false});
    const RuleSet rules = make({port, block_only, both, ssh, bad});
    CHECK(verdict(rules, look_up("a.example")) == "allow port");
    CHECK(verdict(rules, look_up("git.corp.example")) == "allow both");
    CHECK(verdict(rules, look_up("bad.corp.example")) == "deny bad");
    CHECK(verdict(rules, look_up("b.example")) == "deny default");
    CHECK(verdict(make({ssh}, Action::ask), look_up("b.example")) == "ask default");
    Rule any = rule("any", Action::allow, Operation::connect);
    any.except.emplace().host.push_back({"x.example", false});
    CHECK(verdict(make({any}), look_up("y.example")) == "allow any");
    CHECK(verdict(make({any}), look_up("x.example")) == "deny default");
    any.except->port = {{22, 22}};
    CHECK(verdict(make({any}), look_up("x.example")) == "allow any");
    Rule tool = port;
    tool.when.program = {glob("/usr/bin/tool")};
    CHECK(verdict(make({tool}), look_up("a.example", "/usr/bin/tool")) == "allow port");
    CHECK(verdict(make({tool}), look_up("a.example", "/usr/bin/other")) == "deny default");
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

TEST_CASE("${own} covers the addresses of the start, and those that are this machine's by now") {
    Rule own = rule("own", Action::deny, Operation::connect);
    own.when.address = {{*parse_address("198.51.100.1"), 32}};
    own.when.own_address = true;
    Rule all = rule("all", Action::allow, Operation::connect);
    all.except = own.when;
    for (const Rule& one : {own, all}) {
        const RuleSet rules = make({one}, one.action == Action::deny ? Action::allow : Action::deny);
        CHECK(rules.needs_own_address());
        Request request = endpoint("203.0.113.77", 80);
        CHECK(rules.evaluate(request).action == Action::allow);
        std::get<Endpoint>(request.object).own = true;
        CHECK(rules.evaluate(request).action == Action::deny);
        CHECK(rules.evaluate(endpoint("198.51.100.1", 80)).action == Action::deny);
    }
}
