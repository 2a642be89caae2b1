// JSON that others wrote, member by member: nothing about it is believed. What is missing or of another type
// reads as empty, 0 or false.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace callgate::json_read {

using nlohmann::json;

/// The member at a path of names, or null.
template <typename... Names>
const json& member(const json& value, const char* name, Names... rest) {
    static const json null;
    if (!value.is_object()) return null;
    const auto found = value.find(name);
    if (found == value.end()) return null;
    if constexpr (sizeof...(rest) == 0) {
        return *found;
    } else {
        return member(*found, rest...);
    }
}

inline std::string text(const json& value) {
    return value.is_string() ? value.get<std::string>() : std::string();
}

/// Of a number without sign or fraction.
inline std::uint64_t number(const json& value) {
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

inline bool truth(const json& value) { return value.is_boolean() && value.get<bool>(); }

inline std::vector<std::string> texts(const json& value) {
    std::vector<std::string> all;
    if (!value.is_array()) return all;
    for (const json& one : value) all.push_back(text(one));
    return all;
}

}  // namespace callgate::json_read
