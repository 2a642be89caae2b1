// `callgate explain --from-log SEQ [LOG]`: what a record asked for, under the rules that are given.
//
// The log is hostile: a line that is no record is passed over, names are made safe where they are printed.
#include <optional>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/number.hpp"
#include "rules/model/address.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/replay.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/explanation.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

/// A record with the start of its run.
struct Found {
    audit::Entry entry;
    audit::RecordedRequest request;
    std::string workdir, temporary_directory, rules_sha256;
};

std::uint64_t read_sequence(const Arguments& arguments) {
    const std::string text = arguments.value("from-log").value_or("");
    const auto sequence = parse_number<std::uint64_t>(text);
    if (!sequence || *sequence == 0)
        throw Failure(arguments.origin("from-log") + " " + text +
                      ": expected the number of a record, such as 12 (callgate audit show has them)");
    return *sequence;
}

std::string find_file(const Arguments& arguments) {
    const std::vector<std::string>& words = arguments.rest();
    if (words.size() > 1)
        throw Failure("too many arguments; usage: callgate explain --from-log SEQ [LOG] [OPTIONS]");
    auto path = audit::find_log({.state = find_places().state, .log = words.empty() ? "" : words[0]});
    if (!path) throw Failure(path.error().text);
    return std::move(*path);
}

/// Finds the record; if the file has several runs, that of the last run that has one.
std::optional<Found> find_record(const std::string& path, std::uint64_t sequence) {
    auto reader = audit::Reader::open(path);
    if (!reader) throw Failure(path + ": " + reader.error().message());
    std::optional<Found> found;
    Found current;
    for (audit::Reader::Step step; (step = reader->next()) != audit::Reader::Step::end;) {
        if (step != audit::Reader::Step::record) continue;
        const audit::Entry& entry = reader->entry();
        if (entry.sequence != sequence && entry.action != "run.start") continue;
        auto request = audit::parse_request(reader->line());
        if (!request) continue;
        if (entry.action == "run.start") {
            current.workdir = request->workdir;
            current.temporary_directory = request->temporary_directory;
            current.rules_sha256 = request->rules_sha256;
        }
        if (entry.sequence != sequence) continue;
        current.entry = entry;
        current.request = std::move(*request);
        found = current;
    }
    return found;
}

void fill(Question& question, const audit::RecordedRequest& request, bool second) {
    question.program = request.program;
    question.arguments = request.arguments;
    question.arguments_known = request.arguments_known;
    question.party = request.party.value_or(rules::Party::tools);
    question.operations = second ? request.second : request.first;
    question.name = second ? request.second_object : request.object;
    question.shown = question.name;
    question.object = second ? rules::FileObject{question.name, false} : audit::object_of(request);
    if (second) return;
    if (request.endpoint) {
        question.shown = rules::text(*request.endpoint) +
                         (request.endpoint->protocol == rules::Protocol::udp ? "/udp" : "");
    } else if (request.unix_type) {
        if (!question.name.starts_with('@')) question.shown = "unix:" + question.name;
    } else if (request.unlinked) {
        question.note = "the object had no name left: no rule allows it";
    }
}

/// The decision that is on record, as text. Each value is made safe by itself: a newline in a program's name
/// would begin a line of its own.
std::string record_text(const Found& found, bool same_rules, const std::string& why_undecidable) {
    const audit::Entry& entry = found.entry;
    std::string text = "record " + std::to_string(entry.sequence) + " of run " + terminal_safe(entry.run) +
                       ", " + terminal_safe(entry.time) + ": " + terminal_safe(entry.verdict) + ' ' +
                       terminal_safe(entry.operation) + ", by " + terminal_safe(entry.decided_by);
    if (!entry.rule.empty()) text += ' ' + terminal_safe(entry.rule);
    if (!entry.error.empty()) text += ", " + terminal_safe(entry.error);
    if (!entry.reason.empty()) text += ": " + terminal_safe(entry.reason);
    text += "\n  call    " + terminal_safe(entry.action) + " by " +
            (entry.program.empty() ? "?" : terminal_safe(entry.program)) + " (" + std::to_string(entry.pid) +
            ")\n";
    const auto note = [&text](const std::string& words) { text += "  note    " + words + '\n'; };
    if (entry.decided_by == "failure") note("something failed; no rule decided that call");
    if (entry.decided_by == "person" || entry.decided_by == "program" || entry.decided_by == "grant")
        note("the rules asked, and " + entry.decided_by + " is who answered");
    if (!same_rules) note("these are not the rules of that run: give the options that it had");
    if (!why_undecidable.empty()) note(why_undecidable);
    return text;
}

std::string record_json(const Found& found, bool same_rules, const std::vector<std::string>& explained) {
    const audit::Entry& entry = found.entry;
    return json_text([&](JsonWriter& json) {
               json.begin_object()
                   .begin_object("record")
                   .member("sequence", entry.sequence)
                   .member("run", entry.run)
                   .member("time", entry.time)
                   .member("call", entry.action)
                   .member("verdict", entry.verdict)
                   .member("decided_by", entry.decided_by)
                   .member("rule", entry.rule)
                   .member("errno", entry.error)
                   .member("reason", entry.reason)
                   .end_object()
                   .member("same_rules", same_rules)
                   .list("explained", explained, [&](const std::string& one) { json.raw(one); })
                   .end_object();
           }) +
           "\n";
}

/// The reason why these rules may judge the call otherwise than shown here.
std::string undecidable(const audit::RecordedRequest& request, const rules::RuleSet& rules) {
    if (request.first.contains(rules::Operation::execute) && rules.needs_arguments() &&
        !request.arguments_known)
        return "its arguments are not on record: rules about them may decide otherwise";
    if (request.has_second)
        return "the strictest of both names counts, and what the move would free (docs/rules.md)";
    return {};
}

Found decision_for(const std::string& path, std::uint64_t sequence) {
    const auto not_there = [&](std::uint64_t number) {
        return Failure(path + " has no record " + std::to_string(number));
    };
    std::optional<Found> found = find_record(path, sequence);
    if (!found) throw not_there(sequence);
    if (!found->entry.decision() && found->entry.of_sequence != 0) {
        const std::uint64_t of = found->entry.of_sequence;
        say("record " + std::to_string(sequence) + " (" + found->entry.action + ") is what came of record " +
            std::to_string(of) + ", which is explained here");
        found = find_record(path, of);
        if (!found) throw not_there(of);
    }
    if (!found->entry.decision())
        throw Failure("record " + std::to_string(found->entry.sequence) + " is " + found->entry.action +
                      ", no decision; callgate audit show has those");
    return std::move(*found);
}

}  // namespace

int explain_record(const Arguments& arguments) {
    const std::uint64_t sequence = read_sequence(arguments);
    const Found found = decision_for(find_file(arguments), sequence);
    const Inspection inspection(arguments, found.workdir, found.temporary_directory);
    const CompiledRules compiled = inspection.compile();
    const bool same = found.rules_sha256 == compiled.loaded.sha256;
    std::string text = record_text(found, same, undecidable(found.request, *compiled.loaded.rules));
    std::vector<std::string> all;
    for (const bool second : {false, true}) {
        if (second && !found.request.has_second) break;
        Question question;
        fill(question, found.request, second);
        const Answer answer = answer_question(question, compiled);
        text += as_text(question, answer);
        all.push_back(as_json(question, answer));
    }
    print(arguments.has("json") ? record_json(found, same, all) : text);
    return 0;
}

}  // namespace callgate::cli
