// Brings a run's questions to those who answer: the queue, its channels and its clock, on the event loop.
//
// Everything here but the queue belongs to the event loop's thread. Workers only park calls in the queue; a
// posted function tells the loop that something changed. The descriptor of `--ask fd:N` and the run's socket
// are close-on-exec, so the command never gets them.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/approval/protocol/protocol_session.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/approval/terminal/terminal.hpp"

namespace callgate::approval {

/// The value of --ask and its options.
struct AskSettings {
    enum class Who : std::uint8_t { never, automatic, terminal, socket, descriptor };
    Who who = Who::never;
    int descriptor = -1;
    std::string runtime_directory;  // of the socket
    std::string config_directory;   // of proposed rules
    std::chrono::milliseconds timeout{60'000};
    bool notify_desktop = false;
};

/// The run, as its approval service uses it.
class ApprovalOwner {
public:
    /// Takes answered calls, to decide them again. Any thread.
    virtual void resume_calls(ParkedCalls calls) = 0;
    /// An answer ends the run as a rule's kill does. Any thread.
    virtual void kill_run() = 0;
    /// `callgate stop`. Event loop.
    virtual void stop_run() = 0;
    /// The content of a `status` message; the service adds questions, grants and age. Event loop.
    [[nodiscard]] virtual RunStatus run_status() = 0;
    /// Ctrl-Z was typed at a prompt. Any thread.
    virtual void suspend_command() = 0;
    /// The terminal is in the foreground again. Any thread.
    virtual void foreground_regained() = 0;

protected:
    ~ApprovalOwner() = default;
};

class Connection;

class ApprovalService final : QueueOwner, SessionOwner, TerminalOwner {
public:
    struct RunParts {
        boost::asio::io_context& loop;
        std::string run;
        audit::Log* log = nullptr;     // null: nothing is recorded
        Terminal* terminal = nullptr;  // the command has one of its own
        bool may_ask = true;           // some rule asks
        pid_t guardian = -1;           // its descendants never answer
        bool of_container = false;     // nobody within a further PID namespace answers
        AuditApprovalLog::NoteTree note_tree = nullptr;
        /// Questions begin to wait: the first one, and how many. May be empty.
        std::function<void(const Question& first, std::size_t count)> begin_to_wait{};
        /// The run's socket, if somebody else has made it and removes it.
        std::optional<RunSocket> socket{};
    };
    /// `owner` outlives the service.
    ApprovalService(AskSettings settings, RunParts run, ApprovalOwner& owner);
    ~ApprovalService();

    [[nodiscard]] QuestionQueue& questions() { return questions_; }
    /// Event loop: questions reach the approvers from now on. Throws std::runtime_error if a channel that
    /// the user asked for cannot be opened.
    void start();
    /// Event loop, when the run is over.
    void stop();

private:
    class Socket;

    std::int64_t now_ns() override;
    bool has_signal(pid_t thread) override;
    void resume(ParkedCalls calls) override { owner_.resume_calls(std::move(calls)); }
    void questions_changed() override;
    bool find_approver() override;
    void kill_run() override { owner_.kill_run(); }
    std::string status_of_run() override;
    void stop_run() override { owner_.stop_run(); }
    void approver_arrived() override { update_reachability(); }
    void suspend_command() override { owner_.suspend_command(); }
    void terminal_lost() override;
    void foreground_regained() override { owner_.foreground_regained(); }

    /// Questions are asked on the terminal.
    [[nodiscard]] bool asks_on_terminal() const;
    void synchronise();
    void announce(bool questions_wait);
    void tick();
    void open_socket();
    void add_connection(UniqueFd fd, audit::Answerer who, std::string token, rules::DecidedBy by);
    void remove(Connection& connection);
    /// An approver is connected.
    [[nodiscard]] bool attended() const;
    void update_reachability();

    AskSettings settings_;
    RunParts run_;
    ApprovalOwner& owner_;
    AuditApprovalLog log_;
    QuestionQueue questions_;
    boost::asio::steady_timer ticks_, opening_;
    bool ticking_ = false, stopped_ = false, lost_terminal_ = false, announced_ = false;
    std::int64_t started_ns_ = 0;
    std::atomic<bool> synchronising_{false};
    std::vector<std::unique_ptr<Connection>> connections_;
    std::unique_ptr<Socket> socket_;
    bool told_ = false;  // that questions wait
};

}  // namespace callgate::approval
