// Secrets in command lines, taken out before they are on record.
//
// What is recognised: the value of an option or of NAME=VALUE whose name speaks of a secret (--password X,
// --api-key=X, AWS_SECRET_ACCESS_KEY=X, ?token=X), user:password@ in URLs, credentials in HTTP headers
// (Authorization, Cookie, X-Api-Key), -u user:password; also inside a script that is one argument (sh -c
// "..."). It is a net with meshes: a secret that looks like an ordinary word passes. Text that stays is
// unchanged.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::audit {

inline constexpr std::string_view redacted = "[redacted]";

[[nodiscard]] std::vector<std::string> redact(std::span<const std::string> command);

/// The secrets within one argument.
[[nodiscard]] std::string redact_argument(std::string_view argument);

}  // namespace callgate::audit
