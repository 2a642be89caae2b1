// Files that Landlock may no longer know by their names.
//
// A grant on a single file belongs to the inode that had the name at the start. If another program has put a
// new file there since, the kernel would refuse what the rules allow, without a record. So only a file that
// is surely the old one is left to the kernel. A file that got its name, or was changed, during the run is
// opened here.
#pragma once

#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// Whether the grant that allows `operations` on a file may be on another inode by now.
[[nodiscard]] bool may_have_been_replaced(const rules::StaticGrants& grants, rules::OperationSet operations,
                                          const Object& object);

}  // namespace callgate::calls
