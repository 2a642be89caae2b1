// The event loop of a nested run: signals, deadline, limits and guardian as in every run. The run around
// judges the calls of its command (nested/nested_runs.hpp).
//
// The run around hangs up where a rule says that this tree ends. Then this loop ends it.
#pragma once

#include <optional>

#include "supervisor/run/run_loop.hpp"

namespace callgate {

class NestedLoop {
public:
    /// All of `needs` outlives it.
    explicit NestedLoop(const RunLoop::Needs& needs) : given_(needs) {}

    /// Lets the command begin, and returns when nothing of its tree is left. The report then has what was
    /// denied. Throws std::exception if the command cannot begin.
    [[nodiscard]] RunOutcome run(RunLoop::Work work);

private:
    RunLoop::Needs given_;
    EventLoop loop_;
    std::optional<limits::TreeLimits> tree_limits_;
};

}  // namespace callgate
