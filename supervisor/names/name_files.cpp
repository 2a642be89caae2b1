#include "supervisor/names/name_files.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "rules/model/address.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::names {

namespace {

constexpr std::array<const char*, 3> name_files{"/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts"};
constexpr std::size_t max_name_file = std::size_t{1} << 20U, max_addresses_of_host = 8;

template <typename Act>
void each_line(std::string_view text, Act act) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        act(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// Whether a line is about `word`, as the C library reads it: the word begins the line.
bool begins(std::string_view line, std::string_view word) {
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos || !line.substr(start).starts_with(word)) return false;
    const std::string_view rest = line.substr(start + word.size());
    return rest.empty() || rest.front() == ' ' || rest.front() == '\t' || rest.front() == ':';
}

/// The number in a file of /proc/sys; -1 if there is no such file.
long setting(const char* path) {
    const auto text = read_regular_file(path, 64);
    if (!text || text->empty()) return -1;
    return std::strtol(text->c_str(), nullptr, 10);
}

/// A process that begins in a user namespace of its own, and ends at once.
bool user_namespace_can_be_made() {
    alignas(16) static std::array<char, 16384> stack;
    const int child = ::clone([](void*) -> int { return 0; }, stack.data() + stack.size(),
                              CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | SIGCHLD, nullptr);
    if (child < 0) return false;
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return true;
}

}  // namespace

std::optional<NameFile> name_file(const struct stat& object) {
    for (std::size_t index = 0; index < name_files.size(); ++index) {
        struct stat status {};
        if (::stat(name_files[index], &status) == 0 && status.st_dev == object.st_dev &&
            status.st_ino == object.st_ino)
            return static_cast<NameFile>(index);
    }
    return std::nullopt;
}

std::vector<std::string> paths_of_name_files() {
    std::vector<std::string> paths;
    for (const char* const name : name_files)
        if (::access(name, F_OK) == 0) paths.push_back(canonical(name));
    return paths;
}

std::string text_of(NameFile file) {
    auto text = read_regular_file(name_files[static_cast<std::size_t>(file)], max_name_file);
    return text ? std::move(*text) : "";
}

std::string switch_text(std::string_view own) {
    std::string text;
    each_line(own, [&text](std::string_view line) {
        if (!begins(line, "hosts")) text.append(line).append("\n");
    });
    return text + "hosts: file dns files\n";
}

std::string servers_text(std::string_view own, bool patient) {
    std::string text;
    each_line(own, [&text](std::string_view line) {
        if (!begins(line, "nameserver")) text.append(line).append("\n");
    });
    text += "nameserver 127.0.0.1\noptions use-vc";
    if (patient) text += " timeout:30 attempts:5";
    return text + "\n";
}

std::string hosts_text(std::string_view own, const std::vector<HostLine>& more) {
    std::string text(own);
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    for (const auto& [name, addresses] : more) {
        std::array<std::size_t, 2> count{};
        for (const rules::IpAddress& address : addresses)
            if (count[address.v6 ? 1 : 0]++ < max_addresses_of_host)
                text.append(rules::text(address)).append(" ").append(name).append("\n");
    }
    return text;
}

std::string_view room_obstacle() {
    if (setting("/proc/sys/user/max_user_namespaces") == 0) return "user.max_user_namespaces is 0";
    if (setting("/proc/sys/user/max_net_namespaces") == 0) return "user.max_net_namespaces is 0";
    if (::geteuid() != 0) {
        if (setting("/proc/sys/kernel/unprivileged_userns_clone") == 0)
            return "kernel.unprivileged_userns_clone is 0";
        if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
            return "kernel.apparmor_restrict_unprivileged_userns is 1";
    }
    if (!user_namespace_can_be_made()) return "the kernel or a container refuses new user namespaces";
    return "";
}

}  // namespace callgate::names
