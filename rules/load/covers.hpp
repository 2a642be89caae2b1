// Whether one pattern, list or rule covers another, for the warnings of `callgate check`. All are
// conservative: false if unsure. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"

namespace callgate::rules {

[[nodiscard]] bool covers_glob(const Glob& wide, const Glob& narrow);

/// Each of `narrow` is covered by one of `wide`. An empty list covers all.
template <typename T, typename Covers>
[[nodiscard]] bool covers_list(const std::vector<T>& wide, const std::vector<T>& narrow, Covers covers) {
    if (wide.empty()) return true;
    // Every pair is compared, which is not worth it for generated lists.
    if (wide.size() * narrow.size() > 10'000) return false;
    return !narrow.empty() && std::all_of(narrow.begin(), narrow.end(), [&](const T& one) {
        return std::any_of(wide.begin(), wide.end(), [&](const T& other) { return covers(other, one); });
    });
}

/// Whether `wide` matches every object that `narrow` matches. Exceptions of `narrow` do not matter; `wide`
/// must have none.
[[nodiscard]] bool covers_rule(const Rule& wide, const Rule& narrow);

/// A path that the branch matches, to ask for example whether a protected file is readable. Wildcards become
/// one plain name, so it is an example, not the worst case.
[[nodiscard]] std::string sample_path(const Glob::Branch& branch);

}  // namespace callgate::rules
