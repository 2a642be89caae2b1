// The one table of mediated system calls: name, operations, arguments, and when the filter notifies.
// call_classes.hpp says what happens to all other calls. The names and numbers of all calls stand here too.
//
// The table drives the filter (filter_spec), the dispatch of notifications (receive/dispatch), the names in
// the log and docs/system-calls.md. A new call is one row here and one function (docs/dev/adding-a-call.md).
// An attacker controls the arguments in the registers, never this table.
//
// libseccomp knows the numbers of most calls; newer_calls.hpp has the rest. Both become one table when
// callgate is built (cmake/embed_calls.cpp), so that numbers are constants.
#pragma once

#include <array>
#include <call_numbers.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rules/model/operation.hpp"
#include "supervisor/enforce/newer_calls.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

enum class Architecture : std::uint8_t { x86_64, aarch64 };

#if defined(__x86_64__)
inline constexpr Architecture native_architecture = Architecture::x86_64;
#elif defined(__aarch64__)
inline constexpr Architecture native_architecture = Architecture::aarch64;
#else
#error "callgate runs on x86_64 and aarch64"
#endif

/// Stands for the missing number of a call that this architecture lacks.
inline constexpr std::uint32_t no_number = 0xffffffff;

/// Private: all calls of one architecture.
struct KnownCalls {
    std::span<const KnownCall> calls;
    const char* names;

    [[nodiscard]] static constexpr KnownCalls of(Architecture architecture) {
        if (architecture == Architecture::x86_64) return {calls_x86_64, names_x86_64};
        return {calls_aarch64, names_aarch64};
    }
    [[nodiscard]] constexpr std::string_view name(const KnownCall& call) const {
        return {names + call.begin, call.length};
    }
};

/// The number of a call, or `no_number` for an unknown call or one of another architecture.
[[nodiscard]] constexpr std::uint32_t call_number(std::string_view name,
                                                  Architecture on = native_architecture) {
    const KnownCalls known = KnownCalls::of(on);
    std::size_t first = 0, last = known.calls.size();
    while (first < last) {
        const std::size_t middle = first + (last - first) / 2;
        const int order = name.compare(known.name(known.calls[middle]));
        if (order == 0) return known.calls[middle].number;
        if (order < 0)
            last = middle;
        else
            first = middle + 1;
    }
    return no_number;
}

/// The name of a number; empty if unknown.
[[nodiscard]] std::string call_name(std::uint32_t number, Architecture on = native_architecture);

/// Numbers from `first` to `last` that belong to no call. A kernel that assigns one of them is newer than
/// this table.
struct NumberRange {
    std::uint32_t first, last;
};
[[nodiscard]] std::span<const NumberRange> unassigned_numbers(Architecture on = native_architecture);

/// The position of a path among the arguments; -1 means absent (`directory`: relative to the working
/// directory).
struct PathArgument {
    std::int8_t directory = -1;
    std::int8_t path = -1;
};

/// How the filter can see a call's open flags.
enum class OpenFlags : std::uint8_t {
    none,        // not an open
    argument,    // in the register `flags`
    write_only,  // creat
    in_memory,   // openat2: the filter sees nothing
};

/// The kind of object that a call acts on.
enum class Scope : std::uint8_t {
    object,      // objects of rules
    process,     // processes other than the caller itself, by number
    ipc_object,  // objects that the whole user shares (System V, message queues)
};

/// On which plans the filter notifies the supervisor of a call.
enum class NotifyWhen : std::uint8_t {
    contested,             // one of its operations is contested
    contested_truncation,  // the same, or Landlock does not hold truncation (before ABI 3)
    contested_datagrams,   // connect is contested, and datagram sockets can be made
    contested_messages,    // the same, and Landlock does not hold messages
    signals_not_held,      // Landlock has no scope for signals (before ABI 6), or the rules know parties
    run_servers,           // a rule is about servers of the run's own
    always,
    by_socket_kind,  // the filter's list of socket families and types says it
};

/// The arguments with which a call is notified. Each alternative is up to two tests that must all hold.
struct NotifyArguments {
    enum class Mode : std::uint8_t {
        all,     // any arguments
        only,    // if an alternative holds
        except,  // if no alternative holds
    };
    static constexpr std::size_t max_alternatives = 2, max_tests = 2;
    struct Alternative {
        std::array<ArgumentTest, max_tests> tests{};
        std::uint8_t count = 0;
    };
    Mode mode = Mode::all;
    std::array<Alternative, max_alternatives> alternatives{};
    std::uint8_t count = 0;
};

/// The side that performs an allowed call.
enum class Performed : std::uint8_t {
    on_behalf,  // always the supervisor, on the very object that was decided
    either,     // the kernel where Landlock and the filter alone permit all that it could then do, else on
                // behalf
    by_kernel,  // the kernel: only scalars decide, or callgate decides on the result again
};

struct CallEntry {
    std::string_view name;
    /// The operations that it may stand for.
    rules::OperationSet operations;
    Performed performed;
    PathArgument first;
    PathArgument second;
    std::int8_t flags = -1;
    std::int8_t mode = -1;
    OpenFlags open = OpenFlags::none;
    Scope scope = Scope::object;
    NotifyWhen when = NotifyWhen::contested;
    NotifyArguments arguments{};
    /// The number on this architecture, or `no_number`.
    std::uint32_t number = no_number;
};

[[nodiscard]] std::span<const CallEntry> call_table();

/// The entry of a number or name, or null.
[[nodiscard]] const CallEntry* find_call(std::uint32_t number);
[[nodiscard]] const CallEntry* find_call(std::string_view name);

}  // namespace callgate::enforce
