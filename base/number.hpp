// Whole numbers in decimal digits.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace callgate {

/// The number that `text` consists of. Returns nullopt if `text` is not a number or is too large for its
/// type.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

}  // namespace callgate
