// Programs that the kernel runs in place of files of a registered kind (binfmt_misc: an emulator, an
// interpreter).
//
// The list belongs to the host's administrator. The target cannot change it: it has no capabilities and makes
// no user namespace.
#pragma once

#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// Whether `program` is registered for some kind of file now.
[[nodiscard]] bool is_binfmt_interpreter(const Object& program);

}  // namespace callgate::calls
