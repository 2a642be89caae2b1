// Equal denials: after the first hundred, one record per second states how many there were.
//
// The target chooses how often it repeats a call that is denied. Without a bound a loop could fill the disk,
// or the memory of a program that reads the log. Denials are equal if call, operations, objects, arguments,
// rule, reason, program and errno are the same. The last denial that has its own record says
// `"counted":true`. So it is on record what equal calls get, before the first of them is answered.
//
// Only denials are counted: a denied call has no effect. A person's denial that stands for the run counts as
// a rule's does, by the question that it answered. Allowed calls, questions, answers, `kill` and what audit
// mode lets through have one record each. The target chooses the bytes of a denial; memory is bounded by
// `max_groups`, and a denial with long arguments is never kept.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "supervisor/audit/write/record.hpp"

namespace callgate::audit {

/// A decision that owns its bytes. It owns its rule if that may be a nested run's, which can end.
class KeptDecision {
public:
    explicit KeptDecision(const Decision& decision);
    KeptDecision(const KeptDecision&) = delete;
    KeptDecision& operator=(const KeptDecision&) = delete;
    [[nodiscard]] const Decision& decision() const { return decision_; }

private:
    std::string_view keep(std::string_view text);

    std::deque<std::string> texts_;
    std::vector<std::string> arguments_, names_;
    std::optional<rules::Rule> rule_;
    Decision decision_;
};

/// Used under a lock of its owner.
class Repeats {
public:
    static constexpr std::size_t max_groups = 256, max_argument_bytes = 16U << 10U;
    static constexpr std::int64_t interval_ns = 1'000'000'000;

    /// `max_equal`: so many equal denials have a record each.
    explicit Repeats(std::uint64_t max_equal) : max_equal_(max_equal) {}

    /// Whether equal calls of this kind may be counted together.
    [[nodiscard]] static bool countable(const Decision& decision);
    /// The key of a denial: equal denials have the same one.
    [[nodiscard]] static std::string key_of(const Decision& decision);

    struct Seen {
        std::uint64_t count = 1;  // write one record that states so many; 0: write none now
        bool announces = false;   // equal denials are counted from here on
    };
    /// Takes a denial. `now_ns` is monotonic.
    [[nodiscard]] Seen see(const std::string& key, const Decision& decision, std::int64_t now_ns);
    /// The record that `see` wanted could not be written: its calls count again.
    void unwritten(const std::string& key, std::uint64_t count);

    struct Due {
        std::string key;
        std::shared_ptr<const KeptDecision> last;
        std::uint64_t count = 0;
    };
    /// Takes the counts that have no record yet: those that are a second old, or all.
    [[nodiscard]] std::vector<Due> take_due(std::int64_t now_ns, bool all);
    /// Whether a count has no record yet.
    [[nodiscard]] bool any_pending() const;

private:
    struct Group {
        std::uint64_t written = 0, pending = 0;
        std::int64_t recorded_ns = 0, seen_ns = 0;
        std::shared_ptr<const KeptDecision> last;
    };
    [[nodiscard]] Group* find_or_add(const std::string& key);

    const std::uint64_t max_equal_;
    std::unordered_map<std::string, Group> groups_;
};

}  // namespace callgate::audit
