// Refusals that mean nothing to anybody: programs look at each start, find nothing, and go on. They are on
// record, and neither in the footer nor in the file of denials.
#pragma once

#include "supervisor/audit/write/record.hpp"

namespace callgate {

/// Whether this refusal is such a look: its rule is `quiet`, or the program makes it harmless, which no rule
/// can say. Any thread.
[[nodiscard]] bool is_quiet(const audit::Decision& decision);

}  // namespace callgate
