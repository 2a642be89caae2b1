// Reads untrusted JSON, member by member. A member that is missing or has another type reads as empty, 0 or
// false.
//
// Only rule sets and jobs have readers of their own, because their authors get an error for each mistake. The
// reader rules/load/json_tree keeps positions; supervisor/jobs/job.cpp refuses names that
// occur twice.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::json_read {

using nlohmann::json;

/// Each value takes memory many times its text, such as 50 bytes for `[],`.
inline constexpr std::size_t max_values = 1'000'000;

/// The value that `text` is; null if it is no JSON, or has more than 256 levels or `max_values`. Copying and
/// writing a value take stack for each level.
[[nodiscard]] json parse(std::string_view text);
/// The object that `text` is; null if it is anything else.
[[nodiscard]] json parse_object(std::string_view text);

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

/// A number without sign or fraction.
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

/// The text of `value` in ASCII, so that a terminal does not interpret it. With `indent`, each member has a
/// line.
template <class Json>
[[nodiscard]] std::string ascii_text(const Json& value, int indent = -1) {
    return value.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace callgate::json_read
