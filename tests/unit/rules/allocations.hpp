// Counts what the test program allocates, for tests of code that must not.
#pragma once

#include <cstddef>

namespace callgate::tests {

/// How often this thread has called `operator new` since it began.
[[nodiscard]] std::size_t allocations();

}  // namespace callgate::tests
