#include "supervisor/cli/run_setup.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent/handover.hpp"
#include "agent/landlock.hpp"
#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "rules/load/shipped.hpp"
#include "rules/plan/plan_audit.hpp"
#include "supervisor/approval/terminal/person_terminal.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/in_run.hpp"
#include "supervisor/cli/kept_capabilities.hpp"
#include "supervisor/cli/lasting_home.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/host/built_in_rules.hpp"
#include "supervisor/host/link_record.hpp"
#include "supervisor/nested/outer_run.hpp"
#include "supervisor/run/setup_error.hpp"

namespace callgate::cli {

std::string random_run_name() {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::array<std::uint32_t, 6> numbers{};
    if (::getrandom(numbers.data(), sizeof numbers, 0) != static_cast<ssize_t>(sizeof numbers))
        throw Failure("the kernel gives no random numbers: " + std::string(std::strerror(errno)));
    std::string name;
    for (const std::uint32_t number : numbers) name += letters[number % letters.size()];
    return name;
}

namespace {

/// Names the run and its private directory. The guardian makes that with mkdir, so it is never one that
/// another process prepared. A directory that surely cannot be made is an error before anything else happens.
void name_run(Request& request) {
    struct stat status {};
    do {
        request.run = random_run_name();
        request.temporary_directory = private_directory_name(request.run);
        request.denials = denials_name(request.temporary_directory);
    } while (::lstat(request.temporary_directory.c_str(), &status) == 0 ||
             ::lstat(request.denials.c_str(), &status) == 0);
    const std::string parent = request.temporary_directory.substr(0, request.temporary_directory.rfind('/'));
    if (::access((parent + "/.").c_str(), W_OK | X_OK) != 0)
        throw Failure(no_private_directory(request.temporary_directory, errno));
}

std::string start_directory(const Arguments& arguments, const Places& places, const std::string& workdir,
                            LinkedPaths& linked) {
    const std::optional<std::string> named = arguments.value("cwd");
    if (!named) return workdir;
    std::string directory =
        linked.resolve(arguments.origin("cwd") + " " + *named, written_out(*named, places.home), false);
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0)
        throw Failure(arguments.origin("cwd") + " " + *named + ": " + std::strerror(errno) +
                      "; expected an existing directory");
    if (!S_ISDIR(status.st_mode)) throw Failure(arguments.origin("cwd") + " " + *named + ": not a directory");
    return directory;
}

/// Audit mode: the user's rules are only observed. callgate's own rules hold, which protect its files
/// (docs/dev/architecture.md, invariant 9). `built_in` is them.
void observe_rules(std::vector<rules::Rule> built_in, const rules::FileTree& tree, bool quiet,
                   Compiled& compiled) {
    const rules::PlanInput input{.landlock_abi = compiled.plan.landlock_abi,
                                 .record = compiled.plan.record,
                                 .tree = &tree,
                                 .shared_memory = shared_memory(),
                                 .processes = decides_processes(),
                                 .sockets_on_behalf = agent::pidfd_getfd_refused(),
                                 .reasons = false};
    if (input.record == rules::RecordMode::minimal)
        compiled.plan = rules::make_plan(*compiled.rules, rules::observing(input));
    compiled.enforced = std::make_shared<const rules::RuleSet>(std::move(built_in), rules::Action::allow);
    compiled.observed_plan = std::move(compiled.plan);
    compiled.plan = rules::make_audit_plan(*compiled.enforced, *compiled.observed_plan, input);
    if (quiet) return;
    say("audit mode: NOTHING IS ENFORCED; what the rules would deny happens, and is recorded");
    say("audit mode: still closed: callgate's own files, and what cannot be observed (io_uring, raw sockets, "
        "other architectures, processes and shared objects outside the run)");
}

/// Compares the needs of these rules with the seccomp profile around us. Rules that could run nothing at all
/// are an error. That sockets are made on behalf is on record.
void check_container(const Container& container, Compiled& compiled) {
    if (!container.ptrace && (compiled.plan.notify_only_execute || compiled.rules->needs_party()))
        throw Failure(
            "the seccomp profile of this container refuses ptrace, and with these rules every execution must "
            "be held by it (something may be executed where reading or executing is decided one by one, or "
            "the rules tell an agent from its tools: see callgate plan); " +
            std::string(add_ptrace) + ", or give rules without that");
    if (compiled.plan.sockets_on_behalf) compiled.degraded.emplace_back("descriptor-copy");
}

/// The terminal is shared where a descriptor of it is handed in, or where no other can be made.
bool terminal_is_shared(const Request& request, const approval::PersonTerminal& person) {
    for (const int passed : request.pass) {
        if (!person.is(passed)) continue;
        if (request.ask.who == approval::AskSettings::Who::terminal)
            throw Failure("--pass-fd " + std::to_string(passed) +
                          " is the terminal that you are asked on: the command could answer itself; give "
                          "--ask socket");
        return true;
    }
    return false;
}

/// The relay alone filters, so a terminal that it does not relay gets every byte.
void check_plain_output(const Request& request, const TerminalChoice& choice) {
    if (!request.plain_output) return;
    const auto person = approval::PersonTerminal::find();
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
        if (::isatty(fd) != 0 && !(choice.terminal && person && person->is(fd)))
            throw Failure(
                "--plain-output would filter nothing: the command writes to a terminal that callgate does "
                "not "
                "relay (--mode audit, --pass-fd of it, or not the controlling one); leave the option out, or "
                "give the output to a pipe");
}

/// The run never holds the person's terminal: a process that leaves its session is under no job control. It
/// could read what is typed for others, take the foreground or change modes, in the background too. It gets a
/// terminal of its own where a standard descriptor is the person's. Elsewhere it gives the controlling
/// terminal up. Audit mode enforces nothing, and asks nobody.
TerminalChoice choose_terminal(Request& request) {
    using Who = approval::AskSettings::Who;
    TerminalChoice choice;
    const bool asked = request.ask.who == Who::terminal;
    if ((request.mode != Mode::enforce && !asked) || !check_enabled("own-terminal")) return choice;
    if (asked) choice.terminal = std::make_shared<approval::Terminal>();
    const auto person = approval::PersonTerminal::find();
    if (!person || terminal_is_shared(request, *person)) return choice;
    if (!asked && person->is_standard()) {
        choice.terminal = approval::Terminal::at_hand();
        if (!choice.terminal) return choice;
    }
    request.leave_terminal = !choice.terminal;
    choice.closed_name = person->name();
    return choice;
}

/// A file that callgate writes by name: itself, if the run must be kept from it. FIFOs and devices are
/// written as they are, and are closed to nobody.
std::string closed_name(const std::string& path) {
    struct stat status {};
    const bool shared = !path.empty() && ::lstat(path.c_str(), &status) == 0 &&
                        (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
    return shared ? "" : path;
}

std::vector<std::string> own_files(const Arguments& arguments, const Request& request,
                                   const std::string& home) {
    std::vector<std::string> all{closed_name(request.report.path)};
    if (request.audit.kind == AuditTarget::Kind::file) {
        const std::string log = closed_name(request.audit.path);
        all.insert(all.end(), {log, log.empty() ? "" : log + ".torn"});
    }
    if (const auto key = arguments.value("sign-key")) {
        all.push_back(absolute(*key, home));
        all.push_back(own_name(written_out(*key, home)));
    }
    return all;
}

/// The record of roots is kept whatever becomes of the log: without a state directory, the report says so.
bool has_state_directory(const Request& request, const std::string& state) {
    if (request.audit.kind == AuditTarget::Kind::directory) return true;  // it was made
    try {
        make_state_directory(state, "");
        return true;
    } catch (const Failure&) {
        return false;
    }
}

/// Refuses paths that lead through a link which these rules or an earlier run let a run make. What these
/// rules let it make is on record before the command begins. Audit mode lets a run change everything, and is
/// for commands that are trusted: their links are the user's.
void settle_links(const RequestedRun& requested, LinkedPaths linked, Compiled& compiled) {
    const Request& request = requested.request;
    const std::string& state = requested.places.state;
    rules::LinkRoots roots, pointers;
    if (request.mode != Mode::audit) {
        roots = rules::LinkRoots(*compiled.enforced, request.temporary_directory);
        pointers = rules::LinkRoots::of_pointers(*compiled.enforced, request.temporary_directory);
    }
    // The record of earlier runs is closed to a nested one, whose links the run around has held.
    if (request.outer == nullptr && has_state_directory(request, state)) {
        const Expected<rules::LinkRoots> noted = record_pointer_roots(state, pointers);
        Expected<rules::LinkRoots> all = noted ? record_link_roots(state, roots) : noted;
        if (!all)
            throw Failure(all.error().text + "; without that record no later run could be safe from links");
        roots = std::move(*all);
        compiled.note_tree = [state](const std::string& directory) {
            rules::LinkRoots tree;
            tree.add(directory);
            return record_pointer_roots(state, tree).has_value() &&
                   record_link_roots(state, tree).has_value();
        };
    } else if (request.outer == nullptr) {
        compiled.degraded.emplace_back("link-record");
    }
    linked.append(requested.linked);
    linked.require_no_links_of_runs(roots, requested.places);
}

/// The resolved file that would run; "" if there is none.
std::string program_of(const std::vector<std::string>& candidates, const std::string& directory) {
    const auto exists = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
    const auto found = std::ranges::find_if(candidates, exists);
    if (found == candidates.end()) return "";
    return canonical(found->starts_with('/') ? *found : directory + '/' + *found);
}

bool is_one(const std::vector<rules::Glob>& programs, const std::string& path) {
    return std::ranges::any_of(programs, [&](const rules::Glob& glob) { return glob.matches(path); });
}

/// The agent's program that runs where the command is `path`; "" if there is none. A launcher's program lies
/// in a node_modules of a directory above it, as node looks for packages. Somebody may have put another
/// there. It must match the agent's own patterns, and find_agent refuses one that tools may write.
std::string agent_program(const rules::Agent& agent, const std::string& path) {
    if (is_one(agent.programs, path)) return path;
    if (!is_one(agent.launchers, path)) return "";
    for (std::size_t end = path.rfind('/'); end != 0 && end != std::string::npos;
         end = path.rfind('/', end - 1)) {
        for (const std::string& name : agent.starts) {
            const std::string found = path.substr(0, end) + "/node_modules/" + name;
            if (::access(found.c_str(), X_OK) != 0) continue;
            std::string program = canonical(found);
            return is_one(agent.programs, program) || !check_enabled("agent-launched") ? program : "";
        }
    }
    return "";
}

/// The name of a shipped profile for an agent that is called like this; "" if there is none.
std::string profile_of_agent(const std::string& command) {
    const std::string name = command.substr(command.rfind('/') + 1);
    const rules::ShippedProfile* const profile = rules::find_shipped_profile(name);
    return profile != nullptr && rules::root(profile->tree).member("agent") ? name : "";
}

/// The run around notes the denials of both in its own list.
std::string list_of_denials(const Request& request) {
    const std::string outer = request.outer != nullptr ? request.outer->denials() : "";
    return outer.empty() ? request.denials : outer;
}

/// An agent is run under its own profile: by the file that runs, never by its name alone. With --quiet it is
/// not, because nothing would say so. Jobs are quiet: a model may have chosen their command, and gets no
/// agent's login by that.
CompiledRules load_rules(const Arguments& arguments, const RequestedRun& requested,
                         const TerminalChoice& terminal, const rules::FileTree& tree) {
    const Request& request = requested.request;
    rules::LoadContext context =
        host_context(requested.places, request.workdir, request.temporary_directory, tree);
    if (!request.lasting_home.empty()) context.user_home = std::exchange(context.home, request.lasting_home);
    const GitRepository repository = choose_repository(context, requested.places);
    refresh_pointer(repository);
    if (const std::string text = describe(repository, request.workdir);
        !text.empty() && !request.quiet && (request.verbose || !repository.why.empty()))
        say(text);
    CompileOptions options{.own_files = own_files(arguments, request, requested.places.home),
                           .warnings = request.verbose,
                           .reasons = false,
                           .terminal = terminal.closed_name,
                           .nested = request.outer != nullptr,
                           .outer_denials = request.outer != nullptr ? list_of_denials(request) : ""};
    const std::string& command = arguments.rest()[0];
    const std::string own = request.quiet || names_rules(arguments) ? "" : profile_of_agent(command);
    if (own.empty()) return compile_rules(arguments, requested.places, context, options);
    const std::string program =
        program_of(executable_candidates(command, current_environment()), request.directory);
    const std::string usual = std::exchange(options.profile, own);
    CompiledRules made = compile_rules(arguments, requested.places, context, options);
    if (const std::string agent = agent_program(made.loaded.agent, program); !agent.empty()) {
        say("profile " + own + " for " + program + (agent == program ? "" : ", which starts " + agent) +
            "; -p agent runs it as any program");
        return made;
    }
    if (!program.empty())
        say(program + " is not what the profile " + own + " is for; it runs under " + usual);
    options.profile = usual;
    return compile_rules(arguments, requested.places, context, options);
}

/// The agent is the command by the file that really runs, and never by its name alone. It is run itself in
/// place of a launcher, because the launcher's child would be a tool.
void find_agent(const Request& request, const Compiled& compiled, Command& command) {
    const std::string found = program_of(command.executables, request.directory);
    if (found.empty()) return;
    const std::string program = agent_program(compiled.agent, found);
    struct stat status {};
    if (program.empty() || ::stat(program.c_str(), &status) != 0) {
        if (!request.quiet)
            say(found + " is not the agent that these rules are for: all that runs is judged as its tools");
        return;
    }
    for (const rules::Operation operation : rules::write_operations) {
        const rules::Request write{operation, rules::FileObject{program}, {}, {}, rules::Party::tools};
        if (compiled.rules->evaluate(write).action == rules::Action::allow)
            throw Failure(
                "the agent " + program +
                " may be written in this run, so its tools could put their code into it: install it "
                "outside the work directory");
    }
    command.agent = audit::FileIdentity{status.st_ino, status.st_dev};
    const std::vector<std::string>& arguments = compiled.agent.arguments;
    if (program != found) command.executables = {command.words[0] = program};
    command.words.insert(command.words.begin() + 1, arguments.begin(), arguments.end());
    if (!request.verbose) return;
    say(program + " is the agent; what it starts is judged as its tools");
    if (!arguments.empty()) say("its profile adds the arguments: " + joined(arguments, " "));
}

/// Options of which the run around this one decides.
void refuse_outer_options(const Arguments& arguments, const Request& request) {
    if (arguments.has("notify"))
        throw Failure(arguments.origin("notify") + " has no meaning in a nested run: run " +
                      request.outer->run() + " asks its questions; leave it out");
    constexpr std::string_view of_log[] = {"audit", "sign-key", "syslog", "audit-limit"};
    for (const std::string_view option : of_log)
        if (arguments.has(option))
            throw Failure(arguments.origin(option) + " has no meaning in a nested run: run " +
                          request.outer->run() + " keeps the log of its calls; leave it out");
    if (arguments.has("keep-capabilities"))
        throw Failure(
            "--keep-capabilities has no meaning in a nested run: no run around one has capabilities; leave "
            "it out");
    if (request.mode == Mode::audit)
        throw Failure("a nested run cannot be in audit mode: run " + request.outer->run() +
                      " enforces its rules; leave out --mode audit, or start the command without callgate");
    using Who = approval::AskSettings::Who;
    if (request.ask.who != Who::automatic && request.ask.who != Who::never)
        throw Failure("the questions of a nested run are asked where those of run " + request.outer->run() +
                      " are; give --ask never, or leave --ask out");
}

}  // namespace

void make_state_directory(const std::string& state, const std::string& advice) {
    if (state.empty())
        throw Failure("there is no place for the log: HOME and XDG_STATE_HOME are not set" + advice);
    if (::access(state.c_str(), W_OK | X_OK) == 0) return;
    for (std::size_t end = state.find('/', 1); end != std::string::npos; end = state.find('/', end + 1))
        (void)::mkdir(state.substr(0, end).c_str(), 0700);  // a failure shows in the last one
    if (::mkdir(state.c_str(), 0700) != 0 && errno != EEXIST)
        throw Failure("cannot make the state directory " + state + ": " + std::strerror(errno) + advice);
    if (::access(state.c_str(), W_OK | X_OK) != 0)
        throw Failure("cannot write in the state directory " + state + ": " + std::strerror(errno) + advice);
}

/// CALLGATE says that there may be one: a look for a listener would go on that run's record.
std::shared_ptr<nested::OuterRun> find_outer_run(bool quiet, Platform& platform) {
    const bool said = says_it_is_in_run();
    if (!said) {
        platform = probe_platform();
        if (platform.listener != Platform::Listener::nested) return nullptr;
    }
    Expected<nested::OuterRun> found = nested::OuterRun::find();
    if (!found) {
        if (said) platform = probe_platform();
        if (platform.listener == Platform::Listener::nested) throw Failure(obstacle(platform).value_or(""));
        if (said && !quiet) say("CALLGATE is set, but no run is around this one: the variable was left over");
        return nullptr;
    }
    if (utsname names{}; ::uname(&names) == 0) platform.kernel = names.release;
    platform.listener = Platform::Listener::available;
    platform.landlock_abi = agent::kernel_landlock_abi();
    return std::make_shared<nested::OuterRun>(std::move(*found));
}

RequestedRun read_request(const Arguments& arguments, const Caller& caller, RunFacts& known) {
    ::prctl(PR_SET_NAME, "callgate");  // started by `callgate exec` the name would be another
    RequestedRun requested;
    requested.request.outer = find_outer_run(arguments.has("quiet"), requested.platform);
    if (const auto why = obstacle(requested.platform)) throw Failure(*why);
    require_features(arguments);
    const Places& places = requested.places = find_places();
    Request& request = requested.request;
    request.caller = caller;
    known.workdir = request.workdir = choose_workdir(arguments, places, true, requested.linked);
    require_letter_case("your home " + places.home, places.home);
    request.directory = start_directory(arguments, places, request.workdir, requested.linked);
    known.mode = request.mode = read_mode(arguments);
    read_run_options(arguments, places, request, requested.linked);
    const LastingHome home = choose_lasting_home(arguments, places, request.workdir, requested.linked);
    request.lasting_home = home.path;
    if (request.outer != nullptr) {
        refuse_outer_options(arguments, request);
        request.audit.kind = AuditTarget::Kind::none;
    } else {
        requested.linked.require_no_recorded_links(places);
    }
    make_lasting_home(home, places, request.workdir);
    if (request.audit.kind == AuditTarget::Kind::directory)
        make_state_directory(request.audit.path, "; give --audit FILE, or --no-audit to keep no log");
    name_run(request);
    known.run = request.run;
    if (!request.quiet) say_doubtful_paths(arguments, places.home);
    if (request.outer == nullptr) requested.terminal = choose_terminal(request);
    check_plain_output(request, requested.terminal);
    return requested;
}

Compiled compile(const Arguments& arguments, const RequestedRun& requested, TerminalChoice terminal,
                 const rules::FileTree& tree) {
    const Request& request = requested.request;
    CompiledRules made = load_rules(arguments, requested, terminal, tree);
    Compiled compiled;
    compiled.rules = compiled.enforced = std::move(made.loaded.rules);
    compiled.plan = std::move(made.plan);
    compiled.profiles = std::move(made.choice.profiles);
    compiled.rules_sha256 = std::move(made.loaded.sha256);
    compiled.snapshot = std::move(made.loaded.snapshot);
    compiled.sni = made.loaded.sni || arguments.has("sni");
    compiled.limits = made.loaded.limits;
    compiled.environment = std::move(made.loaded.environment);
    compiled.agent = std::move(made.loaded.agent);
    compiled.terminal = std::move(terminal.terminal);
    if (request.mode == Mode::audit)
        observe_rules(std::move(made.choice.sources.built_in), tree, request.quiet, compiled);
    settle_links(requested, std::move(made.choice.linked), compiled);
    compiled.name_files =
        request.outer == nullptr && std::ranges::any_of(compiled.rules->rules(), [](const rules::Rule& rule) {
            return rule.built_in && rule.id == name_files_rule;
        });
    if (compiled.name_files) compiled.degraded.emplace_back("names-tcp-only");
    if (request.keep_capabilities != 0) compiled.degraded.push_back(degraded_by(request.keep_capabilities));
    check_container(requested.platform.container, compiled);
    return compiled;
}

Command make_command(const Arguments& arguments, const RequestedRun& requested, const Compiled& compiled) {
    const Request& request = requested.request;
    const std::vector<std::string> current = current_environment();
    EnvironmentChoice choice{
        .current = current,
        .rules = compiled.environment,
        .keep = arguments.has("keep-env"),
        .home = arguments.has("private-home") ? request.temporary_directory : request.lasting_home,
        .options = arguments.values("env"),
        .directory = request.directory,
        .run = request.run,
        .temporary_directory = request.temporary_directory,
        .denials = list_of_denials(request),
        .variables = {{"workdir", request.workdir},
                      {"tmp", request.temporary_directory},
                      {"home", request.lasting_home.empty() ? requested.places.home : request.lasting_home},
                      {"config", requested.places.config}}};
    // Audit mode lets the command ask the machine's name servers by UDP. By TCP it asks the run's own one. So
    // names are on record, and not addresses alone.
    if (request.mode == Mode::audit && compiled.plan.look_ups)
        choice.rules.set.try_emplace("RES_OPTIONS", "use-vc");
    for (const std::string& one : choice.options)
        if (one.empty() || one[0] == '=')
            throw Failure(arguments.origin("env") + " " + one + ": expected NAME or NAME=VALUE");
    Command command{.words = arguments.rest(),
                    .environment = make_environment(choice),
                    .held_back = held_back(choice),
                    .not_passed = {},
                    .exposed = {},
                    .executables = {},
                    .limits = request.limits.tighter(compiled.limits)};
    if (!request.quiet)
        for (const std::string& one : not_set(choice, command.environment))
            say(arguments.origin("env") + " " + one + ": this variable is not set, and is left out");
    command.executables = executable_candidates(command.words[0], command.environment);
    if (compiled.rules->needs_party()) find_agent(request, compiled, command);
    if (command.agent) {  // its own variables are passed to it
        const std::vector<std::string>& own = compiled.environment.agent;
        choice.rules.pass.insert(choice.rules.pass.end(), own.begin(), own.end());
        command.environment = make_environment(choice);
        command.held_back = held_back(choice);
        command.agents_own = set_of(own, command.environment);
    }
    command.not_passed = not_passed(choice, command.environment, command.held_back);
    command.exposed = proxies_with_password(command.environment);
    return command;
}

void say_environment(const Request& request, const Command& command) {
    if (request.quiet) return;
    for (const std::string& name : command.exposed)
        say(name +
            " holds a user and a password for its proxy, and the command gets them: give a proxy that needs "
            "none, or "
            "--env " +
            name + "=URL without them");
    if (!request.verbose && ::isatty(STDERR_FILENO) == 0) return;
    if (!command.agents_own.empty())
        say(joined(command.agents_own, ", ") + ": the agent has " +
            (command.agents_own.size() == 1 ? "it" : "them") + ", and what it executes does not");
    const std::string line = withheld_line(command.held_back, command.not_passed, request.verbose);
    if (!line.empty()) say(line);
}

}  // namespace callgate::cli
