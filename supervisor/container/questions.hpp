// The questions of one container, answered by `callgate approve` as those of a run.
//
// The socket is in the runtime directory of the agent's user, and the process outside has made it and removes
// it. A run waits in its event loop, and a container's supervisor in poll(2) on its listeners. So the service
// has a thread of its own, which lives while the container does. Processes of the container never answer. The
// socket has no name in its root, unless somebody has mounted the directory there. Then descendants of its
// first process are refused, and all of its PID namespace: the runtime adds processes that descend from none.
// So is the supervisor itself, which connects on behalf of them.
//
// An attacker in the container controls names and arguments in questions, as in a run.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "supervisor/approval/approval_service.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"

namespace callgate::container {

/// How questions are answered.
struct Asking {
    approval::RunSocket socket;  // taken when the questions begin
    std::chrono::milliseconds timeout{};
};

class Questions final : approval::ApprovalOwner {
public:
    struct Needs {
        Asking& asking;
        std::string run, container;
        pid_t first = -1;  // the container's first process
        audit::Log* log = nullptr;
        std::function<void(approval::ParkedCalls)> resume;  // any thread
        std::function<void()> kill, stop;                   // any thread
        std::function<audit::Counts()> counts;              // any thread
    };
    explicit Questions(Needs needs);
    ~Questions() { stop(); }

    [[nodiscard]] approval::QuestionQueue& queue() { return service_.questions(); }
    /// Starts the thread, which inherits the blocked signals.
    void start();
    /// Withdraws what waits. Idempotent.
    void stop();

private:
    void resume_calls(approval::ParkedCalls calls) override { needs_.resume(std::move(calls)); }
    void kill_run() override { needs_.kill(); }
    void stop_run() override { needs_.stop(); }
    [[nodiscard]] approval::RunStatus run_status() override;
    void suspend_command() override {}
    void foreground_regained() override {}

    Needs needs_;
    boost::asio::io_context loop_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    approval::ApprovalService service_;
    std::thread thread_;
};

}  // namespace callgate::container
