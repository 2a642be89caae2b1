// "Nothing is planted" (rules.md): a directory that is moved takes its entries to names where they might not
// be made.
//
// An attacker may make, move and remove entries while they are looked at. Whoever does so by a call that is
// decided here waits for Supervision::names, which the caller of this holds alone; what Landlock alone lets
// be made waits for nobody, so there nothing is moved to where less may be made.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/decide/supervision.hpp"

namespace callgate::calls {

/// What could be carried to a name beneath which less may be made than beneath the old one.
enum class CarriedEntries : std::uint8_t {
    impossible,  // nothing less may be made there
    noticed,     // entries are judged; who makes others meanwhile waits for the lock
    unnoticed,   // Landlock alone lets others be made meanwhile
};
[[nodiscard]] CarriedEntries carried_between(const rules::RenameCheck& moves, const rules::StaticGrants& grants,
                                        const Place& from, const Place& to);

/// The strictest verdict on the entries of a pinned directory (10,000 at most, else refused), each by the
/// name that it would get beneath `new_path`.
[[nodiscard]] rules::Verdict judge_entries(CallContext& context, const rules::RenameCheck& moves,
                                           UniqueFd directory, const std::string& new_path);

[[nodiscard]] inline const rules::Verdict& stricter(const rules::Verdict& one, const rules::Verdict& other) {
    return other.action > one.action ? other : one;
}

/// No rule's verdict, but that of a move which cannot be judged.
[[nodiscard]] rules::Verdict refused_move(int error);

}  // namespace callgate::calls
