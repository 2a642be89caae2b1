#include "supervisor/approval/protocol/wire.hpp"

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_read.hpp"

namespace callgate::approval {

namespace {

using namespace json_read;

/// One message under construction; texts are escaped as in the audit log.
class Line {
public:
    explicit Line(std::string_view type) { out_ << R"({"v":1,"type":")" << type << '"'; }
    Line& name(std::string_view key) {
        out_ << (fresh_ ? "\"" : ",\"") << key << "\":";
        fresh_ = false;
        return *this;
    }
    Line& text(std::string_view key, std::string_view value) {
        name(key);
        append_json_string(out_, value);
        return *this;
    }
    /// Bytes: `KEY`, and `KEY_b64` where they are not UTF-8, else null.
    Line& bytes(std::string_view key, std::string_view value) {
        name(key);
        const bool whole = append_json_string(out_, value);
        name(std::string(key) + "_b64");
        if (whole) {
            out_ << "null";
        } else {
            out_ << '"';
            append_base64(out_, value);
            out_ << '"';
        }
        return *this;
    }
    template <std::integral Number>
    requires(!std::same_as<Number, bool>) Line& number(std::string_view key, Number value) {
        name(key);
        out_ << value;
        return *this;
    }
    Line& raw(std::string_view key, std::string_view value) {
        name(key);
        out_ << value;
        return *this;
    }
    Line& boolean(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
    template <class Strings>
    Line& list(std::string_view key, const Strings& values) {
        name(key);
        out_ << '[';
        bool first = true;
        for (const auto& one : values) {
            if (!std::exchange(first, false)) out_ << ',';
            append_json_string(out_, one);
        }
        out_ << ']';
        return *this;
    }
    Line& open(std::string_view key = {}) {
        if (key.empty()) {
            out_ << (fresh_ ? "{" : ",{");
        } else {
            name(key);
            out_ << '{';
        }
        fresh_ = true;
        return *this;
    }
    Line& open_list(std::string_view key) {
        name(key);
        out_ << '[';
        fresh_ = true;
        return *this;
    }
    Line& close(char with = '}') {
        out_ << with;
        fresh_ = false;
        return *this;
    }
    std::string done() {
        out_ << "}\n";
        return std::string(out_.view());
    }

private:
    Buffer out_;
    bool fresh_ = false;
};

std::vector<std::string_view> words(rules::OperationSet operations) {
    std::vector<std::string_view> all;
    for (const rules::Operation one : operations) all.push_back(rules::name(one));
    return all;
}

void add_object(Line& line, const Question& question) {
    const Subject& subject = question.subject;
    line.open("object");
    switch (subject.object.kind) {
        case AskedObject::Kind::file:
            line.text("kind", "file").bytes("path", subject.object.name);
            line.boolean("exists", question.identity && question.source.empty());
            if (question.identity && question.source.empty()) {
                line.boolean("directory", question.directory);
                if (!question.directory) line.number("size", question.size);
            }
            break;
        case AskedObject::Kind::internet:
            line.text("kind", "internet").text("address", subject.object.text());
            if (!question.host.empty()) line.text("host", question.host);
            break;
        case AskedObject::Kind::unix_socket:
            line.text("kind", "unix").bytes("name", subject.object.name);
            break;
    }
    line.close();
    if (!subject.second_path.empty()) line.bytes("second_path", subject.second_path);
    if (!question.source.empty()) line.bytes("source", question.source);
}

void add_process(Line& line, const Question& question) {
    line.open("process").number("pid", question.process).text("start", std::to_string(question.start_time));
    line.text("program", question.subject.program).list("argv", question.arguments);
    line.open_list("ancestors");
    for (const Process& one : question.ancestors)
        line.open().number("pid", one.pid).text("program", one.program).close();
    line.close(']').close();
}

std::int64_t remaining_ms(const QuestionQueue::Open& open, std::int64_t now_ns) {
    return std::max<std::int64_t>(open.deadline_ns - now_ns, 0) / 1'000'000;
}

DecisionMessage decision_of(const json& message) {
    DecisionMessage decision;
    decision.id = number(member(message, "id"));
    decision.key = text(member(message, "key"));
    decision.reply.reason = text(member(message, "reason")).substr(0, 1000);
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
    return Line("hello").text("run", run).boolean("token_required", token_required).done();
}

std::string status_message(std::string_view run, const RunStatus& status) {
    return Line("status")
        .text("run", run)
        .number("pid", status.pid)
        .list("command", status.command)
        .text("workdir", status.workdir)
        .number("age_ms", status.age_ms)
        .number("allowed", status.allowed)
        .number("denied", status.denied)
        .number("questions", status.questions)
        .number("callers", status.callers)
        .number("grants", status.grants)
        .done();
}

std::string ask_message(const QuestionQueue::Open& open, std::int64_t now_ns) {
    const Question& question = *open.question;
    Line line("ask");
    line.number("id", question.id).text("key", question.key);
    line.number("deadline_ms", remaining_ms(open, now_ns)).number("count", open.count);
    line.text("operation", rules::name(question.operation));
    line.list("operations", words(question.subject.operations | question.subject.second_operations));
    add_object(line, question);
    if (question.operation == rules::Operation::execute) line.list("arguments", question.subject.arguments);
    line.bytes("asked_as", question.asked_as);
    add_process(line, question);
    line.text("rule", question.rule);
    if (question.reason.empty()) {
        line.raw("reason", "null");
    } else {
        line.text("reason", question.reason);
    }
    std::vector<std::string_view> scopes;
    for (const Scope scope : {Scope::once, Scope::object, Scope::tree})
        if (question.offers(scope)) scopes.push_back(name(scope));
    line.list("scopes", scopes);
    if (question.offers(Scope::tree)) line.bytes("tree", question.directory_of_tree());
    return line.done();
}

std::string count_message(const QuestionQueue::Open& open, std::int64_t now_ns) {
    return Line("count")
        .number("id", open.question->id)
        .number("count", open.count)
        .number("callers", open.callers)
        .number("deadline_ms", remaining_ms(open, now_ns))
        .done();
}

std::string withdrawn_message(std::uint64_t id, std::string_view why) {
    return Line("withdrawn").number("id", id).text("why", why).done();
}

std::string ack_message(std::uint64_t id, bool applied, std::string_view why) {
    Line line("ack");
    if (id == 0) {
        line.raw("id", "null");
    } else {
        line.number("id", id);
    }
    line.boolean("applied", applied);
    if (!why.empty()) line.text("why", why);
    return line.done();
}

std::string error_message(std::string_view why) { return Line("error").text("why", why).done(); }

std::string grants_message(const std::vector<Grant>& grants) {
    Line line("grants");
    line.open_list("grants");
    for (const Grant& grant : grants) {
        line.open().number("grant", grant.number).text("action", rules::name(grant.action));
        line.text("scope", name(grant.scope)).text("text", grant.text());
        line.text("program", grant.subject.program)
            .number("used", grant.used)
            .number("question", grant.question);
        line.number("uid", grant.who.uid).number("pid", grant.who.pid).text("channel", grant.who.channel);
        line.close();
    }
    return line.close(']').done();
}

Message parse_message(std::string_view line) {
    const json message = json::parse(line, nullptr, false);
    if (message.is_discarded() || !message.is_object()) return Nonsense{"not a JSON object"};
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
