// The text of a request as JSON: what a parser would let pass, and two readers could understand differently,
// is refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace callgate::jobs {

/// What is wrong with a request; thrown while one is read.
struct Wrong {
    std::string why;
};

/// One object, without a member that is there twice, at most 64 deep. Throws Wrong.
[[nodiscard]] nlohmann::json parse_text(std::string_view text);

/// "a list", "the number 3", "the text \"x\"": for messages.
[[nodiscard]] std::string described(const nlohmann::json& value);

}  // namespace callgate::jobs
