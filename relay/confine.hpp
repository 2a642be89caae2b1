// Takes from the front's process whatever it does not need for copying bytes between sockets.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace callgate::relay {

/// Makes the process not dumpable, without core files and capabilities. Puts it into a Landlock domain
/// without a grant, where the kernel has Landlock. Its filter then kills it for any call but those of
/// front.cpp and the `further` ones. Errors: errno of the step that failed. See prctl(2), landlock(7),
/// seccomp(2).
[[nodiscard]] Result<void> confine_front(std::span<const std::uint32_t> further = {});

}  // namespace callgate::relay
