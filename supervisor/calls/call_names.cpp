#include "supervisor/calls/call_names.hpp"

#include <seccomp.h>

#include <array>
#include <cstdlib>

namespace callgate::calls {

namespace {

struct NamedNumber {
    std::string_view name;
    std::uint32_t number;
};

// Newer than libseccomp 2.5.4 as its authors released it.
constexpr auto newer = std::to_array<NamedNumber>({
    {"set_mempolicy_home_node", 450},
    {"cachestat", 451},
    {"fchmodat2", 452},
    {"map_shadow_stack", 453},
    {"futex_wake", 454},
    {"futex_wait", 455},
    {"futex_requeue", 456},
    {"statmount", 457},
    {"listmount", 458},
    {"lsm_get_self_attr", 459},
    {"lsm_set_self_attr", 460},
    {"lsm_list_modules", 461},
    {"mseal", 462},
    {"setxattrat", 463},
    {"getxattrat", 464},
    {"listxattrat", 465},
    {"removexattrat", 466},
    {"open_tree_attr", 467},
    {"file_getattr", 468},
    {"file_setattr", 469},
});

// Calls of x86_64 alone.
constexpr auto newer_x86_64 = std::to_array<NamedNumber>({
    {"uretprobe", 335},
    {"uprobe", 336},
});

constexpr NumberRange unassigned_x86_64[] = {{337, 423}};
constexpr NumberRange unassigned_aarch64[] = {{244, 259}, {295, 423}};

constexpr std::uint32_t token(Architecture architecture) {
    return architecture == Architecture::x86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
}

std::span<const NamedNumber> newer_of(Architecture architecture) {
    if (architecture == Architecture::x86_64) return newer_x86_64;
    return {};
}

}  // namespace

std::uint32_t call_number(std::string_view name, Architecture on) {
    for (const NamedNumber& call : newer) {
        if (call.name == name) return call.number;
    }
    for (const NamedNumber& call : newer_of(on)) {
        if (call.name == name) return call.number;
    }
    const int number = seccomp_syscall_resolve_name_arch(token(on), std::string(name).c_str());
    return number < 0 ? no_number : static_cast<std::uint32_t>(number);
}

std::string call_name(std::uint32_t number, Architecture on) {
    for (const NamedNumber& call : newer) {
        if (call.number == number) return std::string(call.name);
    }
    for (const NamedNumber& call : newer_of(on)) {
        if (call.number == number) return std::string(call.name);
    }
    char* found = seccomp_syscall_resolve_num_arch(token(on), static_cast<int>(number));
    std::string name = found == nullptr ? "" : found;
    std::free(found);  // NOLINT: libseccomp hands over what strdup gave
    return name;
}

std::span<const NumberRange> unassigned_numbers(Architecture on) {
    if (on == Architecture::x86_64) return unassigned_x86_64;
    return unassigned_aarch64;
}

}  // namespace callgate::calls
