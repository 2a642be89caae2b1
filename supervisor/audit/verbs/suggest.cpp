#include "supervisor/audit/verbs/suggest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "base/credential_name.hpp"
#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "rules/load/pattern.hpp"
#include "rules/load/shipped.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/replay.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/suggest_paths.hpp"

namespace callgate::audit {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_objects = 200'000, max_examples = 12;

/// The party whose rules the agent alone has.
const std::string agents(rules::name(rules::Party::agent));

bool network(const std::string& operation) { return operation == "connect" || operation == "bind"; }

/// "203.0.113.4:443/udp", "[::1]:80" taken apart.
struct HostPort {
    std::string host;
    int port = 0;
    bool udp = false;
};
std::optional<HostPort> endpoint(std::string text) {
    HostPort found;
    if (text.ends_with("/udp")) {
        found.udp = true;
        text.resize(text.size() - 4);
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) return std::nullopt;
    found.port = std::atoi(text.c_str() + colon + 1);
    found.host = text.substr(0, colon);
    if (found.host.starts_with('[') && found.host.ends_with(']'))
        found.host = found.host.substr(1, found.host.size() - 2);
    return found;
}

/// The loopback does not count: a single port there concerns only the run itself.
bool private_address(const std::string& host) {
    constexpr const char* ranges[] = {"10.0.0.0/8",    "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
                                      "100.64.0.0/10", "fc00::/7",      "fe80::/10",      "224.0.0.0/4"};
    const auto address = rules::parse_address(host);
    if (!address) return false;
    return std::any_of(std::begin(ranges), std::end(ranges), [&](const char* range) {
        const auto block = rules::parse_cidr(range);
        return block && block->contains(*address);
    });
}

/// The value of --except. The first '=' ends the rule's name, and "${" would begin a variable.
std::string exception(const std::string& rule, const std::string& object) {
    if (rule.find('=') != std::string::npos || object.find("${") != std::string::npos)
        return rule + "=PATTERN";
    return shell_quote(rule + '=' + rules::quote_glob(object));
}

class Suggestion {
public:
    explicit Suggestion(const SuggestOptions& options) : options_(options) { places_.home = options.home; }

    void take(const Entry& entry, std::string_view line);
    [[nodiscard]] Suggested all() const;

private:
    struct Key {
        std::string party;  // "": the run had none
        std::string operation, object;
        auto operator<=>(const Key&) const = default;
    };
    struct Evidence {
        std::uint64_t count = 0;
        std::string rule, guard, domain, socket_type;
        bool by_rule = false;
    };
    [[nodiscard]] std::string why_not(const Key& key, const Evidence& evidence) const;
    void file_rules(Json& rules, Json& examples) const;
    void network_rules(Json& rules, Json& examples) const;
    void note_made(const RecordedRequest& request);
    void see(const Entry& entry, rules::OperationSet operations, const rules::Object& object,
             const RecordedRequest& request, const std::string& name);
    [[nodiscard]] std::string guarded(rules::Operation operation, const rules::Object& object,
                                      const RecordedRequest& request) const;
    [[nodiscard]] bool guard_holds() const;
    void write_for_a_person(std::ostream& out) const;
    [[nodiscard]] rules::OperationSet not_allowed(rules::OperationSet operations, const rules::Object& object,
                                                  const RecordedRequest& request) const;
    [[nodiscard]] std::string fresh_id(const std::string& stem, const Json& rules) const;
    void write_dot_directories(std::ostream& out) const;
    [[nodiscard]] std::string text(const std::vector<std::string>& rules, const Json& examples) const;

    const SuggestOptions& options_;
    std::shared_ptr<const rules::RuleSet> there_, guard_;  // of the run that is read
    bool may_widen_ = true;  // what a directory's rule opens beside the seen names is guarded

    KnownPlaces places_;
    std::set<std::string> profiles_, runs_;
    std::map<Key, Evidence> seen_;
    std::set<std::string> connected_;  // names that connects led to: a rule for these allows their look-ups
    std::uint64_t left_out_ = 0;
};

void Suggestion::take(const Entry& entry, std::string_view line) {
    if (entry.action == "run.start") {
        places_.workdir = entry.workdir;
        places_.temporary_directory = entry.temporary_directory;
        profiles_.insert(entry.profiles.begin(), entry.profiles.end());
        runs_.insert(entry.run);
        if (options_.rules_for) there_ = options_.rules_for(entry.workdir, entry.temporary_directory);
        if (options_.guard_for) guard_ = options_.guard_for(entry.workdir, entry.temporary_directory);
        may_widen_ = may_widen_ && guard_holds();
    }
    if (!entry.decision() || entry.of_sequence != 0) return;
    const bool makes = entry.operation == "create" || entry.action.starts_with("rename");
    if (entry.verdict == "allow" && !makes) return;
    // No rule can allow a call that failed, or access to callgate's own files.
    if (entry.decided_by == "failure" || entry.rule.starts_with("callgate-")) return;
    const auto request = parse_request(line);
    if (!request) return;
    note_made(*request);
    if (entry.verdict == "allow") return;
    const rules::Object object = object_of(*request);
    if (entry.operation == "connect" && !entry.domain.empty()) connected_.insert(entry.domain);
    see(entry, not_allowed(request->first, object, *request), object, *request, entry.object);
    if (!request->has_second) return;
    const rules::Object second = rules::FileObject{request->second_object, false};
    see(entry, not_allowed(request->second, second, *request), second, *request, request->second_object);
}

/// The rule of the guard that denies the operation; "" if none does. The guard looks at the files of now. So
/// what the run made in a directory of its own is the run's: a repository that it cloned has its hooks.
std::string Suggestion::guarded(rules::Operation operation, const rules::Object& object,
                                const RecordedRequest& request) const {
    if (!guard_ || !check_enabled("suggest-guard")) return {};
    if (const auto* file = std::get_if<rules::FileObject>(&object);
        file != nullptr && places_.in_made_directory(file->path))
        return {};
    const rules::Verdict verdict = guard_->evaluate(
        {operation, object, request.program, request.arguments, request.party.value_or(rules::Party::tools)});
    if (verdict.rule == nullptr || verdict.rule->quiet || verdict.action < rules::Action::deny) return {};
    return verdict.rule->id + (verdict.rule->reason.empty() ? "" : ": " + verdict.rule->reason);
}

/// Whether a rule for a directory leaves closed what the guard denies: the rule set has the guard's rules. A
/// new one extends the profile that has them.
bool Suggestion::guard_holds() const {
    if (!there_ || !guard_) return true;
    return std::ranges::all_of(guard_->rules(), [this](const rules::Rule& guard) {
        return guard.action < rules::Action::deny ||
               std::ranges::any_of(there_->rules(), [&guard](const rules::Rule& rule) {
                   return rule.id == guard.id && rule.action == guard.action;
               });
    });
}

/// Notes a directory that the run made, even if it made it under another name first.
void Suggestion::note_made(const RecordedRequest& request) {
    if (request.call.starts_with("mkdir")) places_.made.insert(request.object);
    if (request.call.starts_with("rename") && places_.made.contains(request.object))
        places_.made.insert(request.second_object);
}

/// The operations that the existing rules do not allow.
rules::OperationSet Suggestion::not_allowed(rules::OperationSet operations, const rules::Object& object,
                                            const RecordedRequest& request) const {
    if (!there_) return operations;
    rules::OperationSet left;
    for (const rules::Operation one : operations) {
        const rules::Request asked{one, object, request.program, request.arguments,
                                   request.party.value_or(rules::Party::tools)};
        if (there_->evaluate(asked).action != rules::Action::allow) left |= one;
    }
    return left;
}

void Suggestion::see(const Entry& entry, rules::OperationSet operations, const rules::Object& object,
                     const RecordedRequest& request, const std::string& name) {
    for (const rules::Operation one : operations) {
        const std::string operation(rules::name(one));
        const Key key{request.party ? std::string(rules::name(*request.party)) : "", operation, name};
        if (seen_.size() >= max_objects && !seen_.contains(key)) {
            ++left_out_;
            continue;
        }
        Evidence& evidence = seen_[key];
        evidence.count += entry.count;
        evidence.rule = entry.rule;
        evidence.guard = guarded(one, object, request);
        if (!entry.domain.empty()) evidence.domain = entry.domain;
        evidence.socket_type = entry.socket_type;
        evidence.by_rule = evidence.by_rule || (entry.decided_by == "rule" && entry.verdict != "ask" &&
                                                entry.operation == operation);
    }
}

/// The reason why a person should look at it first; "" if it is proposed.
std::string Suggestion::why_not(const Key& key, const Evidence& evidence) const {
    if (evidence.by_rule)
        return "rule " + evidence.rule + " denies it; an exception would be --except " +
               exception(evidence.rule, key.object);
    if (!evidence.guard.empty()) return "the profile base denies it (" + evidence.guard + ")";
    if (network(key.operation) && !key.object.starts_with('/') && !key.object.starts_with('@')) {
        const auto where = endpoint(key.object);
        if (!where) return "this name was looked up, and no connect to it is on record";
        if (key.operation == "connect" && private_address(where->host)) return "a private address";
        return "";
    }
    if (places_.private_to_user(key.object))
        return key.object == places_.home ? "the home itself" : "in a dot directory of the home";
    if (may_hold_credential(key.object)) return "by its name it may hold a credential";
    return key.object.empty() ? "an object without a name" : "";
}

std::string counted(std::uint64_t count) {
    return "seen " + std::to_string(count) + (count == 1 ? " time" : " times");
}

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
            rule["unix"] = key.object.starts_with('@') ? key.object : places_.pattern(key.object);
            if (evidence.socket_type == "datagram") rule["protocol"] = "datagram";
        } else {
            const auto where = endpoint(key.object);
            if (key.operation == "connect")
                rule[evidence.domain.empty() ? "address" : "host"] =
                    evidence.domain.empty() ? where->host : evidence.domain;
            rule["port"] = where->port;
            if (where->udp) rule["protocol"] = "udp";
            if (key.operation == "connect" && !where->udp && examples.size() < max_examples &&
                key.party != agents) {
                std::string example =
                    "connect " + (evidence.domain.empty()
                                      ? key.object
                                      : evidence.domain + ':' + std::to_string(where->port));
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
            key.object == places_.home || !places_.private_to_user(key.object))
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
    text += line("examples", {{"allow", examples}, {"deny", {"read ~/.ssh/id_ed25519"}}}) + "\n}\n";
    return text;
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

/// Returns the exit status.
int read_logs(Suggestion& suggestion, std::ostream& errors, const SuggestOptions& options) {
    BadLines bad(errors);
    const std::vector<std::string> newest = {""};
    for (const std::string& name : options.logs.empty() ? newest : options.logs) {
        std::optional<Opened> log = open_log(errors, {.state = options.state, .log = name}, {});
        if (!log) return exit_wrong_use;
        for (Reader::Step step; (step = log->reader.next()) != Reader::Step::end;) {
            if (step == Reader::Step::bad) {
                bad.add(log->reader);
                continue;
            }
            suggestion.take(log->reader.entry(), log->reader.line());
        }
        say_torn(errors, log->reader);
    }
    return bad.finish();
}

}  // namespace

Suggested suggest(std::ostream& errors, const SuggestOptions& options) {
    Suggestion suggestion(options);
    const int status = read_logs(suggestion, errors, options);
    Suggested found;
    if (status != exit_wrong_use) found = suggestion.all();
    found.status = status;
    return found;
}

}  // namespace callgate::audit
