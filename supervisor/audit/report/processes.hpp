// The processes that made calls, with their parents as far as these are on record.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "supervisor/audit/report/outcome.hpp"
#include "supervisor/audit/report/strings.hpp"

namespace callgate::audit::report {

struct Process {
    static constexpr std::uint32_t none = UINT32_MAX;
    int pid = 0, parent_pid = 0;
    std::uint64_t start_time = 0;
    std::uint32_t run = 0;
    std::uint32_t parent = none;            // its number, if the parent is on record too
    std::vector<std::uint32_t> programs{};  // one after the other
    std::int64_t first = 0, last = 0;       // microseconds since the epoch
    Tally calls{};
};

class Processes {
public:
    static constexpr std::size_t most = 20'000, max_programs = 16;

    explicit Processes(Strings& strings);

    /// Counts the call, and returns the number of its process. The first process stands for all unlisted
    /// ones.
    std::uint32_t add(const Entry& entry, std::uint32_t run, std::int64_t time, Outcome outcome);
    /// Joins children to parents. Call it once, after all records were added.
    void join();
    [[nodiscard]] const std::vector<Process>& all() const { return processes_; }

private:
    using Key = std::tuple<std::uint32_t, int, std::uint64_t>;
    Strings* strings_;
    std::map<Key, std::uint32_t>
        numbers_;  // by run, pid and start: a pid's processes in order of their start
    std::vector<Process> processes_;
};

}  // namespace callgate::audit::report
