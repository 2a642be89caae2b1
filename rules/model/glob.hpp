// Globs of rule sets: on bytes, anchored at both ends.
//
// `*` and `?` stay within one path component, `[a-z]` `[!a-z]` classes, `{a,b}` alternatives (may nest),
// `**` crosses components; a trailing `/**` also matches the directory itself ("/usr/**" matches "/usr").
// `\` quotes the next byte. Braces are multiplied out first, as text; in a path, repeated slashes count as
// one, a final one does not count, a component that is `**` alone stands for any number of components (also
// none), and a leading `**` begins at the root. No wildcard stands for an empty component: "/*" does not
// match "/". An attacker controls the text that is matched (up to 64 KiB): matching is bounded by pattern
// length × text length, never exponential, and does not allocate once the glob is prepared.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::rules {

/// What a pattern is made for: in a `path` a star stops at '/', in `text` (argv, abstract names) it does not.
enum class GlobKind { path, text };

class Glob {
public:
    /// Compiles a pattern. On a syntax error (unclosed class or brace, more than 256 alternatives, trailing
    /// backslash) returns nothing and says why in `error`.
    static std::optional<Glob> compile(std::string_view pattern, GlobKind kind, std::string& error);
    /// A glob that matches exactly `path`, whatever bytes it holds.
    static Glob literal(std::string_view path);
    /// A glob that matches `directory` and everything beneath it.
    static Glob beneath(std::string_view directory);

    [[nodiscard]] bool matches(std::string_view text) const;
    /// Makes what matching needs; else the first match does. Any thread, more than once.
    void prepare() const;

    /// The pattern as it was written (after variables); of `literal` and `beneath` with wildcard bytes
    /// quoted.
    [[nodiscard]] const std::string& text() const;
    [[nodiscard]] GlobKind kind() const;
    /// False where no resolved path can match, because of a component "." or "..".
    [[nodiscard]] bool can_match() const;

    /// One alternative without braces.
    struct Branch {
        /// The longest literal directory or file that every match equals or lies beneath: "/" at least. Of a
        /// text: the whole text where it is literal, else nothing.
        std::string head;
        /// What follows `head` is nothing: the branch is one literal path.
        bool literal = false;
        /// What follows `head` is exactly "/**": the branch is a whole hierarchy.
        bool hierarchy = false;
        /// The text after `head` ("" , "/**", "/**/.env", "/*.txt"): the remainder that moves are compared by.
        std::string remainder;
    };
    [[nodiscard]] const std::vector<Branch>& branches() const;
    /// Whether the branch with this index matches a text that begins with its head, where `rest` is what
    /// follows (of a path that equals the head: nothing; beneath it: from the '/' on). For those who found
    /// the head.
    [[nodiscard]] bool remainder_matches(std::size_t branch, std::string_view rest) const;

    /// Whether some path at or beneath `directory` could match (conservative: true where unsure).
    [[nodiscard]] bool may_match_beneath(std::string_view directory) const;
    /// Whether every path at or beneath `directory` matches.
    [[nodiscard]] bool covers_hierarchy(std::string_view directory) const;

    bool operator==(const Glob& other) const { return text() == other.text(); }

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace callgate::rules
