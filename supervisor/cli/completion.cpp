// `callgate completion` makes scripts from the option table. They hold only callgate's own words. For the
// names of profiles, runs, logs, grants, rules and proposed rules they ask `callgate completion KIND`.
//
// Others choose some of these names: a shell must never run one, nor may one type a command. So the scripts
// never expand them, and only names of harmless characters are given.
#include <algorithm>

#include "rules/load/json_tree.hpp"
#include "rules/load/shipped.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/approval/terminal/proposal.hpp"
#include "supervisor/audit/verbs/logs.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

constexpr std::string_view shells[] = {"bash", "zsh", "fish"};

/// Returns what `callgate completion` calls the names of a kind; "" if its values are no names that callgate
/// knows.
std::string_view names_of(std::string_view kind) {
    if (kind == "PROFILE") return "profiles";
    if (kind == "RUN") return "runs";
    if (kind == "LOG") return "logs";
    if (kind == "RULE") return "rules";
    if (kind == "GRANT") return "grants";
    if (kind == "PENDING") return "pending";
    return "";
}

bool is_path(std::string_view kind) { return kind == "FILE" || kind == "DIR"; }

void add_rule_ids(std::vector<std::string>& ids, const rules::JsonTree& tree) {
    if (tree.nodes.empty()) return;
    const auto rules = rules::JsonValue(tree, 0).member("rules");
    if (!rules) return;
    for (const rules::JsonValue& rule : rules->value.items())
        if (const auto id = rule.member("id")) ids.emplace_back(id->value.text());
}

/// Returns those of all shipped profiles and of the user's own rules.
std::vector<std::string> rule_ids(const Places& places) {
    std::vector<std::string> ids;
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) add_rule_ids(ids, profile.tree);
    const std::string file = places.config + "/rules.json";
    if (const auto text = read_regular_file(file, rules::max_text)) {
        std::vector<rules::Diagnostic> ignored;
        rules::Findings findings(file, ignored);
        if (const auto document = rules::parse_json(*text, findings)) add_rule_ids(ids, document->tree());
    }
    return ids;
}

/// Null if no names are called that.
std::optional<std::vector<std::string>> known_names(const std::vector<std::string>& words) {
    const Places places = find_places();
    std::vector<std::string> names;
    if (words[0] == "profiles") {
        for (const rules::ShippedProfile& profile : rules::shipped_profiles())
            names.emplace_back(profile.name);
        std::ranges::copy(own_profiles(places.config + "/profiles"), std::back_inserter(names));
    } else if (words[0] == "runs") {
        names = approval::runs_at(places.runtime);
    } else if (words[0] == "logs") {
        for (const std::string& log : audit::logs_in(places.state)) names.push_back(audit::run_of(log));
    } else if (words[0] == "rules") {
        names = rule_ids(places);
    } else if (words[0] == "grants") {
        if (words.size() > 1) names = grant_numbers(words[1]);
    } else if (words[0] == "pending") {
        for (const approval::Pending& one : approval::pending_rules(places.config)) names.push_back(one.name);
    } else {
        return std::nullopt;
    }
    return names;
}

bool is_harmless(std::string_view name) {
    constexpr std::string_view signs = "+-._/@:";
    return !name.empty() && name[0] != '-' && std::ranges::all_of(name, [&](char one) {
        return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
               signs.find(one) != std::string_view::npos;
    });
}

std::string lines_of(std::vector<std::string> names) {
    std::string text;
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names)
        if (is_harmless(name)) text += name + "\n";
    return text;
}

/// Whether the next word is its value. A value that may be left out is given with '=' only.
bool takes_word(const OptionSpec& option) {
    return option.arity == Arity::one || option.arity == Arity::many;
}

std::string verb_names() {
    std::string names;
    for (const VerbSpec& verb : verbs()) names += (names.empty() ? "" : " ") + std::string(verb.name);
    return names;
}

std::string option_names(const VerbSpec& verb) {
    std::string names;
    for (const OptionSpec* option : options(verb))
        names += (names.empty() ? "--" : " --") + std::string(option->name);
    return names;
}

/// "--read|-r"
std::string pattern(const OptionSpec& option) {
    std::string text = "--" + std::string(option.name);
    if (option.letter != 0) text += std::string("|-") + option.letter;
    return text;
}

/// The command that completes one value.
std::string bash_value(std::string_view kind) {
    if (kind == "RULE") return "_callgate_names rules; compopt -o nospace";
    if (kind == "GRANT") return "_callgate_names grants \"${operands[0]}\"";
    if (const std::string_view names = names_of(kind); !names.empty())
        return "_callgate_names " + std::string(names);
    if (is_path(kind)) return kind == "DIR" ? "_callgate_paths -d" : "_callgate_paths -f";
    if (kind.empty()) return ":";
    return "mapfile -t COMPREPLY < <(compgen -W '" + std::string(kind) + "' -- \"$word\")";
}

std::string bash_verb(const VerbSpec& verb) {
    std::string text = "    " + std::string(verb.name) + ")\n        case $before in\n", valued;
    for (const OptionSpec* option : options(verb)) {
        if (!takes_word(*option)) continue;
        text += "        " + pattern(*option) + ") " + bash_value(option->words) + "; return ;;\n";
    }
    text += "        esac\n        if [[ $word == -* ]]; then mapfile -t COMPREPLY < <(compgen -W '" +
            option_names(verb) + "' -- \"$word\"); return; fi\n";
    if (verb.command)
        text += "        mapfile -t COMPREPLY < <(compgen -c -- \"$word\") ;;\n";
    else
        text += "        if (( ${#operands[@]} == 0 )); then " + bash_value(verb.first) + "; else " +
                bash_value(verb.others) + "; fi ;;\n";
    return text;
}

constexpr std::string_view bash_helpers = R"(# bash completion of callgate
_callgate_names() {
    local one
    while IFS= read -r one; do [[ $one != "$word"* ]] || COMPREPLY+=("$one"); done < <(callgate completion "$@" 2>/dev/null)
}
_callgate_paths() {
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}
_callgate() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} at=2 one valued command
    local -a operands=()
    COMPREPLY=()
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
)";

/// Steps over the options: the completion of the command itself takes over where the command begins.
constexpr std::string_view bash_operands = R"(    while (( at < COMP_CWORD )); do
        one=${COMP_WORDS[at]}
        case $one in
        --) if [[ $command ]]; then ((at++)); break; fi ;;
        -*)
            if [[ ${COMP_WORDS[at+1]} == = ]]; then ((at += 2)); elif [[ $valued == *" $one "* ]]; then ((at++)); fi ;;
        *)
            if [[ $command ]]; then break; fi
            operands+=("$one") ;;
        esac
        ((at++))
    done
    if [[ $command ]] && { (( at < COMP_CWORD )) || [[ ${COMP_WORDS[at-1]} == -- ]]; }; then
        if declare -F _command_offset >/dev/null; then _command_offset $at; elif (( at < COMP_CWORD )); then _callgate_paths -f
        else mapfile -t COMPREPLY < <(compgen -c -- "$word"); fi
        return
    fi
    case $verb in
)";

std::string bash() {
    std::string text = std::string(bash_helpers) +
                       "    if (( COMP_CWORD == 1 )); then mapfile -t COMPREPLY < <(compgen -W '" +
                       verb_names() + " --help --version' -- \"$word\"); return; fi\n    case $verb in\n";
    for (const VerbSpec& verb : verbs()) {
        std::string valued;
        for (const OptionSpec* option : options(verb)) {
            if (!takes_word(*option)) continue;
            valued += " --" + std::string(option->name);
            if (option->letter != 0) valued += std::string(" -") + option->letter;
        }
        text += "    " + std::string(verb.name) + ") command=" + (verb.command ? "1" : "") + " valued='" +
                valued + " ' ;;\n";
    }
    text += "    esac\n" + std::string(bash_operands);
    for (const VerbSpec& verb : verbs()) text += bash_verb(verb);
    return text + "    esac\n}\ncomplete -F _callgate callgate\n";
}

/// Escapes text for single quotes and for the brackets of zsh's _arguments.
std::string zsh_text(std::string_view text) {
    std::string out;
    for (const char one : text) {
        if (one == '\'')
            out += "'\\''";
        else if (one == ':' || one == '[' || one == ']')
            out += std::string("\\") + one;
        else
            out += one;
    }
    return out;
}

/// The action of zsh's _arguments that completes one value.
std::string zsh_value(std::string_view kind) {
    if (kind == "RULE") return " _callgate_names rules -S \"\"";
    if (kind == "GRANT") return " _callgate_names \"grants $words[2]\"";
    if (const std::string_view names = names_of(kind); !names.empty())
        return " _callgate_names " + std::string(names);
    if (is_path(kind)) return kind == "DIR" ? "_files -/" : "_files";
    return kind.empty() ? " " : "(" + zsh_text(kind) + ")";
}

std::string zsh_option(const OptionSpec& option) {
    const std::string many = option.arity == Arity::many ? "*" : "";
    std::string help = "[" + zsh_text(option.help) + "]", value;
    if (takes_word(option)) value = ":" + zsh_text(option.value) + ":" + zsh_value(option.words);
    std::string text =
        " '" + many + "--" + std::string(option.name) + (value.empty() ? "" : "=") + help + value + "'";
    if (option.letter != 0) text += std::string(" '") + many + "-" + option.letter + help + value + "'";
    return text;
}

constexpr std::string_view zsh_helper = R"zsh(#compdef callgate
_callgate_names() {
    local -a found
    found=(${(f)"$(callgate completion ${=1} 2>/dev/null)"})
    shift
    compadd "$@" -a found
}
_callgate() {
    local -a all
    all=()zsh";

std::string zsh() {
    std::string text(zsh_helper);
    for (const VerbSpec& verb : verbs())
        text += " '" + std::string(verb.name) + ":" + zsh_text(verb.summary) + "'";
    text +=
        ")\n    if (( CURRENT == 2 )); then _describe verb all; return; fi\n    local verb=$words[2]\n"
        "    shift words; (( CURRENT-- ))\n    case $verb in\n";
    for (const VerbSpec& verb : verbs()) {
        text += "    " + std::string(verb.name) + ") _arguments -S";
        for (const OptionSpec* option : options(verb)) text += zsh_option(*option);
        if (verb.command) text += " '(-)1:command: _command_names -e' '*::arguments: _normal'";
        if (!verb.first.empty()) text += " '1:what:" + zsh_value(verb.first) + "'";
        if (!verb.others.empty()) text += " '*:what:" + zsh_value(verb.others) + "'";
        text += " ;;\n";
    }
    return text +
           "    esac\n}\nif [[ $funcstack[1] == _callgate ]]; then _callgate \"$@\"; else compdef _callgate "
           "callgate; fi\n";
}

std::string fish_text(std::string_view text) {
    std::string out = "'";
    for (const char one : text)
        out += one == '\'' || one == '\\' ? std::string("\\") + one : std::string(1, one);
    return out + "'";
}

/// Returns what completes one value, to follow -a; "" if nothing does.
std::string fish_value(std::string_view kind) {
    if (kind == "GRANT") return "'(callgate completion grants (commandline -opc)[3] 2>/dev/null)'";
    if (kind == "RULE") return "'(callgate completion rules 2>/dev/null)'";
    if (const std::string_view names = names_of(kind); !names.empty())
        return "'(callgate completion " + std::string(names) + " 2>/dev/null)'";
    if (kind == "DIR") return "'(__fish_complete_directories)'";
    return kind.empty() || kind == "FILE" ? "" : fish_text(kind);
}

std::string fish_option(const std::string& seen, const OptionSpec& option) {
    std::string line = seen + " -l " + std::string(option.name);
    if (option.letter != 0) line += std::string(" -s ") + option.letter;
    if (takes_word(option)) {
        const std::string value = fish_value(option.words);
        line += option.words == "FILE" ? " -r -F" : " -x" + (value.empty() ? "" : " -a " + value);
    }
    return line + " -d " + fish_text(option.help) + "\n";
}

/// An operand that is one of some words is looked for by these words, because options may stand before it;
/// others by their place.
std::string fish_operands(const std::string& name, const VerbSpec& verb) {
    if (verb.first.empty()) return "";
    const bool words = names_of(verb.first).empty() && !is_path(verb.first);
    const std::string later = words ? "__fish_seen_subcommand_from " + std::string(verb.first)
                                    : "test (count (commandline -opc)) -gt 2";
    const auto line = [&](const std::string& condition, std::string_view kind) {
        const std::string value = fish_value(kind);
        return "complete -c callgate -n '__fish_seen_subcommand_from " + name + "; and " + condition + "'" +
               (is_path(kind) ? " -F" : "") + (value.empty() ? "" : " -a " + value) + "\n";
    };
    std::string text = line("not " + later, verb.first);
    if (!verb.others.empty()) text += line(later, verb.others);
    return text;
}

/// __callgate_rest prints the words of the command that callgate run gets.
constexpr std::string_view fish_helpers = R"(    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case '--*=*'
            case '-*'
                contains -- $words[1] $valued; and set -e words[1]
            case '*'
                break
        end
        set -q words[1]; and set -e words[1]
    end
    string escape -- $words
end
function __callgate_command
    set -l line (string join ' ' -- (__callgate_rest) (commandline -ct))
    string match -q -- '-*' $line; or complete -C$line
end
complete -c callgate -f
)";

std::string fish() {
    std::string text =
        "# fish completion of callgate\nfunction __callgate_rest\n    set -l words (commandline "
        "-opc)[3..-1]\n    set -l valued";
    for (const OptionSpec* option : options(*find_verb("run"))) {
        if (!takes_word(*option)) continue;
        text += " --" + std::string(option->name);
        if (option->letter != 0) text += std::string(" -") + option->letter;
    }
    text += "\n" + std::string(fish_helpers);
    for (const VerbSpec& verb : verbs()) {
        const std::string name(verb.name);
        const std::string seen = "complete -c callgate -n '__fish_seen_subcommand_from " + name +
                                 (verb.command ? "; and test (count (__callgate_rest)) -eq 0'" : "'");
        text += "complete -c callgate -n __fish_use_subcommand -a " + name + " -d " +
                fish_text(verb.summary) + "\n";
        for (const OptionSpec* option : options(verb)) text += fish_option(seen, *option);
        if (verb.command)
            text += "complete -c callgate -n '__fish_seen_subcommand_from " + name +
                    "' -x -a '(__callgate_command)'\n";
        text += fish_operands(name, verb);
    }
    return text;
}

}  // namespace

int completion(const Arguments& arguments) {
    const std::string& shell = arguments.rest()[0];
    if (shell == "bash")
        print(bash());
    else if (shell == "zsh")
        print(zsh());
    else if (shell == "fish")
        print(fish());
    else if (const auto names = known_names(arguments.rest()))
        print(lines_of(*names));
    else
        throw Failure("no completions for " + shell + "; expected bash, zsh or fish" +
                      suggestion(shell, shells));
    return 0;
}

}  // namespace callgate::cli
