// The environment of a new program that is held before its first instruction (tracer.hpp).
//
// The kernel has copied the strings onto the program's stack, where sp points at the number of arguments. The
// pointers of both lists stand behind it, then the auxiliary vector. The process has one thread, and that is
// stopped. What chose the environment is the caller of execve(2), and it may have chosen anything.
//
// A 32-bit program has other lists. Nothing of it is changed: reading its lists fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace callgate::kernel {

/// Whether "NAME=value", or a text without "=", is the variable of one of `names`.
[[nodiscard]] bool is_variable_of(std::string_view text, std::span<const std::string> names);

/// Takes the variables `names` away from the program that waits in `process`: their pointers, and each byte
/// of their strings. Returns how many there were. An error: the program may still have them.
[[nodiscard]] Result<std::size_t> take_variables(pid_t process, std::uint64_t stack_pointer,
                                                 std::span<const std::string> names);

}  // namespace callgate::kernel
