// Counts allocations of the test program, for tests of code that must not allocate.
#pragma once

#include <cstddef>

namespace callgate::tests {

/// How often this thread has called `operator new` since it began.
[[nodiscard]] std::size_t allocations();

}  // namespace callgate::tests
