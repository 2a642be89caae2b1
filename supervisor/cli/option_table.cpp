#include "supervisor/cli/option_table.hpp"

#include <algorithm>
#include <array>

#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

using enum Arity;

constexpr std::string_view operation_words = "read write modify create delete metadata execute connect bind";

constexpr OptionSpec json_option{.name = "json", .help = "print JSON"};

constexpr std::array help_options = {
    OptionSpec{.name = "help", .letter = 'h', .help = "show this text"},
};

constexpr std::array allow_options = {
    OptionSpec{"read", 'r', many, "PATH",
               "allow reading; a directory: all beneath it; glob:DIR/PATTERN: names in DIR", "FILE"},
    OptionSpec{"write", 'w', many, "PATH", "allow reading and writing", "FILE"},
    OptionSpec{"execute", 'x', many, "PATH", "allow reading and executing", "FILE"},
    OptionSpec{"deny", 'd', many, "PATH",
               "deny reading, writing, executing and unix sockets; or connect:HOST[:PORT]", "FILE"},
    OptionSpec{"connect", 'c', many, "HOST[:PORT][/udp]",
               "allow connecting; HOST is a name, an address, a block such as 10.0.0.0/8, or unix:PATH"},
    OptionSpec{"bind", 0, many, "[ADDRESS:]PORT[/udp]",
               "allow listening on a port or on ports such as 8000-8999; unix:PATH or @NAME for a socket"},
    OptionSpec{"except", 0, many, "RULE=PATTERN", "leave objects that match PATTERN out of that rule",
               "RULE"},
    OptionSpec{"gpu", 0, many, "N", "add the profile gpu, for this GPU alone: a number or a PCI address"},
    OptionSpec{"default", 0, one, "VERDICT", "the verdict if no rule decides: allow, ask or deny",
               "allow ask deny"},
};

constexpr std::array rule_options = {
    OptionSpec{"profile", 'p', many, "NAME",
               "a shipped or own profile (default: agent; see callgate profiles)", "PROFILE"},
    OptionSpec{"rules", 'R', many, "FILE", "a rule set; replaces the default profile", "FILE"},
    OptionSpec{"rules-json", 0, many, "TEXT", "a rule set as JSON text"},
    OptionSpec{"shared-cache", 0, flag, "",
               "with a +net profile: use and write the package caches in your home, not the run's own"},
    OptionSpec{"no-user-rules", 0, flag, "", "leave out your own accepted rules"},
    OptionSpec{"workdir", 0, one, "DIR", "the work directory (default: the current one)", "DIR"},
    OptionSpec{
        "record", 0, one, "WHAT",
        "minimal: the kernel denies alone if it can, without a record; contested (default): every denial is "
        "recorded; all: static allowances too",
        "minimal contested all"},
};

constexpr std::array limit_options = {
    OptionSpec{"timeout", 0, one, "DURATION", "end the whole tree after 90s, 10m, 1h (exit status 124)"},
    OptionSpec{"grace", 0, one, "DURATION", "time between SIGTERM and the end of the tree (default: 2s)"},
    OptionSpec{"open-files", 0, one, "N", "limit the descriptors of each process"},
    OptionSpec{"file-size", 0, one, "SIZE", "limit the size of files that a process writes: 100M, 2G"},
    OptionSpec{"memory", 0, one, "SIZE", "limit the memory of the whole tree: 512M, 2G (exit status 137)"},
    OptionSpec{"processes", 0, one, "N", "limit the processes of the whole tree; each thread counts (137)"},
    OptionSpec{"cpu", 0, one, "DURATION", "limit the processor time of the whole tree (152)"},
    OptionSpec{"disk", 0, one, "SIZE", "limit what the tree adds to the work directory and ${tmp} (137)"},
    OptionSpec{"idle-timeout", 0, one, "DURATION", "end a tree that writes nothing and uses no CPU (124)"},
};

constexpr std::array surroundings_options = {
    OptionSpec{"env", 0, many, "NAME[=VALUE]", "pass one more environment variable, or set one"},
    OptionSpec{"keep-env", 0, flag, "", "pass every variable that holds no credential"},
    OptionSpec{"cwd", 0, one, "DIR", "start the command in DIR (default: the work directory)", "DIR"},
    OptionSpec{"pass-fd", 0, many, "N", "pass descriptor N to the command (0, 1 and 2 always are)"},
    OptionSpec{"background", 0, one, "WHAT",
               "end (default) processes that the command leaves running, or wait", "end wait"},
    OptionSpec{"die-with-parent", 0, flag, "", "end the run when the process that started callgate ends"},
    OptionSpec{
        "keep-capabilities", 0, Arity::optional, "NAME,..",
        "keep these capabilities, such as setuid,setgid; users: what apt-get, su, initdb, nginx and sshd "
        "need; alone: all (recorded as degraded)",
        "users chown dac_override fowner kill net_bind_service setgid setuid sys_chroot"},
    OptionSpec{"nice", 0, one, "N", "add N to the nice value"},
    OptionSpec{"ionice", 0, one, "CLASS[:N]", "idle, best-effort:0-7 or realtime:0-7"},
    OptionSpec{
        "sni", 0, flag, "",
        "let a connection to a host that is allowed by name through only if its TLS client asks for that "
        "host"},
    OptionSpec{"private-home", 0, flag, "",
               "set HOME and XDG_* to the run's private directory, removed at its end"},
    OptionSpec{"home", 0, one, "DIR",
               "set HOME and XDG_* to DIR, which lasts; project: this work directory's own, made when needed",
               "DIR"},
    OptionSpec{"home-from", 0, many, "FILE",
               "copy FILE of your home into the home of --home, unless that has it; never credentials",
               "FILE"},
};

constexpr std::array decision_options = {
    OptionSpec{
        "ask", 0, one, "WHO",
        "who answers questions: auto (default: you, on the terminal; without one, callgate approve if it "
        "runs), tty, socket, fd:N or never",
        "auto tty socket fd: never"},
    OptionSpec{"ask-timeout", 0, one, "DURATION",
               "deny a question that is not answered in this time (default: 60s)"},
    OptionSpec{"notify", 0, one, "desktop", "tell the desktop when a question waits (by busctl)", "desktop"},
    OptionSpec{"mode", 0, one, "MODE",
               "enforce (default), or audit: deny nothing, and record what would be denied", "enforce audit"},
    OptionSpec{"require", 0, many, "FEATURE[,..]",
               "fail at the start if a feature is missing (see callgate doctor)"},
};

constexpr std::array output_options = {
    OptionSpec{"audit", 0, one, "FILE|fd:N", "write the log there (default: a file in the state directory)",
               "FILE"},
    OptionSpec{"no-audit", 0, flag, "", "keep no log"},
    OptionSpec{"audit-limit", 0, one, "SIZE",
               "end the run when its log is this large (137; default: half of the free space, at least 1G)"},
    OptionSpec{"report", 0, one, "FILE|fd:N", "write one JSON object about the run at its end", "FILE"},
    OptionSpec{"status", 0, one, "fd:N", "write one JSON line when the command itself has ended"},
    OptionSpec{"quiet", 'q', flag, "", "print no footer about denials"},
    OptionSpec{"plain-output", 0, flag, "",
               "on the terminal, show only text and colours of what COMMAND writes"},
    OptionSpec{"verbose", 'v', flag, "", "print warnings about rules, and what the kernel decides alone"},
    OptionSpec{"no-hints", 0, flag, "", "print no options that would allow what was denied"},
    OptionSpec{"json", 0, flag, "", "print the report in place of the footer: one JSON object on stderr"},
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
    OptionSpec{"http", 0, one, "ADDRESS",
               "answer jobs by HTTP at ADDRESS:PORT or unix:PATH, until SIGTERM (docs/http.md)"},
    OptionSpec{"http-token", 0, one, "FILE",
               "--http: the token that requests must bear; needed where others can reach the address",
               "FILE"},
    OptionSpec{"tls-cert", 0, one, "FILE",
               "--http: speak TLS with this certificate, and the chain behind it, in PEM form", "FILE"},
    OptionSpec{"tls-key", 0, one, "FILE", "--http: the key of --tls-cert, which nobody else may read",
               "FILE"},
    OptionSpec{"drain", 0, one, "DURATION",
               "--http: after SIGTERM, let jobs that run end within this time (default: 25s)"},
    OptionSpec{"jobs", 0, one, "N", "--serve, --http: run at most N at a time (default: 64)"},
    OptionSpec{"max-output", 0, one, "SIZE", "keep at most SIZE of each output (default: 10M)"},
    OptionSpec{"compat", 0, flag, "", "answer with \"code\" in place of \"exit_code\""},
};
constexpr auto exec_surroundings = only({"env", "keep-env", "cwd", "background", "keep-capabilities", "nice",
                                         "ionice", "sni", "private-home", "home", "home-from"},
                                        surroundings_options);
constexpr auto exec_output = only({"audit", "no-audit", "audit-limit", "sign-key"}, output_options);
constexpr std::array exec_groups = {
    OptionGroup{"Jobs", job_options},     OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},   OptionGroup{"Decisions", decision_options},
    OptionGroup{"Limits", limit_options}, OptionGroup{"Surroundings", exec_surroundings},
    OptionGroup{"Record", exec_output},   OptionGroup{"Other", help_options},
};

constexpr std::array learn_options = {
    OptionSpec{
        "into", 0, one, "FILE",
        "the rule set to write or to add to (default: your own profile with the work directory's name)",
        "FILE"},
    OptionSpec{"yes", 'y', flag, "", "write without asking, and run the command at most eight times"},
    OptionSpec{"profile", 'p', many, "NAME", "what a new rule set extends (default: agent)", "PROFILE"},
    OptionSpec{"workdir", 0, one, "DIR", "the work directory (default: the current one)", "DIR"},
};
constexpr auto learn_surroundings =
    only({"env", "keep-env", "cwd", "pass-fd", "background", "private-home", "sni"}, surroundings_options);
constexpr std::array learn_groups = {
    OptionGroup{"Rules", learn_options},
    OptionGroup{"Limits", limit_options},
    OptionGroup{"Surroundings", learn_surroundings},
    OptionGroup{"Other", help_options},
};

constexpr std::array json_options = {json_option};
constexpr auto inspect_surroundings = only({"home"}, surroundings_options);
constexpr std::array inspect_groups = {
    OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},
    OptionGroup{"Surroundings", inspect_surroundings},
    OptionGroup{"Output", json_options},
    OptionGroup{"Other", help_options},
};
constexpr std::array explain_options = {
    OptionSpec{"from-log", 0, one, "SEQ",
               "explain this record of LOG, a file or a run (default: the newest log)"},
};
constexpr std::array explain_groups = {
    OptionGroup{"Records", explain_options}, OptionGroup{"Allow and deny", allow_options},
    OptionGroup{"Rules", rule_options},      OptionGroup{"Surroundings", inspect_surroundings},
    OptionGroup{"Output", json_options},     OptionGroup{"Other", help_options},
};
constexpr std::array json_groups = {OptionGroup{"Options", json_options}, OptionGroup{"Other", help_options}};
constexpr std::array plain_groups = {OptionGroup{"Options", help_options}};

constexpr std::array approve_options = {
    OptionSpec{"run", 0, one, "RUN", "answer the questions of this run only", "RUN"},
    OptionSpec{"once", 0, flag, "", "end after one answer"},
    OptionSpec{"exec", 0, one, "PROGRAM", "let a program decide", "FILE"},
    OptionSpec{"notify", 0, flag, "", "ring the terminal's bell and set its title for each question"},
};
constexpr std::array approve_groups = {OptionGroup{"Options", approve_options},
                                       OptionGroup{"Other", help_options}};

constexpr std::array check_options = {
    OptionSpec{"workdir", 0, one, "DIR", "the value of ${workdir} (default: the current directory)", "DIR"},
    json_option,
};
constexpr std::array check_groups = {OptionGroup{"Options", check_options},
                                     OptionGroup{"Other", help_options}};

constexpr std::array audit_options = {
    OptionSpec{"verdict", 0, one, "VERDICT", "allow, ask, deny or kill", "allow ask deny kill"},
    OptionSpec{"operation", 0, one, "OPERATION", "read, modify, create, delete, metadata, execute, ...",
               operation_words},
    OptionSpec{"rule", 0, one, "ID", "decided by this rule, or by default", "RULE"},
    OptionSpec{"object", 0, one, "GLOB", "a path, an address with its port, or @name"},
    OptionSpec{"program", 0, one, "GLOB", "called by this executable"},
    OptionSpec{"tree", 0, one, "PID", "called by this process or, as far as the log shows, by a descendant"},
    OptionSpec{"since", 0, one, "TIME", "2026-11-20T10:11, or a span before now such as 10m"},
    OptionSpec{"until", 0, one, "TIME", "the same"},
};
constexpr std::array audit_output = {
    OptionSpec{
        "follow", 'f', flag, "",
        "tail: follow the log until its run ends; without LOG wait for the next run if there is none, and "
        "follow all until none is left"},
    OptionSpec{"lines", 'n', one, "N", "tail: print N lines (default: 10)"},
    OptionSpec{"by", 0, one, "WHAT", "summary: rule (default), object, program or host",
               "rule object program host"},
    OptionSpec{"format", 0, one, "FORMAT", "export: ecs, ocsf, otlp-json or csv", "ecs ocsf otlp-json csv"},
    OptionSpec{"into", 0, one, "FILE", "suggest: add the rules to this rule set, and print the difference",
               "FILE"},
    OptionSpec{"head", 0, one, "HASH", "verify: require that the log ends in this head (the report has it)"},
    OptionSpec{"key", 0, one, "FILE", "verify: require that this Ed25519 key has signed checkpoints and end",
               "FILE"},
    OptionSpec{"keep", 0, one, "AGE",
               "prune: remove logs of runs that ended longer ago than AGE, such as 30d"},
    json_option,
};
constexpr std::array replay_options = {
    OptionSpec{"rules", 'R', many, "FILE", "replay: the rule set to evaluate the log under", "FILE"},
    OptionSpec{"profile", 'p', many, "NAME", "replay: a profile, in the same way", "PROFILE"},
    OptionSpec{"rules-json", 0, many, "TEXT", "replay: a rule set as JSON text"},
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
    "Runs COMMAND and all that it starts under a rule set. A contested call waits until it is decided, and "
    "every decision is recorded before it takes effect. Options after COMMAND belong to the command.\n"
    "Every option has a variable: --no-user-rules is CALLGATE_NO_USER_RULES=1; one that can be given several "
    "times holds one value per line.\n"
    "Exit status: the command's own; 128+N if signal N ended it; 124 after --timeout; 125 if callgate "
    "failed and nothing ran; 126 and 127 if the command cannot be executed or found.";

constexpr std::string_view exec_text =
    "Reads one JSON job from stdin, runs it as callgate run does, and prints one JSON object: "
    "{\"output\":...,\"error\":...,\"exit_code\":...,\"report\":{...}}. A job has `code` and `language` "
    "(python, bash, sh, node) or a `command`; and workdir, timeout, rules or profiles, stdin, env, limits. "
    "Options hold for every job.\n"
    "Exit status: 0 where the job ran, whatever became of it; 125 where nothing ran, and `error` says why.";

constexpr std::array request_options = {
    OptionSpec{"reason", 0, one, "TEXT", "why it is needed: the question shows it as what the program says"},
};
constexpr std::array request_groups = {
    OptionGroup{"Question", request_options},
    OptionGroup{"Other", help_options},
};

constexpr std::array agent_options = {
    OptionSpec{"listen", 0, one, "SOCKET",
               "where runtimes connect, their listenerPath (default: /run/callgate/agent.sock)", "FILE"},
    OptionSpec{"rules-dir", 0, one, "DIR",
               "the rule sets, each NAME.json; nobody else may write there (default: "
               "/etc/callgate/containers)",
               "DIR"},
    OptionSpec{"logs", 0, one, "DIR", "keep the logs there (default: where those of runs are)", "DIR"},
    OptionSpec{
        "ask", 0, one, "WHO",
        "who answers questions: socket (callgate approve) or never (default: rules that ask are refused)",
        "socket never"},
    OptionSpec{"ask-timeout", 0, one, "DURATION",
               "deny a question that is not answered in this time (default: 60s)"},
    OptionSpec{"seccomp-profile", 0, one, "NAME", "print the seccomp profile of a rule set, and end"},
};
constexpr std::array agent_groups = {
    OptionGroup{"Agent", agent_options},
    OptionGroup{"Other", help_options},
};

constexpr std::string_view agent_text =
    "Supervises containers from outside. A container whose seccomp profile is the one that this verb prints "
    "is handed over by its runtime, runc or crun, and its calls are decided and recorded as those of a run. "
    "The annotation callgate.rules=NAME chooses its rules. Root of the host starts the agent. There is no "
    "Landlock domain, so each call that the rules contest is made on behalf or denied. What runs is "
    "held by ptrace at its start. Rules that name hosts are refused.\n"
    "If the supervisor of a container ends, the calls that it decides fail.";

constexpr std::string_view learn_text =
    "Runs COMMAND in audit mode, which denies nothing: only for commands that you would also run without "
    "callgate. Shows the rules that COMMAND needs, asks, writes them, and runs COMMAND again until there is "
    "nothing to add. What a rule denies is never added, nor what the profile base holds: secrets, and code "
    "that runs later. These are comments, and so are dot directories of the home. To end a server, "
    "interrupt it (Ctrl-C). Without a terminal nothing is written unless --yes is given.\n"
    "Exit status: 0 if the rule set allows what COMMAND did, 1 if rules were not written or each run did "
    "something new, 125 if callgate failed; COMMAND's own if it could not be started.";

constexpr std::array all_verbs = {
    VerbSpec{"run", "[OPTIONS] [--] COMMAND [ARG...]", "run a command, supervised", run_text,
             "callgate run python3 main.py\n"
             "callgate run -r ~/data -c 127.0.0.1:5432 -- ./report --all\n"
             "callgate run -p build --timeout 10m make -j2",
             run_groups, true, 1, 1, run},
    VerbSpec{"exec", "[OPTIONS] < JOB", "run a job given as JSON, answer as JSON (for programs)", exec_text,
             "callgate exec --timeout 60 <<< '{\"language\":\"python\",\"code\":\"print(1)\"}'\n"
             "callgate exec --serve -p python\n"
             "callgate exec --http 127.0.0.1:8080 -p python",
             exec_groups, false, 0, 0, exec},
    VerbSpec{"learn", "[OPTIONS] [--] COMMAND [ARG...]", "make a rule set for a command by running it",
             learn_text,
             "callgate learn -- npm test\n"
             "callgate learn -p python --into rules.json -- ./report --all",
             learn_groups, true, 1, 1, learn},
    VerbSpec{
        "check", "FILE...", "validate rule sets and run their examples",
        "Validates rule sets from any source and runs their examples; starts no command. Prints every error "
        "with file, line and column, and warns of likely mistakes. Exit status: 0 good, 1 "
        "errors or failed examples, 125 wrong use.",
        "callgate check rules.json", check_groups, false, 1, 1000000, check, "FILE", "FILE"},
    VerbSpec{"explain", "[OPTIONS] OPERATION OBJECT [ARG...] [by PROGRAM]",
             "show what a run would decide, and why",
             "Shows what a run would decide, by which rule, whether the kernel decides it alone, which rules "
             "matched and lost, which nearly matched, and what would have to change. "
             "OPERATION is read, write, modify, create, delete, metadata, execute, connect or bind. OBJECT "
             "is a path, "
             "HOST:PORT[/udp], unix:PATH or @name. To execute it is a program as a shell finds it, with its "
             "arguments, which rules with \"argv\" look at. --from-log explains the request of record SEQ "
             "under the given "
             "rules, for the run's work directory.",
             "callgate explain read ~/.ssh/id_ed25519\n"
             "callgate explain execute git push\n"
             "callgate explain -c 127.0.0.1:5432 connect 127.0.0.1:5432 by /usr/bin/psql\n"
             "callgate explain --from-log 12 k3f9ab",
             explain_groups, false, 0, 100000, explain, operation_words, "FILE"},
    VerbSpec{"plan", "[OPTIONS]", "show what the kernel decides alone, what is contested, and why", "",
             "callgate plan\ncallgate plan -R rules.json --record minimal --json", inspect_groups, false, 0,
             0, plan},
    VerbSpec{
        "audit", "VERB [OPTIONS] [LOG...]", "read the logs of runs",
        "VERB is show, tail, summary, verify, replay, suggest, report, export, ls, last or prune. Shows what "
        "runs did, safe for a terminal. LOG is a file, or the name of a run as in the log's name; "
        "without it the newest log is read. verify exits with 0 if the log is whole, 1 if it was tampered "
        "with, 2 if it is incomplete. replay exits with 1 if the given rules would have decided otherwise. "
        "suggest prints a rule set that allows what the logs saw. report makes a page, or Markdown, of a "
        "log: what ran, what was denied, and what would allow it.",
        "callgate audit show --verdict deny\ncallgate audit summary --by object k3f9\ncallgate audit tail "
        "-f\n"
        "callgate audit report --html run.html",
        audit_groups, false, 1, 1000, audit_log,
        "show tail summary verify replay suggest report export ls last prune", "LOG"},
    VerbSpec{
        "approve", "[OPTIONS] [RUN]", "answer the questions of running supervisors",
        "Shows the questions of all runs, or of RUN, and takes the answers: one letter, then Enter. Enter "
        "alone denies. With --exec, PROGRAM gets each question as JSON on stdin and prints "
        "{\"verdict\":\"allow\"|\"deny\"|\"kill\",\"scope\":\"once\"|\"object\"|\"tree\"}; if it "
        "fails, is silent or prints something else, the question is denied.",
        "callgate approve\ncallgate approve --notify k3f9ab\ncallgate approve --exec ./policy",
        approve_groups, false, 0, 1, approve, "RUN"},
    VerbSpec{"ps", "[--json]", "list running supervisors", "", "callgate ps", json_groups, false, 0, 0, ps},
    VerbSpec{"stop", "RUN", "end a run, as SIGTERM does", "", "callgate stop k3f9ab", plain_groups, false, 1,
             1, stop, "RUN"},
    VerbSpec{"grants", "[--json] [RUN]", "list answers that hold for the rest of a run", "",
             "callgate grants k3f9ab", json_groups, false, 0, 1, grants, "RUN"},
    VerbSpec{"revoke", "RUN GRANT", "take a grant back", "", "callgate revoke k3f9ab 2", plain_groups, false,
             2, 2, revoke, "RUN", "GRANT"},
    VerbSpec{
        "request", "[--reason TEXT] [--] OPERATION OBJECT [ARG...]", "ask for access, from within a run",
        "Asks, from within a run, for access that the program will need. It makes that very access, so "
        "the rules decide it, and the person is asked by the usual question. OPERATION is read, write, "
        "execute or connect, and OBJECT a path, a program with its arguments, or HOST:PORT. `write` makes an "
        "empty file where there is none; `execute` executes nothing. "
        "Exit status: 0 granted, 1 refused, 125 wrong use.",
        "callgate request --reason 'the tests need it' read /srv/data.csv", request_groups, false, 2, 1000,
        request, "read write execute connect", "FILE"},
    VerbSpec{
        "mcp", "", "serve an agent within a run: ask for access, explain, list denials",
        "Serves the Model Context Protocol on stdin and stdout. The agent starts it, within the run. Its "
        "tools are request_access, which asks the person and shows the reason; explain, which says what "
        "the rules decide; and denials, which lists what was refused.",
        "callgate mcp", plain_groups, false, 0, 0, mcp},
    VerbSpec{"agent", "[OPTIONS]", "supervise containers that their runtime hands over", agent_text,
             "callgate agent --seccomp-profile web > web-seccomp.json\n"
             "callgate agent --logs /var/log/callgate",
             agent_groups, false, 0, 0, agent},
    VerbSpec{
        "rules", "list | remove ID | pending | accept NAME | drop NAME",
        "list and change your own rules, and those that answers proposed",
        "`list` shows the rules of your own rule set, which every run takes, and `remove` takes one out. An "
        "answer can propose a rule (r): `pending` lists these, `accept` adds one to your rule set, and "
        "`drop` "
        "forgets it. What changes your rule set leaves the rest of it as it is, and prints the difference.",
        "callgate rules pending\ncallgate rules accept k3f9ab-7\ncallgate rules remove accepted-k3f9ab-7",
        plain_groups, false, 1, 2, rules_verb, "list remove pending accept drop", "PENDING"},
    VerbSpec{"profiles", "[NAME]", "list profiles, or print one", "",
             "callgate profiles\ncallgate profiles agent", json_groups, false, 0, 1, profiles, "PROFILE"},
    VerbSpec{"doctor", "[--json]", "show what this host offers, what is missing, and the consequences",
             "Shows what this host offers, what is missing, and the consequences. Exit status: 0 if "
             "`callgate run` works, 1 if it does not.",
             "callgate doctor", json_groups, false, 0, 0, doctor},
    VerbSpec{"completion", "bash|zsh|fish", "print completions for a shell", "",
             "callgate completion bash > ~/.local/share/bash-completion/completions/callgate\n"
             "callgate completion fish > ~/.config/fish/completions/callgate.fish",
             plain_groups, false, 1, 2, completion, "bash zsh fish"},
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
