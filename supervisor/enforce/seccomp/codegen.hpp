// What a filter decides about one call by its arguments, as instructions; used by filter.cpp alone.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "supervisor/enforce/seccomp/assembler.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

/// A rule without its call: SECCOMP_RET_* where all tests hold.
struct Case {
    std::vector<ArgumentTest> tests;
    std::uint32_t then = 0;

    bool operator==(const Case&) const = default;
};

/// The first whose tests all hold; where there is none, the call is allowed.
using Decisions = std::vector<Case>;

/// The cases of rules, without what nothing comes to, and without what allows as the end does.
[[nodiscard]] Decisions shortest(std::span<const FilterRule* const> rules);

class Decider {
public:
    explicit Decider(Assembler& assembler) : assembler_(assembler) {}
    /// Where the decision begins. Throws std::invalid_argument for an argument that no call has.
    [[nodiscard]] Assembler::Place decide(const Decisions& cases);

private:
    using Place = Assembler::Place;

    // What the accumulator holds: one word of an argument, of which some bits count.
    struct Word {
        std::uint32_t offset = 0, mask = 0;
        bool operator==(const Word&) const = default;
    };
    // Where something begins, and where it begins for whoever has loaded already what it looks at first.
    struct Entry {
        Place place = 0;
        Word word{};
        Place loaded = 0;

        [[nodiscard]] Place with(const Word& held) const { return held == word ? loaded : place; }
    };
    // Whether anybody comes who has loaded something else.
    enum class Load : std::uint8_t { wanted, left_out };
    struct Jump;

    Entry among(const Decisions& cases, const Entry& otherwise);
    Entry within(Decisions cases, const Entry& otherwise);
    Entry compare(const ArgumentTest& test, const Entry& yes, const Entry& no, Load load);
    Entry compare_low(const ArgumentTest& test, const Entry& yes, const Entry& no, Load load);
    Entry put_load(const Word& word, Place compared, Load load);

    Assembler& assembler_;
    std::vector<std::pair<Decisions, Entry>> known_;  // each ends in what always holds
};

}  // namespace callgate::enforce
