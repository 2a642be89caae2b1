// Parses a request strictly: refuses JSON that two readers could understand differently.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace callgate::jobs {

/// Thrown while a request is read, with a message for its sender.
struct InvalidRequest {
    std::string why;
};

/// Returns an object. Throws InvalidRequest for anything else, for duplicate members and for more than 64
/// levels.
[[nodiscard]] nlohmann::json parse_strictly(std::string_view text);

/// Describes a value in a message: "a list", "the number 3", "the text \"x\"".
[[nodiscard]] std::string described(const nlohmann::json& value);

}  // namespace callgate::jobs
