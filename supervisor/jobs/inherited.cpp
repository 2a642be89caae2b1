#include "supervisor/jobs/inherited.hpp"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "agent/unique_fd.hpp"

namespace callgate::jobs {

namespace {

/// As far as one page of it goes; "" where it cannot be read.
std::string read_start(const char* path) {
    std::array<char, 4096> text;
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
    return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// For as many processors as the kernel's answer names; "" where they are more than 8192.
std::string allowed_processors() {
    std::array<char, 1024> mask;
    const long got = ::syscall(SYS_sched_getaffinity, 0, mask.size(), mask.data());
    return {mask.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

Inherited Inherited::current() {
    Inherited now;
    now.control_groups = read_start("/proc/self/cgroup");
    now.oom_score = read_start("/proc/self/oom_score_adj");
    for (std::size_t resource = 0; resource < now.limits.size(); ++resource)
        ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now.limits[resource]);
    now.nice = ::getpriority(PRIO_PROCESS, 0);
    now.scheduler = ::sched_getscheduler(0);
    now.io_priority = ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    now.processors = allowed_processors();
    return now;
}

bool Inherited::operator==(const Inherited& other) const {
    return control_groups == other.control_groups && oom_score == other.oom_score &&
           std::ranges::equal(limits, other.limits,
                              [](const rlimit& one, const rlimit& another) {
                                  return one.rlim_cur == another.rlim_cur && one.rlim_max == another.rlim_max;
                              }) &&
           nice == other.nice && scheduler == other.scheduler && io_priority == other.io_priority &&
           processors == other.processors;
}

}  // namespace callgate::jobs
