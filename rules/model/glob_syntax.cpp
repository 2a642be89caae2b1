// The text of a pattern: braces, classes, quoting. Only this file reads patterns that an attacker may have
// written.
#include <algorithm>
#include <array>
#include <iterator>

#include "rules/model/glob_program.hpp"

namespace callgate::rules {

namespace {

constexpr std::size_t max_alternatives = 256;
// Bound on the bytes of all alternatives, so that a short pattern cannot ask for much memory.
constexpr std::size_t max_expanded_bytes = 131072;
constexpr int max_braces = 16;

/// The position after the class that opens at `position`, or npos if it is not closed.
std::size_t end_of_class(std::string_view pattern, std::size_t position) {
    ++position;
    if (position < pattern.size() && (pattern[position] == '!' || pattern[position] == '^')) ++position;
    for (std::size_t first = position; position < pattern.size(); ++position) {
        if (pattern[position] == ']' && position != first) return position + 1;
        if (pattern[position] == '\\') ++position;
    }
    return std::string_view::npos;
}

class BraceExpander {
public:
    explicit BraceExpander(std::string_view pattern) : pattern_(pattern) {}

    Expected<std::vector<std::string>> expand() {
        std::vector<std::string> all;
        if (!sequence(all, 0)) return Problem{std::string(problem_)};
        return all;
    }

private:
    using Texts = std::vector<std::string>;

    bool fail(std::string_view why) {
        problem_ = why;
        return false;
    }

    /// Parses up to the end, or within braces up to the ',' or '}' that ends one alternative.
    bool sequence(Texts& all, int depth) {
        all.assign(1, "");
        while (position_ < pattern_.size()) {
            const char byte = pattern_[position_];
            if (depth > 0 && (byte == ',' || byte == '}')) return true;
            if (byte == '{') {
                Texts alternatives;
                if (!group(alternatives, depth + 1) || !multiply(all, alternatives)) return false;
                continue;
            }
            const std::size_t first = position_;
            if (!skip_plain_text(depth) || !append(all, pattern_.substr(first, position_ - first)))
                return false;
        }
        return depth == 0 || fail("a `{` is not closed by `}`");
    }

    bool group(Texts& alternatives, int depth) {
        if (depth > max_braces) return fail("braces are nested deeper than 16");
        do {
            ++position_;  // '{' or ','
            const std::size_t first = position_;
            if (!skip_plain_text(depth)) return false;
            if (position_ < pattern_.size() &&
                pattern_[position_] != '{') {  // without braces of its own, as most
                if (alternatives.size() == max_alternatives) return fail(too_many);
                alternatives.emplace_back(pattern_.substr(first, position_ - first));
                continue;
            }
            position_ = first;
            Texts one;
            if (!sequence(one, depth)) return false;
            if (alternatives.size() + one.size() > max_alternatives) return fail(too_many);
            alternatives.insert(alternatives.end(), std::make_move_iterator(one.begin()),
                                std::make_move_iterator(one.end()));
        } while (pattern_[position_] == ',');
        ++position_;
        return true;
    }

    /// Goes to the next byte that is special for braces; quotes and classes stay as they are.
    bool skip_plain_text(int depth) {
        while (position_ < pattern_.size()) {
            const char byte = pattern_[position_];
            if (byte == '{' || (depth > 0 && (byte == ',' || byte == '}'))) break;
            if (byte == '[') {
                position_ = end_of_class(pattern_, position_);
                if (position_ == std::string_view::npos) return fail("a `[` is not closed by `]`");
                continue;
            }
            position_ += byte == '\\' ? 2 : 1;
            if (position_ > pattern_.size()) return fail("a backslash at the end quotes nothing");
        }
        return true;
    }

    /// Every text grows in place: a long run of "{a}" must not copy everything each time.
    bool append(Texts& all, std::string_view after) {
        std::size_t bytes = after.size() * all.size();
        for (const std::string& before : all) bytes += before.size();
        if (bytes > max_expanded_bytes) return fail(too_long);
        for (std::string& text : all) text += after;
        return true;
    }

    bool multiply(Texts& all, const Texts& alternatives) {
        if (alternatives.size() == 1) return append(all, alternatives.front());
        if (all.size() * alternatives.size() > max_alternatives) return fail(too_many);
        std::size_t bytes = 0;
        for (const std::string& before : all) bytes += before.size() * alternatives.size();
        for (const std::string& after : alternatives) bytes += after.size() * all.size();
        if (bytes > max_expanded_bytes) return fail(too_long);
        Texts product;
        product.reserve(all.size() * alternatives.size());
        for (const std::string& before : all) {
            for (const std::string& after : alternatives) {
                std::string& text = product.emplace_back();
                text.reserve(before.size() + after.size() + pattern_.size() - position_);  // for what follows
                text.append(before).append(after);
            }
        }
        all = std::move(product);
        return true;
    }

    static constexpr std::string_view too_long = "braces expand to more than 128 KiB";
    static constexpr std::string_view too_many = "braces expand to more than 256 alternatives";
    std::string_view pattern_;
    std::string_view problem_;
    std::size_t position_ = 0;
};

/// The class between `[` and `]`, without the brackets.
Expected<ByteSet> parse_class(std::string_view text, GlobKind kind) {
    const bool negated = text.starts_with('!') || text.starts_with('^');
    if (negated) text.remove_prefix(1);
    ByteSet set;
    std::size_t position = 0;
    const auto next = [&] {
        if (text[position] == '\\') ++position;
        return static_cast<unsigned char>(text[position++]);
    };
    while (position < text.size()) {
        if (text[position] == '[' && position + 1 < text.size() && text[position + 1] == ':')
            return Problem{"named classes like [:alpha:] are not known: write a-z"};
        const unsigned char first = next();
        unsigned char last = first;
        if (position + 1 < text.size() && text[position] == '-') {
            ++position;
            last = next();
        }
        if (first > last) return Problem{"a range in [...] runs backwards"};
        if (kind == GlobKind::path && (first == '/' || last == '/'))
            return Problem{"a class in a path cannot hold '/'"};
        for (unsigned byte = first; byte <= last; ++byte) set.set(byte);
    }
    if (negated) set.flip();
    if (kind == GlobKind::path) set.reset('/').reset('\0');
    if (set.none()) return Problem{"a [...] matches no byte at all"};
    return set;
}

std::string class_text(const ByteSet& set) {
    const auto byte_text = [](std::size_t byte) {
        const char text = static_cast<char>(byte);
        return std::string_view("]\\-!^[").find(text) == std::string_view::npos ? std::string(1, text)
                                                                                : std::string{'\\', text};
    };
    std::string text = "[";
    for (std::size_t first = 0; first < set.size(); ++first) {
        if (!set.test(first)) continue;
        std::size_t last = first;
        while (last + 1 < set.size() && set.test(last + 1)) ++last;
        text += byte_text(first);
        if (last > first) text += '-' + byte_text(last);
        first = last;
    }
    return text + ']';
}

void append_quoted(std::string& text, char byte) {
    if (is_wildcard(byte)) text += '\\';
    text += byte;
}

}  // namespace

Expected<std::vector<std::string>> expand_braces(std::string_view pattern) {
    if (std::none_of(pattern.begin(), pattern.end(),
                     [](char byte) { return byte == '{' || byte == '[' || byte == '\\'; }))
        return std::vector<std::string>{std::string(pattern)};
    return BraceExpander(pattern).expand();
}

Expected<GlobElements> parse_elements(std::string_view pattern, GlobKind kind) {
    using Kind = GlobElement::Kind;
    GlobElements elements;
    elements.list.reserve(pattern.size());
    for (std::size_t position = 0; position < pattern.size(); ++position) {
        const char byte = pattern[position];
        if (byte == '*') {
            const std::size_t after = std::min(pattern.find_first_not_of('*', position), pattern.size());
            elements.list.push_back({after - position > 1 ? Kind::double_star : Kind::star, 0, 0});
            position = after - 1;
        } else if (byte == '?') {
            elements.list.push_back({Kind::any, 0, 0});
        } else if (byte == '[') {
            const std::size_t after = end_of_class(pattern, position);
            const auto set = parse_class(pattern.substr(position + 1, after - position - 2), kind);
            if (!set) return set.error();
            elements.list.push_back({Kind::set, 0, static_cast<std::uint16_t>(elements.sets.size())});
            elements.sets.push_back(*set);
            position = after - 1;
        } else {
            if (byte == '\\') ++position;
            elements.list.push_back({Kind::byte, pattern[position], 0});
        }
    }
    return elements;
}

void append_pattern_text(GlobComponent elements, std::span<const ByteSet> sets, std::string& text) {
    for (const GlobElement& element : elements) {
        switch (element.kind) {
            case GlobElement::Kind::byte:
                append_quoted(text, element.byte);
                break;
            case GlobElement::Kind::any:
                text += '?';
                break;
            case GlobElement::Kind::set:
                text += class_text(sets[element.set]);
                break;
            case GlobElement::Kind::star:
                text += '*';
                break;
            case GlobElement::Kind::double_star:
                text += "**";
                break;
        }
    }
}

std::string quote_pattern(std::string_view bytes) {
    if (std::none_of(bytes.begin(), bytes.end(), is_wildcard)) return std::string(bytes);
    std::string text;
    for (const char byte : bytes) append_quoted(text, byte);
    return text;
}

}  // namespace callgate::rules
