// Texts that many records share, kept once and named by number. Memory is bounded, because an attacker may
// choose how many different texts a log holds, and how long they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace callgate::audit::report {

class Strings {
public:
    /// Holds at most `max_bytes` of texts, each counted with the overhead of its entry.
    explicit Strings(std::size_t max_bytes) : left_(max_bytes) {}

    /// The number of this text; empty if it is new and there is no room for it.
    [[nodiscard]] std::optional<std::uint32_t> add(std::string_view text);
    [[nodiscard]] const std::string& text(std::uint32_t number) const { return texts_[number]; }
    [[nodiscard]] const std::deque<std::string>& all() const { return texts_; }

private:
    std::size_t left_;
    std::deque<std::string> texts_;  // a deque: views of its elements stay valid
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Numbers the texts of one record. The record is listed only if each of them has a number.
class Numbering {
public:
    explicit Numbering(Strings& strings) : strings_(strings) {}
    /// Returns 0 if there is no room.
    [[nodiscard]] std::uint32_t operator()(std::string_view text) {
        const std::optional<std::uint32_t> number = strings_.add(text);
        room_ = room_ && number;
        return number.value_or(0);
    }
    [[nodiscard]] bool room() const { return room_; }

private:
    Strings& strings_;
    bool room_ = true;
};

}  // namespace callgate::audit::report
