#include "supervisor/enforce/refused_calls.hpp"

#include <algorithm>

namespace callgate::enforce {

namespace {

bool notable(const FilterRule& rule) {
    return rule.then.kind == Disposition::Kind::refuse && rule.refused != nullptr;
}

/// As the compiled filter computes it (seccomp/codegen.cpp).
bool holds(const ArgumentTest& test, const std::array<std::uint64_t, 6>& arguments) {
    constexpr std::uint64_t low_word = 0xffffffff;
    const std::uint64_t width = test.low ? low_word : ~0ULL;
    const std::uint64_t value = arguments[test.argument] & test.mask & width;
    switch (test.compare) {
        case ArgumentTest::Compare::masked_equal:
            return value == (test.value & width);
        case ArgumentTest::Compare::masked_not_equal:
            return value != (test.value & width);
        case ArgumentTest::Compare::greater:
            return value > (test.value & width);
        case ArgumentTest::Compare::non_zero:
            return value != 0;
    }
    return false;
}

}  // namespace

FilterSpec with_refusals_notified(const FilterSpec& spec) {
    FilterSpec notified = spec;
    for (FilterRule& rule : notified.rules) {
        if (notable(rule)) rule.then = {Disposition::Kind::notify, 0};
    }
    return notified;
}

RefusedCalls::RefusedCalls(const FilterSpec& spec) : first_of_(spec.newest_call + 1U, 0) {
    std::vector<bool> wanted(spec.newest_call + 1U, false);
    for (const FilterRule& rule : spec.rules) {
        if (notable(rule) && rule.call <= spec.newest_call) wanted[rule.call] = true;
    }
    for (const FilterRule& rule : spec.rules) {
        if (rule.last == 0 && rule.call <= spec.newest_call && wanted[rule.call]) rules_.push_back(rule);
    }
    std::ranges::stable_sort(rules_, {}, &FilterRule::call);
    for (std::size_t index = rules_.size(); index-- > 0;)
        first_of_[rules_[index].call] = static_cast<std::uint16_t>(index + 1);
}

RefusedCalls::Refused RefusedCalls::find(std::uint32_t call,
                                         const std::array<std::uint64_t, 6>& arguments) const {
    if (call >= first_of_.size() || first_of_[call] == 0) return {};
    for (std::size_t index = first_of_[call] - 1U; index < rules_.size() && rules_[index].call == call;
         ++index) {
        const FilterRule& rule = rules_[index];
        const bool decides =
            std::ranges::all_of(rule.tests, [&](const ArgumentTest& test) { return holds(test, arguments); });
        if (!decides) continue;
        return notable(rule) ? Refused{rule.refused, rule.then.error} : Refused{};
    }
    return {};
}

}  // namespace callgate::enforce
