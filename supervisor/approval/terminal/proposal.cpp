#include "supervisor/approval/terminal/proposal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/directory.hpp"
#include "base/escape.hpp"
#include "base/make_directories.hpp"
#include "rules/load/pattern.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::approval {

namespace {

template <class Strings>
std::string json_list(const Strings& strings) {
    std::string text = "[";
    for (const std::string& one : strings) text += (text.size() > 1 ? ", " : "") + json_string(one);
    return text + "]";
}

std::string json_words(const std::vector<std::string>& words) {
    return words.size() == 1 ? json_string(words.front()) : json_list(words);
}

/// "203.0.113.4:443", "[::1]:80/udp" as conditions.
std::string endpoint_conditions(const QuestionView& shown) {
    std::string text = shown.object;
    std::string protocol = "tcp";
    if (text.ends_with("/udp")) {
        protocol = "udp";
        text.resize(text.size() - 4);
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) return "";
    std::string address = text.substr(0, colon);
    if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
    // An address may have several names: which of them the program meant cannot be known.
    const bool named = !shown.host.empty() && shown.host.find_first_of(", *") == std::string::npos;
    const std::string where =
        named ? "\"host\": " + json_string(shown.host) : "\"address\": " + json_string(address);
    return where + ", \"port\": " + text.substr(colon + 1) + ", \"protocol\": " + json_string(protocol);
}

std::string object_conditions(const QuestionView& shown) {
    if (shown.kind == "internet") return endpoint_conditions(shown);
    if (shown.kind == "name") return "\"host\": " + json_string(shown.object);
    const std::string pattern = rules::quote_glob(shown.object);
    if (shown.kind == "unix") return "\"unix\": " + json_string(pattern);
    if (shown.second_path.empty()) return "\"path\": " + json_string(pattern);
    return "\"path\": " + json_list(std::vector{pattern, rules::quote_glob(shown.second_path)});
}

std::string pending_directory(const std::string& config) { return config + "/pending"; }

/// Whether it is a name that callgate gives: it becomes a path.
bool is_name(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char one) {
        return (one >= 'a' && one <= 'z') || (one >= '0' && one <= '9') || one == '-';
    });
}

/// The end of the string or comment that begins at `at` in JSON with comments; else `at`.
std::size_t skip(const std::string& text, std::size_t at) {
    if (text[at] == '"') {
        for (++at; at < text.size() && text[at] != '"'; ++at)
            if (text[at] == '\\') ++at;
        return std::min(at, text.size() - 1);
    }
    if (text.compare(at, 2, "//") == 0) return std::min(text.find('\n', at), text.size() - 1);
    if (text.compare(at, 2, "/*") == 0) return std::min(text.find("*/", at + 2), text.size() - 2) + 1;
    return at;
}

struct List {
    struct Item {
        std::size_t begin = 0, end = 0;
        std::size_t comma = std::string::npos;  // the comma behind it
    };
    std::size_t end = 0;   // its "]"
    std::size_t last = 0;  // behind the last thing in it that is no comment, or behind its "["
    bool empty = true, comma = false;
    std::vector<Item> items;  // the objects in it
};

/// The list of the member "rules" of the outermost object.
std::optional<List> find_rules(const std::string& text) {
    int depth = 0;
    bool inside = false;
    List list;
    std::string last_string;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const std::size_t begin = at;
        at = skip(text, at);
        const bool comment = text[begin] == '/' && at != begin;
        if (comment || text[begin] == ' ' || text[begin] == '\n' || text[begin] == '\t' ||
            text[begin] == '\r')
            continue;
        const char one = text[begin];
        if (one == '"') last_string = text.substr(begin + 1, at - begin - 1);
        if (inside && depth == 2 && one == ']') {
            list.end = begin;
            return list;
        }
        if (inside) {
            list.empty = false;
            list.comma = depth == 2 && one == ',';
            list.last = at + 1;
        }
        if (inside && depth == 2 && one == '{') list.items.push_back({.begin = begin});
        if (inside && depth == 2 && one == ',' && !list.items.empty()) list.items.back().comma = begin;
        if (one == '{' || one == '[') ++depth;
        if (one == '}' || one == ']') --depth;
        if (inside && depth == 2 && one == '}') list.items.back().end = begin + 1;
        if (!inside && depth == 2 && one == '[' && last_string == "rules") {
            inside = true;
            list.last = begin + 1;
        }
    }
    return std::nullopt;
}

}  // namespace

Result<std::string> proposed_rule(const QuestionView& shown) {
    if (!shown.changes.empty()) return errno_code(ENOTSUP);  // no rule can say that
    const auto sayable = [](std::string_view text) { return is_utf8(text); };
    if (!sayable(shown.object) || !sayable(shown.second_path) || !sayable(shown.program) ||
        !std::ranges::all_of(shown.arguments, sayable)) {
        return errno_code(EILSEQ);
    }
    const std::string object = object_conditions(shown);
    if (object.empty()) return errno_code(EINVAL);
    std::string rule = "{\"id\": \"accepted-" + shown.run + '-' + std::to_string(shown.id) +
                       "\", \"allow\": " + json_words(shown.operations) + ", " + object;
    if (!shown.arguments.empty()) {
        std::vector<std::string> patterns;
        for (const std::string& one : shown.arguments) patterns.push_back(rules::quote_glob(one));
        rule += ", \"argv\": " + json_list(patterns);
    }
    if (!shown.program.empty() && !shown.any_program)
        rule += ", \"program\": " + json_string(rules::quote_glob(shown.program));
    return rule + "}";
}

Result<std::string> propose(const std::string& config, const QuestionView& shown) {
    const Result<std::string> rule = proposed_rule(shown);
    if (!rule) return rule.error();
    if (config.empty()) return errno_code(ENOENT);
    static_cast<void>(make_directories(pending_directory(config)));  // the open reports a failure
    const std::string name = shown.run + '-' + std::to_string(shown.id);
    if (!is_name(name)) return errno_code(EINVAL);
    const UniqueFd file(::open((pending_directory(config) + '/' + name).c_str(),
                               O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return errno_code();
    // Another process may have put something else there: a FIFO, or another user's file.
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return errno_code();
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) return errno_code(EPERM);
    if (::ftruncate(file.get(), 0) != 0) return errno_code();
    const std::string line = *rule + '\n';
    if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        return errno_code(EIO);
    return name;
}

std::vector<Pending> pending_rules(const std::string& config) {
    std::vector<Pending> all;
    const std::string directory = pending_directory(config);
    const Directory entries(::opendir(directory.c_str()));
    if (!entries) return all;
    while (const dirent* const entry = ::readdir(entries.get())) {
        if (!is_name(entry->d_name)) continue;
        constexpr std::size_t max_proposal = 1U << 20;
        auto text = read_regular_file(directory + '/' + entry->d_name, max_proposal);
        if (!text) continue;
        std::string rule = std::move(*text);
        while (!rule.empty() && rule.back() == '\n') rule.pop_back();
        all.push_back({entry->d_name, std::move(rule)});
    }
    std::ranges::sort(all, {}, &Pending::name);
    return all;
}

bool drop_pending(const std::string& config, const std::string& name) {
    return is_name(name) && ::unlink((pending_directory(config) + '/' + name).c_str()) == 0;
}

std::optional<std::string> with_rule(const std::string& text, const std::string& rule) {
    const auto list = find_rules(text);
    if (!list) return std::nullopt;
    // Comments behind the last rule stay between it and the new one.
    std::string result = text.substr(0, list->last);
    if (!list->empty && !list->comma) result += ',';
    std::string between = text.substr(list->last, list->end - list->last);
    const std::size_t line = between.rfind('\n');
    const std::string closing = line == std::string::npos ? "\n  " : between.substr(line);
    if (line != std::string::npos) between.resize(line);
    result += between + "\n    " + rule + closing + text.substr(list->end);
    return result;
}

std::optional<std::vector<std::string>> rules_in(const std::string& text) {
    const auto list = find_rules(text);
    if (!list) return std::nullopt;
    std::vector<std::string> all;
    for (const List::Item& one : list->items) all.push_back(text.substr(one.begin, one.end - one.begin));
    return all;
}

std::optional<std::string> without_rule(const std::string& text, std::size_t index) {
    const auto list = find_rules(text);
    if (!list || index >= list->items.size()) return std::nullopt;
    const List::Item& item = list->items[index];
    const bool followed = item.comma != std::string::npos;
    std::size_t begin = item.begin, end = followed ? item.comma + 1 : item.end;
    // A line that holds nothing else goes with the rule.
    const std::size_t line = text.find_last_not_of(" \t", begin - 1) + 1;
    const std::size_t rest = text.find_first_not_of(" \t", end);
    if (text[line - 1] == '\n' && rest != std::string::npos && text[rest] == '\n') {
        begin = line;
        end = rest + 1;
    }
    std::string result = text.substr(0, begin) + text.substr(end);
    if (!followed && index > 0) result.erase(list->items[index - 1].comma, 1);
    return result;
}

std::string fresh_rule_set(const std::string& rule) {
    return "// Rules that you accepted (callgate rules).\n{\n  \"version\": 1,\n  \"rules\": [\n    " + rule +
           "\n  ]\n}\n";
}

}  // namespace callgate::approval
