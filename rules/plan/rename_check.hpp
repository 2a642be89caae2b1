// "Moving never widens" and "nothing is planted" (rules.md): what a rename, exchange or link may do besides
// its `delete` and `create`, which the caller evaluates by themselves.
//
// A name decides what may be done to an object, so giving an object another name can free it. Compared are
// the remainders of all rules beneath both names: what is left of a pattern after the name. `**/.env` leaves
// the same remainder everywhere, so such a move is fine; a literal deny beneath the old name is lost at the new
// one, so it is refused. The comparison does not depend on who asks: what one program moves, another may
// open.
//
// A static grant lies on an inode and travels with it. So what may carry a grant is also not moved to where
// less is allowed: the kernel would allow there what the rules deny.
//
// An attacker controls both names (any bytes but NUL). Pure; any thread; the cost is that of the rules whose
// literal heads touch one of the names.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "rules/plan/plan.hpp"
#include "rules/match/rule_set.hpp"

namespace callgate::rules {

enum class MovedKind : std::uint8_t { file, directory, socket };

/// Both names absolute and resolved. For RENAME_EXCHANGE each object is judged in its own direction.
struct MoveRequest {
    std::string_view old_path, new_path;
    MovedKind kind = MovedKind::file;
};

struct MoveVerdict {
    enum class Because : std::uint8_t {
        nothing,
        restriction_lost,   // a deny, ask or kill that holds at or beneath the old name does not at the new
                            // one
        allowance_gained,   // an allow (or ask) holds at or beneath the new name that did not at the old one
        grant_would_move  // a static grant lies on it, and less is allowed at the new name
    };
    bool allowed = true;
    Because because = Because::nothing;
    /// Where not allowed: deny, naming the rule and operation that decided. `error` is the rule's own, else
    /// EXDEV: programs then copy instead, which is judged by itself.
    Verdict verdict;
};

/// A rule set compiled for moves: immutable, shared by all threads. Both arguments must outlive it.
class RenameCheck {
public:
    RenameCheck(const RuleSet& rules, const StaticGrants& grants);
    RenameCheck(RenameCheck&&) noexcept;
    ~RenameCheck();

    [[nodiscard]] MoveVerdict judge(const MoveRequest& request) const;

    /// Whether the entries of a directory must be walked (10,000 at most, else refuse) and each given to
    /// `planted`: create or modify is more restricted beneath the new name than beneath the old one.
    [[nodiscard]] bool may_carry_in(std::string_view old_path, std::string_view new_path) const;

    /// The verdict on one entry beneath a moved directory, by the name it would get.
    [[nodiscard]] Verdict planted(std::string_view new_path_of_entry, bool directory,
                                  std::string_view program) const;

private:
    struct Rules;
    std::unique_ptr<const Rules> rules_;
};

}  // namespace callgate::rules
