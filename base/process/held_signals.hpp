// Signals that end callgate, while a run is set up: held back until it is known what they end.
//
// Without that a SIGTERM between the fork of the guardian and the event loop would kill callgate as SIGKILL
// does: no report of its own, an exit by signal. One that comes before the command was let go cancels the
// run; later ones are the event loop's. SIGTSTP is not held: whoever stops the group must see callgate stop.
#pragma once

#include <csignal>

namespace callgate {

/// From here on SIGINT, SIGQUIT, SIGTERM and SIGHUP wait. Before the first thread is made.
void hold_signals();
/// One that waits, 0: none.
[[nodiscard]] int held_signal();

/// They end callgate as usual while this lives: around what may take long and can be left at any moment.
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
