#include "base/process/held_signals.hpp"

#include <initializer_list>

namespace callgate {

namespace {

constexpr std::initializer_list<int> ending_signals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};

/// The signals that `hold_signals` has blocked. Signals that the caller had blocked stay blocked.
sigset_t& held_signals() {
    static sigset_t set{};
    return set;
}

}  // namespace

void hold_signals() {
    sigset_t before;
    sigset_t all;
    ::sigemptyset(&all);
    for (const int signal : ending_signals) ::sigaddset(&all, signal);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    ::sigemptyset(&held_signals());
    for (const int signal : ending_signals)
        if (::sigismember(&before, signal) == 0) ::sigaddset(&held_signals(), signal);
}

int held_signal() {
    sigset_t waiting;
    if (::sigpending(&waiting) != 0) return 0;
    for (const int signal : ending_signals)
        if (::sigismember(&waiting, signal) == 1 && ::sigismember(&held_signals(), signal) == 1)
            return signal;
    return 0;
}

SignalsLetThrough::SignalsLetThrough() { ::pthread_sigmask(SIG_UNBLOCK, &held_signals(), &before_); }
SignalsLetThrough::~SignalsLetThrough() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace callgate
