// The addresses of this machine's interfaces (getifaddrs(3)): what "${own}" in rules is about.
//
// Rules are compiled with those of the start. A machine gets others during a run: a VPN, a container's
// bridge. An attacker may wait for that, so each connect that such a rule could decide asks the kernel once
// more. An address that becomes this machine's after the look was another machine's when the connect was
// judged.
#pragma once

#include <vector>

#include "rules/model/request.hpp"

namespace callgate {

/// Each address once. Any thread. Throws std::runtime_error where the kernel does not tell.
[[nodiscard]] std::vector<rules::IpAddress> own_addresses();

/// Finds those of `addresses` that an interface has now, mapped ones as well; all of them where the kernel
/// does not tell. Any thread.
[[nodiscard]] std::vector<rules::IpAddress> own_among(const std::vector<rules::IpAddress>& addresses);

/// Whether an interface has `address` now. It is so where the kernel does not tell. Any thread.
[[nodiscard]] bool is_own_address(const rules::IpAddress& address);

}  // namespace callgate
