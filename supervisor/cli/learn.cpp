// `callgate learn` runs a command in audit mode, shows the rules that it would add, and asks. It writes the
// rule set, and runs the command again until there is nothing to add.
//
// Each run is a process of its own, which becomes `callgate run`: a run ends its process. The rules come from
// its log as `audit suggest` makes them. So what opens a secret, or lets code in that runs later, is a
// comment. The command is trusted as in each audited run. Yet what it typed ahead of a question, or left in
// the terminal's modes, does not count. Where there is no rule file at the start, the command may make it. A
// file that is another one than before the run is not written.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/make_directories.hpp"
#include "base/plural.hpp"
#include "base/process/spawn.hpp"
#include "base/read_whole.hpp"
#include "base/words.hpp"
#include "rules/load/shipped.hpp"
#include "supervisor/audit/verbs/suggest.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/rule_text.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

/// Options of `learn` alone. What a rule option allowed, or a variable of one, would be missing in the file.
constexpr std::string_view own_options = "into yes profile help";
constexpr std::string_view rule_words =
    "profile rules rules-json shared-cache read write execute deny connect bind except gpu default";

/// The rule set: its file, and how `run` names it.
struct Place {
    std::string file, option;
};

bool is_plain_name(const std::string& name) {
    const auto plain = [](char one) {
        return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
    };
    for (const char one : name)
        if (!plain(one) && std::string_view("._-+").find(one) == std::string_view::npos) return false;
    return !name.empty() && plain(name.front()) && rules::find_shipped_profile(name) == nullptr;
}

/// --into, or a profile of the user's own that is called as the work directory is. No run can write there.
Place choose_place(const Arguments& arguments, const Places& places) {
    if (const auto file = arguments.value("into"))
        return {own_name(written_out(*file, places.home)), "-R " + shell_quote(*file)};
    const std::string workdir = choose_workdir(arguments, places, true);
    const std::string name = workdir.substr(workdir.rfind('/') + 1);
    if (places.config.empty() || !is_plain_name(name))
        throw Failure("no profile of your own can be called " + (name.empty() ? workdir : name) +
                      "; name the rule set: callgate learn --into FILE");
    return {places.config + "/profiles/" + name + ".json", "-p " + name};
}

std::optional<std::string> read_rule_set(const std::string& file) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
    auto text = read_regular_file(file, max_rule_file);
    if (!text) throw Failure(file + " " + text.error().text);
    return std::move(*text);
}

/// The words of `callgate run` for one round.
std::vector<std::string> run_words(const Arguments& arguments, const std::string& rules, int report,
                                   bool again) {
    std::vector<std::string> words = {"run",
                                      "--mode=audit",
                                      "--ask=never",
                                      "--no-hints",
                                      "--no-audit=false",
                                      "--die-with-parent",
                                      "--no-user-rules",
                                      "--report=fd:" + std::to_string(report)};
    for (const OptionSpec* option : options(*find_verb("learn"))) {
        if (!arguments.has(option->name) || has_word(own_options, option->name)) continue;
        const std::string name = "--" + std::string(option->name);
        if (option->arity == Arity::flag) words.push_back(name);
        for (const std::string& value : arguments.values(option->name)) words.push_back(name + '=' + value);
    }
    if (!rules.empty())
        words.push_back("--rules=" + rules);
    else
        for (const std::string& name : arguments.values("profile")) words.push_back("--profile=" + name);
    if (again) words.emplace_back("--quiet");
    words.emplace_back("--");
    words.insert(words.end(), arguments.rest().begin(), arguments.rest().end());
    return words;
}

/// The terminal's modes, as they were before the command.
class Terminal {
public:
    Terminal() : known_(::tcgetattr(STDIN_FILENO, &modes_) == 0) {}
    /// Whether somebody can be asked.
    [[nodiscard]] bool present() const { return known_ && ::isatty(STDERR_FILENO) != 0; }
    void restore() const {
        if (known_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &modes_);
    }

private:
    termios modes_{};
    bool known_;
};

void show_text(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
}

struct Round {
    int status = exit_failure;  // the exit status of the run
    std::string log;            // "" if nothing ran
    bool interrupted = false;
};

/// The run in a process of its own. An interrupt of the terminal ends the command, and leaves this process.
Round run_once(const Arguments& arguments, const std::string& rules, const Terminal& terminal, bool again) {
    Result<UniqueFd> report = make_file("");
    if (!report) throw Failure("cannot start a process: " + report.error().message());
    const std::vector<std::string> words = run_words(arguments, rules, report->get(), again);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw Failure("cannot start a process: " + std::string(std::strerror(errno)));
    if (child == 0) {
        for (const std::string& option : split(std::string(rule_words), ' '))
            ::unsetenv(variable(option).c_str());
        ::unsetenv("CALLGATE_QUIET");
        std::exit(dispatch(words));
    }
    struct sigaction ignored {
    }, before{};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignored, &before);
    const int ended = reap(child);
    ::sigaction(SIGINT, &before, nullptr);
    terminal.restore();
    Round round;
    round.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    ::lseek(report->get(), 0, SEEK_SET);
    constexpr std::size_t max_report = 16U << 20;
    const Result<std::string> text = read_whole(report->get(), max_report);
    const json_read::json known = json_read::parse_object(text ? *text : "");
    const std::string outcome = json_read::text(json_read::member(known, "outcome"));
    round.interrupted = json_read::number(json_read::member(known, "signal")) == SIGINT;
    if (outcome != "setup_error" && outcome != "exec_failed")
        round.log = json_read::text(json_read::member(known, "audit", "file"));
    return round;
}

enum class Choice : std::uint8_t { again, write, nothing };

/// The first letter of a line counts. What was typed before the question was thrown away.
Choice ask_person(const std::string& file) {
    show_text("callgate: write " + terminal_safe(file) +
              "? y: write it and run the command again, w: write it and end, Enter: neither > ");
    char first = 0, one = 0;
    for (ssize_t got = 0;;) {
        got = ::read(STDIN_FILENO, &one, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) first = 0;
        if (got <= 0 || one == '\n') break;
        if (first == 0) first = one;
    }
    return first == 'y' || first == 'Y'   ? Choice::again
           : first == 'w' || first == 'W' ? Choice::write
                                          : Choice::nothing;
}

/// A signal ends callgate before or after: either the old file stands, or the new one.
void write_rule_set(const Place& place, const std::optional<std::string>& before, const std::string& after) {
    if (read_rule_set(place.file) != before)
        throw Failure(place.file + " was changed while the command ran; nothing was written");
    const Result<void> made = make_directories(place.file.substr(0, place.file.rfind('/')));
    if (!made) throw Failure("cannot write " + place.file + ": " + made.error().message());
    sigset_t all{}, mask{};
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &mask);
    try {
        replace_rule_file(place.file, after);
    } catch (...) {
        ::sigprocmask(SIG_SETMASK, &mask, nullptr);
        throw;
    }
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

audit::Suggested suggest_from(const std::string& log, const Place& place, const Places& places,
                              const std::optional<std::string>& before) {
    audit::SuggestOptions options{
        .state = places.state,
        .logs = {log},
        .home = places.home,
        .account_home = places.account_home,
        .rules_for = {},
        .guard_for = [&places](const std::string& workdir,
                               const std::string& tmp) { return base_rules(places, workdir, tmp); },
        .taken = before.value_or("")};
    if (before)
        options.rules_for = [&](const std::string& workdir, const std::string& tmp) {
            return rules_of_text(places, *before, place.file, workdir, tmp);
        };
    std::ostringstream errors;
    audit::Suggested found = audit::suggest(errors, options);
    if (const std::string text = errors.str(); !text.empty())
        throw Failure("the log of the run cannot be read: " + text.substr(0, text.find('\n')));
    return found;
}

void say_done(const Arguments& arguments, const Place& place, bool exists, bool more) {
    std::string command;
    for (const std::string& word : arguments.rest()) command += ' ' + shell_quote(word);
    std::string option = exists ? place.option + ' ' : "";
    if (!exists)
        for (const std::string& name : arguments.values("profile")) option += "-p " + shell_quote(name) + ' ';
    say((exists ? place.file + " allows" : std::string("no rule set is needed: the profile allows")) +
        " what the command did" + (more ? ", but for what is listed above as a comment" : ""));
    say("from now on: callgate run " + option + "--" + command);
}

}  // namespace

int learn(const Arguments& arguments) {
    constexpr int max_rounds = 8;
    if (arguments.rest().empty())
        throw Failure("the command is missing; usage: callgate learn [OPTIONS] [--] COMMAND [ARG...]");
    const Places places = find_places();
    const Place place = choose_place(arguments, places);
    refuse_link(place.file);
    const Terminal terminal;
    for (int number = 1; number <= max_rounds; ++number) {
        const std::optional<std::string> before = read_rule_set(place.file);
        if (number == 1 && before && arguments.has("profile"))
            say(place.file + " exists: what it extends counts, and not --profile");
        if (number > 1) say("run " + std::to_string(number) + ", which enforces nothing either");
        const Round round = run_once(arguments, before ? place.file : "", terminal, number > 1);
        if (round.log.empty()) return round.status;
        if (round.interrupted && !terminal.present()) {
            say("interrupted; nothing was written");
            return round.status;
        }
        const audit::Suggested found = suggest_from(round.log, place, places, before);
        if (found.rules.empty()) {
            show_text(found.for_a_person);
            say_done(arguments, place, before.has_value(), !found.for_a_person.empty());
            return 0;
        }
        const std::string after =
            before ? with_rules(places, *before, found.rules, place.file) : found.rule_set;
        if (const auto good = check_rules(places, after, place.file); !good)
            throw Failure("the rule set would not be valid any more: " + good.error().text +
                          "; nothing was changed");
        say(plural(found.rules.size(), "rule") + " for " + place.file + ':');
        show_text(difference(before.value_or(""), after) + (before ? found.for_a_person : ""));
        Choice answer = Choice::again;
        if (!arguments.has("yes")) {
            if (!terminal.present()) {
                say("nothing was written, because nobody can be asked here; --yes writes without asking");
                return exit_finding;
            }
            answer = ask_person(place.file);
        }
        if (answer == Choice::nothing) {
            say("nothing was written");
            return exit_finding;
        }
        write_rule_set(place, before, after);
        say("wrote " + place.file);
        if (answer == Choice::write) return 0;
    }
    say("each of " + plural(max_rounds, "run") + " did something new; " + place.file +
        " has the rules so far");
    return exit_finding;
}

}  // namespace callgate::cli
