#include "base/process/signals.hpp"

#include <array>

namespace callgate {

namespace {

/// No process of callgate ignores or catches another signal before it starts a program. So all others are for
/// the program what they were for callgate: neither fork(2) nor execve(2) changes them.
constexpr std::array changed_signals{SIGCHLD, SIGPIPE, SIGURG, SIGXFSZ};

}  // namespace

SignalState SignalState::current() {
    SignalState state;
    ::sigemptyset(&state.ignored);
    for (const int number : changed_signals) {
        struct sigaction action {};
        if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            ::sigaddset(&state.ignored, number);
    }
    ::sigprocmask(SIG_SETMASK, nullptr, &state.mask);
    return state;
}

void SignalState::restore_dispositions() const {
    for (const int number : changed_signals) {
        struct sigaction action {};
        action.sa_handler = ::sigismember(&ignored, number) == 1 ? SIG_IGN : SIG_DFL;
        ::sigaction(number, &action, nullptr);
    }
}

void SignalState::restore_mask() const { ::sigprocmask(SIG_SETMASK, &mask, nullptr); }

}  // namespace callgate
