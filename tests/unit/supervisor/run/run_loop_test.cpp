// The run loop with a guardian without processes and, for one call, a real seccomp listener.
//
// The caller is a child of the test whose filter notifies unlinkat(2) alone. It makes that call when the loop
// lets it go, and exits with the errno that it got.
#include "supervisor/run/run_loop.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <fstream>

#include "base/process/held_signals.hpp"
#include "supervisor/run/setup_error.hpp"
#include "tests/unit/supervisor/run/fake_guardian.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using tests::FakeGuardian;
using Event = agent::Event;

namespace {

int install_listener() {
    std::array<sock_filter, 4> notify_unlink = {
        sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_unlinkat},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program = {static_cast<unsigned short>(notify_unlink.size()), notify_unlink.data()};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return static_cast<int>(
        ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

/// Forks a child that waits for the guardian's `go` and then unlinks `path`.
pid_t start_caller(int confined, FakeGuardian& guardian, const std::string& path) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    guardian.guardian.go.reset();  // else its own copy would keep the pipe open
    const int listener = install_listener();
    static_cast<void>(::write(confined, &listener, sizeof listener) == 0);
    char word = 0;
    if (::read(guardian.go.get(), &word, 1) != 1) ::_exit(125);
    ::close(listener);
    ::_exit(::syscall(SYS_unlinkat, AT_FDCWD, path.c_str(), 0) == 0 ? 0 : errno);
}

struct SupervisedCaller {
    tests::SignalsRestored signals;
    tests::TemporaryDirectory directory;
    std::string path = directory / "victim";
    FakeGuardian fake;
    Request request;
    Compiled compiled;
    Command command;
    RunReport report;
    calls::Refusals refusals;
    pid_t caller = -1;
    int listener = -1;  // its number in the caller

    explicit SupervisedCaller(rules::Action fallback) {
        std::ofstream(path) << "x";
        request.workdir = request.directory = directory.path;
        request.denials = directory / "denials";
        request.keep_capabilities = all_capabilities;  // else the workers drop those of later tests, too
        command.words = {"caller"};
        compiled.rules = compiled.enforced =
            std::make_shared<const rules::RuleSet>(std::vector<rules::Rule>{}, fallback);
        Pipe confined = make_pipe().value();
        caller = start_caller(confined.write.get(), fake, path);
        fake.guardian.pid = ::getpid();
        confined.write.reset();
        REQUIRE(::read(confined.read.get(), &listener, sizeof listener) == sizeof listener);
        REQUIRE(listener >= 0);
    }
    [[nodiscard]] bool victim_exists() const { return ::access(path.c_str(), F_OK) == 0; }

    RunOutcome run(audit::Log* log) {
        Event confined;
        confined.kind = Event::Kind::confined;
        confined.pid = caller;
        confined.value = listener;
        fake.send(confined);
        Launched launched(agent::SharedObjects::make().value(), agent::SharedObjects::make().value(), {},
                          request);
        launched.guardian = std::move(fake.guardian);
        RunLoop loop({request, compiled, launched, report, refusals});
        fake.play([caller = caller](FakeGuardian& guardian) {
            int status = 0;
            ::waitpid(caller, &status, 0);
            if (WIFEXITED(status))
                guardian.end_with(Event::Kind::exited, WEXITSTATUS(status));
            else
                guardian.end_with(Event::Kind::signaled, WTERMSIG(status));
        });
        return loop.run({.command = command,
                         .log = log,
                         .status = [] { return approval::RunStatus{}; },
                         .command_ended = [](int) {}});
    }
};

UniqueFd full_device() { return UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)); }

}  // namespace

TEST_CASE("an allowed call is recorded and carried out") {
    SupervisedCaller run(rules::Action::allow);
    const auto log = audit::Log::at_file(run.directory / "log", {.run = "k3f9a2"}).value();
    const RunOutcome outcome = run.run(log.get());
    CHECK(outcome.outcome == Outcome::exited);
    CHECK(outcome.exit_status == 0);
    CHECK(outcome.log_error == 0);
    CHECK(outcome.notifications == 1);
    CHECK_FALSE(run.victim_exists());
    CHECK(log->records() == 1);
    CHECK(run.report.counts().allow == 1);
}

TEST_CASE("an allowed call that cannot be recorded is denied, and the run names the log's error") {
    SupervisedCaller run(rules::Action::allow);
    const auto log = audit::Log::on_descriptor(full_device(), {.run = "k3f9a2"}).value();
    const RunOutcome outcome = run.run(log.get());
    CHECK(run.victim_exists());
    CHECK(outcome.outcome == Outcome::exited);
    CHECK(outcome.exit_status != 0);
    CHECK(outcome.log_error == ENOSPC);
    CHECK(outcome.notifications == 1);
}

TEST_CASE("a denied call has no effect, with a log or without") {
    for (const bool logged : {true, false}) {
        SupervisedCaller run(rules::Action::deny);
        std::unique_ptr<audit::Log> log;
        if (logged) log = audit::Log::at_file(run.directory / "log", {.run = "k3f9a2"}).value();
        const RunOutcome outcome = run.run(log.get());
        CHECK(run.victim_exists());
        CHECK(outcome.exit_status == EACCES);
        CHECK(run.report.counts().deny == 1);
    }
}

TEST_CASE("a run that a signal ends before its command begins") {
    SupervisedCaller run(rules::Action::allow);
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &ending,
                      nullptr);  // hold_signals leaves alone what the caller had blocked
    hold_signals();
    ::raise(SIGTERM);
    CHECK(held_signal() == SIGTERM);
    CHECK_THROWS_AS(static_cast<void>(run.run(nullptr)), SetupError);
    CHECK(run.victim_exists());
}
