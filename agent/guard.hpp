// The guardian's life: one loop over orders, children and the agent's status pipe.
//
// Runs in its own process, single-threaded, every signal blocked. It owns the pipe ends that it is given. The
// target controls what it reaps and how many processes there are, never what it is told to do.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>

#include "agent/guardian.hpp"
#include "agent/protocol.hpp"

namespace callgate::agent {

struct GuardChannels {
    UniqueFd orders;    // read end
    UniqueFd events;    // write end
    UniqueFd status;    // read end, non-blocking: what the agent says
    UniqueFd children;  // signalfd for SIGCHLD
};

class Guard {
public:
    Guard(const GuardianConfig& guarding, GuardChannels channels, pid_t command);

    /// Until no process of the tree is left, or the supervisor is gone. Returns the exit status: 0 where
    /// nothing of the temporary directory is left.
    int run();

private:
    using Clock = std::chrono::steady_clock;

    enum class Children : std::uint8_t { none, quiet, more };

    void wait_for_something(Children children);
    void take_order();
    void take_status();
    void status_closed();
    void drop_spare_capability() const;
    /// Reaps what has changed, but not for ever: a tree that dies as fast as it grows must not keep orders
    /// waiting.
    Children reap(int most);
    void reap_one(const siginfo_t& seen);
    void command_changed(int code, int status);
    void command_ended();
    void keep_deadline();
    void end_all();
    int finish();
    [[nodiscard]] int remove_directory() const;
    void await_dismissal();
    [[noreturn]] void lost();
    void tell(Event::Kind kind, int value);
    void send(const Event& event);

    const GuardianConfig& guarding_;
    GuardChannels channels_;
    const pid_t command_;
    bool confined_ = false, failed_ = false;
    bool command_reaped_ = false;
    bool dismissed_ = false;
    std::uint64_t reaped_ = 0;
    std::optional<Clock::time_point> deadline_;
};

}  // namespace callgate::agent
