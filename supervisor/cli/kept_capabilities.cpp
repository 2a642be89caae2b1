#include "supervisor/cli/kept_capabilities.hpp"

#include <linux/capability.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/words.hpp"
#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/failure.hpp"

namespace callgate::cli {

namespace {

constexpr std::string_view option = "keep-capabilities";

/// capabilities(7), by number.
constexpr std::array<std::string_view, 41> names = {"chown",
                                                    "dac_override",
                                                    "dac_read_search",
                                                    "fowner",
                                                    "fsetid",
                                                    "kill",
                                                    "setgid",
                                                    "setuid",
                                                    "setpcap",
                                                    "linux_immutable",
                                                    "net_bind_service",
                                                    "net_broadcast",
                                                    "net_admin",
                                                    "net_raw",
                                                    "ipc_lock",
                                                    "ipc_owner",
                                                    "sys_module",
                                                    "sys_rawio",
                                                    "sys_chroot",
                                                    "sys_ptrace",
                                                    "sys_pacct",
                                                    "sys_admin",
                                                    "sys_boot",
                                                    "sys_nice",
                                                    "sys_resource",
                                                    "sys_time",
                                                    "sys_tty_config",
                                                    "mknod",
                                                    "lease",
                                                    "audit_write",
                                                    "audit_control",
                                                    "setfcap",
                                                    "mac_override",
                                                    "mac_admin",
                                                    "syslog",
                                                    "wake_alarm",
                                                    "block_suspend",
                                                    "audit_read",
                                                    "perfmon",
                                                    "bpf",
                                                    "checkpoint_restore"};

/// For programs that root starts and that become another user: apt-get, su, initdb, nginx, sshd.
constexpr std::string_view preset = "users";
constexpr CapabilitySet of_preset = capability(CAP_CHOWN) | capability(CAP_DAC_OVERRIDE) |
                                    capability(CAP_FOWNER) | capability(CAP_KILL) | capability(CAP_SETGID) |
                                    capability(CAP_SETUID) | capability(CAP_NET_BIND_SERVICE) |
                                    capability(CAP_SYS_CHROOT);

CapabilitySet set_of(const Arguments& arguments, std::string_view name, CapabilitySet held) {
    if (name == preset) {
        if ((held & of_preset) != 0) return held & of_preset;
        throw Failure(
            arguments.origin(option) + "=" + std::string(name) +
            ": callgate holds none of these capabilities; start it as root, or leave the option out");
    }
    const std::string_view bare = name.starts_with("cap_") ? name.substr(4) : name;
    const auto* const found = std::ranges::find(names, bare);
    if (found == names.end()) {
        std::vector<std::string_view> known(names.begin(), names.end());
        known.push_back(preset);
        const std::string near = suggestion(bare, known);
        throw Failure(arguments.origin(option) + "=" + std::string(name) + ": unknown capability" +
                      (near.empty() ? "; capabilities(7) lists them, without cap_" : near));
    }
    const CapabilitySet one = capability(static_cast<int>(found - names.begin()));
    if ((held & one) == 0)
        throw Failure(arguments.origin(option) + "=" + std::string(name) +
                      ": callgate does not hold this capability; start it as root, or leave it out");
    return one;
}

}  // namespace

CapabilitySet kept_capabilities(const Arguments& arguments) {
    const auto given = arguments.value(option);
    if (!given) return 0;
    if (*given == "-") return all_capabilities;
    CapabilitySet kept = 0;
    for (const std::string& name : split(*given, ','))
        kept |= set_of(arguments, name, permitted_capabilities());
    return kept;
}

std::string degraded_by(CapabilitySet kept) {
    std::string text = "capabilities";
    if (kept == all_capabilities) return text;
    for (std::size_t number = 0; number < names.size(); ++number)
        if ((kept >> number & 1) != 0)
            text.append(text.find(':') == std::string::npos ? ":" : ",").append(names[number]);
    return text;
}

}  // namespace callgate::cli
