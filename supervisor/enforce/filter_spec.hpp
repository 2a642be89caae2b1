// From plan and call table to the filter: calls are notified, refused or allowed, by scalar arguments.
//
// The filter sees only registers, which no other thread can change. Some calls are refused without a
// decision: families and types of sockets that no rule can name, and interfaces that callgate does not
// mediate. Their errno is one after which common software falls back.
#pragma once

#include <linux/audit.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/plan/plan.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

/// The number by which a filter knows this build's architecture.
inline constexpr std::uint32_t audit_architecture =
    native_architecture == Architecture::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;

/// The filter's decisions for this architecture.
[[nodiscard]] FilterSpec filter_spec(const rules::Plan& plan);

/// The filter of a nested run, beyond every run's filter. It notifies nothing: the filter of the run around
/// notifies a call, unless this one refuses it.
[[nodiscard]] FilterSpec nested_filter_spec(const rules::Plan& plan);

/// Says what the run around lacks to judge the calls of a nested one; nothing: it lacks nothing. `around` is
/// the plan whose filter notifies.
[[nodiscard]] std::optional<std::string> lacks_for_nested(const rules::Plan& around,
                                                          const rules::Plan& nested);

/// The decisions of a container's filter (container/oci_profile.hpp). Calls on processes and IPC objects are
/// left to the container's own namespaces, which hold nothing else.
[[nodiscard]] FilterSpec container_filter_spec(const rules::Plan& plan);

struct NotifiedCall {
    std::string_view name;
    rules::OperationSet operations;    // its contested operations; empty for calls on processes
    std::vector<std::string> because;  // rule ids, "default", "record", or the protected objects
};
/// The calls that the filter notifies, for `callgate plan`.
[[nodiscard]] std::vector<NotifiedCall> notified_calls(const rules::Plan& plan);

}  // namespace callgate::enforce
