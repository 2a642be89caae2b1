// The wildcard part of one glob branch as a small nondeterministic automaton.
//
// Private to rules/model/glob. A branch has no braces and no literal head any more. For paths the matched
// text is the part after the head: "" for the head itself, else "/" and more. The states are a bitset on the
// stack. So any text of an attacker costs at most pattern length x text length and allocates nothing.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/glob.hpp"

namespace callgate::rules {

using ByteSet = std::bitset<256>;

/// The longest pattern; this bounds the states of a program.
inline constexpr std::size_t max_pattern = 4096;

/// An element of a pattern, as it was read.
struct GlobElement {
    enum class Kind : std::uint8_t { byte, any, set, star, double_star };
    Kind kind = Kind::byte;
    char byte = 0;
    std::uint16_t set = 0;  // index into GlobElements::sets
};
struct GlobElements {
    std::vector<GlobElement> list;
    std::vector<ByteSet> sets;
};
/// A contiguous run of elements.
using GlobComponent = std::span<const GlobElement>;

[[nodiscard]] inline bool is_double_star(GlobComponent component) {
    return component.size() == 1 && component[0].kind == GlobElement::Kind::double_star;
}

/// The alternatives of a pattern, its braces multiplied out. Errors: more than 256 alternatives, too many
/// bytes, or an unclosed brace.
[[nodiscard]] Expected<std::vector<std::string>> expand_braces(std::string_view pattern);

/// The elements of a pattern without braces. In a path a class never holds '/'.
[[nodiscard]] Expected<GlobElements> parse_elements(std::string_view pattern, GlobKind kind);

/// Appends elements as pattern text, quoted if needed: equal elements give equal text.
void append_pattern_text(GlobComponent elements, std::span<const ByteSet> sets, std::string& text);

/// Whether the byte is special in a pattern.
[[nodiscard]] inline bool is_wildcard(char byte) {
    static constexpr auto table = [] {
        std::array<bool, 256> marked{};
        for (const char one : std::string_view("*?[]{}\\")) marked[static_cast<unsigned char>(one)] = true;
        return marked;
    }();
    return table[static_cast<unsigned char>(byte)];
}

/// `bytes` quoted: as a pattern the result matches only `bytes`.
[[nodiscard]] std::string quote_pattern(std::string_view bytes);

class GlobProgram {
public:
    GlobProgram() = default;
    /// A program for text: a star crosses every byte.
    static GlobProgram for_text(const GlobElements& elements);
    /// A program for the components of a path after its head. A component that is `**` alone stands for any
    /// number of components, also none.
    static GlobProgram for_components(std::span<const GlobComponent> components, std::vector<ByteSet> sets);

    [[nodiscard]] bool matches(std::string_view text) const;
    /// Whether `text`, or some text that continues it with '/', could match (true if unsure).
    [[nodiscard]] bool may_match_beneath(std::string_view text) const;
    /// Whether `text` and every text that continues it with '/' matches (false if unsure).
    [[nodiscard]] bool covers(std::string_view text) const;

private:
    enum class Kind : std::uint8_t {
        byte,
        any,               // one byte
        any_in_component,  // one byte but '/'
        set,
        star,          // bytes but '/'
        any_sequence,  // bytes
        directories,   // no bytes, or bytes that end in '/'
        tail,          // no bytes, or '/' and any bytes
        end
    };
    struct Token {
        Kind kind = Kind::end;
        char byte = 0;
        std::uint16_t set = 0;
    };
    class FewStates;
    class ManyStates;

    void add(Kind kind, char byte = 0) { tokens_.push_back({kind, byte, 0}); }
    void add(GlobComponent elements, bool path);
    void finish();
    /// Calls `look(alive)` with the states after `text`; returns false if none is alive.
    template <typename Look>
    bool run(std::string_view text, Look look) const;
    template <typename States, typename Look>
    bool run_with(std::string_view text, Look look) const;
    template <typename States>
    void step(const States& from, char byte, States& to) const;
    template <typename States>
    void enter(std::size_t index, States& states) const;

    std::vector<Token> tokens_;
    std::vector<ByteSet> sets_;
    /// Every match ends in these bytes. Most texts fail this test alone.
    std::string suffix_;
};

}  // namespace callgate::rules
