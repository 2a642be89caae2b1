// rename, link and their relatives: an object gets another name.
//
// An attacker controls both paths, copied once, and may swap what stands at them. Names are judged beneath
// the pinned directories' own paths; the object of a link is pinned. Never continued: the kernel would read
// the paths again, and Landlock compares its own rights, not the rules (rules.md, moving never widens).
// Renames of directories, and those that could carry a directory to a name beneath which less is allowed,
// hold Supervision::names exclusively: no name that was judged elsewhere moves before it is acted on, and
// none is made beneath a directory while its entries are judged. What Landlock alone lets be made waits for
// no lock: where that could be smuggled along, a directory is not moved at all, and a file by its pin.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "base/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/calls/files/carried_entries.hpp"
#include "supervisor/calls/files/cross_directory_rename.hpp"
#include "supervisor/calls/handlers.hpp"

namespace callgate::calls {

namespace {

using rules::MovedKind;
using rules::Operation;
using rules::OperationSet;
using rules::Verdict;

MovedKind kind_of(const struct stat& status) {
    if (S_ISDIR(status.st_mode)) return MovedKind::directory;
    return S_ISSOCK(status.st_mode) ? MovedKind::socket : MovedKind::file;
}

/// Runs `act`, which gives an object a name in another directory, where Landlock lets it.
template <class Act>
int rename_across(CallContext& context, Act act) {
    return context.run.cross_directory_rename != nullptr ? context.run.cross_directory_rename->perform(act) : act();
}

/// Gives a pinned object another name. 0, or -1 with errno.
int link_pin(CallContext& context, int pin, const Place& place) {
    const kernel::PinPath path(pin);
    return rename_across(context, [&path, &place] {
        return ::linkat(kernel::own_descriptors(), path.number(), place.parent.get(), place.leaf.c_str(),
                        AT_SYMLINK_FOLLOW);
    });
}

/// One rename while it is decided.
struct Rename {
    CallContext& context;
    unsigned flags;
    Place& old_place;
    Place& new_place;
    struct stat old_status {};
    struct stat new_status {};
    bool replaces = false;
    CarriedEntries planting = CarriedEntries::impossible, carried_back = CarriedEntries::impossible;

    [[nodiscard]] bool exchanges() const { return (flags & RENAME_EXCHANGE) != 0; }
    [[nodiscard]] bool of_directory() const {
        return S_ISDIR(old_status.st_mode) || (replaces && S_ISDIR(new_status.st_mode));
    }

    /// What stands at both names now. fs/namei.c, do_renameat2: what the kernel refuses before any security
    /// hook; 0 none.
    int look() {
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

    /// Whether names must not change beneath what is moved until it was moved.
    bool excludes_others() {
        planting = carried_between(context.run.moves, context.run.grants, old_place, new_place);
        if (exchanges())
            carried_back = carried_between(context.run.moves, context.run.grants, new_place, old_place);
        return of_directory() || planting != CarriedEntries::impossible || carried_back != CarriedEntries::impossible;
    }

    [[nodiscard]] OperationSet at_old() const {
        OperationSet set = Operation::remove;
        if (exchanges() || (flags & RENAME_WHITEOUT) != 0) set |= Operation::create;
        return set;
    }
    [[nodiscard]] OperationSet at_new() const {
        OperationSet set = Operation::create;
        if (replaces) set |= Operation::remove;
        return set;
    }

    Verdict judge_direction(const rules::RenameCheck& moves, const Place& from, const Place& to,
                            const struct stat& status, CarriedEntries plants) {
        const auto moved = moves.judge({from.path, to.path, kind_of(status)});
        if (!moved.allowed) return moved.verdict;
        Verdict verdict;
        verdict.action = rules::Action::allow;
        if (plants == CarriedEntries::impossible) return verdict;
        if (!S_ISDIR(status.st_mode)) {
            // By its pin a file can only be linked to a name that nobody has.
            return plants == CarriedEntries::unnoticed && (replaces || (flags & ~unsigned{RENAME_NOREPLACE}) != 0)
                       ? refused_move(EXDEV)
                       : verdict;
        }
        if (plants == CarriedEntries::unnoticed) return refused_move(EXDEV);
        UniqueFd directory(::openat(from.parent.get(), from.bare().c_str(),
                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!directory) return refused_move(errno);
        return judge_entries(context, moves, std::move(directory), to.path);
    }

    /// `verdict` is that of the names. Also where they alone are asked about: an answer settles no more than
    /// its question.
    Verdict judge(const rules::RenameCheck& moves, CarriedEntries there, CarriedEntries back, const Verdict& verdict,
                  bool& widens) {
        if (verdict.action > rules::Action::ask) return verdict;
        Verdict moved = judge_direction(moves, old_place, new_place, old_status, there);
        if (moved.action <= rules::Action::ask && exchanges())
            moved = stricter(moved, judge_direction(moves, new_place, old_place, new_status, back));
        widens = moved.action == rules::Action::ask;
        return stricter(verdict, moved);
    }

    /// What enforcement would have said, in a run that only observes.
    Verdict judge_observed_move(const Observation& observed, const Subject& subject) {
        const CarriedEntries there = carried_between(observed.moves, observed.grants, old_place, new_place);
        const CarriedEntries back = exchanges()
                                  ? carried_between(observed.moves, observed.grants, new_place, old_place)
                                  : CarriedEntries::impossible;
        bool widens = false;
        return judge(observed.moves, there, back, judge_observed(context, subject), widens);
    }

    int act() const {
        return rename_across(context, [this] {
            return static_cast<int>(::syscall(SYS_renameat2, old_place.parent.get(), old_place.leaf.c_str(),
                                              new_place.parent.get(), new_place.leaf.c_str(), flags));
        });
    }

    /// A file whose name may be a directory's by now: the very file that was judged gets the new name before
    /// it loses the old one.
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
            // What may be renamed and not linked (a stranger's file, a file system without links) is copied.
            if (errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) errno = EXDEV;
            return -1;
        }
        if (::unlinkat(old_place.parent.get(), old_place.bare().c_str(), 0) == 0) return 0;
        if (errno != EPERM && errno != EACCES) return 0;  // others have removed or replaced it
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
        subject.input = input_of(given_old);
        subject.input.second_path = *given_new.text;
        std::uint64_t sequence = 0;
        Verdict verdict =
            judge(context.run.moves, planting, carried_back, calls::judge(context, subject), subject.widens);
        verdict = with_grants_gained(context, verdict, old_place.path, new_place.path, subject.widens);
        if (exchanges())
            verdict = with_grants_gained(context, verdict, new_place.path, old_place.path, subject.widens);
        if (const calls::Observation* const observed = context.run.observed)
            subject.observed = judge_observed_move(*observed, subject);
        if (rule_on(context, subject, verdict, &sequence) == Ruling::refused) return;
        const bool by_pin = planting == CarriedEntries::unnoticed && !of_directory();
        const int error = (by_pin ? act_by_pin() : act()) == 0 ? 0 : errno;
        if (error == 0) {
            // Grants belong to inodes: neither name stands any longer for the one that it had.
            context.run.grants.forget(old_place.path);
            context.run.grants.forget(new_place.path, exchanges() ? rules::StaticGrants::Departure::moved
                                                                  : rules::StaticGrants::Departure::removed);
        }
        if (error != 0) {
            note_failed_act(context, sequence, error);
            return context.fail(error);
        }
        if (!context.call.succeed(0)) note_lost_answer(context, sequence);
    }
};

/// Whether relative paths start at the same place.
bool start_alike(const GivenPath& one, const GivenPath& other) {
    return one.base.valid() == other.base.valid() && one.directory_fd == other.directory_fd;
}

/// `verdict` is that of the new name.
Verdict judge_link(const rules::RenameCheck& moves, const Verdict& verdict, const Object& object,
                   const Place& place, bool& widens) {
    // An object without any name (O_TMPFILE) gets its first one: nothing it had can be widened. One whose
    // names are only not known may have been denied by any of them.
    const bool named = object.status.st_nlink != 0 && !object.unnamed;
    if (verdict.action > rules::Action::ask || !named) return verdict;
    if (object.unlinked && check_enabled("nameless-link")) return refused_move(EXDEV);
    const auto moved = moves.judge({object.path, place.path, kind_of(object.status)});
    if (moved.allowed) return verdict;
    widens = moved.verdict.action == rules::Action::ask;
    return stricter(verdict, moved.verdict);
}

/// Whether this kernel links by AT_EMPTY_PATH without capabilities (since 6.10); before, it looks at nothing
/// else.
bool links_by_descriptor() {
    static const bool known = ::linkat(-1, "", -1, ".", AT_EMPTY_PATH) != 0 && errno != ENOENT;
    return known;
}

}  // namespace

void handle_rename(CallContext& context) {
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
    auto given_new =
        read_path_argument(context, context.entry.second, buffers.second_path, buffers.directory_second);
    if (!given_new) return context.fail(given_new.error().value());

    // Names are resolved under the lock, so that none moves until it was acted on.
    std::shared_lock<std::shared_mutex> shared(context.run.names);
    std::unique_lock<std::shared_mutex> alone(context.run.names, std::defer_lock);
    for (;;) {
        auto old_place = resolve_place(given_old->request(context.thread(), Follow::no));
        if (!old_place) return context.fail(old_place.error().value());
        const PathRequest second = given_new->request(context.thread(), Follow::no);
        auto new_place = start_alike(*given_old, *given_new)
                             ? resolve_place_beside(*old_place, *given_old->text, second)
                             : resolve_place(second);
        if (!new_place) return context.fail(new_place.error().value());
        if (!context.call.waiting()) return;
        Rename rename{context, flags, *old_place, *new_place};
        if (old_place->special || new_place->special) {  // the kernel refuses by itself
            const int result = rename.act();
            return result == 0 ? static_cast<void>(context.call.succeed(0)) : context.fail(errno);
        }
        const int wrong = rename.look();
        if (wrong == 0 && rename.excludes_others() && !alone.owns_lock() && check_enabled("names-lock")) {
            shared.unlock();
            alone.lock();
            continue;
        }
        return wrong != 0 ? context.fail(wrong) : rename.run(*given_old, *given_new);
    }
}

void handle_link(CallContext& context) {
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

    const std::shared_lock<std::shared_mutex> names(context.run.names);
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
    if (object->directory()) return context.fail(EPERM);
    struct stat parent {};
    if (::fstat(place->parent.get(), &parent) == 0 && parent.st_dev != object->status.st_dev)
        return context.fail(EXDEV);
    Subject subject;
    subject.operations = Operation::create;
    subject.object = rules::FileObject{place->path};
    subject.input = input;
    // What has no name yet gets its first: nothing that it had can be widened, nor shown.
    const bool named = object->status.st_nlink != 0 && !object->unnamed;
    if (named) {
        subject.identity = identity_of(object->status);
        subject.source = object->path;
    }
    Verdict verdict = judge_link(context.run.moves, judge(context, subject), *object, *place, subject.widens);
    if (named) verdict = with_grants_gained(context, verdict, object->path, place->path, subject.widens);
    if (const Observation* const observed = context.run.observed) {
        bool widens = false;
        subject.observed =
            judge_link(observed->moves, judge_observed(context, subject), *object, *place, widens);
    }
    std::uint64_t sequence = 0;
    if (rule_on(context, subject, verdict, &sequence) == Ruling::refused) return;
    answer_act(context, sequence, link_pin(context, object->pin.get(), *place));
}

}  // namespace callgate::calls
