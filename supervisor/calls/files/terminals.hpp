// Pseudo-terminals of the run: their slaves may be opened and get other modes, those of the user stay closed.
//
// /dev/pts holds the slaves of every terminal of the user side by side. A slave is the run's own only if a
// process of the tree holds its master. An attacker can open masters of its own, but never hold the user's.
#pragma once

#include <optional>

#include "rules/model/verdict.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// The verdict on `operation` for a slave whose master the tree holds; nothing for everything else (the rules
/// decide).
[[nodiscard]] std::optional<rules::Verdict> terminal_of_run(
    FileCall& context, const Object& object, rules::Operation operation = rules::Operation::modify);

}  // namespace callgate::calls
