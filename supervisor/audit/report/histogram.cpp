#include "supervisor/audit/report/histogram.hpp"

#include <algorithm>

namespace callgate::audit::report {

void Histogram::add(std::int64_t time, Outcome outcome) {
    if (steps_.empty()) start_ = time;
    const std::int64_t since = std::max<std::int64_t>(time - start_, 0);
    while (since / width_ >= static_cast<std::int64_t>(max_steps)) widen();
    const auto step = static_cast<std::size_t>(since / width_);
    if (step >= steps_.size()) steps_.resize(step + 1);
    count(steps_[step], outcome);
}

void Histogram::widen() {
    width_ *= 2;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
        const Tally tally = steps_[step];
        if (step != 0) steps_[step] = {};
        for (std::size_t one = 0; one < outcomes; ++one) {
            if (step != 0) steps_[step / 2][one] += tally[one];
        }
    }
    steps_.resize((steps_.size() + 1) / 2);
}

}  // namespace callgate::audit::report
