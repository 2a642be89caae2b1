#include "supervisor/enforce/seccomp/compiler.hpp"

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <stdexcept>

using namespace callgate;
using namespace callgate::enforce;

namespace {

using Compare = ArgumentTest::Compare;
using Kind = Disposition::Kind;

bool holds(const ArgumentTest& test, const std::uint64_t (&arguments)[6]) {
    const std::uint64_t kept = test.low ? 0xFFFFFFFFULL : ~0ULL;
    const std::uint64_t argument = arguments[test.argument] & test.mask & kept;
    const std::uint64_t value = test.value & kept;
    switch (test.compare) {
        case Compare::masked_equal:
            return argument == value;
        case Compare::masked_not_equal:
            return argument != value;
        case Compare::greater:
            return argument > value;
        case Compare::non_zero:
            return argument != 0;
    }
    return false;
}

std::uint32_t value_of(const Disposition& then) {
    switch (then.kind) {
        case Kind::allow:
            return SECCOMP_RET_ALLOW;
        case Kind::notify:
            return SECCOMP_RET_USER_NOTIF;
        case Kind::refuse:
            return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(then.error);
        case Kind::kill_process:
            return SECCOMP_RET_KILL_PROCESS;
    }
    return 0;
}

// The answer that the header promises, taken directly from the specification.
std::uint32_t expected(const FilterSpec& spec, std::uint32_t architecture, std::uint32_t call,
                       const std::uint64_t (&arguments)[6]) {
    if (architecture != spec.architecture) return SECCOMP_RET_KILL_PROCESS;
    if (call > spec.newest_call) {
        const bool x32 = spec.architecture == AUDIT_ARCH_X86_64 && (call & 0x40000000U) != 0;
        return x32 && call != 0xFFFFFFFFU ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | ENOSYS;
    }
    for (const FilterRule& rule : spec.rules) {
        if (call < rule.call || call > std::max(rule.call, rule.last)) continue;
        bool all = true;
        for (const ArgumentTest& test : rule.tests) all = all && holds(test, arguments);
        if (all) return value_of(rule.then);
    }
    return SECCOMP_RET_ALLOW;
}

class Dice {
public:
    explicit Dice(unsigned seed) : engine_(seed) {}
    std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
    // Few distinct values, so that equality and borders are met, with garbage in the high half now and then.
    std::uint64_t word() {
        static constexpr std::uint64_t some[] = {0, 1, 2, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
        const std::uint64_t low = some[below(8)];
        return low | (below(2) == 0 ? 0 : some[below(8)] << 32U);
    }
    ArgumentTest test() {
        ArgumentTest test;
        test.argument = static_cast<std::uint8_t>(below(6));
        test.compare = static_cast<Compare>(below(4));
        test.low = below(2) == 0;
        if (below(2) == 0) test.mask = word();
        test.value = word() & (below(4) == 0 ? ~0ULL : test.mask);
        return test;
    }
    FilterSpec spec(std::size_t rules, std::uint32_t calls) {
        FilterSpec spec;
        spec.architecture = below(4) == 0 ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64;
        spec.newest_call = calls + 3;
        for (std::size_t i = 0; i < rules; ++i) {
            FilterRule rule;
            rule.call = static_cast<std::uint32_t>(below(calls));
            const std::uint64_t tests = below(4);
            for (std::uint64_t j = 0; j < tests; ++j) rule.tests.push_back(test());
            rule.then = {static_cast<Kind>(below(4)), static_cast<int>(1 + below(130))};
            spec.rules.push_back(std::move(rule));
        }
        if (below(2) == 0) {
            spec.rules.push_back(
                {calls + 1, {}, {Kind::refuse, 77}, calls + 1 + static_cast<std::uint32_t>(below(3))});
        }
        return spec;
    }

    // Few different tests, answers and lists: many rules begin alike, and many calls are decided alike.
    FilterSpec alike(std::uint32_t calls) {
        FilterSpec spec{AUDIT_ARCH_X86_64, calls + 3, {}};
        const ArgumentTest known[] = {test(), test(), test(), test()};
        std::vector<std::vector<FilterRule>> lists(1 + below(4));
        for (auto& list : lists) {
            for (std::uint64_t i = below(9); i > 0; --i) {
                FilterRule& rule = list.emplace_back();
                for (std::uint64_t j = below(4); j > 0; --j) rule.tests.push_back(known[below(4)]);
                rule.then = {static_cast<Kind>(below(3)), static_cast<int>(1 + below(2))};
            }
        }
        for (std::uint32_t call = 0; call < calls; ++call) {
            if (below(3) == 0) continue;
            for (FilterRule rule : lists[below(lists.size())]) {
                rule.call = call;
                spec.rules.push_back(rule);
            }
        }
        return spec;
    }

private:
    std::mt19937_64 engine_;
};

void check_against_specification(Dice& dice, const FilterSpec& spec, int rounds) {
    const auto program = compile(spec);
    for (int round = 0; round < rounds; ++round) {
        const std::uint64_t arguments[6] = {dice.word(), dice.word(), dice.word(),
                                            dice.word(), dice.word(), dice.word()};
        auto call = static_cast<std::uint32_t>(dice.below(spec.newest_call + 3));
        if (dice.below(20) == 0) call |= 0x40000000U;
        if (dice.below(40) == 0) call = 0xFFFFFFFFU;
        const std::uint32_t architecture = dice.below(30) == 0 ? AUDIT_ARCH_I386 : spec.architecture;
        CAPTURE(call);
        CAPTURE(architecture);
        REQUIRE(simulate(program, architecture, call, arguments) ==
                expected(spec, architecture, call, arguments));
    }
}

constexpr std::uint64_t none[6] = {};

// The results of three calls of a child under the filter, as bits of its exit status.
int child_under(const std::vector<sock_filter>& program) {
    const pid_t child = ::fork();
    if (child == 0) {
        sock_fprog loaded{static_cast<unsigned short>(program.size()),
                          const_cast<sock_filter*>(program.data())};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(100);
        if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &loaded) != 0) ::_exit(101);
        int seen = 0;
        if (::syscall(SYS_getpriority, 0, 0) == -1 && errno == ENOTTY) seen |= 1;
        // The low word alone decides: garbage above it must not slip through.
        if (::syscall(SYS_getpgid, 0xABCD00000007UL) == -1 && errno == EXDEV) seen |= 2;
        if (::syscall(SYS_getpgid, 0L) >= 0) seen |= 4;
        if (::syscall(-1L) == -1 && errno == ENOSYS) seen |= 8;
        if (::syscall(5000L) == -1 && errno == ENOSYS) seen |= 16;
        ::_exit(seen);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#if defined(__x86_64__)
constexpr std::uint32_t native = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t native = AUDIT_ARCH_AARCH64;
#endif

}  // namespace

TEST_CASE("a compiled filter decides every call as its specification says") {
    for (unsigned seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        Dice dice(seed);
        const FilterSpec spec = dice.spec(dice.below(60), static_cast<std::uint32_t>(1 + dice.below(80)));
        check_against_specification(dice, spec, 1500);
    }
}

TEST_CASE("rules that begin alike, and calls that are decided alike, are decided as if each stood alone") {
    for (unsigned seed = 200; seed < 400; ++seed) {
        CAPTURE(seed);
        Dice dice(seed);
        check_against_specification(dice, dice.alike(static_cast<std::uint32_t>(1 + dice.below(40))), 1500);
    }
}

TEST_CASE("a range of calls over another is no specification") {
    const FilterSpec spec{native, 10, {{1, {}, {Kind::notify, 0}, 5}, {3, {}, {Kind::notify, 0}}}};
    CHECK_THROWS_AS(static_cast<void>(compile(spec)), std::invalid_argument);
}

TEST_CASE("a filter with jumps longer than 255 instructions still decides as specified") {
    for (unsigned seed = 100; seed < 108; ++seed) {
        CAPTURE(seed);
        Dice dice(seed);
        const FilterSpec spec = dice.spec(350, 300);
        CHECK(compile(spec).size() > 1000);
        check_against_specification(dice, spec, 8000);
    }
}

TEST_CASE("one call with a very long decision list is decided by its first rule that holds") {
    FilterSpec spec{native, 400, {}};
    for (std::uint64_t i = 0; i < 900; ++i)
        spec.rules.push_back(
            {7, {{.argument = 2, .value = i}}, {Kind::refuse, static_cast<int>(i % 100 + 1)}});
    spec.rules.push_back({7, {}, {Kind::notify, 0}});
    const auto program = compile(spec);
    for (std::uint64_t i = 0; i < 900; ++i) {
        const std::uint64_t arguments[6] = {9, 9, i | 0xFF00000000ULL, 9, 9, 9};
        REQUIRE(simulate(program, native, 7, arguments) == (SECCOMP_RET_ERRNO | (i % 100 + 1)));
    }
    const std::uint64_t other[6] = {0, 0, 900, 0, 0, 0};
    CHECK(simulate(program, native, 7, other) == SECCOMP_RET_USER_NOTIF);
    CHECK(simulate(program, native, 8, other) == SECCOMP_RET_ALLOW);
}

TEST_CASE(
    "no argument is loaded for calls that no rule tests by argument, so that the kernel's bitmap holds "
    "them") {
    Dice dice(7);
    FilterSpec spec = dice.spec(80, 200);
    spec.rules.push_back({300, {}, {Kind::refuse, EPERM}});
    spec.newest_call = 400;
    auto program = compile(spec);
    constexpr std::uint32_t looked = SECCOMP_RET_ERRNO | 4000;
    for (sock_filter& instruction : program) {
        if (BPF_CLASS(instruction.code) == BPF_LD && instruction.k >= 16)
            instruction = BPF_STMT(BPF_RET | BPF_K, looked);
    }
    for (std::uint32_t call = 0; call <= 400; ++call) {
        bool tested = false;
        for (const FilterRule& rule : spec.rules)
            tested = tested || (rule.call == call && !rule.tests.empty());
        if (!tested) CHECK(simulate(program, spec.architecture, call, none) != looked);
    }
}

TEST_CASE("foreign architectures and x32 numbers kill, other unknown numbers do not exist") {
    const auto program = compile({AUDIT_ARCH_X86_64, 470, {}});
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 0, none) == SECCOMP_RET_ALLOW);
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 470, none) == SECCOMP_RET_ALLOW);
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 471, none) == (SECCOMP_RET_ERRNO | ENOSYS));
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 0x40000000U, none) == SECCOMP_RET_KILL_PROCESS);
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 0x40000209U, none) == SECCOMP_RET_KILL_PROCESS);
    CHECK(simulate(program, AUDIT_ARCH_X86_64, 0xFFFFFFFFU, none) == (SECCOMP_RET_ERRNO | ENOSYS));
    CHECK(simulate(program, AUDIT_ARCH_I386, 0, none) == SECCOMP_RET_KILL_PROCESS);
}

TEST_CASE("a program longer than the kernel takes is refused when it is compiled") {
    FilterSpec spec{native, 10, {}};
    for (std::uint64_t i = 0; i < 5000; ++i) spec.rules.push_back({1, {{.value = i}}, {Kind::notify, 0}});
    CHECK_THROWS_AS(static_cast<void>(compile(spec)), std::length_error);
}

TEST_CASE("the kernel loads a compiled filter and obeys it, garbage in high halves included") {
    FilterSpec spec{native, 1000, {}};
    spec.rules.push_back({SYS_getpriority, {}, {Kind::refuse, ENOTTY}});
    spec.rules.push_back({SYS_getpgid, {{.argument = 0, .value = 7}}, {Kind::refuse, EXDEV}});
    CHECK(child_under(compile(spec)) == 31);
    // Control: the same calls are allowed without those rules.
    spec.rules.clear();
    CHECK((child_under(compile(spec)) & 7) == 4);
}

TEST_CASE("the kernel loads a filter of nearly four thousand instructions") {
    Dice dice(11);
    FilterSpec spec{native, 1000, {}};
    spec.rules.push_back({SYS_getpriority, {}, {Kind::refuse, ENOTTY}});
    spec.rules.push_back({SYS_getpgid, {{.argument = 0, .value = 7}}, {Kind::refuse, EXDEV}});
    for (std::uint32_t call = 600; compile(spec).size() < 3900; ++call)
        spec.rules.push_back({call, {dice.test(), dice.test()}, {Kind::refuse, EPERM}});
    CHECK(child_under(compile(spec)) == 31);
}
