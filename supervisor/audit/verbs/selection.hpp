// The filters of show.hpp, checked and compiled.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "base/expected.hpp"
#include "rules/model/glob.hpp"
#include "rules/model/operation.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/show.hpp"

namespace callgate::audit {

class Selection {
public:
    /// Fails if a filter is malformed. `now` is what time spans count back from.
    static Expected<Selection> make(const Filter& filter, std::time_t now);
    /// Takes records in the log's order, because they tell which processes a process started.
    [[nodiscard]] bool matches(const Entry& entry);

private:
    [[nodiscard]] Expected<void> read(const Filter& filter, std::time_t now);
    [[nodiscard]] bool read_tree(const std::string& text);
    [[nodiscard]] bool in_tree(const Entry& entry);

    Filter filter_;
    std::map<int, std::uint64_t> tree_;  // pids in it, with the start of each; 0: not known yet
    bool decisions_only_ = false;
    rules::OperationSet operations_;
    std::optional<rules::Glob> object_, program_;
};

/// Parses a time (Filter::since) into the form of records, in which texts compare as times do. Empty if
/// malformed.
[[nodiscard]] std::optional<std::string> parse_time(const std::string& text, std::time_t now);

}  // namespace callgate::audit
