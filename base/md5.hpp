// MD5 (RFC 1321), for names that other programs make with it. It protects nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace callgate {

using Md5 = std::array<std::uint8_t, 16>;

[[nodiscard]] Md5 md5(std::string_view bytes);

}  // namespace callgate
