#include "supervisor/container/oci_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

#include "supervisor/container/container_run.hpp"
#include "supervisor/container/process_state.hpp"

using namespace callgate;
using namespace callgate::container;

namespace {

enforce::FilterSpec filter(const std::string& rules) {
    const auto loaded = load_container_rules(R"({"version": 1, "default": "deny", "rules": [)" + rules +
                                                 R"({"id": "x", "allow": "execute", "path": "/**"}]})",
                                             "test", false, false);
    if (!loaded) FAIL(loaded.error().text);
    return filter_of(*loaded);
}

/// The profile's answer to a call: its action, and the errno of a refusal.
std::pair<std::string, int> action_of(const OciProfile& profile, const std::string& call) {
    const auto read = nlohmann::json::parse(profile.text);
    for (const auto& group : read.at("syscalls")) {
        const auto& names = group.at("names");
        if (std::find(names.begin(), names.end(), call) != names.end())
            return {group.at("action"), group.value("errnoRet", 0)};
    }
    return {read.at("defaultAction"), read.at("defaultErrnoRet")};
}

}  // namespace

TEST_SUITE("oci profile") {
    TEST_CASE("the profile notifies what the rules contest, and what the filter refuses by arguments") {
        const OciProfile made = oci_profile(filter(""), "web", "/run/agent");
        for (const char* const call :
             {"openat", "unlink", "connect", "bind", "socket", "clone", "ioctl", "execve"})
            CHECK_MESSAGE(action_of(made, call).first == "SCMP_ACT_NOTIFY", call);
        for (const char* const call : {"write", "read", "kill", "ptrace", "shmget", "futex"})
            CHECK_MESSAGE(action_of(made, call).first == "SCMP_ACT_ALLOW", call);
        CHECK(action_of(made, "clone3") == std::pair<std::string, int>{"SCMP_ACT_ERRNO", ENOSYS});
        CHECK(action_of(made, "no_call_yet") == std::pair<std::string, int>{"SCMP_ACT_ERRNO", ENOSYS});
    }

    TEST_CASE("what every rule allows is not notified, and renames are all the same") {
        const OciProfile made = oci_profile(
            filter(
                R"({"id": "all", "allow": ["read", "modify", "create", "delete", "metadata"], "path": "/**"},)"),
            "web", "/run/agent");
        CHECK(action_of(made, "openat").first == "SCMP_ACT_ALLOW");
        CHECK(action_of(made, "connect").first == "SCMP_ACT_NOTIFY");
        CHECK(action_of(made, "rename").first == "SCMP_ACT_NOTIFY");
    }

    TEST_CASE("the digest is of the calls and the rules' name, and not of the socket's place") {
        const OciProfile made = oci_profile(filter(""), "web", "/run/agent");
        CHECK(made.digest == oci_profile(filter(""), "web", "/elsewhere").digest);
        CHECK(made.digest != oci_profile(filter(""), "other", "/run/agent").digest);
        const std::string metadata = R"({"id": "m", "allow": "metadata", "path": "/**"},)";
        CHECK(made.digest != oci_profile(filter(metadata), "web", "/run/agent").digest);
        CHECK(nlohmann::json::parse(made.text).at("listenerMetadata") == made.digest);
    }

    TEST_CASE("a name of rules is plain") {
        for (const char* const good : {"web", "web-2.test", "A_b"}) CHECK(is_plain_name(good));
        for (const std::string bad : {"", ".", "..", ".web", "a/b", "../web", "a b", "web\n", "w\xc3\xa9"})
            CHECK_FALSE(is_plain_name(bad));
        CHECK_FALSE(is_plain_name(std::string(101, 'a')));
    }
}
