#include "rules/plan/binds_beneath.hpp"

#include <doctest/doctest.h>

#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate::rules;

namespace {

bool alike(const std::string& rules, const char* directory, const char* leaf = "sock",
           UnixType type = UnixType::stream) {
    const TestMachine machine;
    const LoadedRules loaded =
        machine.load_text(R"({"version": 1, "default": "deny", "rules": [)" + rules + "]}");
    REQUIRE_MESSAGE(loaded.rules != nullptr, findings(loaded));
    return binds_everywhere_beneath(*loaded.rules, directory, leaf, type);
}

const std::string all = R"({"id": "all", "allow": ["connect", "bind"], "unix": "/w/**"})";

}  // namespace

TEST_CASE("a hierarchy of sockets is bound alike where nothing restricts it") {
    CHECK(alike(all, "/w"));
    CHECK(alike(all, "/w/a/b"));
    CHECK_FALSE(alike(all, "/"));
    CHECK_FALSE(alike(all, "/other"));
    CHECK_FALSE(alike(all, "/w2"));
    CHECK_FALSE(alike(R"({"id": "one", "allow": "bind", "unix": "/w/sock"})", "/w"));
    CHECK_FALSE(alike(R"({"id": "names", "allow": "bind", "unix": "/w/*"})", "/w"));
    CHECK_FALSE(alike(R"({"id": "asked", "ask": "bind", "unix": "/w/**"})", "/w"));
    CHECK_FALSE(alike(R"({"id": "asker", "allow": "bind", "unix": "/w/**", "program": "/usr/bin/x"})", "/w"));
    CHECK_FALSE(alike(R"({"id": "connects", "allow": "connect", "unix": "/w/**"})", "/w"));
    CHECK_FALSE(
        alike(R"({"id": "part", "allow": "bind", "unix": "/w/**", "except": {"unix": "/w/x"}})", "/w"));
    CHECK_FALSE(alike(R"({"id": "dev", "allow": "bind", "unix": "/dev/**"})", "/dev/shm"));
}

TEST_CASE("types of sockets are told apart") {
    const std::string datagrams =
        R"({"id": "all", "allow": "bind", "unix": "/w/**", "protocol": "datagram"})";
    CHECK_FALSE(alike(all, "/w", "sock", UnixType::datagram));
    CHECK(alike(datagrams, "/w", "sock", UnixType::datagram));
    CHECK_FALSE(alike(datagrams, "/w"));
}

TEST_CASE("a rule that restricts beneath the directory counts, if it could decide about the name") {
    const auto beside = [](const char* rule, const char* directory = "/w/a", const char* leaf = "sock") {
        return alike(all + "," + rule, directory, leaf);
    };
    CHECK_FALSE(beside(R"({"id": "no", "deny": "bind", "unix": "/w/a/b/**"})"));
    CHECK_FALSE(beside(R"({"id": "no", "deny": "bind", "unix": "/w/**"})"));
    CHECK_FALSE(beside(R"({"id": "no", "deny": "bind"})"));
    CHECK_FALSE(beside(R"({"id": "no", "ask": "bind", "unix": "/w/*/b/sock"})"));
    CHECK_FALSE(beside(R"({"id": "no", "kill": "bind", "unix": "**/s*"})"));
    CHECK_FALSE(beside(R"({"id": "no", "deny": "create", "path": "**/sock"})"));
    CHECK_FALSE(beside(R"({"id": "no", "deny": "write", "path": "/w/a/**/hooks/**"})"));
    CHECK_FALSE(
        beside(R"({"id": "no", "deny": "write", "path": "/w/a/**", "except": {"path": "/w/a/b/**"}})"));
    CHECK_FALSE(beside(R"({"id": "no", "deny": "create", "path": "**/sock", "quiet": true})"));
    CHECK_FALSE(
        beside(R"({"id": "no", "deny": "bind", "unix": "/w/a/b", "program": "/usr/bin/x"})", "/w/a", "b"));
    CHECK(beside(R"({"id": "no", "deny": "bind", "unix": "/w/b/**"})"));
    CHECK(beside(R"({"id": "no", "deny": "bind", "unix": "**/other"})"));
    CHECK(beside(R"({"id": "no", "deny": "write", "path": "/w/a/**/*.pyc"})"));
    CHECK(beside(R"({"id": "no", "deny": ["read", "delete"], "path": "/w/a/**"})"));
    CHECK(beside(R"({"id": "no", "deny": "write", "path": "/w/**", "except": {"path": "/w/a/**"}})"));
    CHECK(beside(R"({"id": "no", "deny": "bind", "address": "10.0.0.1"})"));
}

TEST_CASE("the profile agent binds alike in the private directory, and around what it holds") {
    TestMachine machine;
    machine.tree.directory("/home/u/work/build");
    RuleSources sources;
    sources.parts.emplace_back(RuleSources::Profile{"agent"});
    const LoadedRules loaded = load(sources, machine.context(false));
    REQUIRE(loaded.rules != nullptr);
    const auto binds = [&](const std::string& directory, const char* leaf) {
        return binds_everywhere_beneath(*loaded.rules, directory, leaf, UnixType::stream);
    };
    CHECK(binds(machine.tmp, "sock"));
    CHECK(binds(machine.tmp + "/a/b", "sock"));
    CHECK(binds("/home/u/work/build", "sock"));
    CHECK_FALSE(binds("/home/u/work", "sock"));  // .git/hooks lies beneath it
    CHECK_FALSE(binds("/home/u", "sock"));
}
