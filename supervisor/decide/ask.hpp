// Questions: a call that the rules ask about is decided by an earlier answer or a grant, or is parked until
// somebody answers.
//
// A parked call holds nothing but the duty to answer it. When it has its answer it is handled again from the
// beginning: memory is read, names are resolved, the rules are asked once more. The answer counts only if
// they then ask about the very subject that was shown. Its key says so: operations, object and its identity,
// program, arguments. Any other subject is denied, so nothing that changed meanwhile slips through.
#pragma once

#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

struct Questioned {
    /// The call is no longer the handler's to answer: it only lets go of what it holds.
    bool parked = false;
    rules::Verdict verdict;   // allow, deny or kill; valid unless it is parked
    std::string_view reason;  // why, if the verdict's rule does not say it
};

/// For a verdict of `ask`.
[[nodiscard]] Questioned put_question(CallContext& context, const Subject& subject,
                                      const rules::Verdict& ask);

/// Whether the verdict denies without a question: by itself, or because nobody can be asked.
[[nodiscard]] bool denies_unasked(CallContext& context, const rules::Verdict& verdict);

/// Why a question was not asked.
[[nodiscard]] std::string_view why_not(approval::QuestionQueue::Admission admission);

/// The reason of a question's rule; that of a nested run's rule is marked as such.
[[nodiscard]] std::string reason_of(const rules::Verdict& verdict);

/// Whether the process is `callgate request`, so that an answer is for each program of the run. Its arguments
/// are read again when the answer comes, and another question has another key.
[[nodiscard]] bool asks_for_all(std::string_view program, pid_t process);

/// Adds the arguments and ancestors of the asking process to a question.
void describe_process(const DecideNeeds& needs, approval::Question& question, pid_t process, pid_t parent);

/// Returns `verdict`, or a question of its own if the new name is covered by a grant and the old one is not.
/// A grant goes by names, so it could then be used on this object. Sets `widens` if it asks.
[[nodiscard]] rules::Verdict with_grants_gained(CallContext& context, const rules::Verdict& verdict,
                                                std::string_view old_path, std::string_view new_path,
                                                bool& widens);

}  // namespace callgate::calls
