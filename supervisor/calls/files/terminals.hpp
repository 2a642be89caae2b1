// Pseudo-terminals of the run: their slaves may be opened, those that belong to the user stay closed.
//
// /dev/pts holds the slaves of every terminal of the user side by side. A slave is the run's own only where a
// process of the tree holds its master; an attacker can open masters of its own, never hold the user's.
#pragma once

#include <optional>

#include "rules/model/verdict.hpp"
#include "supervisor/decide/supervision.hpp"

namespace callgate::calls {

/// The verdict for a slave whose master the tree holds; nothing for everything else (the rules decide).
[[nodiscard]] std::optional<rules::Verdict> terminal_of_run(CallContext& context, const Object& object);

}  // namespace callgate::calls
