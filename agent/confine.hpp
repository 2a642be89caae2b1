// The agent (a launcher): the forked child that confines itself and becomes the command.
//
// Everything that runs between fork and execve is async-signal-safe: no allocation, no exception. Its data
// was prepared before the fork (AgentStart) or comes as blocks of bytes (LaunchMessage). It reports each step
// to its parent, the guardian, through the status pipe. The pipe's CLOEXEC end closes when the command's own
// code begins. No attacker has run yet; only the file that is executed could be hostile.
#pragma once

#include <vector>

#include "agent/guardian.hpp"

namespace callgate::agent {

struct AgentChannels {
    int status = -1;  // write end, CLOEXEC
    int go = -1;      // read end, CLOEXEC: the launch messages, then one byte
    /// CLOEXEC. The listener is sent here if the supervisor cannot take it; -1: it can.
    int handover = -1;
};

/// The agent's start data. Borrows the GuardianConfig, which must outlive it.
class AgentStart {
public:
    AgentStart(const GuardianConfig& config, AgentChannels channels);

    [[nodiscard]] const GuardianConfig& config() const { return config_; }
    [[nodiscard]] AgentChannels channels() const { return channels_; }
    /// Descriptors above 2 that outlive the fork, in ascending order.
    [[nodiscard]] const std::vector<int>& kept() const { return kept_; }

private:
    const GuardianConfig& config_;
    AgentChannels channels_;
    std::vector<int> kept_;
};

/// Waits for the launch messages, confines the calling process, reports that, waits for the supervisor, and
/// becomes the command.
[[noreturn]] void confine_and_execute(const AgentStart& start);

/// Closes all descriptors above 2 that `kept` (ascending) does not hold. Returns 0 or errno.
[[nodiscard]] int close_all_but(const std::vector<int>& kept);

/// Puts /dev/null at each of 0..2 that is closed or that callgate itself opened (CLOEXEC). Returns 0 or
/// errno.
[[nodiscard]] int fill_standard_descriptors();

}  // namespace callgate::agent
