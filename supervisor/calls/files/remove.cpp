// unlink, rmdir, unlinkat: a name in a pinned directory goes.
//
// An attacker controls the path, copied once, and may swap what stands at the name until it is removed. A
// rule on `delete` is about the name. It is judged beneath the pinned directory's own path, and removed in
// that very directory, never by walking a path again. Continued only where Landlock alone permits it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>

#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

namespace {

/// The errno of fs/namei.c for the kind of what stands there; 0 none.
int refused_by_kind(const struct stat& there, bool directory_wanted, bool trailing_slash) {
    if (directory_wanted && !S_ISDIR(there.st_mode)) return ENOTDIR;
    if (!directory_wanted && S_ISDIR(there.st_mode)) return EISDIR;
    if (!directory_wanted && trailing_slash) return ENOTDIR;
    return 0;
}

/// The kernel's error for "." and "..", and for the root (fs/namei.c, do_rmdir and do_unlinkat).
int refused_by_name(std::string_view name, bool directory_wanted) {
    if (!directory_wanted) return EISDIR;
    return name == "." ? EINVAL : name == ".." ? ENOTEMPTY : EBUSY;
}

void remove_name(FileCall& context, int flags) {
    if ((flags & ~AT_REMOVEDIR) != 0) return context.fail(EINVAL);
    auto given =
        read_path_argument(context, context.entry.first, context.buffers.path, context.buffers.directory);
    if (!given) return pass_errno(context, given.error().value(), true);
    // Locked before the name is resolved: no directory on the way moves until the act.
    std::shared_lock<NameLock> names(context.files.names);
    std::unique_lock<NameLock> alone(context.files.names, std::defer_lock);
    auto place = resolve_place(given->request(context.thread(), Follow::no));
    const bool lock = place && is_settings_lock(context.needs.enforced.rules, place->path);
    if (lock) {
        names.unlock();
        alone.lock();
        place = resolve_place(given->request(context.thread(), Follow::no));
    }
    if (!context.call.waiting()) return;
    if (!place) return pass_errno(context, place.error().value(), true);
    const bool directory_wanted = (flags & AT_REMOVEDIR) != 0;
    struct stat there {};
    if (place->special) return context.fail(refused_by_name(place->bare(), directory_wanted));
    if (::fstatat(place->parent.get(), place->bare().c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
        return context.fail(errno);
    }
    // Not continued: Landlock would refuse for want of a right before the kernel looks at the kind.
    if (const int error = refused_by_kind(there, directory_wanted, place->trailing_slash))
        return context.fail(error);

    Subject subject;
    subject.operations = rules::Operation::remove;
    subject.object = rules::FileObject{place->path};
    subject.identity = identity_of(there);
    // An object that carries a grant is removed here, so that the grant is forgotten with it.
    const bool carries = context.files.grants.may_carry(place->path);
    const bool held = !carries && context.files.grants.allow(rules::Operation::remove, place->path);
    if (!held || records_every_call(context)) subject.input = input_of(*given, *place);
    if (held) return let_continue(context, subject);

    const Decision decision = decide(context, subject);
    if (!decision.allowed()) return context.fail(decision.error);
    const int result = ::unlinkat(place->parent.get(), place->leaf.c_str(), flags);
    // An object that is made anew under this name does not get the old grant: grants belong to inodes.
    if (result == 0) context.files.grants.forget(place->path, rules::StaticGrants::Departure::removed);
    if (result == 0 && lock) context.files.locks->forget(place->path);
    answer_act(context, decision.sequence, result);
}

}  // namespace

void handle_unlink(FileCall& context) {
    remove_name(context, context.entry.flags < 0 ? 0 : context.integer(context.entry.flags));
}

void handle_rmdir(FileCall& context) { remove_name(context, AT_REMOVEDIR); }

}  // namespace callgate::calls
