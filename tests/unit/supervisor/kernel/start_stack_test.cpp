#include "supervisor/kernel/start_stack.hpp"

#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.hpp"

using namespace callgate;
using namespace callgate::kernel;

namespace {

using Texts = std::vector<std::string>;

std::uint64_t stack_of(pid_t process) {
    user_regs_struct registers{};
    iovec area{&registers, sizeof registers};
    REQUIRE(::ptrace(PTRACE_GETREGSET, process, NT_PRSTATUS, &area) == 0);
#if defined(__x86_64__)
    return registers.rsp;
#elif defined(__aarch64__)
    return registers.sp;
#endif
}

struct Shown {
    std::size_t taken = 0;
    std::string text;  // of env(1)
};

/// Runs env(1) with that environment, and takes variables from it before its first instruction.
Shown show(const Texts& environment, const Texts& names) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd from(ends[0]);
    UniqueFd into(ends[1]);
    std::vector<char*> variables;
    for (const std::string& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
    variables.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        char name[] = "env";
        char* const arguments[] = {name, nullptr};
        ::dup2(into.get(), STDOUT_FILENO);
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::execve("/usr/bin/env", arguments, variables.data());
        ::_exit(1);
    }
    into.reset();
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSTOPPED(status));
    const auto taken = take_variables(child, stack_of(child), names);
    CHECK(take_variables(child, 8, names).error().value() == EFAULT);
    ::ptrace(PTRACE_DETACH, child, nullptr, nullptr);
    Shown shown;
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(from.get(), piece, sizeof piece)) > 0;)
        shown.text.append(piece, static_cast<std::size_t>(got));
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    REQUIRE(taken);
    shown.taken = *taken;
    return shown;
}

}  // namespace

TEST_CASE(
    "variables are taken from a program before its first instruction, and all others stay in their order") {
    const std::string lang = "A=" + std::string(9000, 'a');
    const Shown some = show({"KEYS=1", "KEY=first", lang, "KEY=second", "PLAIN", "TOKEN=", "Z=26"},
                            {"KEY", "TOKEN", "NONE"});
    CHECK(some.taken == 3);
    CHECK(some.text == "KEYS=1\n" + lang + "\nPLAIN\nZ=26\n");
    CHECK(show({"KEY=1"}, {"KEY"}).text.empty());
    CHECK(show({"KEYS=1"}, {"KEY"}).text == "KEYS=1\n");
    CHECK(show({}, {"KEY"}).taken == 0);
    Texts many(1000, "KEY=value");
    many.emplace_back("LAST=1");
    const Shown last = show(many, {"KEY"});
    CHECK(last.taken == 1000);
    CHECK(last.text == "LAST=1\n");
}
