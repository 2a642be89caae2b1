#include "supervisor/calls/files/settings_formats.hpp"

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/words.hpp"

namespace callgate::calls {

namespace {

using Tree = boost::property_tree::ptree;

void copy_elements(const Tree& from, Tree& to, std::string_view elements) {
    for (const auto& [name, child] : from) {
        if (name == "<xmlattr>") {
            to.add_child(Tree::path_type(name, '\0'), child);
            for (auto& [attribute, value] : to.back().second)
                value.data() = without_credentials(value.data());
            continue;
        }
        if (!has_word(elements, std::string_view(name))) continue;
        Tree& copied =
            to.add_child(Tree::path_type(name, '\0'), Tree(without_credentials(trimmed(child.data()))));
        copy_elements(child, copied, elements);
    }
}

using Json = nlohmann::ordered_json;

/// A value, or the plain values in an object or list. What lies deeper is left out.
void copy_flat(const Json& from, Json& to) {
    const auto plain = [](const Json& one) {
        return one.is_string() ? Json(without_credentials(one.get_ref<const std::string&>())) : one;
    };
    if (!from.is_structured()) {
        to = plain(from);
        return;
    }
    to = from.is_array() ? Json::array() : Json::object();
    for (const auto& [key, value] : from.items()) {
        if (value.is_structured()) continue;
        if (from.is_array())
            to.push_back(plain(value));
        else
            to[key] = plain(value);
    }
}

/// "packagist.org": false, and the members of a repository that say which it is. Its options may hold
/// headers.
Json repository_copy(const Json& from) {
    Json to = Json::object();
    if (!from.is_object()) return from.is_boolean() ? from : to;
    for (const auto& [key, value] : from.items())
        if (value.is_boolean() || has_word("type url only exclude name", std::string_view(key)))
            copy_flat(value, to[key]);
    return to;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t from = text.find_first_not_of(blanks);
    if (from == std::string_view::npos) return {};
    return text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

std::vector<std::string_view> lines_of(std::string_view content) {
    std::vector<std::string_view> lines;
    while (!content.empty()) {
        const std::size_t end = content.find('\n');
        lines.push_back(content.substr(0, end));
        content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
    }
    return lines;
}

std::string_view unquoted(std::string_view text) {
    if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
        return text.substr(1, text.size() - 2);
    return text;
}

std::optional<std::string_view> without_comment(std::string_view text, std::string_view marks,
                                                CommentAt place) {
    std::size_t at = 0;
    if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
        const std::size_t end = text.find(text.front(), 1);
        if (text.front() == '"' && text.substr(0, end).find('\\') != std::string_view::npos)
            return std::nullopt;
        if (end != std::string_view::npos) at = end + 1;
    }
    while ((at = text.find_first_of(marks, at)) != std::string_view::npos) {
        if (place == CommentAt::anywhere || at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t')
            return trimmed(text.substr(0, at));
        ++at;
    }
    return text;
}

std::string without_credentials(std::string_view text) {
    std::string out;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t scheme = text.find("//", from);
        if (scheme == std::string_view::npos) {
            // A proxy may be given as user:password@host.
            const std::string_view last = text.substr(from);
            const std::size_t user = last.rfind('@');
            out.append(user == std::string_view::npos ? last : last.substr(user + 1));
            break;
        }
        // The scheme may be missing: "//host/path".
        std::size_t begin = scheme + 2;
        out.append(text.substr(from, begin - from));
        // A password may hold what separates URLs elsewhere: a comma, a quote.
        const std::size_t blank = text.find_first_of(" \t", begin), next = text.find("//", begin);
        const std::string_view reach = text.substr(begin, std::min({blank, next, text.size()}) - begin);
        const std::string_view authority = reach.substr(0, reach.find_first_of("/?#\\"));
        std::size_t user = authority.rfind('@');
        // An unescaped slash in it would move the "@" behind the authority.
        if (user == std::string_view::npos && authority.find(':') != std::string_view::npos)
            user = reach.rfind('@');
        if (user != std::string_view::npos) begin += user + 1;
        const std::size_t end = std::min(text.find_first_of(" \t\"'<>,|", begin), text.size());
        const std::string_view rest = text.substr(begin, end - begin);
        out.append(rest.substr(0, rest.find_first_of("?#")));
        from = end;
    }
    return out;
}

std::string ini_copy(std::string_view content, bool continued, Allowed allowed) {
    std::string out;
    bool keeps = false;
    const auto value_of = [continued](std::string_view text) {
        return without_comment(text, "#;", continued ? CommentAt::blank : CommentAt::anywhere);
    };
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#' || text.front() == ';') continue;
        if (continued && (line.front() == ' ' || line.front() == '\t')) {
            const auto value = keeps ? value_of(text) : std::nullopt;
            if (value) out.append("    ").append(without_credentials(*value)) += '\n';
            continue;
        }
        keeps = false;
        if (text.front() == '[') {
            if (text.back() == ']' && without_credentials(text) == text) out.append(text) += '\n';
            continue;
        }
        const std::size_t at = text.find_first_of(continued ? "=:" : "=");
        if (at == std::string_view::npos) continue;
        const std::string_view key = trimmed(text.substr(0, at));
        const auto value = allowed(key) ? value_of(trimmed(text.substr(at + 1))) : std::nullopt;
        keeps = value.has_value();
        if (value) out.append(key).append(" = ").append(without_credentials(*value)) += '\n';
    }
    return out;
}

namespace {

/// A value of YAML that is no plain or quoted text.
bool is_other_form(std::string_view value) {
    return !value.empty() && std::string_view("{[|>&*!").find(value.front()) != std::string_view::npos;
}

}  // namespace

std::string yaml_copy(std::string_view content, std::string_view keys) {
    std::string out;
    std::size_t skipped = std::string_view::npos;  // the indentation of a key that was left out
    std::vector<std::pair<std::size_t, std::string>> above;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#') continue;
        const std::size_t depth = line.find_first_not_of(" \t");
        if (skipped != std::string_view::npos && depth > skipped) continue;
        skipped = std::string_view::npos;
        while (!above.empty() && above.back().first >= depth) above.pop_back();
        const std::size_t at = text.find(": ");
        if (at == std::string_view::npos && text.back() != ':') continue;
        const std::string_view written = text.substr(0, at == std::string_view::npos ? text.size() - 1 : at);
        const std::string_view key = unquoted(trimmed(written));
        const auto value = without_comment(
            at == std::string_view::npos ? std::string_view() : trimmed(text.substr(at + 2)), "#");
        // Names of scopes and registries are the user's own.
        const bool scope = above.size() == 1 && value && value->empty();
        // Other forms of values may hold keys, or go on in the next lines.
        if ((!has_word(keys, key) && !scope) || !value || is_other_form(*value)) {
            skipped = depth;
            continue;
        }
        const std::string name = without_credentials(trimmed(written));
        out.append(depth, ' ').append(name) += ':';
        if (!value->empty()) out.append(" \"").append(without_credentials(unquoted(*value))) += '"';
        out += '\n';
        above.emplace_back(depth, name);
    }
    return out;
}

std::string gemrc_copy(std::string_view content, std::string_view keys) {
    std::string out;
    bool keeps = false;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#') continue;
        if (text.starts_with("- ")) {
            const auto value = keeps ? without_comment(trimmed(text.substr(2)), "#") : std::nullopt;
            if (value && !is_other_form(*value))
                out.append("- ").append(without_credentials(unquoted(*value))) += '\n';
            continue;
        }
        keeps = false;
        if (line.front() == ' ' || line.front() == '\t') continue;
        const std::size_t from = text.front() == ':' ? 1 : 0;
        const std::size_t at = text.find(':', from);
        if (at == std::string_view::npos || !has_word(keys, text.substr(from, at - from))) continue;
        const auto value = without_comment(trimmed(text.substr(at + 1)), "#");
        // Other forms of values may hold keys, or go on in the next lines. An escape could hide a URL.
        if (!value) continue;
        const bool list =
            value->starts_with('[') && value->ends_with(']') && value->find('\\') == std::string_view::npos;
        if (!list && is_other_form(*value)) continue;
        keeps = value->empty();
        out.append(text.substr(0, at + 1));
        if (!keeps) out.append(" ").append(without_credentials(*value));
        out += '\n';
    }
    return out;
}

std::string bundle_copy(std::string_view content, Allowed allowed) {
    std::string out;
    for (const std::string_view line : lines_of(content)) {
        const std::size_t at = line.find(": ");
        if (at == std::string_view::npos || !allowed(line.substr(0, at))) continue;
        const auto value = without_comment(trimmed(line.substr(at + 2)), "#", CommentAt::anywhere);
        if (!value) continue;
        out.append(without_credentials(line.substr(0, at))).append(": \"");
        out.append(without_credentials(unquoted(*value))) += "\"\n";
    }
    return out;
}

std::optional<std::string> composer_copy(std::string_view content, std::string_view keys) {
    const Json from = Json::parse(content, nullptr, false);
    if (!from.is_object()) return std::nullopt;
    Json to = Json::object();
    if (const auto config = from.find("config"); config != from.end() && config->is_object())
        for (const auto& [key, value] : config->items())
            if (has_word(keys, std::string_view(key))) copy_flat(value, to["config"][key]);
    if (const auto all = from.find("repositories"); all != from.end() && all->is_structured())
        for (const auto& [key, value] : all->items()) {
            Json kept = repository_copy(value);
            if (all->is_array())
                to["repositories"].push_back(std::move(kept));
            else
                to["repositories"][without_credentials(key)] = std::move(kept);
        }
    return to.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

std::optional<std::string> xml_copy(std::string_view content, std::string_view elements) {
    // Each level of nesting takes stack, and a user's rule may let the target write such a file.
    constexpr std::ptrdiff_t max_elements = 4000;
    if (std::ranges::count(content, '<') > max_elements) return std::nullopt;
    try {
        std::istringstream in{std::string(content)};
        Tree from, to;
        boost::property_tree::read_xml(in, from, boost::property_tree::xml_parser::no_comments);
        copy_elements(from, to, elements);
        std::ostringstream out;
        boost::property_tree::write_xml(out, to);
        return out.str();
    } catch (const boost::property_tree::ptree_error&) {
        return std::nullopt;
    }
}

}  // namespace callgate::calls
