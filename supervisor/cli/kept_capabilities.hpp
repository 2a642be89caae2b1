// --keep-capabilities: which capabilities of callgate's own the command keeps.
#pragma once

#include <string>

#include "base/process/capabilities.hpp"

namespace callgate::cli {

class Arguments;

/// 0: none; all_capabilities: whatever callgate has. Throws Failure: an unknown name (with the nearest), or
/// one that callgate itself does not hold.
[[nodiscard]] CapabilitySet kept_capabilities(const Arguments& arguments);

/// For the record: "capabilities", or "capabilities:setuid,setgid".
[[nodiscard]] std::string degraded_by(CapabilitySet kept);

}  // namespace callgate::cli
