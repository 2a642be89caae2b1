// Merges the results of the walk over the files. Grants that others imply are left out, and each kept grant
// lists all operations that hold at its path.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "rules/plan/plan_parts.hpp"

namespace callgate::rules::planning {

namespace {

/// The length of the common prefix. Neighbouring paths share long prefixes, so eight bytes are compared at a
/// time. The lowest byte of a word is the first one.
static_assert(std::endian::native == std::endian::little);
std::size_t common_length(std::string_view left, std::string_view right) {
    const std::size_t shorter = std::min(left.size(), right.size());
    std::size_t at = 0;
    for (std::uint64_t one = 0, other = 0; at + sizeof one <= shorter; at += sizeof one) {
        std::memcpy(&one, left.data() + at, sizeof one);
        std::memcpy(&other, right.data() + at, sizeof other);
        if (one != other) return at + static_cast<std::size_t>(std::countr_zero(one ^ other)) / 8;
    }
    while (at < shorter && left[at] == right[at]) ++at;
    return at;
}

}  // namespace

bool PathOrder::operator()(std::string_view left, std::string_view right) const {
    const auto key = [](char byte) { return byte == '/' ? 0 : static_cast<unsigned char>(byte) + 1; };
    const std::size_t same = common_length(left, right);
    if (same == left.size() || same == right.size()) return same < right.size();
    return key(left[same]) < key(right[same]);
}

OperationSet PathPlan::held_at(std::string_view path) const {
    OperationSet held;
    for (const Grant& grant : grants)
        if (grant.directory ? at_or_beneath(path, grant.path) : path == grant.path) held |= grant.operations;
    return held;
}

PathPlan merge_grants(GrantsByPath&& grants, std::vector<Loss> losses) {
    PathPlan plan;
    struct Above {
        std::size_t index;  // of a kept directory grant above the current path
        bool lets_execute;  // it, or one above it
    };
    std::vector<Above> above;
    plan.grants.reserve(grants.size());
    for (auto& [path, grant] : grants) {
        while (!above.empty() && !at_or_beneath(path, plan.grants[above.back().index].path)) above.pop_back();
        const OperationSet inherited =
            above.empty() ? OperationSet{} : plan.grants[above.back().index].operations;
        const bool lets_execute = !above.empty() && above.back().lets_execute;
        grant.notify_only_execute = grant.notify_only_execute && !lets_execute &&
                                    !(inherited | grant.operations).contains(Operation::execute);
        if (inherited.contains_all(grant.operations) && !grant.notify_only_execute) continue;
        grant.operations |= grant.directory ? inherited : inherited & held_by_file;
        grant.notify_only_read =
            (grant.operations.contains(Operation::execute) || grant.notify_only_execute || lets_execute) &&
            !grant.operations.contains(Operation::read);
        const bool lets = lets_execute || grant.notify_only_execute;
        plan.grants.push_back(std::move(grant));
        if (plan.grants.back().directory) above.push_back({plan.grants.size() - 1, lets});
    }
    for (Loss& loss : losses) {
        loss.operations = loss.operations - plan.held_at(loss.path);
        if (!loss.operations.empty()) plan.losses.push_back(std::move(loss));
    }
    return plan;
}

}  // namespace callgate::rules::planning
