// Capabilities of the calling thread, by raw system calls: no library, no allocation, async-signal-safe.
#pragma once

#include <boost/system/result.hpp>

namespace callgate::agent {

/// Drops every capability of the calling thread: effective, permitted, inheritable, ambient; with CAP_SETPCAP
/// also bounding, and securebits NOROOT locked. Idempotent.
[[nodiscard]] boost::system::result<void> drop_capabilities();

/// The same but for bounding set and securebits, which only execve(2) looks at: for processes of ours that
/// execute nothing (with NO_NEW_PRIVS execve would give nothing back either). A tenth of the system calls.
[[nodiscard]] boost::system::result<void> drop_held_capabilities();

}  // namespace callgate::agent
