#include "supervisor/audit/report/processes.hpp"

#include <algorithm>

namespace callgate::audit::report {

Processes::Processes(Strings& strings) : strings_(&strings) { processes_.emplace_back(); }

std::uint32_t Processes::add(const Entry& entry, std::uint32_t run, std::int64_t time, Outcome outcome) {
    const Key key{run, entry.pid, entry.start_time};
    std::uint32_t number = 0;
    if (const auto known = numbers_.find(key); known != numbers_.end()) {
        number = known->second;
    } else if (processes_.size() <= most) {
        number = static_cast<std::uint32_t>(processes_.size());
        numbers_.emplace(key, number);
        Process process{.pid = entry.pid, .parent_pid = entry.parent, .start_time = entry.start_time};
        process.run = run;
        process.first = time;
        processes_.push_back(std::move(process));
    }
    Process& process = processes_[number];
    process.last = std::max(process.last, time);
    count(process.calls, outcome);
    if (number == 0 || process.programs.size() == max_programs) return number;
    const auto program = strings_->add(entry.program);
    if (program && (process.programs.empty() || process.programs.back() != *program))
        process.programs.push_back(*program);
    return number;
}

void Processes::join() {
    for (std::uint32_t number = 1; number < processes_.size(); ++number) {
        Process& process = processes_[number];
        if (process.parent_pid == 0) continue;
        // Pids are used again. The parent is the last process with its pid that had begun by then.
        auto after = numbers_.upper_bound({process.run, process.parent_pid, process.start_time});
        if (after == numbers_.begin()) continue;
        --after;
        const auto& [run, pid, start] = after->first;
        // A process that is its own parent, or a cycle, is no tree. Both come only from an edited log.
        const bool earlier = after->second < number || start < process.start_time;
        if (run == process.run && pid == process.parent_pid && after->second != number && earlier)
            process.parent = after->second;
    }
}

}  // namespace callgate::audit::report
