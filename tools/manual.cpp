// Writes the manual pages, in the language of mdoc(7), into a directory: callgate(1), one page for each verb,
// callgate-rules(5) and callgate-profiles(7). They are made from the option table, the schema of rules and
// the shipped profiles.
//
// usage: callgate_manual DIRECTORY DATE   (DATE: 2026-11-24)
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rules/load/shipped.hpp"
#include "supervisor/cli/option_table.hpp"

namespace {

using namespace callgate;
using Json = nlohmann::ordered_json;

/// A page: text is escaped, macros are not.
class Page {
public:
    Page(char number, std::string_view date, std::string_view name, std::string_view summary) {
        std::string upper(name);
        for (char& one : upper)
            if (one >= 'a' && one <= 'z') one = static_cast<char>(one - 'a' + 'A');
        text_ += ".Dd " + std::string(date) + "\n.Dt " + upper + " " + number + "\n.Os\n";
        section("NAME");
        macro("Nm", name);
        macro("Nd", summary);
    }

    void section(std::string_view title) { text_ += ".Sh " + std::string(title) + "\n"; }
    void subsection(std::string_view title) { macro("Ss", title); }

    void macro(std::string_view name, std::string_view arguments = {}) {
        text_ += "." + std::string(name);
        if (!arguments.empty()) text_ += " " + escaped(arguments, true);
        text_ += "\n";
    }

    /// A line of macros as it stands.
    void line(std::string_view raw) { text_ += std::string(raw) + "\n"; }

    /// Paragraphs; a newline begins the next one. Each sentence begins a line, as mdoc(7) wants it.
    void prose(std::string_view words) {
        bool first = true;
        while (!words.empty()) {
            const std::size_t end = std::min(words.find('\n'), words.size());
            if (!first) text_ += ".Pp\n";
            first = false;
            text_ += sentences(words.substr(0, end));
            words.remove_prefix(std::min(end + 1, words.size()));
        }
    }

    void literal(std::string_view lines) {
        text_ += ".Bd -literal -offset indent\n";
        while (!lines.empty()) {
            const std::size_t end = std::min(lines.find('\n'), lines.size());
            text_ += escaped(lines.substr(0, end), false) + "\n";
            lines.remove_prefix(std::min(end + 1, lines.size()));
        }
        text_ += ".Ed\n";
    }

    void begin_list() { text_ += ".Bl -tag -width Ds\n"; }
    void item(std::string_view raw) { text_ += ".It " + std::string(raw) + "\n"; }
    void end_list() { text_ += ".El\n"; }

    [[nodiscard]] const std::string& text() const { return text_; }

    /// `in_macro`: within a macro's line, where a quote and the names of macros have a meaning too.
    static std::string escaped(std::string_view words, bool in_macro) {
        std::string out;
        for (const char one : words) {
            if (one == '\\')
                out += "\\e";
            else if (one == '-')
                out += "\\-";
            else if (one == '~')
                out += "\\(ti";
            else if (one == '^')
                out += "\\(ha";
            else if (one == '`')
                out += "\\(ga";
            else if (one == '\'')
                out += "\\(aq";
            else if (one == '"' && in_macro)
                out += "\\(dq";
            else
                out += one;
        }
        if (!in_macro && (out.starts_with('.') || out.starts_with('\''))) out.insert(0, "\\&");
        return out;
    }

private:
    static std::string sentences(std::string_view words) {
        std::string out;
        while (!words.empty()) {
            std::size_t end = words.find(". ");
            // A full stop that ends no sentence stands before a small letter.
            while (end != std::string_view::npos && end + 2 < words.size() && words[end + 2] >= 'a' &&
                   words[end + 2] <= 'z')
                end = words.find(". ", end + 1);
            const std::size_t length = end == std::string_view::npos ? words.size() : end + 1;
            out += wrapped(words.substr(0, length));
            words.remove_prefix(std::min(length + 1, words.size()));
        }
        return out;
    }

    /// Lines of at most 78 bytes.
    static std::string wrapped(std::string_view words) {
        std::string out, line;
        while (!words.empty()) {
            const std::size_t end = std::min(words.find(' '), words.size());
            const std::string_view word = words.substr(0, end);
            words.remove_prefix(std::min(end + 1, words.size()));
            std::string longer = line.empty() ? escaped(word, false) : line + ' ' + escaped(word, true);
            if (longer.size() > 78 && !line.empty()) {
                out += line + '\n';
                longer = escaped(word, false);
            }
            line = std::move(longer);
        }
        return out + line + '\n';
    }

    std::string text_;
};

/// "November 24, 2026" of "2026-11-24"
std::string date_in_words(const std::string& date) {
    constexpr const char* months[] = {"January", "February", "March",     "April",   "May",      "June",
                                      "July",    "August",   "September", "October", "November", "December"};
    unsigned year = 0, month = 0, day = 0;
    if (std::sscanf(date.c_str(), "%u-%u-%u", &year, &month, &day) != 3 || month < 1 || month > 12)
        throw std::runtime_error(date + ": expected a date such as 2026-11-24");
    return std::string(months[month - 1]) + ' ' + std::to_string(day) + ", " + std::to_string(year);
}

std::string sentence(std::string_view words) {
    std::string text(words);
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    if (!text.empty() && text.back() != '.') text += '.';
    return text;
}

/// Makes one argument of a macro, whatever is in it.
std::string argument(std::string_view words) { return '"' + Page::escaped(words, true) + '"'; }

/// A value or a usage as it stands, in a typewriter's letters where there are any.
std::string literal_text(std::string_view words) { return "Li " + argument(words); }

void write_option(Page& page, const cli::OptionSpec& option) {
    std::string head;
    if (option.letter != 0) head = std::string("Fl ") + option.letter + " , ";
    head += "Fl \\-" + Page::escaped(option.name, true);
    if (option.arity == cli::Arity::optional)
        head += " Ns Op = Ns Ar " + argument(option.value);
    else if (!option.value.empty())
        head += " Ar " + argument(option.value);
    page.item(head);
    page.prose(sentence(option.help));
    if (option.arity == cli::Arity::many) page.prose("It can be given several times.");
}

Page verb_page(const cli::VerbSpec& verb, std::string_view date) {
    const std::string name = "callgate-" + std::string(verb.name);
    Page page('1', date, name, verb.summary);
    page.section("SYNOPSIS");
    page.line(".Nm callgate Cm " + std::string(verb.name));
    // The usage's own signs say what may be left out.
    page.line("." + literal_text(verb.usage));
    page.section("DESCRIPTION");
    page.prose(verb.text.empty() ? sentence(verb.summary) : verb.text);
    page.section("OPTIONS");
    for (const cli::OptionGroup& group : verb.groups) {
        if (verb.groups.size() > 1) page.subsection(group.title);
        page.begin_list();
        for (const cli::OptionSpec& option : group.options) write_option(page, option);
        page.end_list();
    }
    page.section("EXAMPLES");
    page.literal(verb.examples);
    page.section("SEE ALSO");
    page.line(".Xr callgate 1 ,");
    page.line(".Xr callgate-rules 5 ,");
    page.line(".Xr callgate-profiles 7");
    return page;
}

void status(Page& page, std::string_view number, std::string_view meaning) {
    page.item(argument(number));
    page.prose(meaning);
}

Page main_page(std::string_view date) {
    Page page('1', date, "callgate", "run a program that you do not trust, under rules");
    page.section("SYNOPSIS");
    page.line(".Nm");
    page.line(".Ar verb");
    page.line(".Op Ar option ...");
    page.section("DESCRIPTION");
    page.prose(
        "Runs a command under rules. Contested calls wait in the kernel until callgate has decided them, and "
        "each decision is recorded first. Neither root nor a container nor a daemon is needed.");
    page.line(".Pp");
    page.prose("Each verb has a page of its own:");
    page.begin_list();
    for (const cli::VerbSpec& verb : cli::verbs()) {
        page.item("Xr callgate-" + std::string(verb.name) + " 1");
        page.prose(sentence(verb.summary));
    }
    page.end_list();
    page.line(".Pp");
    page.prose("These options stand without a verb:");
    page.begin_list();
    page.item("Fl h , Fl \\-help");
    page.prose("Show a short text; after a verb, that of the verb.");
    page.item("Fl \\-version");
    page.prose("Show version, commit, build and compiler.");
    page.end_list();
    page.section("ENVIRONMENT");
    page.prose(
        "Every option has a variable. CALLGATE_NO_USER_RULES=1 stands for --no-user-rules. An option that "
        "can "
        "be given several times holds one value per line.");
    page.begin_list();
    for (const char* name : {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "NO_COLOR"}) {
        page.item("Ev " + std::string(name));
        const std::string_view which = name;
        page.prose(which == "XDG_STATE_HOME"    ? "Logs are kept beneath it."
                   : which == "XDG_CONFIG_HOME" ? "Rules and profiles of your own are kept beneath it."
                   : which == "XDG_RUNTIME_DIR" ? "Sockets of runs are made beneath it."
                   : which == "TMPDIR"          ? "Private directories of runs are made beneath it."
                                                : "If it is set, messages have no colours.");
    }
    page.end_list();
    page.section("FILES");
    page.begin_list();
    page.item("Pa " + Page::escaped("~/.local/state/callgate", true));
    page.prose("Logs of runs.");
    page.item("Pa " + Page::escaped("~/.config/callgate/profiles/NAME.json", true));
    page.prose("Profiles of your own.");
    page.end_list();
    page.section("EXIT STATUS");
    page.prose("These are the statuses of callgate run:");
    page.begin_list();
    status(page, "the command's own", "The command exited by itself.");
    status(page, "128+N", "Signal N ended the command.");
    status(page, "123", "The command succeeded, but log or report could not be written.");
    status(page, "124", "A limit of time ended the command.");
    status(page, "125", "callgate failed, and the command never ran.");
    status(page, "126", "The command cannot be executed, or is denied.");
    status(page, "127", "The command was not found.");
    status(page, "137", "A limit of memory, processes, disk or log, or a rule, ended the command.");
    status(page, "152", "A limit of processor time ended the command.");
    page.end_list();
    page.section("EXAMPLES");
    page.literal(
        "callgate run python3 main.py\n"
        "callgate explain read ~/.ssh/id_rsa\n"
        "callgate audit show");
    page.section("SEE ALSO");
    page.line(".Xr callgate-rules 5 ,");
    page.line(".Xr callgate-profiles 7");
    return page;
}

/// Says what a value may be, in words: "allow, ask or deny"; "" where the description says it.
std::string possible(const Json& schema, const Json& node) {
    if (node.contains("$ref")) {
        const std::string name = node["$ref"].get<std::string>().substr(std::string("#/$defs/").size());
        const Json& target = schema["$defs"][name];
        return name == "texts" || name == "text" ? std::string() : possible(schema, target);
    }
    if (node.contains("const")) return "The value is " + node["const"].dump() + ".";
    if (node.contains("enum")) {
        std::string words;
        for (const Json& one : node["enum"])
            words += (words.empty() ? "" : ", ") + (one.is_string() ? one.get<std::string>() : one.dump());
        return "Possible values are " + words + ".";
    }
    if (node.contains("oneOf")) {
        for (const Json& one : node["oneOf"])
            if (std::string words = possible(schema, one); !words.empty()) return words;
    }
    return {};
}

void write_properties(Page& page, const Json& schema, const Json& node) {
    page.begin_list();
    for (const auto& [name, member] : node["properties"].items()) {
        if (name == "$schema") continue;
        page.item("Ic " + argument(name));
        if (member.contains("description")) page.prose(member["description"].get<std::string>());
        page.prose(possible(schema, member));
    }
    page.end_list();
}

Page rules_page(std::string_view date) {
    const Json schema = Json::parse(rules::rules_schema());
    const Json& definitions = schema["$defs"];
    Page page('5', date, "callgate-rules", "rule sets of callgate");
    page.section("DESCRIPTION");
    page.prose(
        "A rule set is one JSON object (RFC 8259) in UTF-8. A rule has one verdict with the operations that "
        "it is "
        "about, and conditions on the object and the caller. All conditions of a rule must hold. If several "
        "rules "
        "match, the strictest wins: kill, deny, ask, allow. Where no rule matches, the default decides.");
    page.section("THE SET");
    write_properties(page, schema, schema);
    page.section("RULES");
    write_properties(page, schema, definitions["rule"]);
    page.section("LIMITS");
    write_properties(page, schema, definitions["limits"]);
    page.section("ENVIRONMENT OF THE COMMAND");
    write_properties(page, schema, definitions["environment"]);
    page.section("PATTERNS");
    page.prose(
        "A pattern is absolute, or begins with ~/, ${workdir}, ${home}, ${tmp} or **/. One * matches within "
        "a "
        "component, ** matches any number of components, and {a,b} matches either. /srv/data names that "
        "directory "
        "alone. /srv/data/** names it and all beneath it.");
    page.section("EXAMPLES");
    page.literal(
        "{\n"
        "  \"version\": 1,\n"
        "  \"extends\": \"agent\",\n"
        "  \"rules\": [\n"
        "    {\"id\": \"data\", \"allow\": \"read\", \"path\": \"~/datasets/**\"},\n"
        "    {\"id\": \"api\", \"allow\": \"connect\", \"host\": \"api.example.org\", \"port\": 443},\n"
        "    {\"id\": \"drafts\", \"deny\": [\"read\", \"write\"], \"path\": \"${workdir}/drafts/**\"}\n"
        "  ],\n"
        "  \"examples\": {\n"
        "    \"allow\": [\"read ~/datasets/a.csv\", \"connect api.example.org:443\"],\n"
        "    \"deny\": [\"read ${workdir}/drafts/x\"]\n"
        "  }\n"
        "}");
    page.section("SEE ALSO");
    page.line(".Xr callgate-check 1 ,");
    page.line(".Xr callgate-explain 1 ,");
    page.line(".Xr callgate-profiles 7");
    return page;
}

Page profiles_page(std::string_view date) {
    Page page('7', date, "callgate-profiles", "profiles that callgate brings");
    page.section("DESCRIPTION");
    page.prose(
        "A profile is a rule set with a name. The option -p names it, and a rule set extends it. "
        "A file of your own, ~/.config/callgate/profiles/NAME.json, is a profile too.");
    page.section("PROFILES");
    page.begin_list();
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) {
        page.item("Cm " + argument(profile.name));
        page.prose(sentence(profile.description));
        const Json text = Json::parse(profile.json);
        if (text.contains("extends")) {
            std::string names;
            if (text["extends"].is_string())
                names = text["extends"].get<std::string>();
            else
                for (const Json& one : text["extends"])
                    names += (names.empty() ? "" : ", ") + one.get<std::string>();
            page.prose("It extends " + names + ".");
        }
        if (text.contains("default"))
            page.prose("Its default is " + text["default"].get<std::string>() + ".");
    }
    page.end_list();
    page.section("EXAMPLES");
    page.literal(
        "callgate profiles\ncallgate profiles agent\ncallgate run -p python -p git -- python3 main.py");
    page.section("SEE ALSO");
    page.line(".Xr callgate-profiles 1 ,");
    page.line(".Xr callgate-run 1 ,");
    page.line(".Xr callgate-rules 5");
    return page;
}

/// "man1/callgate.1" beneath `place`
void write(const std::filesystem::path& place, const std::string& name, char section, const Page& page) {
    const std::filesystem::path directory = place / (std::string("man") + section);
    std::filesystem::create_directories(directory);
    const std::filesystem::path path = directory / (name + '.' + section);
    std::ofstream file(path, std::ios::binary);
    file << page.text();
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::cerr << "usage: callgate_manual DIRECTORY DATE\n";
        return 2;
    }
    try {
        const std::filesystem::path place = arguments[1];
        const std::string date = date_in_words(arguments[2]);
        write(place, "callgate", '1', main_page(date));
        for (const cli::VerbSpec& verb : cli::verbs())
            write(place, "callgate-" + std::string(verb.name), '1', verb_page(verb, date));
        write(place, "callgate-rules", '5', rules_page(date));
        write(place, "callgate-profiles", '7', profiles_page(date));
    } catch (const std::exception& error) {
        std::cerr << "callgate_manual: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
