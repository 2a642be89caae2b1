// What an audited run would have been denied, gathered as it happens: by rule, operation and directory or
// host, for the lines that close the run.
//
// Thread-safe: receivers note decisions under one short lock. The target chooses names, so the number of
// groups kept is bounded (the rest is counted) and texts are made safe for a terminal when they are shown.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "supervisor/audit/write/record.hpp"

namespace callgate {

class ObservedSummary {
public:
    /// A decision that audit mode let pass although it is not `allow`.
    void note(const audit::Decision& decision);
    /// Lines prefixed "callgate: ", rules and groups most frequent first; "" where nothing was noted.
    [[nodiscard]] std::string text() const;

private:
    struct Key {
        std::string rule;
        rules::Action action;
        rules::Operation operation;
        std::string place;
        auto operator<=>(const Key&) const = default;
    };
    struct Line {
        rules::Action action;
        rules::Operation operation;
        std::string place;
        std::uint64_t count = 0;
    };
    struct Group {
        std::string rule;
        std::uint64_t count = 0;
        std::vector<Line> lines;
    };
    [[nodiscard]] std::vector<Group> groups() const;
    static void append(std::string& text, const Group& group);

    mutable std::mutex lock_;
    std::map<Key, std::uint64_t> counts_;
    std::uint64_t unkept_ = 0;
};

}  // namespace callgate
