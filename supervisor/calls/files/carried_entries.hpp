// Carried-in entries: a moved directory takes its entries to names at which they might not be made.
//
// An attacker may make, move and remove entries while they are looked at. A call that does so and is decided
// by callgate waits for FileNeeds::names, which the caller of this holds exclusively. A call that Landlock
// alone lets make entries waits for no lock. So from there nothing is moved to where less may be made.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// Whether entries could be carried to a name beneath which less may be made than beneath the old one.
enum class CarriedEntries : std::uint8_t {
    impossible,  // no less may be made there
    noticed,     // entries are judged; a call that makes others meanwhile waits for the lock
    unnoticed,   // Landlock alone lets others be made meanwhile
};
[[nodiscard]] CarriedEntries carried_between(const rules::RenameCheck& moves,
                                             const rules::StaticGrants& grants, const Place& from,
                                             const Place& to);

/// The strictest verdict on the entries of a pinned directory, each by the name that it would get beneath
/// `new_path`. More than 10,000 are refused.
[[nodiscard]] rules::Verdict judge_entries(FileCall& context, const rules::RenameCheck& moves,
                                           UniqueFd directory, const std::string& new_path);

/// The verdict on the symbolic links that a directory would carry to names at which none may stand. Only
/// these names are looked at, and none that leads through a link. Where links are denied everywhere beneath
/// the new name, each entry is looked at, and more than 10,000 are refused. The caller holds FileNeeds::names
/// exclusively: links are made and moved under that lock alone.
[[nodiscard]] rules::Verdict judge_carried_links(const rules::RenameCheck& moves, const Place& from,
                                                 const Place& to);

[[nodiscard]] inline const rules::Verdict& stricter(const rules::Verdict& one, const rules::Verdict& other) {
    return other.action > one.action ? other : one;
}

/// The verdict on a move that cannot be judged; no rule decides it.
[[nodiscard]] rules::Verdict refused_move(int error);

}  // namespace callgate::calls
