#include "rules/model/limits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

namespace callgate::rules {
namespace {

template <typename T>
std::optional<T> tighter_of(const std::optional<T>& left, const std::optional<T>& right) {
    if (left && right) return std::min(*left, *right);
    return left ? left : right;
}

/// Splits leading digits from the rest. Nothing if there is no digit or the number overflows.
std::optional<std::uint64_t> take_number(std::string_view& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

/// Thousandths from the digits after a point: "5" is 500. Digits beyond the third are checked and ignored.
std::optional<std::uint64_t> take_thousandths(std::string_view& text) {
    std::uint64_t value = 0;
    std::uint64_t place = 100;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
        value += static_cast<std::uint64_t>(text[digits] - '0') * place;
        place /= 10;
    }
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
    return value;
}

std::optional<std::uint64_t> milliseconds_of(std::string_view unit) {
    if (unit.empty() || unit == "s") return 1000;
    if (unit == "ms") return 1;
    if (unit == "m") return 60'000;
    if (unit == "h") return 3'600'000;
    return std::nullopt;
}

}  // namespace

Limits Limits::tighter(const Limits& other) const {
    Limits result;
    result.memory = tighter_of(memory, other.memory);
    result.file_size = tighter_of(file_size, other.file_size);
    result.disk = tighter_of(disk, other.disk);
    result.processes = tighter_of(processes, other.processes);
    result.open_files = tighter_of(open_files, other.open_files);
    result.cpu = tighter_of(cpu, other.cpu);
    result.wall = tighter_of(wall, other.wall);
    result.idle = tighter_of(idle, other.idle);
    return result;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    const std::optional<std::uint64_t> number = take_number(text);
    if (!number || text.size() > 1) return std::nullopt;
    if (text.empty()) return number;
    const std::size_t power = std::string_view("KMGT").find(text.front());
    if (power == std::string_view::npos) return std::nullopt;
    const unsigned shift = 10U * (static_cast<unsigned>(power) + 1U);
    if (*number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
    return *number << shift;
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
    const std::optional<std::uint64_t> whole = take_number(text);
    if (!whole) return std::nullopt;
    std::uint64_t thousandths = 0;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        const std::optional<std::uint64_t> taken = take_thousandths(text);
        if (!taken) return std::nullopt;
        thousandths = *taken;
    }
    const std::optional<std::uint64_t> unit = milliseconds_of(text);
    // A thousand years: adding that to the current time cannot overflow a clock.
    constexpr std::uint64_t longest = 1000ULL * 366 * 24 * 3'600'000;
    if (!unit || *whole > longest / *unit) return std::nullopt;
    return std::chrono::milliseconds(static_cast<std::int64_t>(*whole * *unit + thousandths * *unit / 1000));
}

}  // namespace callgate::rules
