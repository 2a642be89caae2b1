#include "supervisor/names/public_suffix.hpp"

#include <string>

#include <public_suffixes.hpp>

namespace callgate::names {

namespace {

bool listed(const std::string& entry) {
    return std::string_view(public_suffixes).find('\n' + entry + '\n') != std::string_view::npos;
}

}  // namespace

bool public_suffix(std::string_view name) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) return true;
    const std::string text(name);
    if (listed('!' + text)) return false;
    return listed(text) || listed('*' + text.substr(dot));
}

}  // namespace callgate::names
