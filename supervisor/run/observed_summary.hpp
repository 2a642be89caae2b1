// Calls that the rules would have denied in an audited run, by rule, operation and directory or host. They
// become the lines that close the run.
//
// Workers note decisions under one short lock. The target chooses names: the number of groups is bounded and
// the rest is counted. Texts are made terminal-safe when they are shown.
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
    /// Notes a decision that audit mode let pass although it is not `allow`.
    void note(const audit::Decision& decision);
    /// Lines that start with "callgate: ", most frequent rules and groups first. "" if nothing was noted.
    [[nodiscard]] std::string text() const;

private:
    struct Key {
        std::string rule;
        rules::Action action;
        rules::Operation operation;
        std::string place;
        auto operator<=>(const Key&) const = default;
    };
    /// A name stands for a place as long as it is the only one there.
    struct Seen {
        std::uint64_t count = 0;
        std::string name;
        bool others = false;
    };
    struct Line {
        rules::Action action;
        rules::Operation operation;
        std::string place;
        std::uint64_t count = 0;
        std::string name = {};  // "" if there are several
    };
    struct Group {
        std::string rule;
        std::uint64_t count = 0;
        std::vector<Line> lines;
    };
    [[nodiscard]] std::vector<Group> groups() const;
    static void append(std::string& text, const Group& group);

    mutable std::mutex lock_;
    std::map<Key, Seen> counts_;
    std::uint64_t unkept_ = 0;
};

}  // namespace callgate
