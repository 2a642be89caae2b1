#include "agent/filter.hpp"
#include "rules/test_switch.hpp"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>

namespace callgate::agent {
namespace {

constexpr std::uint32_t x32_bit = 0x40000000U;
constexpr std::uint32_t no_call = 0xFFFFFFFFU;

std::uint32_t return_value(const Disposition& disposition) {
    switch (disposition.kind) {
        case Disposition::Kind::allow:
            return SECCOMP_RET_ALLOW;
        case Disposition::Kind::trap:
            return SECCOMP_RET_USER_NOTIF;
        case Disposition::Kind::refuse:
            return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(disposition.error) & SECCOMP_RET_DATA);
        case Disposition::Kind::kill_process:
            return SECCOMP_RET_KILL_PROCESS;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

// Classic BPF only jumps forward. So the program is put together from its end: whatever a jump leads to is
// already there and its distance known, and where one is beyond the 8 bits of a conditional jump, a copy of
// the return or an unconditional jump is put in between.
class Assembler {
public:
    /// The place of an instruction, counted from the program's end.
    using Place = std::size_t;

    Place returns(std::uint32_t value) {
        for (const auto& [known, place] : returns_)
            if (known == value) return place;
        return returns_.emplace_back(value, put(BPF_STMT(BPF_RET | BPF_K, value))).second;
    }
    /// Falls through to what was put before it.
    Place statement(std::uint16_t code, std::uint32_t k) { return put(BPF_STMT(code, k)); }
    Place jump(std::uint16_t condition, std::uint32_t k, Place yes, Place no) {
        // Both may need a step in between, and a step makes the other farther: decide with room for both.
        yes = near(yes, 2);
        no = near(no, 1);
        return put(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | condition), k, distance(yes),
                            distance(no)));
    }
    std::vector<sock_filter> finish() {
        if (reversed_.size() > BPF_MAXINSNS)
            throw std::length_error("seccomp program of too many instructions");
        std::reverse(reversed_.begin(), reversed_.end());
        return std::move(reversed_);
    }

private:
    Place put(sock_filter instruction) {
        reversed_.push_back(instruction);
        return reversed_.size() - 1;
    }
    Place near(Place target, std::size_t room) {
        const std::size_t away = reversed_.size() - 1 - target;
        if (away + room <= 255) return target;
        const sock_filter there = reversed_[target];
        if (BPF_CLASS(there.code) == BPF_RET) {
            for (auto& [known, place] : returns_)
                if (known == there.k) return place = put(there);
        }
        return put(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(away)));
    }
    [[nodiscard]] std::uint8_t distance(Place target) const {
        return static_cast<std::uint8_t>(reversed_.size() - 1 - target);
    }

    std::vector<sock_filter> reversed_;
    std::vector<std::pair<std::uint32_t, Place>> returns_;  // few
};

using Place = Assembler::Place;
enum class Half : std::uint8_t { low, high };

std::uint32_t argument_offset(unsigned argument, Half half) {
    const bool second_word = (half == Half::high) == (std::endian::native == std::endian::little);
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8U * argument + (second_word ? 4U : 0U));
}

std::uint32_t word(std::uint64_t value, Half half) {
    return static_cast<std::uint32_t>(half == Half::high ? value >> 32U : value);
}

// Loads one word, masked; what it is compared by was put right before.
Place load_word(Assembler& assembler, const ArgumentTest& test, Half half) {
    const std::uint32_t mask = word(test.mask, half);
    if (mask != 0xFFFFFFFFU) assembler.statement(BPF_ALU | BPF_AND | BPF_K, mask);
    return assembler.statement(BPF_LD | BPF_W | BPF_ABS, argument_offset(test.argument, half));
}

Place compare_low(Assembler& assembler, const ArgumentTest& test, Place yes, Place no) {
    const std::uint32_t value = word(test.value, Half::low);
    switch (test.compare) {
        case ArgumentTest::Compare::masked_equal:
            assembler.jump(BPF_JEQ, value, yes, no);
            break;
        case ArgumentTest::Compare::masked_not_equal:
            assembler.jump(BPF_JEQ, value, no, yes);
            break;
        case ArgumentTest::Compare::greater:
            assembler.jump(BPF_JGT, value, yes, no);
            break;
        case ArgumentTest::Compare::non_zero:
            assembler.jump(BPF_JEQ, 0, no, yes);
            break;
    }
    return load_word(assembler, test, Half::low);
}

Place compare(Assembler& assembler, const ArgumentTest& test, Place yes, Place no) {
    if (test.argument > 5) throw std::invalid_argument("a call has six arguments");
    const Place low = compare_low(assembler, test, yes, no);
    if (test.low) return low;
    const std::uint32_t value = word(test.value, Half::high);
    switch (test.compare) {
        case ArgumentTest::Compare::masked_equal:
            assembler.jump(BPF_JEQ, value, low, no);
            break;
        case ArgumentTest::Compare::masked_not_equal:
            assembler.jump(BPF_JEQ, value, low, yes);
            break;
        case ArgumentTest::Compare::greater: {
            const Place equal = assembler.jump(BPF_JEQ, value, low, no);
            assembler.jump(BPF_JGT, value, yes, equal);
            break;
        }
        case ArgumentTest::Compare::non_zero:
            assembler.jump(BPF_JEQ, 0, low, yes);
            break;
    }
    return load_word(assembler, test, Half::high);
}

// The decision list of one call: the first rule whose tests all hold.
Place decide(Assembler& assembler, std::span<const FilterRule> rules) {
    Place otherwise = assembler.returns(SECCOMP_RET_ALLOW);
    for (std::size_t i = rules.size(); i-- > 0;) {
        const FilterRule& rule = rules[i];
        Place holds = assembler.returns(return_value(rule.then));
        for (std::size_t j = rule.tests.size(); j-- > 0;)
            holds = compare(assembler, rule.tests[j], holds, otherwise);
        otherwise = holds;
    }
    return otherwise;
}

struct Group {
    std::uint32_t call = 0, last = 0;
    std::span<const FilterRule> rules;
};

Place search(Assembler& assembler, std::span<const Group> groups) {
    if (groups.empty()) return assembler.returns(SECCOMP_RET_ALLOW);
    if (groups.size() == 1) {
        const Group& group = groups[0];
        const Place decided = decide(assembler, group.rules);
        const Place other = assembler.returns(SECCOMP_RET_ALLOW);
        if (group.last == group.call) return assembler.jump(BPF_JEQ, group.call, decided, other);
        const Place within = assembler.jump(BPF_JGT, group.last, other, decided);
        return assembler.jump(BPF_JGE, group.call, within, other);
    }
    const std::size_t middle = groups.size() / 2;
    const Place above = search(assembler, groups.subspan(middle));
    const Place below = search(assembler, groups.first(middle));
    return assembler.jump(BPF_JGE, groups[middle].call, above, below);
}

std::vector<Group> by_call(std::span<const FilterRule> sorted) {
    std::vector<Group> groups;
    for (std::size_t first = 0; first < sorted.size();) {
        std::size_t last = first;
        while (last < sorted.size() && sorted[last].call == sorted[first].call) ++last;
        groups.push_back({sorted[first].call, std::max(sorted[first].call, sorted[first].last),
                          sorted.subspan(first, last - first)});
        first = last;
    }
    return groups;
}

std::uint32_t foreign_architecture() {
    return check_enabled("foreign-architecture") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
}

// Numbers that no table knows. syscall(-1) has the x32 bit but is only a call that does not exist.
Place beyond_newest(Assembler& assembler, std::uint32_t architecture) {
    const Place unknown = assembler.returns(SECCOMP_RET_ERRNO | ENOSYS);
    if (architecture != AUDIT_ARCH_X86_64) return unknown;
    const Place foreign =
        assembler.jump(BPF_JEQ, no_call, unknown, assembler.returns(foreign_architecture()));
    return assembler.jump(BPF_JSET, x32_bit, foreign, unknown);
}

}  // namespace

std::vector<sock_filter> compile(const FilterSpec& spec) {
    std::vector<FilterRule> sorted = spec.rules;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const FilterRule& a, const FilterRule& b) { return a.call < b.call; });
    Assembler assembler;
    const Place beyond = beyond_newest(assembler, spec.architecture);
    const Place known = search(assembler, by_call(sorted));
    assembler.jump(BPF_JGT, spec.newest_call, beyond, known);
    const Place native = assembler.statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    assembler.jump(BPF_JEQ, spec.architecture, native, assembler.returns(foreign_architecture()));
    assembler.statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    return assembler.finish();
}

}  // namespace callgate::agent
