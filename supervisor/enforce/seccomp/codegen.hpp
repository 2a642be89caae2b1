// Generates the instructions that decide one call by its arguments; private to the seccomp compiler.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "supervisor/enforce/seccomp/assembler.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

/// A rule without its call: the SECCOMP_RET_* value if all tests hold.
struct Case {
    std::vector<ArgumentTest> tests;
    std::uint32_t then = 0;

    bool operator==(const Case&) const = default;
};

/// The first case whose tests all hold decides. If there is none, the call is allowed.
using Decisions = std::vector<Case>;

/// The cases of rules, without unreachable ones and without a final run of cases that allow.
[[nodiscard]] Decisions shortest(std::span<const FilterRule* const> rules);

class CodeGenerator {
public:
    explicit CodeGenerator(Assembler& assembler) : assembler_(assembler) {}
    /// Generates the decision and returns its first instruction. Throws std::invalid_argument for an argument
    /// number that no call has.
    [[nodiscard]] Assembler::Place decide(const Decisions& cases);

private:
    using Place = Assembler::Place;

    // The contents of the accumulator: some bits of one word of an argument.
    struct Word {
        std::uint32_t offset = 0, mask = 0;
        bool operator==(const Word&) const = default;
    };
    // The entry points of a piece of code. The second one (`loaded`) skips the first load, for jumps from
    // code that has loaded the same word.
    struct Entry {
        Place place = 0;
        Word word{};
        Place loaded = 0;

        [[nodiscard]] Place with(const Word& held) const { return held == word ? loaded : place; }
    };
    // Whether the load is needed: some jump may come with another word loaded.
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
