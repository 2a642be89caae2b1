// Capabilities of the calling thread, by raw system calls: no library, no allocation, async-signal-safe.
#pragma once

#include <boost/system/result.hpp>

namespace callgate::agent {

/// Drops every capability of the calling thread: effective, permitted, inheritable, ambient; with CAP_SETPCAP
/// also bounding, and securebits NOROOT locked. Idempotent.
[[nodiscard]] boost::system::result<void> drop_capabilities();

}  // namespace callgate::agent
