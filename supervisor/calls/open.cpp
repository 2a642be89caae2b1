// open, openat, creat, openat2.
//
// An attacker controls the path and (openat2) the flags in memory, both copied once; the directory descriptor
// and the working directory, both pinned; and every name on the way, which siblings may swap at any time.
// What is judged is the pinned object (or the name in a pinned directory) and what is opened is that very
// object: by its pin through our own /proc/self/fd, or created with O_EXCL in the pinned directory; if the
// kernel then finds another object, the whole call is resolved and judged anew. A call is continued only
// where Landlock alone permits all it could do: whatever the path names when the kernel reads it again, it
// can only land in a static hierarchy. Where reads are held by the trap alone somewhere (trap-only), nothing
// that reads is continued.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <mutex>

#include "rules/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/calls/decide.hpp"
#include "supervisor/calls/flag_names.hpp"
#include "supervisor/calls/terminals.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::OperationSet;

constexpr int max_attempts = 64;  // a name that changes more often than this while it is opened is refused

/// What is wanted, whichever call said it.
struct Wanted {
    int flags = 0;
    mode_t mode = 0;
    std::uint64_t resolve = 0;
    bool flags_in_memory = false;

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
    /// On an object that exists.
    [[nodiscard]] OperationSet on_existing() const {
        OperationSet set;
        if (temporary()) {
            set |= Operation::create;
            if (access() == O_RDWR) set |= Operation::read;
            return set;
        }
        if (reads()) set |= Operation::read;
        if (writes() || truncates()) set |= Operation::modify;
        return set;
    }
    /// On one that is made.
    [[nodiscard]] OperationSet on_new() const {
        OperationSet set = Operation::create;
        if (reads()) set |= Operation::read;
        return set;
    }
};

/// fs.protected_fifos or fs.protected_regular: 0, 1 or 2 (sysctl/fs.rst).
int sticky_protection(bool fifo) {
    const auto read = [](const char* path) {
        const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
        char digit = '0';
        return fd && ::read(fd.get(), &digit, 1) == 1 ? digit - '0' : 0;
    };
    static const int fifos = read("/proc/sys/fs/protected_fifos");
    static const int regular = read("/proc/sys/fs/protected_regular");
    return fifo ? fifos : regular;
}

/// The state of one open while it is decided.
class Opening {
public:
    Opening(CallContext& context, const Wanted& wanted, GivenPath given)
        : context_(context), wanted_(wanted), given_(std::move(given)) {}
    void run();

private:
    enum class Next : std::uint8_t { done, again };
    Next existing(Object object);
    Next absent();
    Next create(const Place& place, std::uint64_t sequence);
    Next act_on(const Object& object, std::uint64_t sequence);
    Next reopen_by_name(const Object& object, std::uint64_t sequence);
    void reopen(const Object& object, std::uint64_t sequence);
    void finish(UniqueFd fd, std::uint64_t sequence);
    void finish_failed(std::uint64_t sequence, int error);
    UniqueFd open_pinned(const Object& object, int flags, bool may_block, bool& overload);
    UniqueFd open_terminal(int flags);
    bool take_umask();
    [[nodiscard]] bool continuable(OperationSet operations) const;
    [[nodiscard]] int refused_by_kind(const Object& object) const;
    [[nodiscard]] bool sticky_refuses(const Object& object) const;
    void remember_static(const Object& object, OperationSet operations);
    Subject subject(OperationSet operations, std::string_view path, bool nameless);

    CallContext& context_;
    const Wanted& wanted_;
    GivenPath given_;
};

Subject Opening::subject(OperationSet operations, std::string_view path, bool nameless) {
    Subject subject;
    subject.operations = operations;
    subject.object = rules::FileObject{path, nameless};
    subject.input = input_of(given_);
    name_open_flags(wanted_.flags, context_.scratch.flags);
    subject.input.flags = context_.scratch.flags;
    if (wanted_.creates() || wanted_.temporary()) subject.input.mode = wanted_.mode;
    return subject;
}

/// A read of an object by its very own name, which the target cannot give to another: it need not be resolved
/// again for a while.
void Opening::remember_static(const Object& object, OperationSet operations) {
    if (operations != OperationSet(Operation::read) || wanted_.creates() || object.path != *given_.text)
        return;
    if (wanted_.resolve != 0 || context_.run.plan.record == rules::RecordMode::all) return;
    for (std::size_t end = object.path.size(); end != std::string::npos && end > 0;
         end = object.path.rfind('/', end - 1)) {
        const rules::FileObject name{std::string_view(object.path).substr(0, end)};
        for (const Operation operation : {Operation::create, Operation::remove}) {
            if (context_.run.rules.evaluate({operation, name, {}, {}}).action == rules::Action::allow) return;
        }
    }
    context_.scratch.static_paths.remember(object.path, context_.started_ns);
}

/// Whether the kernel may read path (and flags) again: see the head of this file.
bool Opening::continuable(OperationSet operations) const {
    const bool may_truncate = wanted_.truncates() || wanted_.flags_in_memory;
    if (may_truncate && !context_.run.plan.truncation_held && check_enabled("truncation")) return false;
    if (!context_.run.plan.trap_only || !check_enabled("trap-only")) return true;
    return !operations.contains(Operation::read) && !wanted_.flags_in_memory;
}

/// The errno that fs/namei.c gives for the kind of the object before any security hook is asked; 0 none.
int Opening::refused_by_kind(const Object& object) const {
    if (wanted_.exclusive()) return EEXIST;
    if (object.directory() && wanted_.creates()) return EISDIR;
    if ((wanted_.flags & O_DIRECTORY) != 0 && !object.directory()) return ENOTDIR;
    if (object.symbolic_link()) return ELOOP;
    if (object.directory() && (wanted_.writes() || wanted_.truncates()) && !wanted_.temporary())
        return EISDIR;
    return 0;
}

/// fs/namei.c, may_create_in_sticky: O_CREAT on a stranger's file or FIFO in a shared sticky directory.
/// Reopening by the pin would lose it.
bool Opening::sticky_refuses(const Object& object) const {
    const bool fifo = S_ISFIFO(object.status.st_mode);
    if (!wanted_.creates() || (!fifo && !S_ISREG(object.status.st_mode))) return false;
    const int level = sticky_protection(fifo);
    if (level == 0 || !check_enabled("protected-files") || object.status.st_uid == context_.run.uid)
        return false;
    const std::string parent = object.path.substr(0, std::max<std::size_t>(object.path.rfind('/'), 1));
    struct stat holder {};
    if (::lstat(parent.c_str(), &holder) != 0) return true;
    if ((holder.st_mode & S_ISVTX) == 0 || holder.st_uid == object.status.st_uid) return false;
    return (holder.st_mode & S_IWOTH) != 0 || (level >= 2 && (holder.st_mode & S_IWGRP) != 0);
}

void Opening::run() {
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
        auto object = resolve_object(given_.request(context_.thread(), wanted_.follow(), wanted_.resolve));
        // What was read and pinned is the caller's only if it still waits: its number may be another's by
        // now.
        if (attempt == 0 && !context_.call.waiting()) return;
        Next next = Next::done;
        if (object) {
            next = existing(std::move(*object));
        } else if (object.error().value() == ENOENT && wanted_.creates()) {
            next = absent();
        } else {
            const bool harmless = continuable(wanted_.on_existing());
            return refuse_natively(context_, object.error().value(), harmless);
        }
        if (next == Next::done) return;
    }
    deny_failure(context_, subject(wanted_.on_existing(), *given_.text, false), EAGAIN,
                 "the name changed again and again while it was opened");
}

Opening::Next Opening::existing(Object object) {
    const OperationSet operations = wanted_.on_existing();
    const bool may_continue = continuable(operations);
    if (const int error = refused_by_kind(object)) {
        refuse_natively(context_, error, may_continue);
        return Next::done;
    }
    if (object.anonymous) {  // it is the tree's already: no rule can speak of it
        if (may_continue) {
            context_.call.let_continue();
        } else {
            reopen(object, 0);
        }
        return Next::done;
    }
    if (may_continue && !object.nameless && context_.run.grants.allow(operations, object.path)) {
        remember_static(object, operations);
        let_continue(context_, subject(operations, object.path, false));
        return Next::done;
    }
    Subject judged = subject(operations, object.path, object.nameless);
    judged.identity = identity_of(object.status);
    std::uint64_t sequence = 0;
    const auto own_terminal = terminal_of_run(context_, object);
    const Ruling ruling = own_terminal ? rule_on(context_, judged, *own_terminal, &sequence)
                                       : decide(context_, judged, &sequence);
    if (ruling == Ruling::refused) return Next::done;
    return act_on(object, sequence);
}

Opening::Next Opening::act_on(const Object& object, std::uint64_t sequence) {
    const bool changes = wanted_.writes() || wanted_.truncates();
    if (in_proc_of_callgate(object.path, context_.run.guardian) ||
        (changes && in_proc_of_stranger(object.path, context_.run.guardian)) || sticky_refuses(object)) {
        finish_failed(sequence, EACCES);
        return Next::done;
    }
    if ((wanted_.truncates() || wanted_.temporary()) && kernel::descriptors_exhausted(context_.thread())) {
        finish_failed(sequence, EMFILE);
        return Next::done;
    }
    // A descriptor keeps O_NOFOLLOW among its flags, and a reopen by the pin cannot have it.
    const bool waits = object.may_block() && (wanted_.flags & O_NONBLOCK) == 0;
    if ((wanted_.flags & O_NOFOLLOW) != 0 && !waits && !object.nameless)
        return reopen_by_name(object, sequence);
    reopen(object, sequence);
    return Next::done;
}

/// Opens the last name without following, and believes it only if it is the object that was judged. Nothing
/// happens to another one: no truncation, no waiting.
Opening::Next Opening::reopen_by_name(const Object& object, std::uint64_t sequence) {
    const std::size_t slash = object.path.rfind('/');
    const std::string head = object.path.substr(0, std::max<std::size_t>(slash, 1));
    const std::string leaf = slash + 1 < object.path.size() ? object.path.substr(slash + 1) : ".";
    // No link on the way: what lies at the judged name has the judged name, whoever put it there since.
    const open_how way{O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS};
    const UniqueFd parent(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, head.c_str(), &way, sizeof way)));
    if (!parent && errno == ELOOP) return Next::again;
    constexpr int not_here = O_CREAT | O_EXCL | O_TRUNC;
    const int flags = (wanted_.flags & ~not_here) | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    if (wanted_.temporary() && !take_umask()) return finish_failed(sequence, ESRCH), Next::done;
    UniqueFd fd(parent ? ::openat(parent.get(), leaf.c_str(), flags, wanted_.mode) : -1);
    if (!fd) {
        finish_failed(sequence, errno);
        return Next::done;
    }
    struct stat found {};
    if (!wanted_.temporary() && check_enabled("same-object") &&
        (::fstat(fd.get(), &found) != 0 || found.st_ino != object.status.st_ino ||
         found.st_dev != object.status.st_dev)) {
        return Next::again;
    }
    if (wanted_.truncates() && ::ftruncate(fd.get(), 0) != 0) {
        finish_failed(sequence, errno);
        return Next::done;
    }
    if ((wanted_.flags & O_NONBLOCK) == 0) ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
    finish(std::move(fd), sequence);
    return Next::done;
}

/// This thread gets the caller's umask. False: the caller is gone.
bool Opening::take_umask() {
    const auto caller = kernel::status(context_.thread());
    if (caller) use_umask(context_.scratch, caller->umask);
    return caller.has_value();
}

UniqueFd Opening::open_terminal(int flags) {
    const auto caller = kernel::identity(context_.thread());
    const auto number = caller ? static_cast<dev_t>(static_cast<unsigned>(caller->controlling_terminal)) : 0;
    constexpr unsigned first_pts = 136;
    if (number == 0 || major(number) < first_pts || major(number) > first_pts + 7) {
        errno = ENXIO;
        return {};
    }
    const std::string path = "/dev/pts/" + std::to_string((major(number) - first_pts) * 256 + minor(number));
    return UniqueFd(::open(path.c_str(), flags));
}

UniqueFd Opening::open_pinned(const Object& object, int flags, bool may_block, bool& overload) {
    char name[16];
    *std::to_chars(name, name + sizeof name - 1, object.pin.get()).ptr = 0;
    overload = false;
    if (!check_enabled("pinned-object")) {
        return UniqueFd(
            ::openat(given_.base ? given_.base.get() : AT_FDCWD, given_.text->c_str(), flags, wanted_.mode));
    }
    if (!may_block) return UniqueFd(::openat(kernel::own_descriptors(), name, flags, wanted_.mode));
    if (!context_.blocking.enter()) {
        overload = true;
        return {};
    }
    UniqueFd fd(::openat(kernel::own_descriptors(), name, flags, wanted_.mode));
    const int error = errno;
    context_.blocking.leave();
    errno = error;
    return fd;
}

void Opening::reopen(const Object& object, std::uint64_t sequence) {
    constexpr int not_here = O_CREAT | O_EXCL | O_NOFOLLOW;
    int flags = (wanted_.flags & ~not_here) | O_NOCTTY | O_CLOEXEC;
    if (wanted_.temporary()) {
        flags |= wanted_.flags & O_EXCL;  // of a temporary file: it cannot be linked later
        if (!take_umask()) return finish_failed(sequence, ESRCH);
    }
    if (S_ISCHR(object.status.st_mode) && object.status.st_rdev == makedev(5, 0)) {
        UniqueFd terminal = open_terminal(flags);
        return terminal ? finish(std::move(terminal), sequence) : finish_failed(sequence, errno);
    }
    bool overload = false;
    UniqueFd fd = open_pinned(object, flags, object.may_block() && (flags & O_NONBLOCK) == 0, overload);
    if (fd) return finish(std::move(fd), sequence);
    if (overload) {
        return deny_failure(context_, subject(wanted_.on_existing(), object.path, object.nameless), EAGAIN,
                            "overload: too many calls are blocked");
    }
    if (errno == EINTR && context_.blocking.interruption() != Blocking::Interruption::none) {
        if (!context_.call.interrupt()) note_lost_answer(context_, sequence);
        return;
    }
    finish_failed(sequence, errno);
}

void Opening::finish(UniqueFd fd, std::uint64_t sequence) {
    int error = 0;
    const bool reached = context_.call.hand_over(std::move(fd), (wanted_.flags & O_CLOEXEC) != 0, error);
    if (error != 0) note_failed_act(context_, sequence, error);
    if (!reached) note_lost_answer(context_, sequence);
}

void Opening::finish_failed(std::uint64_t sequence, int error) {
    note_failed_act(context_, sequence, error);
    context_.fail(error);
}

Opening::Next Opening::absent() {
    // Before the name is resolved: no directory on the way moves until it was acted on.
    const std::shared_lock<std::shared_mutex> names(context_.run.names);
    auto place = resolve_creation(given_.request(context_.thread(), wanted_.follow(), wanted_.resolve));
    if (!place && place.error().value() == EEXIST) return Next::again;
    const OperationSet operations = wanted_.on_new();
    OperationSet held = operations;  // the kernel asks Landlock for the right to write to the new file too
    if (wanted_.writes() || wanted_.truncates()) held |= Operation::modify;
    const bool may_continue = continuable(operations);
    if (!place || place->trailing_slash) {
        refuse_natively(context_, place ? EISDIR : place.error().value(), may_continue);
        return Next::done;
    }
    if (place->in_procfs()) {  // where nothing can be created, the kernel says so before anybody is asked
        refuse_natively(context_, ENOENT, may_continue);
        return Next::done;
    }
    if (may_continue && context_.run.grants.allow(held, place->path)) {
        let_continue(context_, subject(operations, place->path, false));
        return Next::done;
    }
    std::uint64_t sequence = 0;
    if (decide(context_, subject(operations, place->path, false), &sequence) == Ruling::refused)
        return Next::done;
    return create(*place, sequence);
}

Opening::Next Opening::create(const Place& place, std::uint64_t sequence) {
    if (kernel::descriptors_exhausted(context_.thread())) return finish_failed(sequence, EMFILE), Next::done;
    if (!take_umask()) return finish_failed(sequence, ESRCH), Next::done;
    // With O_EXCL the kernel makes the object or refuses: it never opens one that was not judged.
    int flags = (wanted_.flags & ~O_TRUNC) | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC;
    if (!check_enabled("exclusive-creation")) flags &= ~O_EXCL;
    UniqueFd fd(::openat(place.parent.get(), place.leaf.c_str(), flags, wanted_.mode));
    if (fd) {
        finish(std::move(fd), sequence);
        return Next::done;
    }
    const int error = errno;
    if (error == EEXIST && !wanted_.exclusive()) {
        note_failed_act(context_, sequence, error);
        return Next::again;
    }
    finish_failed(sequence, error);
    return Next::done;
}

void start(CallContext& context, const Wanted& wanted) {
    const bool scoped = (wanted.resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
    auto given =
        read_path_argument(context, context.entry.first, context.scratch.path, context.scratch.directory,
                           EmptyPath::refuse, scoped ? TakeBase::always : TakeBase::if_relative);
    if (!given) {
        const bool harmless = !context.run.plan.trap_only && context.run.plan.truncation_held;
        return refuse_natively(context, given.error().value(), harmless);
    }
    const bool only_reads = wanted.on_existing() == OperationSet(Operation::read) && !wanted.creates();
    if (only_reads && !wanted.flags_in_memory &&
        context.scratch.static_paths.knows(*given->text, context.started_ns)) {
        context.call.let_continue();
        return;
    }
    Opening(context, wanted, std::move(*given)).run();
}

/// Combinations that the kernel refuses before it reads the path: asked of the kernel itself, with a path
/// that leads nowhere.
bool flags_are_refused(const Wanted& wanted, int& error) {
    constexpr int special = O_TMPFILE | O_DIRECTORY;
    if ((wanted.flags & special) == 0) return false;
    const UniqueFd none(::open("", wanted.flags, wanted.mode));
    error = errno;
    return error == EINVAL;
}

}  // namespace

void handle_open(CallContext& context) {
    Wanted wanted;
    wanted.flags =
        context.entry.flags < 0 ? O_CREAT | O_WRONLY | O_TRUNC : context.integer(context.entry.flags);
    wanted.mode = static_cast<mode_t>(context.word(context.entry.mode)) & 07777;
    int error = 0;
    if (flags_are_refused(wanted, error)) return context.fail(error);
    start(context, wanted);
}

void handle_openat2(CallContext& context) {
    constexpr std::size_t oldest_size = 24;  // OPEN_HOW_SIZE_VER0
    const std::size_t size = context.word(3);
    if (size < oldest_size) return context.fail(EINVAL);
    if (size > 4096) return context.fail(E2BIG);
    std::array<std::byte, 4096> raw{};
    const auto read = kernel::read_memory(context.thread(), context.word(2), std::span(raw.data(), size));
    if (!read) return context.fail(read.error().value());
    // The kernel judges the struct itself: with an empty path it says ENOENT once everything before was in
    // order.
    const UniqueFd none(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, "", raw.data(), size)));
    if (errno != ENOENT) return context.fail(errno);
    open_how how{};
    std::memcpy(&how, raw.data(), sizeof how);
    Wanted wanted;
    wanted.flags = static_cast<int>(how.flags);
    wanted.mode = static_cast<mode_t>(how.mode);
    wanted.resolve = how.resolve;
    wanted.flags_in_memory = true;
    if ((wanted.flags & O_PATH) != 0) {
        // Continuing would read the flags again, which is only sound where nothing that reads is held by the
        // trap alone.
        const bool held = !context.run.plan.trap_only && context.run.plan.truncation_held;
        return held ? void(context.call.let_continue()) : context.fail(ENOSYS);
    }
    start(context, wanted);
}

}  // namespace callgate::calls
