// How calls are received, chosen by how they come (kernel-facts 33).
//
// Waking a thread on another processor costs more than answering a call, so what matters is who runs where.
// Where callers have work of their own, whether they overlap decides (another thread waits: one that calls
// again before we look says nothing). Where the receivers are what the tree waits for, no rule of thumb holds
// on every machine: the other ways are tried, and one stays only if it is measured to do more. Pure: fed once
// a tick with what was seen, it says how to receive from then on.
#pragma once

#include <cstdint>

namespace callgate {

enum class DispatchMode : std::uint8_t {
    alone,    ///< one receiver, wherever it runs; it wakes its caller on its own processor
    several,  ///< one on each processor; the scheduler places callers, which have work of their own
    crowd,    ///< one on each processor; callers do little but call, and each stays with one receiver
};

/// What was seen since the last tick.
struct Traffic {
    std::int64_t elapsed_ns = 0;
    std::uint64_t calls = 0;
    std::uint32_t samples = 0;     // calls that were looked at closer: every `sample_every`th
    std::uint32_t overlaps = 0;    // of them: another thread's call was waiting already
    std::int64_t handling_ns = 0;  // spent on them, by all receivers

    static constexpr std::uint32_t sample_every = 16;
    /// More is not the call's own time: the receiver had to wait for its turn on a processor.
    static constexpr std::int64_t longest_sample_ns = 200'000;
};

class DispatchChooser {
public:
    explicit DispatchChooser(int processors) : processors_(processors) {}
    [[nodiscard]] DispatchMode choose(const Traffic& tick);

private:
    void choose_by_overlap();
    void leave_idle_crowd(const Traffic& tick);
    void begin_trial(const Traffic& tick);
    void go_on_with_trial(const Traffic& tick);
    void end_trial(DispatchMode best);

    int processors_;
    DispatchMode now_ = DispatchMode::alone;
    Traffic window_;          // several ticks: one alone says little
    int pressing_ticks_ = 0;  // in a row: callers wait for each other, and the receivers have hardly a pause
    int idle_ticks_ = 0;      // in a row, in a crowd: they have

    DispatchMode before_trial_ = DispatchMode::alone;
    double rate_before_ = 0;  // calls per nanosecond
    int trial_ticks_ = 0;     // 0: no trial is under way
    int tried_ = 0;
    int rest_ticks_ = 0;  // until the next trial
    int next_rest_ = 0;
};

}  // namespace callgate
