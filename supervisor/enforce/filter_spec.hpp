// From plan and call table to the filter: which calls are notified, refused or left alone, by scalar
// arguments.
//
// The filter sees registers only, which nobody can change under it. What it refuses needs no judgement:
// families and types of sockets that no rule can speak of, doors that callgate does not mediate (attacks.md,
// other doors). The errno is one that common software falls back from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "supervisor/enforce/seccomp/compiler.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::enforce {

/// The decisions for this machine's architecture.
[[nodiscard]] FilterSpec filter_spec(const rules::Plan& plan);

struct NotifiedCall {
    std::string_view name;
    rules::OperationSet operations;    // contested ones that made it so; empty for calls on processes
    std::vector<std::string> because;  // rule ids, "default", "record", or what it protects
};
/// What the filter traps, for `callgate plan`.
[[nodiscard]] std::vector<NotifiedCall> notified_calls(const rules::Plan& plan);

}  // namespace callgate::enforce
