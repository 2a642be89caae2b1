// The options and words of the command line and of CALLGATE_* variables, parsed but not yet interpreted.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/cli/option_table.hpp"

namespace callgate::cli {

class Arguments {
public:
    /// Whether the flag or option was given.
    [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
    /// Whether it was given on the command line, not by a variable.
    [[nodiscard]] bool given(std::string_view name) const {
        return values_.contains(name) && !from_environment_.contains(name);
    }
    /// The last value given.
    [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
    /// All values, in order.
    [[nodiscard]] const std::vector<std::string>& values(std::string_view name) const;
    /// The words that are no options: the command and its arguments, or the verb's own arguments.
    [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }
    /// The source of a value for messages: "--timeout" or "CALLGATE_TIMEOUT".
    [[nodiscard]] std::string origin(std::string_view name) const;

    void set(std::string_view name, std::vector<std::string> values, bool from_environment);
    void set_rest(std::vector<std::string> rest) { rest_ = std::move(rest); }

private:
    std::map<std::string_view, std::vector<std::string>> values_;
    std::map<std::string_view, std::string> from_environment_;
    std::vector<std::string> rest_;
};

/// The value of a variable, or nothing; a parameter, so that tests need no environment.
using Environment = std::optional<std::string> (*)(const std::string& name);
[[nodiscard]] std::optional<std::string> process_environment(const std::string& name);

/// Parses the words after the verb. An option beats its variable; a variable of a repeatable option holds one
/// value per line. Throws Failure for an unknown option (with the nearest), a missing or empty value, or a
/// wrong number of arguments.
[[nodiscard]] Arguments parse(const VerbSpec& verb, std::vector<std::string> words,
                              Environment environment = process_environment);

}  // namespace callgate::cli
