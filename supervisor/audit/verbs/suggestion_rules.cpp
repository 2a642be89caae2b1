// The rules and the text that are proposed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/words.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/shipped.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/verbs/suggestion.hpp"

namespace callgate::audit {

namespace {

constexpr std::size_t max_examples = 12;

/// The party whose rules the agent alone has.
const std::string agents(rules::name(rules::Party::agent));

std::string counted(std::uint64_t count) {
    return "seen " + std::to_string(count) + (count == 1 ? " time" : " times");
}

}  // namespace

/// "STEM-3", with the next free number.
std::string Suggestion::fresh_id(const std::string& stem, const Json& rules) const {
    for (std::size_t number = rules.size() + 1;; ++number) {
        std::string id = stem + '-' + std::to_string(number);
        if (options_.taken.find('"' + id + '"') == std::string::npos) return id;
    }
}

/// Patterns with the same operations become one rule.
void Suggestion::file_rules(Json& rules, Json& examples) const {
    // Programs also read the files that they write, and create, move and remove them with their neighbours. A
    // rename may not give an object operations that it lacked under its old name.
    using OfParty = std::pair<std::string, std::string>;  // and an object, an operation or a pattern
    std::set<OfParty> written;
    for (const auto& [key, evidence] : seen_)
        if (!network(key.operation) && key.operation != "read" && key.operation != "execute")
            written.emplace(key.party, key.object);
    std::map<OfParty, PathTree> trees;
    for (const auto& [key, evidence] : seen_) {
        if (network(key.operation) || !why_not(key, evidence).empty()) continue;
        const bool writes = key.operation != "execute" && written.contains({key.party, key.object});
        const OfParty group{key.party, writes ? "write" : key.operation};
        trees.try_emplace(group, places_).first->second.add(key.object, evidence.count);
    }
    struct Merged {
        std::set<std::string> operations;
        std::uint64_t count = 0;
        std::map<std::string, std::string> examples;
    };
    std::map<OfParty, Merged> by_pattern;
    for (const auto& [group, tree] : trees) {
        const auto& [party, operation] = group;
        const auto width = operation == "execute" ? PathTree::Width::programs
                           : may_widen_           ? PathTree::Width::siblings
                                                  : PathTree::Width::exact;
        for (const PathTree::Pattern& pattern : tree.patterns(width)) {
            Merged& merged = by_pattern[{party, pattern.text}];
            merged.operations.insert(operation);
            if (operation == "write") merged.operations.insert("read");
            merged.count += pattern.count;
            merged.examples[operation] = pattern.example;
        }
    }
    std::map<std::pair<std::string, std::set<std::string>>, std::vector<std::string>> by_operations;
    for (const auto& [pattern, merged] : by_pattern)
        by_operations[{pattern.first, merged.operations}].push_back(pattern.second);
    for (const auto& [key, patterns] : by_operations) {
        const auto& [party, operations] = key;
        std::uint64_t count = 0;
        for (const std::string& pattern : patterns) count += by_pattern[{party, pattern}].count;
        const std::string widest = operations.contains("write") ? "write" : *operations.begin();
        Json rule = {{"id", fresh_id("suggested-" + widest, rules)}};
        if (!party.empty()) rule["party"] = party;
        rule.update({{"allow", operations}, {"path", patterns}, {"reason", counted(count)}});
        rules.push_back(std::move(rule));
        for (const std::string& pattern : patterns) {
            const auto& [operation, example] = *by_pattern[{party, pattern}].examples.begin();
            // Examples speak of tools.
            if (examples.size() >= max_examples || party == agents) break;
            // An example names an object, not a pattern.
            if (example.find('\\') == std::string::npos && example.find(' ') == std::string::npos)
                examples.push_back(operation + ' ' + example);
        }
    }
}

/// Addresses of one name become one rule: the addresses of the next run may be others.
void Suggestion::network_rules(Json& rules, Json& examples) const {
    std::map<std::string, std::pair<Json, std::uint64_t>> merged;
    for (const auto& [key, evidence] : seen_) {
        if (!network(key.operation) || !why_not(key, evidence).empty()) continue;
        Json rule = Json::object();
        if (!key.party.empty()) rule["party"] = key.party;
        rule["allow"] = key.operation;
        if (key.object.starts_with('/') || key.object.starts_with('@')) {
            rule["unix"] =
                key.object.starts_with('@') ? rules::quote_glob(key.object) : places_.pattern(key.object);
            if (evidence.socket_type == "datagram") rule["protocol"] = "datagram";
        } else {
            const auto where = endpoint(key.object);
            const bool named = rules::is_one_host(evidence.domain);  // in audit mode it may be any bytes
            const auto address = rules::parse_address(where->host);
            if (key.operation == "connect")
                rule[named ? "host" : "address"] = named ? evidence.domain : where->host;
            else if (address && !rules::is_any(*address))
                rule["address"] = where->host;
            rule["port"] = where->port;
            if (where->udp) rule["protocol"] = "udp";
            if (key.operation == "connect" && !where->udp && examples.size() < max_examples &&
                key.party != agents) {
                std::string example =
                    "connect " + (named ? evidence.domain + ':' + std::to_string(where->port) : key.object);
                if (std::ranges::find(examples, Json(example)) == examples.end())
                    examples.push_back(std::move(example));
            }
        }
        auto& [first, count] = merged.try_emplace(rule.dump(), rule, 0).first->second;
        count += evidence.count;
    }
    for (auto& [text, found] : merged) {
        auto& [rule, count] = found;
        Json whole = {{"id", fresh_id("suggested-" + rule["allow"].get<std::string>(), rules)}};
        whole.update(rule);
        whole["reason"] = counted(count);
        rules.push_back(std::move(whole));
    }
}

void Suggestion::write_for_a_person(std::ostream& out) const {
    bool said = false;
    for (const auto& [key, evidence] : seen_) {
        const std::string why = why_not(key, evidence);
        if (why.empty() || connected_.contains(key.object)) continue;
        if (!said) out << "\n// Looked at by a person first, and not allowed by the rules above:\n";
        said = true;
        out << "//   " << key.operation << ' ' << terminal_safe(key.object) << " (" << counted(evidence.count)
            << (key.party == agents ? ", by the agent itself" : "") << "): " << terminal_safe(why) << '\n';
    }
    write_dot_directories(out);
    if (left_out_ > 0) out << "\n// Left out: " << left_out_ << " more calls on other objects.\n";
}

/// A dot directory may hold credentials beside what was seen, so its rules are comments.
void Suggestion::write_dot_directories(std::ostream& out) const {
    struct Wanted {
        std::set<std::string> operations;
        std::uint64_t count = 0;
    };
    std::map<std::pair<std::string, std::string>, Wanted> by_pattern;
    for (const auto& [key, evidence] : seen_) {
        if (evidence.by_rule || !evidence.guard.empty() || network(key.operation) ||
            key.object == places_.home_of(key.object) || !places_.private_to_user(key.object) ||
            !is_utf8(key.object))
            continue;
        Wanted& wanted = by_pattern[{key.party, places_.application_pattern(key.object)}];
        wanted.operations.insert(key.operation);
        wanted.count += evidence.count;
    }
    if (by_pattern.empty()) return;
    out << "\n// Rules for dot directories, by application. Take over the ones that hold no credentials:\n";
    for (const auto& [pattern, wanted] : by_pattern) {
        Json rule = Json::object();
        if (!pattern.first.empty()) rule["party"] = pattern.first;
        rule.update(
            {{"allow", wanted.operations}, {"path", pattern.second}, {"reason", counted(wanted.count)}});
        out << "//   " << json_read::ascii_text(rule) << '\n';
    }
}

/// The whole rule set, with one line for each rule.
std::string Suggestion::text(const std::vector<std::string>& rules, const Json& examples) const {
    const std::string from = joined(runs_, ", ");
    std::set<std::string> extends = profiles_;
    // Each shipped profile extends `base`, whose denials hold whatever is allowed here.
    if (std::ranges::none_of(profiles_, rules::find_shipped_profile)) extends.insert("base");
    const auto line = [](const char* key, const Json& value) {
        return std::string("  \"") + key + "\": " + json_read::ascii_text(value);
    };
    std::string text = "{\n" + line("version", 1) + ",\n";
    text +=
        line("description", "Allows what was seen in " + (from.empty() ? "a log" : "run " + from)) + ",\n";
    text += line("extends", extends) + ",\n  \"rules\": [\n    " + joined(rules, ",\n    ") + "\n  ],\n";
    Json both = Json::object();
    if (!examples.empty()) both["allow"] = examples;  // an empty list is an error
    both["deny"] = Json::array({"read ~/.ssh/id_ed25519"});
    return text + line("examples", both) + "\n}\n";
}

Suggested Suggestion::all() const {
    Json rules = Json::array(), examples = Json::array();
    file_rules(rules, examples);
    network_rules(rules, examples);
    Suggested found;
    for (const Json& rule : rules) found.rules.push_back(json_read::ascii_text(rule));
    std::ostringstream for_a_person;
    write_for_a_person(for_a_person);
    found.for_a_person = for_a_person.str();
    found.rule_set = text(found.rules, examples) + found.for_a_person;
    return found;
}

}  // namespace callgate::audit
