#include "supervisor/receive/dispatch_mode.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace callgate {

namespace {

// Measured share of samples that overlap: callers one after the other 0 to 0.2 %; `make -j2` 10 % with one
// receiver and 2 % with two; threads that do nothing but call nearly all.
constexpr std::uint32_t samples_single = 32, samples_parallel = 256;
constexpr int min_rest = 50, max_rest = 500;  // ticks

double rate_of(const Traffic& tick) {
    return static_cast<double>(tick.calls) / static_cast<double>(std::max<std::int64_t>(tick.elapsed_ns, 1));
}

/// Whether receivers are busy for at least one `part`th of the time.
bool handles_for(const Traffic& tick, int part) {
    return tick.handling_ns * Traffic::sample_every * part > tick.elapsed_ns;
}

/// The other modes in the order in which a trial takes them: the likelier one first.
std::array<DispatchMode, 2> others(DispatchMode now) {
    switch (now) {
        case DispatchMode::single:
            return {DispatchMode::affine, DispatchMode::parallel};
        case DispatchMode::parallel:
            return {DispatchMode::affine, DispatchMode::single};
        default:
            return {DispatchMode::single, DispatchMode::parallel};
    }
}

}  // namespace

DispatchMode DispatchChooser::choose(const Traffic& tick) {
    if (processors_ < 2) return DispatchMode::single;
    window_.samples += tick.samples;
    window_.overlaps += tick.overlaps;
    if (rest_ticks_ > 0) --rest_ticks_;
    const bool mostly_calls = handles_for(tick, 2);
    pressing_ticks_ = mostly_calls && tick.overlaps * 20 > tick.samples ? pressing_ticks_ + 1 : 0;
    if (trial_ticks_ > 0) {
        go_on_with_trial(tick);
    } else if (pressing_ticks_ > 1 && rest_ticks_ == 0) {  // the rate of a whole tick is known
        begin_trial(tick);
    } else if (now_ == DispatchMode::affine) {
        leave_idle_affine(tick);
    } else if (pressing_ticks_ == 0) {
        choose_by_overlap();
    }
    return now_;
}

void DispatchChooser::choose_by_overlap() {
    const bool single = now_ == DispatchMode::single;
    if (window_.samples < (single ? samples_single : samples_parallel)) return;
    const Traffic seen = std::exchange(window_, {});
    if (single && seen.overlaps * 16 > seen.samples) now_ = DispatchMode::parallel;
    if (!single && seen.overlaps * 200 < seen.samples) now_ = DispatchMode::single;
}

void DispatchChooser::leave_idle_affine(const Traffic& tick) {
    const bool one_caller = tick.overlaps * 20 < tick.samples;
    idle_ticks_ = one_caller || !handles_for(tick, 4) ? idle_ticks_ + 1 : 0;
    if (idle_ticks_ > 1) end_trial(one_caller ? DispatchMode::single : DispatchMode::parallel);
}

void DispatchChooser::begin_trial(const Traffic& tick) {
    before_trial_ = std::exchange(now_, others(now_)[0]);
    rate_before_ = rate_of(tick);
    trial_ticks_ = 1;
    tried_ = 0;
}

/// A trial takes two ticks. The first one counts for neither mode: threads still find their processors.
void DispatchChooser::go_on_with_trial(const Traffic& tick) {
    if (++trial_ticks_ == 2) return;
    constexpr double worth_it = 1.15;
    if (rate_of(tick) > rate_before_ * worth_it) return end_trial(now_);
    if (++tried_ == 2) return end_trial(before_trial_);
    now_ = others(before_trial_)[1];
    trial_ticks_ = 1;
}

/// Ends a trial, or a mode without one: the chosen mode then runs undisturbed. Trials that fail again and
/// again become rare.
void DispatchChooser::end_trial(DispatchMode best) {
    const bool vain = trial_ticks_ > 0 && best == before_trial_;
    next_rest_ = vain ? std::clamp(next_rest_ * 2, min_rest, max_rest) : min_rest;
    rest_ticks_ = next_rest_;
    trial_ticks_ = 0;
    idle_ticks_ = 0;
    pressing_ticks_ = 0;
    now_ = best;
    window_ = {};
}

}  // namespace callgate
