#include "supervisor/run/observed_summary.hpp"

#include <algorithm>

#include "base/escape.hpp"
#include "base/reader_letters.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

namespace {

constexpr std::size_t max_groups = 4096, max_rules = 8, max_group_lines = 6;

std::string directory_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return std::string(path);  // "@name"
    return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

/// The directory of a file or socket, the host and port of an endpoint.
std::string place_of(const audit::Decision& decision) {
    if (const auto* file = std::get_if<rules::FileObject>(&decision.object))
        return decision.operation == rules::Operation::execute ? std::string(file->path)
                                                               : directory_of(file->path);
    if (const auto* socket = std::get_if<rules::UnixObject>(&decision.object))
        return std::string(socket->name);
    return object_text(decision);
}

std::size_t depth(std::string_view path) {
    return static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
}

bool more_frequent(std::uint64_t one, std::uint64_t other) { return one > other; }

/// The deepest directories become their parents until few are left; nothing becomes one of the first level.
template <class Lines>
void roll_up(Lines& lines) {
    while (lines.size() > max_group_lines) {
        std::size_t deepest = 2;
        for (const auto& line : lines) {
            if (line.place.starts_with('/')) deepest = std::max(deepest, depth(line.place));
        }
        if (deepest == 2) return;
        for (auto& line : lines) {
            if (line.place.starts_with('/') && depth(line.place) == deepest)
                line.place = directory_of(line.place);
        }
        Lines merged;
        for (const auto& line : lines) {
            const auto same = std::find_if(merged.begin(), merged.end(), [&line](const auto& one) {
                return one.action == line.action && one.operation == line.operation &&
                       one.place == line.place;
            });
            if (same == merged.end()) {
                merged.push_back(line);
            } else {
                same->count += line.count;
                same->name.clear();
            }
        }
        lines = std::move(merged);
    }
}

std::string more(std::size_t count) { return "… and " + std::to_string(count) + " more\n"; }

}  // namespace

void ObservedSummary::note(const audit::Decision& decision) {
    Key key{std::string(decision.verdict.rule == nullptr ? rules::name(decision.verdict.decided_by)
                                                         : decision.verdict.rule_name()),
            decision.verdict.action, decision.operation, place_of(decision)};
    std::string name = object_text(decision);
    const std::lock_guard guard(lock_);
    if (const auto known = counts_.find(key); known != counts_.end()) {
        ++known->second.count;
        if (known->second.name != name) known->second.others = true;
    } else if (counts_.size() < max_groups) {
        counts_.emplace(std::move(key), Seen{1, std::move(name), false});
    } else {
        ++unkept_;
    }
}

std::vector<ObservedSummary::Group> ObservedSummary::groups() const {
    std::vector<Group> all;
    for (const auto& [key, seen] : counts_) {
        if (all.empty() || all.back().rule != key.rule) all.push_back({key.rule, 0, {}});
        all.back().count += seen.count;
        all.back().lines.push_back(
            {key.action, key.operation, key.place, seen.count, seen.others ? "" : seen.name});
    }
    for (Group& group : all) {
        roll_up(group.lines);
        std::stable_sort(group.lines.begin(), group.lines.end(), [](const Line& one, const Line& other) {
            return more_frequent(one.count, other.count);
        });
    }
    std::stable_sort(all.begin(), all.end(), [](const Group& one, const Group& other) {
        return more_frequent(one.count, other.count);
    });
    return all;
}

void ObservedSummary::append(std::string& text, const Group& group) {
    text += "callgate:   " + (group.rule == "default" ? "the default" : "rule " + terminal_safe(group.rule)) +
            " ×" + std::to_string(group.count) + '\n';
    std::size_t shown = 0;
    for (const Line& line : group.lines) {
        if (shown++ == max_group_lines) break;
        text += "callgate:     " + std::string(rules::name(line.action)) + ' ' +
                std::string(rules::name(line.operation)) + ' ' +
                delimited_name(line.name.empty() ? line.place : line.name) + " ×" +
                std::to_string(line.count) + '\n';
    }
    if (group.lines.size() > max_group_lines)
        text += "callgate:     " + more(group.lines.size() - max_group_lines);
}

std::string ObservedSummary::text() const {
    const std::lock_guard guard(lock_);
    const std::vector<Group> all = groups();
    std::string text;
    for (std::size_t index = 0; index < all.size() && index < max_rules; ++index) append(text, all[index]);
    if (all.size() > max_rules) text += "callgate:   " + more(all.size() - max_rules);
    if (unkept_ > 0) text += "callgate:   … and " + std::to_string(unkept_) + " calls of other kinds\n";
    return text;
}

}  // namespace callgate
