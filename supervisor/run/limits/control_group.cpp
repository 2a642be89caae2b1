#include "supervisor/run/limits/control_group.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/unique_fd.hpp"
#include "supervisor/run/limits/unified_place.hpp"

namespace callgate::limits {

namespace {

Result<void> write_file(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return errno_code();
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0) return errno_code();
    if (written != static_cast<ssize_t>(text.size())) return errno_code(EIO);
    return {};
}

bool holds_word(std::string_view list, std::string_view word) {
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        if (list.substr(at, end - at) == word) return true;
        at = end + 1;
    }
    return false;
}

/// The mount of a controller's hierarchy, and the group that is its root (mountinfo, proc(5)).
struct Mount {
    std::string root, point;
};
std::optional<Mount> mount_of(std::string_view controller) {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const std::size_t dash = line.find(" - cgroup ");
        if (dash == std::string::npos) continue;
        if (!holds_word(std::string_view(line).substr(line.rfind(' ') + 1), controller)) continue;
        std::istringstream fields(line);
        std::string number, parent, device;
        Mount mount;
        if (fields >> number >> parent >> device >> mount.root >> mount.point) return mount;
    }
    return std::nullopt;
}

/// The directory of the group that this process is in, if it can be found.
std::optional<std::string> own_group(std::string_view controller) {
    const std::optional<Mount> mount = mount_of(controller);
    if (!mount) return std::nullopt;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "8:pids:/path"
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        if (!holds_word(std::string_view(line).substr(first + 1, second - first - 1), controller)) continue;
        std::string path = line.substr(second + 1);
        if (mount->root != "/") {
            if (!path.starts_with(mount->root)) return std::nullopt;
            path.erase(0, mount->root.size());
        }
        return mount->point + (path == "/" ? "" : path);
    }
    return std::nullopt;
}

std::uint64_t number_in(const std::string& path) {
    std::ifstream file(path);
    std::uint64_t number = 0;
    file >> number;
    return number;
}

/// The number after `key` in a file of "KEY NUMBER" lines.
std::uint64_t event_in(const std::string& path, std::string_view key) {
    std::ifstream file(path);
    std::string name;
    std::uint64_t number = 0;
    while (file >> name >> number)
        if (name == key) return number;
    return 0;
}

/// Makes a group, and notes it for the guardian. False if it cannot be made.
bool make_group(const std::string& path, bool unified, agent::CreatedIpc::Group& note) {
    if (path.size() >= note.path.size()) return false;
    // The note comes first: a supervisor that is killed in between leaves no group.
    std::copy(path.begin(), path.end(), note.path.begin());
    note.unified.store(unified);
    note.used.store(true);
    if (::mkdir(path.c_str(), 0700) == 0) return true;
    note.used.store(false);
    return false;
}

void remove_group(agent::CreatedIpc::Group& note) {
    agent::remove_group(note);
    note.used.store(false);
}

/// Makes a group of version 1 with one limit; "" if it cannot be made.
std::string limited_group(const std::string& controller, const std::string& run,
                          const std::string& limit_file, std::uint64_t limit,
                          agent::CreatedIpc::Group& note) {
    const std::optional<std::string> parent = own_group(controller);
    if (!parent) return "";
    const std::string path = *parent + "/callgate-" + run;
    if (!make_group(path, false, note)) return "";
    if (write_file(path + "/" + limit_file, std::to_string(limit))) return path;
    remove_group(note);
    return "";
}

/// An eventfd that a group of version 1 makes readable when it is out of memory (cgroup-v1/memory.rst, 9 and
/// 10).
UniqueFd out_of_memory_in(const std::string& group) {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const UniqueFd control(::open((group + "/memory.oom_control").c_str(), O_RDONLY | O_CLOEXEC));
    const std::string line = std::to_string(event.get()) + " " + std::to_string(control.get());
    if (!event || !control || !write_file(group + "/cgroup.event_control", line)) return {};
    return event;
}

bool readable(const UniqueFd& event) {
    pollfd ready{event.get(), POLLIN, 0};
    return event && ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0;
}

}  // namespace

ControlGroups::ControlGroups(const std::string& run, const rules::Limits& limits, agent::CreatedIpc& made)
    : made_(made) {
    if (limits.memory) {
        memory_ = limited_group("memory", run, "memory.limit_in_bytes", *limits.memory, made.groups[0]);
        // This limit counts swapped pages too; a kernel without that accounting has no such file.
        if (!memory_.empty()) {
            (void)write_file(memory_ + "/memory.memsw.limit_in_bytes", std::to_string(*limits.memory));
            out_of_memory_ = out_of_memory_in(memory_);
        }
    }
    if (limits.processes) tasks_ = limited_group("pids", run, "pids.max", *limits.processes, made.groups[1]);
    make_unified(run, limits);
}

/// A controller is in one hierarchy only: version 2 may have the ones that version 1 lacks.
void ControlGroups::make_unified(const std::string& run, const rules::Limits& limits) {
    const bool for_memory = limits.memory && memory_.empty(), for_tasks = limits.processes && tasks_.empty();
    const auto place = for_memory || for_tasks ? unified_place() : std::nullopt;
    if (!place || !((for_memory && place->memory) || (for_tasks && place->tasks))) return;
    const std::string path = place->parent + "/callgate-" + run;
    agent::CreatedIpc::Group& note = made_.groups[2];
    if (!make_group(path, true, note)) return;
    unified_ = path;
    if (for_memory && place->memory && write_file(path + "/memory.max", std::to_string(*limits.memory))) {
        memory_ = path;
        // No page is swapped out, and the kernel kills the whole group when it takes too much.
        (void)write_file(path + "/memory.swap.max", "0");
        (void)write_file(path + "/memory.oom.group", "1");
    }
    if (for_tasks && place->tasks && write_file(path + "/pids.max", std::to_string(*limits.processes)))
        tasks_ = path;
    if (memory_ != path && tasks_ != path) give_up_unified();
}

void ControlGroups::give_up_unified() {
    remove_group(made_.groups[2]);
    if (memory_ == unified_) memory_.clear();
    if (tasks_ == unified_) tasks_.clear();
    unified_.clear();
}

Result<void> ControlGroups::add(pid_t process) {
    const std::string number = std::to_string(process);
    // Only an attempt shows whether the process may be moved (a delegation that ends below the group above).
    if (!unified_.empty() && !write_file(unified_ + "/cgroup.procs", number)) give_up_unified();
    for (const std::string* group : {&memory_, &tasks_}) {
        if (group->empty() || *group == unified_) continue;
        if (auto added = write_file(*group + "/cgroup.procs", number); !added) return added;
    }
    return {};
}

std::optional<Outcome> ControlGroups::exceeded() const {
    const char* const events = memory_ == unified_ ? "/memory.events" : "/memory.oom_control";
    if (hold_memory() && (readable(out_of_memory_) || event_in(memory_ + events, "oom_kill") != 0))
        return Outcome::memory;
    if (hold_tasks() && event_in(tasks_ + "/pids.events", "max") != 0) return Outcome::processes;
    return std::nullopt;
}

std::uint64_t ControlGroups::peak_memory() const {
    if (memory_ == unified_) return number_in(memory_ + "/memory.peak");  // from Linux 5.19 on
    const std::uint64_t with_swap = number_in(memory_ + "/memory.memsw.max_usage_in_bytes");
    return std::max(with_swap, number_in(memory_ + "/memory.max_usage_in_bytes"));
}

std::uint64_t ControlGroups::peak_tasks() const {
    const std::uint64_t peak = number_in(tasks_ + "/pids.peak");  // from Linux 6.1 on
    return peak != 0 ? peak : number_in(tasks_ + "/pids.current");
}

}  // namespace callgate::limits
