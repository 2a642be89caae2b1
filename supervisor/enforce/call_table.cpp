#include "supervisor/enforce/call_table.hpp"

#include <algorithm>
#include <array>

#include "supervisor/enforce/call_rows.hpp"

namespace callgate::enforce {

namespace {

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
