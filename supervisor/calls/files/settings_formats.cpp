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

/// Visits the places of TOML outside of quotes, until `visit` returns false. Returns false if a quote stays
/// open.
template <typename Visit>
bool each_unquoted(std::string_view text, const Visit& visit) {
    char quote = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char one = text[at];
        if (quote != 0) {
            if (one == '\\' && quote == '"') ++at;
            if (one == quote) quote = 0;
        } else if (one == '"' || one == '\'') {
            quote = one;
        } else if (!visit(at)) {
            return true;
        }
    }
    return quote == 0;
}

/// A value that ends on its line: brackets and quotes are balanced, and it holds no `"""` or `'''`.
bool whole_value(std::string_view value) {
    int depth = 0;
    if (value.find("\"\"\"") != std::string_view::npos || value.find("'''") != std::string_view::npos)
        return false;
    const bool closed = each_unquoted(value, [&](std::size_t at) {
        const char one = value[at];
        if (one == '[' || one == '{') ++depth;
        if (one == ']' || one == '}') --depth;
        return one != '#';
    });
    return closed && depth == 0;
}

/// Strings of a one-line value, each without the user part of its URL; nothing where it is not understood.
std::optional<std::string> toml_value(std::string_view value) {
    if (value.find('{') != std::string_view::npos) return std::nullopt;
    std::string out;
    for (std::size_t at = 0; at < value.size(); ++at) {
        const char one = value[at];
        if (one == '#') break;
        if (one != '"' && one != '\'') {
            out += one;
            continue;
        }
        const std::size_t end = value.find(one, at + 1);
        if (end == std::string_view::npos) return std::nullopt;
        const std::string_view text = value.substr(at + 1, end - at - 1);
        // An escape could hide a URL or the end of the text.
        if (one == '"' && text.find('\\') != std::string_view::npos) return std::nullopt;
        (out += one).append(without_credentials(text)) += one;
        at = end;
    }
    return std::string(trimmed(out));
}

/// An inline table with those members whose keys may stay. Nothing if none may.
std::optional<std::string> toml_inline_table(std::string_view value, std::string_view keys) {
    value = value.substr(1, value.size() - 2);
    std::string out;
    const auto add = [&](std::string_view member) {
        const std::size_t at = member.find('=');
        if (at == std::string_view::npos) return;
        const std::string_view key = trimmed(member.substr(0, at));
        const auto kept = has_word(keys, key) ? toml_value(trimmed(member.substr(at + 1))) : std::nullopt;
        if (kept) out.append(out.empty() ? "{ " : ", ").append(key).append(" = ").append(*kept);
    };
    int depth = 0;
    std::size_t begin = 0;
    each_unquoted(value, [&](std::size_t at) {
        depth += value[at] == '[' || value[at] == '{' ? 1 : 0;
        depth -= value[at] == ']' || value[at] == '}' ? 1 : 0;
        if (value[at] != ',' || depth != 0) return true;
        add(value.substr(begin, at - begin));
        begin = at + 1;
        return true;
    });
    add(value.substr(begin));
    if (out.empty()) return std::nullopt;
    return out + " }";
}

/// A line of TOML without its comment: each quote in it is one.
std::string_view without_toml_comment(std::string_view text) {
    std::size_t end = text.size();
    each_unquoted(text, [&](std::size_t at) {
        if (text[at] == '#') end = at;
        return text[at] != '#';
    });
    return text.substr(0, end);
}

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

std::optional<std::string> toml_copy(std::string_view content, std::string_view keys,
                                     std::string_view places) {
    std::string out;
    std::string joined;
    bool keeps_table = true, of_places = false;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (joined.empty() && (text.empty() || text.front() == '#')) continue;
        if (joined.empty() && text.front() == '[') {
            const std::string_view name = trimmed(text.substr(0, text.find('#')));
            if (name.back() != ']') return std::nullopt;
            // Variables for programs may hold anything.
            keeps_table = !name.starts_with("[env") && without_credentials(name) == name;
            of_places = !places.empty() && name == places;
            if (keeps_table) out.append(name) += '\n';
            continue;
        }
        joined.append(joined.empty() ? "" : " ").append(trimmed(without_toml_comment(text)));
        const std::size_t at = joined.find('=');
        if (at == std::string::npos) return std::nullopt;
        const std::string_view value = trimmed(std::string_view(joined).substr(at + 1));
        if (!whole_value(value)) {
            const bool goes_on = value.starts_with('[') || value.starts_with('{');
            if (!goes_on || joined.size() > max_settings) return std::nullopt;
            continue;
        }
        const std::string_view key = trimmed(std::string_view(joined).substr(0, at));
        const std::size_t dot = key.rfind('.');
        const std::string_view last =
            unquoted(trimmed(dot == std::string_view::npos ? key : key.substr(dot + 1)));
        if (keeps_table && (of_places || has_word(keys, last)) && !key.starts_with("env")) {
            const bool table = value.starts_with('{') && value.ends_with('}');
            const auto kept = table ? toml_inline_table(value, keys) : toml_value(value);
            if (kept && (!of_places || kept->find("://") != std::string::npos))
                out.append(key).append(" = ").append(*kept) += '\n';
        }
        joined.clear();
    }
    if (!joined.empty()) return std::nullopt;
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
