#include "supervisor/enforce/seccomp/codegen.hpp"

#include <linux/seccomp.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <stdexcept>

namespace callgate::enforce {
namespace {

std::uint32_t return_value(const Disposition& disposition) {
    switch (disposition.kind) {
        case Disposition::Kind::allow:
            return SECCOMP_RET_ALLOW;
        case Disposition::Kind::notify:
            return SECCOMP_RET_USER_NOTIF;
        case Disposition::Kind::refuse:
            return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(disposition.error) & SECCOMP_RET_DATA);
        case Disposition::Kind::kill_process:
            return SECCOMP_RET_KILL_PROCESS;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

enum class Half : std::uint8_t { low, high };

std::uint32_t argument_offset(unsigned argument, Half half) {
    const bool second_word = (half == Half::high) == (std::endian::native == std::endian::little);
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8U * argument + (second_word ? 4U : 0U));
}

std::uint32_t word(std::uint64_t value, Half half) {
    return static_cast<std::uint32_t>(half == Half::high ? value >> 32U : value);
}

bool always_ends(const Decisions& cases) { return cases.back().tests.empty(); }

// Cases that begin with the same test. A case that always holds ends the list.
struct Group {
    const ArgumentTest* test = nullptr;  // null: always holds
    Decisions rest;                      // the decisions if it holds
};

std::vector<Group> by_first_test(const Decisions& cases) {
    std::vector<Group> groups;
    for (const Case& one : cases) {
        const ArgumentTest* const test = one.tests.empty() ? nullptr : &one.tests.front();
        if (groups.empty() || test == nullptr || groups.back().test == nullptr ||
            *groups.back().test != *test)
            groups.push_back({test, {}});
        Decisions& rest = groups.back().rest;
        if (!rest.empty() && always_ends(rest)) continue;
        rest.push_back(one);
        if (test != nullptr) rest.back().tests.erase(rest.back().tests.begin());
    }
    return groups;
}

bool looks_at_same_word(const ArgumentTest& one, const ArgumentTest& other) {
    return one.low && other.low && one.argument == other.argument &&
           word(one.mask, Half::low) == word(other.mask, Half::low);
}

}  // namespace

Decisions shortest(std::span<const FilterRule* const> rules) {
    Decisions cases;
    for (const FilterRule* rule : rules) {
        cases.push_back({rule->tests, return_value(rule->then)});
        if (rule->tests.empty()) break;
    }
    while (!cases.empty() && cases.back().then == SECCOMP_RET_ALLOW) cases.pop_back();
    return cases;
}

// Adds the masked load of one word. Its comparison was added just before, at `compared`.
CodeGenerator::Entry CodeGenerator::put_load(const Word& word, Place compared, Load load) {
    if (load == Load::left_out) return {compared, word, compared};
    if (word.mask != 0xFFFFFFFFU) assembler_.statement(BPF_ALU | BPF_AND | BPF_K, word.mask);
    return {assembler_.statement(BPF_LD | BPF_W | BPF_ABS, word.offset), word, compared};
}

// A comparison of one word, with its load.
struct CodeGenerator::Jump {
    CodeGenerator& generator;
    const Word& held;
    Load load;

    Entry operator()(std::uint16_t condition, std::uint32_t k, Place then, Place otherwise) const {
        return generator.put_load(held, generator.assembler_.jump(condition, k, then, otherwise), load);
    }
};

CodeGenerator::Entry CodeGenerator::compare_low(const ArgumentTest& test, const Entry& yes, const Entry& no,
                                                Load load) {
    const std::uint32_t value = word(test.value, Half::low);
    const Word held{argument_offset(test.argument, Half::low), word(test.mask, Half::low)};
    const Place holds = yes.with(held), fails = no.with(held);
    const Jump jump{*this, held, load};
    switch (test.compare) {
        case ArgumentTest::Compare::masked_equal:
            return jump(BPF_JEQ, value, holds, fails);
        case ArgumentTest::Compare::masked_not_equal:
            return jump(BPF_JEQ, value, fails, holds);
        case ArgumentTest::Compare::greater:
            return jump(BPF_JGT, value, holds, fails);
        case ArgumentTest::Compare::non_zero:
            break;
    }
    return jump(BPF_JEQ, 0, fails, holds);
}

CodeGenerator::Entry CodeGenerator::compare(const ArgumentTest& test, const Entry& yes, const Entry& no,
                                            Load load) {
    if (test.argument > 5) throw std::invalid_argument("a call has six arguments");
    if (test.low) return compare_low(test, yes, no, load);
    const Place equal = compare_low(test, yes, no, Load::wanted).place;
    const std::uint32_t value = word(test.value, Half::high);
    const Word held{argument_offset(test.argument, Half::high), word(test.mask, Half::high)};
    const Place holds = yes.with(held), fails = no.with(held);
    const Jump jump{*this, held, load};
    switch (test.compare) {
        case ArgumentTest::Compare::masked_equal:
            return jump(BPF_JEQ, value, equal, fails);
        case ArgumentTest::Compare::masked_not_equal:
            return jump(BPF_JEQ, value, equal, holds);
        case ArgumentTest::Compare::greater:
            return jump(BPF_JGT, value, holds, assembler_.jump(BPF_JEQ, value, equal, fails));
        case ArgumentTest::Compare::non_zero:
            break;
    }
    return jump(BPF_JEQ, 0, equal, holds);
}

// If a test holds, cases that begin with the same test are decided without repeating it.
CodeGenerator::Entry CodeGenerator::within(Decisions cases, const Entry& otherwise) {
    if (cases.front().tests.empty()) return {assembler_.returns(cases.front().then), {}, 0};
    if (!always_ends(cases)) return among(cases, otherwise);
    const auto known =
        std::find_if(known_.begin(), known_.end(), [&](const auto& one) { return one.first == cases; });
    if (known != known_.end()) return known->second;
    const Entry entry = among(cases, otherwise);
    known_.emplace_back(std::move(cases), entry);
    return entry;
}

CodeGenerator::Entry CodeGenerator::among(const Decisions& cases, const Entry& otherwise) {
    std::vector<Group> groups = by_first_test(cases);
    Entry entry = otherwise;
    for (std::size_t i = groups.size(); i-- > 0;) {
        Group& group = groups[i];
        const Entry holds = within(std::move(group.rest), entry);
        if (group.test == nullptr) {
            entry = holds;
            continue;
        }
        // Only the previous test jumps here, and it has loaded the word.
        const bool loaded =
            i > 0 && looks_at_same_word(*groups[i - 1].test, *group.test) && always_ends(groups[i - 1].rest);
        entry = compare(*group.test, holds, entry, loaded ? Load::left_out : Load::wanted);
    }
    return entry;
}

Assembler::Place CodeGenerator::decide(const Decisions& cases) {
    const Entry allowed{assembler_.returns(SECCOMP_RET_ALLOW), {}, 0};
    return cases.empty() ? allowed.place : among(cases, allowed).place;
}

}  // namespace callgate::enforce
