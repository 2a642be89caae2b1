#include "supervisor/cli/option_table.hpp"

#include <algorithm>
#include <array>

#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

using enum Arity;

constexpr OptionSpec json_option{.name = "json", .help = "print JSON"};

constexpr std::array help_options = {
    OptionSpec{.name = "help", .letter = 'h', .help = "show this text"},
};

constexpr std::array allow_options = {
    OptionSpec{"read", 'r', many, "PATH", "allow reading; a directory: all beneath it", "FILE"},
    OptionSpec{"write", 'w', many, "PATH", "allow reading and writing", "FILE"},
    OptionSpec{"execute", 'x', many, "PATH", "allow reading and executing", "FILE"},
    OptionSpec{"deny", 'd', many, "PATH", "deny reading, writing, executing and unix sockets", "FILE"},
    OptionSpec{"connect", 'c', many, "HOST[:PORT][/udp]",
               "allow connecting; HOST is a name, an address, a block such as 10.0.0.0/8, or unix:PATH"},
    OptionSpec{"bind", 0, many, "PORT[/udp]",
               "allow listening on a port or on ports such as 8000-8999; unix:PATH or @NAME for a socket"},
    OptionSpec{"except", 0, many, "RULE=PATTERN", "what matches PATTERN is left out of that rule"},
    OptionSpec{"default", 0, one, "VERDICT", "allow, ask or deny what no rule decides", "allow ask deny"},
};

constexpr std::array rule_options = {
    OptionSpec{"profile", 'p', many, "NAME",
               "a shipped or own profile (default: agent; see callgate profiles)"},
    OptionSpec{"rules", 'R', many, "FILE", "a rule set; replaces the default profile", "FILE"},
    OptionSpec{"rules-json", 0, many, "TEXT", "a rule set given in place"},
    OptionSpec{"no-user-rules", 0, flag, "", "leave out your own accepted rules"},
    OptionSpec{"workdir", 0, one, "DIR", "the work directory (default: the current one)", "DIR"},
    OptionSpec{
        "record", 0, one, "WHAT",
        "minimal: the kernel denies alone where it can, unrecorded; contested (default): every denial is "
        "recorded; all: static allowances too",
        "minimal contested all"},
};

constexpr std::array limit_options = {
    OptionSpec{"timeout", 0, one, "DURATION", "end the whole tree after 90s, 10m, 1h (exit status 124)"},
    OptionSpec{"grace", 0, one, "DURATION", "time between SIGTERM and the end of the tree (default: 2s)"},
    OptionSpec{"open-files", 0, one, "N", "descriptors of each process"},
    OptionSpec{"file-size", 0, one, "SIZE", "largest file that a process can write: 100M, 2G"},
    OptionSpec{"memory", 0, one, "SIZE", "memory of the whole tree: 512M, 2G (exit status 137)"},
    OptionSpec{"processes", 0, one, "N", "processes of the whole tree, each thread counts (137)"},
    OptionSpec{"cpu", 0, one, "DURATION", "processor time of the whole tree (152)"},
    OptionSpec{"disk", 0, one, "SIZE", "what the tree adds to the work directory and ${tmp} (137)"},
    OptionSpec{"idle-timeout", 0, one, "DURATION", "end a tree that writes nothing and uses no CPU (124)"},
};

constexpr std::array surroundings_options = {
    OptionSpec{"env", 0, many, "NAME[=VALUE]", "pass one more environment variable, or set one"},
    OptionSpec{"keep-env", 0, flag, "", "pass every variable that holds no credential"},
    OptionSpec{"cwd", 0, one, "DIR", "where the command starts (default: the work directory)", "DIR"},
    OptionSpec{"pass-fd", 0, many, "N", "pass descriptor N on (0, 1 and 2 always are)"},
    OptionSpec{"background", 0, one, "WHAT", "end (default) or wait for what the command leaves running",
               "end wait"},
    OptionSpec{"die-with-parent", 0, flag, "", "end the run when the process that started callgate ends"},
    OptionSpec{"keep-capabilities", 0, flag, "", "do not drop capabilities (recorded as degraded)"},
    OptionSpec{"nice", 0, one, "N", "add N to the nice value"},
    OptionSpec{"ionice", 0, one, "CLASS[:N]", "idle, best-effort:0-7 or realtime:0-7"},
    OptionSpec{"private-home", 0, flag, "",
               "HOME and XDG_* name the run's private directory, which goes with it"},
};

constexpr std::array decision_options = {
    OptionSpec{
        "ask", 0, one, "WHO",
        "who answers what the rules ask: auto (default: you, on the terminal, where there is one; else "
        "callgate approve, where it waits), tty, socket, fd:N or never",
        "auto tty socket fd: never"},
    OptionSpec{"ask-timeout", 0, one, "DURATION", "deny what nobody answers in this time (default: 60s)"},
    OptionSpec{"mode", 0, one, "MODE",
               "enforce (default), or audit: nothing is denied, what would have been is recorded",
               "enforce audit"},
    OptionSpec{"require", 0, many, "FEATURE[,..]",
               "fail at the start where one is missing (see callgate doctor)"},
};

constexpr std::array output_options = {
    OptionSpec{"audit", 0, one, "FILE|fd:N", "where the log goes (default: the state directory)", "FILE"},
    OptionSpec{"no-audit", 0, flag, "", "keep no log"},
    OptionSpec{"report", 0, one, "FILE|fd:N", "write one JSON object about the run at its end", "FILE"},
    OptionSpec{"status", 0, one, "fd:N", "write one JSON line when the command itself has ended"},
    OptionSpec{"quiet", 'q', flag, "", "no footer about denials"},
    OptionSpec{"verbose", 'v', flag, "", "say more: warnings about rules, what the kernel holds"},
    OptionSpec{"no-hints", 0, flag, "", "leave the options that would allow it out of the footer"},
    OptionSpec{"json", 0, flag, "", "the footer as JSON"},
    OptionSpec{"syslog", 0, flag, "",
               "copy each record to the system's log (RFC 5424, /dev/log) as it is written"},
    OptionSpec{"sign-key", 0, one, "FILE", "sign the log's checkpoints and end with this Ed25519 key",
               "FILE"},
};

constexpr std::array run_groups = {
    OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},
    OptionGroup{"Decisions", decision_options},
    OptionGroup{"Limits", limit_options},
    OptionGroup{"Surroundings", surroundings_options},
    OptionGroup{"Record and output", output_options},
    OptionGroup{"Other", help_options},
};

/// Some of the options of a group, by name.
template <std::size_t Count, std::size_t All>
consteval std::array<OptionSpec, Count> only(const std::string_view (&names)[Count],
                                             const std::array<OptionSpec, All>& group) {
    std::array<OptionSpec, Count> some;
    for (std::size_t at = 0; at < Count; ++at)
        some[at] = *std::find_if(group.begin(), group.end(),
                                 [&](const OptionSpec& option) { return option.name == names[at]; });
    return some;
}

constexpr std::array job_options = {
    OptionSpec{"serve", 0, flag, "", "answer one job a line, many at once, until the end of stdin"},
    OptionSpec{"jobs", 0, one, "N", "--serve: at most N run at a time (default: 64)"},
    OptionSpec{"max-output", 0, one, "SIZE", "keep at most this of each output (default: 10M)"},
    OptionSpec{"compat", 0, flag, "", "answer with \"code\" in place of \"exit_code\""},
};
constexpr auto exec_surroundings =
    only({"env", "keep-env", "cwd", "background", "keep-capabilities", "nice", "ionice", "private-home"},
         surroundings_options);
constexpr auto exec_output = only({"audit", "no-audit", "sign-key"}, output_options);
constexpr std::array exec_groups = {
    OptionGroup{"Jobs", job_options},     OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},   OptionGroup{"Decisions", decision_options},
    OptionGroup{"Limits", limit_options}, OptionGroup{"Surroundings", exec_surroundings},
    OptionGroup{"Record", exec_output},   OptionGroup{"Other", help_options},
};

constexpr std::array json_options = {json_option};
constexpr std::array inspect_groups = {
    OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},
    OptionGroup{"Output", json_options},
    OptionGroup{"Other", help_options},
};
constexpr std::array explain_options = {
    OptionSpec{"from-log", 0, one, "SEQ",
               "explain this record of LOG, a file or a run (default: the newest log)"},
};
constexpr std::array explain_groups = {
    OptionGroup{"Records", explain_options}, OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},      OptionGroup{"Output", json_options},
    OptionGroup{"Other", help_options},
};
constexpr std::array json_groups = {OptionGroup{"Options", json_options}, OptionGroup{"Other", help_options}};
constexpr std::array plain_groups = {OptionGroup{"Options", help_options}};

constexpr std::array approve_options = {
    OptionSpec{"run", 0, one, "RUN", "the questions of this run only"},
    OptionSpec{"once", 0, flag, "", "end after one answer"},
    OptionSpec{"exec", 0, one, "PROGRAM", "let a program decide", "FILE"},
    OptionSpec{"notify", 0, flag, "", "ring the terminal's bell and set its title for each question"},
};
constexpr std::array approve_groups = {OptionGroup{"Options", approve_options},
                                       OptionGroup{"Other", help_options}};

constexpr std::array check_options = {
    OptionSpec{"workdir", 0, one, "DIR", "what ${workdir} stands for (default: the current directory)",
               "DIR"},
    json_option,
};
constexpr std::array check_groups = {OptionGroup{"Options", check_options},
                                     OptionGroup{"Other", help_options}};

constexpr std::array audit_options = {
    OptionSpec{"verdict", 0, one, "VERDICT", "allow, ask, deny or kill", "allow ask deny kill"},
    OptionSpec{"operation", 0, one, "OPERATION", "read, modify, create, delete, metadata, execute, ...",
               "read write modify create delete metadata execute connect bind"},
    OptionSpec{"rule", 0, one, "ID", "decided by this rule, or by default"},
    OptionSpec{"object", 0, one, "GLOB", "a path, an address with its port, or @name"},
    OptionSpec{"program", 0, one, "GLOB", "asked by this executable"},
    OptionSpec{"tree", 0, one, "PID",
               "asked by this process or, as far as the log tells, by what it started"},
    OptionSpec{"since", 0, one, "TIME", "2026-11-20T10:11, or a span before now such as 10m"},
    OptionSpec{"until", 0, one, "TIME", "the same"},
};
constexpr std::array audit_output = {
    OptionSpec{"follow", 'f', flag, "",
               "tail: go on until the run has ended; without LOG, over all runs until none is going on"},
    OptionSpec{"lines", 'n', one, "N", "tail: how many lines (default: 10)"},
    OptionSpec{"by", 0, one, "WHAT", "summary: rule (default), object, program or host",
               "rule object program host"},
    OptionSpec{"format", 0, one, "FORMAT", "export: ecs, ocsf, otlp-json or csv", "ecs ocsf otlp-json csv"},
    OptionSpec{"into", 0, one, "FILE", "suggest: put the rules into this rule set; shows what is added",
               "FILE"},
    OptionSpec{"head", 0, one, "HASH", "verify: the head that the log must end in (the report has it)"},
    OptionSpec{"key", 0, one, "FILE", "verify: checkpoints and end must be signed by this Ed25519 key",
               "FILE"},
    OptionSpec{"keep", 0, one, "AGE", "prune: remove the logs of runs that ended longer ago, such as 30d"},
    json_option,
};
constexpr std::array replay_options = {
    OptionSpec{"rules", 'R', many, "FILE", "replay: the rule set that the log is judged by", "FILE"},
    OptionSpec{"profile", 'p', many, "NAME", "replay: a profile, in the same way"},
    OptionSpec{"rules-json", 0, many, "TEXT", "replay: a rule set given in place"},
    OptionSpec{"no-user-rules", 0, flag, "", "replay: leave out your own accepted rules"},
};
constexpr std::array report_options = {
    OptionSpec{"html", 0, one, "FILE", "report: one page for a browser (- is stdout)", "FILE"},
    OptionSpec{"markdown", 0, Arity::optional, "FILE",
               "report: Markdown for a pull request, on stdout or in FILE"},
};
constexpr std::array audit_groups = {
    OptionGroup{"Which records", audit_options}, OptionGroup{"Output", audit_output},
    OptionGroup{"Replay", replay_options},       OptionGroup{"Replay: allow and deny", allow_options},
    OptionGroup{"Report", report_options},       OptionGroup{"Other", help_options},
};

constexpr std::string_view run_text =
    "Runs COMMAND and all that it starts under a rule set. What the rules contest waits until it is decided; "
    "every decision is recorded before it takes effect. Options after COMMAND belong to the command.\n"
    "Every option has a variable: --no-user-rules is CALLGATE_NO_USER_RULES=1; one that can be given several "
    "times holds one value per line.\n"
    "Exit status: the command's own; 128+N when signal N ended it; 124 after --timeout; 125 where callgate "
    "failed and nothing ran; 126 and 127 where the command cannot be executed or found.";

constexpr std::string_view exec_text =
    "Reads one JSON job from stdin, runs it as callgate run does, and prints one JSON object: "
    "{\"output\":...,\"error\":...,\"exit_code\":...,\"report\":{...}}. A job has `code` and `language` "
    "(python, bash, sh, node) or a `command`; and workdir, timeout, rules or profiles, stdin, env, limits. "
    "Options hold for every job.\n"
    "Exit status: 0 where the job ran, whatever became of it; 125 where nothing ran, and `error` says why.";

constexpr std::array all_verbs = {
    VerbSpec{"run", "[OPTIONS] [--] COMMAND [ARG...]", "run a command, supervised", run_text,
             "callgate run python3 main.py\n"
             "callgate run -r ~/data -c 127.0.0.1:5432 -- ./report --all\n"
             "callgate run -p build --timeout 10m make -j2",
             run_groups, true, 1, 1, run},
    VerbSpec{"exec", "[OPTIONS] < JOB", "run a job given as JSON, answer as JSON (for programs)", exec_text,
             "callgate exec --timeout 60 <<< '{\"language\":\"python\",\"code\":\"print(1)\"}'\n"
             "callgate exec --serve -p python",
             exec_groups, false, 0, 0, exec},
    VerbSpec{"check", "FILE...", "validate rule sets and run their examples",
             "Validates rule sets of anybody and runs their examples; nothing else runs. Prints every error "
             "with file, line and column, and what is likely a mistake. Exit status: 0 good, 1 "
             "errors or failed examples, 125 wrong use.",
             "callgate check rules.json", check_groups, false, 1, 1000000, check},
    VerbSpec{
        "explain", "[OPTIONS] OPERATION OBJECT [by PROGRAM]", "show what a run would decide, and why",
        "Shows what a run would decide, by which rule, whether the kernel decides it alone, which rules "
        "matched and lost, which nearly matched, and what would have to change. "
        "OPERATION is read, write, modify, create, delete, metadata, execute, connect or bind. OBJECT "
        "is a path, "
        "HOST:PORT[/udp], unix:PATH or @name. With --from-log what record SEQ asked for is explained under "
        "the rules that are given, for the run's work directory.",
        "callgate explain read ~/.ssh/id_ed25519\n"
        "callgate explain -c 127.0.0.1:5432 connect 127.0.0.1:5432 by /usr/bin/psql\n"
        "callgate explain --from-log 12 k3f9ab",
        explain_groups, false, 0, 4, explain},
    VerbSpec{"plan", "[OPTIONS]", "show what the kernel decides alone, what is contested, and why", "",
             "callgate plan\ncallgate plan -R rules.json --record minimal --json", inspect_groups, false, 0,
             0, plan},
    VerbSpec{
        "audit", "VERB [OPTIONS] [LOG...]", "read the logs of runs",
        "VERB is show, tail, summary, verify, replay, suggest, report, export, ls, last or prune. Shows what "
        "runs did, safe for a terminal. LOG is a file or the name of a run, as in the log's name; "
        "without it the newest log. verify exits with 0 where the log is whole, 1 where it was tampered "
        "with, 2 where it is incomplete; replay with 1 where another rule set would have said something "
        "else; suggest prints a rule set that allows what the logs saw; report makes one page, or Markdown, "
        "of a "
        "log: what ran, what was denied, and what would allow it.",
        "callgate audit show --verdict deny\ncallgate audit summary --by object k3f9\ncallgate audit tail "
        "-f\n"
        "callgate audit report --html run.html",
        audit_groups, false, 1, 1000, audit_log},
    VerbSpec{
        "approve", "[OPTIONS] [RUN]", "answer the questions of running supervisors",
        "Shows the questions of all runs, or of RUN, and takes the answers: one letter, then Enter. Enter "
        "alone denies. With --exec, PROGRAM gets each question as JSON on stdin and prints "
        "{\"verdict\":\"allow\"|\"deny\"|\"kill\",\"scope\":\"once\"|\"object\"|\"tree\"}; its failure, "
        "silence or "
        "nonsense denies.",
        "callgate approve\ncallgate approve --notify k3f9ab\ncallgate approve --exec ./policy",
        approve_groups, false, 0, 1, approve},
    VerbSpec{"ps", "[--json]", "list running supervisors", "", "callgate ps", json_groups, false, 0, 0, ps},
    VerbSpec{"stop", "RUN", "end a run, as SIGTERM does", "", "callgate stop k3f9ab", plain_groups, false, 1,
             1, stop},
    VerbSpec{"grants", "[--json] [RUN]", "list what was allowed or denied for the rest of runs", "",
             "callgate grants k3f9ab", json_groups, false, 0, 1, grants},
    VerbSpec{"revoke", "RUN GRANT", "take a grant back", "", "callgate revoke k3f9ab 2", plain_groups, false,
             2, 2, revoke},
    VerbSpec{
        "rules", "pending | accept NAME | drop NAME", "rules that answers proposed: list, take over, drop",
        "Answers can propose a rule (r). `accept` puts it into your rule set, keeps what stands there as it "
        "is, and shows the difference.",
        "callgate rules pending\ncallgate rules accept k3f9ab-7", plain_groups, false, 1, 2, rules_verb},
    VerbSpec{"profiles", "[NAME]", "list the rule sets that can be named, or print one", "",
             "callgate profiles\ncallgate profiles agent", json_groups, false, 0, 1, profiles},
    VerbSpec{"doctor", "[--json]", "show what this machine offers, what is missing, and what follows",
             "Shows what this machine offers, what is missing and what follows. Exit status: 0 where "
             "`callgate run` works, 1 where it does not.",
             "callgate doctor", json_groups, false, 0, 0, doctor},
    VerbSpec{"completion", "bash|zsh|fish", "print completions for a shell", "",
             "callgate completion bash > ~/.local/share/bash-completion/completions/callgate\n"
             "callgate completion fish > ~/.config/fish/completions/callgate.fish",
             plain_groups, false, 1, 1, completion},
};

}  // namespace

std::span<const VerbSpec> verbs() { return all_verbs; }

const VerbSpec* find_verb(std::string_view name) {
    const auto found = std::find_if(all_verbs.begin(), all_verbs.end(),
                                    [name](const VerbSpec& verb) { return verb.name == name; });
    return found == all_verbs.end() ? nullptr : &*found;
}

std::vector<const OptionSpec*> options(const VerbSpec& verb) {
    std::vector<const OptionSpec*> all;
    for (const OptionGroup& group : verb.groups)
        for (const OptionSpec& option : group.options) all.push_back(&option);
    return all;
}

std::string variable(std::string_view option) {
    std::string name = "CALLGATE_";
    for (const char one : option)
        name += one == '-' ? '_' : static_cast<char>(one >= 'a' && one <= 'z' ? one - 'a' + 'A' : one);
    return name;
}

}  // namespace callgate::cli
