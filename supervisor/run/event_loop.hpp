// The main thread's loop during a run: signals, the guardian's events, timers and the workers' watchdog.
//
// It owns the process's signal descriptor, and uses the guardian's handles while it runs. The loop never
// waits for a call of the target, and no call waits for the loop.
//
// The target chooses when its processes stop. A stop is followed only as a job of the person's shell, in the
// foreground of a terminal that callgate shares. A tracer's stop never is. The guardian keeps the deadline,
// so it holds while callgate is stopped.
#pragma once

#include <array>
#include <atomic>
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
            /// Whether callgate has the terminal's foreground.
            std::function<bool()> foreground;
            /// Takes it for a command that stopped because it wants it. False: callgate is in the background.
            std::function<bool()> take;
            /// Called before callgate stops.
            std::function<void()> give_back;
            /// Called when callgate goes on. `wanted`: the command stopped for the keys. Returns whether it
            /// has them again.
            std::function<bool(bool wanted)> resume;
        };
        std::optional<Relay> relay;
        /// Called right before callgate stops with its command, and when it goes on; may be empty.
        std::function<void()> stops{}, goes_on{};
        /// The command wants the terminal, and callgate is in the background; may be empty.
        std::function<void()> wants_terminal{};
        /// Whether the command is stopped, and not by callgate for a moment; may be empty.
        std::function<bool(pid_t)> stopped_by_itself{};
        /// Runs the watchdog; false: it may sleep.
        std::function<bool()> tick;
        std::chrono::milliseconds tick_interval{20};
    };
    /// Blocks the signals that it handles in the calling thread: call before any thread is made.
    EventLoop();

    /// Returns when no process of the tree is left. The guardian then waits to be dismissed.
    /// Fills the outcome except for the supervisor's own counts.
    [[nodiscard]] RunOutcome run(agent::Guardian& guardian, Settings settings);

    /// Handlers posted here run on the loop's thread.
    [[nodiscard]] boost::asio::io_context& context() { return context_; }
    /// Ends the whole tree. `outcome` is the run's, unless it has one already. Any thread.
    void end_tree(Outcome outcome);
    /// The same for a thread with descriptors of its own, which has this one of the loop.
    void end_tree_from_apart(Outcome outcome);
    [[nodiscard]] int ended_from_apart() { return from_apart_.native_handle(); }
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
    void on_stopped(const agent::Event& event);
    [[nodiscard]] bool in_foreground() const;
    void follow_stop();
    [[nodiscard]] bool stop(bool whole_group);
    /// A command that stopped in the background goes on when callgate has the foreground.
    void await_foreground();
    void continue_command();
    [[nodiscard]] bool wants_terminal() const;
    void on_signal(int signal, int code);
    void note_terminal_stop();
    void on_terminate(int signal);
    void on_guardian_gone();
    void order(agent::Order::Kind kind, int value = 0);
    /// Keeps the first outcome. True: it is this one.
    bool settle(Outcome outcome);
    void settle(Outcome outcome, int exit_status);
    void command_ended(Outcome outcome, int exit_status);
    void set_deadline();
    void start_ticks();
    void watch_apart();
    void finish();

    boost::asio::io_context context_;
    agent::Guardian* guardian_ = nullptr;  // while it runs
    Settings settings_;
    boost::asio::posix::stream_descriptor signals_, events_, from_apart_;
    boost::asio::steady_timer grace_, ticks_, foreground_;
    std::atomic<Outcome> outcome_from_apart_{};
    std::array<agent::Event, 8> received_{};
    RunOutcome outcome_;
    bool settled_ = false;  // outcome_.outcome is final
    std::chrono::steady_clock::time_point started_;
    int passed_on_ = 0;           // the last signal that was passed on
    int terminations_ = 0;        // SIGTERM and SIGHUP seen
    bool continued_ = false;      // the next SIGCONT was handled already
    int stopped_by_ = 0;          // the signal that the command has stopped by; 0: it runs
    bool terminal_stop_ = false;  // the terminal has sent SIGTSTP, which only its keys do
    bool ending_ = false;         // the guardian has the order to end the tree
    bool tree_ended_ = false;
};

}  // namespace callgate
