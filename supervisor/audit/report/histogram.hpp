// Counts calls over time, in a fixed number of steps. When a later call does not fit, steps become twice as
// wide. So memory is constant, however long the run was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "supervisor/audit/report/outcome.hpp"

namespace callgate::audit::report {

class Histogram {
public:
    static constexpr std::size_t max_steps = 480;

    /// `time`: microseconds since the epoch. A time before the first call counts as the time of the first
    /// call: the log was edited, or the clock was set back.
    void add(std::int64_t time, Outcome outcome);

    [[nodiscard]] std::int64_t start() const { return start_; }
    [[nodiscard]] std::int64_t width() const { return width_; }  // of a step, in microseconds
    [[nodiscard]] const std::vector<std::array<std::uint64_t, outcomes>>& steps() const { return steps_; }

private:
    void widen();

    std::int64_t start_ = 0, width_ = 100;
    std::vector<std::array<std::uint64_t, outcomes>> steps_;
};

}  // namespace callgate::audit::report
