#include "supervisor/kernel/caller_cache.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace callgate;

namespace {

/// A child that waits, in another user namespace where the kernel lets it; `made` is whether it did.
struct Child {
    explicit Child(bool elsewhere) {
        int ready[2];
        REQUIRE(::pipe(ready) == 0);
        pid = ::fork();
        if (pid == 0) {
            const char done = !elsewhere || ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
            if (::write(ready[1], &done, 1) == 1) ::pause();
            ::_exit(0);
        }
        char done = 'n';
        REQUIRE(::read(ready[0], &done, 1) == 1);
        made = done == 'y';
        ::close(ready[0]);
        ::close(ready[1]);
    }
    ~Child() {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    pid_t pid = -1;
    bool made = false;
};

}  // namespace

TEST_CASE("a caller in another user namespace is told from one in ours") {
    kernel::CallerCache cache;
    std::string executable;
    const Child here(false);
    CHECK(cache.elsewhere(here.pid));  // not looked up yet
    static_cast<void>(cache.look_up(here.pid, executable));
    CHECK_FALSE(cache.elsewhere(here.pid));
    CHECK_FALSE(executable.empty());
    const Child there(true);
    if (!there.made) {
        MESSAGE("skipped: no user namespaces here");
        return;
    }
    static_cast<void>(cache.look_up(there.pid, executable));
    CHECK(cache.elsewhere(there.pid));
}

TEST_CASE("a caller that is gone is elsewhere") {
    kernel::CallerCache cache;
    std::string executable;
    pid_t gone = -1;
    { gone = Child(false).pid; }
    static_cast<void>(cache.look_up(gone, executable));
    CHECK(cache.elsewhere(gone));
}

TEST_CASE("descriptors are taken again and again, and from nobody else") {
    kernel::CallerCache cache;
    pid_t gone = -1;
    {
        const Child child(false);
        gone = child.pid;
        for (int turn = 0; turn < 3; ++turn) CHECK(cache.descriptor_copy(child.pid, 0).has_value());
        const auto none = cache.descriptor_copy(child.pid, 999);
        REQUIRE_FALSE(none.has_value());
        CHECK(none.error().value() == EBADF);
    }
    const auto after = cache.descriptor_copy(gone, 0);
    REQUIRE_FALSE(after.has_value());
    CHECK(after.error().value() == ESRCH);
}
