// Notices for the process that wants a run: each is a callback on the main thread, and may be empty.
#pragma once

#include <functional>

namespace callgate {

struct RunNotices {
    std::function<void()> started;    // the command begins
    std::function<void(int)> exited;  // the exit status; only the processes of callgate itself are left
};

}  // namespace callgate
