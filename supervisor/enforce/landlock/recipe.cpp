#include "supervisor/enforce/landlock/recipe.hpp"

#include "agent/landlock_abi.hpp"

namespace callgate::enforce {
namespace {

using rules::Operation;

constexpr std::uint64_t file_rights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                      LANDLOCK_ACCESS_FS_READ_FILE | agent::landlock::fs_truncate;
// Rights to make devices are never granted. callgate runs its target without capabilities, and a whiteout
// counts as a device too. Symbolic links are made, moved and linked by callgate alone, which knows the names
// that none may have (rules/plan/link_names.hpp).
constexpr std::uint64_t make_rights = LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                      LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;

}  // namespace

std::uint64_t landlock_access(rules::OperationSet operations, bool directory, int abi) {
    std::uint64_t rights = 0;
    if (operations.contains(Operation::read))
        rights |= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    if (operations.contains(Operation::modify))
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | agent::landlock::fs_truncate;
    if (operations.contains(Operation::execute))
        rights |= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
    if (operations.contains(Operation::create)) rights |= make_rights;
    if (operations.contains(Operation::remove))
        rights |= LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;
    if (operations.contains_all({Operation::create, Operation::remove})) rights |= LANDLOCK_ACCESS_FS_REFER;
    rights &= agent::landlock::known_rights(abi);
    if (operations.contains(Operation::connect)) rights |= agent::landlock::fs_resolve_unix;
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

RulesetRecipe::RulesetRecipe(const rules::Plan& plan) : abi_(plan.landlock_abi) {
    attributes_.handled_fs = agent::landlock::known_rights(abi_);
    if (abi_ >= 4 && !plan.tcp_connect.all) attributes_.handled_net |= agent::landlock::net_connect_tcp;
    if (abi_ >= 4 && !plan.tcp_bind.all) attributes_.handled_net |= agent::landlock::net_bind_tcp;
    if (plan.udp_connect.limited()) attributes_.handled_net |= agent::landlock::net_connect_send_udp;
    if (plan.udp_bind.limited()) attributes_.handled_net |= agent::landlock::net_bind_udp;
    if (abi_ >= 6)
        attributes_.scoped = agent::landlock::scope_signal | agent::landlock::scope_abstract_socket;
    grants_.reserve(plan.grants.size());
    for (const rules::Grant& grant : plan.grants) {
        rules::OperationSet operations = grant.operations;
        if (grant.notify_only_execute) operations |= Operation::execute;
        const std::uint64_t access = landlock_access(operations, grant.directory, abi_);
        if (access != 0) grants_.push_back({grant.path.c_str(), grant.directory, access});
    }
    if (plan.sockets_held || plan.messages_held) attributes_.handled_fs |= agent::landlock::fs_resolve_unix;
    const auto ports_of = [this](std::uint64_t right, const rules::HeldPorts& ports) {
        return (attributes_.handled_net & right) != 0 ? split_ports(ports.ports).held
                                                      : std::vector<rules::PortRange>();
    };
    connect_ = ports_of(agent::landlock::net_connect_tcp, plan.tcp_connect);
    bind_ = ports_of(agent::landlock::net_bind_tcp, plan.tcp_bind);
    udp_connect_ = ports_of(agent::landlock::net_connect_send_udp, plan.udp_connect);
    udp_bind_ = ports_of(agent::landlock::net_bind_udp, plan.udp_bind);
}

}  // namespace callgate::enforce
