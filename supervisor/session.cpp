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

std::unique_ptr<audit::Log> open_log(const SessionConfig& config) {
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
    }
    return "arm";
}

/// The guardian need not clean up nor report in our place.
void dismiss(const agent::Guardian& guardian) {
    const agent::Order order{agent::Order::Kind::dismiss, 0};
    if (guardian.orders)
        write_all(guardian.orders.get(), {reinterpret_cast<const char*>(&order), sizeof order});
}

class Session {
public:
    explicit Session(SessionConfig config) : config_(std::move(config)) { report_.use_rules(config_.rules); }
    int run();

private:
    void open_places();
    void confine_self();
    void record_start();
    agent::Guardian start_guardian();
    UniqueFd wait_until_armed(agent::Guardian& guardian);
    void supervise(agent::Guardian guardian, UniqueFd listener);
    void finish();
    void report_failure(const std::string& text);
    [[nodiscard]] RunFacts facts() const;

    SessionConfig config_;
    agent::SignalState signals_ = agent::SignalState::current();  // what the command is to inherit
    std::unique_ptr<audit::Log> log_;
    UniqueFd report_fd_, status_fd_;
    RunReport report_;
    RunOutcome outcome_;
    int log_error_ = 0;
    std::optional<agent::SharedObjects> made_;
};

void Session::open_places() {
    report_fd_ = open_output(config_.report, "--report");
    status_fd_ = open_output(config_.status, "--status");
    log_ = open_log(config_);
}

/// From here on nothing of this process, and nothing that it forks, has more rights than the target may have
/// (architecture.md, invariant 7).
void Session::confine_self() {
    if (!config_.keep_capabilities && check_enabled("capabilities"))
        require(agent::drop_capabilities(), "cannot drop capabilities");
    if (check_enabled("base-domain"))
        require(agent::enter_base_domain(config_.plan.landlock_abi), "cannot enter the base Landlock domain");
    if (config_.die_with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
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
    std::vector<std::string> left_out;
    UniqueFd ruleset =
        require(agent::make_target_ruleset(config_.plan, left_out), "cannot make the Landlock ruleset");
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
    arming.landlock_ruleset = ruleset.get();
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
UniqueFd Session::wait_until_armed(agent::Guardian& guardian) {
    agent::Event event{};
    ssize_t got = -1;
    while ((got = ::read(guardian.events.get(), &event, sizeof event)) < 0 && errno == EINTR) {
    }
    if (got != static_cast<ssize_t>(sizeof event))
        throw SetupError("the guardian process ended before the command began");
    if (event.kind == agent::Event::Kind::arm_failed) {
        const auto step = static_cast<agent::ArmStep>(event.detail);
        throw SetupError(std::string("cannot ") + step_name(step) + ": " + because(event.value));
    }
    return require(kernel::take_listener(event.pid, event.value), "cannot take the seccomp listener");
}

void Session::supervise(agent::Guardian guardian, UniqueFd listener_fd) {
    kernel::Listener listener(std::move(listener_fd));
    const rules::StaticGrants grants(config_.plan);
    const rules::MoveJudge moves(*config_.rules, grants);
    calls::UserObjects user_objects(made_->objects());
    boost::asio::thread_pool* sync_pool = nullptr;
    std::atomic<bool> sync_wanted{false};
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
        .kill_tree = {},
        .sync_log = {},
        .log_error = {},
        .notifications = {}};
    EventLoop* loop_address = nullptr;
    Receivers receivers(listener, shared, [&loop_address] { loop_address->wake_watchdog(); });
    UniqueFd go = std::move(guardian.go);
    EventLoop::Settings settings;
    settings.wall = config_.limits.wall;
    settings.grace = config_.grace;
    settings.tick = [&receivers] { return receivers.tick(); };
    settings.tick_interval = std::chrono::milliseconds(Receivers::tick_interval_ms);
    settings.command_ended = [this](int exit_code) {
        if (!status_fd_) return;
        write_all(status_fd_.get(),
                  "{\"event\":\"command_ended\",\"exit_code\":" + std::to_string(exit_code) + "}\n");
    };
    EventLoop loop(std::move(guardian), std::move(settings));
    loop_address = &loop;
    // Threads from here on: they inherit the blocked signals.
    boost::asio::thread_pool pool(1);
    sync_pool = &pool;
    shared.kill_tree = [&loop] { loop.end_tree("killed_by_rule"); };
    if (log_) {
        shared.sync_log = [this, sync_pool, &sync_wanted] {
            if (sync_wanted.exchange(true)) return;
            boost::asio::post(*sync_pool, [this, &sync_wanted] {
                sync_wanted.store(false);
                log_->sync();
            });
        };
    }
    receivers.start();
    const char word = 1;
    write_all(go.get(), std::string_view(&word, 1));
    go.reset();
    outcome_ = loop.run();
    receivers.stop();
    pool.join();
    if (config_.background == agent::Background::wait)
        outcome_.ended_background = 0;  // waited for, not ended
    outcome_.notifications = shared.notifications.load();
    log_error_ = shared.log_error.load();
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
        log_->sync();
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
    if (made_) agent::remove_made_objects(made_->objects());
    if (!config_.temporary_directory.empty()) {
        if (const auto removed = agent::remove_tree(config_.temporary_directory);
            !removed && !config_.quiet) {
            report_failure("cannot remove " + config_.temporary_directory + ": " +
                           because(removed.error().value()));
        }
    }
}

void Session::report_failure(const std::string& text) { std::cerr << "callgate: " << text << std::endl; }

int Session::run() {
    agent::Guardian guardian;
    try {
        ::signal(SIGXFSZ, SIG_IGN);  // a log that has reached its limit is an error of write(2)
        ::signal(SIGPIPE, SIG_IGN);
        open_places();
        confine_self();
        record_start();
        guardian = start_guardian();
        UniqueFd listener = wait_until_armed(guardian);
        supervise(std::move(guardian), std::move(listener));
    } catch (const std::exception& failure) {
        outcome_.outcome = "setup_error";
        outcome_.exit_status = 125;
        outcome_.error = failure.what();
        dismiss(guardian);  // it ends what may have begun
        guardian.orders.reset();
        guardian.go.reset();
        if (guardian.pid > 0) ::waitpid(guardian.pid, nullptr, 0);
    }
    finish();
    return outcome_.exit_status;
}

}  // namespace

int run_session(SessionConfig config) {
    try {
        return Session(std::move(config)).run();
    } catch (const std::exception& failure) {
        std::cerr << "callgate: " << failure.what() << std::endl;
        return 125;
    }
}

}  // namespace callgate
