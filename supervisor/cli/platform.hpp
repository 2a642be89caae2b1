// The features of this kernel and container. They are probed, not guessed from version numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/cli/container.hpp"

namespace callgate::cli {

/// Facts that take only a few system calls.
struct Platform {
    enum class Listener : std::uint8_t {
        available,
        not_killable,  // no WAIT_KILLABLE_RECV: before Linux 5.19
        nested,        // within another callgate
        refused,       // seccomp(2) is forbidden here
        absent,
    };
    std::string kernel;
    bool gvisor = false;  // its kernel says that it is a Linux
    Listener listener = Listener::absent;
    int landlock_abi = 0;
    bool pidfd_thread = false;
    std::optional<int> ptrace_scope;  // Yama; empty without it
    std::uint64_t capabilities = 0;   // effective
    bool root = false;
    Container container;
};
[[nodiscard]] Platform probe_platform();

/// The reason why `callgate run` cannot work, with its remedy, on one line.
[[nodiscard]] std::optional<std::string> obstacle(const Platform& platform);

/// The result of a throw-away child that installed a listener.
struct ListenerTrial {
    int error = 0;  // errno of seccomp(2), 0: it worked
    bool sync_wake_up = false;
};
[[nodiscard]] ListenerTrial try_listener();

/// A feature as `doctor` shows it and `--require` names it.
struct Feature {
    std::string_view name;  // "landlock-net"
    bool present = false;
    std::string_view since;  // "Linux 6.7"
    std::string_view purpose;
    std::string_view without;    // the effect if it is missing
    std::string_view help = {};  // the remedy; "" if there is none
};
[[nodiscard]] std::vector<Feature> features(const Platform& platform, const ListenerTrial& trial);

}  // namespace callgate::cli
