// Takes secrets out of command lines before they are on record.
//
// It recognises the value of an option or of NAME=VALUE whose name speaks of a secret. Examples: --password
// X, --api-key=X, AWS_SECRET_ACCESS_KEY=X, ?token=X. It also recognises user:password@ in URLs, credentials
// in HTTP headers (Authorization, Cookie, X-Api-Key), and -u user:password. All of these are recognised
// inside a script that is one argument too (sh -c "..."). The check is not complete: a secret that looks like
// an ordinary word passes. Text that stays is unchanged.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::audit {

inline constexpr std::string_view redacted = "[redacted]";

[[nodiscard]] std::vector<std::string> redact(std::span<const std::string> command);

/// `argument` with the secrets within it taken out.
[[nodiscard]] std::string redact_argument(std::string_view argument);

}  // namespace callgate::audit
