#include "agent/landlock.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "agent/landlock_abi.hpp"
#include "rules/test_switch.hpp"

namespace callgate::agent {
namespace {

using boost::system::error_code;
using boost::system::result;
using rules::Operation;

error_code last_error() { return {errno, boost::system::system_category()}; }

constexpr std::uint64_t file_rights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                      LANDLOCK_ACCESS_FS_READ_FILE | landlock::fs_truncate;
// Devices are made by nobody: callgate runs its target without capabilities, and a whiteout is no file
// either.
constexpr std::uint64_t make_rights = LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                      LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                      LANDLOCK_ACCESS_FS_MAKE_SYM;

std::uint64_t known_rights(int abi) {
    std::uint64_t rights = (1ULL << 13) - 1;
    if (abi >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3) rights |= landlock::fs_truncate;
    return rights;
}

result<UniqueFd> create_ruleset(const landlock::RulesetAttributes& attributes, int abi) {
    const long fd = ::syscall(SYS_landlock_create_ruleset, &attributes, landlock::attributes_size(abi), 0U);
    if (fd < 0) return last_error();
    return UniqueFd(static_cast<int>(fd));
}

result<void> add_path(int ruleset, int object, std::uint64_t access) {
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access;
    rule.parent_fd = object;
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) != 0)
        return last_error();
    return {};
}

// The plan judged this very path: a symbolic link that appeared on the way since then would carry the grant
// elsewhere, so none is followed.
UniqueFd open_granted(const std::string& path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_NO_SYMLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
}

bool vanished(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES || error == ENAMETOOLONG;
}

result<void> add_grant(int ruleset, const rules::Grant& grant, int abi, std::vector<std::string>& left_out) {
    rules::OperationSet operations = grant.operations;
    if (grant.trap_only_execute) operations |= Operation::execute;
    const std::uint64_t access = landlock_access(operations, grant.directory, abi);
    if (access == 0) return {};
    const UniqueFd object = open_granted(grant.path);
    if (!object) {
        if (!vanished(errno)) return last_error();
        left_out.push_back(grant.path);
        return {};
    }
    struct stat status {};
    if (::fstat(object.get(), &status) != 0) return last_error();
    // A file that became a directory would turn a grant on one object into a hierarchy.
    if (S_ISLNK(status.st_mode) || S_ISDIR(status.st_mode) != grant.directory) {
        left_out.push_back(grant.path);
        return {};
    }
    return add_path(ruleset, object.get(), access);
}

result<void> add_ports(int ruleset, const std::vector<rules::PortRange>& ranges, std::uint64_t access,
                       std::string_view what, std::vector<std::string>& left_out) {
    const PortSplit ports = split_ports(ranges);
    for (const rules::PortRange& range : ports.held) {
        for (std::uint32_t port = range.first; port <= range.last; ++port) {
            const landlock::NetPort rule{access, port};
            if (::syscall(SYS_landlock_add_rule, ruleset, landlock::rule_net_port, &rule, 0U) != 0)
                return last_error();
        }
    }
    for (const rules::PortRange& range : ports.left_out)
        left_out.push_back(std::string(what) + ' ' + std::to_string(range.first) + '-' +
                           std::to_string(range.last));
    return {};
}

result<void> restrict_self(int ruleset) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) return last_error();
    if (::syscall(SYS_landlock_restrict_self, ruleset, 0U) != 0) return last_error();
    return {};
}

}  // namespace

int kernel_landlock_abi() {
    const long version =
        ::syscall(SYS_landlock_create_ruleset, nullptr, 0UL, LANDLOCK_CREATE_RULESET_VERSION);
    const int abi = version < 0 ? 0 : static_cast<int>(version);
    return std::min(abi, injected_landlock_abi().value_or(abi));
}

std::uint64_t landlock_access(rules::OperationSet operations, bool directory, int abi) {
    std::uint64_t rights = 0;
    if (operations.contains(Operation::read))
        rights |= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    if (operations.contains(Operation::modify))
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | landlock::fs_truncate;
    if (operations.contains(Operation::execute))
        rights |= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
    if (operations.contains(Operation::create)) rights |= make_rights;
    if (operations.contains(Operation::remove))
        rights |= LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;
    if (operations.contains_all({Operation::create, Operation::remove})) rights |= LANDLOCK_ACCESS_FS_REFER;
    rights &= known_rights(abi);
    return directory ? rights : rights & file_rights;
}

PortSplit split_ports(const std::vector<rules::PortRange>& ranges) {
    PortSplit split;
    std::uint32_t total = 0;
    for (const rules::PortRange& range : ranges) {
        if (range.last < range.first) continue;
        const std::uint32_t width = static_cast<std::uint32_t>(range.last - range.first) + 1;
        const bool fits = total + width <= max_port_rules;
        if (fits) total += width;
        (fits ? split.held : split.left_out).push_back(range);
    }
    return split;
}

result<UniqueFd> make_target_ruleset(const rules::Plan& plan, std::vector<std::string>& left_out) {
    const int abi = plan.landlock_abi;
    if (abi < 1) return error_code(EOPNOTSUPP, boost::system::system_category());
    landlock::RulesetAttributes attributes;
    attributes.handled_fs = known_rights(abi);
    if (abi >= 4 && !plan.all_connect) attributes.handled_net |= landlock::net_connect_tcp;
    if (abi >= 4 && !plan.all_bind) attributes.handled_net |= landlock::net_bind_tcp;
    if (abi >= 6) attributes.scoped = landlock::scope_signal | landlock::scope_abstract_socket;
    auto ruleset = create_ruleset(attributes, abi);
    if (!ruleset) return ruleset;
    for (const rules::Grant& grant : plan.grants) {
        if (auto added = add_grant(ruleset->get(), grant, abi, left_out); !added) return added.error();
    }
    if ((attributes.handled_net & landlock::net_connect_tcp) != 0) {
        auto added =
            add_ports(ruleset->get(), plan.connect_ports, landlock::net_connect_tcp, "connect", left_out);
        if (!added) return added.error();
    }
    if ((attributes.handled_net & landlock::net_bind_tcp) != 0) {
        auto added = add_ports(ruleset->get(), plan.bind_ports, landlock::net_bind_tcp, "bind", left_out);
        if (!added) return added.error();
    }
    return ruleset;
}

result<void> enter_base_domain(int abi) {
    if (abi < 1) return error_code(EOPNOTSUPP, boost::system::system_category());
    // REFER is what every ruleset restricts anyway; ABI 1 lacks it, and block devices are out of reach there.
    const std::uint64_t handled = abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : LANDLOCK_ACCESS_FS_MAKE_BLOCK;
    auto ruleset = create_ruleset({handled, 0, 0}, 1);
    if (!ruleset) return ruleset.error();
    const UniqueFd root(::open("/", O_PATH | O_CLOEXEC | O_DIRECTORY));
    if (!root) return last_error();
    if (auto added = add_path(ruleset->get(), root.get(), handled); !added) return added.error();
    return restrict_self(ruleset->get());
}

}  // namespace callgate::agent
