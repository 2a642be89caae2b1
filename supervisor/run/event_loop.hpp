// The main thread's loop during a run: signals, the guardian's events, timers and the workers' watchdog.
//
// It owns the process's signal descriptor, and uses the guardian's handles while it runs. The loop never
// waits for a call of the target, and no call waits for the loop.
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
        /// The person's terminal, if the run has a terminal of its own (--ask tty).
        struct Relay {
            /// Takes it for a command that stopped because it wants it. False: callgate is in the background.
            std::function<bool()> take;
            /// Called before callgate stops.
            std::function<void()> give_back;
            /// Called when callgate goes on. `wanted`: the command stopped for the keys. Returns whether it
            /// has them again.
            std::function<bool(bool wanted)> resume;
        };
        std::optional<Relay> relay;
        /// Runs the watchdog; false: it may sleep.
        std::function<bool()> tick;
        std::chrono::milliseconds tick_interval{20};
    };
    /// Blocks the signals that it handles in the calling thread: call before any thread is made.
    EventLoop();

    /// Returns when no process of the tree is left. It has then dismissed the guardian; the caller reaps it.
    /// Fills the outcome except for the supervisor's own counts.
    [[nodiscard]] RunOutcome run(agent::Guardian& guardian, Settings settings);

    /// Handlers posted here run on the loop's thread.
    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    /// Ends the whole tree. `outcome` is the run's, unless it has one already. Any thread.
    void end_tree(Outcome outcome);
    /// Makes the watchdog tick, because calls come again. Any thread.
    void wake_watchdog();
    /// Does the same as Ctrl-Z on the run's own terminal. Any thread.
    void suspend_command();
    /// Gives the command the keys, because callgate holds the person's terminal again. Any thread.
    void give_keys_to_command();
    /// Lets the loop call `what` soon, unless it ends before. Any thread.
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
    /// Keeps the first outcome. True: it is this one.
    bool settle(Outcome outcome);
    void settle(Outcome outcome, int exit_status);
    void command_ended(Outcome outcome, int exit_status);
    void start_wall();
    void start_ticks();
    void finish();

    boost::asio::io_context context_;
    agent::Guardian* guardian_ = nullptr;  // while it runs
    Settings settings_;
    boost::asio::posix::stream_descriptor signals_, events_;
    boost::asio::steady_timer wall_, grace_, ticks_;
    std::array<agent::Event, 8> received_{};
    RunOutcome outcome_;
    bool settled_ = false;  // outcome_.outcome is final
    std::chrono::steady_clock::time_point started_;
    int passed_on_ = 0;       // the last signal that was passed on
    int terminations_ = 0;    // SIGTERM and SIGHUP seen
    bool continued_ = false;  // the next SIGCONT was handled already
    bool ending_ = false;     // the guardian has the order to end the tree
    bool tree_ended_ = false;
};

}  // namespace callgate
