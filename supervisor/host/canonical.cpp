#include "supervisor/host/canonical.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/open_without_links.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

namespace {

/// The walk of canonical() along a path.
struct Walk {
    std::string done;     // absolute without a final slash; "" is the root
    std::string pending;  // components, separated by slashes
    int links = 0;
    std::unordered_set<std::string>* plain = nullptr;  // names that were found to be no links
    FollowedLinks* followed = nullptr;

    std::string next() {
        const std::size_t begin = std::min(pending.find_first_not_of('/'), pending.size());
        const std::size_t end = std::min(pending.find('/', begin), pending.size());
        std::string component = pending.substr(begin, end - begin);
        pending.erase(0, end);
        return component;
    }
};

constexpr int max_links = 40;  // as the kernel's MAXSYMLINKS

/// Whether this user could have made the link to `target` at `directory`/`name`. The directory is opened
/// without following links, so another one that was swapped in does not speak for it.
bool could_be_ours(const std::string& directory, const std::string& name, std::string_view target) {
    const UniqueFd above =
        open_without_links(directory.empty() ? "/" : directory.c_str(), O_PATH | O_DIRECTORY);
    struct stat status {};
    char now[4096];
    if (!above || ::fstatat(above.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        status.st_uid == ::geteuid() || ::faccessat(above.get(), ".", W_OK, AT_EACCESS) == 0)
        return true;
    const ssize_t length = ::readlinkat(above.get(), name.c_str(), now, sizeof now);
    return length < 0 || std::string_view(now, static_cast<std::size_t>(length)) != target;
}

/// Follows the link at `at`, if there is one. Links of procfs are kept: their targets depend on the process
/// that asks.
bool follow(Walk& walk, const std::string& at) {
    if (walk.done == "/proc" || walk.done.starts_with("/proc/")) return false;
    if (walk.plain != nullptr && walk.plain->contains(at)) return false;
    char target[4096];
    const ssize_t length = ::readlink(at.c_str(), target, sizeof target);
    if (length < 0 && walk.plain != nullptr) walk.plain->insert(at);
    if (length <= 0 || length == static_cast<ssize_t>(sizeof target) || ++walk.links > max_links)
        return false;
    const std::string_view led(target, static_cast<std::size_t>(length));
    if (walk.followed != nullptr)
        walk.followed->push_back({at, could_be_ours(walk.done, at.substr(walk.done.size() + 1), led)});
    walk.pending.insert(0, std::string(led) + "/");
    if (target[0] == '/') walk.done.clear();
    return true;
}

std::string finish(Walk walk) {
    while (true) {
        const std::string component = walk.next();
        if (component.empty()) break;
        if (component == ".") continue;
        if (component == "..") {
            walk.done.erase(std::min(walk.done.rfind('/'), walk.done.size()));
            continue;
        }
        std::string at = walk.done + "/" + component;
        if (!follow(walk, at)) walk.done = std::move(at);
    }
    return walk.done.empty() ? "/" : walk.done;
}

/// Others may not write it: neither by its mode nor as its owner. The group of a user's own, as many systems
/// make it, has the user's number and counts as the user.
bool is_only_ours(const struct stat& status) {
    const bool own_group = status.st_gid == ::getegid() && status.st_gid == ::geteuid();
    return (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & S_IWOTH) == 0 &&
           ((status.st_mode & S_IWGRP) == 0 || own_group);
}

}  // namespace

std::string CanonicalNames::operator()(const std::string& path) const {
    return finish(Walk{.done = "", .pending = path, .plain = plain.get(), .followed = followed});
}

std::string canonical(const std::string& path) { return finish(Walk{.done = "", .pending = path}); }

std::string canonical(const std::string& path, FollowedLinks& followed) {
    return finish(Walk{.done = "", .pending = path, .followed = &followed});
}

std::string own_name(const std::string& path) {
    FollowedLinks ignored;
    return own_name(path, ignored);
}

std::string own_name(const std::string& path, FollowedLinks& followed) {
    if (!check_enabled("output-link")) return canonical(path, followed);
    const std::size_t slash = path.rfind('/');
    const std::string parent = canonical(path.substr(0, slash), followed);
    return (parent == "/" ? "" : parent) + path.substr(slash);
}

Expected<void> is_only_ours(const std::string& path) {
    if (!check_enabled("own-link-target")) return {};
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    if (!is_only_ours(status)) return Problem{"which others may write"};
    const std::string above = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    if (::lstat(above.c_str(), &status) != 0 || (!is_only_ours(status) && (status.st_mode & S_ISVTX) == 0))
        return Problem{"which lies in a directory that others may write"};
    return {};
}

bool is_link(const std::string& path) {
    struct stat status {};
    return check_enabled("rule-file-link") && ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace callgate
