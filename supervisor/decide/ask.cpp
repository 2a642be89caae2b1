#include "supervisor/decide/ask.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/test_switch.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/argument_list.hpp"

namespace callgate::calls {

namespace {

using approval::Approval;
using approval::Question;
using Admission = approval::QuestionQueue::Admission;

// Limit for one call: a script and its interpreters.
constexpr std::size_t max_questions = 8;
constexpr std::size_t max_ancestors = 8, max_arguments = 256, max_argument_bytes = 16 << 10;

Questioned denied(const rules::Verdict& ask, std::string_view reason,
                  rules::DecidedBy by = rules::DecidedBy::failure) {
    Questioned result{.parked = false, .verdict = ask, .reason = reason};
    result.verdict.action = rules::Action::deny;
    result.verdict.decided_by = by;
    return result;
}

/// For a call about which nobody can be asked: the rule that asks still decided.
Questioned unasked(const rules::Verdict& ask, std::string_view reason) {
    return denied(ask, reason, ask.decided_by);
}

/// Compares with callgate's own file, which no run may write.
bool is_callgate(std::string_view program) {
    static const std::string own = [] {
        std::string path;
        kernel::executable(::getpid(), path);
        return path;
    }();
    return program == own || !check_enabled("request-own-program");
}

approval::Subject subject_of(CallContext& context, const Subject& subject) {
    approval::Subject asked;
    asked.operations = subject.operations;
    asked.second_operations = subject.second_operations;
    asked.object = approval::AskedObject(subject.object);
    if (subject.second_object) asked.second_path = subject.second_object->path;
    asked.widens = subject.widens;
    asked.program = context.caller.executable;
    if (is_callgate(asked.program)) {
        asked.any_program = asks_for_all(asked.program, context.caller.look(context.thread()).process);
    }
    if (context.needs.parties != nullptr) asked.party = party_of(context);
    asked.arguments.assign(subject.input.arguments.begin(), subject.input.arguments.end());
    return asked;
}

/// An answer to this very question, or an earlier one that denies the call whatever it now asks.
const Approval* answered_before(CallContext& context, const std::string& key) {
    if (context.approvals == nullptr) return nullptr;
    auto& all = *context.approvals;
    for (std::size_t index = 0; index < all.size(); ++index) {
        const bool same = all[index].key == key || !check_enabled("same-question");
        if (!same && all[index].action == rules::Action::allow) continue;
        context.approvals_used |= 1U << index;
        return &all[index];
    }
    return nullptr;
}

/// Whether this call no longer asks one of the questions that it has an answer to.
bool has_unused(const CallContext& context) {
    if (context.approvals == nullptr) return false;
    return context.approvals_used != (1U << context.approvals->size()) - 1;
}

std::vector<std::string> bounded(std::vector<std::string> arguments) {
    if (arguments.size() > max_arguments) arguments.resize(max_arguments);
    std::size_t left = max_argument_bytes;
    for (std::string& one : arguments) {
        if (one.size() > left) one.resize(left);
        left -= one.size();
    }
    return arguments;
}

void describe_asker(CallContext& context, Question& question) {
    const kernel::Identity& caller = context.caller.look(context.thread());
    question.process = caller.process;
    question.start_time = caller.start_time;
    describe_process(context.needs, question, caller.process, caller.parent);
}

/// Pins the object of the question, so that its inode number stays its own. Returns false if another object
/// has the name by now.
bool pin_object(const Subject& subject, Question& question) {
    if (question.subject.object.kind == approval::AskedObject::Kind::internet || !subject.identity)
        return true;
    if (question.subject.object.name.starts_with('@')) return true;
    const open_how way{O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS};
    const std::string& name = question.source.empty() ? question.subject.object.name : question.source;
    question.pin.reset(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, name.c_str(), &way, sizeof way)));
    struct stat status {};
    if (!question.pin || ::fstat(question.pin.get(), &status) != 0) return false;
    if (status.st_ino != subject.identity->inode || status.st_dev != subject.identity->device) return false;
    question.identity = subject.identity;
    question.directory = S_ISDIR(status.st_mode);
    question.size = static_cast<std::uint64_t>(status.st_size);
    return true;
}

/// All names of the address: which of them the program meant cannot be known.
std::string hosts_of(const Subject& subject) {
    const auto* endpoint = std::get_if<rules::Endpoint>(&subject.object);
    if (endpoint == nullptr) return {};
    constexpr std::size_t shown = 4;
    std::string text;
    for (std::size_t index = 0; index < std::min(endpoint->names.size(), shown); ++index)
        text += (index == 0 ? "" : ", ") + endpoint->names[index];
    if (endpoint->names.size() > shown)
        text += " and " + std::to_string(endpoint->names.size() - shown) + " more";
    return text;
}

Questioned ask(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
               approval::Subject asked, std::string key) {
    approval::QuestionQueue& questions = *context.needs.questions;
    approval::ParkedCall call{std::move(context.call), context.started_ns, {}};
    if (context.approvals != nullptr) call.approvals = *context.approvals;
    const auto give_back = [&] { context.call.take_back(call.call); };
    Admission how = questions.join(key, call);
    if (how == Admission::unknown) {
        Question question;
        question.key = std::move(key);
        question.subject = std::move(asked);
        question.operation = verdict.operation;
        question.rule = verdict.rule_name();
        question.reason = reason_of(verdict);
        question.asked_as = subject.input.path;
        question.source = subject.source;
        question.host = hosts_of(subject);
        question.home = context.needs.home;
        if (!pin_object(subject, question)) {
            give_back();
            return denied(verdict, "it was replaced while it was judged");
        }
        describe_asker(context, question);
        how = questions.ask(std::move(question), call);
    }
    if (how == Admission::parked) return {.parked = true, .verdict = verdict, .reason = {}};
    give_back();
    if (how == Admission::nobody) return unasked(verdict, why_not(how));
    return denied(verdict, why_not(how));
}

}  // namespace

std::string reason_of(const rules::Verdict& verdict) {
    std::string reason(verdict.reason());
    // A program of the run may have written it: the person must not take it for a word of the user's rules.
    if (verdict.nested && !reason.empty() && check_enabled("nested-reason"))
        reason.insert(0, "a nested run says: ");
    return reason;
}

std::string_view why_not(Admission admission) {
    switch (admission) {
        case Admission::too_many:
            return "too many questions wait for an answer";
        case Admission::too_often:
            return "too many questions in a minute";
        case Admission::unrecorded:
            return "the question could not be recorded";
        case Admission::denied_all:
            return "all further questions of this run are denied";
        default:
            return audit::unasked::nobody;
    }
}

bool asks_for_all(std::string_view program, pid_t process) {
    if (program.empty() || !is_callgate(program)) return false;
    const auto arguments = kernel::arguments_of(process);
    return arguments && arguments->size() > 1 && (*arguments)[1] == "request";
}

void describe_process(const DecideNeeds& needs, Question& question, pid_t process, pid_t parent) {
    if (auto arguments = kernel::arguments_of(process)) question.arguments = bounded(std::move(*arguments));
    while (parent > 1 && question.ancestors.size() < max_ancestors) {
        if (parent == needs.guardian || parent == ::getpid()) break;
        approval::Process one{parent, {}};
        kernel::executable(parent, one.program);
        question.ancestors.push_back(std::move(one));
        const auto next = kernel::identity(parent);
        if (!next) break;
        parent = next->parent;
    }
}

bool denies_unasked(CallContext& context, const rules::Verdict& verdict) {
    if (verdict.action != rules::Action::ask) return verdict.action == rules::Action::deny;
    return context.needs.questions == nullptr || !context.needs.questions->is_reachable();
}

Questioned put_question(CallContext& context, const Subject& subject, const rules::Verdict& ask_verdict) {
    context.question = context.grant = 0;
    context.granted.reset();
    if (context.needs.questions == nullptr) return unasked(ask_verdict, audit::unasked::nobody);
    if (const auto* file = std::get_if<rules::FileObject>(&subject.object); file != nullptr && file->unlinked)
        return unasked(ask_verdict, audit::unasked::unlinked);
    context.caller.look(context.thread());
    approval::Subject asked = subject_of(context, subject);
    Questioned result{.parked = false, .verdict = ask_verdict, .reason = {}};
    std::string key = approval::key_of(asked, ask_verdict.rule_name(), subject.identity);
    if (const Approval* answer = answered_before(context, key)) {
        result.verdict.action = answer->action;
        result.verdict.decided_by = answer->by;
        result.reason = answer->reason;
        context.question = answer->question;
        context.grant = answer->grant;
        return result;
    }
    if (const auto granted = asked.widens ? std::nullopt : context.needs.questions->granted(asked)) {
        result.verdict.action = granted->action;
        result.verdict.decided_by = granted->by;
        context.question = granted->question;
        context.grant = granted->grant;
        context.granted = std::move(asked);
        return result;
    }
    if (context.asking == Asking::never) return unasked(ask_verdict, audit::unasked::late);
    if (has_unused(context)) return denied(ask_verdict, "it has changed since it was asked about");
    if (context.approvals != nullptr && context.approvals->size() == max_questions)
        return denied(ask_verdict, "too many questions about one call");
    return ask(context, subject, ask_verdict, std::move(asked), std::move(key));
}

rules::Verdict with_grants_gained(CallContext& context, const rules::Verdict& verdict,
                                  std::string_view old_path, std::string_view new_path, bool& widens) {
    if (verdict.action > rules::Action::ask || context.needs.questions == nullptr ||
        !check_enabled("gained-grant") || !context.needs.questions->gained_by_move(old_path, new_path)) {
        return verdict;
    }
    widens = true;
    rules::Verdict asked = verdict;
    asked.action = rules::Action::ask;
    asked.error = EACCES;
    return asked;
}

}  // namespace callgate::calls
