// Every verb and option as data: the parser, the help texts, the completions and the environment variables
// are all made from these tables, so that they cannot disagree.
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
    std::string_view name;  // "timeout": --timeout, CALLGATE_TIMEOUT
    char letter = 0;        // 't': -t; 0 none
    Arity arity = Arity::flag;
    std::string_view value{};  // "DURATION"; "" for a flag
    std::string_view help{};
    /// Words that the value can be, separated by spaces (for completion); "FILE" and "DIR" complete paths.
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
    std::string_view text;      // what else a user must know; may be ""
    std::string_view examples;  // whole lines
    std::span<const OptionGroup> groups;
    /// What follows the options is a command with options of its own.
    bool command = false;
    std::size_t least = 0, most = 0;  // positional arguments, where it is not a command
    int (*run)(const Arguments&) = nullptr;
};

[[nodiscard]] std::span<const VerbSpec> verbs();
[[nodiscard]] const VerbSpec* find_verb(std::string_view name);

/// All options of a verb, `--help` among them.
[[nodiscard]] std::vector<const OptionSpec*> options(const VerbSpec& verb);

/// "CALLGATE_NO_USER_RULES"
[[nodiscard]] std::string variable(std::string_view option);

}  // namespace callgate::cli
