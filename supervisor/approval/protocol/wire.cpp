#include "supervisor/approval/protocol/wire.hpp"

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/json_writer.hpp"

namespace callgate::approval {

namespace {

using namespace json_read;

/// A message: `{"v":1,"type":TYPE,…}` and a newline.
class Line {
public:
    explicit Line(std::string_view type) { json_.begin_object().member("v", 1).member("type", type); }
    JsonWriter* operator->() { return &json_; }
    JsonWriter& operator*() { return json_; }
    [[nodiscard]] std::string done() {
        json_.end_object();
        out_ << '\n';
        return std::string(out_.view());
    }

private:
    Buffer out_;
    JsonWriter json_{out_};
};

std::vector<std::string_view> words(rules::OperationSet operations) {
    std::vector<std::string_view> all;
    for (const rules::Operation one : operations) all.push_back(rules::name(one));
    return all;
}

void add_object(JsonWriter& line, const Question& question) {
    const Subject& subject = question.subject;
    line.begin_object("object");
    switch (subject.object.kind) {
        case AskedObject::Kind::file: {
            const bool exists = question.identity && question.source.empty();
            line.member("kind", "file").bytes("path", subject.object.name, true).member("exists", exists);
            if (exists) line.member("directory", question.directory);
            if (exists && !question.directory) line.member("size", question.size);
            break;
        }
        case AskedObject::Kind::internet:
            line.member("kind", "internet").member("address", subject.object.text());
            if (!question.host.empty()) line.member("host", question.host);
            break;
        case AskedObject::Kind::host:
            line.member("kind", "name").bytes("name", subject.object.name, true);
            break;
        case AskedObject::Kind::unix_socket:
            line.member("kind", "unix").bytes("name", subject.object.name, true);
            break;
    }
    line.end_object();
    if (!subject.second_path.empty()) line.bytes("second_path", subject.second_path, true);
    if (!question.source.empty()) line.bytes("source", question.source, true);
}

void add_process(JsonWriter& line, const Question& question) {
    line.begin_object("process")
        .member("pid", question.process)
        .member("start", std::to_string(question.start_time))
        .member("program", question.subject.program)
        .member("argv", question.arguments);
    line.list("ancestors", question.ancestors, [&](const Process& one) {
        line.begin_object().member("pid", one.pid).member("program", one.program).end_object();
    });
    line.end_object();
}

std::int64_t remaining_ms(const QuestionQueue::Open& open, std::int64_t now_ns) {
    return std::max<std::int64_t>(open.deadline_ns - now_ns, 0) / 1'000'000;
}

/// The text of `KEY`, or the bytes of `KEY_b64` if they are given.
std::string bytes(const json& value, const std::string& key) {
    const std::string encoded = text(member(value, (key + "_b64").c_str()));
    return encoded.empty() ? text(member(value, key.c_str())) : decode_base64(encoded).value_or("");
}

DecisionMessage decision_of(const json& message) {
    DecisionMessage decision;
    decision.id = number(member(message, "id"));
    decision.key = text(member(message, "key"));
    decision.reply.reason = text(member(message, "reason")).substr(0, 1000);
    decision.reply.tree = bytes(message, "tree");
    decision.reply.reads_and_writes = truth(member(message, "read_and_write"));
    const std::string verdict = text(member(message, "verdict"));
    const std::string scope = message.contains("scope") ? text(member(message, "scope")) : "once";
    if (verdict == "allow") {
        decision.reply.action = rules::Action::allow;
    } else if (verdict == "kill") {
        decision.reply.action = rules::Action::kill;
    } else if (verdict != "deny") {
        decision.wrong = "unknown verdict";
    }
    if (const auto known = parse_scope(scope)) {
        decision.reply.scope = *known;
    } else {
        decision.wrong = "unknown scope";
    }
    return decision;
}

}  // namespace

std::string hello_message(std::string_view run, bool token_required) {
    Line line("hello");
    line->member("run", run).member("token_required", token_required);
    return line.done();
}

std::string status_message(std::string_view run, const RunStatus& status) {
    Line line("status");
    line->member("run", run)
        .member("pid", status.pid)
        .member("command", status.command)
        .member("workdir", status.workdir)
        .member("age_ms", status.age_ms)
        .member("allowed", status.allowed)
        .member("denied", status.denied)
        .member("questions", status.questions)
        .member("callers", status.callers)
        .member("grants", status.grants);
    return line.done();
}

std::string ask_message(const QuestionQueue::Open& open, std::int64_t now_ns) {
    const Question& question = *open.question;
    Line line("ask");
    line->member("id", question.id)
        .member("key", question.key)
        .member("deadline_ms", remaining_ms(open, now_ns))
        .member("count", open.count)
        .member("operation", rules::name(question.operation))
        .member("operations", words(question.subject.operations | question.subject.second_operations));
    if (question.again) line->member("again", true);
    if (question.subject.any_program) line->member("any_program", true);
    add_object(*line, question);
    if (question.operation == rules::Operation::execute)
        line->member("arguments", question.subject.arguments);
    else if (!question.subject.arguments.empty())
        line->member("changes", question.subject.arguments);
    line->bytes("asked_as", question.asked_as, true);
    add_process(*line, question);
    line->member("rule", question.rule).text_or_null("reason", question.reason);
    std::vector<std::string_view> scopes;
    for (const Scope scope : {Scope::once, Scope::object, Scope::tree})
        if (question.offers(scope)) scopes.push_back(name(scope));
    line->member("scopes", scopes);
    if (question.offers(Scope::tree)) line->bytes("tree", question.directory_of_tree(), true);
    if (const std::string widest = question.widest_tree(); !widest.empty())
        line->bytes("widest", widest, true);
    if (question.offers_writing()) line->member("read_and_write", true);
    return line.done();
}

std::string count_message(const QuestionQueue::Open& open, std::int64_t now_ns) {
    Line line("count");
    line->member("id", open.question->id)
        .member("count", open.count)
        .member("callers", open.callers)
        .member("deadline_ms", remaining_ms(open, now_ns));
    return line.done();
}

std::string withdrawn_message(std::uint64_t id, std::string_view why) {
    Line line("withdrawn");
    line->member("id", id).member("why", why);
    return line.done();
}

std::string ack_message(std::uint64_t id, bool applied, std::string_view why) {
    Line line("ack");
    line->key("id");
    id == 0 ? line->null() : line->value(id);
    line->member("applied", applied);
    if (!why.empty()) line->member("why", why);
    return line.done();
}

std::string error_message(std::string_view why) {
    Line line("error");
    line->member("why", why);
    return line.done();
}

std::string grants_message(const std::vector<Grant>& grants) {
    Line line("grants");
    line->list("grants", grants, [&](const Grant& grant) {
        line->begin_object()
            .member("grant", grant.number)
            .member("action", rules::name(grant.action))
            .member("scope", name(grant.scope))
            .member("text", grant.text())
            .member("program", grant.subject.program)
            .member("used", grant.used)
            .member("question", grant.question)
            .member("uid", grant.who.uid)
            .member("pid", grant.who.pid)
            .member("channel", grant.who.channel)
            .end_object();
    });
    return line.done();
}

Message parse_message(std::string_view line) {
    const json message = parse_object(line);
    if (!message.is_object()) return Nonsense{"not a JSON object"};
    if (number(member(message, "v")) != 1) return Nonsense{"unknown version"};
    const std::string type = text(member(message, "type"));
    if (type == "auth") return AuthMessage{text(member(message, "token"))};
    if (type == "decision") return decision_of(message);
    if (type == "rest") return RestMessage{number(member(message, "id"))};
    if (type == "status") return StatusMessage{};
    if (type == "grants") return GrantsMessage{};
    if (type == "revoke") return RevokeMessage{number(member(message, "grant"))};
    if (type == "stop") return StopMessage{};
    return Nonsense{"unknown type"};
}

std::string_view why(QuestionQueue::Applied applied) {
    switch (applied) {
        case QuestionQueue::Applied::yes:
            return "";
        case QuestionQueue::Applied::unknown_question:
            return "it is not asked any more";
        case QuestionQueue::Applied::other_question:
            return "the key is another question's: denied";
        case QuestionQueue::Applied::not_offered:
            return "wider than what was offered: denied";
        case QuestionQueue::Applied::unrecorded:
            return "it could not be recorded: denied";
    }
    return "";
}

}  // namespace callgate::approval
