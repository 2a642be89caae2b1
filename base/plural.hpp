// A count with its noun: "1 record", "2 records".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace callgate {

[[nodiscard]] inline std::string plural(std::uint64_t count, std::string_view noun) {
    return std::to_string(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace callgate
