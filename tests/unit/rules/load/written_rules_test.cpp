// Rules written out again: the loader reads the same rules from the text.
#include "rules/load/written_rules.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "rules/load/shipped.hpp"
#include "rules/model/address.hpp"
#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

std::vector<std::string> words(const Conditions& one) {
    std::vector<std::string> all;
    for (const auto* globs : {&one.path, &one.unix_socket, &one.program})
        for (const Glob& glob : *globs) all.push_back(glob.text());
    if (one.argv)
        for (const Glob& glob : *one.argv) all.push_back("argv " + glob.text());
    for (const HostPattern& host : one.host) all.push_back(host.text);
    for (const Cidr& block : one.address) all.push_back(text(block));
    for (const PortRange& ports : one.port) all.push_back(text(ports));
    if (one.run_server) all.emplace_back("server");
    if (one.own_address) all.emplace_back("own");
    const Protocols& protocol = one.protocol;
    for (const bool stated : {protocol.tcp, protocol.udp, protocol.stream, protocol.datagram})
        all.emplace_back(stated ? "1" : "0");
    return all;
}

LoadedRules read_again(const std::string& text) {
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Text{text, "written"});
    LoadContext context;
    context.landlock_unix = true;
    return load(sources, context);
}

}  // namespace

TEST_CASE("a shipped profile that knows no parties is the same once written and read") {
    TestMachine machine;
    machine.landlock_unix = true;
    for (const ShippedProfile& profile : shipped_profiles()) {
        RuleSources sources;
        sources.parts.emplace_back(RuleSources::Profile{std::string(profile.name)});
        const LoadedRules loaded = load(sources, machine.context());
        REQUIRE(loaded.rules != nullptr);
        const auto written = written_rules(*loaded.rules);
        CHECK_MESSAGE(written.has_value() == !loaded.rules->needs_party(), profile.name);
        if (!written) continue;
        const LoadedRules again = read_again(*written);
        REQUIRE_MESSAGE(again.ok(), findings(again));
        CHECK(again.rules->fallback() == loaded.rules->fallback());
        for (const auto part : {&RuleSet::rules, &RuleSet::quiet_rules}) {
            const auto before = (*loaded.rules.*part)(), after = (*again.rules.*part)();
            REQUIRE_MESSAGE(before.size() == after.size(), profile.name);
            for (std::size_t index = 0; index < before.size(); ++index) {
                const Rule &one = before[index], &other = after[index];
                CHECK(one.action == other.action);
                CHECK(one.operations == other.operations);
                CHECK(one.error == other.error);
                CHECK(one.filtered == other.filtered);
                CHECK(one.tls_pass == other.tls_pass);
                CHECK(one.needs_landlock_unix == other.needs_landlock_unix);
                CHECK(one.except.has_value() == other.except.has_value());
                // The names of new files stand there twice, and so do loopback addresses beside "${own}".
                if (one.filters_changes() || one.when.own_address) continue;
                CHECK(words(one.when) == words(other.when));
                if (one.except && !one.except->own_address) CHECK(words(*one.except) == words(*other.except));
            }
        }
    }
}

TEST_CASE("rules about names that JSON cannot hold are not written") {
    Rule rule;
    rule.id = "odd";
    rule.operations = Operation::read;
    rule.when.path.push_back(Glob::literal("/home/\xff"));
    CHECK(!written_rules(RuleSet({rule}, Action::allow)).has_value());
}

TEST_CASE("a narrowed rule set gives the stricter verdict of both") {
    const auto about = [](Action action, const char* path, bool filtered = false) {
        Rule rule;
        rule.id = "one";
        rule.action = action;
        rule.operations = Operation::read;
        rule.filtered = filtered;
        rule.when.path.push_back(Glob::literal(path));
        return rule;
    };
    const auto on = [](const RuleSet& rules, const char* path) {
        return rules.evaluate({Operation::read, FileObject{path}, {}, {}, Party::tools});
    };
    const RuleSet outer(
        {about(Action::deny, "/no"), about(Action::ask, "/ask"), about(Action::deny, "/copy", true)},
        Action::allow);
    RuleSet inner({about(Action::deny, "/inner"), about(Action::allow, "/no"), about(Action::deny, "/copy")},
                  Action::allow);
    inner.narrow(outer);
    CHECK(on(inner, "/no").action == Action::deny);
    CHECK_FALSE(on(inner, "/no").nested);
    CHECK(on(inner, "/ask").action == Action::ask);
    CHECK(on(inner, "/inner").action == Action::deny);
    CHECK(on(inner, "/inner").nested);
    CHECK(on(inner, "/free").action == Action::allow);
    CHECK_FALSE(on(inner, "/copy").rule->filtered);
    CHECK(inner.may_ask());
    RuleSet third({about(Action::allow, "/inner")}, Action::deny);
    third.narrow(inner);
    CHECK(on(third, "/inner").action == Action::deny);
    CHECK(on(third, "/free").action == Action::deny);
}
