// Tells by its name alone whether a file may hold a credential that no rule knows.
#pragma once

#include <string_view>

namespace callgate {

/// Whether the last component says so: "token", "oauth_creds.json", "service-key.pem". Sources of programs
/// and pages of text are none. An option or a rule for such a file is never offered unasked.
[[nodiscard]] bool may_hold_credential(std::string_view path);

}  // namespace callgate
