#include "base/process/processes.hpp"

#include <doctest/doctest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/unit/agent/guarded_run.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::agent::test;

namespace {

// A child that waits until it is killed; `prepare` runs in it first.
template <typename Prepare>
pid_t start_child(Prepare prepare) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("pipe");
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");  // to kill(2), -1 means every process
    if (child == 0) {
        prepare();
        if (::write(ready[1], "r", 1) != 1) ::_exit(1);
        for (;;) ::pause();
    }
    char byte = 0;
    const bool good = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
    ::close(ready[1]);
    if (!good) throw std::runtime_error("child");
    return child;
}

bool contains(const std::vector<pid_t>& all, pid_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

TEST_CASE("a process is read whatever it calls itself") {
    const pid_t child = start_child([] { ::prctl(PR_SET_NAME, ") R 1 (x\n) 7"); });
    const auto process = read_process(child);
    REQUIRE(process.has_value());
    CHECK(process->parent == ::getpid());
    CHECK(std::string("RSD").find(process->state) != std::string::npos);
    // The child has one thread; a sanitizer's runtime may add its own.
    const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(child) + "/task");
    CHECK(process->threads == std::distance(begin(tasks), end(tasks)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK_FALSE(read_process(child).has_value());
}

TEST_CASE("a number that was given anew while /proc was read makes nobody a child") {
    Process root, ours, outside;
    root.pid = 10;
    root.start_time = 100;
    ours.pid = 11;
    ours.parent = 10;
    ours.start_time = 300;
    outside.pid = 12;
    outside.parent = 11;  // read when 11 was another process
    outside.start_time = 200;
    Family family(root);
    REQUIRE(family.holds_parent_of(ours));
    family.add(ours);
    CHECK_FALSE(family.holds_parent_of(outside));
    outside.start_time = 300;
    CHECK(family.holds_parent_of(outside));
}

TEST_CASE("descendants are those of the root alone, and zombies are not counted") {
    const pid_t first = start_child([] {});
    const pid_t second = start_child([] {});
    CHECK(contains(descendants(::getpid()), first));
    CHECK(descendants(first).empty());
    ::kill(second, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(second), &info, WEXITED | WNOWAIT);
    CHECK_FALSE(contains(descendants(::getpid()), second));
    ::kill(first, SIGKILL);
    ::waitpid(first, nullptr, 0);
    ::waitpid(second, nullptr, 0);
}

TEST_CASE("ending the descendants of one process leaves its siblings alone") {
    const pid_t sibling = start_child([] {});
    const pid_t root = start_child([] {
        static_cast<void>(start_child([] { ::signal(SIGTERM, SIG_IGN); }));
        static_cast<void>(start_child([] { ::setsid(); }));
    });
    CHECK(descendants(root).size() == 2);
    CHECK(end_descendants(root) == 2);
    CHECK(descendants(root).empty());
    CHECK(::kill(sibling, 0) == 0);
    CHECK(read_process(sibling)->alive());
    CHECK(read_process(root)->alive());
    for (const pid_t pid : {sibling, root}) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
}

TEST_CASE("ending where there is nothing ends at once") { CHECK(end_descendants(0x7FFFFFFF) == 0); }
