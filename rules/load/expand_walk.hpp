// A walk through directories follows patterns step by step. Its states say where each pattern stands in a
// directory.
//
// Names in the tree are chosen by whoever filled it. They choose the states, which are bounded, and nothing
// else. Pure.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

/// A component of a branch's remainder.
struct WalkStep {
    std::string text;        // as written
    bool any_depth = false;  // "**" alone
    std::optional<Glob> glob;

    /// The name, if it is literal.
    [[nodiscard]] std::optional<std::string_view> literal() const {
        const Glob::Branch& branch = glob->branches().front();
        if (!branch.literal) return std::nullopt;
        return std::string_view(branch.head).substr(1);
    }
};

/// The steps that may come next, one bit each. The bit behind the last step means that the pattern has
/// matched.
using Positions = std::uint64_t;
constexpr std::size_t max_steps = 62;

constexpr Positions bit(std::size_t index) { return Positions{1} << index; }

/// The steps of "/a/*/**/b". Returns nothing if a component crosses its neighbours ("a**b").
[[nodiscard]] std::optional<std::vector<WalkStep>> split_steps(std::string_view remainder);

/// The steps of one pattern.
class Walk {
public:
    explicit Walk(std::vector<WalkStep> steps);

    [[nodiscard]] const std::string& tail() const { return tail_; }
    [[nodiscard]] Positions start() const { return closure(bit(0)); }
    [[nodiscard]] bool met(Positions positions) const { return (positions & bit(steps_.size())) != 0; }
    /// Whether an object beneath may match that is not covered yet.
    [[nodiscard]] bool goes_on(Positions positions) const {
        return !(met(positions) && !tail_.empty()) && (positions & (bit(steps_.size()) - 1)) != 0;
    }

    /// The positions beneath a child whose name the steps `named` match; `**` matches every name.
    [[nodiscard]] Positions after(Positions positions, Positions named) const {
        return closure((positions & any_depth_) | (positions & named) << 1U);
    }
    [[nodiscard]] const std::vector<WalkStep>& steps() const { return steps_; }

    /// The patterns that remain beneath a directory.
    [[nodiscard]] std::vector<std::string> remaining(Positions positions) const;

private:
    /// "**" also stands for no component.
    [[nodiscard]] Positions closure(Positions positions) const;

    std::vector<WalkStep> steps_;
    std::string tail_;
    Positions any_depth_ = 0;
};

using Walks = std::vector<const Walk*>;

/// The steps of one walk that a name meets.
struct StepHit {
    std::size_t walk = 0;
    Positions steps = 0;
};

/// Finds what a name meets. Most names meet nothing, and most steps are literal.
class StepNames {
public:
    explicit StepNames(const Walks& walks);
    /// `hits` is overwritten; each walk stands there once.
    void find(const std::string& name, std::vector<StepHit>& hits);

private:
    struct Pattern {
        std::string_view text;
        const Glob* glob = nullptr;
        std::vector<StepHit> hits{};
    };
    static void add(StepHit hit, std::vector<StepHit>& to);

    std::unordered_map<std::string_view, std::vector<StepHit>> literals_;
    std::bitset<256> first_bytes_;  // of the literals
    std::vector<Pattern> patterns_;
    std::string slashed_;
};

/// The positions of all walks in a directory. Equal ones have one number, so that a name which meets nothing
/// costs one look at a table.
class WalkStates {
public:
    using Number = std::uint32_t;
    static constexpr Number none = 0;  // no walk goes on
    /// Bound: names in the tree choose the states, and a state has a number for each pattern.
    static constexpr std::size_t max_states = 4096;

    explicit WalkStates(Walks walks) : walks_(std::move(walks)) {
        number_of(std::vector<Positions>(walks_.size(), 0));
    }
    [[nodiscard]] Number start();
    [[nodiscard]] Positions positions(Number state, std::size_t walk) const {
        return all_[state].positions[walk];
    }
    /// The state beneath a directory whose name meets nothing.
    [[nodiscard]] Number otherwise(Number state);
    /// The state beneath a directory whose name has these hits.
    [[nodiscard]] Number after(Number state, const std::vector<StepHit>& hits);
    [[nodiscard]] bool full() const { return all_.size() > max_states; }

private:
    struct State {
        std::vector<Positions> positions;  // 0: the walk does not go on
        std::optional<Number> otherwise;
    };
    [[nodiscard]] Positions onward(std::size_t walk, Positions next) const {
        return walks_[walk]->goes_on(next) ? next : 0;
    }
    Number number_of(std::vector<Positions> positions);

    Walks walks_;
    std::vector<State> all_;
    std::map<std::vector<Positions>, Number> numbers_;
};

}  // namespace callgate::rules
