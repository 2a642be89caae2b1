// From plan and call table to the filter: calls are notified, refused or allowed, by scalar arguments.
//
// The filter sees only registers, which no other thread can change. Some calls are refused without a
// decision: families and types of sockets that no rule can name, and interfaces that callgate does not
// mediate. Their errno is one after which common software falls back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/plan/plan.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

/// The filter's decisions for this architecture.
[[nodiscard]] FilterSpec filter_spec(const rules::Plan& plan);

struct NotifiedCall {
    std::string_view name;
    rules::OperationSet operations;    // its contested operations; empty for calls on processes
    std::vector<std::string> because;  // rule ids, "default", "record", or the protected objects
};
/// The calls that the filter notifies, for `callgate plan`.
[[nodiscard]] std::vector<NotifiedCall> notified_calls(const rules::Plan& plan);

}  // namespace callgate::enforce
