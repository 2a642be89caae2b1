// The processes that asked, and who started whom, as far as the records tell.
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
    std::uint32_t parent = none;            // its number, where the parent is on record too
    std::vector<std::uint32_t> programs{};  // one after the other
    std::int64_t first = 0, last = 0;       // microseconds since the epoch
    Tally calls{};
};

class Processes {
public:
    static constexpr std::size_t most = 20'000, max_programs = 16;

    explicit Processes(Strings& strings);

    /// The number of the process that asked; counts the call. The first one stands for those that are not
    /// listed.
    std::uint32_t add(const Entry& entry, std::uint32_t run, std::int64_t time, Outcome outcome);
    /// Joins children to parents; to be called once, when all records were added.
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
