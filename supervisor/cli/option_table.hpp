// Every verb and option as data. The parser, the help texts, the completions and the environment variables
// are made from these tables, so they cannot disagree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::cli {

enum class Arity : std::uint8_t {
    flag,
    one,  // the last one given counts
    many,
    optional,  // --name=VALUE; --name alone means "-"
};

struct OptionSpec {
    std::string_view name;  // "timeout" for --timeout and CALLGATE_TIMEOUT
    char letter = 0;        // 't' for -t; 0 if it has none
    Arity arity = Arity::flag;
    std::string_view value{};  // "DURATION"; "" for a flag
    std::string_view help{};
    /// The possible values, separated by spaces, or the kind of value (for completion): "FILE", "DIR",
    /// "PROFILE", "RUN", "LOG", "RULE", "GRANT" or "PENDING".
    std::string_view words{};
};

/// Options that stand together in a help text.
struct OptionGroup {
    std::string_view title;
    std::span<const OptionSpec> options;
};

class Arguments;

struct VerbSpec {
    std::string_view name;
    std::string_view usage;     // after "callgate NAME "
    std::string_view summary;   // one line of `callgate --help`
    std::string_view text;      // more for the user; may be ""
    std::string_view examples;  // whole lines
    std::span<const OptionGroup> groups;
    /// A command with options of its own follows the options.
    bool command = false;
    std::size_t least = 0, most = 0;  // positional arguments, if no command follows
    int (*run)(const Arguments&) = nullptr;
    /// They say what the first positional argument can be, and the others, as OptionSpec::words does.
    std::string_view first{}, others{};
};

[[nodiscard]] std::span<const VerbSpec> verbs();
[[nodiscard]] const VerbSpec* find_verb(std::string_view name);

/// All options of a verb, `--help` among them.
[[nodiscard]] std::vector<const OptionSpec*> options(const VerbSpec& verb);

/// "CALLGATE_NO_USER_RULES"
[[nodiscard]] std::string variable(std::string_view option);

}  // namespace callgate::cli
