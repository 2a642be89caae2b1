// The process behind a query, as it was when it made its socket or connected it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "rules/model/request.hpp"

namespace callgate::calls {
struct DecideNeeds;
}

namespace callgate::names {

struct Asker {
    pid_t process = 0, parent = 0;
    std::uint64_t start_time = 0;
    std::string program;
    std::optional<rules::Party> party{};  // where the rules know parties
    /// The judges of a nested run that it is of; null: those of the run. They live as long as the run.
    const calls::DecideNeeds* judges = nullptr;
};

}  // namespace callgate::names
