// The main thread's loop while a run goes on: signals, the guardian's events, timers, the receivers'
// watchdog.
//
// Owns the process's signal descriptor, and uses the guardian's handles while it runs. Nothing here waits for
// a call of the target, and no call waits for anything here.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "agent/guardian.hpp"
#include "agent/protocol.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

class EventLoop {
public:
    struct Settings {
        std::optional<std::chrono::milliseconds> wall;
        std::chrono::milliseconds grace{2000};
        /// The command itself has ended (the rest of its tree may go on).
        std::function<void(int exit_code)> command_ended;
        /// The person's terminal, where the run has another one (--ask tty).
        struct Relay {
            /// For a command that was stopped because it wants it; false: callgate is in the background.
            std::function<bool()> take;
            /// Before callgate stops.
            std::function<void()> give_back;
            /// When it goes on; whether the command has the keys again. `wanted`: it is stopped for them.
            std::function<bool(bool wanted)> resume;
        };
        std::optional<Relay> relay;
        /// The watchdog; false: it may sleep.
        std::function<bool()> tick;
        std::chrono::milliseconds tick_interval{20};
    };
    /// Blocks the signals that it handles in the calling thread: call before any thread is made.
    EventLoop();

    /// Until no process of the tree is left; the guardian is then dismissed, and the caller reaps it. Fills
    /// everything of the outcome but usage of the supervisor's own.
    [[nodiscard]] RunOutcome run(agent::Guardian& guardian, Settings settings);

    /// For what else belongs to this loop's thread.
    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    /// Any thread: ends the whole tree; `outcome` names why, unless something was named before.
    void end_tree(std::string outcome);
    /// Any thread: calls are coming, the watchdog is to tick.
    void wake_watchdog();
    /// Any thread: as Ctrl-Z on the run's own terminal.
    void suspend_command();
    /// Any thread: callgate holds the person's terminal again.
    void give_keys_to_command();
    /// Any thread: called by the loop soon, unless it ends before.
    void run_soon(std::function<void()> what);

private:
    void watch_events();
    void watch_signals();
    void on_event(const agent::Event& event);
    void on_stopped(int signal);
    void on_signal(int signal, int code);
    void on_terminate(int signal);
    void on_guardian_gone();
    void order(agent::Order::Kind kind, int value = 0);
    void name_outcome(const std::string& outcome);
    void start_wall();
    void start_ticks();
    void finish();

    boost::asio::io_context context_;
    agent::Guardian* guardian_ = nullptr;  // while it runs
    Settings settings_;
    boost::asio::posix::stream_descriptor signals_, events_;
    boost::asio::steady_timer wall_, grace_, ticks_;
    std::array<agent::Event, 8> said_{};
    RunOutcome outcome_;
    std::chrono::steady_clock::time_point started_;
    int passed_on_ = 0;       // the last signal that was passed on
    int terminations_ = 0;    // SIGTERM and SIGHUP seen
    bool continued_ = false;  // a SIGCONT is on its way that was seen already
    bool ending_ = false;     // the whole tree was told to end
    bool tree_ended_ = false;
};

}  // namespace callgate
