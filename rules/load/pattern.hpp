// Patterns as rule files write them: variables are expanded, and the canonical name stands beside the written
// one.
//
// A variable's value is a name on this host, never pattern text. Its bytes are quoted, so that a work
// directory called "a[b]*" means itself.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/expected.hpp"
#include "rules/load/loader.hpp"
#include "rules/model/glob.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

/// `literal` with a backslash before every byte that is special in a pattern.
[[nodiscard]] std::string quote_glob(std::string_view literal);
/// The same as an option takes it. Nothing if a variable would be put in, or with a NUL, at which a shell
/// would cut the word.
[[nodiscard]] std::optional<std::string> option_pattern(std::string_view literal);

/// The value of ${git-common} and ${git-admin} where there is no such repository: no object can be there.
inline constexpr std::string_view nowhere = "/dev/null/-";

class PatternMaker {
public:
    /// Bound on alternatives of all patterns together: a megabyte of braces would otherwise fill the memory.
    static constexpr std::size_t max_alternatives = 30'000;

    explicit PatternMaker(const LoadContext& context);

    /// A pattern of `path`, `program` or `unix`: must begin with '/', "~", "${...}" or "**/" ('@' where
    /// `unix_socket`). Appends the glob, and one more for each literal head that passes through a symbolic
    /// link.
    [[nodiscard]] Expected<void> make(std::string_view pattern, bool unix_socket, std::vector<Glob>& into);

    /// The homes that "~" means in the patterns from here on: the run's, the user's own as well, or also that
    /// of the account (LoadContext).
    enum class Homes { own, programs, all };
    void homes(Homes which) { homes_ = which; }

    /// The blocks of ${own}: loopback, and each address of this host at the start.
    [[nodiscard]] std::vector<Cidr> own_blocks();
    /// The addresses that own_blocks() took from the host; nothing if it was not called.
    [[nodiscard]] std::optional<std::vector<IpAddress>> take_own_addresses() { return std::move(own_); }

    /// A name or a value with variables put in; no wildcard means anything. "~" only where `tilde`.
    [[nodiscard]] Expected<std::string> expand_literal(std::string_view text, bool tilde) const;

    /// The canonical form of an absolute path; its last components may not exist.
    [[nodiscard]] std::string canonical(const std::string& path);

    /// Names that led elsewhere so far (LoadSnapshot::links).
    [[nodiscard]] std::map<std::string, std::string> take_links() { return std::move(links_); }

private:
    [[nodiscard]] Expected<std::string> substitute(std::string_view text, bool tilde, bool quote) const;
    /// A value without final slashes, so that "${tmp}/x" has one slash; plain and quoted.
    struct Variable {
        std::string_view name;
        std::string value, quoted;
    };
    [[nodiscard]] Expected<const Variable*> variable(std::string_view name) const;

    /// Known facts about a path.
    struct Place {
        std::optional<std::string> elsewhere;  // its canonical form, if different
        bool absent = false;                   // nothing is there
    };
    struct PathHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view path) const { return std::hash<std::string_view>()(path); }
    };
    [[nodiscard]] Place place(const std::string& path);
    const Place& parent_place(std::string_view directory);
    [[nodiscard]] Place look(const std::string& path);
    [[nodiscard]] Place look_at(const std::string& path, const Place& parent, std::string_view parent_path);

    [[nodiscard]] Expected<void> make_text(std::string_view text, std::vector<Glob>& into);
    /// Counts the alternatives of a compiled pattern.
    [[nodiscard]] Expected<void> count_alternatives(const Glob& glob);

    const LoadContext& context_;
    Homes homes_ = Homes::own;
    std::optional<std::vector<IpAddress>> own_;
    std::size_t alternatives_ = 0;
    std::array<Variable, 8> variables_;
    std::string user_home_, account_home_;  // quoted; "/" is ""
    std::unordered_map<std::string, Place, PathHash, std::equal_to<>> parents_;
    /// The entry of `parents_` that was asked for last: neighbouring patterns share their directory.
    const std::pair<const std::string, Place>* last_parent_ = nullptr;
    std::map<std::string, std::string> links_;
};

}  // namespace callgate::rules
