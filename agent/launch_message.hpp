// The agent's policy and command as blocks of bytes. The supervisor sends each block as soon as it is known,
// long after the fork, and the agent unpacks it between fork and exec. The ruleset comes first and by itself:
// opening the granted paths takes longest, and the supervisor compiles the rest meanwhile. The filter
// follows, so that an agent that must wait for its command waits confined.
//
// Offsets stand in place of pointers. One mmap(2) then suffices to have argv, envp, filter and grants in the
// form that the kernel wants. Both ends belong to one program, and the pipe between them is never in the
// target's hands, so the contents are trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/guardian.hpp"

namespace callgate::agent {

/// The first message; null: no Landlock domain. Throws std::length_error beyond what 32 bits can address.
[[nodiscard]] std::vector<std::byte> pack_ruleset(const RulesetParts* landlock);
/// The second message; empty: no filter.
[[nodiscard]] std::vector<std::byte> pack_filter(std::span<const sock_filter> filter);
/// The last message. Throws as pack_ruleset does.
[[nodiscard]] std::vector<std::byte> pack_command(const CommandSpec& spec);

/// A received message; parts of other messages are empty. Async-signal-safe throughout. The memory is freed
/// by execve or at the process's end.
class LaunchMessage {
public:
    /// Reads a message from `pipe`. Returns 0 or errno: EPIPE if the other side is gone.
    [[nodiscard]] int receive(int pipe);

    /// argv, with a free slot before it for the shell that runs a script without "#!".
    [[nodiscard]] char** arguments() const;
    [[nodiscard]] char** environment() const;
    [[nodiscard]] std::span<char* const> executables() const;
    [[nodiscard]] std::span<const Limit> limits() const;
    [[nodiscard]] std::span<const sock_filter> filter() const;  // empty: no filter
    /// Null without a Landlock domain.
    [[nodiscard]] const RulesetParts* landlock() const;
    [[nodiscard]] int nice() const;
    [[nodiscard]] const int* io_priority() const;  // null: unchanged

private:
    struct Header;
    class Packer;
    friend std::vector<std::byte> pack_ruleset(const RulesetParts* landlock);
    friend std::vector<std::byte> pack_filter(std::span<const sock_filter> filter);
    friend std::vector<std::byte> pack_command(const CommandSpec& spec);

    template <typename T>
    [[nodiscard]] std::span<T> section(std::size_t which) const;

    const Header* header_ = nullptr;
    RulesetParts landlock_{};
};

}  // namespace callgate::agent
