#include "base/process/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "base/result.hpp"
#include "base/write_all.hpp"

namespace callgate {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& all) {
    std::vector<char*> made;
    made.reserve(all.size() + 1);
    for (const std::string& one : all)
        made.push_back(const_cast<char*>(one.c_str()));  // execve only reads it
    made.push_back(nullptr);
    return made;
}

/// The data that the child needs. The child runs in this process's memory until it executes, while this
/// thread waits.
struct Start {
    const char* program;
    char* const* words;
    char* const* environment;
    std::span<const std::pair<int, int>> descriptors;
    const SignalState* signals;
    pid_t parent;
    int error = 0;
};

bool place_descriptors(const Start& start) {
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) return false;
    for (int standard = 0; standard <= 2; ++standard) {
        ::close(standard);
        if (::open("/dev/null", O_RDWR) != standard) return false;
    }
    for (const auto& [here, there] : start.descriptors)
        if (::dup2(here, there) < 0) return false;
    return true;
}

/// Async-signal-safe: other threads of this process may hold any lock.
int begin(void* argument) {
    auto& start = *static_cast<Start*>(argument);
    ::setsid();
    // A parent that died before this call sends no signal, and is not our parent any more.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == start.parent && place_descriptors(start)) {
        start.signals->restore_dispositions();
        start.signals->restore_mask();
        ::execve(start.program, start.words, start.environment);
    }
    start.error = errno == 0 ? ESRCH : errno;
    ::_exit(125);
}

}  // namespace

Result<Child> spawn(const char* program, const std::vector<std::string>& words,
                    const std::vector<std::string>& environment,
                    std::span<const std::pair<int, int>> descriptors, const SignalState& signals) {
    const std::vector<char*> argv = pointers(words), envp = pointers(environment);
    Start start{program, argv.data(), envp.data(), descriptors, &signals, ::getpid()};
    constexpr std::size_t stack_size = std::size_t{64} << 10U;
    alignas(16) std::array<std::byte, stack_size> stack;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    int pidfd = -1;
    const int pid = ::clone(begin, stack.data() + stack.size(),
                            CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &start, &pidfd);
    const boost::system::error_code failed = pid < 0 ? errno_code() : boost::system::error_code();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return failed;
    Child child{pid, UniqueFd(pidfd)};
    if (start.error == 0) return child;
    ::waitpid(pid, nullptr, 0);
    return errno_code(start.error);
}

int reap(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

Result<Pipe> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_code();
    const UniqueFd read(ends[0]);
    const UniqueFd write(ends[1]);
    Pipe pipe{UniqueFd(::fcntl(read.get(), F_DUPFD_CLOEXEC, first_descriptor)),
              UniqueFd(::fcntl(write.get(), F_DUPFD_CLOEXEC, first_descriptor))};
    if (!pipe.read || !pipe.write) return errno_code();
    return pipe;
}

Result<UniqueFd> make_file(std::string_view bytes) {
    const UniqueFd low(::memfd_create("callgate-job", MFD_CLOEXEC));
    if (!low) return errno_code();
    if (!write_all(low.get(), bytes) || ::lseek(low.get(), 0, SEEK_SET) != 0) return errno_code();
    UniqueFd file(::fcntl(low.get(), F_DUPFD_CLOEXEC, first_descriptor));
    if (!file) return errno_code();
    return file;
}

}  // namespace callgate
