// Turns words into Arguments, with getopt_long(3) over the table of options. A library that keeps options as
// objects would initialise the streams of libstdc++, which costs every start 0.1 ms.
#include <getopt.h>

#include <algorithm>
#include <cstdlib>

#include "base/words.hpp"
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

[[noreturn]] void fail_unknown(const VerbSpec& verb, const std::string& word) {
    const std::string bare = word.substr(0, word.find('='));
    std::vector<std::string_view> names;
    for (const OptionSpec* option : options(verb)) names.push_back(option->name);
    const std::string near = word.starts_with("--") ? suggestion(bare.substr(2), names, "--") : "";
    throw Failure("unknown option " + bare +
                  (near.empty() ? "; see callgate " + std::string(verb.name) + " --help" : near));
}

[[noreturn]] void fail_value(const OptionSpec& option, const std::string& word) {
    throw Failure("option " + word + " needs a value: --" + std::string(option.name) + " " +
                  std::string(option.value));
}

bool is_off(const std::string& value) {
    return value.empty() || value == "0" || value == "false" || value == "no" || value == "off";
}

bool is_on(const std::string& value) {
    return value == "1" || value == "true" || value == "yes" || value == "on";
}

/// Turns "--markdown" into "--markdown=-": the next word is never its value.
void complete_optional(const VerbSpec& verb, std::vector<std::string>& words) {
    for (std::string& word : words) {
        if (word == "--") return;
        for (const OptionSpec* option : options(verb))
            if (option->arity == Arity::optional && word == "--" + std::string(option->name)) word += "=-";
    }
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all = split(text, '\n');
    std::erase(all, "");
    return all;
}

void take_from_environment(Arguments& arguments, const OptionSpec& option, Environment environment) {
    const std::optional<std::string> value = environment(variable(option.name));
    if (!value || option.name == "help") return;
    if (option.arity == Arity::flag) {
        if (!is_off(*value)) arguments.set(option.name, {}, true);
        return;
    }
    if (option.arity == Arity::optional && is_off(*value)) return;
    if (option.arity == Arity::optional && is_on(*value)) return arguments.set(option.name, {"-"}, true);
    std::vector<std::string> values =
        option.arity == Arity::many ? lines(*value) : std::vector<std::string>{*value};
    if (value->empty() || values.empty()) return;
    arguments.set(option.name, std::move(values), true);
}

/// The options and the other words, in their order.
struct Parsed {
    std::map<const OptionSpec*, std::vector<std::string>>
        options;  // a flag has the text after "=", or "true"
    std::vector<std::string> rest;
};

/// Reads the words. getopt_long keeps its place in global variables, so one parser exists at a time.
class Parser {
public:
    Parser(const VerbSpec& verb, std::vector<std::string>& words) : verb_(verb), known_(options(verb)) {
        pointers_.push_back(program_.data());
        for (std::string& word : words) pointers_.push_back(word.data());
        pointers_.push_back(nullptr);
        // Words keep their order. Options after a command's name are the command's; elsewhere options may
        // stand behind an argument.
        letters_ = verb.command ? "+:" : "-:";
        for (const OptionSpec* option : known_) {
            names_.emplace_back(option->name);
            if (option->letter == 0) continue;
            letters_ += option->letter;
            if (option->arity != Arity::flag) letters_ += ':';
        }
        for (std::size_t index = 0; index < known_.size(); ++index) {
            const int argument = known_[index]->arity == Arity::flag ? optional_argument : required_argument;
            table_.push_back(
                {names_[index].c_str(), argument, nullptr, first_long + static_cast<int>(index)});
        }
        table_.push_back({});
    }

    Parsed read() {
        const int count = static_cast<int>(pointers_.size()) - 1;
        ::opterr = 0;
        ::optind = 0;
        for (;;) {
            const char* const word = pointers_[static_cast<std::size_t>(std::max(::optind, 1))];
            const int found =
                ::getopt_long(count, pointers_.data(), letters_.c_str(), table_.data(), nullptr);
            if (found == -1) break;
            take(found, word);
        }
        for (int index = ::optind; index < count; ++index)
            parsed_.rest.emplace_back(pointers_[static_cast<std::size_t>(index)]);
        return std::move(parsed_);
    }

private:
    static constexpr int argument = 1, first_long = 256;  // smaller values are letters

    /// `word` is the word that holds the option.
    void take(int found, const std::string& word) {
        if (found == argument) {
            parsed_.rest.emplace_back(::optarg);
            return;
        }
        const bool is_long = word.starts_with("--");
        if (found == '?') fail_unknown(verb_, is_long ? word : std::string{'-', static_cast<char>(::optopt)});
        if (found == ':') fail_value(option(::optopt), word);
        const OptionSpec& spec = option(found);
        const std::string name = "--" + std::string(spec.name);
        // getopt_long accepts an abbreviation, which may be ambiguous in another version.
        if (is_long && word.substr(0, word.find('=')) != name) fail_unknown(verb_, word);
        // The user may have meant the next word, and that may be the command.
        if (is_long && word == name + "=")
            throw Failure("option " + name + " has an empty value; expected " +
                          std::string(spec.arity == Arity::flag ? "true or false" : spec.value));
        const std::string value = ::optarg == nullptr ? "true" : ::optarg;
        if (spec.arity == Arity::flag && !is_on(value) && !is_off(value))
            throw Failure("option " + word + ": expected true or false after the \"=\"");
        parsed_.options[&spec].push_back(value);
    }

    const OptionSpec& option(int found) const {
        if (found >= first_long) return *known_[static_cast<std::size_t>(found - first_long)];
        const auto lettered = std::find_if(known_.begin(), known_.end(),
                                           [found](const OptionSpec* one) { return one->letter == found; });
        return **lettered;
    }

    const VerbSpec& verb_;
    std::vector<const OptionSpec*> known_;
    std::string program_ = "callgate", letters_;
    std::vector<char*> pointers_;
    std::vector<std::string> names_;
    std::vector<::option> table_;
    Parsed parsed_;
};

void check_count(const VerbSpec& verb, std::size_t count) {
    if (verb.command || (count >= verb.least && count <= verb.most)) return;
    throw Failure(std::string(count < verb.least ? "an argument is missing" : "too many arguments") +
                  "; usage: callgate " + std::string(verb.name) + " " + std::string(verb.usage));
}

}  // namespace

Arguments parse(const VerbSpec& verb, std::vector<std::string> words, Environment environment) {
    complete_optional(verb, words);
    Parsed parsed = Parser(verb, words).read();
    Arguments arguments;
    for (const OptionSpec* option : options(verb)) {
        const auto given = parsed.options.find(option);
        if (given == parsed.options.end())
            take_from_environment(arguments, *option, environment);
        else if (option->arity != Arity::flag)
            arguments.set(option->name, std::move(given->second), false);
        else if (!is_off(given->second.back()))
            arguments.set(option->name, {}, false);
    }
    arguments.set_rest(std::move(parsed.rest));
    if (arguments.has("help")) return arguments;
    check_count(verb, arguments.rest().size());
    return arguments;
}

}  // namespace callgate::cli
