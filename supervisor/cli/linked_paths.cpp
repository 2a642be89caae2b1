#include "supervisor/cli/linked_paths.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/test_switch.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/host/link_record.hpp"

namespace callgate::cli {

namespace {

/// The names of callgate's own descriptors are links by nature.
bool names_descriptor(std::string_view written) {
    constexpr std::array<std::string_view, 3> standard{"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    return written.starts_with("/dev/fd/") || std::ranges::find(standard, written) != standard.end();
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

}  // namespace

std::string LinkedPaths::resolve(const std::string& what, const std::string& written, bool opens) {
    LinkedPath path{.what = what, .real = {}, .links = {}, .opens = opens};
    path.real = canonical(written, path.links);
    std::string real = path.real;
    keep(std::move(path), written);
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

void LinkedPaths::append(LinkedPaths other) { std::ranges::move(other.paths_, std::back_inserter(paths_)); }

void LinkedPaths::require_no_links_of_runs(const rules::LinkRoots& roots, const Places& places) const {
    for (const LinkedPath& path : paths_) {
        if (path.opens && is_wide(path.real, places) && check_enabled("wide-link"))
            throw Failure(led(path, path.links.front().path) +
                          ", and a link never stands for that; name it without the link");
        for (const FollowedLink& link : path.links) {
            const bool closed = std::ranges::find(places.links, link.path, &FollowedLink::path) !=
                                places.links.end();  // to every run
            if (link.ours && !closed && roots.may_hold(link.path) && check_enabled("link-of-run"))
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
