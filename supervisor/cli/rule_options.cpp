#include "supervisor/cli/rule_options.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "agent/created_ipc.hpp"
#include "agent/handover.hpp"
#include "agent/landlock.hpp"
#include "base/plural.hpp"
#include "base/test_switch.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/kept_capabilities.hpp"
#include "supervisor/cli/registries.hpp"
#include "supervisor/host/link_record.hpp"
#include "supervisor/names/name_files.hpp"

namespace callgate::cli {

namespace {

constexpr std::string_view net_suffix = "+net";

/// The user's own settings of package managers.
RegistrySources host_registries(const rules::LoadContext& context) {
    constexpr std::size_t max_settings = 1U << 20;
    return {.home = context.user_home.empty() ? context.home : context.user_home,
            .file = [&context](const std::string& path) -> std::optional<std::string> {
                Expected<std::string> content = context.read_file(path, max_settings);
                if (!content) return std::nullopt;
                return std::move(*content);
            },
            .variable = [](const std::string& name) -> std::optional<std::string> {
                const char* const value = std::getenv(name.c_str());
                if (value == nullptr) return std::nullopt;
                return value;
            },
            .names =
                [](const std::string& path) {
                    std::vector<std::string> names;
                    std::error_code none;  // a directory that cannot be read names nothing
                    for (std::filesystem::directory_iterator one(path, none), end; one != end;
                         one.increment(none))
                        names.push_back(one->path().filename());
                    return names;
                }};
}

/// A `+net` profile with the registries that the user's own settings name; nothing where they name none.
std::optional<std::string> profile_on_this_host(const std::string& name, const rules::LoadContext& context) {
    const rules::ShippedProfile* const shipped = rules::find_shipped_profile(name);
    if (shipped == nullptr || !name.ends_with(net_suffix)) return std::nullopt;
    const Registries own = configured_registries(
        std::string_view(name).substr(0, name.size() - net_suffix.size()), host_registries(context));
    if (own.hosts.empty() && own.variables.empty() && !own.replace) return std::nullopt;
    return with_registries(shipped->json, own);
}

void add_profile(RuleChoice& choice, const std::string& name, const rules::LoadContext& context) {
    std::vector<std::string_view> known;
    for (const rules::ShippedProfile& profile : rules::shipped_profiles()) known.push_back(profile.name);
    const std::string own = context.config + "/profiles/" + name + ".json";
    const bool plain = !name.empty() && name.find('/') == std::string::npos;
    const bool exists = std::find(known.begin(), known.end(), name) != known.end() ||
                        (plain && !context.config.empty() && ::access(own.c_str(), F_OK) == 0);
    if (!exists) {
        const std::string near = name.find(',') == std::string::npos
                                     ? suggestion(name, known)
                                     : "; give each name by an option of its own";
        throw Failure("unknown profile " + name + (near.empty() ? "; callgate profiles lists them" : near));
    }
    choice.profiles.push_back(name);
    choice.sources.parts.emplace_back(rules::RuleSources::Profile{name});
}

void add_file(RuleChoice& choice, const Arguments& arguments, const std::string& file) {
    struct stat status {};
    const std::string what = arguments.origin("rules") + " " + file;
    if (::stat(file.c_str(), &status) != 0)
        throw Failure(what + ": " + std::strerror(errno) +
                      "; expected a rule set file (callgate profiles agent prints one)");
    if (!S_ISREG(status.st_mode)) throw Failure(what + ": not a regular file; expected a rule set file");
    choice.files.push_back(file);
    choice.sources.parts.emplace_back(rules::RuleSources::File{file});
}

void add_exceptions(RuleChoice& choice, const Arguments& arguments) {
    for (const std::string& text : arguments.values("except")) {
        const std::size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
            throw Failure(arguments.origin("except") + " " + text +
                          ": expected RULE=PATTERN, such as secrets=" + "~/.ssh/config");
        choice.sources.exceptions.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
}

void set_default(RuleChoice& choice, const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("default");
    if (!value) return;
    for (const rules::Action action : {rules::Action::allow, rules::Action::ask, rules::Action::deny})
        if (*value == rules::name(action)) choice.sources.fallback = action;
    if (choice.sources.fallback) return;
    constexpr std::string_view words[] = {"allow", "ask", "deny"};
    throw Failure(arguments.origin("default") + " " + *value + ": expected allow, ask or deny" +
                  suggestion(*value, words));
}

/// Denies the person's terminal. A program that opens it could draw over a prompt, or read what is typed for
/// another one.
rules::Rule closed_terminal(const std::string& path) {
    rules::Rule rule;
    rule.id = "callgate-terminal";
    rule.action = rules::Action::deny;
    rule.operations = rules::write_operations | rules::OperationSet{rules::Operation::read};
    rule.when.path.push_back(rules::Glob::literal(path));
    rule.reason = "the terminal that callgate was started on";
    rule.built_in = true;
    rule.source.file = "built-in";
    return rule;
}

/// Loads with built-in rules, which must name every rule file. Files of `extends` are known only after
/// loading.
void load_with_built_in(CompiledRules& compiled, const Places& places, const rules::LoadContext& context,
                        const CompileOptions& options) {
    if (!options.built_in) {
        compiled.loaded = rules::load(compiled.choice.sources, context);
        return;
    }
    const std::string lasting = context.user_home.empty() ? "" : context.home;
    std::vector<std::string> known = compiled.choice.files;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::string> files;
        for (const std::string& file : known)
            files.push_back(file.starts_with('/') ? file : absolute("./" + file, ""));
        compiled.choice.sources.built_in =
            built_in_rules(places, files, options.own_files, {context.workdir, context.tmp, lasting},
                           context.tmp.empty() ? "" : denials_name(context.tmp), lasting);
        compiled.choice.sources.name_services = [nested = options.nested] {
            return name_service_rules(!nested && names::room_obstacle().empty()
                                          ? std::vector<std::string>{}
                                          : names::paths_of_name_files());
        };
        if (!options.outer_denials.empty())
            add_list_of_denials(compiled.choice.sources.built_in, options.outer_denials);
        if (!options.terminal.empty())
            compiled.choice.sources.built_in.push_back(closed_terminal(options.terminal));
        compiled.loaded = rules::load(compiled.choice.sources, context);
        const bool all_known = std::all_of(
            compiled.loaded.files.begin(), compiled.loaded.files.end(),
            [&](const auto& file) { return std::find(known.begin(), known.end(), file) != known.end(); });
        if (!compiled.loaded.ok()) return;
        if (all_known) return;
        known = compiled.loaded.files;
    }
}

/// The error texts. Of errors about unknown variables only the first is kept, with the number of others:
/// without a home directory every second pattern is wrong.
std::vector<std::string> error_texts(const rules::LoadedRules& loaded) {
    std::vector<std::string> texts;
    std::optional<std::size_t> first;
    std::size_t others = 0;
    for (const rules::Diagnostic& one : loaded.diagnostics) {
        if (one.severity != rules::Diagnostic::Severity::error) continue;
        const bool unknown = one.message.find("} is not known here") != std::string::npos;
        if (unknown && first) {
            ++others;
            continue;
        }
        if (unknown) first = texts.size();
        texts.push_back(one.text());
    }
    if (others > 0) texts[*first] += ", as in " + plural(others, "more pattern");
    return texts;
}

void say_diagnostics(const rules::LoadedRules& loaded, bool warnings) {
    for (const rules::Diagnostic& one : loaded.diagnostics)
        if (one.severity == rules::Diagnostic::Severity::warning && warnings) say(one.text());
    if (loaded.ok()) return;
    const std::vector<std::string> errors = error_texts(loaded);
    if (errors.size() == 1) throw Failure(errors[0] + "; nothing ran");
    for (const std::string& error : errors) say(error);
    const std::string total = std::to_string(errors.size()) + " errors in the rules; nothing ran";
    throw Failure(total, errors.empty() ? total : total + "; the first: " + errors[0]);
}

std::string current_directory() {
    struct stat named {
    }, here{};
    const char* const shell = std::getenv("PWD");
    if (shell != nullptr && shell[0] == '/' && ::stat(shell, &named) == 0 && ::stat(".", &here) == 0 &&
        named.st_dev == here.st_dev && named.st_ino == here.st_ino)
        return shell;
    char current[4096];
    if (::getcwd(current, sizeof current) == nullptr)
        throw Failure("the current directory is gone or too deep; change to another, or give absolute paths");
    return current;
}

}  // namespace

std::string absolute(const std::string& path, const std::string& home) {
    return path == "~" && !home.empty() ? home : canonical(written_out(path, home));
}

std::string written_out(const std::string& path, const std::string& home) {
    if (path == "~" && !home.empty()) return home;
    if (path.starts_with("~/") && !home.empty()) return home + path.substr(1);
    if (path.starts_with('/')) return path;
    return current_directory() + "/" + path;
}

std::string private_directory_name(const std::string& run) {
    const char* base = std::getenv("TMPDIR");
    const std::string directory = canonical(base != nullptr && base[0] == '/' ? base : "/tmp");
    return (directory == "/" ? "" : directory) + "/callgate-" + std::to_string(::getuid()) + "-" + run;
}

bool is_wide(const std::string& workdir, const Places& places) {
    if (workdir == "/") return true;
    return !places.home.empty() && (places.home == workdir || places.home.starts_with(workdir + "/"));
}

std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide) {
    LinkedPaths ignored;
    return choose_workdir(arguments, places, refuse_wide, ignored);
}

std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide,
                           LinkedPaths& linked) {
    const std::optional<std::string> named = arguments.value("workdir");
    // As of a variable that is not set: a directory that nobody named is no wish for a wide one.
    if (named && named->empty())
        throw Failure(arguments.origin("workdir") + " needs a directory; expected an existing directory");
    const std::string what = named ? arguments.origin("workdir") + " " + *named : "the current directory";
    const std::string workdir = linked.resolve(what, written_out(named.value_or("."), places.home), true);
    struct stat status {};
    if (::stat(workdir.c_str(), &status) != 0)
        throw Failure(arguments.origin("workdir") + " " + named.value_or(workdir) + ": " +
                      std::strerror(errno) + "; expected an existing directory");
    if (!S_ISDIR(status.st_mode))
        throw Failure(arguments.origin("workdir") + " " + named.value_or(workdir) + ": not a directory");
    if (refuse_wide && !named && is_wide(workdir, places))
        throw Failure("the work directory would be " + workdir + ", which is " +
                      (workdir == places.home ? "your home"
                       : workdir == "/"       ? "the whole system"
                                              : "above your home") +
                      "; change to a project's directory, or name it with --workdir");
    return workdir;
}

GitRepository choose_repository(rules::LoadContext& context, const Places& places) {
    GitRepository repository =
        find_git_repository(context.workdir, [&places] { return recorded_pointer_roots(places.state); });
    context.git_common = repository.common;
    context.git_admin = repository.admin;
    return repository;
}

rules::RecordMode read_record_mode(const Arguments& arguments) {
    const std::string word = arguments.value("record").value_or("contested");
    if (word == "minimal") return rules::RecordMode::minimal;
    if (word == "contested") return rules::RecordMode::contested;
    if (word == "all") return rules::RecordMode::all;
    constexpr std::string_view words[] = {"minimal", "contested", "all"};
    throw Failure(arguments.origin("record") + " " + word + ": expected minimal, contested or all" +
                  suggestion(word, words));
}

bool names_rules(const Arguments& arguments) {
    return arguments.has("profile") || arguments.has("rules") || arguments.has("rules-json");
}

RuleChoice read_rule_options(const Arguments& arguments, const rules::LoadContext& context,
                             const std::string& otherwise) {
    RuleChoice choice;
    std::vector<std::string> profiles = arguments.values("profile");
    if (!names_rules(arguments)) profiles = {otherwise};
    if (arguments.has("shared-cache")) profiles.emplace_back("shared-cache");
    if (arguments.has("gpu") && std::ranges::find(profiles, "gpu") == profiles.end())
        profiles.emplace_back("gpu");
    for (const std::string& name : profiles) add_profile(choice, name, context);
    for (const std::string& file : arguments.values("rules")) add_file(choice, arguments, file);
    const std::vector<std::string>& texts = arguments.values("rules-json");
    for (std::size_t index = 0; index < texts.size(); ++index)
        choice.sources.parts.emplace_back(rules::RuleSources::Text{
            texts[index], index == 0 ? "--rules-json" : "--rules-json#" + std::to_string(index + 1)});
    const std::string accepted = context.config + "/rules.json";
    if (!profiles.empty() && !arguments.has("no-user-rules") && !context.config.empty() &&
        ::faccessat(AT_FDCWD, accepted.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        choice.files.push_back(accepted);
        choice.sources.parts.emplace_back(rules::RuleSources::File{accepted});
    }
    add_option_rules(choice, arguments, context);
    add_exceptions(choice, arguments);
    set_default(choice, arguments);
    return choice;
}

std::string shared_memory() {
    return check_enabled("shared-memory-grants") ? agent::shared_memory_place() : std::string();
}

bool decides_processes() { return check_enabled("opaque-grants"); }

CompiledRules compile_rules(const Arguments& arguments, const Places& places,
                            const rules::LoadContext& context, const CompileOptions& options) {
    const rules::RecordMode record = read_record_mode(arguments);
    CompiledRules compiled;
    compiled.choice = read_rule_options(arguments, context, options.profile);
    compiled.choice.sources.profile_text = [&context](const std::string& name) {
        return profile_on_this_host(name, context);
    };
    load_with_built_in(compiled, places, context, options);
    say_diagnostics(compiled.loaded, options.warnings);
    require_own_links(places, compiled.loaded.files, compiled.choice.linked);
    compiled.choice.linked.resolve_rules(compiled.loaded, places.home);
    if (!context.user_home.empty()) compiled.choice.linked.resolve_rules(compiled.loaded, context.home);
    if (!context.git_common.empty())
        compiled.choice.linked.resolve_rules(compiled.loaded, context.git_common);
    if (compiled.loaded.snapshot.links) compiled.loaded.snapshot.links->merge(compiled.choice.links);
    compiled.plan =
        rules::make_plan(*compiled.loaded.rules, {.landlock_abi = agent::kernel_landlock_abi(),
                                                  .record = record,
                                                  .tree = context.tree,
                                                  .shared_memory = shared_memory(),
                                                  .processes = decides_processes(),
                                                  .sockets_on_behalf = agent::pidfd_getfd_refused(),
                                                  .reasons = options.reasons});
    compiled.choice.sources.profile_text = nullptr;  // `context` ends before the choice does
    const CapabilitySet kept = kept_capabilities(arguments);
    compiled.plan.set_ids_left_out = (kept & capability(CAP_FSETID)) == 0 && check_enabled("set-ids");
    if ((kept & capability(CAP_SYS_CHROOT)) != 0) compiled.plan.processes_read = false;
    return compiled;
}

}  // namespace callgate::cli
