// The rename check: whether a rename, exchange or link may give an object, or its entries, more permissions.
// The caller evaluates `delete` and `create` separately (docs/rules.md, "Renames and links").
//
// A name decides the operations on an object, so a new name can free it. The check compares the remainders of
// all rules beneath both names: the part of a pattern after the name. `**/.env` leaves the same remainder
// everywhere, so such a move is allowed. A literal deny beneath the old name is lost at the new one, so that
// move is refused. The comparison does not depend on the asking program: one program may open what another
// one moved.
//
// A static grant is attached to an inode and moves with it. At a name where less is allowed, the kernel would
// permit what the rules deny. So an object that may carry a grant is not moved there.
//
// A symbolic link is also held to the names of rules/plan/link_names.hpp, whoever gives it its name.
//
// An attacker controls both names (any bytes but NUL). Pure; any thread; the cost is that of the rules whose
// literal heads touch one of the names.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "rules/match/rule_set.hpp"
#include "rules/plan/link_names.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::rules {

enum class MovedKind : std::uint8_t { file, directory, socket, link };

/// Both names are absolute and resolved. For RENAME_EXCHANGE, each object is checked in its own direction.
struct MoveRequest {
    std::string_view old_path, new_path;
    MovedKind kind = MovedKind::file;
};

struct MoveVerdict {
    enum class Because : std::uint8_t {
        nothing,
        restriction_lost,  // a deny, ask or kill at or beneath the old name does not match at the new
                           // one
        allowance_gained,  // an allow or ask at or beneath the new name did not match at the old one
        grant_would_move,  // it carries a static grant, and less is allowed at the new name
        link_reserved      // a symbolic link may not stand at the new name
    };
    bool allowed = true;
    Because because = Because::nothing;
    /// If not allowed: a denial with the rule and operation that decided. `error` is the rule's own, else
    /// EXDEV: programs then copy instead, and the copy is decided by itself.
    Verdict verdict;
};

/// A rule set compiled for moves: immutable, shared by all threads. All arguments must outlive it.
class RenameCheck {
public:
    /// `outer` is the check of the run around a nested one; null: there is none. Both must then allow.
    RenameCheck(const RuleSet& rules, const StaticGrants& grants, const RenameCheck* outer = nullptr);
    ~RenameCheck();

    [[nodiscard]] MoveVerdict evaluate(const MoveRequest& request) const;

    /// The verdict on a symbolic link that gets the name `path`, made or moved: allowed, or a denial with
    /// `error`.
    [[nodiscard]] Verdict evaluate_link(std::string_view path, int error) const;
    /// Whether `evaluate_link` refuses a link at `path`. For a name that a rule reserves, also if it lies
    /// beneath `path`.
    [[nodiscard]] bool reserves(std::string_view path) const;
    /// The names strictly beneath `directory` at which no link may stand, nor at a directory above them.
    [[nodiscard]] std::vector<LinkNames::Reserved> reserved_beneath(std::string_view directory) const;

    /// Whether links in a moved directory must be given to `evaluate_link`, wherever they stand in it. It is
    /// so where links are denied everywhere beneath the new name, and not beneath the old one.
    [[nodiscard]] bool may_carry_links(std::string_view old_path, std::string_view new_path) const;

    /// Whether the entries of a moved directory must be checked, because create or modify is more restricted
    /// beneath the new name. The caller then gives each entry (10,000 at most, else it refuses) to
    /// `evaluate_entry`.
    [[nodiscard]] bool may_carry_in(std::string_view old_path, std::string_view new_path) const;

    /// The verdict on one entry of a moved directory, under its new name.
    [[nodiscard]] Verdict evaluate_entry(std::string_view new_path_of_entry, bool directory,
                                         std::string_view program, Party party = Party::tools) const;

private:
    struct Rules;
    std::unique_ptr<const Rules> rules_;
    const RenameCheck* outer_;
};

}  // namespace callgate::rules
