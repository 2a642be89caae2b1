// What becomes of a call that the rules ask about: it is allowed or denied by an earlier answer or a grant,
// or parked until somebody answers.
//
// A parked call holds nothing but the duty to answer it. When it has its answer it is handled again from the
// beginning: memory is read, names are resolved, the rules are asked once more. Only if they then ask about
// the very subject that was shown (the same key: operations, object and its identity, program, arguments)
// does the answer count; another one is denied, so nothing that changed meanwhile slips through.
#pragma once

#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

struct Questioned {
    /// The call is no longer ours to answer: nothing may be done but to let go of what is held.
    bool parked = false;
    rules::Verdict verdict;   // allow, deny or kill, where it is not parked
    std::string_view reason;  // why, where the verdict's rule does not say it
};

/// For a verdict of `ask`.
[[nodiscard]] Questioned put_question(CallContext& context, const Subject& subject,
                                      const rules::Verdict& ask);

/// A grant goes by names, so what gets a name that one covers could then be used by it: that is asked about
/// by itself. `verdict` otherwise. Sets `widens` where it asks.
[[nodiscard]] rules::Verdict with_grants_gained(CallContext& context, const rules::Verdict& verdict,
                                                std::string_view old_path, std::string_view new_path,
                                                bool& widens);

/// Puts the answer that refuses on record; the errno, never 0. As `refusal`, for a handler that has asked by
/// itself.
[[nodiscard]] int refusal_as_answered(CallContext& context, const Subject& subject, const Questioned& answer,
                                      std::uint64_t* sequence = nullptr);

/// Whether some rule asks about executing: the arguments are then part of every such question.
[[nodiscard]] bool asks_about_execution(const rules::RuleSet& rules);

}  // namespace callgate::calls
