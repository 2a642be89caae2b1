#include "supervisor/run/limits/unified_place.hpp"

#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace callgate::limits {

namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

bool names(const std::string& path, const std::string& controller) {
    std::ifstream file(path);
    for (std::string word; file >> word;)
        if (word == controller) return true;
    return false;
}

/// Whether this group sets no limit for its members. A missing file sets none.
bool is_open(const std::string& group) {
    for (const char* file : {"/memory.max", "/memory.high", "/memory.swap.max", "/pids.max", "/cpu.max"}) {
        const std::string value = first_line(group + file);
        if (!value.empty() && !value.starts_with("max")) return false;
    }
    return first_line(group + "/cpuset.cpus").empty() && first_line(group + "/io.max").empty();
}

bool writable(const std::string& group) {
    return ::access(group.c_str(), W_OK | X_OK) == 0 &&
           ::access((group + "/cgroup.procs").c_str(), W_OK) == 0;
}

/// systemd marks a delegated group by an extended attribute (systemd.resource-control(5), Delegate=).
bool is_delegated(const UnifiedGroup& group, std::string at) {
    for (; at.size() > group.mount.size(); at.erase(at.rfind('/'))) {
        std::array<char, 2> value{};
        if (::getxattr(at.c_str(), "user.delegate", value.data(), value.size()) == 1 && value[0] == '1')
            return true;
    }
    return false;
}

}  // namespace

std::optional<UnifiedGroup> unified_group(std::istream& mountinfo, std::istream& groups) {
    UnifiedGroup found;
    std::string root;
    for (std::string line; found.mount.empty() && std::getline(mountinfo, line);) {
        if (line.find(" - cgroup2 ") == std::string::npos) continue;
        std::istringstream fields(line);
        std::string number, parent, device;
        fields >> number >> parent >> device >> root >> found.mount;
    }
    std::string path;
    for (std::string line; path.empty() && std::getline(groups, line);)
        if (line.starts_with("0::/")) path = line.substr(3);
    if (found.mount.empty() || path.empty()) return std::nullopt;
    // The group lies outside the mount.
    if (path.starts_with("/..") || path.ends_with(" (deleted)")) return std::nullopt;
    if (root != "/") {
        if (path != root && !path.starts_with(root + "/")) return std::nullopt;
        path.erase(0, root.size());
    }
    found.own = found.mount + (path == "/" ? "" : path);
    return found;
}

std::optional<UnifiedPlace> unified_place(const UnifiedGroup& group, bool managed) {
    const auto offered = [](const std::string& parent) -> std::optional<UnifiedPlace> {
        const std::string list = parent + "/cgroup.subtree_control";
        UnifiedPlace place{parent, names(list, "memory"), names(list, "pids")};
        if ((!place.memory && !place.tasks) || !writable(parent)) return std::nullopt;
        return place;
    };
    if (!managed || is_delegated(group, group.own)) {
        if (auto beneath = offered(group.own)) return beneath;
    }
    if (group.own.size() <= group.mount.size() || !is_open(group.own)) return std::nullopt;
    const std::string parent = group.own.substr(0, group.own.rfind('/'));
    if (managed && !is_delegated(group, parent)) return std::nullopt;
    return offered(parent);
}

std::optional<UnifiedPlace> unified_place() {
    std::ifstream mountinfo("/proc/self/mountinfo"), groups("/proc/self/cgroup");
    const auto group = unified_group(mountinfo, groups);
    if (!group) return std::nullopt;
    return unified_place(*group, ::geteuid() == 0 && ::access("/run/systemd/system", F_OK) == 0);
}

}  // namespace callgate::limits
