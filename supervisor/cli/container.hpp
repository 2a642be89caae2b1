// What a filter around this process refuses: the seccomp profile of a container, of a CI runner, of a
// service.
//
// Each call is tried with arguments that the kernel refuses by another error than a profile does (EPERM, or
// ENOSYS as podman's says), so nothing happens. Engines loosen their profiles by capability: `--cap-add
// SYS_PTRACE` opens what one process does to another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace callgate::cli {

struct Container {
    bool filtered = false;                  // some seccomp filter is around this process
    std::vector<std::string_view> refused;  // calls without which nothing can run
    bool descriptors = true;                // pidfd_getfd
    bool memory_calls = true;               // process_vm_readv and process_vm_writev
    bool memory_file = true;  // /proc/PID/mem, in their place; looked for where they are refused
    bool ptrace = true;
    bool kcmp = true;
    bool keyrings = true;  // keyctl
};
[[nodiscard]] Container probe_container();

/// Why nothing can run here, and what to do; "" where it can.
[[nodiscard]] std::string obstacle(const Container& container);

inline constexpr std::string_view loosen_profile =
    "start the container with --security-opt seccomp=unconfined, or with a profile that allows it";
inline constexpr std::string_view add_ptrace = "start the container with --cap-add SYS_PTRACE";

}  // namespace callgate::cli
