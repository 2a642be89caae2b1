// The profiles and the schema that ship with callgate. The parser that also reads the user's files reads them
// when callgate is built (cmake/embed.cpp).
#pragma once

#include <span>
#include <string_view>

#include "rules/load/json_tree.hpp"

namespace callgate::rules {

struct ShippedProfile {
    std::string_view name;
    std::string_view description;  // one line
    std::string_view json;         // as shipped
    JsonTree tree;                 // of `json`
    std::string_view sha256;       // of canonical_json(tree)
};
[[nodiscard]] std::span<const ShippedProfile> shipped_profiles();
/// Null if no profile has that name.
[[nodiscard]] const ShippedProfile* find_shipped_profile(std::string_view name);
[[nodiscard]] std::string_view rules_schema();

}  // namespace callgate::rules
