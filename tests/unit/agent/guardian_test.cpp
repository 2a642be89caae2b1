#include "agent/guardian.hpp"

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>

#include "supervisor/enforce/seccomp/compiler.hpp"
#include "tests/unit/agent/guarded_run.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::agent::test;
using K = Event::Kind;
using Kinds = std::vector<K>;

namespace {

std::string line_of(const std::string& text, const std::string& start) {
    const std::size_t at = text.find(start);
    if (at == std::string::npos) return "";
    const std::string rest = text.substr(at + start.size());
    return rest.substr(rest.find_first_not_of(" \t"), rest.find('\n') - rest.find_first_not_of(" \t"));
}

std::string status_line(LaunchParts& launch, const std::string& field) {
    TemporaryDirectory directory;
    launch.command = {"/bin/sh", "-c", "exec grep . /proc/self/status > " + (directory / "status")};
    launch.executables = {"/bin/sh"};
    GuardedRun run(launch);
    run_to_end(run);
    return line_of(contents(directory / "status"), field + ":");
}

// Restores descriptors 0..2 and a signal's disposition at the end of a test.
class SavedDescriptor {
public:
    explicit SavedDescriptor(int fd) : fd_(fd), saved_(::fcntl(fd, F_DUPFD_CLOEXEC, 100)) {}
    SavedDescriptor(const SavedDescriptor&) = delete;
    SavedDescriptor& operator=(const SavedDescriptor&) = delete;
    ~SavedDescriptor() {
        if (saved_.valid()) ::dup2(saved_.get(), fd_);
    }

private:
    int fd_;
    UniqueFd saved_;
};

}  // namespace

TEST_CASE("a command that exits 7 is confined, exits, and nothing is left") {
    GuardedRun run(shell("exit 7"));
    CHECK(run_to_end(run) == Kinds{K::confined, K::exited, K::lingering, K::ended});
    CHECK(run.seen(K::exited).value == 7);
    CHECK(run.seen(K::lingering).value == 0);
    CHECK(run.seen(K::ended).processes == 1);
    CHECK(run.seen(K::ended).max_rss_kb > 0);
    CHECK(run.seen(K::confined).value == -1);
}

TEST_CASE("a command that dies of a signal says which") {
    GuardedRun run(shell("kill -USR1 $$"));
    CHECK(run_to_end(run) == Kinds{K::confined, K::signaled, K::lingering, K::ended});
    CHECK(run.seen(K::signaled).value == SIGUSR1);
}

TEST_CASE("a command killed while it is confined dies of that signal") {
    GuardedRun run(shell("exit 0"));
    const Event confined = run.until(K::confined);
    ::kill(confined.pid, SIGKILL);
    run.finish();
    CHECK(run.kinds() == Kinds{K::confined, K::signaled, K::lingering, K::ended});
}

TEST_CASE(
    "an executable that does not exist is ENOENT, one that may not be executed EACCES, and nothing else "
    "ran") {
    TemporaryDirectory directory;
    LaunchParts missing = launch({directory / "missing"});
    {
        GuardedRun run(missing);
        CHECK(run_to_end(run) == Kinds{K::confined, K::exec_failed, K::ended});
        CHECK(run.seen(K::exec_failed).value == ENOENT);
    }
    std::ofstream(directory / "plain") << "text\n";
    missing.executables = {directory / "plain", directory / "plain/beneath", directory / "missing"};
    GuardedRun run(missing);
    CHECK(run_to_end(run) == Kinds{K::confined, K::exec_failed, K::ended});
    CHECK(run.seen(K::exec_failed).value == EACCES);
}

TEST_CASE("the first candidate that can be executed is, also a script without an interpreter line") {
    TemporaryDirectory directory;
    std::ofstream(directory / "plain") << "exit 1\n";
    std::ofstream(directory / "script") << "[ \"$1\" = 'one two' ] && [ $# = 1 ] && exit 9\n";
    ::chmod((directory / "script").c_str(), 0755);
    LaunchParts script = launch({"script", "one two"});
    script.executables = {directory / "missing", directory / "plain", directory / "script", "/bin/false"};
    GuardedRun run(script);
    run_to_end(run);
    CHECK(run.seen(K::exited).value == 9);
}

TEST_CASE("a supervisor that closes `go` ends a confined agent") {
    GuardedRun run(shell("exit 0"));
    run.until(K::confined);
    run.guardian().go.reset();
    run.finish();
    CHECK(run.kinds() == Kinds{K::confined, K::confine_failed, K::ended});
    CHECK(run.seen(K::confine_failed).detail == static_cast<int>(ConfineStep::handshake));
}

TEST_CASE("a step of confinement that fails is named, and the command never runs") {
    TemporaryDirectory directory;
    LaunchParts launch = shell("touch " + (directory / "ran"));
    launch.limits = {{RLIMIT_NOFILE, {20, 10}}};
    GuardedRun run(launch);
    run.finish();
    CHECK(run.kinds() == Kinds{K::confine_failed, K::ended});
    CHECK(run.seen(K::confine_failed).detail == static_cast<int>(ConfineStep::limits));
    CHECK(run.seen(K::confine_failed).value == EINVAL);
    CHECK(::access((directory / "ran").c_str(), F_OK) != 0);
}

TEST_CASE("a temporary directory is the command's alone, and at the end nothing of it is left") {
    TemporaryDirectory directory;
    const std::string own = directory / "own";
    LaunchParts launch = shell("stat -c %a " + own + " > " + (directory / "mode") + "; mkdir -p " + own +
                               "/a/b; echo x > " + own + "/a/file");
    launch.temporary_directory = own;
    GuardedRun run(launch);
    run.start();
    CHECK(WEXITSTATUS(run.finish()) == 0);
    CHECK(contents(directory / "mode") == "700\n");
    CHECK(::access(own.c_str(), F_OK) != 0);
}

TEST_CASE("a temporary directory that is there already is neither used nor removed") {
    TemporaryDirectory directory;
    const std::string own = directory / "own";
    REQUIRE(::mkdir(own.c_str(), 0700) == 0);
    LaunchParts launch = shell("touch " + (directory / "ran"));
    launch.temporary_directory = own;
    GuardedRun run(launch);
    CHECK(WEXITSTATUS(run.finish()) == 0);
    CHECK(run.kinds() == Kinds{K::confine_failed, K::ended});
    CHECK(run.seen(K::confine_failed).detail == static_cast<int>(ConfineStep::temporary_directory));
    CHECK(run.seen(K::confine_failed).value == EEXIST);
    CHECK(::access(own.c_str(), F_OK) == 0);
    CHECK(::access((directory / "ran").c_str(), F_OK) != 0);
}

TEST_CASE("the command inherits no descriptor above 2 but those that are passed") {
    TemporaryDirectory directory;
    const UniqueFd inherited(::open("/dev/null", O_RDONLY));  // not CLOEXEC: only closing keeps it out
    const UniqueFd passed(::fcntl(inherited.get(), F_DUPFD_CLOEXEC, 77));
    LaunchParts launch = test::launch({victim(), "descriptors", directory / "none"});
    {
        GuardedRun run(launch);
        run_to_end(run);
    }
    CHECK(contents(directory / "none").find("beyond:\n") != std::string::npos);
    launch.command.back() = directory / "one";
    launch.pass = {passed.get()};
    GuardedRun run(launch);
    run_to_end(run);
    CHECK(contents(directory / "one").find("beyond: " + std::to_string(passed.get()) + "\n") !=
          std::string::npos);
}

TEST_CASE("a descriptor to pass that is not open is refused before anything is forked") {
    LaunchParts launch = shell("exit 0");
    launch.pass = {4000};
    const auto started = start_guardian(launch);
    REQUIRE(started.has_error());
    CHECK(started.error().value() == EBADF);
}

TEST_CASE("a closed standard descriptor becomes /dev/null, and never one of callgate's own") {
    TemporaryDirectory directory;
    const SavedDescriptor in(0);
    ::close(0);
    const LaunchParts launch = test::launch({victim(), "descriptors", directory / "list"});
    SUBCASE("closed") {
        GuardedRun run(launch);
        run_to_end(run);
    }
    SUBCASE("reused by callgate") {
        const int reused = ::open((directory / "secret").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(reused == 0);
        GuardedRun run(launch);
        run_to_end(run);
    }
    CHECK(contents(directory / "list").rfind("/dev/null ", 0) == 0);
}

TEST_CASE("signals are for the command what they were for callgate at its start") {
    LaunchParts launch = shell("");
    ::sigemptyset(&launch.signals.mask);
    ::sigemptyset(&launch.signals.ignored);
    CHECK(status_line(launch, "SigBlk") == "0000000000000000");
    const auto ignores_pipe = [&launch] {
        return (std::stoull(status_line(launch, "SigIgn"), nullptr, 16) & (1ULL << (SIGPIPE - 1))) != 0;
    };
    CHECK_FALSE(ignores_pipe());

    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    const SignalState changed = SignalState::current();
    ::sigaction(SIGPIPE, &before, nullptr);
    launch.signals.ignored = changed.ignored;
    ::sigaddset(&launch.signals.mask, SIGUSR2);
    CHECK(status_line(launch, "SigBlk") == "0000000000000800");
    CHECK(ignores_pipe());
}

TEST_CASE("the command has no capability, also as root, and cannot gain one") {
    LaunchParts launch = shell("");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
        CAPTURE(set);
        CHECK(status_line(launch, set) == "0000000000000000");
    }
    CHECK(status_line(launch, "NoNewPrivs") == "1");
    if (::geteuid() != 0) {
        MESSAGE("skipped: an ordinary user has neither a bounding set to empty nor capabilities to keep");
        return;
    }
    CHECK(status_line(launch, "CapBnd") == "0000000000000000");
    launch.keep_capabilities = all_capabilities;
    CHECK(status_line(launch, "CapEff") == line_of(contents("/proc/self/status"), "CapEff:"));
}

TEST_CASE("dropping capabilities twice is as good as once") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(drop_capabilities() && drop_capabilities() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("limits, niceness and the working directory are set before the command starts") {
    TemporaryDirectory directory;
    LaunchParts launch = shell("{ pwd; ulimit -n; ulimit -S -c; nice; } > out");
    launch.working_directory = UniqueFd(::open(directory.path.c_str(), O_PATH | O_CLOEXEC));
    launch.limits = {{RLIMIT_NOFILE, {64, 64}}};
    launch.nice = 3;
    GuardedRun run(launch);
    run_to_end(run);
    errno = 0;
    const int now = ::nice(0);
    CHECK(contents(directory / "out") ==
          directory.path + "\n64\n0\n" + std::to_string(std::min(now + 3, 19)) + "\n");
}

TEST_CASE("the command stays in callgate's process group, the guardian leads a session of its own") {
    TemporaryDirectory directory;
    GuardedRun run(shell("ps -o pgid= -p $$ > " + (directory / "group") + "; read x < /dev/null"));
    const pid_t guardian_group = [&] {
        run.until(K::confined);
        return ::getpgid(run.guardian().pid);
    }();
    CHECK(guardian_group == run.guardian().pid);
    CHECK(::getsid(run.guardian().pid) == run.guardian().pid);
    run.go();
    run.finish();
    CHECK(std::stoi(contents(directory / "group")) == ::getpgrp());
}

TEST_CASE("a signal that is passed on reaches the command, stops and continues are told") {
    TemporaryDirectory directory;
    GuardedRun run(
        shell("trap 'exit 5' USR1; echo up > " + (directory / "up") + "; while :; do sleep 0.05; done"));
    run.start();
    wait_for_file(directory / "up");
    run.order(Order::Kind::signal, SIGSTOP);
    CHECK(run.until(K::stopped).value == SIGSTOP);
    run.order(Order::Kind::signal, SIGCONT);
    run.until(K::continued);
    run.order(Order::Kind::signal, SIGUSR1);
    CHECK(run.until(K::exited).value == 5);
    run.finish();
}

TEST_CASE("the listener is in nobody's hands but the taker's, and answers decide") {
    TemporaryDirectory directory;
    enforce::FilterSpec spec{AUDIT_ARCH_X86_64, 1000, {}};
#if defined(__aarch64__)
    spec.architecture = AUDIT_ARCH_AARCH64;
#else
    spec.rules.push_back({SYS_mkdir, {}, {enforce::Disposition::Kind::notify, 0}});
#endif
    spec.rules.push_back({SYS_mkdirat, {}, {enforce::Disposition::Kind::notify, 0}});
    const auto program = enforce::compile(spec);
    LaunchParts launch = shell("exec mkdir " + (directory / "made") + " 2> /dev/null");
    launch.filter = program;
    GuardedRun run(launch);
    CHECK(run.start().value >= 3);
    wait_readable(run.listener.get());
    seccomp_notif request{};
    REQUIRE(::ioctl(run.listener.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) == 0);
    CHECK(static_cast<pid_t>(request.pid) == run.command());
    for (const pid_t pid : {run.command(), run.guardian().pid}) {
        // The guardian is not dumpable: other processes of the user can neither see nor take its descriptors.
        if (pid == run.guardian().pid && ::geteuid() != 0) continue;
        const std::string list = "ls -l /proc/" + std::to_string(pid) + "/fd > " + (directory / "fds");
        CHECK(std::system(list.c_str()) == 0);
        CHECK(contents(directory / "fds").find("seccomp") == std::string::npos);
        CHECK(contents(directory / "fds").find("->") != std::string::npos);
    }
    SUBCASE("an answer") {
        seccomp_notif_resp answer{request.id, 0, -EXDEV, 0};
        CHECK(::ioctl(run.listener.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    }
    SUBCASE("the taker is gone") { run.listener.reset(); }
    CHECK(run.until(K::exited).value == 1);
    run.finish();
    CHECK(::access((directory / "made").c_str(), F_OK) != 0);
}
