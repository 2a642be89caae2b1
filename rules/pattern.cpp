#include "rules/pattern.hpp"

#include <array>

namespace callgate::rules {
namespace {

constexpr std::array<std::string_view, 4> variable_names{"workdir", "home", "tmp", "config"};
constexpr std::string_view expected_start =
    "expected a pattern that begins with \"/\", \"~/\", \"${...}\" or \"**/\"";

/// Without a final slash, so that "${tmp}/x" has one.
std::string_view trimmed(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    return path;
}

bool begins_well(std::string_view pattern) {
    return pattern.starts_with('/') || pattern.starts_with('~') || pattern.starts_with("${") ||
           pattern.starts_with("**/");
}

/// A path that means itself: no wildcard, and already in the form that the kernel resolves to.
bool is_plain_path(std::string_view path) {
    if (!path.starts_with('/') || path.size() < 2 || path.ends_with('/')) return false;
    if (path.find_first_of("\\*?[]{}") != std::string_view::npos) return false;
    for (std::size_t slash = 0; slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
        const std::string_view component = path.substr(slash + 1, path.find('/', slash + 1) - slash - 1);
        if (component.empty() || component == "." || component == "..") return false;
    }
    return true;
}

/// Most patterns are one name or one hierarchy: they need no compiler, and start-up is made of them.
std::optional<Glob> compile_path(std::string_view pattern, std::string& error) {
    if (is_plain_path(pattern)) return Glob::literal(pattern);
    if (pattern.ends_with("/**") && is_plain_path(pattern.substr(0, pattern.size() - 3)))
        return Glob::beneath(pattern.substr(0, pattern.size() - 3));
    return Glob::compile(pattern, GlobKind::path, error);
}

}  // namespace

std::string quote_glob(std::string_view literal) {
    std::string result;
    result.reserve(literal.size());
    for (const char byte : literal) {
        if (std::string_view("\\*?[]{},").find(byte) != std::string_view::npos) result += '\\';
        result += byte;
    }
    return result;
}

const std::string* PatternMaker::variable(std::string_view name, std::string& error) const {
    const std::array<const std::string*, 4> values{&context_.workdir, &context_.home, &context_.tmp,
                                                   &context_.config};
    for (std::size_t index = 0; index < values.size(); ++index) {
        if (variable_names[index] != name) continue;
        if (!values[index]->empty()) return values[index];
        error = "${" + std::string(name) + "} is not known here";
        return nullptr;
    }
    error = "unknown variable ${" + std::string(name.substr(0, 40)) + "}: ";
    const std::optional<std::string> near = nearest(name, variable_names);
    error += near ? "did you mean ${" + *near + "}?" : "expected ${workdir}, ${home}, ${tmp} or ${config}";
    return nullptr;
}

std::optional<std::string> PatternMaker::substitute(std::string_view text, bool tilde, bool quote,
                                                    std::string& error) const {
    std::string result;
    const auto put = [&](std::string_view name) {
        const std::string* value = variable(name, error);
        if (value != nullptr) result += quote ? quote_glob(trimmed(*value)) : std::string(trimmed(*value));
        return value != nullptr;
    };
    std::size_t at = 0;
    if (tilde && text.starts_with('~')) {
        if (text.size() > 1 && text[1] != '/') {
            error = "homes of other users are not known: expected \"~/\"";
            return std::nullopt;
        }
        if (!put("home")) return std::nullopt;
        at = 1;
    }
    while (at < text.size()) {
        if (text.substr(at, 2) == "${") {
            const std::size_t end = text.find('}', at);
            if (end == std::string_view::npos) {
                error = "a \"${\" is not closed by \"}\"";
                return std::nullopt;
            }
            if (!put(text.substr(at + 2, end - at - 2))) return std::nullopt;
            at = end + 1;
            continue;
        }
        // A quoted byte is copied with its quote, so that "\${" stays text.
        const std::size_t length = quote && text[at] == '\\' && at + 1 < text.size() ? 2 : 1;
        result += text.substr(at, length);
        at += length;
    }
    return result;
}

std::optional<std::string> PatternMaker::expand_literal(std::string_view text, bool tilde,
                                                        std::string& error) const {
    return substitute(text, tilde, false, error);
}

/// Each component is looked at once, whatever the number of patterns beneath it: hundreds of patterns share a
/// few directories, and most of what they name does not exist.
const PatternMaker::Place& PatternMaker::place(const std::string& path) {
    if (const auto known = places_.find(path); known != places_.end()) return known->second;
    Place result{path, false};
    const std::size_t slash = path.rfind('/');
    if (path == "/" || slash == std::string::npos) return places_[path] = result;
    const Place& parent = slash == 0 ? place("/") : place(path.substr(0, slash));
    result.path = (parent.path == "/" ? "" : parent.path) + path.substr(slash);
    result.absent = parent.absent;
    if (result.absent) return places_[path] = result;
    const FileTree::Kind kind =
        context_.tree != nullptr ? context_.tree->kind(result.path) : FileTree::Kind::file;
    result.absent = kind == FileTree::Kind::absent;
    // A directory is no link; anything else may be one.
    if (kind == FileTree::Kind::file) result.path = context_.canonical(result.path);
    return places_[path] = result;
}

std::string PatternMaker::canonical(const std::string& path) {
    return context_.canonical ? place(path).path : path;
}

bool PatternMaker::within_bounds(const Glob& glob, std::string& error) {
    alternatives_ += glob.branches().size();
    if (alternatives_ <= most_alternatives) return true;
    error = "the patterns together have more than " + std::to_string(most_alternatives) + " alternatives";
    return false;
}

std::optional<std::vector<Glob>> PatternMaker::make(std::string_view pattern, bool unix_socket,
                                                    std::string& error) {
    std::vector<Glob> result;
    if (alternatives_ > most_alternatives) {
        error = "too many patterns";
        return std::nullopt;
    }
    if (unix_socket && pattern.starts_with('@')) {
        std::optional<Glob> glob = Glob::compile(pattern, GlobKind::text, error);
        if (!glob || !within_bounds(*glob, error)) return std::nullopt;
        result.push_back(std::move(*glob));
        return result;
    }
    if (!begins_well(pattern)) {
        error = expected_start;
        if (unix_socket) error += ", or with \"@\" for the abstract namespace";
        return std::nullopt;
    }
    std::optional<std::string> text = substitute(pattern, true, true, error);
    if (!text) return std::nullopt;
    if (text->empty()) *text = "/";
    std::optional<Glob> glob = compile_path(*text, error);
    if (!glob || !within_bounds(*glob, error)) return std::nullopt;
    result.push_back(*glob);
    for (const Glob::Branch& branch : glob->branches()) {
        const std::string resolved = canonical(branch.head);
        if (resolved == branch.head) continue;
        const std::string beside = (resolved == "/" ? "" : quote_glob(resolved)) + branch.residue;
        std::optional<Glob> other = compile_path(beside.empty() ? "/" : beside, error);
        if (!other) return std::nullopt;
        result.push_back(std::move(*other));
    }
    return result;
}

}  // namespace callgate::rules
