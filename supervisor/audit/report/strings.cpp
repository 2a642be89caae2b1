#include "supervisor/audit/report/strings.hpp"

namespace callgate::audit::report {

std::optional<std::uint32_t> Strings::add(std::string_view text) {
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    constexpr std::size_t entry = 64;
    if (text.size() + entry > left_) return std::nullopt;
    left_ -= text.size() + entry;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
}

}  // namespace callgate::audit::report
