// Audit mode, as a decorator of `decide`: a call goes on, and its record says what enforcement would have
// said.
//
// The rules that hold in audit mode allow everything but what invariant 9 protects
// (docs/dev/architecture.md); the user's rules are only observed. Handlers ask `decide` in both modes and do
// not know which one it is: `decide` leaves every call that the enforced rules allow to `observe`, which
// writes the record in place of the plain one. So a call that could not be recorded is refused in audit mode
// too.
#pragma once

#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// The rules that a run observes and does not enforce, and the plan that enforcement would have had.
class Observation {
public:
    /// `rules` and `plan` outlive it. Without `record_allowed` (`--record minimal`) calls that enforcement
    /// would have allowed are left out.
    Observation(const rules::RuleSet& rules, const rules::Plan& plan, bool record_allowed)
        : plan_(plan),
          grants_(plan),
          moves_(rules, grants_),
          basis_{rules, grants_, moves_},
          record_allowed_(record_allowed) {}
    Observation(const Observation&) = delete;
    Observation& operator=(const Observation&) = delete;

    [[nodiscard]] const Basis& basis() const { return basis_; }
    [[nodiscard]] bool record_allowed() const { return record_allowed_; }
    /// Whether enforcement would have left an allowed call to Landlock or the filter alone.
    [[nodiscard]] bool left_to_kernel(const Subject& subject) const;

private:
    const rules::Plan& plan_;
    const rules::StaticGrants grants_;
    const rules::RenameCheck moves_;
    const Basis basis_;
    const bool record_allowed_;
};

/// Audit mode only: records the verdict of the observed rules on an allowed call, and on its `others` that
/// they would have refused. Returns as `record`; 0 also where no record is wanted.
[[nodiscard]] std::optional<std::uint64_t> observe(CallContext& context, const Subject& subject,
                                                   const Judge& judge, audit::Mechanism mechanism);

/// Whether some rule looks at the arguments of a program, or a question shows them.
[[nodiscard]] bool arguments_count(const DecideNeeds& needs);

}  // namespace callgate::calls
