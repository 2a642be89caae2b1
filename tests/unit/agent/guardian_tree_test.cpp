#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>

#include "agent/guardian.hpp"
#include "tests/unit/agent/guarded_run.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::agent::test;
using K = Event::Kind;

namespace {

// Leaves its parent and its session, and ignores polite signals.
std::string daemon(const TemporaryDirectory& directory) {
    return "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > " + (directory / "daemon") +
           "; while :; do sleep 0.05; done' &) ; while [ ! -s " + (directory / "daemon") +
           " ]; do sleep 0.01; done; ";
}

bool gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }
bool gone(const std::string& pid_file) { return gone(std::stoi(contents(pid_file))); }

// Makes this process the parent of orphans while the object lives.
class Subreaper {
public:
    Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL); }
    Subreaper(const Subreaper&) = delete;
    Subreaper& operator=(const Subreaper&) = delete;
    ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0UL, 0UL, 0UL); }
};

// A supervisor in a separate process: starts the guardian, lets the command go, reports the guardian's pid,
// and waits. The command itself shows when it runs.
struct FakeSupervisor {
    pid_t pid = -1, guardian = -1;
};

FakeSupervisor start_fake_supervisor(const LaunchParts& launch, bool go) {
    int told[2];
    if (::pipe(told) != 0) throw std::runtime_error("pipe");
    FakeSupervisor fake;
    fake.pid = ::fork();
    if (fake.pid < 0) throw std::runtime_error("fork");  // for kill(2), -1 means every process
    if (fake.pid == 0) {
        auto started = start_guardian(launch);
        Event event;  // `ready`, then `confined`
        if (!started || ::read(started->events.get(), &event, sizeof event) <= 0) ::_exit(1);
        if (!send_ruleset(*started, launch.landlock) || !send_filter(*started, launch.filter) ||
            !send_command(*started, launch) || ::read(started->events.get(), &event, sizeof event) <= 0)
            ::_exit(1);
        if (go && ::write(started->go.get(), "g", 1) != 1) ::_exit(1);
        if (::write(told[1], &started->pid, sizeof started->pid) < 0) ::_exit(1);
        for (;;) ::pause();
    }
    ::close(told[1]);
    const bool heard = ::read(told[0], &fake.guardian, sizeof fake.guardian) == sizeof fake.guardian;
    ::close(told[0]);
    if (!heard) throw std::runtime_error("the fake supervisor failed");
    return fake;
}

int reap(pid_t pid) {
    int status = -1;
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
    wait_readable(pidfd.get());
    ::waitpid(pid, &status, 0);
    return status;
}

// Kills the supervisor and waits until the guardian has done its last work.
void lose(const FakeSupervisor& fake) {
    ::kill(fake.pid, SIGKILL);
    reap(fake.pid);
    CHECK(reap(fake.guardian) == 0);
}

}  // namespace

TEST_CASE("a daemon that left its session and its parent is ended when the command has ended") {
    TemporaryDirectory directory;
    GuardedRun run(shell(daemon(directory) + "exit 3"));
    run.start();
    run.finish();
    CHECK(run.seen(K::exited).value == 3);
    CHECK(run.seen(K::lingering).value >= 1);
    CHECK(run.seen(K::ended).processes >= 2);
    CHECK(gone(directory / "daemon"));
}

TEST_CASE("what a command leaves behind may end by itself first, when asked to") {
    TemporaryDirectory directory;
    GuardedRun run(shell("(sh -c 'trap \"echo asked > " + (directory / "asked") +
                         "; exit 0\" TERM; echo up > " + (directory / "up") +
                         "; while :; do sleep 0.01; done' &); while [ ! -s " + (directory / "up") +
                         " ]; do sleep 0.01; done"));
    run.start();
    run.finish();
    CHECK(contents(directory / "asked") == "asked\n");
}

TEST_CASE("with --background wait the run lasts until the last process has ended by itself") {
    TemporaryDirectory directory;
    const std::string fifo = directory / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    LaunchParts launch =
        shell("(setsid sh -c 'read x < " + fifo + "; echo $x > " + (directory / "out") + "' &) ; exit 0");
    launch.background = Background::wait;
    GuardedRun run(launch);
    run.start();
    CHECK(run.until(K::lingering).value >= 1);
    std::ofstream(fifo) << "done\n";
    run.finish();
    CHECK(contents(directory / "out") == "done\n");
}

TEST_CASE("the order to end kills everything, stopped or not, and is answered by `ended`") {
    TemporaryDirectory directory;
    GuardedRun run(shell(daemon(directory) + "kill -STOP $(cat " + (directory / "daemon") + "); echo up > " +
                         (directory / "up") + "; sleep 1000"));
    run.start();
    wait_for_file(directory / "up");
    run.order(Order::Kind::end);
    run.finish();
    CHECK(run.seen(K::signaled).value == SIGKILL);
    CHECK(gone(directory / "daemon"));
}

TEST_CASE("the order to terminate reaches every process of the tree") {
    TemporaryDirectory directory;
    LaunchParts launch =
        shell("trap 'wait; exit 4' TERM; sh -c 'trap \"echo inner > " + (directory / "inner") +
              "; exit 0\" TERM; echo up > " + (directory / "up") + "; while :; do sleep 0.01; done' & wait");
    GuardedRun run(launch);
    run.start();
    wait_for_file(directory / "up");
    run.order(Order::Kind::terminate);
    run.finish();
    CHECK(run.seen(K::exited).value == 4);
    CHECK(contents(directory / "inner") == "inner\n");
}

TEST_CASE("a process whose first thread has ended looks like a zombie and is ended all the same") {
    TemporaryDirectory directory;
    const std::string pid_file = directory / "pid";
    GuardedRun run(shell(victim() + " headless " + pid_file + " & while [ ! -s " + pid_file +
                         " ]; do sleep 0.01; done"));
    run.start();
    run.finish();
    CHECK(run.seen(K::lingering).value >= 1);
    CHECK(gone(pid_file));
}

TEST_CASE("a fork bomb that ignores SIGTERM and changes sessions is ended whole") {
    const Subreaper orphans_come_here;
    TemporaryDirectory directory;
    GuardedRun run(launch({victim(), "bomb", "150", directory / "full"}));
    run.start();
    wait_for_file(directory / "full");
    run.order(Order::Kind::end);
    run.finish();
    CHECK(run.seen(K::signaled).value == SIGKILL);
    CHECK(run.seen(K::ended).processes > 50);
    CHECK(descendants(::getpid()).empty());
}

TEST_CASE("when the supervisor is killed the tree ends, its directory goes, and a report says so") {
    const Subreaper orphans_come_here;
    TemporaryDirectory directory;
    const std::string own = directory / "own";
    std::ofstream(directory / "kept") << "kept\n";
    const ReportTarget report = open_report(directory / "report");
    LaunchParts launch =
        shell("cd " + own + "; mkdir -p a/b/c; ln -s " + directory.path + " a/link; echo x > a/b/file; " +
              daemon(directory) + "echo $$ > " + (directory / "command") + "; sleep 1000");
    launch.temporary_directory = own;
    launch.report = &report;
    auto text = SharedText::make();
    REQUIRE(text.has_value());
    REQUIRE(text->set("first"));
    launch.lost_report = &*text;
    const FakeSupervisor fake = start_fake_supervisor(launch, true);
    wait_for_file(directory / "command");
    REQUIRE(text->set("{\"outcome\":\"supervisor_lost\"}\n"));  // the text is set after the fork
    lose(fake);
    CHECK(gone(directory / "daemon"));
    CHECK(gone(directory / "command"));
    CHECK(::access(own.c_str(), F_OK) != 0);
    CHECK(contents(directory / "kept") == "kept\n");
    CHECK(contents(directory / "report") == "{\"outcome\":\"supervisor_lost\"}\n");
    CHECK(descendants(::getpid()).empty());
}

TEST_CASE("when the supervisor is killed before the command was let go, it never runs") {
    const Subreaper orphans_come_here;
    TemporaryDirectory directory;
    LaunchParts launch = shell("echo ran > " + (directory / "ran"));
    launch.temporary_directory = directory / "own";
    const FakeSupervisor fake = start_fake_supervisor(launch, false);
    lose(fake);
    CHECK(::access((directory / "ran").c_str(), F_OK) != 0);
    CHECK(::access((directory / "own").c_str(), F_OK) != 0);
    CHECK(descendants(::getpid()).empty());
}

TEST_CASE("a fork bomb does not outlive its supervisor") {
    const Subreaper orphans_come_here;
    TemporaryDirectory directory;
    const FakeSupervisor fake =
        start_fake_supervisor(launch({victim(), "bomb", "100", directory / "full"}), true);
    wait_for_file(directory / "full");
    lose(fake);
    CHECK(descendants(::getpid()).empty());
}

TEST_CASE("SIGTERM, SIGHUP and terminal signals leave the guardian as it is") {
    TemporaryDirectory directory;
    GuardedRun run(shell("read x < " + (directory / "fifo") + "; exit 6"));
    REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
    run.start();
    for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGPIPE, SIGUSR1})
        ::kill(run.guardian().pid, signal);
    std::ofstream(directory / "fifo") << "x\n";
    CHECK(WIFEXITED(run.finish()));
    CHECK(run.seen(K::exited).value == 6);
}

TEST_CASE("without a guardian the same sweep ends what fell to the supervisor") {
    const Subreaper orphans_come_here;
    TemporaryDirectory directory;
    const FakeSupervisor fake = start_fake_supervisor(
        shell(daemon(directory) + "echo up > " + (directory / "up") + "; sleep 1000"), true);
    wait_for_file(directory / "up");
    ::kill(fake.guardian, SIGKILL);
    ::kill(fake.pid, SIGKILL);
    reap(fake.pid);
    CHECK(end_descendants(::getpid()) >= 2);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    CHECK(gone(directory / "daemon"));
    CHECK(descendants(::getpid()).empty());
}
