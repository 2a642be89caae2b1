// Parses one rule file into values: every key, condition and note is checked, and all errors are reported at
// once with their places.
//
// The parser looks nothing up: the loader resolves `extends`, walks `expand` and resolves hosts. An attacker
// may have written the text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/load/diagnostic.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/agent.hpp"
#include "rules/model/limits.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

struct ShippedProfile;

/// The value of `expand`. `sources` leaves out installed packages (rules/load/expand.hpp).
enum class Expand : std::uint8_t { no, everywhere, sources };

struct ParsedRule {
    Rule rule;
    Expand expand = Expand::no;
};

struct ParsedExtend {
    std::string name;
    int line = 0, column = 0;
};

/// An exception to a deny rule of a file that this one extends.
struct ParsedException {
    std::string rule, pattern;
    int line = 0, column = 0;
};

struct ParsedExample {
    Action expected = Action::allow;
    std::string text;
    int line = 0, column = 0;
};

struct ParsedFile {
    std::optional<Action> fallback;
    bool sni = false;
    std::string description;
    std::vector<ParsedExtend> extends;
    std::vector<ParsedRule> rules;
    std::vector<ParsedException> exceptions;
    Agent agent;
    Limits limits;
    Environment environment;
    std::vector<ParsedExample> examples;
    /// Hash of the text without comments, blanks and order of keys.
    std::string sha256;
};

inline constexpr std::size_t max_rules = 10'000;

/// `label` appears in messages and in the default ids "<label>#<n>".
[[nodiscard]] ParsedFile parse_rules(std::string_view text, const std::string& label, PatternMaker& patterns,
                                     std::vector<Diagnostic>& diagnostics);
/// The same for a profile whose text was parsed when callgate was built.
[[nodiscard]] ParsedFile parse_rules(const ShippedProfile& profile, const std::string& label,
                                     PatternMaker& patterns, std::vector<Diagnostic>& diagnostics);

/// The places for keys in a rule file.
enum class KeyPlace { file, rule, condition, limit, environment, example, agent };

/// The keys that the parser knows in a place: the words for suggestions, and the names that the schema must
/// have.
[[nodiscard]] std::span<const std::string_view> known_keys(KeyPlace place);

/// The number of an errno name ("ENOENT") that a rule may state.
[[nodiscard]] std::optional<int> errno_number(std::string_view name);
[[nodiscard]] std::span<const std::string_view> errno_names();

}  // namespace callgate::rules
