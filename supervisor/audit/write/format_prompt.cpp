// The records about questions to a person or a program, and about their answers.

#include "base/escape.hpp"
#include "supervisor/audit/write/format_common.hpp"

namespace callgate::audit {

namespace {

void append_key(Buffer& out, std::uint64_t question, std::string_view key) {
    out << R"(,"question":)" << question;
    append_string(out, "key", key);
}

void append_answerer(Buffer& out, const Answerer& who) {
    out << R"(,"answered_by":{"uid":)" << who.uid << R"(,"pid":)" << who.pid;
    append_string(out, "channel", who.channel);
    out << '}';
}

}  // namespace

std::size_t format(Buffer& out, const RunContext& context, const PromptShown& what) {
    const std::size_t sequence_at = begin_event(out, "info", "prompt.shown", "unknown");
    out << R"(},"process":{"pid":)" << what.pid << R"(,"entity_id":")" << what.pid << '@' << what.start_time
        << '"';
    append_string(out, "executable", what.program);
    out << '}';
    append_object(out, what.resolved, what.identity, nullptr);
    out << R"(,"rule":{"name":)";
    append_json_string(out, what.rule);
    out << '}';
    begin_callgate(out, context);
    append_key(out, what.question, what.key);
    append_string(out, "operation", rules::name(what.operation));
    append_operations(out, "operations", what.operations);
    append_bytes(out, "object", what.object);
    if (const auto* local = std::get_if<rules::UnixObject>(&what.resolved))
        append_socket_type(out, local->type);
    if (!what.second_object.empty()) {
        append_bytes(out, "second_object", what.second_object);
        append_operations(out, "first_operations", what.first_operations);
        append_operations(out, "second_operations", what.second_operations);
    }
    if (!what.source.empty()) append_bytes(out, "source", what.source);
    append_bytes(out, "asked_as", what.asked_as);
    if (!what.arguments.empty()) append_arguments(out, "argv", what.arguments);
    append_exact_program(out, what.program);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const PromptAnswered& what) {
    const std::size_t sequence_at = begin_event(out, "info", "prompt.answered", "unknown");
    out << R"(,"duration":)" << what.took_ns << '}';
    begin_callgate(out, context);
    append_key(out, what.question, what.key);
    append_string(out, "answer", rules::name(what.answer));
    append_string(out, "decided_by", rules::name(what.by));
    append_string(out, "scope", what.scope);
    append_bytes(out, "object", what.object);
    if (!what.operations.empty()) append_operations(out, "operations", what.operations);
    if (what.grant != 0) out << R"(,"grant":)" << what.grant;
    append_answerer(out, what.who);
    out << R"(,"callers":)" << what.callers;
    if (!what.reason.empty()) append_string(out, "reason", what.reason);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const PromptWithdrawn& what) {
    const std::size_t sequence_at = begin_event(out, "info", "prompt.withdrawn", "unknown");
    out << '}';
    begin_callgate(out, context);
    append_key(out, what.question, what.key);
    append_string(out, "reason", what.why);
    end_line(out);
    return sequence_at;
}

std::size_t format(Buffer& out, const RunContext& context, const GrantRevoked& what) {
    const std::size_t sequence_at = begin_event(out, "info", "grant.revoked", "unknown");
    out << '}';
    begin_callgate(out, context);
    out << R"(,"grant":)" << what.grant;
    append_answerer(out, what.who);
    end_line(out);
    return sequence_at;
}

}  // namespace callgate::audit
