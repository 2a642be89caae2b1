// Which function handles which row of the call table.
//
// A row without a handler, or with two, does not compile (dispatch.cpp).
#pragma once

#include "supervisor/enforce/call_table.hpp"

namespace callgate::calls {

struct CallContext;

/// Decides one call and answers it. Runs on the receiving thread.
using Handler = void (*)(CallContext&);

/// `entry` is a row of `enforce::call_table()`.
[[nodiscard]] Handler handler_of(const enforce::CallEntry& entry);

}  // namespace callgate::calls
