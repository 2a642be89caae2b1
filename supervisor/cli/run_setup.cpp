#include "supervisor/cli/run_setup.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/landlock.hpp"
#include "base/words.hpp"
#include "supervisor/cli/agent_command.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/in_run.hpp"
#include "supervisor/cli/lasting_home.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/cli/run_rules.hpp"
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
    if (named->empty())
        throw Failure(arguments.origin("cwd") + " needs a directory; expected an existing directory");
    std::string directory =
        linked.resolve(arguments.origin("cwd") + " " + *named, written_out(*named, places.home), false);
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0)
        throw Failure(arguments.origin("cwd") + " " + *named + ": " + std::strerror(errno) +
                      "; expected an existing directory");
    if (!S_ISDIR(status.st_mode)) throw Failure(arguments.origin("cwd") + " " + *named + ": not a directory");
    return directory;
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
    int first = 0;  // why the first directory that is missing could not be made
    for (std::size_t end = state.find('/', 1); end != std::string::npos; end = state.find('/', end + 1))
        if (::mkdir(state.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST && first == 0) first = errno;
    if (::mkdir(state.c_str(), 0700) != 0 && errno != EEXIST)
        throw Failure("cannot make the state directory " + state + ": " +
                      std::strerror(errno == ENOENT && first != 0 ? first : errno) + advice);
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
        .denials = denials_file(request),
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
