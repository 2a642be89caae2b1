// The only user of CLI11, which is slow to compile.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>

#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/failure.hpp"

namespace callgate::cli {

std::optional<std::string> Arguments::value(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second.empty()) return std::nullopt;
    return found->second.back();
}

const std::vector<std::string>& Arguments::values(std::string_view name) const {
    static const std::vector<std::string> none;
    const auto found = values_.find(name);
    return found == values_.end() ? none : found->second;
}

std::string Arguments::origin(std::string_view name) const {
    const auto found = from_environment_.find(name);
    return found == from_environment_.end() ? "--" + std::string(name) : found->second;
}

void Arguments::set(std::string_view name, std::vector<std::string> values, bool from_environment) {
    values_[name] = std::move(values);
    from_environment_.erase(name);
    if (from_environment) from_environment_[name] = variable(name);
}

std::optional<std::string> process_environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

namespace {

struct Parser {
    CLI::App app;
    std::vector<std::pair<const OptionSpec*, CLI::Option*>> known;
};

/// Whether `words` could hold the option at all. CLI11 compares every option with every other as it is added,
/// which costs milliseconds for sixty of them, so only those that may be meant are.
bool may_hold(const std::vector<std::string>& words, const OptionSpec& option) {
    return std::any_of(words.begin(), words.end(), [&option](const std::string& word) {
        if (word.starts_with("--")) return std::string_view(word).substr(2).starts_with(option.name);
        return option.letter != 0 && word.starts_with('-') && word.find(option.letter) != std::string::npos;
    });
}

void add_options(Parser& parser, const VerbSpec& verb, const std::vector<std::string>& words) {
    parser.app.set_help_flag("");
    if (verb.command)
        parser.app.prefix_command();
    else
        parser.app.allow_extras();
    for (const OptionSpec* option : options(verb)) {
        if (!may_hold(words, *option)) {
            parser.known.emplace_back(option, nullptr);
            continue;
        }
        std::string names = "--" + std::string(option->name);
        if (option->letter != 0) names += std::string(",-") + option->letter;
        CLI::Option* added =
            option->arity == Arity::flag ? parser.app.add_flag(names) : parser.app.add_option(names);
        added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        if (option->arity != Arity::flag) added->type_name(std::string(option->value));
        parser.known.emplace_back(option, added);
    }
}

[[noreturn]] void fail_unknown(const VerbSpec& verb, const std::string& word) {
    const std::string bare = word.substr(0, word.find('='));
    std::vector<std::string_view> names;
    for (const OptionSpec* option : options(verb)) names.push_back(option->name);
    const std::string near = word.starts_with("--") ? suggestion(bare.substr(2), names, "--") : "";
    throw Failure("unknown option " + bare +
                  (near.empty() ? "; see callgate " + std::string(verb.name) + " --help" : near));
}

/// "--timeout=" would take the next word, which may be the command: an empty value is never meant.
void refuse_empty_values(const Parser& parser, const std::vector<std::string>& words, std::size_t consumed) {
    for (std::size_t index = 0; index < consumed && words[index] != "--"; ++index) {
        for (const auto& [option, added] : parser.known) {
            const std::string name = "--" + std::string(option->name);
            if (words[index] == name + "=")
                throw Failure("option " + name + " has an empty value; expected " +
                              std::string(option->value));
        }
    }
}

[[noreturn]] void fail_value(const Parser& parser, const std::vector<std::string>& words) {
    // CLI11 throws only where the last word is an option that lacks its value.
    for (const auto& [option, added] : parser.known) {
        const bool here =
            words.back() == "--" + std::string(option->name) ||
            (words.back().size() > 1 && words.back()[1] != '-' && words.back().back() == option->letter);
        if (here)
            throw Failure("option " + words.back() + " needs a value: --" + std::string(option->name) + " " +
                          std::string(option->value));
    }
    throw Failure("option " + words.back() + " needs a value");
}

bool is_off(const std::string& value) {
    return value.empty() || value == "0" || value == "false" || value == "no" || value == "off";
}

/// "--markdown" alone is "--markdown=-": the next word is never its value.
void complete_optional(const VerbSpec& verb, std::vector<std::string>& words) {
    for (std::string& word : words) {
        if (word == "--") return;
        for (const OptionSpec* option : options(verb))
            if (option->arity == Arity::optional && word == "--" + std::string(option->name)) word += "=-";
    }
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        if (end > begin) all.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return all;
}

void take_from_environment(Arguments& arguments, const OptionSpec& option, Environment environment) {
    const std::optional<std::string> value = environment(variable(option.name));
    if (!value || option.name == "help") return;
    if (option.arity == Arity::flag) {
        if (!is_off(*value)) arguments.set(option.name, {}, true);
        return;
    }
    std::vector<std::string> values =
        option.arity == Arity::many ? lines(*value) : std::vector<std::string>{*value};
    if (value->empty() || values.empty()) return;
    arguments.set(option.name, std::move(values), true);
}

/// A flag that was given as --flag=false counts as absent.
bool flag_given(const CLI::Option& added) { return added.count() > 0 && !is_off(added.results().back()); }

std::vector<std::string> positionals(const VerbSpec& verb, std::vector<std::string> rest) {
    if (verb.command) {
        if (!rest.empty() && rest[0] == "--")
            rest.erase(rest.begin());
        else if (!rest.empty() && rest[0].size() > 1 && rest[0][0] == '-')
            fail_unknown(verb, rest[0]);
        return rest;
    }
    std::vector<std::string> words;
    bool only = false;
    for (std::string& word : rest) {
        if (!only && word == "--") {
            only = true;
            continue;
        }
        if (!only && word.size() > 1 && word[0] == '-') fail_unknown(verb, word);
        words.push_back(std::move(word));
    }
    return words;
}

void check_count(const VerbSpec& verb, std::size_t count) {
    if (verb.command || (count >= verb.least && count <= verb.most)) return;
    throw Failure(std::string(count < verb.least ? "an argument is missing" : "too many arguments") +
                  "; usage: callgate " + std::string(verb.name) + " " + std::string(verb.usage));
}

void refuse_missing(const VerbSpec& verb, const Arguments& arguments) {
    for (const OptionSpec* option : options(verb))
        if (!option->missing.empty() && arguments.has(option->name))
            throw Failure("option " + arguments.origin(option->name) +
                          " is not in this version: " + std::string(option->missing));
}

}  // namespace

Arguments parse(const VerbSpec& verb, std::vector<std::string> words, Environment environment) {
    Parser parser;
    complete_optional(verb, words);
    add_options(parser, verb, words);
    try {
        parser.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError&) {
        if (words.empty()) throw;
        fail_value(parser, words);
    }
    const std::vector<std::string> rest = parser.app.remaining();
    refuse_empty_values(parser, words, verb.command ? words.size() - rest.size() : words.size());
    Arguments arguments;
    for (const auto& [option, added] : parser.known) {
        if (added == nullptr || added->count() == 0)
            take_from_environment(arguments, *option, environment);
        else if (option->arity != Arity::flag)
            arguments.set(option->name, added->results(), false);
        else if (flag_given(*added))
            arguments.set(option->name, {}, false);
    }
    arguments.set_rest(positionals(verb, rest));
    if (arguments.has("help")) return arguments;
    check_count(verb, arguments.rest().size());
    refuse_missing(verb, arguments);
    return arguments;
}

}  // namespace callgate::cli
