#include "supervisor/run/run_loop.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/process/held_signals.hpp"
#include "base/process/open_files.hpp"
#include "supervisor/approval/terminal/terminal.hpp"

namespace callgate {

namespace {

/// How long a reader of the log may take once the run is over.
constexpr std::chrono::seconds max_log_wait{2};

}  // namespace

RunLoop::RunLoop(Surroundings surroundings)
    : given_(std::move(surroundings)),
      rules_(given_.config.enforced ? *given_.config.enforced : *given_.config.rules),
      grants_(given_.config.plan),
      moves_(rules_, grants_),
      ipc_objects_(given_.begun.made.objects()),
      deciding_(decide_needs()),
      files_(file_needs()),
      exec_(given_.config.plan, grants_, deciding_),
      processes_{given_.begun.guardian.pid, ::geteuid()},
      needs_{.decide = deciding_,
             .families = {files_, exec_, network_, ipc_objects_, processes_},
             .keep_capabilities = given_.config.keep_capabilities,
             .identity = require(kernel::status(::getpid()), "cannot read /proc/self/status")},
      receivers_(listener_, needs_, [this] { loop_.wake_watchdog(); }) {
    // Threads from here on: they inherit the blocked signals.
    raise_open_files();
    receivers_.prepare();
}

RunLoop::~RunLoop() {
    if (desk_) desk_->stop();
}

void RunLoop::use(audit::Log* log) {
    deciding_.log = log;
    if (log != nullptr) sync_.emplace(loop_, *log);
    desk_.emplace(given_.config.ask,
                  approval::ApprovalService::RunParts{.loop = loop_.context(),
                                                      .run = given_.config.run,
                                                      .log = log,
                                                      .terminal = given_.config.terminal.get(),
                                                      .guardian = given_.begun.guardian.pid},
                  static_cast<approval::ApprovalOwner&>(*this));
    if (given_.config.ask.who != approval::AskSettings::Who::never) deciding_.questions = &desk_->questions();
    // A person's terminal is taken only where the command is about to begin.
    if (!given_.config.terminal) desk_->start();
}

calls::DecideNeeds RunLoop::decide_needs() {
    const SessionConfig& config = given_.config;
    if (config.enforced) {
        observed_.emplace(*config.rules, config.observed_plan,
                          config.plan.record != rules::RecordMode::minimal);
    }
    return {.enforced = enforced_,
            .record_mode = config.plan.record,
            .observation = observed_ ? &*observed_ : nullptr,
            .home = config.home,
            .sink = given_.report,
            .guardian = given_.begun.guardian.pid,
            .uid = ::geteuid(),
            .kill_tree = [this] { loop_.end_tree("killed_by_rule"); },
            .sync_log = [this] { sync_->request(); }};  // something was recorded
}

calls::FileNeeds RunLoop::file_needs() {
    const SessionConfig& config = given_.config;
    return {.plan = config.plan,
            .grants = grants_,
            .moves = moves_,
            .names = names_,
            .cross_directory_rename = given_.begun.cross_directory_rename.get(),
            .guardian = given_.begun.guardian.pid,
            .uid = ::geteuid(),
            .terminal = config.terminal ? config.terminal->number() : -1,
            .keep_capabilities = config.keep_capabilities};
}

void RunLoop::resume_calls(approval::ParkedCalls calls) { receivers_.resume(std::move(calls)); }

void RunLoop::kill_run() { deciding_.kill_tree(); }

void RunLoop::stop_run() { ::kill(::getpid(), SIGTERM); }

approval::RunStatus RunLoop::run_status() { return given_.status(); }

void RunLoop::suspend_command() { loop_.suspend_command(); }

void RunLoop::foreground_regained() { loop_.give_keys_to_command(); }

std::optional<EventLoop::Settings::Relay> RunLoop::relay() const {
    approval::Terminal* const terminal = given_.config.terminal.get();
    if (terminal == nullptr) return std::nullopt;
    return EventLoop::Settings::Relay{.take = [terminal] { return terminal->take(); },
                                      .give_back = [terminal] { terminal->suspend(); },
                                      .resume = [terminal](bool wanted) { return terminal->resume(wanted); }};
}

void RunLoop::take_listener(limits::ControlGroups* groups) {
    const SessionConfig& config = given_.config;
    listener_.open(given_.begun.take_listener(config));
    if (config.terminal) desk_->start();
    if (groups != nullptr)
        tree_limits_.emplace(limits::TreeLimitSettings{
            .limits = config.limits,
            .guardian = given_.begun.guardian.pid,
            .agent = given_.begun.agent,
            .made = &given_.begun.made.objects(),
            .groups = groups,
            .places = {config.workdir, config.temporary_directory},
            .exceeded = [this](const std::string& outcome) { loop_.end_tree(outcome); }});
    if (held_signal() != 0) throw SetupError("a signal ended the run before the command began");
    if (tree_limits_) tree_limits_->start();
}

RunOutcome RunLoop::run(std::function<void(int exit_code)> command_ended) {
    // The agent wakes up, and closes what the command must not have, while the receivers do.
    given_.begun.let_go();
    receivers_.start();
    if (given_.config.begun) given_.config.begun();
    RunOutcome outcome = loop_.run(given_.begun.guardian,
                                   {.wall = given_.config.limits.wall,
                                    .grace = given_.config.grace,
                                    .command_ended = std::move(command_ended),
                                    .relay = relay(),
                                    .tick = [this] { return receivers_.tick(); },
                                    .tick_interval = std::chrono::milliseconds(WorkerPool::tick_interval_ms)});
    if (deciding_.log != nullptr) deciding_.log->limit_waiting(max_log_wait);
    desk_->stop();
    receivers_.stop();
    note_tree_limits(outcome);
    if (sync_) sync_->finish();
    outcome.notifications = needs_.notifications.load();
    outcome.continued = needs_.continued.load();
    return outcome;
}

void RunLoop::note_tree_limits(RunOutcome& outcome) {
    if (!tree_limits_) return;
    tree_limits_->stop();
    outcome.peak = tree_limits_->peak();
    // Whoever the kernel killed may have ended the run before that was read.
    const auto reached = tree_limits_->group_reached();
    if (reached && (outcome.outcome == "exited" || outcome.outcome == "signaled")) {
        outcome.outcome = *reached;
        outcome.exit_status = 128 + SIGKILL;
    }
}

}  // namespace callgate
