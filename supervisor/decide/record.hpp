// Records of decisions, and of what came of them. A record is written before its effect.
#pragma once

#include <cstdint>
#include <optional>

#include "supervisor/decide/subject.hpp"

namespace callgate::calls {

/// The errno of a call whose decision could not be recorded.
inline constexpr int unrecorded_error = EACCES;

/// The record of a verdict. Its views point into `subject`, `verdict` and the thread's buffers.
[[nodiscard]] audit::Decision decision_on(CallContext& context, const Subject& subject,
                                          const rules::Verdict& verdict);

/// Writes a record and returns its number; 0: there is no log. Returns nothing if it could not be written, or
/// if the grant that it names was revoked meanwhile, which is then on record. In both cases the call must
/// have no effect.
[[nodiscard]] std::optional<std::uint64_t> record(CallContext& context, const audit::Decision& decision);

/// Second records: the act that was decided failed with `error`, or its answer no longer reached the caller.
/// `sequence` is the decision's number; with 0 they do nothing.
void note_failed_act(CallContext& context, std::uint64_t sequence, int error);
void note_lost_answer(CallContext& context, std::uint64_t sequence);

}  // namespace callgate::calls
