// System calls that are newer than libseccomp 2.5.4. cmake/embed_calls.cpp joins them with the calls that
// libseccomp knows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace callgate::enforce {

/// The newest known number (file_setattr, Linux 6.17). Higher numbers answer ENOSYS.
inline constexpr std::uint32_t newest_call = 469;

struct NamedNumber {
    std::string_view name;
    std::uint32_t number;
};

/// The same on all 64-bit architectures.
inline constexpr auto newer_calls = std::to_array<NamedNumber>({
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

/// Newer calls of x86_64 alone.
inline constexpr auto newer_calls_x86_64 = std::to_array<NamedNumber>({
    {"uretprobe", 335},
    {"uprobe", 336},
});

}  // namespace callgate::enforce
