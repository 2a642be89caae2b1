#include "supervisor/host/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/handover.hpp"
#include "agent/landlock.hpp"
#include "base/directory.hpp"
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

std::string home_directory(const CanonicalNames& canonical) {
    if (std::string home = absolute_variable("HOME"); !home.empty()) return canonical(home);
    const std::string home = home_of(::getuid());
    return home.starts_with('/') ? canonical(home) : "";
}

/// The home that log-ins use. A run must not write there what the next log-in runs, whatever HOME says.
std::string account_home(const CanonicalNames& canonical, const std::string& home) {
    const std::string account = check_enabled("account-home") ? home_of(::getuid()) : "";
    if (!account.starts_with('/') || account == "/") return "";
    std::string resolved = canonical(account);
    return resolved == home ? "" : resolved;
}

std::string runtime_directory(const CanonicalNames& canonical) {
    if (const std::string base = absolute_variable("XDG_RUNTIME_DIR"); !base.empty())
        return canonical(base + "/callgate");
    if (const std::string base = user_runtime_directory(); is_our_directory(base)) return base + "/callgate";
    // The name is known to all users, and any of them may have put a link there: it is not followed.
    std::string name = "/callgate-" + std::to_string(::getuid());
    return check_enabled("shared-name") ? canonical("/tmp") + name : canonical("/tmp" + name);
}

std::string under_home(const CanonicalNames& canonical, const char* variable, const std::string& home,
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

}  // namespace

std::vector<std::string> current_environment() {
    std::vector<std::string> all;
    for (char** one = environ; one != nullptr && *one != nullptr; ++one) all.emplace_back(*one);
    return all;
}

std::string system_program(std::string_view name) {
    for (const char* const directory : {"/usr/bin/", "/bin/", "/run/current-system/sw/bin/"}) {
        const std::string path = directory + std::string(name);
        if (::access(path.c_str(), X_OK) == 0) return path;
    }
    return "";
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
    CanonicalNames canonical;
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
    context.canonical = places.canonical ? places.canonical : CanonicalNames{};
    context.own_addresses = own_addresses;
    context.link_count = link_count;
    context.landlock_abi = agent::kernel_landlock_abi();
    context.landlock_unix = rules::tells_own_sockets(*context.landlock_abi, !agent::pidfd_getfd_refused());
    return context;
}

}  // namespace callgate
