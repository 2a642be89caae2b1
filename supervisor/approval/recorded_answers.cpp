#include "supervisor/approval/recorded_answers.hpp"

#include <algorithm>

namespace callgate::approval {

namespace {

using audit::RecordedRequest;
using Finding = audit::AnswerCheck::Finding;
using Found = audit::AnswerCheck::Found;

/// Calls by later grants of a log cannot be checked.
constexpr std::size_t max_given = 1U << 16;

Found contradiction(std::string why) { return {Finding::contradicts, std::move(why)}; }

std::string number_of(std::string_view what, std::uint64_t number) {
    return std::string(what) + ' ' + std::to_string(number);
}

/// The subject of the question about a call. An execution is asked about file by file, interpreters apart.
Subject subject_of(const RecordedRequest& record) {
    Subject subject;
    subject.operations = record.first;
    subject.object = AskedObject(audit::object_of(record));
    subject.program = record.program;
    subject.party = record.party;
    subject.arguments = record.arguments;
    if (record.has_second && !record.call.starts_with("exec")) {
        subject.second_operations = record.second;
        subject.second_path = record.second_object;
    }
    return subject;
}

/// Whether the question was about arguments that the record does not hold as they were.
bool arguments_hidden(const RecordedRequest& record) {
    return !record.arguments.empty() && !record.arguments_known;
}

/// The record says neither whether a move widens what may be done, nor whether `callgate request` asked. That
/// of a question does not say which party asked, either. The key does.
bool has_key(Subject& subject, const RecordedRequest& record, std::string_view key) {
    std::vector<std::optional<rules::Party>> parties{record.party};
    if (!record.party) parties.insert(parties.end(), {rules::Party::agent, rules::Party::tools});
    for (const auto party : parties)
        for (const bool widens : {false, true})
            for (const bool any : {true, false}) {
                subject.party = party;
                subject.widens = widens;
                subject.any_program = any;
                if (key_of(subject, record.rule, record.identity) == key) return true;
            }
    return false;
}

/// Whether the question was about the look-up that gave a connect its address: the answer counts for both.
bool by_look_up(const RecordedRequest& record, const AskedObject& asked) {
    return record.endpoint && asked.kind == AskedObject::Kind::host &&
           std::ranges::find(record.names, asked.name) != record.names.end();
}

std::optional<rules::Action> action_of(std::string_view word) {
    using rules::Action;
    for (const Action one : {Action::allow, Action::deny, Action::kill})
        if (rules::name(one) == word) return one;
    return std::nullopt;
}

std::size_t bytes_of(const Subject& subject) {
    std::size_t bytes =
        sizeof(Question) + subject.object.name.size() + subject.second_path.size() + subject.program.size();
    for (const std::string& one : subject.arguments) bytes += sizeof one + one.size();
    return bytes;
}

}  // namespace

Found RecordedAnswers::look_at(const RecordedRequest& record) {
    if (record.starts_run) begin();
    if (record.was.empty()) {
        if (record.call == "prompt.shown") return shown(record);
        if (record.call == "prompt.answered") return answer(record);
        if (record.call == "prompt.withdrawn") return withdrawn(record);
        if (record.call == "grant.revoked") return revoked(record);
        return {};
    }
    if (!audit::answered(record)) return {};
    return record.decided_by == "grant" ? by_grant(record) : by_answer(record);
}

/// A new run has new numbers.
void RecordedAnswers::begin() { *this = RecordedAnswers(max_kept_); }

void RecordedAnswers::forget_oldest() {
    while (kept_ > max_kept_ && !questions_.empty()) {
        kept_ -= questions_.begin()->second.bytes;
        forgotten_ = questions_.begin()->first;
        questions_.erase(questions_.begin());
    }
}

Found RecordedAnswers::unknown(std::uint64_t question) const {
    if (question != 0 && question <= forgotten_) return {Finding::undecidable};
    return contradiction(number_of("no record says that question", question) + " was asked");
}

Found RecordedAnswers::shown(const RecordedRequest& record) {
    if (record.question <= forgotten_ || questions_.contains(record.question))
        return contradiction(number_of("question", record.question) + " was asked before");
    Known known;
    known.question.id = record.question;
    known.question.key = record.key;
    known.question.subject = subject_of(record);
    known.question.rule = record.rule;
    const auto operation = rules::parse_operations(record.operation);
    if (operation && !operation->empty()) known.question.operation = *operation->begin();
    known.whole = operation.has_value() && !arguments_hidden(record);
    const bool fits = has_key(known.question.subject, record, record.key);
    known.bytes = bytes_of(known.question.subject);
    kept_ += known.bytes;
    const bool whole = known.whole;
    questions_.emplace(record.question, std::move(known));
    forget_oldest();
    if (whole && !fits)
        return contradiction(number_of("question", record.question) + " is not the one that its key is of");
    return {};
}

Found RecordedAnswers::answer(const RecordedRequest& record) {
    const auto found = questions_.find(record.question);
    if (found == questions_.end()) return unknown(record.question);
    Known& known = found->second;
    const auto action = action_of(record.answer);
    const auto scope = parse_scope(record.scope);
    const std::string name = number_of("question", record.question);
    if (!action || !scope) return contradiction("the answer to " + name + " is none");
    if (known.question.key != record.key) return contradiction("the answer is to another " + name);
    if (known.withdrawn) return contradiction(name + " was withdrawn before its answer");
    Answer answer{.reply = {.action = *action,
                            .scope = *scope,
                            .tree = *scope == Scope::tree ? record.object : "",
                            .reads_and_writes = !record.first.empty()},
                  .by = record.decided_by,
                  .verdict = record.answer,
                  .grant = record.grant};
    known.answers.push_back(answer);
    known.bytes += sizeof answer;
    kept_ += sizeof answer;
    return record.grant == 0 ? Found{} : grant(record, known, answer.reply);
}

Found RecordedAnswers::grant(const RecordedRequest& record, Known& known, const Reply& reply) {
    Question& question = known.question;
    if (known.whole) {
        question.own_zone = true;  // the list of public suffixes may have changed since
        question.directory = reply.scope == Scope::tree && record.object == question.subject.object.name;
        const bool offered =
            reply.scope == Scope::run ? reply.action == rules::Action::deny : question.offers(reply.scope);
        const bool writing =
            !reply.reads_and_writes || (record.first == reading_and_writing && question.offers_writing());
        if (reply.scope == Scope::once || !offered || !writing)
            return contradiction(number_of("grant", record.grant) + " is wider than what was asked");
        if (reply.scope == Scope::tree && !question.offers_tree(record.object))
            return contradiction(number_of("grant", record.grant) + " is of a directory that was not shown");
    }
    Grant grant = grant_of(question, reply);
    grant.number = record.grant;
    if (given_.size() == max_given || !grants_.restore(std::move(grant)))
        return contradiction(number_of("grant", record.grant) + " cannot be: it is none after the last");
    given_[record.grant].arguments_known = known.whole;
    return {};
}

Found RecordedAnswers::withdrawn(const RecordedRequest& record) {
    const auto found = questions_.find(record.question);
    if (found == questions_.end()) return unknown(record.question);
    found->second.withdrawn = true;
    return {};
}

Found RecordedAnswers::revoked(const RecordedRequest& record) {
    const auto known = given_.find(record.grant);
    if (known == given_.end() || known->second.revoked_at != 0)
        return contradiction(number_of("grant", record.grant) + " is taken back, but there was none");
    known->second.revoked_at = record.sequence;
    static_cast<void>(grants_.revoke(record.grant));
    return {};
}

/// An allowed call must be the one that was asked about; a denial holds for whatever the call had become.
Found RecordedAnswers::by_answer(const RecordedRequest& record) {
    const auto found = questions_.find(record.question);
    if (found == questions_.end()) return unknown(record.question);
    Known& known = found->second;
    const std::string name = number_of("question", record.question);
    std::size_t once = 0;
    bool given = false;
    for (const Answer& one : known.answers) {
        const bool same =
            one.by == record.decided_by && one.verdict == record.was && one.grant == record.grant;
        given = given || same;
        if (same && one.reply.scope == Scope::once) ++once;
    }
    if (!given)
        return contradiction(record.was + " by " + record.decided_by + " is no answer that " + name + " got");
    if (record.was != "allow") return {};
    Subject subject = subject_of(record);
    if (!by_look_up(record, known.question.subject.object) && !has_key(subject, record, known.question.key)) {
        if (arguments_hidden(record) || !known.whole) return {Finding::undecidable};
        return contradiction("it is not what " + name + " was about");
    }
    if (record.grant != 0 || known.callers.contains(record.entity)) return {};
    if (known.callers.size() == once)
        return contradiction(name + " was not allowed so often: each time is for one caller");
    known.callers.insert(record.entity);
    known.bytes += record.entity.size() + 64;
    kept_ += record.entity.size() + 64;
    return {};
}

Found RecordedAnswers::by_grant(const RecordedRequest& record) {
    const std::string name = number_of("grant", record.grant);
    const auto history = given_.find(record.grant);
    if (history == given_.end()) return contradiction(record.was + " by " + name + ", which was never given");
    if (history->second.revoked_at != 0)
        return contradiction(record.was + " by " + name + ", which was taken back in " +
                             number_of("record", history->second.revoked_at));
    const auto grant = std::ranges::find(grants_.all(), record.grant, &Grant::number);
    if (grant == grants_.all().end()) return {Finding::undecidable};
    if (grant->question != record.question)
        return contradiction(number_of(name + " was no answer to question", record.question));
    if (rules::name(grant->action) != record.was)
        return contradiction(record.was + " by " + name + ", which says " +
                             std::string(rules::name(grant->action)));
    const Subject subject = subject_of(record);
    const bool hidden = arguments_hidden(record) || !history->second.arguments_known;
    if (hidden && grant->scope == Scope::object) return {Finding::undecidable};
    if (!grant->covers(subject))
        return contradiction(record.was + " by " + name + ", which is for: " + grant->text() + " by " +
                             grant->subject.program);
    if (const Grant* const first = grants_.deciding(subject); first != &*grant)
        return contradiction(record.was + " by " + name + ", where " + number_of("grant", first->number) +
                             " comes first");
    return {};
}

}  // namespace callgate::approval
