// `callgate completion` makes scripts from the option table. They hold only callgate's own words, never what
// a user typed.
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

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

/// The words that are no options: "bash zsh fish", "show tail ...", profile names, operations.
std::string verb_words(std::string_view verb) {
    if (verb == "completion") return "bash zsh fish";
    if (verb == "audit") return "show tail summary verify replay suggest report export ls last prune";
    if (verb == "explain") return "read write modify create delete metadata execute connect bind";
    return "";
}

std::string bash_values(const VerbSpec& verb) {
    std::string text;
    for (const OptionSpec* option : options(verb)) {
        if (!takes_word(*option)) continue;
        text += "        " + std::string(verb.name) + ":" + pattern(*option);
        if (option->letter != 0) text.insert(text.rfind("|-") + 1, std::string(verb.name) + ":");
        text += ") ";
        if (option->name == "profile")
            text +=
                "COMPREPLY=($(compgen -W \"$(callgate profiles 2>/dev/null | cut -d' ' -f1)\" -- \"$word\"))";
        else if (option->words == "DIR")
            text += "COMPREPLY=($(compgen -d -- \"$word\"))";
        else if (option->words == "FILE")
            text += "COMPREPLY=($(compgen -f -- \"$word\"))";
        else if (!option->words.empty())
            text += "COMPREPLY=($(compgen -W '" + std::string(option->words) + "' -- \"$word\"))";
        else
            text += ":";
        text += "; return ;;\n";
    }
    return text;
}

/// The completion of the command itself takes over where the command begins.
constexpr std::string_view bash_command = R"(    if [[ $verb == run ]]; then
        local at=2 one
        while (( at < COMP_CWORD )); do
            one=${COMP_WORDS[at]}
            case $one in
            --) ((at++)); break ;;
            --*=*) ;;
            -*) case " $valued " in *" $one "*) ((at++)) ;; esac ;;
            *) break ;;
            esac
            ((at++))
        done
        if (( at < COMP_CWORD )) || [[ ${COMP_WORDS[at-1]} == -- ]]; then
            if declare -F _command_offset >/dev/null; then _command_offset $at; else COMPREPLY=($(compgen -f -- "$word")); fi
            return
        fi
    fi
)";

std::string bash() {
    std::string text =
        "# bash completion of callgate\n_callgate() {\n    local word=${COMP_WORDS[COMP_CWORD]}"
        " before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n    COMPREPLY=()\n"
        "    if (( COMP_CWORD == 1 )); then COMPREPLY=($(compgen -W '" +
        verb_names() + " --help --version' -- \"$word\")); return; fi\n";
    text += "    local valued='";
    for (const OptionSpec* option : options(*find_verb("run"))) {
        if (!takes_word(*option)) continue;
        text += "--" + std::string(option->name) + " ";
        if (option->letter != 0) text += std::string("-") + option->letter + " ";
    }
    text += "'\n" + std::string(bash_command) + "    case $verb:$before in\n";
    for (const VerbSpec& verb : verbs()) text += bash_values(verb);
    text += "    esac\n    case $verb:$word in\n";
    for (const VerbSpec& verb : verbs())
        text += "        " + std::string(verb.name) + ":-*) COMPREPLY=($(compgen -W '" + option_names(verb) +
                "' -- \"$word\")) ;;\n";
    text +=
        "        run:*) COMPREPLY=($(compgen -c -- \"$word\")) ;;\n"
        "        check:*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
        "        profiles:*) COMPREPLY=($(compgen -W \"$(callgate profiles 2>/dev/null | cut -d' ' -f1)\" -- "
        "\"$word\")) ;;\n";
    for (const VerbSpec& verb : verbs())
        if (const std::string words = verb_words(verb.name); !words.empty())
            text += "        " + std::string(verb.name) + ":*) COMPREPLY=($(compgen -W '" + words +
                    "' -- \"$word\")) ;;\n";
    return text + "    esac\n}\ncomplete -o bashdefault -o default -F _callgate callgate\n";
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

std::string zsh_option(const OptionSpec& option) {
    const std::string many = option.arity == Arity::many ? "*" : "";
    std::string rest = "[" + zsh_text(option.help) + "]";
    if (takes_word(option)) {
        rest += ":" + zsh_text(option.value) + ":";
        if (option.name == "profile")
            rest += "($(callgate profiles 2>/dev/null | cut -d\" \" -f1))";
        else if (option.words == "FILE" || option.words == "DIR")
            rest += option.words == "DIR" ? "_files -/" : "_files";
        else if (!option.words.empty())
            rest += "(" + std::string(option.words) + ")";
    }
    std::string text = " '" + many + "--" + std::string(option.name) + rest + "'";
    if (option.letter != 0) text += std::string(" '") + many + "-" + option.letter + rest + "'";
    return text;
}

std::string zsh() {
    std::string text = "#compdef callgate\n_callgate() {\n    local -a all\n    all=(";
    for (const VerbSpec& verb : verbs())
        text += " '" + std::string(verb.name) + ":" + zsh_text(verb.summary) + "'";
    text +=
        ")\n    if (( CURRENT == 2 )); then _describe verb all; return; fi\n    local verb=$words[2]\n"
        "    shift words; (( CURRENT-- ))\n    case $verb in\n";
    for (const VerbSpec& verb : verbs()) {
        text += "    " + std::string(verb.name) + ") _arguments -S";
        for (const OptionSpec* option : options(verb)) text += zsh_option(*option);
        const std::string words = verb_words(verb.name);
        if (verb.command)
            text += " '(-)1:command: _command_names -e' '*::arguments: _normal'";
        else if (verb.name == "check")
            text += " '*:file:_files'";
        else if (verb.name == "profiles")
            text += " '1:profile:($(callgate profiles 2>/dev/null | cut -d\" \" -f1))'";
        else if (!words.empty())
            text += " '1:what:(" + words + ")' '*:file:_files'";
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

std::string fish_option(const VerbSpec& verb, const OptionSpec& option) {
    std::string line = "complete -c callgate -n '__fish_seen_subcommand_from " + std::string(verb.name) +
                       "' -l " + std::string(option.name);
    if (option.letter != 0) line += std::string(" -s ") + option.letter;
    if (takes_word(option)) {
        if (option.name == "profile")
            line += " -x -a '(callgate profiles 2>/dev/null | cut -d\" \" -f1)'";
        else if (option.words == "DIR")
            line += " -x -a '(__fish_complete_directories)'";
        else if (option.words == "FILE")
            line += " -r";
        else
            line += " -x" + (option.words.empty() ? "" : " -a " + fish_text(option.words));
    }
    return line + " -d " + fish_text(option.help) + "\n";
}

std::string fish() {
    std::string text = "# fish completion of callgate\ncomplete -c callgate -n __fish_use_subcommand -f\n";
    for (const VerbSpec& verb : verbs()) {
        const std::string name(verb.name);
        text += "complete -c callgate -n __fish_use_subcommand -f -a " + name + " -d " +
                fish_text(verb.summary) + "\n";
        for (const OptionSpec* option : options(verb)) text += fish_option(verb, *option);
        const std::string seen = "complete -c callgate -n '__fish_seen_subcommand_from " + name + "' ";
        if (verb.command) text += seen + "-x -a '(__fish_complete_subcommand)'\n";
        if (const std::string words = verb_words(name); !words.empty())
            text += seen + "-a " + fish_text(words) + "\n";
        if (verb.name == "profiles")
            text += seen + "-f -a '(callgate profiles 2>/dev/null | cut -d\" \" -f1)'\n";
    }
    return text;
}

}  // namespace

int completion(const Arguments& arguments) {
    const std::string& shell = arguments.rest()[0];
    constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
    if (shell == "bash")
        print(bash());
    else if (shell == "zsh")
        print(zsh());
    else if (shell == "fish")
        print(fish());
    else
        throw Failure("no completions for " + shell + "; expected bash, zsh or fish" +
                      suggestion(shell, shells));
    return 0;
}

}  // namespace callgate::cli
