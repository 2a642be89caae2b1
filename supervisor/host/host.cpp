#include "supervisor/host/host.hpp"

#include <fcntl.h>
#include <mntent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <unordered_set>

#include "agent/landlock.hpp"
#include "base/directory.hpp"
#include "base/open_without_links.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/host/name_service.hpp"
#include "supervisor/host/own_addresses.hpp"

namespace callgate {

namespace {

/// An absolute directory from the environment; the base directory specification ignores relative ones.
std::string absolute_variable(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? value : "";
}

bool is_directory(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Whether lstat(2) shows a directory of this user at `path`. A link that another user planted is not
/// followed.
bool is_our_directory(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

/// Why a file that is not regular cannot be a rule file.
std::string kind_message(mode_t mode) {
    if (S_ISDIR(mode)) return "is a directory, not a file";
    if (S_ISFIFO(mode)) return "is a FIFO, not a regular file";
    if (S_ISSOCK(mode)) return "is a socket, not a regular file";
    return "is a device, not a regular file";
}

unsigned long link_count(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode) ? status.st_nlink : 0;
}

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

/// `canonical` for the hundreds of patterns of one rule set, whose heads share most of their components.
struct CachedCanonical {
    std::shared_ptr<std::unordered_set<std::string>> plain =
        std::make_shared<std::unordered_set<std::string>>();
    FollowedLinks* followed = nullptr;
    std::string operator()(const std::string& path) const {
        return finish(Walk{.done = "", .pending = path, .plain = plain.get(), .followed = followed});
    }
};

std::string home_directory(const CachedCanonical& canonical) {
    if (std::string home = absolute_variable("HOME"); !home.empty()) return canonical(home);
    const std::string home = home_of(::getuid());
    return home.starts_with('/') ? canonical(home) : "";
}

/// The home that log-ins use. A run must not write there what the next log-in runs, whatever HOME says.
std::string account_home(const CachedCanonical& canonical, const std::string& home) {
    const std::string account = check_enabled("account-home") ? home_of(::getuid()) : "";
    if (!account.starts_with('/') || account == "/") return "";
    std::string resolved = canonical(account);
    return resolved == home ? "" : resolved;
}

std::string runtime_directory(const CachedCanonical& canonical) {
    if (const std::string base = absolute_variable("XDG_RUNTIME_DIR"); !base.empty())
        return canonical(base + "/callgate");
    if (const std::string base = user_runtime_directory(); is_our_directory(base)) return base + "/callgate";
    // The name is known to all users, and any of them may have put a link there: it is not followed.
    std::string name = "/callgate-" + std::to_string(::getuid());
    return check_enabled("shared-name") ? canonical("/tmp") + name : canonical("/tmp" + name);
}

std::string under_home(const CachedCanonical& canonical, const char* variable, const std::string& home,
                       const char* beneath) {
    if (const std::string base = absolute_variable(variable); !base.empty())
        return canonical(base + "/callgate");
    return home.empty() ? "" : canonical(home + beneath);
}

/// Adds the links that lie in callgate's own directory, as managers of dotfiles make them.
void add_linked_files(Places& places, const std::string& directory) {
    const Directory open_directory(::opendir(directory.c_str()));
    while (const dirent* const entry = open_directory ? ::readdir(open_directory.get()) : nullptr) {
        if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) continue;
        std::string name = directory + "/" + entry->d_name;
        const std::size_t before = places.links.size();
        std::string real = canonical(name, places.links);
        if (places.links.size() > before) places.linked.push_back({std::move(name), std::move(real)});
    }
}

/// Others may not write it: neither by its mode nor as its owner. The group of a user's own, as many systems
/// make it, has the user's number and counts as the user.
bool is_only_ours(const struct stat& status) {
    const bool own_group = status.st_gid == ::getegid() && status.st_gid == ::geteuid();
    return (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & S_IWOTH) == 0 &&
           ((status.st_mode & S_IWGRP) == 0 || own_group);
}

rules::Rule built_in_rule(std::string id, rules::OperationSet operations, std::string reason) {
    rules::Rule rule;
    rule.id = std::move(id);
    rule.action = rules::Action::deny;
    rule.operations = operations;
    rule.reason = std::move(reason);
    rule.built_in = true;
    rule.source.file = "built-in";
    return rule;
}

void add_directories(std::vector<rules::Rule>& all, const Places& places) {
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule files = built_in_rule("callgate-directories", closed, "callgate's own files");
    rules::Rule sockets =
        built_in_rule("callgate-sockets", rules::network_operations, "callgate's own sockets");
    std::vector<std::string> directories = {places.state, places.runtime};
    if (!places.config.empty()) directories.push_back(places.config + "/pending");
    for (const std::string& directory : directories) {
        if (directory.empty()) continue;
        files.when.path.push_back(rules::Glob::beneath(directory));
        sockets.when.unix_socket.push_back(rules::Glob::beneath(directory));
    }
    if (files.when.path.empty()) return;
    all.push_back(std::move(files));
    all.push_back(std::move(sockets));
}

/// Closes the homes of other work directories: they hold logins.
void add_homes(std::vector<rules::Rule>& all, const Places& places, const std::string& home) {
    if (places.homes.empty()) return;
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    const bool own = home.starts_with(places.homes + "/");
    rules::Rule files = built_in_rule("callgate-homes", closed, "the homes of other work directories");
    rules::Rule sockets = built_in_rule("callgate-homes-sockets", rules::network_operations,
                                        "the homes of other work directories");
    files.when.path.push_back(rules::Glob::beneath(places.homes));
    sockets.when.unix_socket.push_back(rules::Glob::beneath(places.homes));
    if (own) files.except.emplace().path.push_back(rules::Glob::beneath(home));
    if (own) sockets.except.emplace().unix_socket.push_back(rules::Glob::beneath(home));
    all.push_back(std::move(files));
    all.push_back(std::move(sockets));
}

/// Closes the queues' file system where it is mounted (mq_overview(7)). There open(2) gives a queue as
/// mq_open(3) does, and unlink(2) removes one.
void add_queues(std::vector<rules::Rule>& all) {
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule rule =
        built_in_rule("callgate-queues", closed, "a run reaches message queues by mq_open(3) alone");
    const std::unique_ptr<FILE, int (*)(FILE*)> mounts(::setmntent("/proc/self/mounts", "re"), ::endmntent);
    while (const mntent* const mount = mounts ? ::getmntent(mounts.get()) : nullptr) {
        if (std::string_view(mount->mnt_type) == "mqueue")
            rule.when.path.push_back(rules::Glob::beneath(mount->mnt_dir));
    }
    if (!rule.when.path.empty()) all.push_back(std::move(rule));
}

/// Adds the file and, if it is a link, the link's own name: replacing the link replaces the rules, too.
void add_file(rules::Rule& rule, const std::string& file) {
    const std::string resolved = canonical(file);
    rule.when.path.push_back(rules::Glob::literal(resolved));
    if (file.find('/') == std::string::npos) return;
    if (const std::string name = own_name(file); name != resolved)
        rule.when.path.push_back(rules::Glob::literal(name));
}

/// The links that later runs come through, and what they lead to.
void add_links(rules::Rule& rule, const Places& places) {
    for (const FollowedLink& link : places.links)
        if (link.ours) rule.when.path.push_back(rules::Glob::literal(link.path));
    for (const Places::Linked& linked : places.linked)
        rule.when.path.push_back(is_directory(linked.real) ? rules::Glob::beneath(linked.real)
                                                           : rules::Glob::literal(linked.real));
}

}  // namespace

void add_list_of_denials(std::vector<rules::Rule>& all, const std::string& file) {
    rules::Rule closed =
        built_in_rule("callgate-denials", rules::write_operations, "the list of what was denied");
    closed.when.path.push_back(rules::Glob::literal(file));
    rules::Rule open =
        built_in_rule("callgate-denials-read", rules::Operation::read, "the list of what was denied");
    open.action = rules::Action::allow;
    open.when.path.push_back(rules::Glob::literal(file));
    all.push_back(std::move(closed));
    all.push_back(std::move(open));
}

std::string denials_name(const std::string& private_directory) { return private_directory + ".denials"; }

std::vector<std::string> current_environment() {
    std::vector<std::string> all;
    for (char** one = environ; one != nullptr && *one != nullptr; ++one) all.emplace_back(*one);
    return all;
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

Expected<std::string> read_regular_file(const std::string& path, std::size_t limit) {
    const auto unread = [] { return Problem{std::string("cannot be read: ") + std::strerror(errno)}; };
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file && errno == ENXIO) return Problem{"is a socket or a device, not a regular file"};
    if (!file) return unread();
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return unread();
    if (!S_ISREG(status.st_mode)) return Problem{kind_message(status.st_mode)};
    const std::string too_large = "is larger than " + std::to_string(limit) + " bytes";
    if (static_cast<std::uint64_t>(status.st_size) > limit) return Problem{too_large};
    // The buffer has one byte more than the limit: a file may grow, and files of procfs state no size.
    std::string text;
    text.resize(std::min(limit, std::max<std::size_t>(static_cast<std::size_t>(status.st_size), 4096)) + 1);
    std::size_t filled = 0;
    while (true) {
        const ssize_t count = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return unread();
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
        if (filled > limit) return Problem{too_large};
        if (filled == text.size()) text.resize(std::min(text.size() * 2, limit + 1));
    }
    text.resize(filled);
    return text;
}

std::string user_runtime_directory() { return "/run/user/" + std::to_string(::getuid()); }

Places find_places() {
    Places places;
    CachedCanonical canonical;
    canonical.followed = &places.links;
    places.home = home_directory(canonical);
    places.account_home = account_home(canonical, places.home);
    const auto own = [&](const char* variable, const std::string& beneath) {
        const std::size_t before = places.links.size();
        std::string real = under_home(canonical, variable, places.home, beneath.c_str());
        if (places.links.size() > before) places.linked.push_back({places.links[before].path, real});
        return real;
    };
    places.config = own("XDG_CONFIG_HOME", "/.config/callgate");
    places.state = own("XDG_STATE_HOME", "/.local/state/callgate");
    places.runtime = runtime_directory(canonical);
    places.homes = under_home(canonical, "XDG_DATA_HOME", places.home, "/.local/share/callgate");
    if (!places.homes.empty()) places.homes += "/homes";
    if (!places.config.empty()) {
        add_linked_files(places, places.config);
        add_linked_files(places, places.config + "/profiles");
    }
    canonical.followed = nullptr;
    places.canonical = canonical;
    char binary[4096];
    const ssize_t length = ::readlink("/proc/self/exe", binary, sizeof binary);
    if (length > 0) places.binary.assign(binary, static_cast<std::size_t>(length));
    return places;
}

rules::LoadContext host_context(const Places& places, const std::string& workdir, const std::string& tmp,
                                const rules::FileTree& tree) {
    rules::LoadContext context;
    context.workdir = workdir;
    context.home = places.home;
    context.account_home = places.account_home;
    context.tmp = tmp;
    context.config = places.config;
    context.read_file = read_regular_file;
    context.tree = &tree;
    context.canonical = places.canonical ? places.canonical : CachedCanonical{};
    context.own_addresses = own_addresses;
    context.link_count = link_count;
    context.landlock_abi = agent::kernel_landlock_abi();
    return context;
}

std::vector<rules::Rule> built_in_rules(const Places& places, const std::vector<std::string>& rule_files,
                                        const std::vector<std::string>& own_files,
                                        const std::vector<std::string>& fixed, const std::string& denials,
                                        const std::string& home) {
    std::vector<rules::Rule> all;
    add_directories(all, places);
    add_homes(all, places, home);
    add_queues(all);
    // Later runs trust the files that were loaded, and every profile and rule that could be.
    rules::Rule trusted =
        built_in_rule("callgate-rules", rules::write_operations, "rules of this and later runs");
    if (!places.config.empty()) trusted.when.path.push_back(rules::Glob::beneath(places.config));
    for (const std::string& file : rule_files) add_file(trusted, file);
    if (check_enabled("own-links")) add_links(trusted, places);
    if (!places.binary.empty()) trusted.when.path.push_back(rules::Glob::literal(places.binary));
    if (!trusted.when.path.empty()) all.push_back(std::move(trusted));
    // Some files there may be written without the check that Landlock makes for the rest of /proc/PID.
    rules::Rule process =
        built_in_rule("callgate-process", rules::write_operations, "callgate's own process");
    process.when.path.push_back(rules::Glob::beneath("/proc/" + std::to_string(::getpid())));
    all.push_back(std::move(process));
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule audit = built_in_rule("callgate-audit", closed, "the audit log, its key, and the report");
    for (const std::string& file : own_files) {
        if (!file.empty()) audit.when.path.push_back(rules::Glob::literal(file));
    }
    if (!audit.when.path.empty()) all.push_back(std::move(audit));
    rules::Rule roots = built_in_rule("callgate-roots", rules::Operation::remove,
                                      "the work directory and the private one stay where they are");
    for (const std::string& directory : fixed)
        if (!directory.empty()) roots.when.path.push_back(rules::Glob::literal(directory));
    if (!roots.when.path.empty()) all.push_back(std::move(roots));
    if (!denials.empty()) add_list_of_denials(all, denials);
    if constexpr (test_switches)
        std::erase_if(all, [](const rules::Rule& rule) { return !check_enabled(rule.id); });
    return all;
}

std::vector<rules::Rule> name_service_rules(const std::vector<std::string>& replaced) {
    std::vector<rules::Rule> all;
    rules::Rule rule = built_in_rule("callgate-names", rules::Operation::connect,
                                     "looks names up that callgate would not see");
    rule.error = ENOENT;
    for (const char* const pattern :
         {"/{run,var/run}/{nscd,unscd,avahi-daemon}/**", "/{run,var/run}/systemd/resolve/**",
          "/var/lib/sss/pipes/**", "/{run,var/run}/samba/winbindd/**",
          "/var/lib/samba/winbindd_privileged/**", "/{run,var/run}/dbus/system_bus_socket"}) {
        if (auto glob = rules::Glob::compile(pattern, rules::GlobKind::path))
            rule.when.unix_socket.push_back(std::move(*glob));
    }
    if (check_enabled(rule.id)) all.push_back(std::move(rule));
    if (replaced.empty()) return all;
    rules::Rule files = built_in_rule(std::string(name_files_rule), rules::Operation::read,
                                      "handed over in a form that asks callgate");
    files.action = rules::Action::allow;
    files.when.program.push_back(rules::Glob::beneath("/"));
    for (const std::string& path : replaced) files.when.path.push_back(rules::Glob::literal(path));
    all.push_back(std::move(files));
    return all;
}

}  // namespace callgate
