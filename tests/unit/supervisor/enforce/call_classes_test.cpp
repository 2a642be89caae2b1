#include "supervisor/enforce/call_classes.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string>

#include "supervisor/enforce/call_table.hpp"
#include "supervisor/enforce/filter_spec.hpp"

using namespace callgate;
using namespace callgate::enforce;
using rules::Operation;

namespace {

constexpr Architecture architectures[] = {Architecture::x86_64, Architecture::aarch64};
constexpr std::uint32_t native =
    native_architecture == Architecture::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;

bool unassigned(std::uint32_t number, Architecture on) {
    return std::ranges::any_of(unassigned_numbers(on), [number](const NumberRange& range) {
        return number >= range.first && number <= range.last;
    });
}

bool exists_somewhere(std::string_view name) {
    return std::ranges::any_of(architectures,
                               [name](Architecture on) { return call_number(name, on) != no_number; });
}

/// Everything contested on the oldest kernel, or nothing on the newest.
rules::Plan hard_plan() {
    rules::Plan plan;
    plan.landlock_abi = 1;
    plan.notified = rules::file_operations | rules::network_operations;
    plan.udp = plan.unix_datagram = plan.run_servers = true;
    return plan;
}
rules::Plan easy_plan() {
    rules::Plan plan;
    plan.landlock_abi = 7;
    plan.truncation_held = plan.signals_held = true;
    return plan;
}

constexpr std::uint64_t samples[][6] = {
    {0, 0, 0, 0, 0, 0},
    {1, 1, 1, 1, 1, 1},
    {3, FS_IOC_SETFLAGS, 1, 1, 1, 1},
    {3, TIOCGPTPEER, 1, 1, 1, 1},
    {3, F_SETOWN, 1, 1, 1, 1},
    {3, SOL_SOCKET, SO_REUSEPORT, 1, 1, 1},
    {RLIMIT_CORE, 1, 1, 1, 1, 1},
    {PTRACE_ATTACH, 1, 1, 1, 1, 1},
    {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL},
    {0xdeadbeef00000000, 0x7fff12345678, 0x1000, 0xffffffff, 0x80000000, 42},
};

using Program = std::vector<sock_filter>;
using Answers = std::set<std::uint32_t>;
Answers errno_answer(int error) { return {SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)}; }

/// The filter's answers for the samples of arguments.
Answers answers(const Program& program, std::uint32_t number) {
    Answers seen;
    for (const auto& arguments : samples) seen.insert(enforce::simulate(program, native, number, arguments));
    return seen;
}

/// Some arguments that meet all tests of a refusal.
std::array<std::uint64_t, 6> arguments_of(const Refusal& refusal) {
    std::array<std::uint64_t, 6> arguments{};
    for (std::size_t index = 0; index < refusal.test_count; ++index) {
        const enforce::ArgumentTest& test = refusal.tests[index];
        using Compare = enforce::ArgumentTest::Compare;
        if (test.compare == Compare::non_zero) arguments[test.argument] = 1;
        if (test.compare == Compare::masked_equal) arguments[test.argument] |= test.value;
        // Sets a single bit of the mask: all bits would be -1.
        if (test.compare == Compare::masked_not_equal && test.value == 0) {
            arguments[test.argument] |= test.mask & (~test.mask + 1);
        }
    }
    return arguments;
}

}  // namespace

TEST_CASE("every number from 0 to the newest is in a class, on both architectures") {
    for (const Architecture on : architectures) {
        for (std::uint32_t number = 0; number <= newest_call; ++number) {
            const std::string name = call_name(number, on);
            CAPTURE(number);
            CAPTURE(name);
            CHECK(name.empty() == unassigned(number, on));
            if (name.empty()) continue;
            CHECK(call_number(name, on) == number);
            CHECK(classify(name).has_value());
        }
    }
}

TEST_CASE("no call is in two classes, and each exists somewhere") {
    std::map<std::string, int, std::less<>> seen;
    for (const CallEntry& entry : call_table()) ++seen[std::string(entry.name)];
    for (const CallGroup& group : call_groups()) {
        CHECK(group.held != CallClass::mediated);
        CHECK_MESSAGE((group.held == CallClass::closed) == (group.error != 0), group.calls);
        CHECK_MESSAGE((group.held == CallClass::arguments) == group.reason.empty(), group.calls);
        for_each_call(group, [&seen](std::string_view call) { ++seen[std::string(call)]; });
    }
    for (const auto& [known, count] : seen) {
        const std::string& name = known;
        const int times = count;
        CHECK_MESSAGE(times == 1, name);
        CHECK_MESSAGE(exists_somewhere(name), name);
        CHECK(classify(name).has_value());
    }
    CHECK_FALSE(classify("no_such_call").has_value());
}

TEST_CASE("the table's numbers are those of this machine") {
    for (const CallEntry& entry : call_table()) {
        CHECK(entry.number == call_number(entry.name));
        CHECK(find_call(entry.name) == &entry);
        CHECK((entry.number == no_number || find_call(entry.number) == &entry));
    }
    CHECK(find_call(no_number) == nullptr);
}

TEST_CASE("the filter does to each class what its name says") {
    const Program easy_program = enforce::compile(filter_spec(easy_plan()));
    const Program hard_program = enforce::compile(filter_spec(hard_plan()));
    for (const CallGroup& group : call_groups()) {
        for_each_call(group, [&](std::string_view call) {
            const std::uint32_t number = call_number(call);
            if (number == no_number) return;
            CAPTURE(std::string(call));
            const Answers easy = answers(easy_program, number);
            const Answers hard = answers(hard_program, number);
            switch (group.held) {
                case CallClass::closed:
                    CHECK(easy == errno_answer(group.error));
                    CHECK(hard == errno_answer(group.error));
                    break;
                case CallClass::harmless:
                    CHECK(easy == Answers{SECCOMP_RET_ALLOW});
                    CHECK(hard == Answers{SECCOMP_RET_ALLOW});
                    break;
                case CallClass::landlock:  // on an older kernel it may be refused
                    CHECK(easy == Answers{SECCOMP_RET_ALLOW});
                    break;
                case CallClass::arguments:
                case CallClass::mediated:
                    break;
            }
        });
    }
}

TEST_CASE("numbers that no call has are refused") {
    const auto program = enforce::compile(filter_spec(easy_plan()));
    const std::uint64_t none[6] = {};
    for (std::uint32_t number = 0; number <= newest_call; ++number) {
        const bool refused = enforce::simulate(program, native, number, none) == (SECCOMP_RET_ERRNO | ENOSYS);
        if (unassigned(number, native_architecture)) CHECK_MESSAGE(refused, number);
    }
    CHECK(enforce::simulate(program, native, newest_call + 1, none) == (SECCOMP_RET_ERRNO | ENOSYS));
}

TEST_CASE(
    "each mediated call is notified where everything is contested, and costs nothing where nothing is") {
    const auto hard = enforce::compile(filter_spec(hard_plan()));
    const auto easy = enforce::compile(filter_spec(easy_plan()));
    for (const CallEntry& entry : call_table()) {
        if (entry.number == no_number) continue;
        CAPTURE(std::string(entry.name));
        bool notified = false;
        for (const auto& arguments : samples) {
            notified = notified ||
                       enforce::simulate(hard, native, entry.number, arguments) == SECCOMP_RET_USER_NOTIF;
        }
        // It is notified by family and type, if UDP sockets come from the supervisor.
        if (entry.when == enforce::NotifyWhen::by_socket_kind) continue;
        CHECK(notified);
        if (entry.scope == Scope::ipc_object)
            continue;  // only notification separates them from the user's other objects
        if (entry.scope == Scope::object && entry.when == NotifyWhen::always)
            continue;  // it may name a link, which Landlock never lets a run do
        if (entry.scope == Scope::process && entry.arguments.mode == enforce::NotifyArguments::Mode::all &&
            entry.when == NotifyWhen::always)
            continue;  // no filter knows the caller's own number
        const std::uint64_t oneself[6] = {entry.name == "ioprio_set" ? 1U : 0U, 0, 0, 0, 0, 0};
        CHECK(enforce::simulate(easy, native, entry.number, oneself) == SECCOMP_RET_ALLOW);
    }
}

TEST_CASE("each refusal refuses its arguments and leaves others of the same call") {
    rules::Plan plan = hard_plan();
    plan.parties = true;
    const auto program = enforce::compile(filter_spec(plan));
    std::set<std::string_view> with_refusals;
    for (const Refusal& refusal : refusals()) {
        with_refusals.insert(refusal.call);
        CAPTURE(std::string(refusal.call));
        CAPTURE(std::string(refusal.what));
        const auto found = classify(refusal.call);
        REQUIRE(found.has_value());
        CHECK((found->held == CallClass::arguments || found->held == CallClass::mediated ||
               (found->held == CallClass::landlock &&
                (refusal.when == When::signals_not_held || refusal.when == When::parties))));
        const std::uint32_t number = call_number(refusal.call);
        if (number == no_number) continue;
        const auto chosen = arguments_of(refusal);
        std::uint64_t arguments[6];
        std::ranges::copy(chosen, arguments);
        CHECK(Answers{enforce::simulate(program, native, number, arguments)} == errno_answer(refusal.error));
        for (std::size_t index = 0; index < refusal.test_count; ++index) {
            arguments[refusal.tests[index].argument] |= 0xdeadbeef00000000;  // which the kernel ignores
        }
        CHECK(Answers{enforce::simulate(program, native, number, arguments)} == errno_answer(refusal.error));
        if (refusal.test_count == 0) continue;
        const std::uint64_t none[6] = {};
        CHECK(Answers{enforce::simulate(program, native, number, none)} != errno_answer(refusal.error));
    }
    for (const CallGroup& group : call_groups()) {
        if (group.held != CallClass::arguments) continue;
        for_each_call(group, [&](std::string_view call) {
            const bool listed = with_refusals.contains(call) || call.starts_with("socket");
            CHECK_MESSAGE(listed, call);
        });
    }
}
