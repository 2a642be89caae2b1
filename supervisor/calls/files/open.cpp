// open, openat, creat, openat2, and TIOCGPTPEER of ioctl.
//
// An attacker controls the path and (openat2) the flags in memory, both copied once. It also controls the
// directory descriptor and the working directory, both pinned, and every name on the way, which siblings may
// swap at any time. The pinned object is judged, or the name in a pinned directory. That very object is then
// opened: by its pin through our own /proc/self/fd, or created with O_EXCL in the pinned directory. If the
// kernel then finds another object, the whole call is resolved and judged anew. A call is continued only if
// Landlock alone permits all it could do. Whatever the path names when the kernel reads it again, it can only
// land in a static hierarchy. So an object that is only read there, by its own name, is continued without
// being judged. For a relative path that is its directory's name and the path. A sibling may change the
// directory meanwhile, and the kernel then holds what it finds. If notifications alone hold some reads
// (notify-only), no call that reads is continued.
//
// A kernel may know flags that callgate does not. Such a flag could change which object is opened, or how. So
// it has no effect in a call that is performed, as in an older kernel: open(2) ignores it, openat2(2) says
// EINVAL. Programs ask for a new flag that way (openat2(2)). A continued call may have it: Landlock asks for
// the object that the kernel finds.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "base/at_or_beneath.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/descriptor_unavailable.hpp"
#include "supervisor/calls/files/held_open.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/files/open_flags.hpp"
#include "supervisor/calls/files/opening.hpp"
#include "supervisor/calls/files/replaced_files.hpp"
#include "supervisor/calls/files/set_ids.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/files/terminals.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/calls/opaque.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

using rules::Operation;
using rules::OperationSet;

namespace {

/// Whether the kernel may read path (and flags) again: see the head of this file.
bool continuable(const FileCall& context, const Wanted& wanted, OperationSet operations) {
    if (context.files.plan.landlock_abi == 0) return false;  // nothing else would hold what it then finds
    // The kernel would make the file with the mode that the target gave.
    if (wanted.bits_left_out != 0 || (wanted.flags_in_memory && context.files.plan.set_ids_left_out))
        return false;
    const bool may_truncate = wanted.truncates() || wanted.flags_in_memory;
    if (may_truncate && !context.files.plan.truncation_held && check_enabled("truncation")) return false;
    if (!context.files.plan.notify_only || !check_enabled("reopened-by-kernel")) return true;
    return !operations.contains(Operation::read) && !wanted.flags_in_memory;
}

/// Whether reading may be continued without a decision: not if every call is recorded.
bool may_go_unjudged(const FileCall& context, const Wanted& wanted) {
    return wanted.resolve == 0 && !records_every_call(context);
}

/// Remembers a path by which an object was read under its very own name. If the target cannot give this name
/// to another object, the path need not be resolved again for a while.
void remember_static(FileCall& context, std::string_view path) {
    StaticPaths& known = context.static_paths;
    // A static path of the run may be contested in a nested one, and the other way round.
    if (!context.needs.nested.empty() || !known.has_come(path, context.started_ns)) return;
    for (std::size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
        const rules::FileObject name{path.substr(0, end)};
        for (const Operation operation : {Operation::create, Operation::remove}) {
            if (context.needs.enforced.rules.evaluate({operation, name, {}, {}}).action ==
                rules::Action::allow)
                return;
        }
    }
    known.remember(path, context.started_ns);
}

/// Whether this only reads beneath a directory that Landlock lets it read by that very name. No link is on
/// the way, and the object is not in procfs. A hierarchy is granted only if no rule denies anything in it, so
/// no rule says anything else of the object. The kernel refuses a name that does not exist. The file system
/// is asked for only beyond a mount: there the root's, which is not procfs, may be another.
bool lies_in_static_hierarchy(FileCall& context, const Wanted& wanted, const std::string& given) {
    constexpr OperationSet read = Operation::read;
    StaticPaths& known = context.static_paths;
    if (wanted.on_existing() != read || wanted.creates() || wanted.flags_in_memory ||
        !may_go_unjudged(context, wanted) || !continuable(context, wanted, read))
        return false;
    // By the texts alone, which only serves to choose how the call is answered.
    std::string& directory = context.buffers.directory;
    std::string& path = context.buffers.second_path;
    path.clear();
    if (!given.starts_with('/')) {
        const int number = directory_of(context, context.entry.first);
        kernel::directory_name(context.thread(), number, directory);
        path.append(directory).append("/");
    }
    path += std::string_view(given).substr(given.starts_with("./") ? 2 : 0);
    if (context.needs.nested.empty() && known.knows(path, context.started_ns)) return true;
    if (!StaticPaths::is_plain(path)) return false;
    const std::string_view holder =
        std::string_view(path).substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    if (!context.files.grants.allow(read, holder)) return false;
    const bool beyond = known.beyond_mount(path);
    const open_how way{O_PATH | O_CLOEXEC, 0,
                       RESOLVE_NO_SYMLINKS | (beyond ? 0U : std::uint64_t{RESOLVE_NO_XDEV})};
    const UniqueFd there(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &way, sizeof way)));
    if (there) {
        if (beyond && in_procfs(there.get())) return false;
        remember_static(context, path);
        return true;
    }
    if (errno == EXDEV) known.note_mount(path);
    return errno == ENOENT;
}

/// A directory without a link is empty for good: reading it tells nothing.
bool is_removed_directory(const Object& object) {
    return object.unlinked && object.directory() && object.status.st_nlink == 0 && !object.in_procfs;
}

}  // namespace

Subject Opening::subject(OperationSet operations, std::string_view path, bool unlinked) {
    Subject subject;
    subject.operations = operations;
    subject.object = rules::FileObject{path, unlinked};
    subject.input = input_of(given_, path);
    name_open_flags(wanted_.flags, context_.buffers.flags);
    subject.input.flags = context_.buffers.flags;
    if (wanted_.creates() || wanted_.temporary()) subject.input.mode = wanted_.mode | wanted_.bits_left_out;
    if (wanted_.bits_left_out != 0 && operations.contains(Operation::create)) subject.note = set_ids_left_out;
    return subject;
}

void Opening::remember_static(const Object& object, OperationSet operations) {
    if (operations == OperationSet(Operation::read) && !wanted_.creates() && object.path == *given_.text &&
        may_go_unjudged(context_, wanted_))
        calls::remember_static(context_, object.path);
}

/// The errno that fs/namei.c gives for the kind of the object before any security hook is asked; 0 none.
int Opening::refused_by_kind(const Object& object) const {
    if (wanted_.exclusive()) return EEXIST;
    if (object.directory() && wanted_.creates()) return EISDIR;
    if ((wanted_.flags & O_DIRECTORY) != 0 && !object.directory()) return ENOTDIR;
    if (wanted_.regular_only && !S_ISREG(object.status.st_mode)) return not_regular_error;
    if (object.symbolic_link()) return ELOOP;
    if (object.directory() && (wanted_.writes() || wanted_.truncates()) && !wanted_.temporary())
        return EISDIR;
    return 0;
}

void Opening::run() {
    // The kernel refuses to create a name that ends with a slash before it looks for it (fs/namei.c,
    // open_last_lookups).
    if (wanted_.creates() && given_.text->ends_with('/') &&
        continuable(context_, wanted_, wanted_.on_existing() | wanted_.on_new())) {
        context_.call.let_continue();
        return;
    }
    if (wanted_.creates() && given_.text->ends_with('/')) {
        const auto place =
            resolve_place(given_.request(context_.thread(), wanted_.follow(), wanted_.resolve));
        if (!context_.call.waiting()) return;
        if (place && !place->special) return context_.fail(EISDIR);
    }
    constexpr int max_attempts = 64;  // a name that changes more often while it is opened is refused
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
        auto object =
            given_.text->empty()
                ? describe(UniqueFd(::fcntl(given_.base.get(), F_DUPFD_CLOEXEC, 0)))
                : resolve_object(given_.request(context_.thread(), wanted_.follow(), wanted_.resolve));
        // Path and pin are the caller's only if it still waits: its number may be another thread's by now.
        if (attempt == 0 && !context_.call.waiting()) return;
        Next next = Next::done;
        if (object) {
            next = existing(std::move(*object));
        } else if (object.error().value() == ENOENT && wanted_.creates()) {
            next = absent();
        } else {
            const bool harmless = continuable(context_, wanted_, wanted_.on_existing());
            return pass_errno(context_, object.error().value(), harmless);
        }
        if (next == Next::done) return;
    }
    deny_failure(context_, subject(wanted_.on_existing(), *given_.text, false), EAGAIN,
                 "the name changed again and again while it was opened");
}

Opening::Next Opening::existing(Object object) {
    const OperationSet operations = wanted_.on_existing();
    const bool may_continue = continuable(context_, wanted_, operations);
    if (const int error = refused_by_kind(object)) {
        pass_errno(context_, error, may_continue);
        return Next::done;
    }
    if (is_removed_directory(object) && operations == OperationSet(Operation::read))
        return reopen(object, 0), Next::done;
    if (holds_open(context_, object, operations)) return act_on(object, 0);
    if (object.unnamed) {  // the tree has it already, and no rule can speak of it
        if (may_continue) {
            context_.call.let_continue();
        } else {
            reopen(object, 0);
        }
        return Next::done;
    }
    // Its name may be gone when the kernel looks for it, and then the file is made.
    OperationSet held = operations;
    if (wanted_.creates()) held |= wanted_.on_new() | create_file(object.path);
    if (may_continue && !object.unlinked && context_.files.grants.allow(held, object.path) &&
        !may_have_been_replaced(context_.files.grants, operations, object)) {
        remember_static(object, operations);
        if (!records_every_call(context_)) return context_.call.let_continue(), Next::done;
        Subject recorded = subject(operations, object.path, false);
        recorded.identity = identity_of(object.status);
        recorded.settled = terminal_of_run(context_, object);
        let_continue(context_, recorded);
        return Next::done;
    }
    Subject judged = subject(operations, object.path, object.unlinked);
    judged.identity = identity_of(object.status);
    judged.settled = terminal_of_run(context_, object);
    std::shared_lock<std::shared_mutex> reaching;
    if (context_.files.opaque != nullptr && process_of_proc(object.path) != 0) {
        // No process becomes opaque from here until the act.
        reaching = std::shared_lock(context_.files.opaque->reaching());
        if (context_.files.opaque->hides(object.path, context_.thread()))
            judged.settled = OpaqueMemories::denial(*operations.begin(), EACCES);
    }
    // By the rules alone Landlock would hold this.
    if (!judged.settled && operations == OperationSet(Operation::read) &&
        context_.files.plan.processes_read && may_go_unjudged(context_, wanted_) &&
        at_or_beneath(object.path, "/proc"))
        return act_on(object, 0);
    const rules::Verdict verdict = judged.settled ? *judged.settled : evaluate(context_, judged);
    if (hand_filtered(object, judged, verdict) || rewrite_count(object, judged)) return Next::done;
    const Decision decision = decide_with(context_, judged, verdict);
    if (!decision.allowed()) return context_.fail(decision.error), Next::done;
    return act_on(object, decision.sequence);
}

Opening::Next Opening::absent() {
    // Locked before the name is resolved: no directory on the way moves until the act.
    const std::shared_lock<NameLock> names(context_.files.names);
    auto place = resolve_creation(given_.request(context_.thread(), wanted_.follow(), wanted_.resolve));
    if (!place && place.error().value() == EEXIST) return Next::again;
    const OperationSet operations = wanted_.on_new() | (place ? create_file(place->path) : OperationSet());
    OperationSet held = operations;  // the kernel asks Landlock for the right to write to the new file too
    if (wanted_.writes() || wanted_.truncates()) held |= Operation::modify;
    const bool may_continue = continuable(context_, wanted_, operations);
    if (!place || place->trailing_slash) {
        pass_errno(context_, place ? EISDIR : place.error().value(), may_continue);
        return Next::done;
    }
    if (place->in_procfs) {  // nothing can be created there: the kernel refuses before it asks anybody
        pass_errno(context_, ENOENT, may_continue);
        return Next::done;
    }
    if (may_continue && context_.files.grants.allow(held, place->path)) {
        if (!records_every_call(context_)) return context_.call.let_continue(), Next::done;
        let_continue(context_, subject(operations, place->path, false));
        return Next::done;
    }
    const Subject judged = subject(operations, place->path, false);
    if (const auto made = make_filtered(*place, judged)) return *made;
    const Decision decision = decide(context_, judged);
    if (!decision.allowed()) return context_.fail(decision.error), Next::done;
    return create(*place, wanted_.flags, decision.sequence);
}

namespace {

/// The kernel's answer to an open whose path leads nowhere: EBADF if it takes an empty path, ENOENT if it
/// does not. Any other error is about flags and mode, which it looks at first. Nothing is ever opened.
int answer_of_kernel(int flags, mode_t mode) {
    return UniqueFd(::openat(-1, "", flags, mode)).valid() ? 0 : errno;
}

EmptyPath takes_empty(const Wanted& wanted) {
    if ((wanted.flags & empty_path_flag) == 0) return EmptyPath::refuse;
    static const bool known = answer_of_kernel(empty_path_flag, 0) == EBADF;
    return known ? EmptyPath::allow : EmptyPath::refuse;
}

void start(FileCall& context, Wanted wanted) {
    if (context.files.locks != nullptr) context.files.locks->counts().settle();
    if (wanted.creates() || wanted.temporary()) {
        const mode_t given = wanted.mode;
        wanted.mode = permitted_mode(context, given);
        wanted.bits_left_out = given & ~wanted.mode;
    }
    const auto pass = [&](int error) {
        const bool harmless = continuable(context, wanted, wanted.on_existing()) &&
                              !context.files.plan.notify_only && context.files.plan.truncation_held;
        pass_errno(context, error, harmless);
    };
    WorkerBuffers& buffers = context.buffers;
    auto given = read_path_argument(context, context.entry.first, buffers.path, buffers.directory,
                                    takes_empty(wanted), TakeBase::later);
    if (!given) return pass(given.error().value());
    // The answer is the only effect, and it reaches no other caller. So it does not matter whether the caller
    // still waits.
    if (lies_in_static_hierarchy(context, wanted, *given->text)) return void(context.call.let_continue());
    const bool scoped = (wanted.resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
    const auto taken = take_base(context, context.entry.first, *given, buffers.directory,
                                 scoped ? TakeBase::always : TakeBase::if_relative);
    if (!taken) return pass(taken.error().value());
    Opening(context, wanted, std::move(*given)).run();
}

/// Whether the kernel refuses these flags before it reads the path. The kernel itself is asked, with a path
/// that leads nowhere. O_DIRECTORY alone is never refused.
bool flags_are_refused(const Wanted& wanted, int& error) {
    constexpr int special = O_TMPFILE | O_DIRECTORY;
    if ((wanted.flags & special) == 0 || (wanted.flags & (special | O_CREAT)) == O_DIRECTORY) return false;
    error = answer_of_kernel(wanted.flags, wanted.mode);
    return error == EINVAL;
}

}  // namespace

void handle_open(FileCall& context) {
    Wanted wanted;
    wanted.flags = context.entry.flags < 0 ? O_CREAT | O_WRONLY | O_TRUNC
                                           : context.integer(context.entry.flags) & known_open_flags;
    wanted.mode = static_cast<mode_t>(context.word(context.entry.mode)) & 07777;
    int error = 0;
    if (flags_are_refused(wanted, error)) return context.fail(error);
    start(context, wanted);
}

namespace {

/// By the numbers of the kernel's devices.txt: consoles, serial lines and pseudo-terminals.
bool is_terminal(dev_t device) {
    constexpr unsigned first = 4, last = 5, first_pts = 136, last_pts = 143;
    const unsigned kind = major(device);
    return (kind >= first && kind <= last) || (kind >= first_pts && kind <= last_pts);
}

}  // namespace

/// TIOCGPTPEER opens the slave of a master, whatever is mounted where. It is judged as an open of that slave.
void handle_terminal_peer(FileCall& context) {
    const auto master = context.caller.cache.descriptor_copy(context.thread(), context.integer(0));
    if (!master) return fail_descriptor_unavailable(context, Operation::modify, master.error().value());
    struct stat status {};
    if (::fstat(master->get(), &status) != 0) return context.fail(errno);
    if ((::fcntl(master->get(), F_GETFL) & O_PATH) != 0) return context.fail(EBADF);
    // The kernel says what is wrong with another terminal. Any other device is not asked: it may mean
    // something else by this request.
    if (!S_ISCHR(status.st_mode) || !is_terminal(status.st_rdev)) return context.fail(ENOTTY);
    UniqueFd slave(::ioctl(master->get(), TIOCGPTPEER, O_PATH | O_CLOEXEC));
    if (!slave) return context.fail(errno);
    constexpr int without_effect = O_CREAT | O_EXCL | O_TRUNC | O_TMPFILE | O_DIRECTORY | O_NOFOLLOW;
    Wanted wanted;
    wanted.flags = context.integer(2) & known_open_flags & ~without_effect;
    GivenPath given;
    given.text = &context.buffers.path;
    given.text->clear();
    given.base = std::move(slave);
    given.directory_fd = context.integer(0);
    Opening(context, wanted, std::move(given)).run();
}

void handle_openat2(FileCall& context) {
    constexpr std::size_t oldest_size = 24;  // OPEN_HOW_SIZE_VER0
    const std::size_t size = context.word(3);
    if (size < oldest_size) return context.fail(EINVAL);
    if (size > 4096) return context.fail(E2BIG);
    std::array<std::byte, 4096> raw{};
    const auto read = kernel::read_memory(context.thread(), context.word(2), std::span(raw.data(), size));
    if (!read) return context.fail(read.error().value());
    // The kernel checks the struct itself, as in answer_of_kernel.
    const UniqueFd none(static_cast<int>(::syscall(SYS_openat2, -1, "", raw.data(), size)));
    if (errno != ENOENT && errno != EBADF) return context.fail(errno);
    open_how how{};
    std::memcpy(&how, raw.data(), sizeof how);
    const bool longer = std::any_of(raw.begin() + sizeof how, raw.begin() + size,
                                    [](std::byte one) { return one != std::byte{}; });
    if (longer) return context.fail(E2BIG);
    const std::uint64_t known = static_cast<std::uint32_t>(known_open_flags) | regular_only_flag;
    if ((how.flags & ~known) != 0 || (how.resolve & ~known_resolve_flags) != 0) return context.fail(EINVAL);
    Wanted wanted;
    wanted.flags = static_cast<int>(how.flags);
    wanted.mode = static_cast<mode_t>(how.mode);
    wanted.resolve = how.resolve;
    wanted.flags_in_memory = true;
    wanted.regular_only = (how.flags & regular_only_flag) != 0;
    if ((wanted.flags & O_PATH) != 0) {
        // Continuing would read flags and mode again. That is sound only if notifications alone hold no
        // read, and no bit of the mode.
        const bool held = !context.files.plan.notify_only && context.files.plan.truncation_held &&
                          !context.files.plan.set_ids_left_out;
        return held ? void(context.call.let_continue()) : context.fail(ENOSYS);
    }
    start(context, wanted);
}

}  // namespace callgate::calls
