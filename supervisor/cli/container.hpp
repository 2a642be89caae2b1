// The calls that a filter around this process refuses: the seccomp profile of a container, of a CI runner or
// of a service.
//
// Each call is tried with wrong arguments, so it has no effect. The kernel answers them with another error
// than a profile, which says EPERM, or ENOSYS (podman). Engines loosen their profiles by capability:
// `--cap-add SYS_PTRACE` allows the calls by which a process acts on another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::cli {

struct Container {
    bool filtered = false;                  // this process has a seccomp filter
    std::vector<std::string_view> refused;  // calls without which nothing can run
    bool descriptors = true;                // pidfd_getfd
    bool memory_calls = true;               // process_vm_readv and process_vm_writev
    bool memory_file = true;                // /proc/PID/mem in their place; tried only if they are refused
    bool ptrace = true;
    bool kcmp = true;
    bool keyrings = true;  // keyctl
    bool limits = true;    // prlimit of another process
};
[[nodiscard]] Container probe_container();

/// The reason why no run is possible here, with its remedy.
[[nodiscard]] std::optional<std::string> obstacle(const Container& container);

inline constexpr std::string_view loosen_profile =
    "start the container with --security-opt seccomp=unconfined, or with a profile that allows it";
inline constexpr std::string_view add_ptrace = "start the container with --cap-add SYS_PTRACE";

}  // namespace callgate::cli
