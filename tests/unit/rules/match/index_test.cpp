// The evaluator's work does not grow with the number of rules, and it allocates nothing.
#include <doctest/doctest.h>

#include "rules/match/endpoint_index.hpp"
#include "rules/match/head_index.hpp"
#include "rules/match/rule_set.hpp"
#include "tests/unit/rules/allocations.hpp"

using namespace callgate;
using namespace callgate::rules;
using callgate::tests::allocations;

namespace {

Glob glob(std::string_view pattern, GlobKind kind = GlobKind::path) {
    const auto made = Glob::compile(pattern, kind);
    REQUIRE_MESSAGE(made.has_value(), made.error().text);
    return *made;
}

/// The number of branches that are offered for a path if `count` directories each have their own rule.
int offered(std::uint32_t count, std::string_view path) {
    std::vector<Glob> globs;
    for (std::uint32_t rule = 0; rule < count; ++rule) {
        globs.push_back(glob("/data/project" + std::to_string(rule) + (rule % 2 == 0 ? "/**" : "/*.txt")));
    }
    HeadIndex index;
    for (std::uint32_t rule = 0; rule < count; ++rule) index.add(rule, globs[rule]);
    index.freeze();
    int seen = 0;
    const auto worth = [&seen](std::uint32_t) {
        ++seen;
        return true;
    };
    index.search(path, worth, [](std::uint32_t) {});
    return seen;
}

}  // namespace

TEST_CASE("a path is offered only the rules that share a head with it") {
    CHECK(offered(10, "/data/project3/a.txt") == 1);
    CHECK(offered(1000, "/data/project3/a.txt") == 1);
    CHECK(offered(1000, "/data/other") == 0);
    CHECK(offered(1000, "/") == 0);
}

TEST_CASE("an endpoint is offered only the rules of its blocks and ports") {
    EndpointIndex index;
    for (std::uint32_t rule = 0; rule < 1000; ++rule) {
        Conditions when;
        IpAddress address;
        address.bytes = {10, static_cast<std::uint8_t>(rule / 250), static_cast<std::uint8_t>(rule % 250), 1};
        if (rule % 2 == 0) when.address.push_back({address, 32});
        when.port.push_back(
            {static_cast<std::uint16_t>(1000 + rule), static_cast<std::uint16_t>(1000 + rule)});
        index.add(rule, when);
    }
    std::vector<std::uint32_t> seen;
    Endpoint endpoint;
    endpoint.address.bytes = {10, 0, 8, 1};
    endpoint.port = 1011;
    index.search(endpoint, [&seen](std::uint32_t rule) { seen.push_back(rule); });
    CHECK(seen == std::vector<std::uint32_t>{11, 8});
}

TEST_CASE("evaluation allocates nothing") {
    std::vector<Rule> all(5);
    for (Rule& rule : all) rule.operations = OperationSet::from_bits(0xff);
    all[0].when.path = {glob("/w/**/*a*b*.{env,pem}"), glob("**/git")};
    all[1].when.unix_socket = {glob("@*x*", GlobKind::text)};
    all[2].when.address = {{IpAddress{}, 0}};
    all[3].when.program = {glob("/**/p*")};
    all[4].when.path = {glob("/w/**")};
    all[4].when.argv.emplace(2, glob("**", GlobKind::text));
    all[4].except.emplace().path = {glob("/w/*/?/**")};
    const RuleSet rules(std::move(all), Action::ask);
    rules.prepare();
    const std::string path = "/w" + std::string(4000, 'a') + "/b/c.pem";
    const std::vector<std::string> arguments(3, "an argument that does not fit into a small string");
    const std::size_t before = allocations();
    int denied = 0;
    for (const std::string_view name :
         {std::string_view(path), std::string_view("/w/x/y"), std::string_view("/")}) {
        const Request request{
            {Operation::read, Operation::execute}, FileObject{name, false}, "/usr/p", arguments};
        denied += rules.evaluate(request).action == Action::deny ? 1 : 0;
        denied += rules.evaluate({Operation::connect, UnixObject{name, UnixType::stream}, "", {}}).error != 0
                      ? 1
                      : 0;
    }
    denied +=
        rules.evaluate({Operation::connect, UnixObject{"@axb", UnixType::stream}, "", {}}).error != 0 ? 1 : 0;
    denied += rules.evaluate({Operation::bind, Endpoint{}, "", {}}).error != 0 ? 1 : 0;
    CHECK(allocations() == before);
    CHECK(denied == 8);
}

TEST_CASE("the counter of allocations counts") {
    const std::size_t before = allocations();
    const auto* made = new std::string(100, 'x');
    CHECK(allocations() > before);
    delete made;
}
