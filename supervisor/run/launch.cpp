#include "supervisor/run/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "agent/handover.hpp"
#include "agent/landlock.hpp"
#include "base/process/processes.hpp"
#include "base/test_switch.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/kernel/listener.hpp"
#include "supervisor/run/limits/held.hpp"

namespace callgate {

namespace {

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
        case agent::ConfineStep::priority:
            return "give the command the priority of --nice or --ionice (it has no capabilities for a higher "
                   "one)";
    }
    return "arm";
}

template <typename Word>
void write_word(int fd, const Word& word) {
    // Smaller than PIPE_BUF: whole or not at all. Who is gone is noticed by the end of the events.
    while (::write(fd, &word, sizeof word) < 0 && errno == EINTR) {
    }
}

}  // namespace

std::string because(int error) { return std::generic_category().message(error); }

std::string no_private_directory(const std::string& path, int error) {
    return "cannot make the run's private directory " + path + ": " + because(error) +
           "; set TMPDIR to a directory that you can write";
}

UniqueFd copy_descriptor(int descriptor, const char* option) {
    UniqueFd fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
    if (!fd)
        throw SetupError(std::string(option) + ": descriptor " + std::to_string(descriptor) + " is not open");
    return fd;
}

namespace {

/// Nothing, a file, or a descriptor.
agent::ReportTarget open_report_place(const OutputTarget& target) {
    agent::ReportTarget place;
    if (target.descriptor >= 0) {
        place.descriptor = copy_descriptor(target.descriptor, "--report");
    } else if (!target.path.empty()) {
        place = agent::open_report(target.path);
        if (!place.wanted())
            throw SetupError("--report: cannot write " + target.path + ": " + because(errno));
    }
    return place;
}

}  // namespace

Launch::Launch(const SessionConfig& config)
    : made(require(agent::SharedObjects::make(), "cannot map the list of objects")),
      report(open_report_place(config.report)) {
    if (report.wanted())
        lost_report_.emplace(require(agent::SharedText::make(), "cannot map the report of a lost run"));
    ::signal(SIGXFSZ, SIG_IGN);  // a log that has reached its limit is an error of write(2)
    ::signal(SIGPIPE, SIG_IGN);
    const int abi = agent::kernel_landlock_abi();
    if (abi == 1)
        cross_directory_rename = std::make_unique<calls::CrossDirectoryRename>(config.keep_capabilities);
    if (check_enabled("base-domain"))
        require(agent::enter_base_domain(abi), "cannot enter the base Landlock domain");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // Whether the run needs a terminal of its own is known only when the rules are.
    if (!config.perhaps_terminal) fork_guardian(config);
}

Launch::~Launch() {
    if (!forked() || dismiss_and_reap() || temporary_directory_.empty()) return;
    ::rmdir(temporary_directory_.c_str());  // who was killed has removed nothing; nothing was put there yet
}

void Launch::fork_guardian(const SessionConfig& config) {
    agent::GuardianConfig guarding(config.signals);
    guarding.working_directory = UniqueFd(::open(config.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!guarding.working_directory)
        throw SetupError("cannot start in " + config.directory + ": " + because(errno));
    guarding.pass = config.pass;
    if (config.terminal) guarding.terminal = config.terminal->for_run();
    guarding.keep_capabilities = config.keep_capabilities;
    guarding.background = config.background;
    guarding.created_ipc = &made.objects();
    guarding.temporary_directory = temporary_directory_ = config.temporary_directory;
    guarding.await_dismissal = true;
    guarding.supervisor_files = approval::run_socket_files(config.ask.runtime_directory, config.run);
    guarding.report = &report;
    guarding.lost_report = lost_report_ ? &*lost_report_ : nullptr;
    guardian = require(agent::start_guardian(guarding), "cannot start the guardian process");
}

namespace {

constexpr const char* untold = "cannot tell the agent process what to do";

}  // namespace

CompiledPolicy::CompiledPolicy(const rules::Plan& plan)
    : landlock(plan), filter(enforce::compile(enforce::filter_spec(plan))) {}

void Launch::tell_domain(const SessionConfig& config, const enforce::RulesetRecipe& landlock) {
    static_cast<void>(expect(agent::Event::Kind::ready, config));
    const agent::RulesetParts parts = landlock.parts();
    require(agent::send_ruleset(guardian, &parts), untold);
}

void Launch::tell_filter(std::span<const sock_filter> filter) {
    require(agent::send_filter(guardian, filter), untold);
}

void Launch::arm(const SessionConfig& config) {
    tell_domain(config, enforce::RulesetRecipe(config.plan));
    // The agent opens meanwhile what its ruleset names.
    tell_filter(enforce::compile(enforce::filter_spec(config.plan)));
}

void Launch::arm(const SessionConfig& config, const CompiledPolicy& armour) {
    tell_domain(config, armour.landlock);
    tell_filter(armour.filter);
}

void Launch::tell_command(const SessionConfig& config) {
    if (std::exchange(told_, true)) return;
    agent::CommandSpec arming;
    arming.command = config.command;
    arming.environment = config.environment;
    arming.executables = config.executables;
    arming.limits = limits::process_limits(config.limits);
    arming.nice = config.nice;
    arming.io_priority = config.io_priority;
    require(agent::send_command(guardian, arming), untold);
}

/// The next thing to know of: who stops the terminal's jobs at this moment stops the agent, too.
agent::Event Launch::next_event() const {
    using Kind = agent::Event::Kind;
    for (;;) {
        agent::Event event{};
        ssize_t got = -1;
        while ((got = ::read(guardian.events.get(), &event, sizeof event)) < 0 && errno == EINTR) {
        }
        if (got != static_cast<ssize_t>(sizeof event))
            throw SetupError("the guardian process ended before the command began");
        if (event.kind == Kind::stopped)
            stop_with_agent(event.pid);
        else if (event.kind != Kind::continued)
            return event;
    }
}

/// As with a command that stops (EventLoop). It may have been continued before we read that it had stopped.
void Launch::stop_with_agent(pid_t stopped) const {
    const auto process = read_process(stopped);
    if (!process || process->state != 'T') return;
    ::kill(::getpid(), SIGSTOP);
    write_word(guardian.orders.get(), agent::Order{agent::Order::Kind::signal, SIGCONT});
}

agent::Event Launch::expect(agent::Event::Kind kind, const SessionConfig& config) const {
    const agent::Event event = next_event();
    if (event.kind == kind) return event;
    if (event.kind != agent::Event::Kind::confine_failed)
        throw SetupError("the agent process ended before the command began");
    const auto step = static_cast<agent::ConfineStep>(event.detail);
    if (step == agent::ConfineStep::temporary_directory)
        throw SetupError(no_private_directory(config.temporary_directory, event.value));
    throw SetupError(std::string("cannot ") + step_name(step) + ": " + because(event.value));
}

UniqueFd Launch::take_listener(const SessionConfig& config) {
    const agent::Event confined = expect(agent::Event::Kind::confined, config);
    agent = confined.pid;
    if (!guardian.handover)
        return require(kernel::take_listener(confined.pid, confined.value),
                       "cannot take the seccomp listener");
    const UniqueFd socket = std::move(guardian.handover);
    return require(agent::receive_descriptor(socket), "cannot receive the seccomp listener");
}

void Launch::let_go() {
    write_word(guardian.go.get(), 'g');
    guardian.go.reset();
}

bool Launch::dismiss_and_reap() {
    if (guardian.orders) write_word(guardian.orders.get(), agent::Order{agent::Order::Kind::dismiss, 0});
    return reap();
}

bool Launch::reap() {
    guardian.orders.reset();
    guardian.go.reset();
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(guardian.pid, &status, 0)) < 0 && errno == EINTR) {
    }
    // Who was killed was reaped with the tree (EventLoop), and has removed nothing.
    const bool done = reaped == guardian.pid && status == 0;
    guardian.pid = -1;
    return done;
}

}  // namespace callgate
