#include "supervisor/kernel/memory_places.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

using namespace callgate;
using kernel::memory_places;

TEST_CASE("a copy of a memory has its places, and an execution sets others") {
    const auto own = memory_places(::getpid());
    REQUIRE(own.has_value());
    int in[2], out[2];
    REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    const UniqueFd in_read(in[0]), out_read(out[0]);
    UniqueFd in_write(in[1]), out_write(out[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        ::raise(SIGSTOP);
        ::dup2(in_read.get(), STDIN_FILENO);
        ::dup2(out_write.get(), STDOUT_FILENO);
        ::execl("/bin/cat", "cat", nullptr);
        ::_exit(1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    REQUIRE(WIFSTOPPED(status));
    CHECK(memory_places(child) == own);

    CHECK(::kill(child, SIGCONT) == 0);
    char byte = 'x';
    CHECK(::write(in_write.get(), &byte, 1) == 1);
    CHECK(::read(out_read.get(), &byte, 1) == 1);  // cat runs
    const auto of_cat = memory_places(child);
    CHECK(of_cat.has_value());
    CHECK(of_cat != own);

    in_write.reset();  // which ends it
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK_FALSE(memory_places(child).has_value());
}
