#include <string>

#include "base/words.hpp"
#include "supervisor/calls/files/settings_formats.hpp"

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

}  // namespace

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

}  // namespace callgate::calls
