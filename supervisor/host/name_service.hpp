// Looks up users as this machine does (nsswitch.conf(5)).
//
// The program is linked statically, so that it starts fast and runs beside any C library. The modules that
// look up names belong to the machine's own C library; its program getent(1) asks them.
#pragma once

#include <sys/types.h>

#include <string>

namespace callgate {

/// The home directory of a user; "" where none is known. Reads /etc/passwd first, and asks getent only if the
/// user is not there. Throws std::runtime_error if getent cannot be started.
[[nodiscard]] std::string home_of(uid_t user);

}  // namespace callgate
