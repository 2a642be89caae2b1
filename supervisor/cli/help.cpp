// Help texts, made from the option table, at most 80 columns wide.
#include <algorithm>

#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

constexpr std::size_t width = 80;
constexpr std::size_t text_column = 28;  // where the descriptions begin

/// Breaks `text` at spaces, so that each line fits; `indent` stands before every line but the first. A
/// newline in `text` stays.
std::string wrapped(std::string_view text, std::size_t indent) {
    std::string out;
    std::size_t at = indent;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
        const std::string_view word = text.substr(0, end);
        const bool first = at == indent;
        if (!first && at + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            at = indent;
        } else if (!first) {
            out += ' ';
            ++at;
        }
        out += word;
        at += word.size();
        if (end < text.size() && text[end] == '\n') {
            out += "\n" + std::string(indent, ' ');
            at = indent;
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::string option_help(const OptionSpec& option) {
    std::string line = option.letter != 0 ? std::string("  -") + option.letter + ", " : "      ";
    line += "--" + std::string(option.name);
    if (option.arity == Arity::optional)
        line += "[=" + std::string(option.value) + "]";
    else if (!option.value.empty())
        line += " " + std::string(option.value);
    if (line.size() + 2 > text_column)
        line += "\n" + std::string(text_column, ' ');
    else
        line.append(text_column - line.size(), ' ');
    return line + wrapped(option.help, text_column) + "\n";
}

std::string indented(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        out += "  " + std::string(text.substr(0, end)) + "\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

}  // namespace

std::string help(const VerbSpec& verb) {
    const std::string name(verb.name);
    std::string text = "Usage: callgate " + name + " " + std::string(verb.usage) + "\n\n";
    std::string summary = std::string(verb.summary) + ".";
    summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
    text += wrapped(verb.text.empty() ? summary : verb.text, 0) + "\n";
    text += "\nExamples:\n" + indented(verb.examples);
    for (const OptionGroup& group : verb.groups) {
        text += "\n" + std::string(group.title) + ":\n";
        for (const OptionSpec& option : group.options) text += option_help(option);
    }
    return text;
}

std::string help() {
    std::string text =
        "Usage: callgate VERB ...\n\n"
        "Runs a command under rules. Contested calls wait in the kernel until callgate\n"
        "has decided them, and each decision is recorded first.\n\n"
        "Verbs:\n";
    for (const VerbSpec& verb : verbs()) {
        std::string line = "  " + std::string(verb.name);
        line.append(14 - line.size(), ' ');
        text += line + std::string(verb.summary) + "\n";
    }
    text +=
        "\nExamples:\n"
        "  callgate run python3 main.py        run under the profile \"agent\"\n"
        "  callgate explain read ~/.ssh/id_rsa what would be decided, and why\n"
        "  callgate audit show                 what the last run did\n"
        "\nOptions:\n"
        "  -h, --help   show this text; callgate VERB --help shows that of a verb\n"
        "  --version    show the version\n";
    return text;
}

}  // namespace callgate::cli
