// rename, link and their relatives: an object gets another name.
//
// An attacker controls both paths, copied once, and may swap what stands at them. Names are judged beneath
// the pinned directories' own paths; the object of a link is pinned. Never continued: the kernel would read
// the paths again, and Landlock compares its own rights, not the rules (rules/plan/rename_check.hpp).
// FileNeeds::names is held alone by renames of directories. Those that could carry something to a name
// beneath which less is allowed hold it alone among all runs of the user. So no name that was judged
// elsewhere moves before its act, and none is made beneath a directory while its entries are judged. Entries
// that Landlock alone lets be made wait for no lock. If such entries could be smuggled along, a directory is
// not moved at all, and a file is moved by its pin. Symbolic links are made and moved by callgate alone,
// under the same lock. A move to a name that no link may have, or above one, holds it exclusively. So what is
// moved there is what was looked at.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/files/carried_entries.hpp"
#include "supervisor/calls/files/cross_directory_rename.hpp"
#include "supervisor/calls/files/filtered_change.hpp"
#include "supervisor/calls/files/git_config.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

namespace {

using rules::MovedKind;
using rules::Operation;
using rules::OperationSet;
using rules::Verdict;

MovedKind kind_of(const struct stat& status) {
    if (S_ISDIR(status.st_mode)) return MovedKind::directory;
    if (S_ISLNK(status.st_mode)) return MovedKind::link;
    return S_ISSOCK(status.st_mode) ? MovedKind::socket : MovedKind::file;
}

/// Runs `act`, which gives an object a name in another directory, on a thread that Landlock lets do it.
template <class Act>
int rename_across(FileCall& context, Act act) {
    return context.files.cross_directory_rename != nullptr
               ? context.files.cross_directory_rename->perform(act)
               : act();
}

/// Gives a pinned object another name. 0, or -1 with errno.
int link_pin(FileCall& context, int pin, const Place& place) {
    const kernel::PinPath path(pin);
    return rename_across(context, [&path, &place] {
        return ::linkat(kernel::own_descriptors(), path.number(), place.parent.get(), place.leaf.c_str(),
                        AT_SYMLINK_FOLLOW);
    });
}

/// Whether the kernel refuses a name in `other` to what lies in `one` (EXDEV). Device numbers do not tell:
/// those of overlayfs differ within one mount, and those of two bind mounts are the same.
bool of_other_mount(int one, int other) {
    struct statx first {};
    struct statx second {};
    return ::statx(one, "", AT_EMPTY_PATH, STATX_MNT_ID, &first) == 0 &&
           ::statx(other, "", AT_EMPTY_PATH, STATX_MNT_ID, &second) == 0 &&
           first.stx_mnt_id != second.stx_mnt_id;
}

/// A rename while it is decided.
struct Rename {
    FileCall& context;
    unsigned flags;
    Place& old_place;
    Place& new_place;
    struct stat old_status {};
    struct stat new_status {};
    bool replaces = false;
    bool unnoticed = false;  // others could make entries beneath it meanwhile

    [[nodiscard]] bool exchanges() const { return (flags & RENAME_EXCHANGE) != 0; }
    [[nodiscard]] bool of_directory() const {
        return S_ISDIR(old_status.st_mode) || (replaces && S_ISDIR(new_status.st_mode));
    }

    /// Looks at what stands at both names now. Returns 0, or the errno that the kernel gives before any
    /// security hook (fs/namei.c, do_renameat2).
    int look() {
        if (of_other_mount(old_place.parent.get(), new_place.parent.get())) return EXDEV;
        if (::fstatat(old_place.parent.get(), old_place.bare().c_str(), &old_status, AT_SYMLINK_NOFOLLOW) !=
            0) {
            return errno;
        }
        replaces = ::fstatat(new_place.parent.get(), new_place.bare().c_str(), &new_status,
                             AT_SYMLINK_NOFOLLOW) == 0;
        if (!replaces && exchanges()) return errno;
        if (replaces && (flags & RENAME_NOREPLACE) != 0) return EEXIST;
        if (!S_ISDIR(old_status.st_mode) &&
            (old_place.trailing_slash || (new_place.trailing_slash && !exchanges()))) {
            return ENOTDIR;
        }
        return 0;
    }

    /// Entries that could be carried to the new name, and in an exchange back to the old one.
    struct Carried {
        CarriedEntries there = CarriedEntries::impossible, back = CarriedEntries::impossible;
    };
    [[nodiscard]] Carried carried(const rules::RenameCheck& moves, const rules::StaticGrants& grants) const {
        Carried found{.there = carried_between(moves, grants, old_place, new_place)};
        if (exchanges()) found.back = carried_between(moves, grants, new_place, old_place);
        return found;
    }

    /// Whether names must not change beneath the moved object until it was moved, by any run. While this
    /// holds the lock alone no grant is forgotten, so `carried` keeps its answer.
    bool excludes_runs() {
        const Carried found = carried(context.files.moves, context.files.grants);
        unnoticed = found.there == CarriedEntries::unnoticed;
        const bool reserved =
            check_enabled("reserved-lock") && (context.files.moves.reserves(new_place.path) ||
                                               (exchanges() && context.files.moves.reserves(old_place.path)));
        return reserved || carries_links() || is_git_config(new_place.path) || moves_lock() ||
               found.there != CarriedEntries::impossible || found.back != CarriedEntries::impossible;
    }

    /// Whether a link in a moved directory could get a name that no link may have.
    [[nodiscard]] bool carries_links() const {
        const rules::RenameCheck& moves = context.files.moves;
        const auto to = [&moves](const Place& from, const Place& to) {
            return !moves.reserved_beneath(to.path).empty() || moves.may_carry_links(from.path, to.path);
        };
        return of_directory() && (to(old_place, new_place) || (exchanges() && to(new_place, old_place)));
    }

    [[nodiscard]] bool moves_lock() const {
        return is_settings_lock(context.needs.enforced.rules, old_place.path);
    }

    [[nodiscard]] OperationSet at_old() const {
        OperationSet set = Operation::remove;
        if ((flags & RENAME_WHITEOUT) != 0 || (exchanges() && !S_ISDIR(new_status.st_mode)))
            set |= create_file(old_place.path);
        else if (exchanges())
            set |= Operation::create;
        return set;
    }
    [[nodiscard]] OperationSet at_new() const {
        OperationSet set =
            S_ISDIR(old_status.st_mode) ? OperationSet(Operation::create) : create_file(new_place.path);
        if (replaces) set |= Operation::remove;
        return set;
    }

    Verdict judge_direction(const rules::RenameCheck& moves, const Place& from, const Place& to,
                            const struct stat& status, CarriedEntries carried) {
        const auto moved = moves.evaluate({from.path, to.path, kind_of(status)});
        if (!moved.allowed) return moved.verdict;
        Verdict verdict;
        verdict.action = rules::Action::allow;
        if (S_ISDIR(status.st_mode)) verdict = judge_carried_links(moves, from, to);
        if (verdict.action != rules::Action::allow) return verdict;
        if (carried == CarriedEntries::impossible) return verdict;
        if (!S_ISDIR(status.st_mode)) {
            // By its pin a file can only be linked to a free name.
            return carried == CarriedEntries::unnoticed &&
                           (replaces || (flags & ~unsigned{RENAME_NOREPLACE}) != 0)
                       ? refused_move(EXDEV)
                       : verdict;
        }
        if (carried == CarriedEntries::unnoticed) return refused_move(EXDEV);
        UniqueFd directory(::openat(from.parent.get(), from.bare().c_str(),
                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!directory) return refused_move(errno);
        return judge_entries(context, moves, std::move(directory), to.path);
    }

    /// The verdict of `basis` on names, object and entries. All three count also if the names alone are asked
    /// about: an answer settles no more than its question.
    Verdict judge(const Basis& basis, Subject& subject) {
        const Verdict verdict = evaluate(context, basis, subject);
        if (verdict.action > rules::Action::ask) return verdict;
        const Carried found = carried(basis.moves, basis.grants);
        Verdict moved = judge_direction(basis.moves, old_place, new_place, old_status, found.there);
        if (moved.action <= rules::Action::ask && exchanges())
            moved =
                stricter(moved, judge_direction(basis.moves, new_place, old_place, new_status, found.back));
        subject.widens = moved.action == rules::Action::ask;
        return with_grants(stricter(verdict, moved), subject.widens);
    }

    Verdict with_grants(Verdict verdict, bool& widens) {
        verdict = with_grants_gained(context, verdict, old_place.path, new_place.path, widens);
        if (exchanges())
            verdict = with_grants_gained(context, verdict, new_place.path, old_place.path, widens);
        return verdict;
    }

    int act() const {
        return rename_across(context, [this] {
            return static_cast<int>(::syscall(SYS_renameat2, old_place.parent.get(), old_place.leaf.c_str(),
                                              new_place.parent.get(), new_place.leaf.c_str(), flags));
        });
    }

    /// Used if a directory may have the file's name by now. The very file that was judged gets the new name,
    /// and then loses the old one.
    int act_by_pin() const {
        const UniqueFd pin(
            ::openat(old_place.parent.get(), old_place.bare().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat now {};
        if (!pin || ::fstat(pin.get(), &now) != 0) return -1;
        if (now.st_ino != old_status.st_ino || now.st_dev != old_status.st_dev) {
            errno = EBUSY;
            return -1;
        }
        if (link_pin(context, pin.get(), new_place) != 0) {
            // With EXDEV programs copy what may be renamed and not linked (another user's file, no links
            // here).
            if (errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) errno = EXDEV;
            return -1;
        }
        if (::unlinkat(old_place.parent.get(), old_place.bare().c_str(), 0) == 0) return 0;
        if (errno != EPERM && errno != EACCES) return 0;  // another process removed or replaced it
        const int error = errno;
        ::unlinkat(new_place.parent.get(), new_place.bare().c_str(), 0);
        errno = error;
        return -1;
    }

    void run(const GivenPath& given_old, const GivenPath& given_new) {
        Subject subject;
        subject.operations = at_old();
        subject.object = rules::FileObject{old_place.path};
        subject.second_object = rules::FileObject{new_place.path};
        subject.second_operations = at_new();
        subject.identity = identity_of(old_status);
        subject.input = input_of(given_old, old_place);
        subject.input.second_path = *given_new.text;
        if (change_filtered(context, subject, {old_place, &old_status},
                            {new_place, replaces ? &new_status : nullptr}, flags))
            return;
        const Decision decision =
            decide(context, subject, [&](const Basis& basis) { return judge(basis, subject); });
        if (!decision.allowed()) return context.fail(decision.error);
        const bool by_pin = unnoticed && !of_directory();
        SharedMemory::Making making = making_of(context, new_place.path);
        SharedMemory::Making back =
            exchanges() && !making.notes() ? making_of(context, old_place.path) : SharedMemory::Making();
        int error = making.error() != 0 ? making.error() : back.error();
        if (error == 0 && (by_pin ? act_by_pin() : act()) != 0) error = errno;
        if (error == 0) {
            if (moves_lock()) context.files.locks->forget(old_place.path);
            making.note(new_place.parent.get(), new_place.bare().c_str(), old_status);
            if (exchanges())
                (making.notes() ? making : back)
                    .note(old_place.parent.get(), old_place.bare().c_str(), new_status);
            // Grants belong to inodes: neither name stands any longer for the inode that it had.
            context.files.grants.forget(old_place.path);
            context.files.grants.forget(new_place.path, exchanges()
                                                            ? rules::StaticGrants::Departure::moved
                                                            : rules::StaticGrants::Departure::removed);
        }
        errno = error;
        answer_act(context, decision.sequence, error == 0 ? 0 : -1);
    }
};

/// Whether both paths start at the same place. Then one handle on it serves both.
bool start_alike(const FileCall& context, const GivenPath& old_path, const GivenPath& new_path) {
    const bool absolute = old_path.text->starts_with('/');
    if (absolute != new_path.text->starts_with('/')) return false;
    return absolute ||
           directory_of(context, context.entry.first) == directory_of(context, context.entry.second);
}

/// The verdict of `basis` on the new name, and on giving it to this object.
Verdict judge_link(FileCall& context, const Basis& basis, const Object& object, const Place& place,
                   Subject& subject) {
    const Verdict verdict = evaluate(context, basis, subject);
    // An object without any name (O_TMPFILE) gets its first one: nothing it had can be widened. An object
    // whose names are unknown may have been denied by any of them.
    const bool named = object.status.st_nlink != 0 && !object.unnamed;
    if (verdict.action > rules::Action::ask || !named) return verdict;
    if (object.unlinked && check_enabled("unlinked-link")) return refused_move(EXDEV);
    const auto moved = basis.moves.evaluate({object.path, place.path, kind_of(object.status)});
    subject.widens = !moved.allowed && moved.verdict.action == rules::Action::ask;
    return with_grants_gained(context, moved.allowed ? verdict : stricter(verdict, moved.verdict),
                              object.path, place.path, subject.widens);
}

/// Whether this kernel links by AT_EMPTY_PATH without capabilities (since 6.10). An older one refuses it
/// before it looks at anything else.
bool links_by_descriptor() {
    static const bool known = ::linkat(-1, "", -1, ".", AT_EMPTY_PATH) != 0 && errno != ENOENT;
    return known;
}

}  // namespace

void handle_rename(FileCall& context) {
    const auto flags =
        context.entry.flags < 0 ? 0U : static_cast<unsigned>(context.integer(context.entry.flags));
    constexpr unsigned known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
    if ((flags & ~known) != 0) return context.fail(EINVAL);
    if ((flags & RENAME_EXCHANGE) != 0 && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)) != 0) {
        return context.fail(EINVAL);
    }
    WorkerBuffers& buffers = context.buffers;
    auto given_old = read_path_argument(context, context.entry.first, buffers.path, buffers.directory);
    if (!given_old) return context.fail(given_old.error().value());
    auto given_new = read_path_argument(context, context.entry.second, buffers.second_path,
                                        buffers.directory_second, EmptyPath::refuse, TakeBase::later);
    if (!given_new) return context.fail(given_new.error().value());
    const bool alike = start_alike(context, *given_old, *given_new);
    if (!alike) {
        const auto taken = take_base(context, context.entry.second, *given_new, buffers.directory_second,
                                     TakeBase::if_relative);
        if (!taken) return context.fail(taken.error().value());
    }

    // Names are resolved under the lock, so that none moves until the act.
    std::shared_lock<NameLock> shared(context.files.names);
    std::unique_lock<NameLock> alone(context.files.names, std::defer_lock);
    std::unique_lock<NameLock::OfRuns> of_runs(context.files.names.of_runs(), std::defer_lock);
    for (;;) {
        auto old_place = resolve_place(given_old->request(context.thread(), Follow::no));
        if (!old_place) return context.fail(old_place.error().value());
        PathRequest second = given_new->request(context.thread(), Follow::no);
        if (alike) second.base = given_old->base.get();
        auto new_place =
            alike ? resolve_place_beside(*old_place, *given_old->text, second) : resolve_place(second);
        if (!new_place) return context.fail(new_place.error().value());
        if (!context.call.waiting()) return;
        Rename rename{context, flags, *old_place, *new_place};
        if (old_place->special || new_place->special) {  // the kernel refuses by itself
            const int result = rename.act();
            return result == 0 ? static_cast<void>(context.call.succeed(0)) : context.fail(errno);
        }
        const int wrong = rename.look();
        if (wrong == 0 && rename.excludes_runs() && !of_runs && check_enabled("names-lock")) {
            if (shared) shared.unlock();
            if (alone) alone.unlock();
            of_runs.lock();
            continue;
        }
        if (wrong == 0 && !alone && !of_runs && rename.of_directory() && check_enabled("names-lock")) {
            shared.unlock();
            alone.lock();
            continue;
        }
        return wrong != 0 ? context.fail(wrong) : rename.run(*given_old, *given_new);
    }
}

void handle_link(FileCall& context) {
    const int flags = context.entry.flags < 0 ? 0 : context.integer(context.entry.flags);
    if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0) return context.fail(EINVAL);
    if ((flags & AT_EMPTY_PATH) != 0 && !links_by_descriptor()) return context.fail(ENOENT);
    WorkerBuffers& buffers = context.buffers;
    auto given_old =
        read_path_argument(context, context.entry.first, buffers.path, buffers.directory, empty_of(flags));
    if (!given_old) return context.fail(given_old.error().value());
    auto given_new =
        read_path_argument(context, context.entry.second, buffers.second_path, buffers.directory_second);
    if (!given_new) return context.fail(given_new.error().value());
    const Follow follow = (flags & AT_SYMLINK_FOLLOW) != 0 ? Follow::yes : Follow::no;
    audit::CallInput input = given_old->text->empty() ? audit::CallInput{} : input_of(*given_old);
    input.second_path = *given_new->text;

    const std::shared_lock<NameLock> names(context.files.names);
    const auto object = given_old->text->empty()
                            ? describe(std::move(given_old->base))
                            : resolve_object(given_old->request(context.thread(), follow));
    if (!object) return context.fail(object.error().value());
    const auto place = resolve_place(given_new->request(context.thread(), Follow::no));
    if (!context.call.waiting()) return;
    if (!place) return context.fail(place.error().value());
    struct stat there {};
    if (place->special ||
        ::fstatat(place->parent.get(), place->leaf.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return context.fail(EEXIST);
    }
    if (of_other_mount(object->pin.get(), place->parent.get())) return context.fail(EXDEV);
    if (object->directory()) return context.fail(EPERM);
    Subject subject;
    subject.operations = create_file(place->path);
    subject.object = rules::FileObject{place->path};
    subject.input = input;
    // An object without a name gets its first: nothing that it had can be widened or shown.
    const bool named = object->status.st_nlink != 0 && !object->unnamed;
    if (named) {
        subject.identity = identity_of(object->status);
        subject.source = object->path;
    }
    const Decision decision = decide(context, subject, [&](const Basis& basis) {
        return judge_link(context, basis, *object, *place, subject);
    });
    if (!decision.allowed()) return context.fail(decision.error);
    SharedMemory::Making making = making_of(context, place->path);
    errno = making.error();
    const int result = errno == 0 ? link_pin(context, object->pin.get(), *place) : -1;
    if (result == 0) making.note(object->pin.get(), "");
    answer_act(context, decision.sequence, result);
}

}  // namespace callgate::calls
