// Globs of rule sets: on bytes, anchored at both ends.
//
// - `*` and `?` stay within one path component. `[a-z]` and `[!a-z]` are classes, `{a,b}` alternatives (may
//   nest).
// - `**` crosses components. A trailing `/**` also matches the directory itself ("/usr/**" matches "/usr").
// - `\` quotes the next byte.
//
// Braces are first multiplied out, as text. In a path, repeated slashes count as one and a final one does not
// count. A component that is `**` alone stands for any number of components (also none), and a leading `**`
// begins at the root. No wildcard stands for an empty component: "/*" does not match "/".
//
// An attacker controls the text that is matched (up to 64 KiB). Matching is bounded by pattern length × text
// length, never exponential. It does not allocate once the glob is prepared.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.hpp"

namespace callgate::rules {

/// The use of a pattern: in a `path` a star stops at '/', in `text` (argv, abstract names) it does not.
enum class GlobKind { path, text };

class Glob {
public:
    /// Compiles a pattern. Errors: an unclosed class or brace, more than 256 alternatives, a trailing
    /// backslash.
    static Expected<Glob> compile(std::string_view pattern, GlobKind kind);
    /// A glob that matches exactly `path`, even if it holds wildcard bytes.
    static Glob literal(std::string_view path);
    /// A glob that matches `directory` and everything beneath it.
    static Glob beneath(std::string_view directory);

    [[nodiscard]] bool matches(std::string_view text) const;
    /// Prepares the matcher; otherwise the first match does. Any thread, more than once.
    void prepare() const;

    /// The pattern as it was written, after variables. For `literal` and `beneath`, wildcard bytes are
    /// quoted.
    [[nodiscard]] const std::string& text() const;
    [[nodiscard]] GlobKind kind() const;
    /// False if no resolved path can match, because of a component "." or "..".
    [[nodiscard]] bool can_match() const;

    /// An alternative without braces.
    struct Branch {
        /// The longest literal directory or file that every match equals or lies beneath, "/" at least. For a
        /// text pattern: the whole text if it is literal, else "".
        std::string head;
        /// True if `head` is the whole branch: one literal path.
        bool literal = false;
        /// True if the rest is exactly "/**": the branch is a whole hierarchy.
        bool hierarchy = false;
        /// The text after `head` ("", "/**", "/**/.env", "/*.txt"): the rename check compares these
        /// remainders.
        std::string remainder;
    };
    [[nodiscard]] const std::vector<Branch>& branches() const;
    /// Whether the branch with this index matches a text that begins with its head, for callers that found
    /// the head. `rest` is the text after the head: "" for a path that equals the head, else it begins with
    /// the '/'.
    [[nodiscard]] bool remainder_matches(std::size_t branch, std::string_view rest) const;

    /// Whether some path at or beneath `directory` could match (conservative: true if unsure).
    [[nodiscard]] bool may_match_beneath(std::string_view directory) const;
    /// Whether every path at or beneath `directory` matches.
    [[nodiscard]] bool covers_hierarchy(std::string_view directory) const;

    bool operator==(const Glob& other) const { return text() == other.text(); }

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace callgate::rules
