// The handler of each row of the call table.
//
// A row without a handler, or with two, does not compile (dispatch.cpp).
#pragma once

#include "supervisor/enforce/call_table.hpp"
#include "supervisor/receive/families.hpp"

namespace callgate {

/// Decides one call and answers it, with nothing but the needs of its family. Runs on the receiving thread.
using Handler = void (*)(const calls::Call& call, const Families& families, calls::StaticPaths& static_paths);

/// `entry` is a row of `enforce::call_table()`.
[[nodiscard]] Handler handler_of(const enforce::CallEntry& entry);

}  // namespace callgate
