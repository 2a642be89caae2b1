// The parts that answer the command's tree while it lives: rules, event loop, approval service, workers and
// the limits of the tree.
//
// It is made and run once, on the main thread. Destroyed before it has run, it leaves nothing. After a run
// keep it until the process ends, because its worker threads stay where they wait.
#pragma once

#include <functional>
#include <optional>

#include "rules/plan/rename_check.hpp"
#include "supervisor/approval/approval_service.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/calls/network/own_servers.hpp"
#include "supervisor/calls/network/own_sockets.hpp"
#include "supervisor/calls/opaque.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/front/tls_front.hpp"
#include "supervisor/kernel/kept_sockets.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/names/service.hpp"
#include "supervisor/nested/nested_runs.hpp"
#include "supervisor/receive/worker_pool.hpp"
#include "supervisor/run/desktop.hpp"
#include "supervisor/run/event_loop.hpp"
#include "supervisor/run/launch.hpp"
#include "supervisor/run/limits/tree_limits.hpp"
#include "supervisor/run/log_sync.hpp"

namespace callgate {

class RunLoop final : approval::ApprovalOwner {
public:
    struct Needs {
        const Request& request;
        const Compiled& compiled;
        Launched& launched;
        RunReport& report;
        calls::Refusals& refusals;
    };
    /// Makes everything that needs no command, while the agent confines itself. All of `needs`
    /// outlives it. Worker threads exist from here on; they drop their capabilities themselves. Throws
    /// std::exception.
    explicit RunLoop(Needs needs);
    RunLoop(const RunLoop&) = delete;
    RunLoop& operator=(const RunLoop&) = delete;
    ~RunLoop();

    /// The command, and the parts of its run that exist only when it is known. They outlive the RunLoop.
    struct Work {
        const Command& command;
        audit::Log* log = nullptr;                // null: --no-audit
        limits::ControlGroups* groups = nullptr;  // null: no limit concerns the whole tree
        std::function<approval::RunStatus()> status;
        std::function<void()> started{};                   // the command begins; may be empty
        std::function<void(int exit_code)> command_ended;  // the command itself has ended
    };
    /// Takes the listener, lets the command begin, and returns when nothing of its tree is left and no call
    /// is handled any more. Throws std::exception if the command cannot begin.
    [[nodiscard]] RunOutcome run(Work work);

    /// Ends the tree, because the log has reached its limit. Any thread; it does not wait.
    void end_for_full_log();
    /// Prints a line on stderr soon, from a thread that may wait. Any thread; it does not wait.
    void say_soon(std::string line);

private:
    void say_untold() const;
    [[nodiscard]] calls::DecideNeeds decide_needs();
    [[nodiscard]] calls::FileNeeds file_needs();
    [[nodiscard]] std::function<std::optional<std::string>(const struct stat&)> replacement();
    void resume_calls(approval::ParkedCalls calls) override;
    void kill_run() override;
    void stop_run() override;
    approval::RunStatus run_status() override;
    void suspend_command() override;
    void foreground_regained() override;
    [[nodiscard]] std::optional<EventLoop::Settings::Relay> relay() const;
    void prepare_answers(const Work& work);
    void start_front();
    void watch_front();
    [[nodiscard]] nested::Outermost outermost();
    void announce_wish() const;

    Needs given_;
    const rules::RuleSet& rules_;
    const rules::StaticGrants grants_;
    const rules::RenameCheck moves_;
    const calls::Basis enforced_{rules_, grants_, moves_};
    std::optional<calls::Observation> observed_;
    calls::IpcObjects ipc_objects_;
    calls::SharedMemory shared_memory_;
    calls::SettingsLocks locks_;
    calls::OpaqueMemories opaque_;
    std::optional<calls::OwnSockets> own_sockets_;
    calls::OwnServers own_servers_;
    std::optional<kernel::KeptSockets> kept_sockets_;  // if descriptors cannot be copied from the run
    EventLoop loop_;
    std::optional<LogSync> sync_;
    calls::NameLock names_{given_.compiled.name_lock.get()};
    std::optional<calls::Parties> parties_;  // if the rules know parties
    calls::DecideNeeds deciding_;
    std::string login_file_;  // set before the workers start
    const calls::FileNeeds files_;
    const calls::ExecNeeds exec_;
    std::optional<names::Service> look_ups_;  // if look-ups are decided
    std::unique_ptr<front::TlsFront> front_;  // if the names of TLS servers are checked
    calls::NetworkNeeds network_{names_};
    nested::Channel channel_;
    const calls::ProcessNeeds processes_;
    WorkerNeeds needs_;
    nested::Runs nested_;
    kernel::Listener listener_;
    std::optional<boost::asio::posix::stream_descriptor> front_events_;
    std::function<approval::RunStatus()> status_;
    std::optional<approval::ApprovalService> approval_;  // once the log is known
    std::optional<Desktop> desktop_;                     // --notify desktop
    bool untold_ = false;                                // it could not be told
    WorkerPool workers_;
    std::optional<limits::TreeLimits> tree_limits_;
};

/// Makes the limits of the whole tree, if there are some; the loop ends the tree where one is exceeded.
void hold_limits(const RunLoop::Needs& given, const RunLoop::Work& work, EventLoop& loop,
                 std::optional<limits::TreeLimits>& held);
/// Lets the loop ask and tell the limits where it stops with the command.
void set_limits(EventLoop::Settings& settings, std::optional<limits::TreeLimits>& held);
/// Ends them, and notes what they have seen.
void note_tree_limits(std::optional<limits::TreeLimits>& held, RunOutcome& outcome);

}  // namespace callgate
