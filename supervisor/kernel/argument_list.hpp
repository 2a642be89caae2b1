// The arguments of an execve(2): as the caller gives them, and as the new program has them.
//
// An attacker controls pointers and strings, and may change them while they are read: what was read once is
// what is judged. Bounds are the kernel's own (MAX_ARG_STRLEN; 6 MiB together, beyond which no stack limit
// lets an execve succeed), so what exceeds them would fail there with the same errno.
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

/// The strings of the argv at `address` of `thread`, at least one: the kernel makes an empty argv one empty
/// string. EFAULT, E2BIG; ESRCH where the caller is gone.
[[nodiscard]] Result<std::vector<std::string>> read_arguments(pid_t thread, std::uint64_t address);

/// What a new program's argv must be, remembered in little memory however long it is.
class ExpectedArguments {
public:
    /// Nothing is known of them: any will do.
    ExpectedArguments() = default;
    /// `whole`: exactly these; else these, and whatever follows.
    ExpectedArguments(std::span<const std::string> arguments, bool whole);

    /// Whether the program that waits in `process` has them. False where they cannot be read.
    [[nodiscard]] bool are_those_of(pid_t process) const;

private:
    std::size_t length_ = 0;  // bytes that are compared, each string with its NUL
    bool whole_ = false;
    Sha256::Digest digest_{};
};

/// The argv of the program that waits in `process`. Errors of reading /proc/PID/cmdline.
[[nodiscard]] Result<std::vector<std::string>> arguments_of(pid_t process);

}  // namespace callgate::kernel
