// What this kernel and container offer to a run: probed, not guessed from version numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/cli/container.hpp"

namespace callgate::cli {

/// Facts that cost a few system calls.
struct Platform {
    enum class Listener : std::uint8_t {
        available,
        not_killable,  // no WAIT_KILLABLE_RECV: before Linux 5.19
        nested,        // within another callgate
        refused,       // seccomp(2) is forbidden here
        absent,
    };
    std::string kernel;
    Listener listener = Listener::absent;
    int landlock_abi = 0;
    bool pidfd_thread = false;
    std::optional<int> ptrace_scope;  // Yama; nothing where it is not there
    std::uint64_t capabilities = 0;   // effective
    bool root = false;
    Container container;
};
[[nodiscard]] Platform probe_platform();

/// Why `callgate run` cannot work, and what to do: one line; "" where it can.
[[nodiscard]] std::string obstacle(const Platform& platform);

/// What a throw-away child learnt by really installing a listener.
struct ListenerTrial {
    int error = 0;  // errno of seccomp(2), 0: it worked
    bool sync_wake_up = false;
};
[[nodiscard]] ListenerTrial try_listener();

/// One feature as `doctor` shows it and `--require` names it.
struct Feature {
    std::string_view name;  // "landlock-net"
    bool present = false;
    std::string_view since;      // "Linux 6.7"
    std::string_view what;       // what it is for
    std::string_view without;    // what follows where it is missing
    std::string_view help = {};  // what to do about it, where something can be done; else ""
};
[[nodiscard]] std::vector<Feature> features(const Platform& platform, const ListenerTrial& trial);

}  // namespace callgate::cli
