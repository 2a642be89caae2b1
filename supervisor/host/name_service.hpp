// What names mean on this machine (nsswitch.conf(5)): users' and hosts'.
//
// The program is linked with everything it needs, so that it starts fast and runs beside any C library; the
// modules that an administrator chose for names belong to the machine's own. getent(1) asks them, and is the
// C library's own program for that.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "rules/model/address.hpp"

namespace callgate {

/// The home directory of a user; "" where none is known. /etc/passwd is read first, and getent only where it
/// has no such user. Throws std::runtime_error where it cannot be started.
[[nodiscard]] std::string home_of(uid_t user);

/// The addresses of a host, each once; none where there are none now. May take as long as the machine's
/// resolver takes; signals that end callgate end it meanwhile, and with it what it waits for. Throws
/// std::runtime_error where this machine has no getent, or cannot start it.
[[nodiscard]] std::vector<rules::IpAddress> addresses_of(const std::string& host);

}  // namespace callgate
