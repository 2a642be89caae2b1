// Names of open(2) flags for the record.
#pragma once

#include <string_view>
#include <vector>

namespace callgate::calls {

/// Fills `into` with the access mode and every known flag of `flags`; unknown bits are left out.
void name_open_flags(int flags, std::vector<std::string_view>& into);

}  // namespace callgate::calls
