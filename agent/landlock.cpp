#include "agent/landlock.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "agent/landlock_abi.hpp"
#include "base/open_without_links.hpp"
#include "base/result.hpp"
#include "base/test_switch.hpp"

namespace callgate::agent {
namespace {

using boost::system::error_code;
using boost::system::result;

result<UniqueFd> create_ruleset(const landlock::RulesetAttributes& attributes, int abi) {
    const long fd = ::syscall(SYS_landlock_create_ruleset, &attributes, landlock::attributes_size(abi), 0U);
    if (fd < 0) return errno_code();
    return UniqueFd(static_cast<int>(fd));
}

result<void> add_path(int ruleset, int object, std::uint64_t access) {
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access;
    rule.parent_fd = object;
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) != 0)
        return errno_code();
    return {};
}

// The plan examined this very path. A symbolic link that appeared since then would carry the grant elsewhere,
// so none is followed.
UniqueFd open_granted(const char* path, bool directory) {
    return open_without_links(path, directory ? O_PATH | O_DIRECTORY : O_PATH);
}

bool vanished(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES || error == ENAMETOOLONG;
}

// If a file became a directory, a grant on one object would cover a hierarchy.
bool is_plain(int object) {
    struct stat status {};
    return ::fstat(object, &status) == 0 && !S_ISLNK(status.st_mode) && !S_ISDIR(status.st_mode);
}

enum class Added : std::uint8_t { yes, left_out, failed };  // failed: see errno

Added add_grant(int ruleset, const char* path, bool directory, std::uint64_t access) {
    const UniqueFd object = open_granted(path, directory);
    if (!object) return vanished(errno) ? Added::left_out : Added::failed;
    if (!directory && !is_plain(object.get())) return Added::left_out;
    return add_path(ruleset, object.get(), access) ? Added::yes : Added::failed;
}

result<void> add_ports(int ruleset, std::span<const PortRange> ranges, std::uint64_t access) {
    for (const PortRange& range : ranges) {
        for (std::uint32_t port = range.first; port <= range.last; ++port) {
            const landlock::NetPort rule{access, port};
            if (::syscall(SYS_landlock_add_rule, ruleset, landlock::rule_net_port, &rule, 0U) != 0)
                return errno_code();
        }
    }
    return {};
}

result<void> restrict_self(int ruleset, std::uint32_t flags = 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) return errno_code();
    if (::syscall(SYS_landlock_restrict_self, ruleset, flags) != 0) return errno_code();
    return {};
}

// Every ruleset restricts REFER anyway. ABI 1 lacks it, so a right to make block devices stands in, which the
// target cannot use.
result<UniqueFd> base_ruleset(int abi, std::uint64_t scoped) {
    const std::uint64_t handled = abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : LANDLOCK_ACCESS_FS_MAKE_BLOCK;
    auto ruleset = create_ruleset({handled, 0, scoped}, scoped == 0 ? 1 : abi);
    if (!ruleset) return ruleset;
    const UniqueFd root(::open("/", O_PATH | O_CLOEXEC | O_DIRECTORY));
    if (!root) return errno_code();
    if (auto added = add_path(ruleset->get(), root.get(), handled); !added) return added.error();
    return ruleset;
}

}  // namespace

int kernel_landlock_abi() {
    const long version =
        ::syscall(SYS_landlock_create_ruleset, nullptr, 0UL, LANDLOCK_CREATE_RULESET_VERSION);
    const int abi = version < 0 ? 0 : static_cast<int>(version);
    return std::min(abi, injected_landlock_abi().value_or(abi));
}

result<UniqueFd> RulesetParts::make(std::vector<std::string>* left_out) const {
    if (abi < 1) return error_code(EOPNOTSUPP, boost::system::system_category());
    auto ruleset = create_ruleset(attributes, abi);
    if (!ruleset) return ruleset;
    for (const GrantedPath& one : grants) {
        const Added added = add_grant(ruleset->get(), one.path, one.directory, one.access);
        if (added == Added::failed) return errno_code();
        if (added == Added::left_out && left_out != nullptr) left_out->emplace_back(one.path);
    }
    const std::array rights = {
        std::pair(tcp.connect, landlock::net_connect_tcp), std::pair(tcp.bind, landlock::net_bind_tcp),
        std::pair(udp.connect, landlock::net_connect_send_udp), std::pair(udp.bind, landlock::net_bind_udp)};
    for (const auto& [ports, right] : rights)
        if (auto added = add_ports(ruleset->get(), ports, right); !added) return added.error();
    return ruleset;
}

result<void> enter_base_domain(int abi) {
    if (abi < 1) return error_code(EOPNOTSUPP, boost::system::system_category());
    auto ruleset = base_ruleset(abi, 0);
    if (!ruleset) return ruleset.error();
    return restrict_self(ruleset->get());
}

result<void> enter_signal_domain(int abi) {
    if (abi < 6) return error_code(EOPNOTSUPP, boost::system::system_category());
    auto ruleset = base_ruleset(abi, landlock::scope_signal);
    if (!ruleset) return ruleset.error();
    // The kernel's audit would have a line for each process of the machine that a signal to all leaves out.
    return restrict_self(ruleset->get(), abi >= 7 ? landlock::no_log_of_own : 0);
}

result<void> confine_new_sockets(int directory) {
    auto ruleset = create_ruleset({LANDLOCK_ACCESS_FS_MAKE_SOCK, 0, 0}, 1);
    if (!ruleset) return ruleset.error();
    if (auto added = add_path(ruleset->get(), directory, LANDLOCK_ACCESS_FS_MAKE_SOCK); !added)
        return added.error();
    return restrict_self(ruleset->get());
}

}  // namespace callgate::agent
