#include "supervisor/limits/control_group.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "agent/unique_fd.hpp"

namespace callgate::limits {

namespace {

bool write_file(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool holds_word(std::string_view list, std::string_view word) {
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        if (list.substr(at, end - at) == word) return true;
        at = end + 1;
    }
    return false;
}

/// Where this controller's hierarchy is mounted, and which of its groups is the mount's root (mountinfo,
/// proc(5)).
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

/// The directory of the group that this process is in; "" where it cannot be told.
std::string own_group(std::string_view controller) {
    const std::optional<Mount> mount = mount_of(controller);
    if (!mount) return "";
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "8:pids:/path"
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        if (!holds_word(std::string_view(line).substr(first + 1, second - first - 1), controller)) continue;
        std::string path = line.substr(second + 1);
        if (mount->root != "/") {
            if (!path.starts_with(mount->root)) return "";
            path.erase(0, mount->root.size());
        }
        return mount->point + (path == "/" ? "" : path);
    }
    return "";
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

/// A new group with one limit, noted where the guardian finds it; "" where that cannot be.
std::string make_group(const std::string& controller, const std::string& run, const std::string& limit_file,
                       std::uint64_t limit, agent::MadeObjects::Group& note) {
    const std::string parent = own_group(controller);
    const std::string path = parent + "/callgate-" + run;
    if (parent.empty() || path.size() >= note.path.size()) return "";
    // Noted first: whoever is killed in between leaves nothing.
    std::copy(path.begin(), path.end(), note.path.begin());
    note.used.store(true);
    if (::mkdir(path.c_str(), 0700) != 0) {
        note.used.store(false);
        return "";
    }
    if (write_file(path + "/" + limit_file, std::to_string(limit))) return path;
    ::rmdir(path.c_str());
    note.used.store(false);
    return "";
}

}  // namespace

ControlGroups::ControlGroups(const std::string& run, const rules::Limits& limits, agent::MadeObjects& made) {
    if (limits.memory) {
        memory_ = make_group("memory", run, "memory.limit_in_bytes", *limits.memory, made.groups[0]);
        // With what is swapped out; a kernel without that accounting has no such file.
        if (!memory_.empty())
            (void)write_file(memory_ + "/memory.memsw.limit_in_bytes", std::to_string(*limits.memory));
    }
    if (limits.processes) tasks_ = make_group("pids", run, "pids.max", *limits.processes, made.groups[1]);
}

bool ControlGroups::add(pid_t process) const {
    for (const std::string* group : {&memory_, &tasks_})
        if (!group->empty() && !write_file(*group + "/cgroup.procs", std::to_string(process))) return false;
    return true;
}

std::optional<std::string> ControlGroups::exceeded() const {
    if (hold_memory() && event_in(memory_ + "/memory.oom_control", "oom_kill") != 0) return "memory";
    if (hold_tasks() && event_in(tasks_ + "/pids.events", "max") != 0) return "processes";
    return std::nullopt;
}

std::uint64_t ControlGroups::peak_memory() const {
    const std::uint64_t with_swap = number_in(memory_ + "/memory.memsw.max_usage_in_bytes");
    return std::max(with_swap, number_in(memory_ + "/memory.max_usage_in_bytes"));
}

std::uint64_t ControlGroups::peak_tasks() const {
    const std::uint64_t peak = number_in(tasks_ + "/pids.peak");  // from Linux 6.1 on
    return peak != 0 ? peak : number_in(tasks_ + "/pids.current");
}

}  // namespace callgate::limits
