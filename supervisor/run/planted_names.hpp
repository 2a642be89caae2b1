// Names from which the user's own tools run code (docs/threat-model.md, "Code that you run afterwards").
//
// An attacker chooses the names. No list of tools is whole, so hidden names at the top of the work directory
// count unless they are known to run nothing. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace callgate {

/// How near the code is to being run. The footer names few files, and a run could make many.
enum class Urgency : std::uint8_t { at_once, next_command, unknown };
using Found = std::optional<Urgency>;

/// All names in a directory, but for the samples of hooks.
struct Counted {
    Found all;
    bool hooks = false;
};

/// `directory` lies beneath the work directory and ends with a slash; "" is itself.
[[nodiscard]] Counted counted_in(std::string_view directory);

/// `counted` is what counted_in() says of the directory. An empty result says that no tool runs code from it.
[[nodiscard]] Found urgency(std::string_view directory, const Counted& counted, std::string_view name);

/// The same of a link, which may stand for a directory on the way to what counts. The walk follows none.
[[nodiscard]] Found urgency_of_link(std::string_view directory, const Counted& counted,
                                    std::string_view name);

}  // namespace callgate
