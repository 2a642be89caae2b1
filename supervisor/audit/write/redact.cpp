#include "supervisor/audit/write/redact.hpp"

#include <algorithm>
#include <array>

namespace callgate::audit {

namespace {

constexpr auto npos = std::string_view::npos;

char lower(char one) { return one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one; }

std::string lower(std::string_view text) {
    std::string copy(text);
    for (char& one : copy) one = lower(one);
    return copy;
}

/// "key" as a word of its own or at the end of one: API_KEY, apikey, KEYID, but neither keyserver nor
/// keyring.
bool names_key(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t at = text.find("key"); at != npos; at = text.find("key", at + 1)) {
        const std::size_t end = at + 3;
        if (end == name.size() || name[end] < 'a' || name[end] > 'z') return true;
    }
    return false;
}

/// Whether the name of an option, variable, parameter or header speaks of a secret.
bool names_secret(std::string_view name) {
    static constexpr std::array<std::string_view, 9> words = {"token",      "secret",        "password",
                                                              "passwd",     "passphrase",    "cookie",
                                                              "credential", "authorization", "signature"};
    const std::string text = lower(name);
    return text == "sig" || names_key(name) ||
           std::any_of(words.begin(), words.end(),
                       [&text](std::string_view word) { return text.find(word) != npos; });
}

bool is_name(char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
           one == '_' || one == '-' || one == '.';
}

/// The start of the name that ends before `end`.
std::size_t name_start(std::string_view text, std::size_t end) {
    while (end > 0 && is_name(text[end - 1])) --end;
    return end;
}

/// The end of a value that begins at `start`: the closing quote, or else a character that ends a word in a
/// shell or URL.
std::size_t value_end(std::string_view text, std::size_t start) {
    if (start < text.size() && (text[start] == '"' || text[start] == '\'')) {
        const std::size_t closing = text.find(text[start], start + 1);
        return closing == npos ? text.size() : closing + 1;
    }
    return std::min(text.find_first_of(" \t\r\n\"'&;|<>)", start), text.size());
}

/// Redacts NAME=VALUE. An argument that is one assignment as a whole loses all that follows its '='.
void redact_assignments(std::string& text) {
    for (std::size_t at = text.find('='); at != npos; at = text.find('=', at + 1)) {
        const std::size_t start = name_start(text, at);
        if (!names_secret(std::string_view(text).substr(start, at - start))) continue;
        const std::size_t end = start == 0 ? text.size() : value_end(text, at + 1);
        if (end == at + 1) continue;
        text.replace(at + 1, end - at - 1, redacted);
    }
}

/// Redacts `Name: value` as HTTP headers have it, up to the end of the line or the quote around it.
void redact_headers(std::string& text) {
    for (std::size_t at = text.find(':'); at != npos; at = text.find(':', at + 1)) {
        const std::size_t start = name_start(text, at);
        if (!names_secret(std::string_view(text).substr(start, at - start))) continue;
        const std::size_t value = text.find_first_not_of(" \t", at + 1);
        if (value == npos) return;
        const std::size_t end = std::min(text.find_first_of("\r\n\"'", value), text.size());
        text.replace(value, end - value, redacted);
    }
}

/// Redacts scheme://user:password@host.
void redact_urls(std::string& text) {
    for (std::size_t at = text.find("://"); at != npos; at = text.find("://", at + 3)) {
        const std::size_t authority = at + 3;
        const std::size_t end = std::min(text.find_first_of("/?# \t\r\n\"'", authority), text.size());
        const std::size_t before = std::string_view(text).substr(authority, end - authority).rfind('@');
        if (before == npos) continue;
        const std::size_t host = authority + before;
        const std::size_t colon = text.find(':', authority);
        // A name without a colon is itself the credential (https://TOKEN@host), as forges use it.
        const std::size_t secret = colon < host ? colon + 1 : authority;
        text.replace(secret, host - secret, redacted);
    }
}

/// Redacts `--password VALUE` inside one argument, as scripts have it. A name may hold "--" itself, and is
/// looked at once: a long one of nothing else would take the square of its length.
void redact_options(std::string& text) {
    for (std::size_t at = text.find("--"), end = 0; at != npos; at = text.find("--", end)) {
        end = at + 2;
        while (end < text.size() && is_name(text[end])) ++end;
        if (end >= text.size() || (text[end] != ' ' && text[end] != '\t')) continue;
        if (!names_secret(std::string_view(text).substr(at, end - at))) continue;
        const std::size_t value = text.find_first_not_of(" \t", end);
        if (value == npos) return;
        text.replace(value, value_end(text, value) - value, redacted);
    }
}

/// Whether the argument after `option` is a secret as a whole.
bool takes_secret(std::string_view option) {
    return option.size() > 2 && option.front() == '-' && option.find_first_of("=: \t\n") == npos &&
           names_secret(option);
}

}  // namespace

std::string redact_argument(std::string_view argument) {
    std::string text(argument);
    redact_urls(text);
    redact_headers(text);
    redact_assignments(text);
    redact_options(text);
    return text;
}

std::vector<std::string> redact(std::span<const std::string> command) {
    std::vector<std::string> out;
    out.reserve(command.size());
    for (std::size_t index = 0; index < command.size(); ++index) {
        const std::string_view before = index > 0 ? std::string_view(command[index - 1]) : std::string_view();
        if (takes_secret(before)) {
            out.emplace_back(redacted);
            continue;
        }
        if (before == "-u" || before == "--user" || before == "--proxy-user") {
            const std::size_t colon = command[index].find(':');
            if (colon != npos && colon + 1 < command[index].size()) {
                out.push_back(command[index].substr(0, colon + 1).append(redacted));
                continue;
            }
        }
        out.push_back(redact_argument(command[index]));
    }
    return out;
}

}  // namespace callgate::audit
