// `callgate rules`: what answers proposed, shown and taken over into the user's own rule set.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "rules/loader.hpp"
#include "supervisor/approval/proposal.hpp"
#include "supervisor/audit/escape.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

using approval::Pending;

constexpr std::size_t longest_file = 4U << 20;

Pending require_pending(const std::string& config, const std::string& name) {
    for (Pending& one : approval::pending_rules(config))
        if (one.name == name) return std::move(one);
    throw Failure("no pending rule " + name + "; callgate rules pending lists them");
}

/// Lines that are new or gone, as `diff` marks them.
std::string difference(const std::string& before, const std::string& after) {
    const auto lines = [](const std::string& text) {
        std::vector<std::string> all;
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            all.push_back(text.substr(begin, end - begin));
            begin = end + 1;
        }
        return all;
    };
    const std::vector<std::string> old_lines = lines(before), new_lines = lines(after);
    std::size_t head = 0, tail = 0;
    const std::size_t common = std::min(old_lines.size(), new_lines.size());
    while (head < common && old_lines[head] == new_lines[head]) ++head;
    while (tail < common - head &&
           old_lines[old_lines.size() - 1 - tail] == new_lines[new_lines.size() - 1 - tail])
        ++tail;
    std::string text;
    for (std::size_t at = head; at < old_lines.size() - tail; ++at)
        text += "- " + audit::terminal_safe(old_lines[at]) + "\n";
    for (std::size_t at = head; at < new_lines.size() - tail; ++at)
        text += "+ " + audit::terminal_safe(new_lines[at]) + "\n";
    return text;
}

/// Whether it would be taken at the next run; the first error otherwise.
std::string error_in(const Places& places, const std::string& text, const std::string& file) {
    const std::string tmp = private_directory_name("RUN");
    const TreeWithTmp tree(tmp);
    rules::LoadContext context = machine_context(places, canonical("."), tmp, tree);
    rules::RuleSources sources;
    sources.parts.emplace_back(rules::RuleSources::Text{text, file});
    const rules::LoadedRules loaded = rules::load(sources, context);
    for (const rules::Diagnostic& one : loaded.diagnostics)
        if (one.severity == rules::Diagnostic::Severity::error) return one.text();
    return "";
}

/// Whole or not at all; what a link points to is written, not the link.
void replace_file(const std::string& file, const std::string& text) {
    const std::string target = canonical(file);
    struct stat before {};
    const mode_t mode = ::stat(target.c_str(), &before) == 0 ? before.st_mode & 07777U : 0600;
    const std::string fresh = target + ".new";
    UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
    const bool written = fd &&
                         ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         ::fchmod(fd.get(), mode) == 0 && ::fsync(fd.get()) == 0 &&
                         ::rename(fresh.c_str(), target.c_str()) == 0;
    if (written) return;
    const int error = errno;
    if (fd) ::unlink(fresh.c_str());
    throw Failure("cannot write " + file + ": " + std::strerror(error));
}

int list(const Places& places) {
    for (const Pending& one : approval::pending_rules(places.config))
        print(one.name + "  " + audit::terminal_safe(one.rule) + "\n");
    return 0;
}

int accept(const Places& places, const std::string& name) {
    const Pending pending = require_pending(places.config, name);
    const std::string file = places.config + "/rules.json";
    std::string before;
    std::optional<std::string> after = approval::fresh_rule_set(pending.rule);
    if (::access(file.c_str(), F_OK) == 0) {
        auto text = read_regular_file(file, longest_file);
        if (text.index() != 0) throw Failure(file + " " + std::get<1>(text));
        before = std::get<0>(text);
        after = approval::with_rule(before, pending.rule);
        if (!after) throw Failure(file + " has no list of rules that one could be put into");
    }
    if (const std::string error = error_in(places, *after, file); !error.empty())
        throw Failure("the rule set would not be good any more: " + error + "; nothing was changed");
    replace_file(file, *after);
    static_cast<void>(approval::drop_pending(places.config, name));
    print(audit::terminal_safe(file) + "\n" + difference(before, *after));
    return 0;
}

}  // namespace

int rules_verb(const Arguments& arguments) {
    const Places places = find_places();
    if (places.config.empty()) throw Failure("there is no directory for rules: HOME is not set");
    const std::vector<std::string>& words = arguments.rest();
    const bool named = words.size() > 1;
    if (words[0] == "pending" && !named) return list(places);
    if (words[0] == "accept" && named) return accept(places, words[1]);
    if (words[0] == "drop" && named) {
        static_cast<void>(require_pending(places.config, words[1]));
        if (!approval::drop_pending(places.config, words[1]))
            throw Failure("cannot remove the pending rule " + words[1] + ": " + std::strerror(errno));
        return 0;
    }
    constexpr std::string_view known[] = {"pending", "accept", "drop"};
    throw Failure("callgate rules " + words[0] + ": expected pending, accept NAME or drop NAME" +
                  suggestion(words[0], known));
}

}  // namespace callgate::cli
