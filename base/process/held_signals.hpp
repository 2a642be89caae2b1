// Holds back the signals that end callgate while a run is set up, until it is known what they end.
//
// Otherwise a SIGTERM between the fork of the guardian and the event loop would kill callgate as SIGKILL
// does. There would be no report of its own, and callgate would exit by a signal. A signal that comes before
// the command is let go cancels the run. The event loop handles later ones. SIGTSTP is not held: a user who
// stops the process group must see callgate stop.
#pragma once

#include <csignal>

namespace callgate {

/// From here on SIGINT, SIGQUIT, SIGTERM and SIGHUP wait. Call it before the first thread is made.
void hold_signals();
/// A signal that waits, or 0 if there is none.
[[nodiscard]] int held_signal();

/// While it lives, the signals end callgate as usual. Use it around work that may take long and can be left
/// at any moment.
class SignalsLetThrough {
public:
    SignalsLetThrough();
    ~SignalsLetThrough();
    SignalsLetThrough(const SignalsLetThrough&) = delete;
    SignalsLetThrough& operator=(const SignalsLetThrough&) = delete;

private:
    sigset_t before_{};
};

}  // namespace callgate
