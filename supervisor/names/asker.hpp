// The process behind a query, as it was when it made its socket or connected it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "rules/match/rule_set.hpp"
#include "rules/model/request.hpp"

namespace callgate::names {

struct Asker {
    pid_t process = 0, parent = 0;
    std::uint64_t start_time = 0;
    std::string program;
    std::optional<rules::Party> party{};  // where the rules know parties
    /// The rules that judge it where a nested run has its own; null: the run's. They live as long as the run.
    const rules::RuleSet* rules = nullptr;
};

}  // namespace callgate::names
