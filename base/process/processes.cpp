#include "base/process/processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "base/directory.hpp"
#include "base/unique_fd.hpp"

namespace callgate {
namespace {

// A process in an uninterruptible wait dies late. This is the longest pause before the next look.
constexpr int look_again_ms = 20;
// A sweep that still finds new processes after this many readings goes on to kill; the outer loop repeats it.
constexpr int max_stop_rounds = 64;

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
}

std::string_view next_field(std::string_view& rest) {
    const std::size_t start = std::min(rest.find_first_not_of(' '), rest.size());
    rest.remove_prefix(start);
    const std::string_view field = rest.substr(0, rest.find_first_of(" \n"));
    rest.remove_prefix(field.size());
    return field;
}

// The target chose the name in parentheses, which may hold anything: the fields begin after the last ')'.
std::optional<Process> parse_stat(pid_t pid, std::string_view text) {
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos) return std::nullopt;
    std::string_view rest = text.substr(name_end + 1);
    Process process;
    process.pid = pid;
    std::array<std::uint64_t, 4> times{};  // utime, stime, cutime, cstime
    for (int field = 3; field <= 24; ++field) {
        const std::string_view value = next_field(rest);
        if (value.empty()) return std::nullopt;
        bool good = true;
        if (field == 3) process.state = value.front();
        if (field == 4) good = parse_number(value, process.parent);
        if (field >= 14 && field <= 17)
            good = parse_number(value, times[static_cast<std::size_t>(field) - 14]);
        if (field == 20) good = parse_number(value, process.threads);
        if (field == 22) good = parse_number(value, process.start_time);
        if (field == 24) good = parse_number(value, process.resident_pages);
        if (!good) return std::nullopt;
    }
    process.ticks = times[0] + times[1];
    process.children_ticks = times[2] + times[3];
    return process;
}

// The pidfd of exactly this process. It is empty if the number belongs to another process by now.
UniqueFd pin(const Process& process) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0U)));
    if (!pidfd) return pidfd;
    const auto now = read_process(process.pid);
    if (!now || now->start_time != process.start_time) pidfd.reset();
    return pidfd;
}

// Within a run that decides signals, only kill(2) exists. The number was this process's a moment ago, and the
// run's supervisor lets it reach no process outside.
bool send(const UniqueFd& pidfd, pid_t process, int signal) {
    if (!pidfd) return false;
    if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0U) == 0) return true;
    return errno == ENOSYS && ::kill(process, signal) == 0;
}

using Identity = std::pair<pid_t, std::uint64_t>;

// Stopped processes do not fork. The child of a fork that was under way appears in the next reading.
void stop_descendants(pid_t root, const std::function<void()>& between) {
    std::set<Identity> seen;
    bool fresh = true;
    for (int round = 0; fresh && round < max_stop_rounds; ++round) {
        fresh = false;
        for_each_descendant(root, [&](const Process& process) {
            if (!process.alive() || !seen.emplace(process.pid, process.start_time).second) return;
            send(pin(process), process.pid, SIGSTOP);
            fresh = true;
        });
        if (between) between();
    }
}

}  // namespace

std::optional<Process> read_process(pid_t pid) {
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
    const UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::nullopt;
    std::array<char, 1024> text{};
    const ssize_t length = ::read(file.get(), text.data(), text.size());
    if (length <= 0) return std::nullopt;
    return parse_stat(pid, {text.data(), static_cast<std::size_t>(length)});
}

bool is_stopped(pid_t pid) {
    const auto process = read_process(pid);
    return process && process->state == 'T';
}

void for_each_descendant(pid_t root, const std::function<void(const Process&)>& visit) {
    const Directory proc(::opendir("/proc"));
    if (!proc) return;
    const auto first = read_process(root);
    if (!first) return;
    Family family(*first);
    std::vector<Process> others;
    // /proc lists by number, and most parents have the lower number: most are known while the list is still
    // read.
    while (const dirent* entry = ::readdir(proc.get())) {
        pid_t pid = 0;
        if (!parse_number(std::string_view(entry->d_name), pid)) continue;
        const auto process = read_process(pid);
        if (!process || pid == root) continue;
        if (family.holds_parent_of(*process)) {
            family.add(*process);
            visit(*process);
        } else {
            others.push_back(*process);
        }
    }
    for (bool found = true; found;) {
        found = false;
        for (Process& process : others) {
            if (process.pid == 0 || !family.holds_parent_of(process)) continue;
            family.add(process);
            visit(process);
            process.pid = 0;
            found = true;
        }
    }
}

std::vector<pid_t> descendants(pid_t root) {
    std::vector<pid_t> living;
    for_each_descendant(root, [&](const Process& process) {
        if (process.alive()) living.push_back(process.pid);
    });
    return living;
}

void signal_processes(const std::vector<Process>& processes, int signal) {
    for (const Process& process : processes) send(pin(process), process.pid, signal);
}

void signal_descendants(pid_t root, std::initializer_list<int> signals) {
    for_each_descendant(root, [&](const Process& process) {
        if (!process.alive()) return;
        const UniqueFd pidfd = pin(process);
        for (const int signal : signals) send(pidfd, process.pid, signal);
    });
}

std::size_t end_descendants(pid_t root, const std::function<void()>& between) {
    std::set<Identity> killed;
    for (;;) {
        stop_descendants(root, between);
        bool alive = false;
        UniqueFd last;
        for_each_descendant(root, [&](const Process& process) {
            if (!process.alive()) return;
            alive = true;
            UniqueFd pidfd = pin(process);
            if (!send(pidfd, process.pid, SIGKILL)) return;
            killed.emplace(process.pid, process.start_time);
            last = std::move(pidfd);
        });
        if (!alive) return killed.size();
        pollfd death{last.get(), POLLIN, 0};
        ::poll(&death, 1, look_again_ms);
        if (between) between();
    }
}

}  // namespace callgate
