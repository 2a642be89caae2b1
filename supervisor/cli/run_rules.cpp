#include "supervisor/cli/run_rules.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "agent/handover.hpp"
#include "rules/plan/plan_audit.hpp"
#include "supervisor/cli/agent_command.hpp"
#include "supervisor/cli/build_info.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/kept_capabilities.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/host/built_in_rules.hpp"
#include "supervisor/host/link_record.hpp"
#include "supervisor/host/listing_record.hpp"
#include "supervisor/host/name_lock_file.hpp"
#include "supervisor/nested/outer_run.hpp"

namespace callgate::cli {

namespace {

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
        Expected<UniqueFd> name_lock = open_name_lock_file(state);
        if (!name_lock)
            throw Failure(name_lock.error().text + "; without it another run could make names meanwhile");
        compiled.name_lock = std::move(*name_lock);
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

/// An agent is run under its own profile: by the file that runs, never by its name alone. With --quiet it is
/// not, because nothing would say so. Jobs are quiet: a model may have chosen their command, and gets no
/// agent's login by that.
CompiledRules load_rules(const Arguments& arguments, const RequestedRun& requested,
                         const TerminalChoice& terminal, const rules::FileTree& tree,
                         ListingRecord& listings) {
    const Request& request = requested.request;
    rules::LoadContext context =
        host_context(requested.places, request.workdir, request.temporary_directory, tree);
    context.known_listings = &listings;
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
                           .outer_denials = request.outer != nullptr ? denials_file(request) : ""};
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

}  // namespace

std::string denials_file(const Request& request) {
    const std::string outer = request.outer != nullptr ? request.outer->denials() : "";
    return outer.empty() ? request.denials : outer;
}

Compiled compile(const Arguments& arguments, const RequestedRun& requested, TerminalChoice terminal,
                 const rules::FileTree& tree) {
    const Request& request = requested.request;
    // A nested run can neither read nor write the record.
    ListingRecord listings(request.outer == nullptr ? requested.places.state : "",
                           CALLGATE_VERSION " " + std::string(build_info));
    CompiledRules made = load_rules(arguments, requested, terminal, tree, listings);
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
    listings.save();
    compiled.name_files =
        request.outer == nullptr && std::ranges::any_of(compiled.rules->rules(), [](const rules::Rule& rule) {
            return rule.built_in && rule.id == name_files_rule;
        });
    if (compiled.name_files) compiled.degraded.emplace_back("names-tcp-only");
    if (request.keep_capabilities != 0) compiled.degraded.push_back(degraded_by(request.keep_capabilities));
    check_container(requested.platform.container, compiled);
    return compiled;
}

}  // namespace callgate::cli
