// The state of an open, openat, creat or openat2 while it is decided (open.cpp) and done (open_act.cpp).
//
// Lives as long as the call. open.cpp says what an attacker controls, and why the judged object is the one
// that is opened.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/with_umask.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// The wanted open, whichever call asked for it.
struct Wanted {
    int flags = 0;
    mode_t mode = 0;         // for what is made
    mode_t bits_left_out{};  // of the mode that was given (set_ids.hpp)
    std::uint64_t resolve = 0;
    bool flags_in_memory = false;
    bool regular_only = false;  // OPENAT2_REGULAR: another object is refused

    [[nodiscard]] int access() const { return flags & O_ACCMODE; }
    [[nodiscard]] bool reads() const { return access() != O_WRONLY; }
    [[nodiscard]] bool writes() const { return access() != O_RDONLY; }
    [[nodiscard]] bool temporary() const { return (flags & O_TMPFILE) == O_TMPFILE; }
    [[nodiscard]] bool creates() const { return (flags & O_CREAT) != 0 && !temporary(); }
    [[nodiscard]] bool exclusive() const { return creates() && (flags & O_EXCL) != 0; }
    [[nodiscard]] bool truncates() const { return (flags & O_TRUNC) != 0; }
    [[nodiscard]] Follow follow() const {
        return (flags & O_NOFOLLOW) != 0 || exclusive() ? Follow::no : Follow::yes;
    }
    /// Operations on an object that exists.
    [[nodiscard]] rules::OperationSet on_existing() const {
        rules::OperationSet set;
        if (temporary()) {
            set |= rules::Operation::create;
            if (access() == O_RDWR) set |= rules::Operation::read;
            return set;
        }
        if (reads()) set |= rules::Operation::read;
        if (writes() || truncates()) set |= rules::Operation::modify;
        return set;
    }
    /// Operations on an object that is made.
    [[nodiscard]] rules::OperationSet on_new() const {
        rules::OperationSet set = rules::Operation::create;
        if (reads()) set |= rules::Operation::read;
        return set;
    }
};

/// The state of one open while it is decided.
class Opening {
public:
    Opening(FileCall& context, const Wanted& wanted, GivenPath given)
        : context_(context), wanted_(wanted), given_(std::move(given)) {}
    void run();

private:
    enum class Next : std::uint8_t { done, again };

    // Deciding.
    Next existing(Object object);
    Next absent();
    [[nodiscard]] int refused_by_kind(const Object& object) const;
    void remember_static(const Object& object, rules::OperationSet operations);
    Subject subject(rules::OperationSet operations, std::string_view path, bool unlinked);

    /// Hands over a copy without credentials, where the rule that denies says so. False: it is another rule.
    bool hand_filtered(const Object& object, const Subject& judged, const rules::Verdict& verdict);

    /// Makes an empty file that is handed over for reading alone, where the rule that denies says so. Another
    /// file is handed over in place of a count.
    std::optional<Next> make_filtered(const Place& place, const Subject& judged);

    /// Empties a count, and hands over another file in its place. False: the rule does not say so.
    bool rewrite_count(const Object& object, const Subject& judged);
    void hand_count(UniqueFd real, std::uint64_t sequence);

    // Carrying out; each ends with an answer, unless it says `again`.
    Next act_on(const Object& object, std::uint64_t sequence);
    Next create(const Place& place, int flags, std::uint64_t sequence);
    Next reopen_by_name(const Object& object, std::uint64_t sequence);
    void hand_over_text(const std::string& text, std::uint64_t sequence);
    void reopen(const Object& object, std::uint64_t sequence);
    UniqueFd open_pinned(const Object& object, int flags, bool may_block, bool& overload);
    UniqueFd open_terminal(int flags);
    [[nodiscard]] bool sticky_refuses(const Object& object) const;
    bool take_umask(std::optional<WithUmask>& with_umask);
    void finish(UniqueFd fd, std::uint64_t sequence);
    void finish_failed(std::uint64_t sequence, int error);

    FileCall& context_;
    const Wanted& wanted_;
    GivenPath given_;
    bool is_count_ = false;  // what is made
};

}  // namespace callgate::calls
