// The choice of how calls are received, by how they come (docs/dev/kernel-facts.md 33).
//
// Waking a thread on another processor costs more than answering a call, so it matters which thread runs
// where. If callers have work of their own, their overlap decides: calls of different threads that wait at
// the same time. If the tree waits for the receivers most of the time, no rule of thumb holds on every
// machine. Then the other modes are tried, and one stays only if it is measured to do more. Pure: `choose`
// gets the traffic of each tick and returns the mode from then on.
#pragma once

#include <cstdint>

namespace callgate {

enum class DispatchMode : std::uint8_t {
    single,    ///< one receiver on any processor; it wakes its caller on its own processor
    parallel,  ///< one on each processor; the scheduler places callers, which have work of their own
    affine,    ///< one on each processor; callers do little but call, and each stays with one receiver
};

/// The traffic since the last tick.
struct Traffic {
    std::int64_t elapsed_ns = 0;
    std::uint64_t calls = 0;
    std::uint32_t samples = 0;     // calls that were looked at closer: every `sample_every`th
    std::uint32_t overlaps = 0;    // of them: another thread's call was waiting already
    std::int64_t handling_ns = 0;  // spent on them, by all receivers

    static constexpr std::uint32_t sample_every = 16;
    /// A longer sample is not the call's own time: the receiver had to wait for its turn on a processor.
    static constexpr std::int64_t max_sample_ns = 200'000;
};

class DispatchChooser {
public:
    explicit DispatchChooser(int processors) : processors_(processors) {}
    [[nodiscard]] DispatchMode choose(const Traffic& tick);

private:
    void choose_by_overlap();
    void leave_idle_affine(const Traffic& tick);
    void begin_trial(const Traffic& tick);
    void go_on_with_trial(const Traffic& tick);
    void end_trial(DispatchMode best);

    int processors_;
    DispatchMode now_ = DispatchMode::single;
    Traffic window_;          // of several ticks, because a single one says little
    int pressing_ticks_ = 0;  // in a row: callers wait for each other, and receivers hardly pause
    int idle_ticks_ = 0;      // in a row, in affine mode: receivers pause

    DispatchMode before_trial_ = DispatchMode::single;
    double rate_before_ = 0;  // calls per nanosecond
    int trial_ticks_ = 0;     // 0: no trial is under way
    int tried_ = 0;
    int rest_ticks_ = 0;  // until the next trial
    int next_rest_ = 0;
};

}  // namespace callgate
