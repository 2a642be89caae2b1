#include "supervisor/run/run_loop.hpp"

#include <linux/capability.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/process/held_signals.hpp"
#include "base/process/open_files.hpp"
#include "base/write_all.hpp"
#include "base/write_error.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/calls/files/settings_copy.hpp"
#include "supervisor/host/own_addresses.hpp"
#include "supervisor/nested/explained.hpp"

namespace callgate {

namespace {

/// A reader of the log has this long once the run is over.
constexpr std::chrono::seconds max_log_wait{2};

std::optional<calls::Observation> observation(const Compiled& compiled) {
    if (!compiled.observed_plan) return std::nullopt;
    return std::optional<calls::Observation>(std::in_place, *compiled.rules, *compiled.observed_plan,
                                             compiled.plan.record != rules::RecordMode::minimal);
}

/// It is absent where binds are not seen, and in audit mode, which denies nothing.
std::optional<calls::OwnSockets> own_sockets(const RunLoop::Needs& given) {
    const bool seen = given.compiled.plan.notified.contains(rules::Operation::bind);
    if (!seen || given.compiled.observed_plan) return std::nullopt;
    return std::optional<calls::OwnSockets>(std::in_place, *given.compiled.enforced, given.request.workdir);
}

}  // namespace

RunLoop::RunLoop(Needs needs)
    : given_(needs),
      rules_(*given_.compiled.enforced),
      grants_(given_.compiled.plan),
      moves_(rules_, grants_),
      observed_(observation(given_.compiled)),
      ipc_objects_(given_.launched.made.objects()),
      shared_memory_(given_.launched.made.objects().shared_files),
      own_sockets_(own_sockets(given_)),
      own_servers_(given_.launched.guardian.pid),
      deciding_(decide_needs()),
      files_(file_needs()),
      exec_(given_.compiled.plan, grants_, deciding_),
      channel_(given_.request.run, given_.request.denials),
      processes_{given_.launched.guardian.pid, opaque_},
      needs_{.decide = deciding_,
             .families = {files_, exec_, network_, ipc_objects_, processes_},
             .keep_capabilities = given_.request.keep_capabilities,
             .identity = given_.request.keep_capabilities == 0
                             ? kernel::Credentials{}
                             : require(kernel::own_identity(given_.request.keep_capabilities),
                                       "cannot read /proc/self/status"),
             .refused = &given_.launched.refused,
             .refusals = &given_.refusals},
      nested_(outermost(), channel_),
      workers_(listener_, needs_, [this] { loop_.wake_watchdog(); }) {
    // Threads from here on: they inherit the blocked signals.
    raise_open_files();
    if ((given_.request.keep_capabilities & capability(CAP_SYS_CHROOT)) != 0)
        kernel::CallerCache::expect_other_roots();
    if (own_sockets_) network_.own_sockets = &*own_sockets_;
    network_.udp = given_.compiled.plan.udp;
    if (given_.compiled.plan.sockets_on_behalf)
        kept_sockets_.emplace(given_.launched.guardian.pid, given_.request.keep_capabilities,
                              given_.compiled.plan.run_servers);
    if (given_.compiled.plan.run_servers) network_.own_servers = &own_servers_;
    network_.reserved = &channel_;
    nested::answer_explain(channel_, given_.request.home, given_.request.workdir);
    needs_.nested = &nested_;
    workers_.prepare();
}

RunLoop::~RunLoop() {
    if (approval_) approval_->stop();
}

namespace {

class NestedReport final : public nested::Report {
public:
    NestedReport(std::shared_ptr<const rules::RuleSet> rules, const std::string& home) {
        report_.use_rules(std::move(rules), home);
        report_.for_nested_run();
    }
    void note(const audit::Decision& decision) override { report_.note(decision); }
    [[nodiscard]] std::string json() const override { return report_.gathered_json(); }

private:
    RunReport report_;
};

}  // namespace

nested::Outermost RunLoop::outermost() {
    return {.decide = deciding_,
            .families = needs_.families,
            .plan = given_.compiled.plan,
            .audit_mode = given_.compiled.observed_plan.has_value(),
            .keep_capabilities = given_.request.keep_capabilities != 0,
            .made = given_.launched.nested.objects(),
            .make_report = [home = given_.request.home](std::shared_ptr<const rules::RuleSet> rules) {
                return std::make_unique<NestedReport>(std::move(rules), home);
            }};
}

calls::DecideNeeds RunLoop::decide_needs() {
    return {.enforced = enforced_,
            .record_mode = given_.compiled.plan.record,
            .observation = observed_ ? &*observed_ : nullptr,
            .home = given_.request.home,
            .sink = given_.report,
            .guardian = given_.launched.guardian.pid,
            .uid = ::geteuid(),
            .refuses_object =
                [this](const calls::Subject& one, const rules::Verdict& verdict) {
                    auto refused = shared_memory_.refuses(one);
                    if (!refused) refused = locks_.refuses(rules_, one);
                    return refused || !own_sockets_ ? refused : own_sockets_->refuses(one, verdict);
                },
            .is_own_address = is_own_address,
            .kill_tree = [this] { loop_.end_tree(Outcome::killed_by_rule); },
            .sync_log = [this] { sync_->request(); },  // something was recorded
            .count_soon = [this] { sync_->count_soon(); }};
}

calls::FileNeeds RunLoop::file_needs() {
    const Compiled& compiled = given_.compiled;
    return {.plan = compiled.plan,
            .grants = grants_,
            .moves = moves_,
            .names = names_,
            .cross_directory_rename = given_.launched.cross_directory_rename.get(),
            .guardian = given_.launched.guardian.pid,
            .shared_memory = &shared_memory_,
            .locks = &locks_,
            .opaque = &opaque_,
            .terminal = compiled.terminal ? compiled.terminal->number() : -1,
            .keep_capabilities = given_.request.keep_capabilities,
            .replacement = replacement(),
            .links = compiled.snapshot.links ? &*compiled.snapshot.links : nullptr,
            .login_file = &login_file_};
}

/// The files about name servers, where there is no room.
std::function<std::optional<std::string>(const struct stat&)> RunLoop::replacement() {
    if (!given_.compiled.name_files) return {};
    return [this](const struct stat& object) -> std::optional<std::string> {
        const auto file = names::name_file(object);
        if (!file || !look_ups_) return std::nullopt;
        return look_ups_->text(*file, deciding_.questions != nullptr && rules_.may_ask());
    };
}

void RunLoop::resume_calls(approval::ParkedCalls calls) {
    for (auto next = calls.begin(); next != calls.end();) {
        const auto one = next++;
        if (!one->waiter) continue;
        one->waiter->answered(one->approvals.back());
        calls.erase(one);
    }
    if (!calls.empty()) workers_.resume(std::move(calls));
}

void RunLoop::kill_run() { deciding_.kill_tree(); }

void RunLoop::stop_run() { ::kill(::getpid(), SIGTERM); }

approval::RunStatus RunLoop::run_status() { return status_(); }

void RunLoop::end_for_full_log() { loop_.end_tree(Outcome::log_full); }

void RunLoop::say_soon(std::string line) {
    loop_.run_soon([this, text = std::move(line)]() mutable {
        if (sync_) sync_->say(std::move(text));
    });
}

void RunLoop::suspend_command() { loop_.suspend_command(); }

void RunLoop::foreground_regained() { loop_.give_keys_to_command(); }

std::optional<EventLoop::Settings::Relay> RunLoop::relay() const {
    approval::Terminal* const terminal = given_.compiled.terminal.get();
    if (terminal == nullptr) return std::nullopt;
    return EventLoop::Settings::Relay{.foreground = [terminal] { return terminal->foreground(); },
                                      .take = [terminal] { return terminal->take(); },
                                      .give_back = [terminal] { terminal->suspend(); },
                                      .resume = [terminal](bool wanted) { return terminal->resume(wanted); }};
}

/// A person's terminal is taken only when the command is about to begin.
void RunLoop::prepare_answers(const Work& work) {
    deciding_.log = work.log;
    status_ = work.status;
    if (work.log != nullptr) sync_.emplace(loop_, *work.log);
    const approval::AskSettings& ask = given_.request.ask;
    if (ask.notify_desktop)
        desktop_.emplace(loop_.context(), [this] {
            untold_ = true;
            if (!given_.compiled.terminal) say_untold();
        });
    approval_.emplace(
        ask,
        approval::ApprovalService::RunParts{.loop = loop_.context(),
                                            .run = given_.request.run,
                                            .log = work.log,
                                            .terminal = given_.compiled.terminal.get(),
                                            .may_ask = given_.compiled.rules->may_ask(),
                                            .guardian = given_.launched.guardian.pid,
                                            .note_tree = given_.compiled.note_tree,
                                            .begin_to_wait =
                                                [this](const approval::Question& first, std::size_t count) {
                                                    if (desktop_)
                                                        desktop_->tell(given_.request.run, first, count);
                                                }},
        static_cast<approval::ApprovalOwner&>(*this));
    if (given_.compiled.plan.look_ups) {
        look_ups_.emplace(loop_.context(), deciding_);
        network_.look_ups = &*look_ups_;
        if (given_.compiled.plan.record != rules::RecordMode::minimal) network_.refusals = &given_.refusals;
        if (given_.compiled.sni) start_front();
    }
    if (ask.who != approval::AskSettings::Who::never) deciding_.questions = &approval_->questions();
    if (given_.request.plain_output && given_.compiled.terminal) given_.compiled.terminal->show_plain();
    if (!given_.compiled.terminal) approval_->start();
    listener_.open(given_.launched.take_listener());
    if (given_.compiled.rules->needs_party())
        deciding_.parties =
            &parties_.emplace(given_.launched.agent, work.command.agent, given_.compiled.environment.agent);
    if (given_.compiled.terminal) approval_->start();
}

/// A frame that is on the terminal would be drawn over, so there it waits until the run's end.
void RunLoop::say_untold() const {
    write_error(
        "callgate: the desktop was not told that a question waits: busctl --user found no "
        "org.freedesktop.Notifications\n");
}

/// On the main thread, which lives as long as the run.
void RunLoop::start_front() {
    auto started = front::TlsFront::start(given_.request.caller.signals);
    if (!started) throw SetupError(started.error().text);
    front_ = std::move(*started);
    network_.front = front_.get();
    front_events_.emplace(loop_.context(), ::dup(front_->control()));
    watch_front();
}

void RunLoop::watch_front() {
    front_events_->async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
        if (!error && front_->take_judged()) watch_front();
    });
}

void hold_limits(const RunLoop::Needs& given, const RunLoop::Work& work, EventLoop& loop,
                 std::optional<limits::TreeLimits>& held) {
    if (work.groups == nullptr) return;
    held.emplace(
        limits::TreeLimitSettings{.limits = work.command.limits,
                                  .guardian = given.launched.guardian.pid,
                                  .agent = given.launched.agent,
                                  .made = &given.launched.made.objects(),
                                  .by_nested = &given.launched.nested.objects(),
                                  .groups = work.groups,
                                  .places = {given.request.workdir, given.request.temporary_directory},
                                  .exceeded = [&loop](Outcome outcome) { loop.end_tree_from_apart(outcome); },
                                  .exceeded_by = loop.ended_from_apart()});
}

RunOutcome RunLoop::run(Work work) {
    prepare_answers(work);
    login_file_ = calls::login_file_of(work.command.environment);
    hold_limits(given_, work, loop_, tree_limits_);
    if (held_signal() != 0) throw SetupError("a signal ended the run before the command began");
    if (tree_limits_) tree_limits_->start();
    // The agent wakes up and closes its other descriptors while the workers start.
    given_.launched.let_go();
    workers_.start();
    if (work.started) work.started();
    EventLoop::Settings settings{.wall = work.command.limits.wall,
                                 .grace = given_.request.grace,
                                 .command_ended = std::move(work.command_ended),
                                 .relay = relay(),
                                 .wants_terminal = [this] { announce_wish(); },
                                 .tick = [this] { return workers_.tick(); },
                                 .tick_interval = std::chrono::milliseconds(WorkerPool::tick_interval_ms)};
    set_limits(settings, tree_limits_);
    RunOutcome outcome = loop_.run(given_.launched.guardian, std::move(settings));
    if (deciding_.log != nullptr) deciding_.log->limit_waiting(max_log_wait);
    // The front told of what it refused before it told the client, whose end ended the loop.
    if (front_) static_cast<void>(front_->take_judged());
    approval_->stop();
    if (untold_ && given_.compiled.terminal) say_untold();
    workers_.stop();
    locks_.counts().settle();
    note_tree_limits(tree_limits_, outcome);
    nested_.remove_created();
    if (sync_) sync_->finish();
    outcome.notifications = needs_.notifications.load();
    outcome.continued = needs_.continued.load();
    outcome.log_error = deciding_.log_error.load();
    if (outcome.log_error == 0) outcome.log_error = nested_.log_error();
    return outcome;
}

/// The command is stopped until then, so this is said even with --quiet.
void RunLoop::announce_wish() const {
    static_cast<void>(write_all(STDERR_FILENO, "callgate: run " + given_.request.run +
                                                   " wants the terminal: bring it to the foreground (fg)\n"));
}

void set_limits(EventLoop::Settings& settings, std::optional<limits::TreeLimits>& held) {
    if (!held) return;
    settings.stops = [&held] { held->stand_in(); };
    settings.goes_on = [&held] { held->end_stand_in(); };
    settings.stopped_by_itself = [&held](pid_t command) { return held->stopped_by_itself(command); };
}

void note_tree_limits(std::optional<limits::TreeLimits>& held, RunOutcome& outcome) {
    if (!held) return;
    held->stop();
    outcome.peak = held->peak();
    // The kernel may have ended the command before we read that it reached the limit.
    const auto reached = held->group_reached();
    if (reached && (outcome.outcome == Outcome::exited || outcome.outcome == Outcome::signaled)) {
        outcome.outcome = *reached;
        outcome.exit_status = exit_status(*reached).value_or(outcome.exit_status);
    }
}

}  // namespace callgate
