#include "supervisor/audit/verbs/suggest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/words.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/replay.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/suggest_paths.hpp"

namespace callgate::audit {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_objects = 200'000, max_examples = 12;

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
    void write(std::ostream& out) const;
    [[nodiscard]] std::vector<std::string> rules() const;
    void write_for_a_person(std::ostream& out) const;

private:
    struct Key {
        std::string operation, object;
        auto operator<=>(const Key&) const = default;
    };
    struct Evidence {
        std::uint64_t count = 0;
        std::string rule, domain, socket_type;
        bool by_rule = false;
    };
    [[nodiscard]] std::string why_not(const Key& key, const Evidence& evidence) const;
    void file_rules(Json& rules, Json& examples) const;
    void network_rules(Json& rules, Json& examples) const;
    void note_made(const RecordedRequest& request);
    void see(const Entry& entry, rules::OperationSet operations, const std::string& object);
    [[nodiscard]] rules::OperationSet not_allowed(rules::OperationSet operations, const rules::Object& object,
                                                  const RecordedRequest& request) const;
    [[nodiscard]] std::string fresh_id(const std::string& stem, const Json& rules) const;
    void write_dot_directories(std::ostream& out) const;
    [[nodiscard]] Json head() const;

    const SuggestOptions& options_;
    std::shared_ptr<const rules::RuleSet> there_;  // of the run that is read

    KnownPlaces places_;
    std::set<std::string> profiles_, runs_;
    std::map<Key, Evidence> seen_;
    std::uint64_t left_out_ = 0;
};

void Suggestion::take(const Entry& entry, std::string_view line) {
    if (entry.action == "run.start") {
        places_.workdir = entry.workdir;
        places_.temporary_directory = entry.temporary_directory;
        profiles_.insert(entry.profiles.begin(), entry.profiles.end());
        runs_.insert(entry.run);
        if (options_.rules_for) there_ = options_.rules_for(entry.workdir, entry.temporary_directory);
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
    see(entry, not_allowed(request->first, object_of(*request), *request), entry.object);
    if (request->has_second)
        see(entry, not_allowed(request->second, rules::FileObject{request->second_object, false}, *request),
            request->second_object);
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

void Suggestion::see(const Entry& entry, rules::OperationSet operations, const std::string& object) {
    for (const rules::Operation one : operations) {
        const std::string operation(rules::name(one));
        const Key key{operation, object};
        if (seen_.size() >= max_objects && !seen_.contains(key)) {
            ++left_out_;
            continue;
        }
        Evidence& evidence = seen_[key];
        evidence.count += entry.count;
        evidence.rule = entry.rule;
        evidence.domain = entry.domain;
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
    if (network(key.operation) && !key.object.starts_with('/') && !key.object.starts_with('@')) {
        const auto where = endpoint(key.object);
        if (!where) return "it is no address";
        if (key.operation == "connect" && private_address(where->host)) return "a private address";
        return "";
    }
    if (places_.private_to_user(key.object))
        return key.object == places_.home ? "the home itself" : "in a dot directory of the home";
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
    std::set<std::string> written;
    for (const auto& [key, evidence] : seen_)
        if (!network(key.operation) && key.operation != "read" && key.operation != "execute")
            written.insert(key.object);
    std::map<std::string, PathTree> trees;
    for (const auto& [key, evidence] : seen_) {
        if (network(key.operation) || !why_not(key, evidence).empty()) continue;
        const bool writes = key.operation != "execute" && written.contains(key.object);
        const std::string group = writes ? "write" : key.operation;
        trees.try_emplace(group, places_).first->second.add(key.object, evidence.count);
    }
    struct Merged {
        std::set<std::string> operations;
        std::uint64_t count = 0;
        std::map<std::string, std::string> examples;
    };
    std::map<std::string, Merged> by_pattern;
    for (const auto& [operation, tree] : trees) {
        const auto width = operation == "execute" ? PathTree::Width::exact : PathTree::Width::siblings;
        for (const PathTree::Pattern& pattern : tree.patterns(width)) {
            Merged& merged = by_pattern[pattern.text];
            merged.operations.insert(operation);
            if (operation == "write") merged.operations.insert("read");
            merged.count += pattern.count;
            merged.examples[operation] = pattern.example;
        }
    }
    std::map<std::set<std::string>, std::vector<std::string>> by_operations;
    for (const auto& [pattern, merged] : by_pattern) by_operations[merged.operations].push_back(pattern);
    for (const auto& [operations, patterns] : by_operations) {
        std::uint64_t count = 0;
        for (const std::string& pattern : patterns) count += by_pattern[pattern].count;
        const std::string widest = operations.contains("write") ? "write" : *operations.begin();
        rules.push_back({{"id", fresh_id("suggested-" + widest, rules)},
                         {"allow", operations},
                         {"path", patterns},
                         {"reason", counted(count)}});
        for (const std::string& pattern : patterns) {
            const auto& [operation, example] = *by_pattern[pattern].examples.begin();
            if (examples.size() >= max_examples) break;
            // An example names an object, not a pattern.
            if (example.find('\\') == std::string::npos && example.find(' ') == std::string::npos)
                examples.push_back(operation + ' ' + example);
        }
    }
}

void Suggestion::network_rules(Json& rules, Json& examples) const {
    for (const auto& [key, evidence] : seen_) {
        if (!network(key.operation) || !why_not(key, evidence).empty()) continue;
        Json rule = {{"id", fresh_id("suggested-" + key.operation, rules)}, {"allow", key.operation}};
        if (key.object.starts_with('/') || key.object.starts_with('@')) {
            rule["unix"] = key.object.starts_with('@') ? key.object : places_.pattern(key.object);
            if (evidence.socket_type == "datagram") rule["protocol"] = "datagram";
        } else {
            const auto where = endpoint(key.object);
            if (key.operation == "connect") {
                if (evidence.domain.empty())
                    rule["address"] = where->host;
                else
                    rule["host"] = evidence.domain;
                if (examples.size() < max_examples && !where->udp)
                    examples.push_back("connect " +
                                       (evidence.domain.empty()
                                            ? key.object
                                            : evidence.domain + ':' + std::to_string(where->port)));
            }
            rule["port"] = where->port;
            if (where->udp) rule["protocol"] = "udp";
        }
        rule["reason"] = counted(evidence.count);
        rules.push_back(std::move(rule));
    }
}

void Suggestion::write_for_a_person(std::ostream& out) const {
    bool said = false;
    for (const auto& [key, evidence] : seen_) {
        const std::string why = why_not(key, evidence);
        if (why.empty()) continue;
        if (!said) out << "\n// Looked at by a person first, and not allowed by the rules above:\n";
        said = true;
        out << "//   " << key.operation << ' ' << terminal_safe(key.object) << " (" << counted(evidence.count)
            << "): " << terminal_safe(why) << '\n';
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
    std::map<std::string, Wanted> by_pattern;
    for (const auto& [key, evidence] : seen_) {
        if (evidence.by_rule || network(key.operation) || key.object == places_.home ||
            !places_.private_to_user(key.object))
            continue;
        Wanted& wanted = by_pattern[places_.application_pattern(key.object)];
        wanted.operations.insert(key.operation);
        wanted.count += evidence.count;
    }
    if (by_pattern.empty()) return;
    out << "\n// Rules for dot directories, by application. Take over the ones that hold no credentials:\n";
    for (const auto& [pattern, wanted] : by_pattern)
        out << "//   "
            << json_read::ascii_text(
                   Json{{"allow", wanted.operations}, {"path", pattern}, {"reason", counted(wanted.count)}})
            << '\n';
}

Json Suggestion::head() const {
    const std::string from = joined(runs_, ", ");
    Json head = {{"version", 1},
                 {"description", "Allows what was seen in " + (from.empty() ? "a log" : "run " + from)}};
    head["extends"] = profiles_.empty() ? std::set<std::string>{"base"} : profiles_;
    return head;
}

void Suggestion::write(std::ostream& out) const {
    Json rules = Json::array(), examples = Json::array();
    file_rules(rules, examples);
    network_rules(rules, examples);
    Json all = head();
    all["rules"] = std::move(rules);
    all["examples"] = {{"allow", std::move(examples)}, {"deny", {"read ~/.ssh/id_ed25519"}}};
    out << json_read::ascii_text(all, 2) << '\n';
    write_for_a_person(out);
}

std::vector<std::string> Suggestion::rules() const {
    Json rules = Json::array(), examples = Json::array();
    file_rules(rules, examples);
    network_rules(rules, examples);
    std::vector<std::string> lines;
    for (const Json& rule : rules) lines.push_back(json_read::ascii_text(rule));
    return lines;
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

int suggest(std::ostream& out, std::ostream& errors, const SuggestOptions& options) {
    Suggestion suggestion(options);
    const int status = read_logs(suggestion, errors, options);
    if (status != exit_wrong_use) suggestion.write(out);
    return status;
}

Suggested suggest_rules(std::ostream& errors, const SuggestOptions& options) {
    Suggestion suggestion(options);
    Suggested found;
    found.status = read_logs(suggestion, errors, options);
    if (found.status == exit_wrong_use) return found;
    found.rules = suggestion.rules();
    std::ostringstream text;
    suggestion.write_for_a_person(text);
    found.for_a_person = text.str();
    return found;
}

}  // namespace callgate::audit
