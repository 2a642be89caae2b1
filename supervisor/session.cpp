#include "supervisor/session.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <iostream>
#include <stdexcept>

#include "agent/landlock.hpp"
#include "agent/made_objects.hpp"
#include "agent/removal.hpp"
#include "rules/test_switch.hpp"
#include "supervisor/calls/filter_spec.hpp"
#include "supervisor/calls/reparenting.hpp"
#include "supervisor/calls/supervision.hpp"
#include "supervisor/event_loop.hpp"
#include "supervisor/receivers.hpp"

namespace callgate {

namespace {

/// A run that cannot start: one line for the user, exit 125.
struct SetupError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::string because(int error) { return std::generic_category().message(error); }

template <class T>
T require(boost::system::result<T> result, const std::string& what) {
    if (!result) throw SetupError(what + ": " + because(result.error().value()));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Nothing, a file made anew, or a descriptor.
UniqueFd open_output(const OutputTarget& target, const char* option) {
    if (target.descriptor >= 0) {
        UniqueFd fd(::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 3));
        if (!fd)
            throw SetupError(std::string(option) + ": descriptor " + std::to_string(target.descriptor) +
                             " is not open");
        return fd;
    }
    if (target.path.empty()) return {};
    UniqueFd fd(::open(target.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
    if (!fd) throw SetupError(std::string(option) + ": cannot write " + target.path + ": " + because(errno));
    return fd;
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t put = ::write(fd, text.data(), text.size());
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(put));
    }
}

std::unique_ptr<audit::Log> make_log(const SessionConfig& config) {
    audit::Log::Options options;
    options.run = config.run;
    options.mode = config.mode == Mode::audit ? "audit" : "enforce";
    switch (config.audit.kind) {
        case AuditTarget::Kind::directory:
            return require(audit::Log::in_directory(config.audit.path, std::move(options)),
                           "cannot keep the audit log in " + config.audit.path +
                               " (give another place with --audit FILE, or --no-audit)");
        case AuditTarget::Kind::file:
            return require(audit::Log::at_file(config.audit.path, std::move(options)),
                           "cannot write the audit log " + config.audit.path);
        case AuditTarget::Kind::descriptor: {
            UniqueFd fd(::fcntl(config.audit.descriptor, F_DUPFD_CLOEXEC, 3));
            if (!fd)
                throw SetupError("--audit: descriptor " + std::to_string(config.audit.descriptor) +
                                 " is not open");
            return require(audit::Log::on_descriptor(std::move(fd), std::move(options)),
                           "cannot write the audit log");
        }
        case AuditTarget::Kind::none:
            break;
    }
    return nullptr;
}

std::vector<agent::Limit> limits_of(const rules::Limits& limits) {
    std::vector<agent::Limit> list;
    if (limits.open_files) list.push_back({RLIMIT_NOFILE, {*limits.open_files, *limits.open_files}});
    if (limits.file_size) list.push_back({RLIMIT_FSIZE, {*limits.file_size, *limits.file_size}});
    return list;
}

std::string kernel_release() {
    utsname names{};
    return ::uname(&names) == 0 ? names.release : "";
}

const char* step_name(agent::ArmStep step) {
    switch (step) {
        case agent::ArmStep::process_group:
            return "join the process group";
        case agent::ArmStep::working_directory:
            return "enter the start directory";
        case agent::ArmStep::descriptors:
            return "close descriptors";
        case agent::ArmStep::limits:
            return "set limits";
        case agent::ArmStep::capabilities:
            return "drop capabilities";
        case agent::ArmStep::no_new_privs:
            return "set no_new_privs";
        case agent::ArmStep::landlock:
            return "enter the Landlock domain";
        case agent::ArmStep::filter:
            return "install the seccomp filter";
        case agent::ArmStep::handshake:
            return "hand the listener over";
        case agent::ArmStep::temporary_directory:
            return "make the run's private directory";
        case agent::ArmStep::ruleset:
            return "make the Landlock ruleset";
    }
    return "arm";
}

/// The guardian need not report in our place.
void dismiss(const agent::Guardian& guardian) {
    const agent::Order order{agent::Order::Kind::dismiss, 0};
    if (guardian.orders)
        write_all(guardian.orders.get(), {reinterpret_cast<const char*>(&order), sizeof order});
}

/// The log's fdatasync, off the answering path. Most runs need none, and have no thread for it.
class LogSync {
public:
    LogSync(EventLoop& loop, audit::Log& log) : loop_(loop), log_(log) {}

    /// Any thread.
    void request() {
        if (!wanted_.exchange(true)) loop_.run_soon([this] { start(); });
    }
    /// What was asked for is done; once the loop has ended and nobody asks any more.
    void finish() {
        if (thread_) thread_->join();
        if (wanted_.load()) sync();
    }

private:
    void start() {
        try {
            if (!thread_) thread_.emplace(1);
            boost::asio::post(*thread_, [this] { sync(); });
        } catch (const std::exception&) {
            sync();  // no thread can be made
        }
    }
    void sync() {
        wanted_.store(false);
        log_.sync();
    }

    EventLoop& loop_;
    audit::Log& log_;
    std::atomic<bool> wanted_{false};
    std::optional<boost::asio::thread_pool> thread_;
};

class Session {
public:
    explicit Session(SessionConfig config) : config_(std::move(config)) { report_.use_rules(config_.rules); }
    int run();

private:
    void confine_process();
    void open_outputs();
    agent::Guardian start_guardian();
    void open_log();
    void drop_capabilities();
    void record_start();
    UniqueFd wait_until_armed(const agent::Guardian& guardian);
    void supervise(agent::Guardian& guardian);
    void tell_status(int exit_code);
    void reap(agent::Guardian& guardian);
    void clean_up();
    void finish();
    void report_failure(const std::string& text);
    [[nodiscard]] RunFacts facts() const;

    SessionConfig config_;
    agent::SignalState signals_ = agent::SignalState::current();  // what the command is to inherit
    std::unique_ptr<audit::Log> log_;
    UniqueFd report_fd_, status_fd_;
    std::unique_ptr<calls::Reparenting> reparenting_;
    RunReport report_;
    RunOutcome outcome_;
    int log_error_ = 0;
    std::optional<agent::SharedObjects> made_;
    bool directory_remains_ = false;  // the guardian left the run's private directory to us
};

/// From here on nothing of this process, and nothing that it forks, reaches more of strangers than the target
/// may (architecture.md, invariant 7).
void Session::confine_process() {
    if (check_enabled("base-domain"))
        require(agent::enter_base_domain(config_.plan.landlock_abi), "cannot enter the base Landlock domain");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Session::open_outputs() {
    report_fd_ = open_output(config_.report, "--report");
    status_fd_ = open_output(config_.status, "--status");
    // What the guardian would report in our place names the log; else the log can wait until it was forked.
    if (report_fd_) open_log();
}

void Session::open_log() {
    if (!log_) log_ = make_log(config_);
}

/// The guardian does the same for itself and for what it forks.
void Session::drop_capabilities() {
    if (!config_.keep_capabilities && check_enabled("capabilities"))
        require(agent::drop_held_capabilities(), "cannot drop capabilities");
    if (config_.die_with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a change of credentials clears it
}

void Session::record_start() {
    if (!log_) return;
    audit::RunStart start;
    start.command = config_.command;
    start.workdir = config_.workdir;
    start.rules_sha256 = config_.rules_sha256;
    start.mode = config_.mode == Mode::audit ? "audit" : "enforce";
    start.kernel = kernel_release();
    start.landlock_abi = config_.plan.landlock_abi;
    start.degraded = config_.degraded;
    start.profiles = config_.profiles;
    start.pid = ::getpid();
    require(log_->record(start), "cannot write the audit log");
}

agent::Guardian Session::start_guardian() {
    const agent::RulesetRecipe landlock(config_.plan);
    const auto filter = agent::compile(calls::filter_spec(config_.plan));
    agent::Arming arming;
    arming.command = config_.command;
    arming.environment = config_.environment;
    arming.executables = config_.executables;
    arming.working_directory = UniqueFd(::open(config_.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!arming.working_directory) {
        throw SetupError("cannot start in " + config_.directory + ": " + because(errno));
    }
    arming.signals = signals_;
    arming.pass = config_.pass;
    arming.limits = limits_of(config_.limits);
    arming.landlock = &landlock;
    arming.filter = &filter;
    arming.keep_capabilities = config_.keep_capabilities;
    arming.nice = config_.nice;
    arming.io_priority = config_.io_priority;
    arming.background = config_.background;
    arming.await_dismissal = true;
    arming.temporary_directory = config_.temporary_directory;
    made_.emplace(require(agent::SharedObjects::make(), "cannot map the list of objects"));
    arming.made_objects = &made_->objects();
    if (report_fd_) {
        RunOutcome lost;
        lost.outcome = "supervisor_lost";
        arming.report = report_fd_.get();
        arming.lost_report = report_.json(facts(), lost, 0, "");
    }
    return require(agent::start_guardian(arming), "cannot start the guardian process");
}

/// Waits for the agent's word and takes the listener out of it.
UniqueFd Session::wait_until_armed(const agent::Guardian& guardian) {
    agent::Event event{};
    ssize_t got = -1;
    while ((got = ::read(guardian.events.get(), &event, sizeof event)) < 0 && errno == EINTR) {
    }
    if (got != static_cast<ssize_t>(sizeof event))
        throw SetupError("the guardian process ended before the command began");
    if (event.kind == agent::Event::Kind::arm_failed) {
        const auto step = static_cast<agent::ArmStep>(event.detail);
        if (step == agent::ArmStep::temporary_directory)
            throw SetupError(no_private_directory(config_.temporary_directory, event.value));
        throw SetupError(std::string("cannot ") + step_name(step) + ": " + because(event.value));
    }
    return require(kernel::take_listener(event.pid, event.value), "cannot take the seccomp listener");
}

/// Everything up to the listener is made while the agent arms itself.
void Session::supervise(agent::Guardian& guardian) {
    const rules::StaticGrants grants(config_.plan);
    const rules::MoveJudge moves(*config_.rules, grants);
    calls::UserObjects user_objects(made_->objects());
    calls::Supervision shared{
        .rules = *config_.rules,
        .plan = config_.plan,
        .grants = grants,
        .moves = moves,
        .log = log_.get(),
        .report = report_,
        .guardian = guardian.pid,
        .uid = ::geteuid(),
        .keep_capabilities = config_.keep_capabilities,
        .identity = require(kernel::status(::getpid()), "cannot read /proc/self/status"),
        .names = {},
        .bound_names = {},
        .user_objects = user_objects,
        .reparenting = reparenting_.get(),
        .kill_tree = {},
        .sync_log = {},
        .log_error = {},
        .notifications = {}};
    EventLoop loop;
    std::optional<LogSync> sync;
    if (log_) sync.emplace(loop, *log_);
    shared.kill_tree = [&loop] { loop.end_tree("killed_by_rule"); };
    if (sync) shared.sync_log = [&sync] { sync->request(); };
    kernel::Listener listener(wait_until_armed(guardian));
    Receivers receivers(listener, shared, [&loop] { loop.wake_watchdog(); });
    // Threads from here on: they inherit the blocked signals.
    receivers.start();
    const char word = 1;
    write_all(guardian.go.get(), std::string_view(&word, 1));
    guardian.go.reset();
    outcome_ = loop.run(guardian, {.wall = config_.limits.wall,
                                   .grace = config_.grace,
                                   .command_ended = [this](int exit_code) { tell_status(exit_code); },
                                   .tick = [&receivers] { return receivers.tick(); },
                                   .tick_interval = std::chrono::milliseconds(Receivers::tick_interval_ms)});
    receivers.stop();
    if (sync) sync->finish();
    if (config_.background == agent::Background::wait)
        outcome_.ended_background = 0;  // waited for, not ended
    outcome_.notifications = shared.notifications.load();
    log_error_ = shared.log_error.load();
}

void Session::tell_status(int exit_code) {
    if (!status_fd_) return;
    write_all(status_fd_.get(),
              "{\"event\":\"command_ended\",\"exit_code\":" + std::to_string(exit_code) + "}\n");
}

RunFacts Session::facts() const {
    RunFacts facts;
    facts.run = config_.run;
    facts.mode = config_.mode == Mode::audit ? "audit" : "enforce";
    facts.workdir = config_.workdir;
    facts.rules_sha256 = config_.rules_sha256;
    facts.command = config_.command;
    facts.degraded = config_.degraded;
    facts.landlock_abi = config_.plan.landlock_abi;
    facts.audited = config_.audit.kind != AuditTarget::Kind::none;
    if (log_) facts.audit_file = log_->path();
    return facts;
}

void Session::finish() {
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
    if (log_error_ != 0 && outcome_.error.empty()) {
        outcome_.error = "the audit log could not be written (" + because(log_error_) +
                         "): what could not be recorded was denied";
    }
    if (report_fd_)
        write_all(report_fd_.get(), report_.json(facts(), outcome_, log_ ? log_->records() : 0, ""));
    if (outcome_.outcome == "timeout" && !config_.quiet) {
        report_failure("ended by --timeout after " + std::to_string(outcome_.duration_ms) + " ms");
    }
    if (outcome_.outcome == "exec_failed") {
        // Nothing ran but the attempt itself: a denied execution is the one that failed.
        const std::string why = report_.last_denial(rules::Operation::execute, config_.hints);
        report_failure("cannot run " + config_.command.front() + ": " + outcome_.error +
                       (why.empty() ? "" : " (" + why + ")"));
    } else if (!outcome_.error.empty()) {
        report_failure(outcome_.error);
    }
    if (!config_.quiet) std::cerr << report_.footer(facts(), outcome_, config_.hints) << std::flush;
}

/// The guardian removes the run's private directory, if it can and lives.
void Session::reap(agent::Guardian& guardian) {
    guardian.orders.reset();
    guardian.go.reset();
    if (guardian.pid <= 0) return;
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(guardian.pid, &status, 0)) < 0 && errno == EINTR) {
    }
    // Who was killed was reaped with the tree (EventLoop), and has removed nothing.
    directory_remains_ = reaped != guardian.pid || status != 0;
    guardian.pid = -1;
}

void Session::clean_up() {
    if (made_) agent::remove_made_objects(made_->objects());
    if (!directory_remains_ || config_.temporary_directory.empty()) return;
    const auto removed = agent::remove_tree(config_.temporary_directory);
    if (!removed && !config_.quiet)
        report_failure("cannot remove " + config_.temporary_directory + ": " +
                       because(removed.error().value()));
}

void Session::report_failure(const std::string& text) { std::cerr << "callgate: " << text << std::endl; }

int Session::run() {
    agent::Guardian guardian;
    try {
        ::signal(SIGXFSZ, SIG_IGN);  // a log that has reached its limit is an error of write(2)
        ::signal(SIGPIPE, SIG_IGN);
        open_outputs();
        if (config_.plan.landlock_abi == 1)
            reparenting_ = std::make_unique<calls::Reparenting>(config_.keep_capabilities);
        confine_process();
        guardian = start_guardian();
        // The agent arms itself meanwhile, and waits to be let go.
        open_log();
        drop_capabilities();
        record_start();
        supervise(guardian);
    } catch (const std::exception& failure) {
        outcome_.outcome = "setup_error";
        outcome_.exit_status = 125;
        outcome_.error = failure.what();
        dismiss(guardian);  // it ends what may have begun
        reap(guardian);
    }
    finish();
    reap(guardian);
    clean_up();
    return outcome_.exit_status;
}

}  // namespace

std::string no_private_directory(const std::string& path, int error) {
    return "cannot make the run's private directory " + path + ": " + because(error) +
           "; set TMPDIR to a directory that you can write";
}

int run_session(SessionConfig config) {
    try {
        // Never taken down: the process ends with the run, and the kernel takes everything back at once.
        static Session* session = nullptr;
        session = new Session(std::move(config));
        return session->run();
    } catch (const std::exception& failure) {
        std::cerr << "callgate: " << failure.what() << std::endl;
        return 125;
    }
}

}  // namespace callgate
