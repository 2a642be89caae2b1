#include "supervisor/audit/verbs/suggest.hpp"

#include <algorithm>
#include <climits>
#include <optional>
#include <ostream>

#include "base/credential_name.hpp"
#include "base/escape.hpp"
#include "base/test_switch.hpp"
#include "rules/load/pattern.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/suggestion.hpp"

namespace callgate::audit {

namespace {

constexpr std::size_t max_objects = 200'000;

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

/// The value of --except. The first '=' ends the rule's name.
std::string exception(const std::string& rule, const std::string& object) {
    const std::optional<std::string> pattern = rules::option_pattern(object);
    if (!pattern || rule.find('=') != std::string::npos) return rule + "=PATTERN";
    return shell_quote(rule + '=' + *pattern);
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
    // No call names a longer path, and the tree of paths takes stack for each component.
    if (request->object.size() > PATH_MAX || request->second_object.size() > PATH_MAX) {
        left_out_ += entry.verdict == "allow" ? 0 : 1;
        return;
    }
    note_made(*request);
    if (entry.verdict == "allow") return;
    const rules::Object object = object_of(*request);
    if (entry.operation == "connect" && !entry.domain.empty()) connected_.insert(entry.domain);
    // A path counts by its bytes, which the text does not hold if they are not UTF-8.
    const bool bytes = !request->endpoint && !request->look_up;
    see(entry, not_allowed(request->first, object, *request), object, *request,
        bytes ? request->object : entry.object);
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

/// Notes a directory that the run made, even if it made it under another name first. What the guard holds by
/// the directory's own name is not the run's, and neither is a name at which something stood.
void Suggestion::note_made(const RecordedRequest& request) {
    const auto note = [&](const std::string& name) {
        if (!stood_.contains(name) &&
            guarded(rules::Operation::create, rules::FileObject{name, false}, request).empty())
            places_.made.insert(name);
    };
    if (request.call.starts_with("mkdir")) return note(request.object);
    if (!request.call.starts_with("rename")) return;
    const bool made = places_.made.erase(request.object) > 0;
    if (!made) stood_.insert(request.object);
    if (request.second.contains(rules::Operation::remove) && !places_.made.contains(request.second_object))
        stood_.insert(request.second_object);
    places_.made.erase(request.second_object);
    if (made) note(request.second_object);
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
    if (!is_utf8(key.object)) return "its name is not UTF-8, which no rule can hold";
    if (key.object.find('\0') != std::string::npos)
        return "its name holds a NUL byte, which no rule can hold";
    if (network(key.operation) && !key.object.starts_with('/') && !key.object.starts_with('@')) {
        const auto where = endpoint(key.object);
        if (!where) return "this name was looked up, and no connect to it is on record";
        if (key.operation == "connect" && private_address(where->host)) return "a private address";
        return "";
    }
    if (places_.private_to_user(key.object))
        return key.object == places_.home || key.object == places_.account_home
                   ? "the home itself"
                   : "in a dot directory of the home";
    if (may_hold_credential(key.object)) return "by its name it may hold a credential";
    return key.object.empty() ? "an object without a name" : "";
}

Suggested suggest(std::ostream& errors, const SuggestOptions& options) {
    Suggestion suggestion(options);
    const int status = read_logs(suggestion, errors, options);
    Suggested found;
    if (status != exit_wrong_use) found = suggestion.all();
    found.status = status;
    return found;
}

}  // namespace callgate::audit
