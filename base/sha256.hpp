#pragma once

#include <string>
#include <string_view>

namespace callgate {

/// SHA-256, 64 lower-case hex digits.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace callgate
