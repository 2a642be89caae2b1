// The seccomp compiler: turns a list of decisions for each call into classic BPF.
//
// A call without a rule is allowed, and the kernel's bitmap then answers it without running the program. So
// nothing may test arguments of frequent calls. Foreign architectures and x32 kill the process. Other numbers
// above `newest_call`, -1 among them, answer ENOSYS.
//
// This is own code instead of libseccomp's generator, which cannot express allow-lists of arguments, tests of
// the number itself and low-word comparisons (docs/dev/kernel-facts.md 2, 40). Pure: no descriptor, no kernel
// call. An attacker controls the number and all 64 bits of every argument.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace callgate::enforce {

struct RefusedKind;  // refused_calls.hpp

/// A test of one argument, of which only the bits of `mask` count. Comparisons are unsigned. `low` compares
/// the low 32 bits only (int arguments: docs/dev/kernel-facts.md 40).
struct ArgumentTest {
    enum class Compare : std::uint8_t { masked_equal, masked_not_equal, greater, non_zero };
    std::uint8_t argument = 0;  // 0..5
    Compare compare = Compare::masked_equal;
    bool low = true;  // false: all 64 bits (pointers)
    std::uint64_t mask = ~0ULL;
    std::uint64_t value = 0;

    bool operator==(const ArgumentTest&) const = default;
};

struct Disposition {
    enum class Kind : std::uint8_t { allow, notify, refuse, kill_process };
    Kind kind = Kind::allow;
    int error = 0;  // refuse: the errno

    bool operator==(const Disposition&) const = default;
};

/// A rule for one call: `then` happens if all tests hold (no tests: always). The first rule that holds wins.
struct FilterRule {
    std::uint32_t call = 0;
    std::vector<ArgumentTest> tests;
    Disposition then;
    std::uint32_t last = 0;  // the rule is for the numbers from `call` to `last`; 0: for `call` alone
    const RefusedKind* refused = nullptr;  // a refusal that is put on record; the compiler ignores it
};

struct FilterSpec {
    std::uint32_t architecture = 0;  // AUDIT_ARCH_X86_64, ...
    std::uint32_t newest_call = 0;   // numbers above it: ENOSYS
    std::vector<FilterRule> rules;   // any order of calls, ranges apart; order within one call counts
};

/// Compiles the specification. Throws std::length_error beyond BPF_MAXINSNS (4096).
[[nodiscard]] std::vector<sock_filter> compile(const FilterSpec& spec);

/// Runs the program on one call as the kernel would, for tests and `explain`: the SECCOMP_RET_* value.
[[nodiscard]] std::uint32_t simulate(const std::vector<sock_filter>& program, std::uint32_t architecture,
                                     std::uint32_t call, const std::uint64_t (&arguments)[6]);

}  // namespace callgate::enforce
