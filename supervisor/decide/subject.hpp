// The subject of a decision, and the verdict of the rules on it.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/decide/context.hpp"

namespace callgate::calls {

/// A decoded call, as the rules see it. The handler keeps what the views point at alive until the decision.
struct Subject {
    rules::OperationSet operations;
    rules::Object object;
    std::optional<rules::FileObject> second_object;  // rename, link: the new name
    rules::OperationSet second_operations;
    std::optional<audit::FileIdentity> identity;
    /// Hard links only: path of the existing file, described by `identity`.
    std::string_view source;
    audit::CallInput input;
    /// The question about a move also covers what the object could be used for at its new name. Then an
    /// answer counts for this call alone, and no grant does.
    bool widens = false;
    /// How an allowed call happens.
    audit::Mechanism allowed_by = audit::Mechanism::on_behalf;
    /// A verdict that holds whatever the rules say (terminals of the run).
    std::optional<rules::Verdict> settled;
    /// Further objects that the same call uses (a script's interpreters). The verdict of the caller of
    /// `decide_with` covers them; audit mode judges and records each.
    std::vector<Subject> others;
};

/// The verdict of `basis` on a subject, in place of plain evaluation (renames, links). Audit mode calls it a
/// second time, with the rules that it observes.
using Judge = std::function<rules::Verdict(const Basis& basis)>;

/// The verdict of the rules that hold; the stricter one where there are two objects.
[[nodiscard]] rules::Verdict evaluate(CallContext& context, const Subject& subject);
/// The same by either set of rules.
[[nodiscard]] rules::Verdict evaluate(CallContext& context, const Basis& basis, const Subject& subject);

/// The verdict by `basis`: the settled one, else by `judge`, else by evaluation.
[[nodiscard]] rules::Verdict verdict_on(CallContext& context, const Basis& basis, const Subject& subject,
                                        const Judge& judge);

/// Stands for any verdict where a test has switched off judging this call.
[[nodiscard]] rules::Verdict allow_all();

/// Denies a call that could not be judged or held, whatever the rules say.
[[nodiscard]] rules::Verdict failure(rules::Operation operation, int error);

}  // namespace callgate::calls
