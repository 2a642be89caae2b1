#include "rules/plan/link_names.hpp"

#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

std::string reserving(const RuleSet& rules, std::string_view path) {
    const Rule* const rule = LinkNames(rules).reserving(path);
    return rule == nullptr ? "" : rule->id;
}

}  // namespace

TEST_SUITE("names for links") {
    TEST_CASE("no link may stand at what a rule names, nor at a directory above it") {
        const RuleSet rules({rule("out", Action::allow, read_write, {"/w/build/out/**"}),
                             rule("pattern", Action::allow, read_write, {"/w/data/*.txt"}),
                             rule("key", Action::deny, read_write, {"/h/.config/tool/key"}),
                             rule("asked", Action::ask, read_write, {"/h/mail/**"})},
                            Action::deny);
        CHECK(reserving(rules, "/w/build/out") == "out");
        CHECK(reserving(rules, "/w/build") == "out");
        CHECK(reserving(rules, "/w/data") == "pattern");
        CHECK(reserving(rules, "/h/.config/tool/key") == "key");
        CHECK(reserving(rules, "/h/.config") == "key");
        CHECK(reserving(rules, "/h/mail") == "asked");
        for (const char* const free :
             {"/w/build/out/x", "/w/build/out2", "/w/buil", "/w/data/x.txt", "/h/.config/too",
              "/h/.config/tool/key2", "/h/.config/other", "/h/mail/x"}) {
            CAPTURE(free);
            CHECK(reserving(rules, free).empty());
        }
    }

    TEST_CASE("a restriction that floats reserves nothing, an allowance that floats its root") {
        const RuleSet rules(
            {rule("work", Action::allow, read_write, {"/w/**"}),
             rule("tests", Action::allow, read_write, {"/t/sub/**/test"}),
             rule("secrets", Action::deny, read_write, {"/w/**/.env", "/w/deep/down/**/*.key"})},
            Action::deny);
        CHECK(reserving(rules, "/w") == "work");
        CHECK(reserving(rules, "/t/sub") == "tests");
        CHECK(reserving(rules, "/w/.env").empty());
        CHECK(reserving(rules, "/w/deep/down").empty());
        CHECK(reserving(rules, "/w/node_modules/left-pad").empty());
    }

    TEST_CASE("exceptions and unix sockets are names, too") {
        Rule work = rule("work", Action::allow, read_write, {"/w/**"});
        work.except.emplace().path = globs({"/w/private/inner/**"});
        Rule socket = rule("socket", Action::deny, network_operations, {});
        socket.when.unix_socket = globs({"/run/agent/S.*", "@abstract"});
        const RuleSet rules({work, socket}, Action::deny);
        CHECK(reserving(rules, "/w/private") == "work");
        CHECK(reserving(rules, "/run/agent") == "socket");
        CHECK(reserving(rules, "/abstract").empty());
    }

    TEST_CASE("the names beneath a directory are relative to it") {
        const RuleSet rules({rule("a", Action::allow, read_write, {"/w/a/**", "/w/a-b/**", "/w/a/x/y"})},
                            Action::deny);
        const LinkNames names(rules);
        const auto below = [&names](std::string_view directory) {
            std::vector<std::string> all;
            for (const LinkNames::Reserved& one : names.beneath(directory)) all.emplace_back(one.below);
            return all;
        };
        CHECK(below("/w") == std::vector<std::string>{"a", "a/x/y", "a-b"});
        CHECK(below("/w/a") == std::vector<std::string>{"x/y"});
        CHECK(below("/w/a/x/y").empty());
        CHECK(below("/") == std::vector<std::string>{"w/a", "w/a/x/y", "w/a-b"});
    }
}
