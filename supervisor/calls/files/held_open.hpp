// Regular files without a name: removed ones, and temporary ones that have none yet (O_TMPFILE).
//
// No rule can speak of such a file by the name that it has. It may have had one that a rule denies, and an
// attacker has an O_PATH descriptor of every file. So it is opened again, and its attributes are set, only
// for who has it open already, for the same access. Shells give here-documents as removed files:
// `/dev/stdin`.
#pragma once

#include "rules/model/operation.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// Whether this is such a file, and the caller has a descriptor for all of `access` (read, modify) on it.
[[nodiscard]] bool holds_open(FileCall& context, const Object& object, rules::OperationSet access);

}  // namespace callgate::calls
