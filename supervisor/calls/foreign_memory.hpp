// Memory that an open on behalf must not reach for a caller who could not.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace callgate::calls {

/// Whether `path` is the memory of a process that the thread could not trace under Yama's ptrace_scope 1: one
/// that does not descend from it. callgate, all processes' ancestor, could. (What a process lets others do by
/// PR_SET_PTRACER nobody can see.)
[[nodiscard]] bool is_memory_beyond(std::string_view path, pid_t thread);

}  // namespace callgate::calls
