#include "base/process/signals.hpp"

namespace callgate {

SignalState SignalState::current() {
    SignalState state;
    ::sigemptyset(&state.ignored);
    for (int number = 1; number <= SIGRTMAX; ++number) {
        struct sigaction action {};
        if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            ::sigaddset(&state.ignored, number);
    }
    ::sigprocmask(SIG_SETMASK, nullptr, &state.mask);
    return state;
}

void SignalState::restore_dispositions() const {
    for (int number = 1; number <= SIGRTMAX; ++number) {
        struct sigaction action {};
        action.sa_handler = ::sigismember(&ignored, number) == 1 ? SIG_IGN : SIG_DFL;
        ::sigaction(number, &action, nullptr);  // refused for SIGKILL, SIGSTOP and the C library's own two
    }
}

void SignalState::restore_mask() const { ::sigprocmask(SIG_SETMASK, &mask, nullptr); }

}  // namespace callgate
