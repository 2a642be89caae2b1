// Finds the shipped profile whose own rules allow what a run was denied.
//
// It must add to the profiles that the run has: one that extends them. It is no agent's, which would give a
// login away. Its rule names places of the home to read and execute, or hosts. What may be written it names
// in `/tmp` alone, where a tool keeps files whatever TMPDIR says.
#include <algorithm>
#include <functional>

#include "base/words.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/shipped.hpp"
#include "rules/model/address.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

namespace {

using rules::JsonValue;
using rules::OperationSet;

/// The texts of a member that is one string or a list of them.
std::vector<std::string_view> texts(const JsonValue& object, std::string_view key) {
    std::vector<std::string_view> all;
    const auto member = object.member(key);
    if (!member) return all;
    if (member->value.kind() == JsonValue::Kind::string) all.push_back(member->value.text());
    for (const JsonValue item : member->value.items()) all.push_back(item.text());
    return all;
}

OperationSet operations_of(const JsonValue& rule, std::string_view action) {
    OperationSet all;
    for (const std::string_view word : texts(rule, action))
        all |= rules::parse_operations(word).value_or(OperationSet());
    return all;
}

/// Names in `/tmp` that one tool makes up, whatever the operation.
bool temporary_matches(const JsonValue& rule, std::string_view path) {
    return std::ranges::any_of(texts(rule, "path"), [&](std::string_view pattern) {
        const auto glob = rules::Glob::compile(std::string(pattern), rules::GlobKind::path);
        return pattern.starts_with("/tmp/") && glob && glob->matches(path);
    });
}

bool path_matches(const JsonValue& rule, std::string_view path, const std::string& home) {
    if (home.empty()) return false;
    return std::ranges::any_of(texts(rule, "path"), [&](std::string_view pattern) {
        if (!pattern.starts_with("~/")) return false;
        const auto glob = rules::Glob::compile(rules::quote_glob(home) + std::string(pattern.substr(1)),
                                               rules::GlobKind::path);
        return glob && glob->matches(path);
    });
}

/// Hosts where a tool fetches its packages and others do much else.
constexpr std::string_view hosts_of_many = "api.github.com codeload.github.com storage.googleapis.com";

bool host_matches(const JsonValue& rule, std::string_view name) {
    if (has_word(hosts_of_many, name)) return false;
    return std::ranges::any_of(texts(rule, "host"), [&](std::string_view text) {
        const auto pattern = rules::parse_host(text);
        return pattern && pattern->matches(name);
    });
}

/// Whether a rule of the profile itself allows the operations, and none of them restricts one.
bool allows(const rules::ShippedProfile& profile, const rules::Object& object, OperationSet operations,
            const std::string& home) {
    OperationSet allowed;
    const bool opens_network = profile.name.ends_with("+net");
    const auto list = rules::root(profile.tree).member("rules");
    if (!list) return false;
    for (const JsonValue rule : list->value.items()) {
        const OperationSet given = operations_of(rule, "allow");
        if (const auto* file = std::get_if<rules::FileObject>(&object);
            file != nullptr && !given.empty() && !opens_network && temporary_matches(rule, file->path)) {
            allowed |= given;
            continue;
        }
        bool matches = false;
        if (const auto* file = std::get_if<rules::FileObject>(&object))
            matches = path_matches(rule, file->path, home);
        else if (const auto* host = std::get_if<rules::HostName>(&object))
            matches = host_matches(rule, host->name);
        if (!matches) continue;
        if (given.empty() || given.intersects(rules::write_operations)) return false;
        allowed |= given;
    }
    return allowed.contains_all(operations);
}

/// The names that a profile extends, and theirs.
void add_extended(const rules::ShippedProfile& profile, std::vector<std::string_view>& into) {
    for (const std::string_view name : texts(rules::root(profile.tree), "extends")) {
        into.push_back(name);
        if (const auto* const other = rules::find_shipped_profile(name)) add_extended(*other, into);
    }
}

bool is_loaded(const rules::RuleSet& rules, std::string_view profile) {
    return std::ranges::any_of(rules.rules(), [profile](const rules::Rule& rule) {
        return rule.source.file.starts_with("profile ") &&
               std::string_view(rule.source.file).substr(8) == profile;
    });
}

}  // namespace

std::string offered_profile(const rules::Object& object, OperationSet operations, const rules::RuleSet& rules,
                            const std::string& home) {
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) {
        if (rules::root(profile.tree).member("agent") || is_loaded(rules, profile.name)) continue;
        std::vector<std::string_view> extended;
        add_extended(profile, extended);
        std::erase(extended, "base");
        const auto loaded = [&](std::string_view name) { return is_loaded(rules, name); };
        if (std::ranges::any_of(extended, loaded) && allows(profile, object, operations, home))
            return std::string(profile.name);
    }
    return {};
}

std::string offered_profile(const rules::Object& object, std::string_view program,
                            const rules::RuleSet& rules) {
    constexpr std::size_t made_up = 10;
    const auto* const file = std::get_if<rules::FileObject>(&object);
    if (file == nullptr || !file->path.starts_with("/tmp/") || !program.ends_with("/java")) return "";
    std::size_t digits = 0, longest = 0;
    for (const char one : file->path) {
        digits = one >= '0' && one <= '9' ? digits + 1 : 0;
        longest = std::max(longest, digits);
    }
    return longest >= made_up && is_loaded(rules, "agent") && !is_loaded(rules, "java") ? "java" : "";
}

}  // namespace callgate
