// Memory that an open on behalf must not reach for a caller who could not.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace callgate::calls {

/// Whether `path` is the memory of a process that does not descend from the thread. Under Yama's ptrace_scope
/// 1 the thread could not trace it, but callgate, the ancestor of all processes, could. Permissions that a
/// process gives by PR_SET_PTRACER cannot be read.
[[nodiscard]] bool is_memory_beyond(std::string_view path, pid_t thread);

}  // namespace callgate::calls
