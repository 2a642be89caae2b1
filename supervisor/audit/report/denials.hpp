// The calls that were refused, or would have been. Calls of the same operation, rule and object are one
// entry, which names the option that would allow them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "supervisor/audit/report/fix.hpp"
#include "supervisor/audit/report/outcome.hpp"
#include "supervisor/audit/report/strings.hpp"

namespace callgate::audit::report {

struct Denial {
    Outcome outcome = Outcome::refused;
    std::uint32_t verdict = 0, operation = 0, rule = 0, decided_by = 0, error = 0, reason = 0, program = 0;
    std::uint32_t object = 0;               // of Objects
    std::uint64_t count = 0, sequence = 0;  // of the first one
    std::int64_t first = 0, last = 0;       // microseconds since the epoch
    Fix fix{};
};

class Denials {
public:
    static constexpr std::size_t most = 5'000, max_fix_bytes = 16U << 20;

    explicit Denials(Strings& strings) : strings_(&strings) {}

    /// `line`: the record, read again for the fix when it is the first of its kind.
    void add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t object,
             std::string_view line);
    /// In the order of their first calls.
    [[nodiscard]] const std::vector<Denial>& all() const { return denials_; }
    /// Calls of kinds that are not listed.
    [[nodiscard]] std::uint64_t cut() const { return cut_; }

private:
    using Key = std::tuple<Outcome, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    Strings* strings_;
    std::map<Key, std::uint32_t> numbers_;
    std::vector<Denial> denials_;
    std::size_t fix_bytes_ = 0;
    std::uint64_t cut_ = 0;
};

}  // namespace callgate::audit::report
