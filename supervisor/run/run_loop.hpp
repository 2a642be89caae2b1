// What answers the command's tree while it lives: rules, event loop, desk, receivers and the tree's limits,
// wired together.
//
// Made, given its log, confined and run once, on the main thread. Destroyed before it has run, it leaves
// nothing. After a run it is better left as it is: the process ends then, and all of this would be taken
// apart for nobody.
#pragma once

#include <functional>
#include <optional>

#include "rules/plan/rename_check.hpp"
#include "supervisor/approval/approval_service.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/receive/worker_pool.hpp"
#include "supervisor/run/event_loop.hpp"
#include "supervisor/run/launch.hpp"
#include "supervisor/run/limits/tree_limits.hpp"
#include "supervisor/run/log_sync.hpp"
#include "supervisor/run/run.hpp"

namespace callgate {

class RunLoop final : approval::ApprovalOwner {
public:
    struct Surroundings {
        const SessionConfig& config;
        Launch& begun;
        RunReport& report;
        std::function<approval::RunStatus()> status;
    };
    /// Everything that can be made while the agent arms itself, before the command is known; all of
    /// `surroundings` outlives it. From here on there are threads, which have dropped their capabilities
    /// themselves. Throws std::exception.
    explicit RunLoop(Surroundings surroundings);
    RunLoop(const RunLoop&) = delete;
    RunLoop& operator=(const RunLoop&) = delete;
    ~RunLoop();

    /// Where decisions are recorded; null: nowhere. Before the listener is taken. It outlives this.
    void use(audit::Log* log);
    /// Takes the listener as soon as the agent is confined. The command has not begun. `groups` (null: no
    /// limit is one of the whole tree) outlive this. Throws std::exception.
    void take_listener(limits::ControlGroups* groups);
    /// Lets the command begin, and returns when nothing of its tree is left and nobody answers any more.
    /// `command_ended` is called when the command itself has ended.
    [[nodiscard]] RunOutcome run(std::function<void(int exit_code)> command_ended);
    /// Why the log could not be written, 0.
    [[nodiscard]] int log_error() const { return deciding_.log_error.load(); }

private:
    [[nodiscard]] calls::DecideNeeds decide_needs();
    [[nodiscard]] calls::FileNeeds file_needs();
    void resume_calls(approval::ParkedCalls calls) override;
    void kill_run() override;
    void stop_run() override;
    approval::RunStatus run_status() override;
    void suspend_command() override;
    void foreground_regained() override;
    [[nodiscard]] std::optional<EventLoop::Settings::Relay> relay() const;
    void note_tree_limits(RunOutcome& outcome);

    Surroundings given_;
    const rules::RuleSet& rules_;
    const rules::StaticGrants grants_;
    const rules::RenameCheck moves_;
    const calls::Basis enforced_{rules_, grants_, moves_};
    std::optional<calls::Observation> observed_;
    calls::IpcObjects ipc_objects_;
    EventLoop loop_;
    std::optional<LogSync> sync_;
    std::shared_mutex names_;
    calls::DecideNeeds deciding_;
    const calls::FileNeeds files_;
    const calls::ExecNeeds exec_;
    calls::NetworkNeeds network_{names_};
    const calls::ProcessNeeds processes_;
    WorkerNeeds needs_;
    kernel::Listener listener_;
    std::optional<approval::ApprovalService> desk_;  // once there is a log
    WorkerPool receivers_;
    std::optional<limits::TreeLimits> tree_limits_;
};

}  // namespace callgate
