#include "supervisor/cli/linked_paths.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/test_switch.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/host/letter_case.hpp"
#include "supervisor/host/link_record.hpp"

namespace callgate::cli {

namespace {

/// The names of callgate's own descriptors are links by nature.
bool names_descriptor(std::string_view written) {
    constexpr std::array<std::string_view, 3> standard{"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    return written.starts_with("/dev/fd/") || std::ranges::find(standard, written) != standard.end();
}

/// A run that may make these lead elsewhere has every program already. Rule sets name them everywhere.
bool names_libraries(std::string_view link) {
    constexpr std::array<std::string_view, 6> merged{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    return std::ranges::find(merged, link) != merged.end();
}

/// Containers have this link in place of the device (the kernel's filesystems/devpts.rst). A run that makes
/// it anew changes nothing, and one that leads elsewhere is no such link.
bool names_terminals(const LinkedPath& path, std::string_view link) {
    return link == "/dev/ptmx" && path.real == "/dev/pts/ptmx";
}

std::string led(const LinkedPath& path, const std::string& link) {
    return path.what + " leads through the symbolic link " + link + " to " + path.real;
}

void require_only_ours(const std::string& name, const std::string& real) {
    const Expected<void> trusted = is_only_ours(real);
    if (!trusted)
        throw Failure(name + " leads through a symbolic link to " + real + ", " + trusted.error().text +
                      "; make it yours alone, or remove the link");
}

/// Whether a name on the way of `head` led elsewhere when the rules were loaded.
bool leads(const rules::LoadSnapshot& snapshot, std::string_view head) {
    return snapshot.links && std::ranges::any_of(*snapshot.links, [head](const auto& link) {
               return head.starts_with(link.first) &&
                      (head.size() == link.first.size() || head[link.first.size()] == '/');
           });
}

/// The conditions by which a rule lets something be done.
std::vector<const rules::Conditions*> openings(const rules::Rule& rule) {
    std::vector<const rules::Conditions*> all;
    if (rule.action == rules::Action::allow || rule.action == rules::Action::ask) all.push_back(&rule.when);
    if (rule.except) all.push_back(&*rule.except);
    return all;
}

}  // namespace

void require_letter_case(const std::string& what, const std::string& directory) {
    if (ignores_letter_case(directory) && check_enabled("letter-case"))
        throw Failure(what + ": its file system ignores the case of letters, and rules do not: " +
                      ".ENV would be .env; use a directory of another file system");
}

std::string LinkedPaths::resolve(const std::string& what, const std::string& written, bool opens) {
    LinkedPath path{.what = what, .real = {}, .links = {}, .opens = opens};
    path.real = canonical(written, path.links);
    std::string real = path.real;
    keep(std::move(path), written);
    if (opens) require_letter_case(what, real);
    return real;
}

std::string LinkedPaths::resolve_own_name(const std::string& what, const std::string& written) {
    LinkedPath path{.what = what, .real = {}, .links = {}, .opens = false};
    path.real = own_name(written, path.links);
    std::string real = path.real;
    keep(std::move(path), written);
    return real;
}

void LinkedPaths::keep(LinkedPath path, const std::string& written) {
    if (!path.links.empty() && !names_descriptor(written)) paths_.push_back(std::move(path));
}

void LinkedPaths::resolve_rules(const rules::LoadedRules& loaded, const std::string& home) {
    const auto resolve_head = [&](const rules::Rule& rule, const std::string& head) {
        const bool shipped = rule.source.file.starts_with("profile ");
        if (!shipped && !rule.built_in) require_letter_case("the path of rule " + rule.id, head);
        if (leads(loaded.snapshot, head) && (!shipped || (!home.empty() && head.starts_with(home + "/"))))
            static_cast<void>(resolve("the path of rule " + rule.id, head, false));
    };
    for (const rules::Rule& rule : loaded.rules->rules())
        for (const rules::Conditions* const conditions : openings(rule))
            for (const auto* const globs :
                 {&conditions->path, &conditions->unix_socket, &conditions->program})
                for (const rules::Glob& glob : *globs)
                    for (const rules::Glob::Branch& branch : glob.branches()) resolve_head(rule, branch.head);
}

void LinkedPaths::append(LinkedPaths other) { std::ranges::move(other.paths_, std::back_inserter(paths_)); }

void LinkedPaths::require_no_links_of_runs(const rules::LinkRoots& roots, const Places& places) const {
    for (const LinkedPath& path : paths_) {
        if (path.opens && is_wide(path.real, places) && check_enabled("wide-link"))
            throw Failure(led(path, path.links.front().path) +
                          ", and a link never stands for that; name it without the link");
        for (const FollowedLink& link : path.links) {
            const bool closed = std::ranges::find(places.links, link.path, &FollowedLink::path) !=
                                places.links.end();  // to every run
            if (link.ours && !closed && !names_libraries(link.path) && !names_terminals(path, link.path) &&
                roots.may_hold(link.path) && check_enabled("link-of-run"))
                throw Failure(led(path, link.path) + ", and a run could have made that link; name " +
                              path.real + " itself if that is what you mean");
        }
    }
}

void LinkedPaths::require_no_recorded_links(const Places& places) const {
    if (paths_.empty()) return;
    const Expected<rules::LinkRoots> roots = recorded_link_roots(places.state);
    if (!roots) throw Failure(roots.error().text);
    require_no_links_of_runs(*roots, places);
}

void require_own_links(const Places& places, const std::vector<std::string>& files, LinkedPaths& paths) {
    for (const Places::Linked& linked : places.linked) require_only_ours(linked.name, linked.real);
    for (const std::string& file : files) {
        if (!places.config.empty() && file.starts_with(places.config + "/")) continue;
        const std::string written = file.starts_with('/') ? file : written_out("./" + file, "");
        FollowedLinks links;
        const std::string real = canonical(written, links);
        if (links.empty() || names_descriptor(written)) continue;
        require_only_ours(file, real);
        static_cast<void>(paths.resolve("the rule file " + file, written, false));
    }
}

}  // namespace callgate::cli
