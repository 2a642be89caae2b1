#include "supervisor/run/run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/process/capabilities.hpp"
#include "base/process/held_signals.hpp"
#include "base/process/remove_tree.hpp"
#include "base/test_switch.hpp"
#include "base/write_all.hpp"
#include "base/write_error.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/run/conclusion.hpp"
#include "supervisor/run/nested_loop.hpp"

namespace callgate {

namespace {

constexpr const char* system_log = "/dev/log";

std::unique_ptr<audit::Syslog> open_syslog(const Request& request) {
    if (!request.audit.syslog) return nullptr;
    return require(audit::Syslog::open(system_log),
                   std::string("--syslog: cannot reach ") + system_log + " (is a syslog daemon running?)");
}

/// A FIFO or a character device is written as it is. Every other name is a file of callgate's own, and no
/// link is followed there.
Result<std::unique_ptr<audit::Log>> open_log_file(const std::string& path, audit::Log::Options options) {
    struct stat status {};
    const bool found = ::lstat(path.c_str(), &status) == 0;
    if (!found || (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)))
        return audit::Log::at_file(path, std::move(options));
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    if (!file) return errno_code();
    return audit::Log::on_descriptor(std::move(file), std::move(options));
}

std::unique_ptr<audit::Log> open_log(const Request& request, audit::Syslog* syslog, RunLoop& loop) {
    audit::Log::Options options;
    options.limit = request.audit.limit;
    options.full = [&loop](std::uint64_t) { loop.end_for_full_log(); };
    if (!request.quiet)
        options.nearly_full = [&loop](std::uint64_t limit) {
            loop.say_soon("callgate: the audit log has reached 80 % of --audit-limit " +
                          limits::size_text(limit) + ": the run ends when it is full\n");
        };
    if (syslog != nullptr) options.copy = [syslog](std::string_view line) { syslog->post(line); };
    options.run = request.run;
    options.mode = request.mode;
    options.key = request.audit.key;
    switch (request.audit.kind) {
        case AuditTarget::Kind::directory:
            return require(audit::Log::in_directory(request.audit.path, std::move(options)),
                           "cannot keep the audit log in " + request.audit.path +
                               " (give another place with --audit FILE, or --no-audit)");
        case AuditTarget::Kind::file:
            return require(open_log_file(request.audit.path, std::move(options)),
                           "cannot write the audit log " + request.audit.path);
        case AuditTarget::Kind::descriptor:
            return require(audit::Log::on_descriptor(copy_descriptor(request.audit.descriptor, "--audit"),
                                                     std::move(options)),
                           "cannot write the audit log");
        case AuditTarget::Kind::none:
            break;
    }
    return nullptr;
}

void write_status(const UniqueFd& status, int exit_code) {
    if (!status) return;
    write_all(status.get(),
              "{\"event\":\"command_ended\",\"exit_code\":" + std::to_string(exit_code) + "}\n");
}

}  // namespace

class Run::Parts {
public:
    Parts(const Request& request, const Compiled& compiled, Launched& launched)
        : request_(request), compiled_(compiled), launched_(launched) {
        report_.use_rules(compiled.rules, request.home);
        report_.use_refusals(refusals_);
        report_.use_denials(*launched.denials);
        const RunLoop::Needs needs{request, compiled, launched, report_, refusals_};
        request.outer != nullptr ? void(nested_.emplace(needs)) : void(loop_.emplace(needs));
    }
    /// callgate's exit status.
    int run(const Command& command, const RunNotices& notices);

private:
    [[nodiscard]] RunOutcome supervise(const Command& command, const RunNotices& notices);
    RunOutcome failed(const std::exception& failure);
    void drop_capabilities() const;
    void record_start(const Command& command);
    void clean_up(const RunOutcome& outcome, const RunNotices& notices);
    [[nodiscard]] approval::RunStatus status_of_run(const Command& command) const;
    [[nodiscard]] RunFacts facts(const Command& command) const;

    const Request& request_;
    const Compiled& compiled_;
    Launched& launched_;
    calls::Refusals refusals_;
    RunReport report_;
    std::optional<RunLoop> loop_;       // reset where the command could not begin; absent in a nested run
    std::optional<NestedLoop> nested_;  // of a nested run
    std::unique_ptr<audit::Syslog> syslog_;  // outlives the log
    std::unique_ptr<audit::Log> log_;        // set once it could be opened
    std::optional<limits::ControlGroups> groups_;
    timespec began_{};
    bool directory_remains_ = false;  // the guardian left the run's private directory to us
    bool cancelled_early_ = false;    // by a signal, before the command began
};

/// The guardian does the same for itself, and the agent more.
void Run::Parts::drop_capabilities() const {
    const CapabilitySet kept = request_.keep_capabilities;
    if (kept != 0 && kept != all_capabilities && check_enabled("capabilities")) {
        // Threads that act are made of this one, later on too.
        require(hold_only(kept | kernel::for_acting | for_ending | for_removing,
                          for_ending | kernel::for_reading),
                "cannot drop capabilities");
    } else if (kept == 0 && check_enabled("capabilities")) {
        const bool groups = agent::any_group(launched_.made.objects());
        require(groups ? set_override_aside() : drop_held_capabilities(), "cannot drop capabilities");
    }
    if (!request_.die_with_parent) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a change of credentials clears it
    if (::getppid() != request_.caller.parent) ::kill(::getpid(), SIGTERM);  // it ended before
}

void Run::Parts::record_start(const Command& command) {
    if (!log_) return;
    audit::RunStart start;
    start.command = command.words;
    start.workdir = request_.workdir;
    start.rules_sha256 = compiled_.rules_sha256;
    if (utsname names{}; ::uname(&names) == 0) {
        start.kernel = names.release;
        start.host = names.nodename;
    }
    start.landlock_abi = compiled_.plan.landlock_abi;
    start.degraded = compiled_.degraded;
    start.profiles = compiled_.profiles;
    start.pid = ::getpid();
    start.temporary_directory = request_.temporary_directory;
    start.home = request_.lasting_home.empty() ? request_.home : request_.lasting_home;
    if (!request_.lasting_home.empty()) start.user_home = request_.home;
    start.config = request_.config_home;
    start.snapshot = compiled_.snapshot;
    require(log_->record(start), "cannot write the audit log");
}

/// `callgate ps` shows this.
approval::RunStatus Run::Parts::status_of_run(const Command& command) const {
    const audit::Counts counts = report_.counts();
    return {.command = command.words,
            .workdir = request_.workdir,
            .pid = ::getpid(),
            .allowed = counts.allow,
            .denied = counts.ask + counts.deny + counts.kill};
}

RunFacts Run::Parts::facts(const Command& command) const {
    RunFacts facts;
    facts.run = request_.run;
    facts.mode = request_.mode;
    facts.workdir = request_.workdir;
    facts.home = request_.home;
    facts.directory = request_.directory;
    facts.rules_sha256 = compiled_.rules_sha256;
    facts.command = command.words;
    facts.degraded = compiled_.degraded;
    facts.landlock_abi = compiled_.plan.landlock_abi;
    facts.limits = command.limits;
    facts.held_back = command.held_back;
    facts.not_passed = command.not_passed;
    facts.agents_own = command.agents_own;
    facts.exposed = command.exposed;
    facts.audited = request_.audit.kind != AuditTarget::Kind::none;
    if (log_) facts.audit_file = log_->path();
    return facts;
}

/// The agent is confined meanwhile, and waits. Control groups are made before capabilities are dropped.
RunOutcome Run::Parts::supervise(const Command& command, const RunNotices& notices) {
    ::clock_gettime(CLOCK_REALTIME_COARSE, &began_);
    UniqueFd status;
    if (request_.status.wanted()) status = copy_descriptor(request_.status.descriptor, "--status");
    syslog_ = open_syslog(request_);
    if (loop_) log_ = open_log(request_, syslog_.get(), *loop_);
    if (launched_.report.wanted()) {
        RunOutcome lost;
        lost.outcome = Outcome::supervisor_lost;
        launched_.set_lost_report(report_.json(facts(command), lost, 0, ""));
    }
    if (limits::TreeLimits::any(command.limits))
        groups_.emplace(request_.run, command.limits, launched_.made.objects());
    drop_capabilities();
    record_start(command);
    RunLoop::Work work{.command = command,
                       .log = log_.get(),
                       .groups = groups_ ? &*groups_ : nullptr,
                       .status = [this, &command] { return status_of_run(command); },
                       .started = notices.started,
                       .command_ended = [&status](int code) { write_status(status, code); }};
    RunOutcome outcome = nested_ ? nested_->run(std::move(work)) : loop_.value().run(std::move(work));
    if (request_.background == agent::Background::wait)
        outcome.ended_background = 0;  // waited for, not ended
    return outcome;
}

/// The command did not begin. The guardian ends what exists of the tree, and its private directory.
RunOutcome Run::Parts::failed(const std::exception& failure) {
    const int signal = held_signal();
    cancelled_early_ = signal != 0;
    RunOutcome outcome;
    outcome.outcome = signal != 0 ? Outcome::cancelled : Outcome::setup_error;
    outcome.exit_status = signal != 0 ? 128 + signal : 125;
    outcome.error = failure.what();
    loop_.reset();
    nested_.reset();
    directory_remains_ = !launched_.dismiss_and_reap();
    return outcome;
}

/// The guardian waits until then: it does the same if this process is killed before it has. A guardian that
/// removed the directory has only to exit, so `exited` does not wait for it.
void Run::Parts::clean_up(const RunOutcome& outcome, const RunNotices& notices) {
    if (request_.keep_capabilities != 0) use_permitted_capabilities();
    agent::remove_created_ipc(launched_.made.objects());
    launched_.dismiss();
    const bool early = outcome.directory_removed && notices.exited;
    if (early) notices.exited(outcome.exit_status);
    if (launched_.guardian.pid > 0) directory_remains_ = !launched_.reap();
    // A guardian that ended at once, because the agent was killed, may have looked for it before it was made.
    ::unlink(request_.denials.c_str());
    if (directory_remains_) {
        const auto removed = remove_tree(request_.temporary_directory);
        if (!removed && !request_.quiet)
            write_error("callgate: cannot remove " + request_.temporary_directory + ": " +
                        because(removed.error().value()) + '\n');
    }
    if (!early && notices.exited) notices.exited(outcome.exit_status);
}

int Run::Parts::run(const Command& command, const RunNotices& notices) {
    RunOutcome outcome;
    try {
        outcome = supervise(command, notices);
    } catch (const std::exception& failure) {
        outcome = failed(failure);
    }
    RunFacts known = facts(command);
    if (!request_.quiet && outcome.outcome != Outcome::setup_error)
        known.planted = find_planted(request_.workdir, began_, [this](const std::string& path) {
            const rules::Request change{rules::Operation::modify, rules::FileObject{path}, {}, {}};
            return compiled_.enforced->evaluate(change).action >= rules::Action::deny;
        });
    // The command has ended: a supervisor that is killed from now on is not reported as lost.
    if (launched_.report.wanted()) launched_.set_lost_report("");
    if (const std::string text = conclude({.facts = known,
                                           .report = report_,
                                           .refusals = &refusals_,
                                           .log = log_.get(),
                                           .syslog = syslog_.get(),
                                           .target = launched_.report,
                                           .quiet = request_.quiet,
                                           .hints = request_.hints,
                                           .json = request_.json,
                                           .cancelled_early = cancelled_early_},
                                          outcome);
        !text.empty())
        write_error(text);
    clean_up(outcome, notices);
    return outcome.exit_status;
}

Run::Run(const Request& request, const Compiled& compiled, Launched& launched)
    : parts_(std::make_unique<Parts>(request, compiled, launched)) {}

Run::~Run() = default;

/// Everything that the run was made of still exists when the process ends here: rules, threads, loop,
/// listener. Destroying it would take longer than a short command, and the kernel takes it back at once. The
/// run itself has finished what must outlast the process; exit(3) writes the buffers of the C library.
void Run::complete(const Command& command, RunNotices notices) {
    int status = 125;
    try {
        status = parts_->run(command, notices);
    } catch (const std::exception& failure) {
        write_error(std::string("callgate: ") + failure.what() + '\n');
    }
    std::exit(status);
}

}  // namespace callgate
