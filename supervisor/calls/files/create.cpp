// mkdir, mknod, symlink and their *at forms: a new name in a pinned directory.
//
// An attacker controls the path (and a link's text), copied once, and may move or replace directories
// meanwhile. The name is judged beneath the pinned directory's own path, and made in that very directory; the
// kernel refuses an existing name by itself. Directories of the run do not move between judging and acting
// (FileNeeds::names). Continued only where Landlock alone permits it. A link's text does not matter inside
// the run: a call that follows it is judged on where it leads. Its name does matter afterwards
// (rules/plan/link_names.hpp). So Landlock lets no link be made, and callgate makes each in the directory
// that was judged.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>

#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/files/carried_entries.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/set_ids.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/with_umask.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

/// The kind of a new object, as far as it decides who makes it. Landlock's grants leave out devices and
/// symbolic links.
enum class Made : std::uint8_t { directory, file, device, link };

/// Judges `create` at the place of the call's path and runs `act(parent, leaf)`, which returns 0 or sets
/// errno.
template <class Act>
void create_name(FileCall& context, const PathArgument& argument, std::optional<std::uint32_t> mode,
                 std::string_view link_text, Made made, Act act) {
    const bool masked = mode && made != Made::directory && leaves_set_ids_out(context, *mode);
    auto given = read_path_argument(context, argument, context.buffers.path, context.buffers.directory);
    if (!given) return pass_errno(context, given.error().value(), !masked);
    // Locked before the name is resolved: no directory on the way moves until the act.
    const std::shared_lock<NameLock> names(context.files.names);
    const auto place = resolve_place(given->request(context.thread(), Follow::no));
    if (!context.call.waiting()) return;
    if (!place) return pass_errno(context, place.error().value(), !masked);
    struct stat there {};
    if (place->special ||
        ::fstatat(place->parent.get(), place->leaf.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return pass_errno(context, EEXIST, !masked);
    }
    Subject subject;
    subject.operations = made == Made::directory ? OperationSet(Operation::create) : create_file(place->path);
    subject.object = rules::FileObject{place->path};
    const bool held =
        made != Made::device && !masked && context.files.grants.allow(subject.operations, place->path);
    if (!held || made == Made::link || records_every_call(context)) subject.input = input_of(*given, *place);
    subject.input.mode = mode;
    subject.input.second_path = link_text;
    if (masked) subject.note = set_ids_left_out;
    if (held) {
        if (made != Made::link) return let_continue(context, subject);
        // `decide` looks at the caller's root where roots can change.
        if (!records_every_call(context) && !context.files.moves.reserves(place->path) &&
            (context.files.keep_capabilities & capability(CAP_SYS_CHROOT)) == 0)
            return answer_act(context, 0, act(place->parent.get(), place->leaf.c_str()));
    }

    Judge judge;
    if (made == Made::link) {
        judge = [&](const Basis& basis) {
            return stricter(evaluate(context, basis, subject),
                            basis.moves.evaluate_link(place->path, EACCES));
        };
    }
    const Decision decision = decide(context, subject, judge);
    if (!decision.allowed()) return context.fail(decision.error);
    std::optional<WithUmask> with_umask;
    if (mode) {
        const auto caller = kernel::status(context.thread());
        if (!caller) return;
        with_umask.emplace(context.buffers, caller->umask);
    }
    SharedMemory::Making making = making_of(context, place->path);
    errno = making.error();
    const int result = errno == 0 ? act(place->parent.get(), place->leaf.c_str()) : -1;
    if (result == 0) making.note(place->parent.get(), place->bare().c_str());
    answer_act(context, decision.sequence, result);
}

}  // namespace

void handle_mkdir(FileCall& context) {
    const auto mode = static_cast<mode_t>(context.word(context.entry.mode));
    create_name(context, context.entry.first, mode & 07777, {}, Made::directory,
                [mode](int parent, const char* leaf) { return ::mkdirat(parent, leaf, mode); });
}

void handle_mknod(FileCall& context) {
    const auto mode = static_cast<mode_t>(context.word(context.entry.mode));
    const auto number = static_cast<unsigned>(context.word(context.entry.mode + 1));
    const mode_t kind = mode & S_IFMT;
    const bool special = S_ISCHR(mode) || S_ISBLK(mode);
    // The kernel looks at the kind before the name (fs/namei.c, may_mknod).
    if (S_ISDIR(mode)) return context.fail(EPERM);
    if (kind != 0 && !special && !S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
        return context.fail(EINVAL);
    // Everybody may make the character device 0:0, which stands for a name that is gone (overlayfs). Any
    // other device is a way to an object that the rules know by another name. It is refused as without
    // CAP_MKNOD, which the run may have kept.
    const bool device = special && !(S_ISCHR(mode) && number == 0);
    const mode_t permitted = permitted_mode(context, mode);
    create_name(context, context.entry.first, mode, {}, special ? Made::device : Made::file,
                [permitted, number, device](int parent, const char* leaf) {
                    if (!device) return ::mknodat(parent, leaf, permitted, static_cast<dev_t>(number));
                    errno = EPERM;
                    return -1;
                });
}

void handle_symlink(FileCall& context) {
    // The text of the link comes before the path: symlinkat(target, newdirfd, linkpath).
    std::string& text = context.buffers.second_path;
    const auto read = kernel::read_path(context.thread(), context.word(context.entry.first.path), text);
    if (!read) return pass_errno(context, read.error().value(), true);
    if (text.empty()) return pass_errno(context, ENOENT, true);
    create_name(context, context.entry.second, std::nullopt, text, Made::link,
                [&text](int parent, const char* leaf) { return ::symlinkat(text.c_str(), parent, leaf); });
}

}  // namespace callgate::calls
