#include "supervisor/run/run.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/process/remove_tree.hpp"
#include "base/write_all.hpp"
#include "base/test_switch.hpp"
#include "supervisor/audit/write/syslog.hpp"
#include "supervisor/run/launch.hpp"
#include "base/process/held_signals.hpp"
#include "base/plural.hpp"
#include "supervisor/run/run_loop.hpp"

namespace callgate {

namespace {

/// On stderr, by one write: lines of other processes do not come in between. Nobody may read there any more.
void say(const std::string& text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

constexpr const char* system_log = "/dev/log";
/// How long the system's log may take once the run is over.
constexpr std::chrono::seconds max_syslog_wait{2};

std::unique_ptr<audit::Syslog> open_syslog(const SessionConfig& config) {
    if (!config.audit.syslog) return nullptr;
    return require(audit::Syslog::open(system_log),
                   std::string("--syslog: cannot reach ") + system_log + " (is a syslog daemon running?)");
}

std::unique_ptr<audit::Log> make_log(const SessionConfig& config, audit::Syslog* syslog) {
    audit::Log::Options options;
    if (syslog != nullptr) options.copy = [syslog](std::string_view line) { syslog->post(line); };
    options.run = config.run;
    options.mode = config.mode == Mode::audit ? "audit" : "enforce";
    options.key = config.audit.key;
    switch (config.audit.kind) {
        case AuditTarget::Kind::directory:
            return require(audit::Log::in_directory(config.audit.path, std::move(options)),
                           "cannot keep the audit log in " + config.audit.path +
                               " (give another place with --audit FILE, or --no-audit)");
        case AuditTarget::Kind::file:
            return require(audit::Log::at_file(config.audit.path, std::move(options)),
                           "cannot write the audit log " + config.audit.path);
        case AuditTarget::Kind::descriptor:
            return require(audit::Log::on_descriptor(copy_descriptor(config.audit.descriptor, "--audit"),
                                                     std::move(options)),
                           "cannot write the audit log");
        case AuditTarget::Kind::none:
            break;
    }
    return nullptr;
}

}  // namespace

class Run {
public:
    Run(Launch& begun, SessionConfig& config) : begun_(begun), config_(config) {
        report_.use_rules(config_.rules);
    }
    void make_running();
    int run();

private:
    void open_log();
    void tell_guardian();
    void make_groups();
    void drop_capabilities();
    void record_start();
    void supervise();
    void tell_status(int exit_code);
    [[nodiscard]] approval::RunStatus status_of_run() const;
    void finish();
    void tell_end();
    void clean_up();
    void report_failure(const std::string& text);
    [[nodiscard]] RunFacts facts() const;

    Launch& begun_;
    SessionConfig& config_;
    std::unique_ptr<audit::Syslog> syslog_;  // outlives the log
    std::unique_ptr<audit::Log> log_;
    UniqueFd status_fd_;
    std::optional<limits::ControlGroups> groups_;  // where a limit is one of the whole tree
    RunReport report_;
    RunOutcome outcome_;
    std::unique_ptr<RunLoop> running_;
    int log_error_ = 0;
    bool directory_remains_ = false;  // the guardian left the run's private directory to us
    bool cancelled_early_ = false;    // by a signal, before the command began: whoever sent it knows
};

void Run::open_log() {
    if (log_) return;
    syslog_ = open_syslog(config_);
    log_ = make_log(config_, syslog_.get());
}

/// What it would report in our place names the log.
void Run::tell_guardian() {
    open_log();
    RunOutcome lost;
    lost.outcome = "supervisor_lost";
    begun_.set_lost_report(report_.json(facts(), lost, 0, ""));
}

void Run::make_groups() {
    if (limits::TreeLimits::any(config_.limits))
        groups_.emplace(config_.run, config_.limits, begun_.made.objects());
}

/// The guardian does the same for itself, and the agent more.
void Run::drop_capabilities() {
    if (!config_.keep_capabilities && check_enabled("capabilities")) {
        const bool groups = agent::any_group(begun_.made.objects());
        require(groups ? set_override_aside() : drop_held_capabilities(),
                "cannot drop capabilities");
    }
    if (!config_.die_with_parent) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);                              // a change of credentials clears it
    if (::getppid() != config_.parent) ::kill(::getpid(), SIGTERM);  // it ended before
}

void Run::record_start() {
    if (!log_) return;
    audit::RunStart start;
    start.command = config_.command;
    start.workdir = config_.workdir;
    start.rules_sha256 = config_.rules_sha256;
    start.mode = config_.mode == Mode::audit ? "audit" : "enforce";
    if (utsname names{}; ::uname(&names) == 0) {
        start.kernel = names.release;
        start.host = names.nodename;
    }
    start.landlock_abi = config_.plan.landlock_abi;
    start.degraded = config_.degraded;
    start.profiles = config_.profiles;
    start.pid = ::getpid();
    start.temporary_directory = config_.temporary_directory;
    start.home = config_.home;
    start.config = config_.config_home;
    start.surroundings = std::move(config_.surroundings);
    require(log_->record(start), "cannot write the audit log");
}

void Run::make_running() {
    if (running_) return;
    running_ = std::make_unique<RunLoop>(RunLoop::Surroundings{
        .config = config_, .begun = begun_, .report = report_, .status = [this] { return status_of_run(); }});
}

void Run::supervise() {
    running_->use(log_.get());
    running_->take_listener(groups_ ? &*groups_ : nullptr);
    outcome_ = running_->run([this](int exit_code) { tell_status(exit_code); });
    if (config_.background == agent::Background::wait)
        outcome_.ended_background = 0;  // waited for, not ended
    log_error_ = running_->log_error();
}

void Run::tell_status(int exit_code) {
    if (!status_fd_) return;
    write_all(status_fd_.get(),
              "{\"event\":\"command_ended\",\"exit_code\":" + std::to_string(exit_code) + "}\n");
}

/// What `callgate ps` shows of this run.
approval::RunStatus Run::status_of_run() const {
    const audit::Counts counts = report_.counts();
    return {.command = config_.command,
            .workdir = config_.workdir,
            .pid = ::getpid(),
            .allowed = counts.allow,
            .denied = counts.ask + counts.deny + counts.kill};
}

RunFacts Run::facts() const {
    RunFacts facts;
    facts.run = config_.run;
    facts.mode = config_.mode == Mode::audit ? "audit" : "enforce";
    facts.workdir = config_.workdir;
    facts.rules_sha256 = config_.rules_sha256;
    facts.command = config_.command;
    facts.degraded = config_.degraded;
    facts.landlock_abi = config_.plan.landlock_abi;
    facts.limits = config_.limits;
    facts.held_back = config_.held_back;
    facts.audited = config_.audit.kind != AuditTarget::Kind::none;
    if (log_) facts.audit_file = log_->path();
    return facts;
}

void Run::finish() {
    if (log_) {
        audit::RunEnd end;
        end.outcome = outcome_.outcome;
        end.exit_code = outcome_.exit_code;
        end.signal = outcome_.signal;
        end.duration_ms = outcome_.duration_ms;
        end.counts = report_.counts();
        const auto written = log_->record(end);
        if (!written && log_error_ == 0) log_error_ = written.error().value();
    }
    if (syslog_) {
        std::string why;
        const std::uint64_t lost = syslog_->finish(max_syslog_wait, why);
        if (lost > 0 && outcome_.error.empty())
            outcome_.error = plural(lost, "record") + " did not reach the system's log (" + why +
                             "): the audit log has them";
    }
    if (log_error_ != 0 && outcome_.error.empty()) {
        outcome_.error = "the audit log could not be written (" + because(log_error_) +
                         "): what could not be recorded was denied";
    }
    if (begun_.report.wanted() &&
        !agent::write_report(begun_.report, report_.json(facts(), outcome_, log_ ? log_->records() : 0,
                                                         log_ ? "sha256:" + log_->head() : "")))
        report_failure("the report could not be written: " + because(errno));
    if (!config_.quiet) {
        if (const std::string why = limits::exceeded_text(outcome_.outcome, config_.limits); !why.empty())
            report_failure(why + ", after " + std::to_string(outcome_.duration_ms) + " ms");
    }
    if (outcome_.outcome == "exec_failed") {
        // Nothing ran but the attempt itself: a denied execution is the one that failed.
        const std::string why = report_.last_denial(rules::Operation::execute, config_.hints);
        report_failure("cannot run " + config_.command.front() + ": " + outcome_.error +
                       (why.empty() ? "" : " (" + why + ")"));
    } else if (!outcome_.error.empty() && !cancelled_early_) {
        report_failure(outcome_.error);
    }
    if (!config_.quiet) say(report_.footer(facts(), outcome_, config_.hints));
}

/// Once.
void Run::tell_end() {
    if (const auto tell = std::exchange(config_.ended, nullptr)) tell(outcome_.exit_status);
}

/// The guardian has nothing left to do but to exit: who waits for the run need not wait for that.
void Run::clean_up() {
    agent::remove_created_ipc(begun_.made.objects());
    if (outcome_.directory_removed) tell_end();
    if (begun_.forked()) directory_remains_ = !begun_.reap();
    if (!directory_remains_) return;
    const auto removed = remove_tree(config_.temporary_directory);
    if (!removed && !config_.quiet)
        report_failure("cannot remove " + config_.temporary_directory + ": " +
                       because(removed.error().value()));
}

void Run::report_failure(const std::string& text) { say("callgate: " + text + '\n'); }

int Run::run() {
    try {
        if (config_.status.wanted()) status_fd_ = copy_descriptor(config_.status.descriptor, "--status");
        if (begun_.report.wanted()) tell_guardian();
        begun_.tell_command(config_);
        // The agent is confined meanwhile, and waits to be let go.
        open_log();
        make_groups();
        drop_capabilities();
        make_running();
        record_start();
        supervise();
    } catch (const std::exception& failure) {
        const int signal = held_signal();
        cancelled_early_ = signal != 0;
        outcome_.outcome = signal != 0 ? "cancelled" : "setup_error";
        outcome_.exit_status = signal != 0 ? 128 + signal : 125;
        outcome_.error = failure.what();
        running_.reset();
        // It ends what may have begun. Of a directory that could not be made there is nothing to remove.
        directory_remains_ = !begun_.dismiss_and_reap();
    }
    finish();
    clean_up();
    tell_end();
    return outcome_.exit_status;
}

std::unique_ptr<Launch> begin_run(const SessionConfig& config) {
    return std::make_unique<Launch>(config);
}

std::shared_ptr<Run> make_session(Launch& begun, SessionConfig& config) {
    return std::make_shared<Run>(begun, config);
}

void make_ready(Run& session) { session.make_running(); }

namespace {

/// The end of this process, while all that the run was made of still stands: rules, what was read of the file
/// system, threads, the loop, the listener. To take it apart would take longer than a short command runs, and
/// nobody would have a use for it: the kernel takes everything back at once. What must outlast the process is
/// done by now (Run::run); what stands in buffers of the C library is written by exit(3), and leak
/// checkers see that all of it is still in use.
[[noreturn]] void end_process(int status) { std::exit(status); }

}  // namespace

void run_session(Run& session) {
    int status = 125;
    try {
        status = session.run();
    } catch (const std::exception& failure) {
        say(std::string("callgate: ") + failure.what() + '\n');
    }
    end_process(status);
}

}  // namespace callgate
