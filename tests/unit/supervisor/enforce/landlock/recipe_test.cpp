#include "supervisor/enforce/landlock/recipe.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "agent/landlock_abi.hpp"
#include "tests/unit/supervisor/enforce/landlock/landlock_domain.hpp"

using namespace callgate;
using namespace callgate::agent;
using namespace callgate::enforce;
using namespace callgate::agent::test;
using rules::Operation;
using rules::OperationSet;

namespace {

int try_open(const std::string& path, int flags) {
    const UniqueFd file(::open(path.c_str(), flags | O_CLOEXEC, 0600));
    return file ? 0 : errno;
}

}  // namespace

TEST_CASE("a file gets file rights only, and no ABI gets rights that it does not know") {
    const OperationSet all = rules::file_operations;
    CHECK(landlock_access(all, false, 7) == (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                             LANDLOCK_ACCESS_FS_EXECUTE | landlock::fs_truncate));
    CHECK((landlock_access(all, true, 2) & landlock::fs_truncate) == 0);
    CHECK((landlock_access(all, true, 1) & LANDLOCK_ACCESS_FS_REFER) == 0);
    CHECK((landlock_access(all, true, 2) & LANDLOCK_ACCESS_FS_REFER) != 0);
    CHECK((landlock_access(Operation::create, true, 7) & LANDLOCK_ACCESS_FS_REFER) == 0);
    CHECK(landlock_access(Operation::metadata, true, 7) == 0);
    CHECK((landlock_access(all, true, 7) & (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)) ==
          0);
}

TEST_CASE("no ABI lets a target make, rename or link a symbolic link by itself") {
    TemporaryDirectory directory;
    REQUIRE(::symlink("nowhere", (directory / "there").c_str()) == 0);
    for (int abi = 1; abi <= kernel_landlock_abi(); ++abi) {
        CAPTURE(abi);
        const UniqueFd ruleset = ruleset_of(plan(abi, {grant(directory.path, true, rules::file_operations)}));
        const auto under = [&](const std::function<int()>& body) { return in_domain(ruleset, body); };
        CHECK(under([&] { return result_of(::symlink("x", (directory / "made").c_str())); }) == EACCES);
        CHECK(under([&] {
                  return result_of(::rename((directory / "there").c_str(), (directory / "moved").c_str()));
              }) == EACCES);
        CHECK(under([&] {
                  return result_of(::link((directory / "there").c_str(), (directory / "linked").c_str()));
              }) == EACCES);
    }
}

TEST_CASE("under every ABI up to the kernel's a target reads what is granted and nothing else") {
    TemporaryDirectory directory;
    ::mkdir((directory / "in").c_str(), 0700);
    std::ofstream(directory / "in/file") << "x\n";
    std::ofstream(directory / "out") << "x\n";
    for (int abi = 1; abi <= kernel_landlock_abi(); ++abi) {
        CAPTURE(abi);
        const UniqueFd ruleset = ruleset_of(plan(abi, {grant(directory / "in", true, Operation::read)}));
        CHECK(in_domain(ruleset, [&] { return try_open(directory / "in/file", O_RDONLY); }) == 0);
        CHECK(in_domain(ruleset, [&] { return try_open(directory / "out", O_RDONLY); }) == EACCES);
        CHECK(in_domain(ruleset, [&] { return try_open(directory / "in/file", O_WRONLY); }) == EACCES);
        CHECK(in_domain(ruleset, [&] { return try_open(directory / "in/new", O_RDWR | O_CREAT); }) == EACCES);
    }
}

TEST_CASE("each operation grants its own calls and no others") {
    if (skipped_below(3)) return;
    TemporaryDirectory directory;
    const int abi = kernel_landlock_abi();
    std::ofstream(directory / "file") << "x\n";
    const auto under = [&](OperationSet operations, const std::function<int()>& body) {
        return in_domain(ruleset_of(plan(abi, {grant(directory.path, true, operations)})), body);
    };
    const auto truncate = [&] { return result_of(::truncate((directory / "file").c_str(), 1)); };
    const auto make = [&] { return result_of(::mkdir((directory / "made").c_str(), 0700)); };
    const auto remove = [&] { return result_of(::rmdir((directory / "made").c_str())); };
    CHECK(under(Operation::read, truncate) == EACCES);
    CHECK(under(Operation::modify, truncate) == 0);
    CHECK(under(Operation::modify, make) == EACCES);
    CHECK(under(Operation::create, make) == 0);
    CHECK(under(Operation::create, remove) == EACCES);
    CHECK(under(Operation::remove, remove) == 0);
    CHECK(under(rules::file_operations, [&] {
              return result_of(::mknod((directory / "whiteout").c_str(), S_IFCHR | 0600, 0));
          }) != 0);
}

TEST_CASE("executing needs its own grant, which lets the program be read as the loader must") {
    if (skipped_below(1)) return;
    const int abi = kernel_landlock_abi();
    const auto run_true = [] {
        ::execl("/bin/true", "true", nullptr);
        return errno;
    };
    CHECK(in_domain(ruleset_of(plan(abi, {grant("/usr", true, Operation::read)})), run_true) == EACCES);
    CHECK(in_domain(ruleset_of(plan(abi, {grant("/usr", true, Operation::execute)})), run_true) == 0);
}

TEST_CASE("create and remove together let files move between directories of the same grant") {
    if (skipped_below(2)) return;
    TemporaryDirectory directory;
    ::mkdir((directory / "a").c_str(), 0700);
    ::mkdir((directory / "b").c_str(), 0700);
    std::ofstream(directory / "a/file") << "x\n";
    const UniqueFd ruleset = ruleset_of(
        plan(kernel_landlock_abi(), {grant(directory.path, true, {Operation::create, Operation::remove})}));
    CHECK(in_domain(ruleset, [&] {
              return result_of(::rename((directory / "a/file").c_str(), (directory / "b/file").c_str()));
          }) == 0);
}

TEST_CASE("a grant whose object vanished, changed its kind or became a link is left out") {
    if (skipped_below(1)) return;
    TemporaryDirectory directory;
    ::mkdir((directory / "real").c_str(), 0700);
    ::mkdir((directory / "real/inner").c_str(), 0700);
    CHECK(::symlink((directory / "real").c_str(), (directory / "link").c_str()) == 0);
    const std::vector<std::string> wrong = {directory / "missing", directory / "link",
                                            directory / "link/inner"};
    std::vector<rules::Grant> grants;
    for (const std::string& path : wrong) grants.push_back(grant(path, true, Operation::read));
    grants.push_back(grant(directory / "real", false, Operation::read));  // a file when it was planned
    std::vector<std::string> left_out;
    const rules::Plan planned = plan(kernel_landlock_abi(), grants);
    const auto made = RulesetRecipe(planned).parts().make(&left_out);
    REQUIRE(made.has_value());
    CHECK(left_out == std::vector<std::string>{wrong[0], wrong[1], wrong[2], directory / "real"});
    CHECK(in_domain(*made, [&] { return try_open(directory / "real", O_RDONLY | O_DIRECTORY); }) == EACCES);
}

TEST_CASE("a plan for an ABI that the kernel lacks is an error, not a weaker domain") {
    CHECK(RulesetRecipe(plan(0, {})).parts().make().has_error());
}

TEST_CASE("in the signal domain a signal to all reaches descendants alone, and files still move freely") {
    if (skipped_below(6)) return;
    TemporaryDirectory directory;
    ::mkdir((directory / "a").c_str(), 0700);
    std::ofstream(directory / "file") << "x\n";
    const auto waiting = [] {
        const pid_t made = ::fork();
        if (made == 0)
            for (;;) ::pause();
        return made;
    };
    const pid_t outside = waiting();
    REQUIRE(outside > 0);
    CHECK(in_child([&] {
              if (!enter_signal_domain(kernel_landlock_abi())) return 1;
              if (::kill(outside, 0) == 0 || errno != EPERM) return 2;
              const pid_t inside = waiting();
              if (inside <= 0 || ::kill(-1, SIGKILL) != 0) return 3;
              int status = 0;
              if (::waitpid(inside, &status, 0) != inside || !WIFSIGNALED(status)) return 4;
              return ::rename((directory / "file").c_str(), (directory / "a/file").c_str()) == 0 ? 0 : 5;
          }) == 0);
    CHECK(::waitpid(outside, nullptr, WNOHANG) == 0);
    ::kill(outside, SIGKILL);
    ::waitpid(outside, nullptr, 0);
    CHECK(in_child([] { return enter_signal_domain(5) ? 0 : 1; }) == 1);
}

TEST_CASE(
    "in the base domain files still move freely, and other processes' secrets are closed without "
    "capabilities") {
    if (skipped_below(2)) return;
    TemporaryDirectory directory;
    ::mkdir((directory / "a").c_str(), 0700);
    std::ofstream(directory / "file") << "x\n";
    // The child drops its capabilities, so that only the domain can refuse.
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);  // for kill(2), -1 means every process
    if (pid == 0) {
        if (!drop_capabilities()) ::_exit(1);
        for (;;) ::pause();
    }
    while (contents("/proc/" + std::to_string(pid) + "/status").find("CapEff:\t0000000000000000") ==
           std::string::npos)
        ::sched_yield();
    const std::string outside = "/proc/" + std::to_string(pid) + "/environ";
    CHECK(in_child([&] { return drop_capabilities() ? try_open(outside, O_RDONLY) : 200; }) == 0);
    const auto based = [&](const std::function<int()>& body) {
        return in_child(
            [&] { return enter_base_domain(kernel_landlock_abi()) && drop_capabilities() ? body() : 200; });
    };
    CHECK(based([&] { return try_open(outside, O_RDONLY); }) == EACCES);
    CHECK(based([] { return try_open("/proc/self/environ", O_RDONLY); }) == 0);
    CHECK(based([&] {
              return result_of(::rename((directory / "file").c_str(), (directory / "a/file").c_str()));
          }) == 0);
    CHECK(based([&] { return try_open(directory / "new", O_WRONLY | O_CREAT); }) == 0);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

TEST_CASE("the base domain exists under the first ABI too") {
    if (skipped_below(1)) return;
    CHECK(in_child([] { return enter_base_domain(1) ? 0 : 1; }) == 0);
    CHECK(in_child([] { return enter_base_domain(0) ? 0 : 1; }) == 1);
}

TEST_CASE("the agent enters the target's domain before the command runs") {
    if (skipped_below(1)) return;
    TemporaryDirectory directory;
    ::mkdir((directory / "in").c_str(), 0700);
    const rules::Plan planned =
        plan(kernel_landlock_abi(), {grant("/usr", true, {Operation::read, Operation::execute}),
                                     grant("/etc", true, Operation::read),
                                     grant("/dev/null", false, {Operation::read, Operation::modify}),
                                     grant(directory / "in", true, rules::file_operations)});
    const RulesetRecipe landlock(planned);
    LaunchParts launch = shell("exec 2> /dev/null; echo x > " + (directory / "in/file") +
                               " || exit 1; (echo x > " + (directory / "out") + ") && exit 2; exit 8");
    launch.executables = {"/usr/bin/dash"};
    const RulesetParts parts = landlock.parts();
    launch.landlock = &parts;
    GuardedRun run(launch);
    run_to_end(run);
    CHECK(run.seen(Event::Kind::exited).value == 8);
}

TEST_CASE("connects to unix sockets are handled where Landlock holds them, or messages") {
    rules::Plan planned = plan(9, {});
    const auto handled = [&] {
        return (RulesetRecipe(planned).parts().attributes.handled_fs & agent::landlock::fs_resolve_unix) != 0;
    };
    CHECK_FALSE(handled());
    planned.messages_held = true;
    CHECK(handled());
    planned.messages_held = false;
    planned.sockets_held = true;
    CHECK(handled());
}
