// Properties that a process inherits when it starts, and that others can change at any time: control group,
// limits, priorities, processors. A run that was started before such a change must not do a job after it.
#pragma once

#include <sys/resource.h>

#include <array>
#include <string>

namespace callgate::jobs {

struct Inherited {
    /// Reads those of the calling process. Always called by the same thread.
    [[nodiscard]] static Inherited current();
    [[nodiscard]] bool operator==(const Inherited& other) const;

    std::string control_groups, oom_score;      // files of proc_pid(5)
    std::array<rlimit, RLIM_NLIMITS> limits{};  // getrlimit(2)
    int nice = 0, scheduler = 0;
    long io_priority = 0;
    std::string processors;  // sched_getaffinity(2)
};

}  // namespace callgate::jobs
