#include "supervisor/container/oci_profile.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <vector>

#include "base/json_writer.hpp"
#include "base/sha256.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::container {

namespace {

using Kind = enforce::Disposition::Kind;

/// The profile's answer to a call, whatever its arguments.
enforce::Disposition whole(const std::vector<const enforce::FilterRule*>& rules) {
    const auto allows = [](const enforce::FilterRule* rule) { return rule->then.kind == Kind::allow; };
    if (std::ranges::all_of(rules, allows)) return {Kind::allow, 0};
    const enforce::FilterRule& first = *rules.front();
    const bool silent = first.then.kind == Kind::refuse && first.refused == nullptr;
    return first.tests.empty() && silent ? first.then : enforce::Disposition{Kind::notify, 0};
}

std::string_view action(Kind kind) {
    switch (kind) {
        case Kind::allow:
            return "SCMP_ACT_ALLOW";
        case Kind::notify:
            return "SCMP_ACT_NOTIFY";
        default:
            return "SCMP_ACT_ERRNO";
    }
}

constexpr std::string_view architecture =
    enforce::native_architecture == enforce::Architecture::x86_64 ? "SCMP_ARCH_X86_64" : "SCMP_ARCH_AARCH64";

using Groups = std::map<std::pair<Kind, int>, std::vector<std::string>>;

Groups groups_of(const enforce::FilterSpec& filter) {
    constexpr auto calls = enforce::KnownCalls::of(enforce::native_architecture);
    Groups groups;
    for (const enforce::KnownCall& call : calls.calls) {
        const std::string_view name = calls.name(call);
        if (call.number > filter.newest_call) continue;
        std::vector<const enforce::FilterRule*> rules;
        for (const enforce::FilterRule& rule : filter.rules)
            if (rule.call <= call.number && call.number <= std::max(rule.call, rule.last))
                rules.push_back(&rule);
        // The first execve ends the runtime's part in the container (container_source.hpp).
        const bool begins = name == "execve" || name == "execveat";
        const enforce::Disposition then = begins ? enforce::Disposition{Kind::notify, 0} : whole(rules);
        groups[{then.kind, then.error}].emplace_back(name);
    }
    for (auto& [then, names] : groups) std::ranges::sort(names);
    return groups;
}

}  // namespace

OciProfile oci_profile(const enforce::FilterSpec& filter, const std::string& rules,
                       const std::string& listener) {
    const Groups groups = groups_of(filter);
    OciProfile profile;
    const auto calls = [&](JsonWriter& json) {
        json.list("syscalls", groups, [&](const auto& group) {
            const auto& [then, names] = group;
            json.begin_object().member("names", names).member("action", action(then.first));
            if (then.first == Kind::refuse) json.member("errnoRet", then.second);
            json.end_object();
        });
    };
    profile.digest = "callgate:" + sha256_hex(json_text([&](JsonWriter& json) {
                         json.begin_object().member("rules", rules);
                         calls(json);
                         json.end_object();
                     }));
    profile.text = json_text([&](JsonWriter& json) {
        json.begin_object()
            .member("defaultAction", "SCMP_ACT_ERRNO")
            .member("defaultErrnoRet", ENOSYS)
            .member("architectures", std::vector<std::string>{std::string(architecture)})
            .member("listenerPath", listener)
            .member("listenerMetadata", profile.digest);
        calls(json);
        json.end_object();
    });
    profile.text += '\n';
    return profile;
}

}  // namespace callgate::container
