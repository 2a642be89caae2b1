// Answers for the rest of a run: allowed, or denied.
//
// A grant answers only what the rules ask about: the caller looks here after the rules said `ask`. It covers
// what was shown when it was given and nothing more: these operations, this object (or the tree beneath its
// directory), by this program. Only a denial of scope `run` is for all that is asked; it decides where no
// other grant does. Not thread-safe: the queue's lock guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/approval/questions/question.hpp"

namespace callgate::approval {

struct Grant {
    std::uint64_t number = 0;
    std::uint64_t question = 0;
    rules::Action action = rules::Action::allow;  // allow or deny
    Scope scope = Scope::object;
    Subject subject;  // Scope::tree: the object is the directory
    audit::Answerer who;
    std::uint64_t used = 0;

    [[nodiscard]] bool covers(const Subject& asked) const;
    /// Whether it may cover something at `path` or beneath it.
    [[nodiscard]] bool touches(std::string_view path) const;
    /// Whether it covers everything at `path` and beneath it.
    [[nodiscard]] bool holds(std::string_view path) const;
    /// "read /home/u/x", "read everything beneath /home/u/x"; not yet safe for a terminal.
    [[nodiscard]] std::string text() const;
};

/// The directory, or the names, that an answer of scope `tree` reaches.
[[nodiscard]] std::string tree_of(const Question& question, const Reply& reply);

/// The grant that an answer gives, still without a number.
[[nodiscard]] Grant grant_of(const Question& question, const Reply& reply);

class Grants {
public:
    /// Beyond so many grants an answer counts once; a denial of all questions is taken even then.
    static constexpr std::size_t max_grants = 256;

    /// The number of the new grant, 0 if there are too many.
    std::uint64_t add(const Question& question, const Reply& reply);
    /// Takes over a grant that was given before, with its number. False if that number is not higher than the
    /// last, or if there are too many.
    bool restore(Grant grant);
    /// The grant that decides, or null; a denying one comes before an allowing one.
    [[nodiscard]] const Grant* deciding(const Subject& asked) const;
    /// The same, counted as a use of it.
    [[nodiscard]] const Grant* find(const Subject& asked);
    /// Whether an allowing grant at `new_path` does not cover the object at `old_path`: a move would widen
    /// what the object can be used for.
    [[nodiscard]] bool gained_by_move(std::string_view old_path, std::string_view new_path) const;
    bool revoke(std::uint64_t number);
    [[nodiscard]] const std::vector<Grant>& all() const { return all_; }
    /// Whether every question is denied for the rest of the run.
    [[nodiscard]] bool denies_all() const;

private:
    std::vector<Grant> all_;
    std::uint64_t last_ = 0;
};

}  // namespace callgate::approval
