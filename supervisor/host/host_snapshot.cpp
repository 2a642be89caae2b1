#include "supervisor/host/host_snapshot.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "supervisor/host/host.hpp"

namespace callgate {

namespace {

HostSnapshot* noted = nullptr;

bool is_link_to(const std::string& path, const std::string& target) {
    char now[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), now, sizeof now);
    return target == std::string_view(now, length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace

HostSnapshot::Object HostSnapshot::look(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_mode & S_IFMT, status.st_uid};
}

void HostSnapshot::object(const std::string& path) { objects_.push_back({path, look(path)}); }

bool HostSnapshot::cover(ChangeWatch& watch) {
    const auto is_of_kernel = [](const std::string& path) {
        return path.starts_with("/proc/") || path.starts_with("/sys/");
    };
    uncovered_links_.clear();
    for (const auto& link : links_)
        if (!watch.covers_name(link.first)) uncovered_links_.push_back(&link);
    bool all = true;
    for (Named& one : objects_) {
        one.covered = watch.covers_name(one.path);
        all = all && (one.covered || one.object.kind == 0 || is_of_kernel(one.path));
    }
    return all;
}

bool HostSnapshot::still_true(bool quiet) const {
    const auto is_same_link = [](const Links::value_type& one) { return is_link_to(one.first, one.second); };
    const bool links =
        quiet ? std::ranges::all_of(uncovered_links_, [&](const auto* one) { return is_same_link(*one); })
              : std::ranges::all_of(links_, is_same_link);
    return lasting_ && links &&
           std::ranges::all_of(objects_,
                               [quiet](const Named& one) {
                                   return (quiet && one.covered) || look(one.path) == one.object;
                               }) &&
           std::ranges::all_of(
               files_, [](const File& one) { return read_regular_file(one.path, one.limit) == one.answer; });
}

void note_facts(HostSnapshot* facts) { noted = facts; }
HostSnapshot* noted_facts() { return noted; }

}  // namespace callgate
