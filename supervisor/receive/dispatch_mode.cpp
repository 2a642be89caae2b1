#include "supervisor/receive/dispatch_mode.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace callgate {

namespace {

// Measured: callers one after the other overlap in 0 to 0.2 % of the samples; `make -j2` in 10 % with one
// receiver and in 2 % with two; threads that do nothing but call in nearly all.
constexpr std::uint32_t samples_alone = 32, samples_several = 256;
constexpr int shortest_rest = 50, longest_rest = 500;  // ticks

double rate_of(const Traffic& tick) {
    return static_cast<double>(tick.calls) / static_cast<double>(std::max<std::int64_t>(tick.elapsed_ns, 1));
}

/// Whether receivers are busy for one `part`th of the time at least.
bool handles_for(const Traffic& tick, int part) {
    return tick.handling_ns * Traffic::sample_every * part > tick.elapsed_ns;
}

/// What to try from there, the likelier first.
std::array<DispatchMode, 2> others(DispatchMode now) {
    switch (now) {
        case DispatchMode::alone:
            return {DispatchMode::crowd, DispatchMode::several};
        case DispatchMode::several:
            return {DispatchMode::crowd, DispatchMode::alone};
        default:
            return {DispatchMode::alone, DispatchMode::several};
    }
}

}  // namespace

DispatchMode DispatchChooser::choose(const Traffic& tick) {
    if (processors_ < 2) return DispatchMode::alone;
    window_.samples += tick.samples;
    window_.overlaps += tick.overlaps;
    if (rest_ticks_ > 0) --rest_ticks_;
    const bool mostly_calls = handles_for(tick, 2);
    pressing_ticks_ = mostly_calls && tick.overlaps * 20 > tick.samples ? pressing_ticks_ + 1 : 0;
    if (trial_ticks_ > 0) {
        go_on_with_trial(tick);
    } else if (pressing_ticks_ > 1 && rest_ticks_ == 0) {  // the rate of a whole tick is known
        begin_trial(tick);
    } else if (now_ == DispatchMode::crowd) {
        leave_idle_crowd(tick);
    } else if (pressing_ticks_ == 0) {
        choose_by_overlap();
    }
    return now_;
}

void DispatchChooser::choose_by_overlap() {
    const bool alone = now_ == DispatchMode::alone;
    if (window_.samples < (alone ? samples_alone : samples_several)) return;
    const Traffic seen = std::exchange(window_, {});
    if (alone && seen.overlaps * 16 > seen.samples) now_ = DispatchMode::several;
    if (!alone && seen.overlaps * 200 < seen.samples) now_ = DispatchMode::alone;
}

void DispatchChooser::leave_idle_crowd(const Traffic& tick) {
    const bool one_caller = tick.overlaps * 20 < tick.samples;
    idle_ticks_ = one_caller || !handles_for(tick, 4) ? idle_ticks_ + 1 : 0;
    if (idle_ticks_ > 1) end_trial(one_caller ? DispatchMode::alone : DispatchMode::several);
}

void DispatchChooser::begin_trial(const Traffic& tick) {
    before_trial_ = std::exchange(now_, others(now_)[0]);
    rate_before_ = rate_of(tick);
    trial_ticks_ = 1;
    tried_ = 0;
}

/// Two ticks each; the first belongs to neither way: threads find their processors.
void DispatchChooser::go_on_with_trial(const Traffic& tick) {
    if (++trial_ticks_ == 2) return;
    constexpr double worth_it = 1.15;
    if (rate_of(tick) > rate_before_ * worth_it) return end_trial(now_);
    if (++tried_ == 2) return end_trial(before_trial_);
    now_ = others(before_trial_)[1];
    trial_ticks_ = 1;
}

/// Also where no trial was: what was chosen has its time. What fails again and again is tried seldom.
void DispatchChooser::end_trial(DispatchMode best) {
    const bool vain = trial_ticks_ > 0 && best == before_trial_;
    next_rest_ = vain ? std::clamp(next_rest_ * 2, shortest_rest, longest_rest) : shortest_rest;
    rest_ticks_ = next_rest_;
    trial_ticks_ = 0;
    idle_ticks_ = 0;
    pressing_ticks_ = 0;
    now_ = best;
    window_ = {};
}

}  // namespace callgate
