#include "rules/match/near_miss.hpp"

#include <algorithm>

#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

FileObject file(std::string_view path) { return {path, false}; }

constexpr IpAddress loopback{{127, 0, 0, 1}, false};

}  // namespace

TEST_CASE("a rule nearly matches where one thing alone keeps it from deciding") {
    Rule excepted = except(rule("excepted", Action::deny, Operation::read, {"/a/**"}), {"/a/b"});
    Rule other_program = by(rule("by", Action::deny, Operation::read, {"/a/**"}), "/bin/cat");
    Rule both = except(by(rule("both", Action::deny, Operation::read, {"/a/**"}), "/bin/cat"), {"/a/b"});
    Rule elsewhere = rule("elsewhere", Action::deny, Operation::read, {"/b/**"});
    Rule matches = rule("matches", Action::allow, Operation::read, {"/a/**"});
    const RuleSet rules({excepted, other_program, both, elsewhere, matches}, Action::deny);
    const auto near = near_misses(rules, {Operation::read, file("/a/b"), "/bin/sh", {}}, Operation::read);
    REQUIRE(near.size() == 2);
    CHECK(near[0].rule->id == "excepted");
    CHECK(near[0].obstacle == Obstacle::exception);
    CHECK(near[1].rule->id == "by");
    CHECK(near[1].obstacle == Obstacle::program);
    CHECK(near_misses(rules, {Operation::modify, file("/a/b"), "/bin/sh", {}}, Operation::modify).empty());
}

TEST_CASE("a rule for one party decides about it alone") {
    Rule of_agent = rule("login", Action::allow, Operation::read, {"/a/**"});
    of_agent.when.party = Party::agent;
    const RuleSet rules({of_agent}, Action::deny);
    CHECK(rules.needs_party());
    Request request{Operation::read, file("/a/b"), "/bin/sh", {}, Party::agent};
    CHECK(rules.evaluate(request).action == Action::allow);
    request.party = Party::tools;
    CHECK(rules.evaluate(request).action == Action::deny);
    const auto near = near_misses(rules, request, Operation::read);
    REQUIRE(near.size() == 1);
    CHECK(near[0].obstacle == Obstacle::party);
    CHECK_FALSE(
        RuleSet({rule("all", Action::allow, Operation::read, {"/a/**"})}, Action::deny).needs_party());
}

TEST_CASE("a rule for servers of the run's own decides about them alone") {
    Rule servers = rule("servers", Action::allow, {Operation::connect, Operation::bind});
    servers.when.address = {{loopback, 8}};
    servers.when.run_server = true;
    const RuleSet rules({servers}, Action::deny);
    CHECK(rules.needs_run_servers());
    const auto action = [&](Operation operation, const Endpoint& endpoint) {
        return rules.evaluate({operation, endpoint, {}, {}}).action;
    };
    const Endpoint outside{loopback, 5000}, own{.address = loopback, .port = 5000, .of_run = true};
    CHECK(action(Operation::connect, own) == Action::allow);
    CHECK(action(Operation::bind, own) == Action::allow);
    CHECK(action(Operation::connect, outside) == Action::deny);
    CHECK(action(Operation::bind, outside) == Action::deny);
    // The kernel chooses a port that nobody has.
    CHECK(action(Operation::bind, {loopback, 0}) == Action::allow);
    CHECK(action(Operation::connect, {loopback, 0}) == Action::deny);
    CHECK(action(Operation::bind, {loopback, 0, Protocol::udp}) == Action::deny);
    CHECK(action(Operation::bind, {IpAddress{}, 0}) == Action::deny);
    const auto near = near_misses(rules, {Operation::connect, outside, {}, {}}, Operation::connect);
    REQUIRE(near.size() == 1);
    CHECK(near[0].obstacle == Obstacle::server);
}

TEST_CASE("no rule both matches and nearly matches") {
    Random random(7);
    std::size_t found = 0;
    for (int round = 0; round < 2000; ++round) {
        const RuleSet rules = random.rules();
        const std::string path = random.path();
        const Request request{Operation::read, file(path), "/bin/ls", {}};
        const auto matching = rules.matching(request, Operation::read);
        for (const NearMiss& one : near_misses(rules, request, Operation::read)) {
            CHECK(std::find(matching.begin(), matching.end(), one.rule) == matching.end());
            ++found;
        }
    }
    CHECK(found > 100);
}
