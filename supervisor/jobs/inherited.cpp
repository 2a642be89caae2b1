#include "supervisor/jobs/inherited.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/io_priority.hpp"
#include "base/unique_fd.hpp"

namespace callgate::jobs {

namespace {

/// The first page of a file in this process's /proc directory; "" where it cannot be read. The file is opened
/// once, and each reading from its beginning shows the present state.
class OwnFile {
public:
    explicit OwnFile(const char* path) : file_(::open(path, O_RDONLY | O_CLOEXEC)) {}
    [[nodiscard]] std::string read() const {
        std::array<char, 4096> text;
        const ssize_t got = file_ ? ::pread(file_.get(), text.data(), text.size(), 0) : -1;
        return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
    }

private:
    UniqueFd file_;
};

/// The mask of processors; "" where there are more than 8192.
std::string allowed_processors() {
    std::array<char, 1024> mask;
    const long got = ::syscall(SYS_sched_getaffinity, 0, mask.size(), mask.data());
    return {mask.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

Inherited Inherited::current() {
    static const OwnFile control_groups("/proc/self/cgroup"), oom_score("/proc/self/oom_score_adj");
    Inherited now;
    now.control_groups = control_groups.read();
    now.oom_score = oom_score.read();
    for (std::size_t resource = 0; resource < now.limits.size(); ++resource)
        ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now.limits[resource]);
    now.nice = ::getpriority(PRIO_PROCESS, 0);
    now.scheduler = ::sched_getscheduler(0);
    now.io_priority = ::syscall(SYS_ioprio_get, io_priority_of_process, 0);
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
