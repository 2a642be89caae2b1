#include "rules/model/glob_program.hpp"

#include <array>
#include <bit>
#include <type_traits>
#include <utility>

namespace callgate::rules {

namespace {
constexpr std::size_t word_bits = 64;
// A leading '/' may be added to a pattern, and `**` between components makes up to three tokens of four
// bytes.
constexpr std::size_t max_states = max_pattern + word_bits;
}  // namespace

/// The states that are alive: in state i, the tokens from i on remain to be matched. One word holds the
/// states of nearly every pattern.
class GlobProgram::FewStates {
public:
    explicit FewStates(std::size_t /*tokens*/) {}
    void clear() { bits_ = 0; }
    void set(std::size_t index) { bits_ |= std::uint64_t{1} << index; }
    [[nodiscard]] bool test(std::size_t index) const { return (bits_ >> index & 1) != 0; }
    [[nodiscard]] bool any() const { return bits_ != 0; }
    template <typename Visit>
    void each(Visit visit) const {
        for (std::uint64_t rest = bits_; rest != 0; rest &= rest - 1) {
            visit(static_cast<std::size_t>(std::countr_zero(rest)));
        }
    }

private:
    std::uint64_t bits_ = 0;
};

/// The same with room for the states of the longest pattern.
class GlobProgram::ManyStates {
public:
    explicit ManyStates(std::size_t tokens) : words_(tokens / word_bits + 1) { clear(); }
    void clear() {
        for (std::size_t word = 0; word < words_; ++word) bits_[word] = 0;
    }
    void set(std::size_t index) { bits_[index / word_bits] |= std::uint64_t{1} << index % word_bits; }
    [[nodiscard]] bool test(std::size_t index) const {
        return (bits_[index / word_bits] >> index % word_bits & 1) != 0;
    }
    [[nodiscard]] bool any() const {
        for (std::size_t word = 0; word < words_; ++word) {
            if (bits_[word] != 0) return true;
        }
        return false;
    }
    template <typename Visit>
    void each(Visit visit) const {
        for (std::size_t word = 0; word < words_; ++word) {
            for (std::uint64_t rest = bits_[word]; rest != 0; rest &= rest - 1) {
                visit(word * word_bits + static_cast<std::size_t>(std::countr_zero(rest)));
            }
        }
    }

private:
    std::size_t words_;
    std::array<std::uint64_t, max_states / word_bits + 1> bits_;  // only the first `words_` are used
};

GlobProgram GlobProgram::for_text(const GlobElements& elements) {
    GlobProgram program;
    program.sets_ = elements.sets;
    program.add(elements.list, false);
    program.finish();
    return program;
}

GlobProgram GlobProgram::for_components(std::span<const GlobComponent> components,
                                        std::vector<ByteSet> sets) {
    GlobProgram program;
    program.sets_ = std::move(sets);
    std::size_t most = 3;
    for (const GlobComponent component : components) most += component.size() + 2;
    program.tokens_.reserve(most);
    bool after_double_star = false;
    for (const GlobComponent component : components) {
        if (is_double_star(component)) {
            after_double_star = true;  // several in a row count as one
            continue;
        }
        program.add(Kind::byte, '/');
        if (after_double_star) program.add(Kind::directories);
        program.add(component, true);
        after_double_star = false;
    }
    if (after_double_star) {
        program.add(Kind::tail);
        program.add(Kind::any_sequence);
    }
    program.finish();
    return program;
}

void GlobProgram::add(GlobComponent elements, bool path) {
    for (const GlobElement& element : elements) {
        switch (element.kind) {
            case GlobElement::Kind::byte:
                add(Kind::byte, element.byte);
                break;
            case GlobElement::Kind::any:
                add(path ? Kind::any_in_component : Kind::any);
                break;
            case GlobElement::Kind::star:
                add(path ? Kind::star : Kind::any_sequence);
                break;
            case GlobElement::Kind::double_star:
                add(Kind::any_sequence);
                break;
            case GlobElement::Kind::set:
                tokens_.push_back({Kind::set, 0, element.set});
                break;
        }
    }
}

void GlobProgram::finish() {
    std::size_t first = tokens_.size();
    while (first > 0 && tokens_[first - 1].kind == Kind::byte) --first;
    for (std::size_t index = first; index < tokens_.size(); ++index) suffix_ += tokens_[index].byte;
    add(Kind::end);
}

/// Makes a state alive, and the states that it reaches without a byte.
template <typename States>
void GlobProgram::enter(std::size_t index, States& states) const {
    while (true) {
        states.set(index);
        switch (tokens_[index].kind) {
            case Kind::star:
            case Kind::any_sequence:
            case Kind::directories:
                ++index;
                break;
            case Kind::tail:
                index = tokens_.size() - 1;
                break;
            default:
                return;
        }
    }
}

template <typename States>
void GlobProgram::step(const States& from, char byte, States& to) const {
    to.clear();
    from.each([&](std::size_t index) {
        const Token& token = tokens_[index];
        switch (token.kind) {
            case Kind::byte:
                if (byte == token.byte) enter(index + 1, to);
                break;
            case Kind::any:
                enter(index + 1, to);
                break;
            case Kind::any_in_component:
                if (byte != '/') enter(index + 1, to);
                break;
            case Kind::set:
                if (sets_[token.set].test(static_cast<unsigned char>(byte))) enter(index + 1, to);
                break;
            case Kind::star:
                if (byte != '/') enter(index, to);
                break;
            case Kind::any_sequence:
                enter(index, to);
                break;
            case Kind::directories:
                to.set(index);  // not `enter`: the next token begins only after a '/'
                if (byte == '/') enter(index + 1, to);
                break;
            case Kind::tail:
                if (byte == '/') enter(index + 1, to);
                break;
            case Kind::end:
                break;
        }
    });
}

template <typename States, typename Look>
bool GlobProgram::run_with(std::string_view text, Look look) const {
    States one(tokens_.size());
    States other(tokens_.size());
    States* now = &one;
    States* next = &other;
    enter(0, *now);
    for (const char byte : text) {
        step(*now, byte, *next);
        if (!next->any()) return false;
        std::swap(now, next);
    }
    return look(std::as_const(*now));
}

template <typename Look>
bool GlobProgram::run(std::string_view text, Look look) const {
    if (tokens_.size() <= word_bits) return run_with<FewStates>(text, look);
    return run_with<ManyStates>(text, look);
}

bool GlobProgram::matches(std::string_view text) const {
    return text.ends_with(suffix_) &&
           run(text, [this](const auto& alive) { return alive.test(tokens_.size() - 1); });
}

bool GlobProgram::may_match_beneath(std::string_view text) const {
    return run(text, [this](const auto& alive) {
        if (alive.test(tokens_.size() - 1)) return true;
        std::decay_t<decltype(alive)> next(tokens_.size());
        step(alive, '/', next);
        return next.any();
    });
}

bool GlobProgram::covers(std::string_view text) const {
    return run(text, [this](const auto& alive) {
        const std::size_t end = tokens_.size() - 1;
        const auto lives = [&](std::size_t back, Kind kind) {
            return end >= back && tokens_[end - back].kind == kind && alive.test(end - back);
        };
        if (!alive.test(end)) return false;
        if (lives(1, Kind::any_sequence) || lives(2, Kind::tail)) return true;
        // For "/**/*" the star matches the last component of any continuation.
        return lives(2, Kind::directories) && tokens_[end - 1].kind == Kind::star;
    });
}

}  // namespace callgate::rules
