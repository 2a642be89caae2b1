#include "supervisor/run/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "agent/handover.hpp"
#include "agent/landlock.hpp"
#include "base/open_without_links.hpp"
#include "base/process/processes.hpp"
#include "base/test_switch.hpp"
#include "rules/load/written_rules.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/enforce/landlock/recipe.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/nested/outer_run.hpp"
#include "supervisor/run/limits/held.hpp"

namespace callgate {

namespace {

[[noreturn]] void fail_without_guardian() {
    throw SetupError("the guardian process ended before the command began");
}

/// The command starts there. Another run that goes on may have put a link there since the path was resolved.
/// Names of procfs are links by nature, and were not resolved.
UniqueFd open_start(const std::string& directory) {
    if (directory.starts_with("/proc/"))
        return UniqueFd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return open_without_links(directory.c_str(), O_PATH | O_DIRECTORY);
}

const char* step_name(agent::ConfineStep step) {
    switch (step) {
        case agent::ConfineStep::process_group:
            return "join the process group";
        case agent::ConfineStep::working_directory:
            return "enter the start directory";
        case agent::ConfineStep::descriptors:
            return "close descriptors";
        case agent::ConfineStep::limits:
            return "set limits";
        case agent::ConfineStep::capabilities:
            return "drop capabilities";
        case agent::ConfineStep::no_new_privs:
            return "set no_new_privs";
        case agent::ConfineStep::landlock:
            return "enter the Landlock domain";
        case agent::ConfineStep::filter:
            return "install the seccomp filter";
        case agent::ConfineStep::handshake:
            return "hand the listener over";
        case agent::ConfineStep::temporary_directory:
            return "make the run's private directory";
        case agent::ConfineStep::ruleset:
            return "make the Landlock ruleset";
        case agent::ConfineStep::nested:
            return "enter the nested run";
        case agent::ConfineStep::priority:
            return "give the command the priority of --nice or --ionice (it has no capabilities for a higher "
                   "one)";
    }
    return "confine itself";
}

/// A write below PIPE_BUF is whole or fails. False if the reader is gone; then its events end.
template <typename Word>
bool write_word(int fd, const Word& word) {
    ssize_t written = -1;
    while ((written = ::write(fd, &word, sizeof word)) < 0 && errno == EINTR) {
    }
    return written == sizeof word;
}

}  // namespace

std::string no_private_directory(const std::string& path, int error, bool nested) {
    return "cannot make the run's private directory " + path + ": " + because(error) +
           (nested ? "; the run around this one must allow writing beneath ${tmp}"
                   : "; set TMPDIR to a directory that you can write");
}

UniqueFd copy_descriptor(int descriptor, const char* option) {
    UniqueFd fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
    if (!fd)
        throw SetupError(std::string(option) + ": descriptor " + std::to_string(descriptor) + " is not open");
    return fd;
}

namespace {

constexpr const char* not_sent = "cannot tell the agent process what to do";

agent::ReportTarget open_report(const OutputTarget& target) {
    agent::ReportTarget report;
    if (target.descriptor >= 0) {
        report.descriptor = copy_descriptor(target.descriptor, "--report");
    } else if (!target.path.empty()) {
        report = agent::open_report(target.path);
        if (!report.wanted())
            throw SetupError(
                "--report: cannot write " + target.path + ": " +
                (errno == ELOOP ? "it is a symbolic link, which is not followed" : because(errno)));
    }
    return report;
}

}  // namespace

Launched::Launched(agent::SharedObjects objects, agent::SharedObjects of_nested, agent::ReportTarget target,
                   const Request& request)
    : made(std::move(objects)),
      nested(std::move(of_nested)),
      report(std::move(target)),
      temporary_directory_(request.temporary_directory),
      denials_name_(request.denials),
      request_(request) {
    if (report.wanted())
        lost_report_.emplace(require(agent::SharedText::make(), "cannot map the report of a lost run"));
}

Launched::~Launched() {
    if (denials) ::unlink(denials_name_.c_str());
    if (guardian.pid <= 0 || dismiss_and_reap() || temporary_directory_.empty()) return;
    ::rmdir(temporary_directory_.c_str());  // a killed guardian left it; it is still empty
}

Launch::Launch(const Request& request)
    : run_(std::make_unique<Launched>(require(agent::SharedObjects::make(), "cannot map the list of objects"),
                                      require(agent::SharedObjects::make(), "cannot map the list of objects"),
                                      open_report(request.report), request)) {
    ::signal(SIGXFSZ, SIG_IGN);  // a log that has reached its limit is an error of write(2)
    ::signal(SIGPIPE, SIG_IGN);
    const int abi = agent::kernel_landlock_abi();
    if (abi == 1)
        run_->cross_directory_rename =
            std::make_unique<calls::CrossDirectoryRename>(request.keep_capabilities);
    // Within a run nothing is done on behalf here, and the domain would take one of Landlock's sixteen
    // layers.
    if (request.outer == nullptr && check_enabled("base-domain"))
        require(agent::enter_base_domain(abi), "cannot enter the base Landlock domain");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Launch::fork_guardian(const Request& request, const approval::Terminal* terminal) {
    agent::GuardianConfig config(request.caller.signals);
    config.working_directory = open_start(request.directory);
    if (!config.working_directory)
        throw SetupError("cannot start in " + request.directory + ": " + because(errno));
    config.pass = request.pass;
    if (terminal != nullptr) config.terminal = terminal->for_run();
    config.terminal.leave = request.leave_terminal;
    config.keep_capabilities = request.keep_capabilities;
    config.nested = request.outer != nullptr;
    config.background = request.background;
    config.grace = request.grace;
    config.created_ipc = &run_->made.objects();
    config.nested_ipc = &run_->nested.objects();
    config.temporary_directory = request.temporary_directory;
    config.denials = request.denials;
    config.await_dismissal = true;
    config.supervisor_files = approval::run_socket_files(request.ask.runtime_directory, request.run);
    config.report = &run_->report;
    config.lost_report = run_->lost_report_ ? &*run_->lost_report_ : nullptr;
    run_->guardian = require(agent::start_guardian(config), "cannot start the guardian process");
}

namespace {

/// The run around may leave `sendmsg` to the kernel, whose limits are then that run's. So this one has its
/// own where Landlock can hold them. Where the run around decides it, the rules of both do.
void leave_messages_to_landlock(rules::Plan& plan) {
    plan.messages_held =
        plan.messages_held || (plan.landlock_abi >= 9 && plan.unix_datagram && !plan.sockets_held &&
                               plan.notified.contains(rules::Operation::connect));
}

}  // namespace

/// The run around gets the rules first. The private directory exists, so both plans see it.
std::unique_ptr<Launched> Launch::nest(const Compiled& compiled) {
    const Request& request = run_->request_;
    const Expected<std::string> rules = rules::written_rules(*compiled.enforced);
    if (!rules) throw SetupError(rules.error().text);
    const auto place = request.outer->nest({.run = request.run,
                                            .rules = *rules,
                                            .workdir = request.workdir,
                                            .guardian = run_->guardian.pid,
                                            .asks = request.ask.who != approval::AskSettings::Who::never,
                                            .sni = compiled.sni});
    if (!place)
        throw SetupError("this run cannot be nested in run " + request.outer->run() + ": " +
                         place.error().text);
    if (place->token.size() != agent::token_size) throw SetupError("the run around this one gave no token");
    rules::Plan plan = compiled.plan;
    plan.grants = place->grants;
    leave_messages_to_landlock(plan);
    const enforce::RulesetRecipe recipe(plan);
    const agent::RulesetParts parts = recipe.parts();
    require(agent::send_ruleset(run_->guardian, &parts), not_sent);
    require(agent::send_filter(run_->guardian, enforce::compile(enforce::nested_filter_spec(plan))),
            not_sent);
    require(agent::send_token(run_->guardian, place->token), not_sent);
    return std::move(run_);
}

std::unique_ptr<Launched> Launch::confine(const Compiled& compiled) && {
    static_cast<void>(run_->expect(agent::Event::Kind::ready));
    const Request& request = run_->request_;
    // From here on the guardian removes the list if callgate is killed. Before, it may lie in the group of
    // processes that is killed with callgate.
    run_->denials =
        require(DenialsFile::make(request.denials, request.hints), "cannot make " + request.denials);
    if (request.outer != nullptr) return nest(compiled);
    const enforce::RulesetRecipe recipe(compiled.plan);
    const agent::RulesetParts parts = recipe.parts();
    require(agent::send_ruleset(run_->guardian, &parts), not_sent);
    enforce::FilterSpec filter = enforce::filter_spec(compiled.plan);
    if (compiled.plan.record != rules::RecordMode::minimal) {
        run_->refused = enforce::RefusedCalls(filter);
        filter = enforce::with_refusals_notified(filter);
    }
    require(agent::send_filter(run_->guardian, enforce::compile(filter)), not_sent);
    return std::move(run_);
}

void Launched::send_command(const Request& request, const Command& command) {
    agent::CommandSpec spec;
    spec.command = command.words;
    spec.environment = command.environment;
    spec.executables = command.executables;
    spec.limits = limits::process_limits(command.limits);
    spec.nice = request.nice;
    spec.io_priority = request.io_priority;
    require(agent::send_command(guardian, spec), not_sent);
}

/// Returns when there is an event, or none will come. The agent has copies of the guardian's ends at first.
/// While it is stopped, the pipe does not tell of a guardian that was killed.
void Launched::await_event() const {
    std::array<pollfd, 2> either{{{guardian.events.get(), POLLIN, 0}, {guardian.pidfd.get(), POLLIN, 0}}};
    while (::poll(either.data(), either.size(), -1) < 0 && errno == EINTR) {
    }
    if (either[0].revents == 0 && either[1].revents != 0) fail_without_guardian();
}

/// A signal that stops the terminal's jobs at this moment stops the agent, too.
agent::Event Launched::next_event() const {
    using Kind = agent::Event::Kind;
    for (;;) {
        agent::Event event{};
        ssize_t got = -1;
        await_event();
        while ((got = ::read(guardian.events.get(), &event, sizeof event)) < 0 && errno == EINTR) {
        }
        if (got != static_cast<ssize_t>(sizeof event)) fail_without_guardian();
        if (event.kind == Kind::stopped)
            stop_with_agent(event.pid);
        else if (event.kind != Kind::continued)
            return event;
    }
}

/// As with a command that stops (EventLoop). It may have been continued before we read that it had stopped.
/// If somebody continues only one of both, the guardian continues the other.
void Launched::stop_with_agent(pid_t stopped) const {
    using Kind = agent::Order::Kind;
    if (!is_stopped(stopped)) return;
    const auto order = [this](Kind kind, int value = 0) {
        return write_word(guardian.orders.get(), agent::Order{kind, value});
    };
    pollfd ended{guardian.pidfd.get(), POLLIN, 0};
    if (!order(Kind::stopping) || ::poll(&ended, 1, 0) > 0) return;  // nobody would continue this process
    ::kill(::getpid(), SIGSTOP);
    order(Kind::resumed);
    order(Kind::signal, SIGCONT);
}

agent::Event Launched::expect(agent::Event::Kind kind) const {
    const agent::Event event = next_event();
    if (event.kind == kind) return event;
    if (event.kind != agent::Event::Kind::confine_failed)
        throw SetupError("the agent process ended before the command began");
    if (event.step() == agent::ConfineStep::temporary_directory)
        throw SetupError(
            no_private_directory(temporary_directory_, event.error(), request_.outer != nullptr));
    throw SetupError(std::string("cannot ") + step_name(event.step()) + ": " + because(event.error()));
}

void Launched::await_confined() { agent = expect(agent::Event::Kind::confined).pid; }

UniqueFd Launched::take_listener() {
    const agent::Event confined = expect(agent::Event::Kind::confined);
    agent = confined.pid;
    if (!guardian.handover)
        return require(kernel::take_listener(confined.pid, confined.descriptor()),
                       "cannot take the seccomp listener");
    const UniqueFd socket = std::move(guardian.handover);
    return require(agent::receive_descriptor(socket), "cannot receive the seccomp listener");
}

void Launched::let_go() {
    write_word(guardian.go.get(), 'g');
    guardian.go.reset();
}

void Launched::dismiss() const {
    if (guardian.orders) write_word(guardian.orders.get(), agent::Order{agent::Order::Kind::dismiss, 0});
}

bool Launched::dismiss_and_reap() {
    dismiss();
    return reap();
}

bool Launched::reap() {
    guardian.orders.reset();
    guardian.go.reset();
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(guardian.pid, &status, 0)) < 0 && errno == EINTR) {
    }
    // EventLoop has reaped a killed guardian already; its directory still exists.
    const bool done = reaped == guardian.pid && status == 0;
    guardian.pid = -1;
    if (!done) end_orphans();
    return done;
}

void Launched::end_orphans() {
    do {
        end_descendants(::getpid());
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
    } while (!descendants(::getpid()).empty());
}

}  // namespace callgate
