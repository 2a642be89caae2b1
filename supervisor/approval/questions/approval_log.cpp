#include "supervisor/approval/questions/approval_log.hpp"

namespace callgate::approval {

namespace {

bool makes_names_in_tree(const Question& question, const Answered& answered) {
    const rules::OperationSet operations =
        answered.reply.reads_and_writes ? reading_and_writing
                                        : question.subject.operations | question.subject.second_operations;
    return answered.grant != 0 && answered.reply.action == rules::Action::allow &&
           answered.reply.scope == Scope::tree && operations.contains(rules::Operation::create);
}

}  // namespace

bool AuditApprovalLog::shown(const Question& question) {
    const std::string object = question.subject.object.text();
    return write(
        audit::PromptShown{.question = question.id,
                           .key = question.key,
                           .rule = question.rule,
                           .object = object,
                           .second_object = question.subject.second_path,
                           .source = question.source,
                           .asked_as = question.asked_as,
                           .program = question.subject.program,
                           .operation = question.operation,
                           .operations = question.subject.operations | question.subject.second_operations,
                           .first_operations = question.subject.operations,
                           .second_operations = question.subject.second_operations,
                           .resolved = question.subject.object.view(),
                           .identity = question.identity,
                           .arguments = question.subject.arguments,
                           .pid = question.process,
                           .start_time = question.start_time});
}

bool AuditApprovalLog::answered(const Question& question, const Answered& answered) {
    const std::string object = answered.reply.scope == Scope::tree ? tree_of(question, answered.reply)
                                                                   : question.subject.object.text();
    if (note_tree_ && makes_names_in_tree(question, answered) && !note_tree_(object)) return false;
    return write(audit::PromptAnswered{.question = question.id,
                                       .key = question.key,
                                       .answer = answered.reply.action,
                                       .by = answered.reply.by,
                                       .scope = name(answered.reply.scope),
                                       .object = object,
                                       .operations = answered.grant != 0 && answered.reply.reads_and_writes
                                                         ? reading_and_writing
                                                         : rules::OperationSet{},
                                       .grant = answered.grant,
                                       .who = answered.reply.who,
                                       .took_ns = answered.took_ns,
                                       .callers = answered.callers,
                                       .reason = answered.reply.reason});
}

bool AuditApprovalLog::withdrawn(const Question& question, std::string_view why) {
    return write(audit::PromptWithdrawn{question.id, question.key, why});
}

bool AuditApprovalLog::revoked(std::uint64_t grant, const audit::Answerer& who) {
    return write(audit::GrantRevoked{grant, who});
}

}  // namespace callgate::approval
