// The agent: the forked child that arms itself and becomes the command.
//
// Everything that runs between fork and execve is async-signal-safe: no allocation, no exception. What it
// needs was made before the fork (AgentStart), or comes as blocks of bytes (LaunchMessage). Its parent, the
// guardian, hears of each step through the status pipe, whose CLOEXEC end closes when the command's own code
// begins. No attacker has run yet; what could be hostile is the file that is executed.
#pragma once

#include <vector>

#include "agent/guardian.hpp"

namespace callgate::agent {

struct AgentChannels {
    int status = -1;  // write end, CLOEXEC
    int go = -1;      // read end, CLOEXEC: ruleset and blueprint, then one byte
    /// CLOEXEC: where the listener is sent, if the supervisor cannot take it; -1: it can.
    int handover = -1;
};

/// What the agent begins with. Borrows the GuardianConfig, which must outlive it.
class AgentStart {
public:
    AgentStart(const GuardianConfig& guarding, AgentChannels channels);

    [[nodiscard]] const GuardianConfig& guarding() const { return guarding_; }
    [[nodiscard]] AgentChannels channels() const { return channels_; }
    /// Descriptors above 2 that outlive the fork, in ascending order.
    [[nodiscard]] const std::vector<int>& kept() const { return kept_; }

private:
    const GuardianConfig& guarding_;
    AgentChannels channels_;
    std::vector<int> kept_;
};

/// Waits to be told what it becomes, arms the calling process, says so, waits for the supervisor, and becomes
/// the command.
[[noreturn]] void confine_and_execute(const AgentStart& start);

/// Closes all descriptors above 2 that `kept` (ascending) does not hold. Returns 0 or errno.
[[nodiscard]] int close_all_but(const std::vector<int>& kept);

/// Those of 0..2 that are closed become /dev/null, and those that callgate itself opened (CLOEXEC). 0 or
/// errno.
[[nodiscard]] int fill_standard_descriptors();

}  // namespace callgate::agent
