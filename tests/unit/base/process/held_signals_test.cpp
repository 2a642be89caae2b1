#include "base/process/held_signals.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace {

/// Runs `what` in a new process that begins with no signal blocked or handled. Returns its exit status, 128+N
/// if a signal ended it.
template <typename What>
int status_of(What what) {
    const pid_t child = ::fork();
    if (child == 0) {
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
        sigset_t none;
        ::sigemptyset(&none);
        ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
        ::_exit(what());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a signal that is held waits and can be asked for") {
    CHECK(status_of([] {
              callgate::hold_signals();
              if (callgate::held_signal() != 0) return 1;
              ::raise(SIGTERM);
              return callgate::held_signal() == SIGTERM ? 0 : 2;
          }) == 0);
    CHECK(status_of([] {
              ::raise(SIGTERM);
              return 0;
          }) == 128 + SIGTERM);
}

TEST_CASE("a held signal ends what may be left at any moment, and one that the caller blocked does not") {
    CHECK(status_of([] {
              callgate::hold_signals();
              ::raise(SIGINT);
              const callgate::SignalsLetThrough through;
              return 0;
          }) == 128 + SIGINT);
    CHECK(status_of([] {
              sigset_t hup;
              ::sigemptyset(&hup);
              ::sigaddset(&hup, SIGHUP);
              ::pthread_sigmask(SIG_BLOCK, &hup, nullptr);
              callgate::hold_signals();
              ::raise(SIGHUP);
              const callgate::SignalsLetThrough through;
              return callgate::held_signal();
          }) == 0);
}
