// JSON from a sender who is not trusted, so that no two readers could understand it differently.
//
// The sender controls every byte. Text within bounds parses in time proportional to its length.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace callgate::jobs {

/// Thrown while a request is read, with a message for its sender.
struct InvalidRequest {
    std::string why;
};

/// Describes a value in a message: "a list", "the number 3", "the text \"x\"".
[[nodiscard]] std::string described(const nlohmann::json& value);

/// Returns an object. Throws InvalidRequest for anything else, for duplicate members and for more than 64
/// levels.
[[nodiscard]] nlohmann::json parse_strictly(std::string_view text);

}  // namespace callgate::jobs
