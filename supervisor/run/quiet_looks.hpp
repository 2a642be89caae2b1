// Refusals that mean nothing to anybody: programs look at each start, find nothing, and go on. They are on
// record, and neither in the footer nor in the file of denials.
#pragma once

#include "supervisor/audit/write/record.hpp"

namespace callgate {

/// Whether this refusal is such a look: by a rule that is `quiet`, or one that no rule tells by its object
/// alone, because it is the program that makes it harmless. Any thread.
[[nodiscard]] bool is_quiet(const audit::Decision& decision);

}  // namespace callgate
