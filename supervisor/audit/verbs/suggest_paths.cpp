#include "supervisor/audit/verbs/suggest_paths.hpp"

#include <algorithm>

namespace callgate::audit {

namespace {

constexpr std::size_t enough_siblings = 3;

bool at_or_beneath(std::string_view path, std::string_view directory) {
    if (directory.empty() || directory == "/") return false;
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

std::string quoted(std::string_view path) {
    std::string text;
    for (const char one : path) {
        if (std::string_view("*?[]{}\\").find(one) != std::string_view::npos) text += '\\';
        text += one;
    }
    return text;
}

}  // namespace

std::string KnownPlaces::pattern(std::string_view path) const {
    const auto beneath = [&](const std::string& directory, const char* word) {
        return word + quoted(path.substr(directory.size()));
    };
    if (at_or_beneath(path, temporary_directory)) return beneath(temporary_directory, "${tmp}");
    // The work directory may be the home or lie beneath it.
    if (at_or_beneath(path, workdir)) return beneath(workdir, "${workdir}");
    if (at_or_beneath(path, home)) return beneath(home, "~");
    return quoted(path);
}

std::string_view KnownPlaces::home_of(std::string_view path) const {
    for (const std::string* one : {&home, &account_home})
        if (at_or_beneath(path, *one)) return *one;
    return {};
}

bool KnownPlaces::private_to_user(std::string_view path) const {
    const std::string_view of = home_of(path);
    if (of.empty()) return path == home;
    if (path == of) return true;
    if (at_or_beneath(path, temporary_directory)) return false;
    if (workdir != of && at_or_beneath(path, workdir)) return false;
    return path.substr(of.size()).starts_with("/.");
}

std::string KnownPlaces::application_pattern(std::string_view path) const {
    const std::size_t above = home_of(path).size();
    const std::string_view rest = path.substr(above);
    std::size_t names = 2;  // of the directory: ".cargo/registry", ".config/tool"
    if (rest.starts_with("/.local/")) names = 3;
    std::size_t end = 0;
    for (; names > 0 && end != std::string_view::npos; --names) end = rest.find('/', end + 1);
    if (end == std::string_view::npos) return pattern(path);
    return pattern(path.substr(0, above + end)) + "/**";
}

bool KnownPlaces::may_generalise(std::string_view directory) const {
    if (at_or_beneath(directory, temporary_directory)) return true;
    if (directory.empty() || directory == home || at_or_beneath(home, directory) ||
        at_or_beneath(account_home, directory))
        return false;
    if (std::count(directory.begin(), directory.end(), '/') < 2) return false;
    return !private_to_user(directory);
}

std::uint64_t PathTree::Node::total() const {
    std::uint64_t sum = own;
    for (const auto& [name, child] : children) sum += child->total();
    return sum;
}

std::string PathTree::Node::first_seen(const std::string& path) const {
    if (own > 0 || children.empty()) return path;
    const auto& [name, child] = *children.begin();
    return child->first_seen(path + '/' + name);
}

bool KnownPlaces::in_made_directory(std::string_view path) const {
    if (made.empty()) return false;
    for (std::size_t end = path.rfind('/'); end != 0 && end != std::string_view::npos;
         end = path.rfind('/', end - 1))
        if (made.contains(path.substr(0, end))) return true;
    return false;
}

std::string_view KnownPlaces::standing_directory(std::string_view path) const {
    std::string_view standing = path.substr(0, path.rfind('/'));
    for (std::string_view one = standing; one.size() > workdir.size(); one = one.substr(0, one.rfind('/')))
        if (made.contains(one)) standing = one.substr(0, one.rfind('/'));
    return standing;
}

void PathTree::add(std::string_view path, std::uint64_t count) {
    Node* node = &root_;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::string_view name = path.substr(0, path.find('/'));
        if (name.empty()) break;
        std::unique_ptr<Node>& child = node->children[std::string(name)];
        if (!child) child = std::make_unique<Node>();
        node = child.get();
        path.remove_prefix(name.size());
    }
    node->own += count;
}

void PathTree::collect(const Node& node, const std::string& path, Width width,
                       std::vector<Pattern>& into) const {
    const bool of_run = at_or_beneath(path, places_.temporary_directory);
    const bool many = node.children.size() >= enough_siblings && places_.may_generalise(path);
    if (of_run || (width == Width::siblings && many)) {
        const std::string seen = node.first_seen(path);
        into.push_back({places_.pattern(path) + "/**", node.total(), places_.pattern(seen)});
        return;
    }
    if (node.own > 0) {
        const std::string pattern = path.empty() ? "/" : places_.pattern(path);
        // Landlock allows execution of files that exist at the start, or of a directory. So a program that
        // the run makes needs its directory.
        const bool made =
            width == Width::programs && path != places_.workdir && at_or_beneath(path, places_.workdir);
        into.push_back(
            {made ? places_.pattern(places_.standing_directory(path)) + "/**" : pattern, node.own, pattern});
    }
    for (const auto& [name, child] : node.children) collect(*child, path + '/' + name, width, into);
}

std::vector<PathTree::Pattern> PathTree::patterns(Width width) const {
    std::vector<Pattern> all;
    collect(root_, "", width, all);
    return all;
}

}  // namespace callgate::audit
