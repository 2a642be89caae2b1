// Where a run's questions meet those who answer: the broker, its channels and its clock, on the event loop.
//
// Everything here but the broker belongs to the event loop's thread. WorkerPool only park calls with the
// broker; that something changed reaches the loop as a posted function. The descriptor of `--ask fd:N` and
// the run's socket are close-on-exec, and the command never gets them.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/approval/protocol/protocol_session.hpp"

namespace callgate::approval {

/// --ask, understood.
struct AskSettings {
    enum class Who : std::uint8_t { never, automatic, terminal, socket, descriptor };
    Who who = Who::never;
    int descriptor = -1;
    std::string runtime_directory;  // of the socket
    std::string config_directory;   // of proposed rules
    std::chrono::milliseconds timeout{60'000};
};

class Connection;
class Terminal;

class ApprovalService {
public:
    struct Environment {
        boost::asio::io_context& loop;
        std::string run;
        audit::Log* log = nullptr;
        Terminal* terminal = nullptr;    // --ask tty, or auto where there is one
        std::function<void()> suspend;   // Ctrl-Z at a prompt there
        std::function<void()> regained;  // the terminal is in the foreground again
        pid_t guardian = -1;             // whose descendants never answer
        std::function<void(ParkedCalls)> resume;
        std::function<void()> kill;  // an answer: ends the run as a rule's kill does
        std::function<void()> stop;  // `callgate stop`
        std::function<RunStatus()> status;
    };
    /// Throws std::runtime_error where the channel cannot be had.
    ApprovalService(AskSettings settings, Environment environment);
    ~ApprovalService();

    [[nodiscard]] QuestionQueue& broker() { return broker_; }
    /// Event loop: from now on questions reach whoever answers.
    void start();
    /// Event loop, when the run is over.
    void stop();

private:
    class Socket;
    void changed();
    void synchronise();
    void tick();
    bool seek();
    void open_socket();
    void add_link(UniqueFd fd, audit::Answerer who, std::string token, rules::DecidedBy by);
    void remove(Connection& link);
    void weigh_reachability();
    [[nodiscard]] std::string status() const;

    AskSettings settings_;
    Environment environment_;
    LogJournal journal_;
    QuestionQueue broker_;
    boost::asio::steady_timer ticks_, opening_;
    bool ticking_ = false, stopped_ = false, terminal_lost_ = false;
    std::int64_t started_ns_ = 0;
    std::atomic<bool> synchronising_{false};
    std::vector<std::unique_ptr<Connection>> links_;
    std::unique_ptr<Socket> socket_;
};

}  // namespace callgate::approval
