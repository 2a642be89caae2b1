// The guardian's main loop over orders, children and the agent's status pipe.
//
// It runs in its own process, single-threaded, with every signal blocked, and owns the pipe ends that it is
// given. The target controls what the guardian reaps and how many processes there are, never its orders.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "agent/guardian.hpp"
#include "agent/protocol.hpp"

namespace callgate::agent {

struct GuardChannels {
    UniqueFd orders;    // read end
    UniqueFd events;    // write end
    UniqueFd status;    // read end, non-blocking: the agent's events
    UniqueFd children;  // signalfd for SIGCHLD
    /// A byte that is written to `wake` continues the supervisor, and `woken` has it to be read. Both are
    /// empty if the guardian's signals reach others than its descendants.
    UniqueFd wake, woken;
};

class GuardianLoop {
public:
    /// `supervisor` is this process's parent.
    GuardianLoop(const GuardianConfig& config, GuardChannels channels, pid_t command, pid_t supervisor);

    /// Runs until no process of the tree is left or the supervisor is gone. Returns the exit status: 0 if
    /// nothing of the temporary directory is left.
    int run();

private:
    using Clock = std::chrono::steady_clock;

    enum class Children : std::uint8_t { none, quiet, more };

    void wait_for_something(Children children);
    void receive_order();
    void receive_status();
    void status_closed();
    void drop_spare_capability() const;
    /// Reaps changed children, but at most `most`: a tree that dies as fast as it grows must not delay
    /// orders.
    Children reap(int most);
    void reap_one(const siginfo_t& seen);
    void command_changed(int code, int status);
    void command_ended();
    void tell_lingering();
    void keep_deadlines();
    /// Time until the next deadline or look at the supervisor; -1: none.
    [[nodiscard]] int timeout_ms() const;
    [[nodiscard]] bool supervisor_is_to_run() const;
    void wake_supervisor() const;
    /// Sends these signals, in order, to every descendant.
    void signal_all(std::initializer_list<int> signals) const;
    void hurry() const;
    void end_all();
    int finish();
    [[nodiscard]] int remove_directory() const;
    void await_dismissal();
    [[noreturn]] void lost();
    void send(Event::Kind kind, int value);
    void send(const Event& event);

    const GuardianConfig& config_;
    GuardChannels channels_;
    const pid_t command_, supervisor_;
    bool confined_ = false, failed_ = false;
    bool command_stopped_ = false;
    bool supervisor_stops_ = false;  // it has said so, and not yet that it goes on
    bool expired_ = false;
    bool command_reaped_ = false;
    bool dismissed_ = false;
    std::uint64_t reaped_ = 0;
    std::optional<Clock::time_point> deadline_;  // of the run
    std::optional<Clock::time_point> sweep_;     // of the processes that are left
    std::optional<Clock::time_point> linger_;    // until then they may end by themselves
};

}  // namespace callgate::agent
