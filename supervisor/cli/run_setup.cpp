#include "supervisor/cli/run_setup.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "rules/plan/plan_audit.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"

namespace callgate::cli {

namespace {

/// Six characters of [a-z0-9].
std::string random_name() {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::array<std::uint32_t, 6> numbers{};
    if (::getrandom(numbers.data(), sizeof numbers, 0) != static_cast<ssize_t>(sizeof numbers))
        throw Failure("the kernel gives no random numbers: " + std::string(std::strerror(errno)));
    std::string name;
    for (const std::uint32_t number : numbers) name += letters[number % letters.size()];
    return name;
}

/// Names the run and its private directory, which the guardian makes with mkdir: never one that a stranger
/// planted. Where it surely cannot be made, that is said before anything else happens.
void name_run(SessionConfig& config) {
    struct stat status {};
    do {
        config.run = random_name();
        config.temporary_directory = private_directory_name(config.run);
    } while (::lstat(config.temporary_directory.c_str(), &status) == 0);
    const std::string parent = config.temporary_directory.substr(0, config.temporary_directory.rfind('/'));
    if (::access((parent + "/.").c_str(), W_OK | X_OK) != 0)
        throw Failure(no_private_directory(config.temporary_directory, errno));
}

/// The state directory must exist before the plan is made: what lies in a hierarchy at start can be left out
/// of it.
void make_state_directory(const std::string& state) {
    const std::string advice = "; give --audit FILE, or --no-audit to keep no log";
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

std::string start_directory(const Arguments& arguments, const Places& places, const std::string& workdir) {
    const std::optional<std::string> named = arguments.value("cwd");
    if (!named) return workdir;
    std::string directory = absolute(*named, places.home);
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0)
        throw Failure(arguments.origin("cwd") + " " + *named + ": " + std::strerror(errno) +
                      "; expected an existing directory");
    if (!S_ISDIR(status.st_mode)) throw Failure(arguments.origin("cwd") + " " + *named + ": not a directory");
    return directory;
}

/// Audit mode: the user's rules are observed; what holds is what callgate protects of its own (invariant 9).
void observe_rules(CompiledRules& compiled, const rules::FileTree& tree, SessionConfig& config) {
    const rules::PlanInput input{.landlock_abi = compiled.plan.landlock_abi,
                                 .record = compiled.plan.record,
                                 .tree = &tree,
                                 .reasons = false};
    if (input.record == rules::RecordMode::minimal)
        compiled.plan = rules::make_plan(*compiled.loaded.rules, rules::observing(input));
    config.enforced = std::make_shared<const rules::RuleSet>(std::move(compiled.choice.sources.built_in),
                                                             rules::Action::allow);
    config.observed_plan = std::move(compiled.plan);
    compiled.plan = rules::make_audit_plan(*config.enforced, config.observed_plan, input);
    if (config.quiet) return;
    say("audit mode: NOTHING IS ENFORCED; what the rules would deny happens, and is recorded");
    say("audit mode: still closed: callgate's own files, and what cannot be observed (io_uring, raw sockets, "
        "other architectures, processes and shared objects outside the run)");
}

bool could_allow_network(const rules::RuleSet& rules) {
    if (rules.fallback() != rules::Action::deny) return true;
    return std::any_of(rules.rules().begin(), rules.rules().end(), [](const rules::Rule& rule) {
        return rule.operations.intersects(rules::network_operations) &&
               (rule.action == rules::Action::allow || rule.action == rules::Action::ask);
    });
}

/// What these rules need and a profile around us refuses: nothing runs where it could do nothing at all; else
/// it is said once what will be denied, and what would help.
void check_container(const Container& container, SessionConfig& config) {
    if (!container.ptrace && config.plan.notify_only_execute)
        throw Failure(
            "the seccomp profile of this container refuses ptrace, and with these rules every execution must "
            "be held by it (something may be executed where reading or executing is decided one by one: see "
            "callgate plan); " +
            std::string(add_ptrace) + ", or give rules without that");
    if (container.descriptors || !config.plan.notified.intersects(rules::network_operations) ||
        (!config.enforced && !could_allow_network(*config.rules)))
        return;
    config.degraded.emplace_back("descriptor-copy");
    if (!config.quiet)
        say("the seccomp profile of this container refuses pidfd_getfd: connects, binds and messages that "
            "are decided one by one will be denied; " +
            std::string(add_ptrace));
}

/// By `auto` a person is asked where one sits; in audit mode nobody is asked.
void choose_terminal(SessionConfig& config) {
    using Who = approval::AskSettings::Who;
    if (config.ask.who == Who::terminal) config.terminal = std::make_shared<approval::Terminal>();
    if (config.ask.who == Who::automatic && config.mode == Mode::enforce)
        config.terminal = approval::Terminal::at_hand();
    for (const int passed : config.pass) {
        if (!config.terminal || !config.terminal->is_person(passed)) continue;
        if (config.ask.who == Who::terminal)
            throw Failure("--pass-fd " + std::to_string(passed) +
                          " is the terminal that you are asked on: the command could answer itself; give "
                          "--ask socket");
        config.terminal.reset();
    }
    config.perhaps_terminal = config.ask.who == Who::automatic && config.terminal != nullptr;
}

}  // namespace

void RunSetup::choose(const Arguments& arguments) {
    ::prctl(PR_SET_NAME, "callgate");  // started by `callgate exec` the name would be another
    platform_ = probe_platform();
    if (const std::string why = obstacle(platform_); !why.empty()) throw Failure(why);
    require_features(arguments);
    places_ = find_places();
    config_.workdir = choose_workdir(arguments, places_, true);
    config_.directory = start_directory(arguments, places_, config_.workdir);
    read_run_options(arguments, places_, config_);
    if (config_.audit.kind == AuditTarget::Kind::directory) make_state_directory(config_.audit.path);
    name_run(config_);
    choose_terminal(config_);
}

void RunSetup::prepare(const Arguments& arguments) {
    choose(arguments);
    begun_ = begin_run(config_);
    set_rules(arguments);
    if (!begun_->forked()) begun_->fork_guardian(config_);
    begun_->arm(config_);
    // The agent opens meanwhile what its ruleset names.
    config_.rules->prepare();
    if (config_.enforced) config_.enforced->prepare();
}

void RunSetup::run() {
    session_ = make_session(*begun_, config_);
    run_session(*session_);
}

void RunSetup::set_rules(const Arguments& arguments) {
    SessionConfig& config = config_;
    tree_ = std::make_unique<TreeWithTmp>(config.temporary_directory);
    const RealFileTree& tree = *tree_;
    const rules::LoadContext context =
        host_context(places_, config.workdir, config.temporary_directory, tree);
    const std::string audit_file =
        config.audit.kind == AuditTarget::Kind::file ? absolute(config.audit.path, places_.home) : "";
    const std::string sign_key = arguments.value("sign-key").value_or("");
    CompiledRules compiled =
        compile_rules(arguments, places_, context,
                      {.own_files = {audit_file, sign_key.empty() ? "" : absolute(sign_key, places_.home)},
                       .warnings = config.verbose,
                       .reasons = false,
                       .terminal = config.terminal ? config.terminal->outer_name() : "",
                       .terminal_if_asked = config.perhaps_terminal});
    if (config.perhaps_terminal && !compiled.loaded.rules->may_ask()) config.terminal.reset();
    config.limits = config.limits.tighter(compiled.loaded.limits);
    config.rules = compiled.loaded.rules;
    if (config.mode == Mode::audit) observe_rules(compiled, tree, config);
    config.plan = std::move(compiled.plan);
    config.profiles = std::move(compiled.choice.profiles);
    config.rules_sha256 = std::move(compiled.loaded.sha256);
    config.surroundings = std::move(compiled.loaded.snapshot);
    config.config_home = places_.config;
    config.degraded = std::move(compiled.loaded.degraded);
    if (config.keep_capabilities) config.degraded.emplace_back("capabilities");
    check_container(platform_.container, config);
    environment_ = std::move(compiled.loaded.environment);
}

void RunSetup::set_environment(const Arguments& arguments) {
    SessionConfig& config = config_;
    const std::vector<std::string> current = current_environment();
    EnvironmentChoice choice{.current = current,
                             .rules = environment_,
                             .keep = arguments.has("keep-env"),
                             .private_home = arguments.has("private-home"),
                             .options = arguments.values("env"),
                             .directory = config.directory,
                             .temporary_directory = config.temporary_directory,
                             .variables = {{"workdir", config.workdir},
                                           {"tmp", config.temporary_directory},
                                           {"home", places_.home},
                                           {"config", places_.config}}};
    for (const std::string& one : choice.options)
        if (one.empty() || one[0] == '=')
            throw Failure(arguments.origin("env") + " " + one + ": expected NAME or NAME=VALUE");
    config.environment = make_environment(choice);
    config.held_back = held_back(choice);
    config.executables = executable_candidates(config.command[0], config.environment);
}

}  // namespace callgate::cli
