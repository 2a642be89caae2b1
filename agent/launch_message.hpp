// What the agent becomes, as blocks of bytes: the supervisor sends each when it is known, long after the
// fork, and the agent takes it apart between fork and exec. The ruleset comes first and by itself: opening
// what is granted takes longest, and the supervisor works out the rest meanwhile. The filter follows, so that
// an agent that must wait for its command waits confined.
//
// Positions stand in place of pointers, so that nothing but one mmap(2) is needed to have argv, envp, filter
// and grants where the kernel wants them. Both ends are ours and of one program, and the pipe between them is
// never in the target's hands: what is read is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/guardian.hpp"

namespace callgate::agent {

/// The bytes to send first; null: no Landlock domain. Throws std::length_error where they are more than 32
/// bits count.
[[nodiscard]] std::vector<std::byte> pack_ruleset(const RulesetParts* landlock);
/// Those to send then; empty: no filter.
[[nodiscard]] std::vector<std::byte> pack_filter(std::span<const sock_filter> filter);
/// The last ones. Throws as pack_ruleset does.
[[nodiscard]] std::vector<std::byte> pack_blueprint(const CommandSpec& arming);

/// One of them, received: the others' parts are empty. Async-signal-safe throughout; the memory is given back
/// by execve or the process's end.
class LaunchMessage {
public:
    /// Reads one from `pipe`. 0, or errno: EPIPE where the other side is gone.
    [[nodiscard]] int receive(int pipe);

    /// argv, with a place in front of it for the shell that runs a script without "#!".
    [[nodiscard]] char** arguments() const;
    [[nodiscard]] char** environment() const;
    [[nodiscard]] std::span<char* const> executables() const;
    [[nodiscard]] std::span<const Limit> limits() const;
    [[nodiscard]] std::span<const sock_filter> filter() const;  // none: no filter
    /// Null where there is no Landlock domain.
    [[nodiscard]] const RulesetParts* landlock() const;
    [[nodiscard]] int nice() const;
    [[nodiscard]] const int* io_priority() const;  // null: unchanged

private:
    struct Header;
    class Packer;
    friend std::vector<std::byte> pack_ruleset(const RulesetParts* landlock);
    friend std::vector<std::byte> pack_filter(std::span<const sock_filter> filter);
    friend std::vector<std::byte> pack_blueprint(const CommandSpec& arming);

    template <typename T>
    [[nodiscard]] std::span<T> section(std::size_t which) const;

    const Header* header_ = nullptr;
    RulesetParts landlock_{};
};

}  // namespace callgate::agent
