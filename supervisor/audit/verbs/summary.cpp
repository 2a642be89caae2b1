// `callgate audit summary`: the number of decisions for each rule, object or program, by verdict.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::audit {

namespace {

/// Further objects are counted together.
constexpr std::size_t max_keys = 100'000;
constexpr const char* others = "(others)";

/// Allows lookups by a view into the line, without a copy.
struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using Groups = std::unordered_map<std::string, Counts, Hash, std::equal_to<>>;
using Sorted = std::vector<std::pair<std::string, Counts>>;

const std::string& key_of(const Entry& entry, const std::string& by) {
    static const std::string none = "-";
    const std::string& key = by == "rule"     ? entry.rule
                             : by == "object" ? entry.object
                             : by == "host"   ? entry.host
                                              : entry.program;
    return key.empty() ? none : key;
}

void count(Counts& counts, const Entry& entry) {
    const bool would =
        entry.mode == callgate::name(Mode::audit) && entry.mechanism != "errno" && entry.mechanism != "kill";
    if (entry.verdict == "allow" || entry.mechanism == "filtered") {
        counts.allow += entry.count;
        return;
    }
    if (entry.verdict == "deny") (would ? counts.would_deny : counts.deny) += entry.count;
    if (entry.verdict == "ask") (would ? counts.would_ask : counts.ask) += entry.count;
    if (entry.verdict == "kill") (would ? counts.would_kill : counts.kill) += entry.count;
}

std::uint64_t would(const Counts& counts) { return counts.would_deny + counts.would_ask + counts.would_kill; }

/// Sorts refused groups first, then by count.
Sorted sorted(const Groups& groups) {
    Sorted all(groups.begin(), groups.end());
    std::sort(all.begin(), all.end(),
              [](const auto& one, const auto& other) { return one.first < other.first; });
    const auto weight = [](const Counts& counts) {
        return std::pair(counts.deny + counts.ask + counts.kill + would(counts), counts.allow);
    };
    std::stable_sort(all.begin(), all.end(), [&weight](const auto& one, const auto& other) {
        return weight(one.second) > weight(other.second);
    });
    return all;
}

void write_json(std::ostream& out, const std::string& by, const Sorted& groups) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& [key, counts] : groups) {
        nlohmann::ordered_json& group = all.emplace_back(nlohmann::ordered_json{{by, key}});
        for (const auto& [name, place] : count_members) group[name] = counts.*place;
    }
    out << json_read::ascii_text(all, 2) << '\n';
}

void write_table(std::ostream& out, const std::string& by, const Sorted& groups) {
    std::string header = by;
    for (char& one : header) one = static_cast<char>(one - 'a' + 'A');
    Table table(out, {"DENIED", "ASKED", "KILLED", "WOULD BE DENIED", "ALLOWED", header}, false);
    for (const auto& [key, counts] : groups) {
        table.add({{std::to_string(counts.deny)},
                   {std::to_string(counts.ask)},
                   {std::to_string(counts.kill)},
                   {std::to_string(would(counts))},
                   {std::to_string(counts.allow)},
                   {key}});
    }
}

}  // namespace

int summary(std::ostream& out, std::ostream& errors, const SummaryOptions& options) {
    if (options.by != "rule" && options.by != "object" && options.by != "program" && options.by != "host") {
        errors << "--by: expected rule, object, program or host\n";
        return exit_wrong_use;
    }
    std::optional<Opened> log = open_log(errors, options.log, options.filter);
    if (!log) return exit_wrong_use;
    Groups groups;
    const int status = for_each_record(log->reader, errors, [&](const Entry& entry) {
        if (!entry.decision() || !log->selection.matches(entry)) return;
        if (options.by == "host" && entry.host.empty()) return;
        const std::string& key = key_of(entry, options.by);
        auto group = groups.find(key);
        if (group == groups.end())
            group = groups.try_emplace(groups.size() < max_keys ? key : std::string(others)).first;
        count(group->second, entry);
    });
    options.json ? write_json(out, options.by, sorted(groups)) : write_table(out, options.by, sorted(groups));
    return status;
}

}  // namespace callgate::audit
