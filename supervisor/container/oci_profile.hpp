// The OCI seccomp profile of a rule set: the filter that a container's runtime installs, with this program as
// its listener.
//
// libseccomp cannot express the filter itself: it has no order of rules, and no allow-lists of arguments. So
// the profile notifies every call that the filter would notify, or refuse by arguments. The filter then
// decides in the supervisor (container_source.hpp), on the same registers. A call that neither knows is
// refused: ENOSYS. A profile that notified less than the rules contest would be unsound. So each carries a
// digest, which the runtime passes on, and a container with another one is refused. The digest is also of the
// name of the rules. So the administrator's profile says which rules a container has. Podman adds an image's
// annotations to the container's: they choose no others.
//
// Pure. An attacker controls nothing here: rules and profile are the administrator's.
#pragma once

#include <string>

#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::container {

struct OciProfile {
    std::string digest;  // the runtime passes it on as `listenerMetadata`
    std::string text;    // JSON
};

/// `rules`: their name. `listener`: the path of the agent's socket.
[[nodiscard]] OciProfile oci_profile(const enforce::FilterSpec& filter, const std::string& rules,
                                     const std::string& listener);

}  // namespace callgate::container
