// Suffixes below which anybody can have names: com, co.uk, github.io, cloudfront.net.
//
// They are those of the public suffix list (publicsuffix.org), ICANN's and private ones, as the distribution
// had it when callgate was built. Names in other scripts are left out. Pure; any thread.
#pragma once

#include <string_view>

namespace callgate::names {

/// `name` is in lower case, without a final dot. A name without a dot is always a public suffix.
[[nodiscard]] bool public_suffix(std::string_view name);

}  // namespace callgate::names
