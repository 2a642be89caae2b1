// The arguments of an execve(2): those that the caller gives, and those that the new program has.
//
// An attacker controls pointers and strings, and may change them while they are read. They are read once, and
// that copy is decided. Bounds are the kernel's own: MAX_ARG_STRLEN, and 6 MiB together, beyond which no
// stack limit lets an execve succeed. So longer arguments would fail there with the same errno.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/sha256.hpp"

namespace callgate::kernel {

/// The strings of the argv at `address` of `thread`, at least one: the kernel turns an empty argv into one
/// empty string. Errors: EFAULT, E2BIG; ESRCH if the caller is gone.
[[nodiscard]] Result<std::vector<std::string>> read_arguments(pid_t thread, std::uint64_t address);

/// The expected argv of a new program, as a digest of fixed size.
class ExpectedArguments {
public:
    /// Accepts any arguments.
    ExpectedArguments() = default;
    /// `whole`: exactly these arguments; otherwise these at the start.
    ExpectedArguments(std::span<const std::string> arguments, bool whole);

    /// Whether the program that waits in `process` has these arguments. False if they cannot be read.
    [[nodiscard]] bool are_those_of(pid_t process) const;

private:
    std::size_t length_ = 0;  // bytes that are compared, each string with its NUL
    bool whole_ = false;
    Sha256::Digest digest_{};
};

/// The argv of the program that waits in `process`. Errors: those of reading /proc/PID/cmdline.
[[nodiscard]] Result<std::vector<std::string>> arguments_of(pid_t process);

}  // namespace callgate::kernel
