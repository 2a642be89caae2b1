#include "supervisor/enforce/call_table.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <array>

#include "supervisor/enforce/call_rows.hpp"

namespace callgate::enforce {

namespace {

constexpr NumberRange unassigned_x86_64[] = {{337, 423}};
constexpr NumberRange unassigned_aarch64[] = {{244, 259}, {295, 423}};

// The table belongs to this architecture and is sorted as the search expects.
static_assert(call_number("openat") == SYS_openat && call_number("execve") == SYS_execve &&
              call_number("accept") == SYS_accept && call_number("writev") == SYS_writev &&
              call_number("openat2") == SYS_openat2 && call_number("fchmodat2") == 452 &&
              call_number("") == no_number && call_number("zzz") == no_number);

/// The entries with their numbers on this architecture.
constexpr auto table = [] {
    auto numbered = call_rows;
    for (CallEntry& entry : numbered) entry.number = call_number(entry.name);
    return numbered;
}();

/// For each number, the index of its entry plus one; 0: no entry.
constexpr auto by_number = [] {
    static_assert(table.size() < 256);
    std::array<std::uint8_t, newest_call + 1> places{};
    for (std::size_t place = 0; place < table.size(); ++place)
        if (table[place].number < places.size())
            places[table[place].number] = static_cast<std::uint8_t>(place + 1);
    return places;
}();

}  // namespace

std::string call_name(std::uint32_t number, Architecture on) {
    const KnownCalls known = KnownCalls::of(on);
    const auto found = std::ranges::find(known.calls, number, &KnownCall::number);
    return found == known.calls.end() ? "" : std::string(known.name(*found));
}

std::span<const NumberRange> unassigned_numbers(Architecture on) {
    if (on == Architecture::x86_64) return unassigned_x86_64;
    return unassigned_aarch64;
}

std::span<const CallEntry> call_table() { return table; }

const CallEntry* find_call(std::uint32_t number) {
    if (number >= by_number.size() || by_number[number] == 0) return nullptr;
    return &table[by_number[number] - 1U];
}

const CallEntry* find_call(std::string_view name) {
    const auto* const found =
        std::ranges::find_if(table, [name](const CallEntry& entry) { return entry.name == name; });
    return found == table.end() ? nullptr : found;
}

}  // namespace callgate::enforce
