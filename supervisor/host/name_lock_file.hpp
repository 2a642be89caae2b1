// The file at which the runs of a user meet for the lock of names (supervisor/calls/name_lock.hpp).
#pragma once

#include <string>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

/// Opens it in the state directory, which no run can reach, and makes it if there is none.
[[nodiscard]] Expected<UniqueFd> open_name_lock_file(const std::string& state);

}  // namespace callgate
